"""Evaluations by a running scheduler, for autoscalers and pipelines: a request and an answer in JSON.

Each is answered on a copy of the scheduler's state that is brought up to date first, in slices of the event loop, one at a time. After an
answer there is a pause, so that requests without end take a limited share of the time. A request that waits longer than `TIMEOUT` ends
with an error. The copy follows the state every `FOLLOW_SECONDS` seconds, and is freed after no question for `IDLE_SECONDS` seconds.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct, field, structs

from wharfinger.errors import UnknownObject, UsageError, WharfingerError
from wharfinger.event_loop import BuildThread, in_slices
from wharfinger.framework.chain import Chain
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.groups.results import GroupResult
from wharfinger.language.report import wording
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode, files, workloads
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.copies import FollowedCopy
from wharfinger.simulate.dry_run import PodResult
from wharfinger.what_if.drain.answer import Drain, DrainedPod, DrainOutcome
from wharfinger.what_if.drain.plan import drain_steps, precompute_drain
from wharfinger.what_if.supposed_changes import NodesLike, SupposedChanges, added, evaluated

if TYPE_CHECKING:
    from wharfinger.framework.ports import Clock
    from wharfinger.model.state.snapshot import Snapshot
    from wharfinger.scheduler.scheduler import Scheduler

MAX_PODS = 1000
MAX_NEW_NODES = 500
MAX_DRAINED = 100
MAX_NAME = 253  # characters of a name in Kubernetes
MAX_BYTES = 2 * 2**20
TIMEOUT = 20.0
IDLE_SECONDS = 300.0
FOLLOW_SECONDS = 1.0
PAUSE_RATIO = 3.0
"""The pause after an answer, as a multiple of the time that the answer took, at most `MAX_PAUSE`."""
MAX_PAUSE = 2.0
MAX_KEPT = 5_000_000
"""Results of a rule for a node that are kept from one question to the next."""


class EvaluationBusy(WharfingerError):
    """No answer within `TIMEOUT` seconds: other requests take the time."""


class NewNodes(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Nodes to suppose."""

    like: Annotated[str, Meta(max_length=MAX_NAME, description="The name of the node that they are like.")]
    count: Annotated[int, Meta(ge=1, le=MAX_NEW_NODES, description="How many.")] = 1


class EvaluationRequest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    """The body of a request to `/evaluate`."""

    objects: Annotated[list[dict[str, Any]], Meta(max_length=MAX_PODS, description="Manifests of pods and workloads to place.")] = field(
        default_factory=list
    )
    nodes: Annotated[list[NewNodes], Meta(max_length=32, description="Nodes that are supposed to be there.")] = field(default_factory=list)
    drain: Annotated[
        list[Annotated[str, Meta(max_length=MAX_NAME)]],
        Meta(max_length=MAX_DRAINED, description="Nodes that are supposed to be drained in this order, as `wharf drain` does."),
    ] = field(default_factory=list)
    force: Annotated[bool, Meta(description="Let pods leave drained nodes that no controller creates again.")] = False
    delete_empty_dir_data: Annotated[bool, Meta(description="Let pods leave drained nodes whose emptyDir is deleted with them.")] = field(
        default=False, name="deleteEmptyDirData"
    )
    scheduler_name: Annotated[
        Annotated[str, Meta(max_length=MAX_NAME)] | None,
        Meta(description="The profile that decides; by default the one of the first pod, or the scheduler's first profile."),
    ] = None


