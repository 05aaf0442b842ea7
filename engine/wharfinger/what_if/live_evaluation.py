"""Evaluations by a running scheduler, for autoscalers and pipelines: a request and an answer in JSON.

Each is answered on a copy of the scheduler's state that is brought up to date first, in slices of the event loop, one at a time. After an
answer there is a pause, so that requests without end take a limited share of the time. A request that waits longer than `PATIENCE` ends
with an error. The copy is freed when nobody has asked for `IDLE` seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from wharfinger.errors import UnknownObject, UsageError, WharfingerError
from wharfinger.event_loop import in_slices
from wharfinger.framework.chain import Chain
from wharfinger.language.report import wording
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import files, workloads
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.followed_copy import FollowedCopy
from wharfinger.what_if.capacity.count import NodesLike
from wharfinger.what_if.evaluation import ChangedCluster, Evaluated, change, evaluated
from wharfinger.what_if.supposed_changes import SupposedChanges

if TYPE_CHECKING:
    from wharfinger.framework.ports import Clock
    from wharfinger.model.state.snapshot import Snapshot
    from wharfinger.scheduler.scheduler import Scheduler

MOST_PODS = 1000
MOST_NEW_NODES = 500
MOST_DRAINED = 100
MOST_BYTES = 2 * 2**20
PATIENCE = 20.0
IDLE = 300.0
REST = 3.0
"""After an answer, the pause before the next one is so many times as long as the answer took, at most `LONGEST_REST`."""
LONGEST_REST = 2.0


class EvaluationBusy(WharfingerError):
    """No answer within `PATIENCE` seconds: other requests take the time."""


class NewNodes(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Nodes to suppose."""

    like: Annotated[str, Meta(description="The name of the node that they are like.")]
    count: Annotated[int, Meta(ge=1, le=MOST_NEW_NODES, description="How many.")] = 1


class EvaluationRequest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    """The body of a request to `/evaluate`."""

    objects: Annotated[list[dict[str, Any]], Meta(max_length=MOST_PODS, description="Manifests of pods and workloads to place.")] = field(
        default_factory=list
    )
    nodes: Annotated[list[NewNodes], Meta(max_length=32, description="Nodes that are supposed to be there.")] = field(default_factory=list)
    drain: Annotated[
        list[str], Meta(max_length=MOST_DRAINED, description="Nodes that are supposed to be drained; their pods are placed too.")
    ] = field(default_factory=list)
    scheduler_name: Annotated[
        str | None, Meta(description="The profile that decides; by default the one of the first pod, or the scheduler's first profile.")
    ] = None


