"""Counts what fits: pods in sequence as in a dry run, or in rounds, and groups as a whole."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from wharfinger.framework.chain import Chain
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.framework.plugins.pods.pod_topology_spread import PodTopologySpread
from wharfinger.framework.plugins.pods.spread_counts import HardSpread
from wharfinger.framework.prepared import ClaimAllocation
from wharfinger.groups.membership import GroupIndex
from wharfinger.groups.results import GroupResult
from wharfinger.groups.terms import NotFound
from wharfinger.groups.turns import Turn, groups_among, set_group_sizes, turns
from wharfinger.language.report import wording
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model.node_labels import BETA_ZONE, HOSTNAME, REGION, ZONE
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.simulate.placing import place_on
from wharfinger.steps import at_once
from wharfinger.what_if.further_pods import FurtherPod, WorkloadPods, further_groups
from wharfinger.what_if.supposed_changes import NewNode, SupposedChanges, nodes_like

if TYPE_CHECKING:
    from wharfinger.groups.attempt import Attempt

MAX_RULES = 4
MAX_RESOURCES = 3
MAX_MODELS = 3
MAX_KINDS = 64  # kinds of nodes among which those are looked for that help
PLACED_PER_DECISION = 20  # how many times faster a round places pods than single decisions

_FIT = "NodeResourcesFit"
_SHORT = "Insufficient "
_ZONES = (ZONE, REGION, BETA_ZONE)


class Stop(Struct, frozen=True, kw_only=True):
    """The reasons why a pod finds no node.

    `reasons` counts nodes, most first; `victims` on `nominated` are the pods that it would have to evict.
    """

    pod: str
    message: str
    reasons: tuple[tuple[str, int], ...]
    nominated: str | None = None
    victims: tuple[str, ...] = ()


class Candidates(Struct, frozen=True, kw_only=True):
    """Changes that could make more pods fit, the most promising first."""

    models: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()


class Found(Struct):
    """The result for one workload: the node of each placed pod."""

    group: WorkloadPods
    placed: list[str] = field(default_factory=list)
    more: list[str] = field(default_factory=list)
    at_least: bool = False
    stop: Stop | None = None
    candidates: Candidates = Candidates()


class FoundGroup(Struct):
    """The result for one group: the nodes of its members, and of the members of each further group like it.

    `domains` has the domains of each placed group, the given one first. `stop` is the reason why the next one has no place, and `stopped`
    is one of its members without a node.
    """

    key: str
    pods: tuple[PodView, ...]
    placed: list[str] = field(default_factory=list)
    result: GroupResult | None = None
    more: list[tuple[str, ...]] = field(default_factory=list)
    domains: list[dict[str, str]] = field(default_factory=list)
    at_least: bool = False
    stop: GroupResult | None = None
    stopped: PodView | None = None

    @property
    def total(self) -> int:
        """The number of groups that have a place for all of their members."""
        return len(self.more) + (len(self.placed) == len(self.pods))


class Count:
    """Places the pods of workloads, and further ones, on a state with supposed changes, which are undone at the end.

    `members` are pods of groups: these are placed as a whole, and after `count`, `groups` has the result for each.
    """

    def __init__(
        self,
        chain: Chain,
        supposed: SupposedChanges,
        limit: int,
        advance: Callable[[], None] = lambda: None,
        members: Sequence[PodView] = (),
    ) -> None:
        self._chain = chain
        self._supposed = supposed
        self._state = supposed.state
        self._limit = limit
        self._advance = advance
        self._members = members
        self._decider = Decider(chain)
        self.decisions = 0
        self.groups: dict[str, FoundGroup] = {}
        self.candidates: dict[str, Candidates] = {}  # of groups, by key

    def count(
        self, groups: Sequence[WorkloadPods], new: Sequence[NewNode] = (), last: int | None = None, *, candidates: bool = False
    ) -> list[Found]:
        """The pods of each workload that fit with these new nodes; further pods are counted up to workload number `last`.

        With `candidates`, these are also found for groups.
        """
        together = GroupCount(self._decider, self._supposed, groups_among(self._chain, self._state, self._members), self._advance)
        try:
            self._add(new)
            found = [Found(group) for group in groups]
            self._place(found, together)
            for key, own in together.found.items():
                together.fill(key, max(1, self._limit // len(own.pods)))
                if own.stopped is not None and candidates:
                    self.candidates[key] = self._candidates_for_group(own.stopped)
            for each in found if last is None else found[: last + 1]:
                self._fill(each)
            return found
        finally:
            self.decisions += together.decisions
            self.groups = together.found
            self._supposed.undo()

    def total(self, groups: Sequence[WorkloadPods], number: int, new: Sequence[NewNode] = ()) -> tuple[int, bool]:
        """(how many pods of the workload of that number fit, whether the limit ended the count)."""
        if len(groups) == 1 and groups[0].are_equal and not self._members:
            return self._in_rounds(groups[0], new)
        found = self.count(groups, new, number)[number]
        return len(found.placed) + len(found.more), found.at_least

    def fit_on(self, groups: Sequence[WorkloadPods], new: Sequence[NewNode], limit: int) -> int | None:
        """The number of further equal pods that these new nodes take, `limit` at most; None if other nodes matter."""
        if len(groups) > 1 or not groups[0].are_equal or self._members:
            return None
        names, placed = {node.name for node in new}, 0
        waiting = itertools.islice(groups[0].further(self._state), limit)
        try:
            self._add(new)
            for further in waiting:
                decision = self._decide(self._supposed.claimed(further.pod))
                if decision.node is not None and not self._is_order_free(decision):
                    return None
                if any(policy.policy.metrics for policy in decision.evaluation.pod_rules.governing):
                    return None  # a node without a sample may suspend rules for all nodes
                nodes = [node for node in decision.feasible_nodes() if node in names]
                if not nodes:
                    break
                placed += len(self._round(nodes, itertools.chain([further], waiting)))
            return placed
        finally:
            self._supposed.undo()

    def groups_like(self, groups: Sequence[WorkloadPods], key: str, new: Sequence[NewNode]) -> tuple[int, bool]:
        """(how many groups like that of the key have a place, itself among them, whether the limit ended the count)."""
        self.count(groups, new, -1)
        found = self.groups[key]
        return found.total, found.at_least

    def _add(self, new: Sequence[NewNode]) -> None:
        for node in new:
            self._supposed.add(node)

    def _decide(self, pod: PodView) -> Decision:
        self.decisions += 1
        return self._decider.decide(self._state.snapshot(), pod)

    def _put(self, pod: PodView, node: str, claims: Sequence[ClaimAllocation] = ()) -> None:
        self._supposed.place(self._chain.assigned_on(pod, self._state.snapshot(), node), node, claims)
        self._advance()

    def _place(self, found: Sequence[Found], together: GroupCount) -> None:
        """Place the given pods in queue order; unschedulable ones are tried again as long as others are placed."""
        numbers = {pod.uid: number for number, each in enumerate(found) for pod in each.group.pods}
        asked = [*(pod for each in found for pod in each.group.pods), *self._members]
        waiting = turns(self._chain, together.index, asked)
        progress = True
        while waiting and progress:
            left: list[Turn] = []
            stopped: set[int] = set()
            for turn in waiting:
                if turn.group is not None:
                    if not together.place(turn.group, turn.pods):
                        left.append(turn)
                    continue
                (pod,) = turn.pods
                number = numbers[pod.uid]
                node = self._node_for(FurtherPod(pod), found[number], first=number not in stopped)
                if node is None:
                    stopped.add(number)
                    left.append(turn)
                else:
                    found[number].placed.append(node)
            progress = len(left) < len(waiting)
            waiting = left

    def _fill(self, found: Found) -> None:
        """Place further pods of a workload whose pods are all placed, until one finds no node or there are enough."""
        if len(found.placed) < len(found.group.pods):
            return
        found.stop = None  # it may have been placed after others only
        if found.group.are_equal and self._saturated(found):
            return
        for further in found.group.further(self._state):
            if len(found.more) == self._limit:
                found.at_least = True
                return
            node = self._node_for(further, found)
            if node is None:
                return
            found.more.append(node)

    def _node_for(self, further: FurtherPod, found: Found, *, first: bool = True) -> str | None:
        """The node of a placed pod, None if there is none; the reason is kept if the pod is the `first` without a node."""
        pod = further.pod
        gate = self._chain.gate(pod)
        if gate is not None:
            n_nodes = self._state.snapshot().n_nodes
            found.stop = Stop(pod=pod.key, message=gate.text, reasons=((gate.text, n_nodes),))
            return None
        for claim in further.claims:
            self._supposed.put(claim)
        decision = self._decide(self._supposed.claimed(pod))
        if decision.node is not None:
            self._put(decision.pod, decision.node, decision.claims)
        elif first:
            found.stop = _stop(decision)
            found.candidates = self._candidates(decision)
        return decision.node

    # ── in rounds ──

    def _in_rounds(self, group: WorkloadPods, new: Sequence[NewNode]) -> tuple[int, bool]:
        """`total` for a workload of equal pods: a pod on each feasible node at once, as long as filters look at one node alone.

        Where the filters know the number, none is placed.
        """
        try:
            self._add(new)
            limit = len(group.pods) + self._limit
            waiting = itertools.islice(itertools.chain(map(FurtherPod, group.pods), group.further(self._state)), limit)
            placed = 0
            while (further := next(waiting, None)) is not None:
                decision = None if self._chain.gate(further.pod) is not None else self._decide(self._supposed.claimed(further.pod))
                if decision is None or decision.node is None:
                    return placed, False
                room = self._room_for_equal(decision)
                if room is not None:
                    return min(placed + room, limit), placed + room >= limit
                if not self._is_order_free(decision):
                    self._put(decision.pod, decision.node, decision.claims)
                    placed += 1
                    continue
                placed += len(self._round(decision.feasible_nodes(), itertools.chain([further], waiting)))
            return placed, placed == limit
        finally:
            self._supposed.undo()

    def _saturated(self, found: Found) -> bool:
        """Place further equal pods in rounds until one finds no node. The number per node then does not depend on the order.

        False, with none of them placed, where the order matters: a filter looks at several nodes, or there is room for more than the limit.
        """
        waiting, placed = found.group.further(self._state), list[tuple[PodView, str]]()
        for further in waiting:
            decision = self._decide(self._supposed.claimed(further.pod))
            if decision.node is None:
                found.more += [node for _, node in placed]
                found.stop, found.candidates = _stop(decision), self._candidates(decision)
                return True
            nodes = decision.feasible_nodes()
            least = self._room_by_requests(decision) if _is_alone(decision) else len(nodes)
            if not self._is_order_free(decision) or len(placed) + least >= self._limit:
                break
            placed += self._round(nodes, itertools.chain([further], waiting))
        for pod, _ in placed:
            self._supposed.leave(pod)
        return False

    def _round(self, nodes: Sequence[str], waiting: Iterator[FurtherPod]) -> list[tuple[PodView, str]]:
        """Place a waiting pod on each of these nodes; (the pod, its node) of each."""
        taken = [(further.pod, node) for node, further in zip(nodes, waiting, strict=False)]
        for pod, node in taken:
            self._put(pod, node)
        self.decisions += len(taken) // PLACED_PER_DECISION
        return taken

    def _is_order_free(self, decision: Decision) -> bool:
        """True if pods like that of a decision have an effect on their own nodes alone: their order does not change their number."""
        return decision.diagnosis.are_local(self._state.snapshot())

    def _room_for_equal(self, decision: Decision) -> int | None:
        """The number of pods like that of a decision that fit, its own included; None if the filters that ran do not know it.

        Filters that read pods must know the room of each node, and topology spread constraints the sum. No pod may be nominated, because
        its requests would count too.
        """
        snapshot, filtering = self._state.snapshot(), decision.evaluation.filtering
        reading_pods = {slot.plugin.name: slot.rule for slot in filtering.slots if not slot.skipped and slot.volatility > Volatility.STATIC}
        spread = reading_pods.pop(PodTopologySpread.name, None)
        rows = np.flatnonzero(filtering.passing_others(PodTopologySpread.name))
        rooms = [room for rule in reading_pods.values() if (room := rule.room(snapshot, rows)) is not None]
        if not rooms or len(rooms) < len(reading_pods) or len(snapshot.nominated_rows):
            return None
        room = reduce(np.minimum, rooms)
        return spread.total(snapshot, rows, room) if isinstance(spread, HardSpread) else int(room.sum())

    def _room_by_requests(self, decision: Decision) -> int:
        """The number of pods that the feasible nodes of a decision have resources for, at least one each; other filters may allow fewer."""
        snapshot = self._state.snapshot()
        rows = np.flatnonzero(decision.evaluation.filtering.feasible)
        room = snapshot.allowed_pods[rows] - snapshot.pod_count[rows]
        for name, amount in decision.pod.requests.items():
            index = snapshot.resource_index(name)
            if amount and index is not None:
                room = np.minimum(room, (snapshot.allocatable[index][rows] - snapshot.requested[index][rows]) // amount)
        return int(np.maximum(room, 1).sum())

    # ── candidates ──

    def _candidates(self, decision: Decision, *, zonal: bool = False) -> Candidates:
        """Changes that could help a pod; with `zonal`, nodes of different zones are different."""
        of_policies = {f"{policy.name}/{rule.name}" for policy in self._chain.policies for rule in policy.policy.filters}
        filters = [found for found in decision.diagnosis.filters if found.alone]
        rules = sorted((found for found in filters if found.plugin in of_policies), key=lambda found: (-found.alone, found.plugin))
        short = Counter[str]()
        for found in filters:
            if found.plugin == _FIT:
                short.update({text.removeprefix(_SHORT): n for text, n in found.reasons.items() if text.startswith(_SHORT)})
        asked = decision.pod.requests
        resources = sorted((name for name in short if asked.get(name, 0) > 1), key=lambda name: (-short[name], name))
        return Candidates(
            models=self._models(decision.pod, zonal=zonal or not _is_alone(decision)),
            resources=tuple(resources[:MAX_RESOURCES]),
            rules=tuple(found.plugin for found in rules[:MAX_RULES]),
        )

    def _candidates_for_group(self, member: PodView) -> Candidates:
        """Changes that could help a group that stops at a member. If the member fits alone, any of its resources may be short."""
        found = self._candidates(self._decide(member), zonal=True)
        asked = tuple(sorted(name for name, amount in member.requests.items() if amount > 1))
        return replace(found, resources=found.resources or asked[:MAX_RESOURCES])

    def _models(self, pod: PodView, *, zonal: bool) -> tuple[str, ...]:
        """Kinds of nodes that would take the pod with one more, the most frequent kind first; kinds differ by zone if it may matter."""
        kinds = _kinds(self._state, zonal=zonal)
        with SupposedChanges(self._state) as supposed:
            made = [(new, model) for model in kinds for new in nodes_like(self._state.snapshot(), model)]
            for new, _ in made:
                supposed.add(new)
            feasible = set(self._decide(pod).feasible_nodes())
        return tuple(model for new, model in made if new.name in feasible)[:MAX_MODELS]


def _is_alone(decision: Decision) -> bool:
    """True if no filter that ran looks at more than one node."""
    ran = decision.diagnosis.ran
    return bool(ran) and all(plugin.filter_volatility < Volatility.GLOBAL for plugin in ran)


def _stop(decision: Decision) -> Stop:
    reasons = wording.most_first(decision.diagnosis.reasons)
    return Stop(
        pod=decision.pod.key,
        message=decision.message,
        reasons=tuple(reasons),
        nominated=decision.nominated,
        victims=tuple(victim.key for victim in decision.victims),
    )


def _kinds(state: ClusterState, *, zonal: bool) -> list[str]:
    """The first node by name of each kind: nodes with equal resources, taints and labels, apart from names and, unless `zonal`, zones."""
    kinds: dict[Hashable, list[str]] = {}
    apart = {HOSTNAME, *(() if zonal else _ZONES)}
    taint_sets = state.snapshot().taint_set.tolist()
    _, names, nodes = state.nodes_listed()
    for name, node, taints in zip(names, nodes, taint_sets, strict=True):
        labels = tuple(sorted((key, value) for key, value in node.metadata.labels.items() if key not in apart))
        offered = tuple(sorted(node.status.allocatable.items()))
        kinds.setdefault((offered, taints, labels), []).append(name)
    ordered = sorted(kinds.values(), key=lambda names: (-len(names), min(names)))
    return [min(names) for names in ordered[:MAX_KINDS]]


class GroupCount:
    """Places groups on a state with supposed changes; `index` has them and their members."""

    def __init__(self, decider: Decider, supposed: SupposedChanges, index: GroupIndex, advance: Callable[[], None]) -> None:
        self._decider = decider
        self._chain = decider.chain
        self._supposed = supposed
        self.index = index
        self._advance = advance
        self.decisions = 0
        self.found: dict[str, FoundGroup] = {}

    def place(self, key: str, pods: Sequence[PodView]) -> bool:
        """True if all these members of a group, and all that it needs, have a node now."""
        own = self.found.setdefault(key, FoundGroup(key, tuple(pods)))
        placed = {pod.uid for pod in self.index.members(key) if pod.node_name}
        waiting = [pod for pod in pods if pod.uid not in placed]
        free = [pod for pod in waiting if self._chain.gate(pod) is None]
        found = self._attempt(key, free)
        if own.result is None or found.placed:
            own.result = found.result
        own.placed += self._put(found)
        if found.placed and not own.domains:
            own.domains.append(dict(found.result.domains))
        own.stop = None if len(found.placed) == len(waiting) and waiting else found.result
        own.stopped = _first_left(found)
        return own.stop is None

    def fill(self, key: str, limit: int) -> None:
        """Place further groups like one whose members are all placed, until one has no place or there are `limit`."""
        own = self.found[key]
        if own.stop is not None:
            return
        state = self._supposed.state
        for further in further_groups(self.index, key, own.pods, state):
            if len(own.more) >= limit:
                own.at_least = True
                return
            if further.pod_group is not None:
                self._supposed.put(further.pod_group)
            for pod in further.pods:
                self.index.put(pod)
            set_group_sizes(self.index, state)
            found = self._attempt(self.index.key_of(further.pods[0].uid) or key, further.pods)
            if len(found.placed) < len(further.pods):
                own.stop, own.stopped = found.result, _first_left(found)
                for pod in further.pods:
                    self.index.remove(pod.uid)
                return
            own.more.append(tuple(self._put(found)))
            own.domains.append(dict(found.result.domains))

    def _attempt(self, key: str, pods: Sequence[PodView]) -> Attempt:
        from wharfinger.groups.attempt import attempt  # noqa: PLC0415 — most questions have no groups, and start earlier without

        self.decisions += len(pods)
        claimed = tuple(map(self._supposed.claimed, pods))
        found = at_once(attempt(self._decider, self._supposed.state, self.index, key, claimed))
        if isinstance(found.answer, NotFound):
            self.decisions += found.answer.steps
        return found

    def _put(self, found: Attempt) -> list[str]:
        for pod, node in found.placed:
            self.index.put(place_on(self._decider, self._supposed, pod, node).placed_on(node))
            self._advance()
        return [node for _, node in found.placed]


def _first_left(found: Attempt) -> PodView | None:
    """A member that was tried and has no node; None if all have one, or members were missing."""
    return found.without[0] if found.answer is not None and found.without else None