class EvaluatedDevice(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A device that a pod would get."""

    claim: Annotated[str, Meta(description="The claim, `namespace/name`; empty without a claim, or if the scheduler makes it.")]
    request: Annotated[str, Meta(description="The request of the claim, or the resource, that the device serves.")]
    driver: Annotated[str, Meta(description="Its driver; for GPUs without a driver, the resource that counts them.")]
    pool: Annotated[str, Meta(description="Its pool.")]
    device: Annotated[str, Meta(description="Its name in the pool; for GPUs without a driver, its index on the node.")]
    admin_access: Annotated[bool, Meta(description="True if the device may be in use by others.")] = False
    capacity: Annotated[dict[str, str], Meta(description="The part that it gets of a device which others may share.")] = field(
        default_factory=dict
    )


class EvaluatedPod(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The answer about one pod."""

    pod: Annotated[str, Meta(description="Its `namespace/name`.")]
    node: Annotated[str | None, Meta(description="The node that it would get; null if there is none.")]
    outcome: Annotated[
        str,
        Meta(
            description="`placed`; `waits`: no node for it. Of pods of drained nodes also `gone`: it leaves and is not created again; "
            "`forbidden`: a PodDisruptionBudget keeps it; `refused`: kubectl would stop the drain because of it."
        ),
    ]
    source: Annotated[str | None, Meta(description="The node that it leaves; null for a pod of the request.")] = None
    step: Annotated[int | None, Meta(description="The step of the drain in which it leaves; null if it does not leave.")] = None
    displaced_by: Annotated[str | None, Meta(description="The pod for which preemption evicts it during the drain.")] = None
    message: Annotated[str, Meta(description="Why it gets no node, or may not leave.")] = ""
    reasons: Annotated[dict[str, int], Meta(description="How many nodes are rejected for each reason, if it gets none.")] = field(
        default_factory=dict
    )
    victims: Annotated[list[str], Meta(description="The pods that preemption would evict for it.")] = field(default_factory=list)
    devices: Annotated[list[EvaluatedDevice], Meta(description="The devices that it would get on its node.")] = field(default_factory=list)


class EvaluatedDomain(Struct, frozen=True, kw_only=True):
    """The number of members of a group that a domain takes."""

    key: Annotated[str, Meta(description="The topology key; empty for the whole cluster.")]
    value: Annotated[str, Meta(description="The value of the label.")]
    fits: Annotated[int, Meta(description="How many members it takes at once.")]
    wanted: Annotated[int, Meta(description="How many must be placed at once.")]
    reasons: Annotated[dict[str, int], Meta(description="How many of its nodes are rejected for each reason for the next member.")]


class EvaluatedGroup(Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer about a group of pods."""

    group: Annotated[str, Meta(description="Its `namespace/name`.")]
    source: Annotated[str, Meta(description="Its source: a PodGroup, a label, or a policy.")]
    state: Annotated[
        str,
        Meta(description="`placed`, `placed in part`, `waits for members`, `waits for room`, or `not found`: the search found no answer."),
    ]
    members: Annotated[int, Meta(description="How many members are known.")]
    placed: Annotated[int, Meta(description="How many of them have a node in the end.")]
    message: Annotated[str, Meta(description="Why others have none.")]
    domains: Annotated[dict[str, str], Meta(description="Where it is placed, by topology key.")]
    nearest: Annotated[list[EvaluatedDomain], Meta(description="The domains that take most members, where it has no place.")]
    victims: Annotated[list[str], Meta(description="The pods that preemption would evict for it.")]


class BudgetAsked(Struct, frozen=True, kw_only=True, rename="camel"):
    """The use of one PodDisruptionBudget by a drain."""

    budget: Annotated[str, Meta(description="Its `namespace/name`.")]
    pods: Annotated[int, Meta(description="How many of its pods are to leave.")]
    allowed_now: Annotated[int, Meta(description="How many evictions it allows now.")]
    forbidden: Annotated[int, Meta(description="How many of its pods could not leave in any step.")]


class NewNode(Struct, frozen=True, kw_only=True):
    """A node that was supposed."""

    name: str
    like: str


class EvaluationAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer of `/evaluate`."""

    placed: Annotated[int, Meta(description="How many pods get a node.")]
    unschedulable: Annotated[int, Meta(description="How many wait for one: those whose `outcome` is `waits`.")]
    pods: Annotated[
        list[EvaluatedPod],
        Meta(
            description="Each pod, in the order of the queue; with a drain, first those that leave, in the order in which they leave, then "
            "those that may not, then those that were asked about. Pods of DaemonSets and static pods are left out."
        ),
    ]
    groups: Annotated[
        list[EvaluatedGroup], Meta(description="The groups of the pods of the request, in the order in which they are tried.")
    ]
    steps: Annotated[int, Meta(description="The steps of the drain: pods of one step leave together.")]
    budgets: Annotated[list[BudgetAsked], Meta(description="The use of PodDisruptionBudgets by the drain.")]
    new_nodes: Annotated[list[NewNode], Meta(description="The names of the added nodes, as in `pods`.")]
    warnings: Annotated[
        list[str],
        Meta(description="Warnings: objects that are left out, unknown fields, pods of another scheduler than the one that decided."),
    ]
    scheduler_name: Annotated[str, Meta(description="The profile that decided.")]
    policy_revision: Annotated[str, Meta(description="The revision of its policies.")]
    state_revision: Annotated[int, Meta(description="The revision of the scheduler's state that the answer is for.")]


def schema() -> dict[str, Any]:
    """The JSON Schemas of a request and of its answer."""
    (request, answer), definitions = msgspec.json.schema_components([EvaluationRequest, EvaluationAnswer], ref_template="#/$defs/{name}")
    return {"request": request, "answer": answer, "$defs": definitions}


def read_request(body: bytes) -> EvaluationRequest:
    """The request in a body; UsageError for an invalid body."""
    try:
        return msgspec.json.decode(body, type=EvaluationRequest)
    except msgspec.ValidationError as error:
        raise UsageError(f"the body is not a request: {decode.explain(str(error))}") from None
    except decode.NOT_JSON as error:
        raise UsageError(f"the body is {decode.not_json(error)}") from None


class LiveEvaluations:
    """Answers requests about the state of one scheduler."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turn = asyncio.Lock()
        self._thread = BuildThread(clock)
        self._copy = FollowedCopy()
        self._kept: tuple[ClusterState, Chain, Decider] | None = None
        self._paused_until = 0.0
        self._idle: asyncio.TimerHandle | None = None
        self._later: asyncio.TimerHandle | None = None
        self._following: asyncio.Task[None] | None = None

    async def of(self, scheduler: Scheduler, request: EvaluationRequest) -> EvaluationAnswer:
        """The answer to a request as of now.

        UnknownObject for a node or a profile that does not exist, UsageError for too much and for fields without effect, InvalidObject for
        a manifest that cannot be read, EvaluationBusy after `TIMEOUT`.
        """
        _refuse_without_effect(request)
        try:
            async with asyncio.timeout(TIMEOUT), self._turn:
                rest = self._paused_until - self._clock.monotonic()
                if rest > 0:
                    await self._clock.sleep(rest)
                began = self._clock.monotonic()
                try:
                    return await self._answer(scheduler, request)
                finally:
                    ended = self._clock.monotonic()
                    self._paused_until = ended + min(PAUSE_RATIO * (ended - began), MAX_PAUSE)
                    self._drop_later()
                    self._follow_later(scheduler)
        except TimeoutError:
            raise EvaluationBusy(f"no answer within {TIMEOUT:g} s; the request is too large, try again later") from None

    async def _answer(self, scheduler: Scheduler, request: EvaluationRequest) -> EvaluationAnswer:
        snapshot = scheduler.state.snapshot()
        by_kind = {kind: snapshot.objects.all(kind) for kind in workloads.LOOKED_UP}
        if any(manifest.get("kind") == objects.DaemonSet.__name__ for manifest in request.objects):
            by_kind[objects.Node] = [snapshot.node_object(row) for row in range(snapshot.n_nodes)]
        expansion, warnings = await self._thread.run_without_rest(_expanded, request.objects, files.Objects(by_kind=by_kind))
        name, chain = _profile(scheduler, request, expansion.pods)
        if request.scheduler_name is None:
            warnings += _of_other_schedulers(expansion.pods, name)
        now = scheduler.snapshot()
        with closing(self._evaluate_steps(scheduler, chain, now, expansion, request)) as steps:
            new, found = await in_slices(steps, self._clock)
        outcomes = Counter(each.outcome for each in found.pods)
        return EvaluationAnswer(
            placed=outcomes[DrainOutcome.PLACED.value],
            unschedulable=outcomes[DrainOutcome.WAITS.value],
            pods=found.pods,
            groups=found.groups,
            steps=found.steps,
            budgets=found.budgets,
            new_nodes=[NewNode(name=node, like=model) for node, model in new],
            warnings=warnings,
            scheduler_name=name,
            policy_revision=chain.policy_revision,
            state_revision=now.revision,
        )

    def _drop_later(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._drop)

    def _drop(self) -> None:
        for pending in (self._later, self._following):
            if pending is not None:
                pending.cancel()
        self._kept = self._later = None
        self._copy.drop()

    def _follow_later(self, scheduler: Scheduler) -> None:
        """Bring the copy up to date every `FOLLOW_SECONDS` seconds, so that the first question after a while need not wait for that."""

        def begin() -> None:
            self._following = asyncio.ensure_future(self._follow(scheduler))

        if self._later is not None:
            self._later.cancel()
        self._later = asyncio.get_running_loop().call_later(FOLLOW_SECONDS, begin)

    async def _follow(self, scheduler: Scheduler) -> None:
        async with self._turn:
            with closing(self._copy.follow(scheduler.snapshot())) as steps:
                await in_slices(steps, self._clock)
        self._follow_later(scheduler)

    def _evaluate_steps(
        self, scheduler: Scheduler, chain: Chain, snapshot: Snapshot, expansion: workloads.Expansion, request: EvaluationRequest
    ) -> Generator[None, None, tuple[tuple[tuple[str, str], ...], _Found]]:
        """A generator of steps that returns the names of new nodes with those of their models, and the answer."""
        state = yield from self._copy.follow(snapshot)
        decider = self._decider(scheduler, chain, state)
        with SupposedChanges(state) as supposed:
            for made in expansion.made:
                supposed.put(made)
                yield
            pods = tuple(map(PodView, expansion.pods))
            _not_placed(pods, state)
            new = yield from added(supposed, _supposed_nodes(request, state, len(pods)))
            if not request.drain:
                if not request.objects:
                    raise UsageError("the request asks about no pods: give pods or workloads in `objects`, or nodes in `drain`")
                results = yield from evaluated(decider, supposed, pods)
                return new, _Found(
                    pods=[_placed_or_not(result) for result in results.pods], groups=[_group(each) for each in results.groups]
                )
            yield from precompute_drain(decider, supposed, request.drain, pods)
            drained = yield from drain_steps(
                decider,
                supposed,
                request.drain,
                force=request.force,
                delete_empty_dir_data=request.delete_empty_dir_data,
                waiting=pods,
            )
        return new, _of_drain(drained)

    def _decider(self, scheduler: Scheduler, chain: Chain, state: ClusterState) -> Decider:
        """The decider of the last question if it is for the same chain and the same copy: rules are not prepared again then.

        Pods that would wait for a suspended policy are not decided.
        """
        if self._kept is None or self._kept[0] is not state or self._kept[1] is not chain:
            self._kept = state, chain, Decider(scheduler.budget.held_back(chain, scheduler.snapshot), max_cells=MAX_KEPT)
        return self._kept[2]


def _refuse_without_effect(request: EvaluationRequest) -> None:
    """Raise UsageError for the flags of a drain without a drain."""
    given = {"force": request.force, "deleteEmptyDirData": request.delete_empty_dir_data}
    unused = next((name for name, value in given.items() if value), None)
    if unused is not None and not request.drain:
        raise UsageError(f"`{unused}` is about the pods of drained nodes, and `drain` names none; give it too, or leave out `{unused}`")


def _expanded(manifests: list[dict[str, Any]], known: files.Objects) -> tuple[workloads.Expansion, list[str]]:
    """The pods of manifests, and warnings about them."""
    listed = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": manifests})
    given = files.read_bytes(listed, "objects", written=True)
    expansion = workloads.expand(given, known, limit=MAX_PODS)
    return expansion, [*given.skipped, *given.unknown_fields, *workloads.left_out(given), *expansion.warnings]


def _profile(scheduler: Scheduler, request: EvaluationRequest, pods: tuple[objects.Pod, ...]) -> tuple[str, Chain]:
    """The name and the chain of the profile that decides."""
    chains = {profile.name: profile.chain for profile in scheduler.profiles}
    if request.scheduler_name is not None and request.scheduler_name not in chains:
        raise UnknownObject(f"there is no profile {request.scheduler_name}; there are {', '.join(chains)}")
    asked = request.scheduler_name or (pods[0].spec.scheduler_name if pods else "")
    name = asked if asked in chains else next(iter(chains))
    return name, chains[name]


def _of_other_schedulers(pods: Iterable[objects.Pod], name: str) -> list[str]:
    """A sentence about pods that have another `schedulerName` than the profile that decides; none if there are none."""
    others = [objects.key_of(pod) for pod in pods if pod.spec.scheduler_name != name]
    return [f"pod {wording.capped(others, 1)}: another scheduler's; the answer is for {name}"] if others else []


class _Found(Struct, frozen=True, kw_only=True):
    pods: list[EvaluatedPod]
    groups: list[EvaluatedGroup] = field(default_factory=list)
    steps: int = 0
    budgets: list[BudgetAsked] = field(default_factory=list)


def _group(result: GroupResult) -> EvaluatedGroup:
    near = result.nearest
    return EvaluatedGroup(
        group=result.group,
        source=result.source,
        state=result.state.value,
        members=result.members,
        placed=result.placed,
        message=result.message,
        domains=dict(result.domains),
        nearest=[EvaluatedDomain(key=fit.key, value=fit.value, fits=fit.fits, wanted=fit.wanted, reasons={**fit.reasons}) for fit in near],
        victims=list(result.victims),
    )


def _of_drain(drained: Drain) -> _Found:
    return _Found(
        pods=[_drained(pod) for pod in drained.pods if pod.outcome is not DrainOutcome.STAYS],
        groups=[*map(_group, drained.groups)],
        steps=drained.steps,
        budgets=[
            BudgetAsked(budget=use.budget, pods=use.pods, allowed_now=use.allowed, forbidden=use.forbidden) for use in drained.budgets
        ],
    )


def _drained(pod: DrainedPod) -> EvaluatedPod:
    message = "" if pod.node is not None else pod.reason
    answered = None if pod.placement is None else _placed_or_not(pod.placement)
    return EvaluatedPod(
        pod=pod.pod,
        node=pod.node,
        outcome=pod.outcome.value,
        source=pod.source or None,
        step=pod.step,
        displaced_by=pod.displaced_by,
        message=message,
        reasons={} if answered is None else answered.reasons,
        victims=[] if answered is None else answered.victims,
        devices=[] if answered is None else answered.devices,
    )


def _placed_or_not(result: PodResult) -> EvaluatedPod:
    if result.node is not None:
        devices = [EvaluatedDevice(**structs.asdict(device)) for device in result.devices]
        return EvaluatedPod(
            pod=result.pod, node=result.node, outcome=DrainOutcome.PLACED.value, victims=list(result.victims), devices=devices
        )
    return EvaluatedPod(pod=result.pod, node=None, outcome=DrainOutcome.WAITS.value, message=result.message, reasons=dict(result.reasons))


def _supposed_nodes(request: EvaluationRequest, state: ClusterState, n_pods: int) -> list[NodesLike]:
    """The nodes to suppose. UnknownObject for a node that does not exist, UsageError for too many nodes or pods."""
    snapshot = state.snapshot()
    if sum(each.count for each in request.nodes) > MAX_NEW_NODES:
        raise UsageError(f"at most {MAX_NEW_NODES:,} nodes can be added at a time")
    for each in request.nodes:
        snapshot.known_row(each.like)
    n_pods += sum(len(snapshot.pods_on(snapshot.known_row(name))) for name in set(request.drain))
    if n_pods > MAX_PODS:
        raise UsageError(f"{wording.count(n_pods, 'pod')} to place, those of drained nodes included; at most {MAX_PODS:,} are at a time")
    return [NodesLike(model=each.like, count=each.count) for each in request.nodes]


def _not_placed(pods: tuple[PodView, ...], state: ClusterState) -> None:
    """Raise UsageError for a pod that has a node."""
    for pod in pods:
        if state.is_placed(pod.uid):
            raise UsageError(f"pod {pod.key} is there already, on a node")