class EvaluatedPod(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The answer about one pod."""

    pod: Annotated[str, Meta(description="Its `namespace/name`.")]
    node: Annotated[str | None, Meta(description="The node that it would get; null if there is none.")]
    source: Annotated[str | None, Meta(description="The drained node that it leaves.")] = field(default=None, name="from")
    message: Annotated[str, Meta(description="Why it gets no node.")] = ""
    reasons: Annotated[dict[str, int], Meta(description="How many nodes are rejected for each reason, if it gets none.")] = field(
        default_factory=dict
    )
    victims: Annotated[list[str], Meta(description="The pods that preemption would evict for it.")] = field(default_factory=list)


class NewNode(Struct, frozen=True, kw_only=True):
    """A node that was supposed."""

    name: str
    like: str


class EvaluationAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer of `/evaluate`."""

    placed: Annotated[int, Meta(description="How many pods get a node.")]
    unschedulable: Annotated[int, Meta(description="How many do not.")]
    pods: Annotated[list[EvaluatedPod], Meta(description="Each pod, in the order of the queue.")]
    new_nodes: Annotated[list[NewNode], Meta(description="The names of the nodes that were supposed, as they stand in `pods`.")]
    remarks: Annotated[list[str], Meta(description="What could not be looked up, and fields that Kubernetes does not know.")]
    scheduler_name: Annotated[str, Meta(description="The profile that decided.")]
    policy_revision: Annotated[str, Meta(description="The revision of its policies.")]
    state_revision: Annotated[int, Meta(description="The revision of the scheduler's state that the answer is for.")]


def schema() -> dict[str, Any]:
    """The JSON Schemas of a request and of its answer."""
    (request, answer), definitions = msgspec.json.schema_components([EvaluationRequest, EvaluationAnswer], ref_template="#/$defs/{name}")
    return {"request": request, "answer": answer, "$defs": definitions}


def read_request(body: bytes) -> EvaluationRequest:
    """The request in a body; UsageError where it is none."""
    try:
        return msgspec.json.decode(body, type=EvaluationRequest)
    except msgspec.DecodeError as error:
        raise UsageError(f"the body is not a request: {error}") from None


class LiveEvaluations:
    """Answers requests about the state of one scheduler."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turn = asyncio.Lock()
        self._copy = FollowedCopy()
        self._rests_until = 0.0
        self._idle: asyncio.TimerHandle | None = None

    async def of(self, scheduler: Scheduler, request: EvaluationRequest) -> EvaluationAnswer:
        """The answer to a request as of now.

        UnknownObject for a node or a profile that is not there, UsageError for too much, InvalidObject for a manifest that cannot be read,
        EvaluationBusy after `PATIENCE`.
        """
        try:
            async with asyncio.timeout(PATIENCE), self._turn:
                rest = self._rests_until - self._clock.monotonic()
                if rest > 0:
                    await self._clock.sleep(rest)
                began = self._clock.monotonic()
                try:
                    return await self._answer(scheduler, request)
                finally:
                    ended = self._clock.monotonic()
                    self._rests_until = ended + min(REST * (ended - began), LONGEST_REST)
                    self._drop_later()
        except TimeoutError:
            raise EvaluationBusy(f"no answer within {PATIENCE:g} s; too much is asked for, ask again later") from None

    async def _answer(self, scheduler: Scheduler, request: EvaluationRequest) -> EvaluationAnswer:
        snapshot = scheduler.state.snapshot()
        known = files.Objects(by_kind={kind: snapshot.objects.all(kind) for kind in (objects.PriorityClass, objects.RuntimeClass)})
        expansion, remarks = await asyncio.to_thread(_expanded, request.objects, known)
        name, chain = _profile(scheduler, request, expansion.pods)
        now = scheduler.state.snapshot(float(int(self._clock.now())))
        with closing(_answered(self._copy, chain, now, expansion, request)) as steps:
            changed, found = await in_slices(steps, self._clock)
        placed = sum(each.result.node is not None for each in found)
        return EvaluationAnswer(
            placed=placed,
            unschedulable=len(found) - placed,
            pods=list(map(_plain, found)),
            new_nodes=[NewNode(name=node, like=model) for node, model in changed.new],
            remarks=remarks,
            scheduler_name=name,
            policy_revision=chain.policy_revision,
            state_revision=now.revision,
        )

    def _drop_later(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(IDLE, self._copy.drop)


def _expanded(manifests: list[dict[str, Any]], known: files.Objects) -> tuple[workloads.Expansion, list[str]]:
    """The pods of manifests, and what is to be said about these."""
    listed = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": manifests})
    given = files.read_bytes(listed, "objects", written=True)
    expansion = workloads.expand(given, known, most=MOST_PODS)
    left_out = [f"{count} {kind} left out: not a kind that pods are made of" for kind, count in given.ignored.items()]
    return expansion, [*given.unknown_fields, *left_out, *expansion.warnings]


def _profile(scheduler: Scheduler, request: EvaluationRequest, pods: tuple[objects.Pod, ...]) -> tuple[str, Chain]:
    """The name and the chain of the profile that decides."""
    chains = {profile.name: profile.chain for profile in scheduler.profiles}
    if request.scheduler_name is not None and request.scheduler_name not in chains:
        raise UnknownObject(f"there is no profile {request.scheduler_name}; there are {', '.join(chains)}")
    asked = request.scheduler_name or (pods[0].spec.scheduler_name if pods else "")
    name = asked if asked in chains else next(iter(chains))
    return name, chains[name]


def _answered(
    copy: FollowedCopy, chain: Chain, snapshot: Snapshot, expansion: workloads.Expansion, request: EvaluationRequest
) -> Generator[None, None, tuple[ChangedCluster, tuple[Evaluated, ...]]]:
    state = yield from copy.follow(snapshot)
    with SupposedChanges(state) as supposed:
        for made in expansion.made:
            supposed.put(made)
        pods = tuple(map(PodView, expansion.pods))
        _not_placed(pods, state)
        changed = yield from change(supposed, _wanted(request, state, len(pods)), request.drain)
        found = yield from evaluated(chain, supposed, pods, changed.moved)
    return changed, found


def _wanted(request: EvaluationRequest, state: ClusterState, n_pods: int) -> list[NodesLike]:
    """The nodes to suppose. UnknownObject for a node that is not there, UsageError for too many nodes or pods."""
    snapshot = state.snapshot()
    if sum(each.count for each in request.nodes) > MOST_NEW_NODES:
        raise UsageError(f"at most {MOST_NEW_NODES:,} nodes can be supposed at a time")
    for each in request.nodes:
        snapshot.known_row(each.like)
    n_pods += sum(len(snapshot.pods_on(snapshot.known_row(name))) for name in set(request.drain))
    if n_pods > MOST_PODS:
        raise UsageError(f"{wording.count(n_pods, 'pod')} to place, those of drained nodes included; at most {MOST_PODS:,} are at a time")
    return [NodesLike(model=each.like, count=each.count) for each in request.nodes]


def _not_placed(pods: tuple[PodView, ...], state: ClusterState) -> None:
    """Raises UsageError for a pod that has a node."""
    for pod in pods:
        if state.is_placed(pod.uid):
            raise UsageError(f"pod {pod.key} is there already, on a node")


def _plain(found: Evaluated) -> EvaluatedPod:
    result = found.result
    if result.node is not None:
        return EvaluatedPod(pod=result.pod, node=result.node, source=found.source, victims=list(result.victims))
    return EvaluatedPod(pod=result.pod, node=None, source=found.source, message=result.message, reasons=dict(result.reasons))
