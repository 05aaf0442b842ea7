"""The effect of other policies or settings: each pod is placed by the chain before and by the chain after, and the two are compared.

Each chain places all pods in sequence on its own copy of the cluster. A pod can end on another node because a rule decided differently, or
only because earlier pods are on other nodes. To distinguish these, the chain before decides the pod again, on the state of the chain after:
if it chooses the same node there as the chain after, no rule makes a difference for this pod, and it *follows* the others. Otherwise the
rules that make the difference on this state are its causes.

In two processes, the chain before places its pods in a child process. The chain after does not wait for it: while it is behind, the chain
before decides every pod again, also those that turn out not to differ. The child says the node of each pod as it is placed. A pod with the
same node on both sides is not decided again, unless it is evicted on the side before alone.

Over a decision log, both chains make each recorded decision on the cluster as it was then. No decision rests on an earlier one there, so
every change has rules that cause it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from wharfinger.explain.conditions import PolicyExplainer
from wharfinger.explain.difference import Cause, causes
from wharfinger.framework.chain import Chain
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.framework.pod_devices import PodDevice
from wharfinger.groups.turns import age_key, queue_key
from wharfinger.model.node_labels import ZONE
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.copies import copied
from wharfinger.model.state.snapshot import Snapshot
from wharfinger.scheduler.decision_log.reading import LogReader, decisions
from wharfinger.simulate import device_claims, replay
from wharfinger.simulate.dry_run import DryRun, PodResult, dry_run
from wharfinger.simulate.placing import Tried, ignore
from wharfinger.steps import at_once
from wharfinger.what_if.child_process import Advance, Pending, can_fork, in_child, in_this_process
from wharfinger.what_if.leaving_pods import recreated


class ChangeKind(Enum):
    """The ways in which a pod changes: to another node, to none, from none to a node, or to other devices of the same node."""

    ELSEWHERE = "elsewhere"
    LOST = "lost"
    GAINED = "gained"
    DEVICES = "devices"


class Domain(Struct, frozen=True, kw_only=True):
    """The nodes with one value of a label (None: without the label), and the pods on them."""

    value: str | None
    nodes: int
    pods: int


class Spread(Struct, frozen=True, kw_only=True):
    """The pods in each domain of a label, sorted by value; nodes without the label are last."""

    label: str
    domains: tuple[Domain, ...]


class Side(Struct, frozen=True, kw_only=True):
    """A chain, the dry run of the pods by it, and how the pods are spread afterwards."""

    chain: Chain
    run: DryRun
    spreads: tuple[Spread, ...]


class PodChange(Struct, frozen=True, kw_only=True):
    """A pod that is on another node after than before, on none on one side, or on the same node with other devices.

    A message is the reason why there is no node, "" if there is one. `follows`: no rule decides differently about this pod, it only follows
    others; `causes` are empty then. `group` is the group with which the pod is placed on either side, or "".
    """

    pod: str
    before: str | None
    after: str | None
    before_message: str
    after_message: str
    follows: bool
    causes: tuple[Cause, ...]
    before_devices: tuple[PodDevice, ...] = ()
    after_devices: tuple[PodDevice, ...] = ()
    group: str = ""

    @property
    def way(self) -> ChangeKind:
        """The way in which the pod changes."""
        if self.before is None:
            return ChangeKind.GAINED
        if self.after is None:
            return ChangeKind.LOST
        return ChangeKind.DEVICES if self.before == self.after else ChangeKind.ELSEWHERE


class GroupChange(Struct, frozen=True, kw_only=True):
    """Several members of a group that change in the same way and by the same rules, in the order of the changes."""

    group: str
    members: tuple[PodChange, ...]

    @property
    def before(self) -> tuple[str, ...]:
        """The nodes before, sorted."""
        return tuple(sorted({member.before for member in self.members if member.before is not None}))

    @property
    def after(self) -> tuple[str, ...]:
        """The nodes after, sorted."""
        return tuple(sorted({member.after for member in self.members if member.after is not None}))


class Totals(Struct, frozen=True, kw_only=True):
    """The number of pods by the way in which they change, and by rule; a pod counts once for each of its causes."""

    elsewhere: int
    lost: int
    gained: int
    follow: int
    rules: tuple[tuple[str, int], ...]
    devices: int = 0

    @property
    def changes(self) -> int:
        """The number of pods that change; for `devices` of them, only their devices."""
        return self.elsewhere + self.lost + self.gained + self.devices


class Diff(Struct, frozen=True, kw_only=True, dict=True):
    """Two sides and the pods that differ between them, in the order in which the side after placed them.

    `pods` is the number of pods that were placed; `replaced` those of them that had been running.
    """

    before: Side
    after: Side
    changes: tuple[PodChange, ...]
    pods: int
    replaced: int

    @cached_property
    def totals(self) -> Totals:
        """The changes, counted."""
        return totals((change.before, change.after, change.follows, change.causes) for change in self.changes)

    @cached_property
    def rows(self) -> tuple[PodChange | GroupChange, ...]:
        """The changes in order, with members of a group that change in the same way at the position of the first of them."""
        alike: defaultdict[tuple[object, ...], list[PodChange]] = defaultdict(list)
        for change in self.changes:
            alike[(change.group, change.way, _rules(change)) if change.group else (change.pod,)].append(change)
        return tuple(found[0] if len(found) == 1 else GroupChange(group=found[0].group, members=tuple(found)) for found in alike.values())

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about conflicts of policies on either side, each once."""
        return tuple(dict.fromkeys((*self.before.run.notes, *self.after.run.notes)))


def _rules(change: PodChange) -> tuple[str, ...]:
    return tuple(cause.rule for cause in change.causes)


def totals(changes: Iterable[tuple[str | None, str | None, bool, Sequence[Cause]]]) -> Totals:
    """The sums over changes: (node before, node after, follows, causes) of each."""
    listed = list(changes)
    rules = Counter(rule for _, _, _, found in listed for rule in dict.fromkeys(cause.rule for cause in found))
    return Totals(
        elsewhere=sum(before is not None and after not in {None, before} for before, after, _, _ in listed),
        devices=sum(before is not None and before == after for before, after, _, _ in listed),
        lost=sum(after is None for _, after, _, _ in listed),
        gained=sum(before is None for before, _, _, _ in listed),
        follow=sum(follows for _, _, follows, _ in listed),
        rules=tuple(sorted(rules.items(), key=lambda found: (-found[1], found[0]))),
    )


def diff(  # noqa: PLR0913 — the keywords are independent choices
    before: Chain,
    after: Chain,
    state: ClusterState,
    pods: Sequence[PodView],
    *,
    replaced: Sequence[PodView] = (),
    labels: Sequence[str] = (),
    advance: Callable[[], None] = lambda: None,
    in_two_processes: bool = False,
) -> Diff:
    """Compare where two chains place the waiting `pods` and the running `replaced`. `state` stays as it is.

    Where pods are replaced, they are taken from their nodes and placed with all others in order of age, as if the cluster were filled
    again; otherwise pods are placed in queue order. `labels` are those by whose values the pods are counted, by default the zone.
    `advance` is called for every pod and side. With `in_two_processes`, a child process places the pods of the side before, where
    `child_process.can_fork`; the answer is the same. UnknownObject for a label that no node has.
    """
    state.snapshot().require_labels(labels)
    placing = _Placing(state, [*map(recreated, replaced), *pods], replaced, labels or (ZONE,))
    compute = in_child if in_two_processes and can_fork() else in_this_process
    first_nodes: dict[str, str | None] = {}

    def advance_before(uid: str, node: str | None) -> None:
        first_nodes[uid] = node
        advance()

    with compute(partial(placing.saying_nodes, before), (before, *placing.pods), advance_before) as pending:
        comparison = _Comparison(before, after, pending, first_nodes)
        later = placing.by(after, advance, comparison.tried)
        former = pending.result()
    found = comparison.found(former)
    if missed := comparison.missed(former, later):
        found |= _compared_again(before, after, placing, missed)
    changes = (*_changes_of_pods(former, later, found), *_of_others(state, former, later))
    return Diff(before=former.side, after=later.side, changes=changes, pods=len(later.results), replaced=len(replaced))


class _Placed(Struct, frozen=True, kw_only=True, dict=True):
    """A side with the results of all pods by uid, and their nodes in the end, when preemption may have evicted some of them."""

    side: Side
    results: Mapping[str, PodResult]
    nodes: Mapping[str, str | None]

    @cached_property
    def evicted_for(self) -> Mapping[str, str]:
        """The pod for which each evicted pod had to leave; both by `namespace/name`."""
        return {victim: result.pod for result in self.side.run.results for victim in result.victims}

    @cached_property
    def groups(self) -> frozenset[str]:
        """The groups with which pods were placed."""
        return frozenset(group.group for group in self.side.run.groups)

    def message(self, uid: str) -> str:
        """The reason why a pod has no node in the end; "" if it has one."""
        if self.nodes[uid] is not None:
            return ""
        result = self.results[uid]
        return result.message if result.node is None else _evicted(self.evicted_for.get(result.pod))

    def devices(self, uid: str) -> tuple[PodDevice, ...]:
        """The devices of a pod in the end."""
        return () if self.nodes[uid] is None else self.results[uid].devices


def _evicted(why: str | None) -> str:
    return f"evicted for {why}" if why else "evicted"


class _Placing:
    """Places the same pods on copies of one state."""

    def __init__(self, state: ClusterState, pods: Sequence[PodView], without: Sequence[PodView], labels: Sequence[str]) -> None:
        self.pods = pods
        self._snapshot = state.snapshot()
        self._without = without
        self._order = age_key if without else queue_key
        self._labels = labels

    def by(self, chain: Chain, advance: Callable[[], None], tried: Tried = ignore) -> _Placed:
        """The pods placed by a chain; `advance` is called for each pod, `tried` with each decision before pods are evicted for it."""
        state = at_once(copied(self._snapshot, frozenset(pod.uid for pod in self._without)))
        for pod in self._without:
            device_claims.give_back_claims(state, pod)
        run = dry_run(chain, state, self.pods, advance=advance, order=self._order, tried=tried)
        end = state.snapshot()
        spreads = tuple(_spread(end, label) for label in self._labels)
        return _Placed(
            side=Side(chain=chain, run=run, spreads=tuple(spread for spread in spreads if spread is not None)),
            results={pod.uid: result for pod, result in zip(run.pods, run.results, strict=True)},
            nodes={pod.uid: _node(end, pod.uid) for pod in run.pods},
        )

    def saying_nodes(self, chain: Chain, advance: Advance) -> _Placed:
        """The pods placed by a chain; `advance` is called for each pod with its uid and the node that it gets at first, or None."""
        decided: tuple[str, str | None] = ("", None)

        def tried(decision: Decision, _snapshot: Snapshot) -> None:
            nonlocal decided
            decided = decision.pod.uid, decision.node

        return self.by(chain, lambda: advance(*decided), tried)


def _node(snapshot: Snapshot, uid: str) -> str | None:
    placed = snapshot.placed(uid)
    return None if placed is None else snapshot.names[placed[0]]


def _spread(snapshot: Snapshot, label: str) -> Spread | None:
    """The pods in each domain of a label; None if no node has it."""
    codes = snapshot.label(label)
    present = np.unique(codes).tolist()
    found = [
        Domain(value=snapshot.strings.text(code), nodes=int(within.sum()), pods=int(snapshot.pod_count[within].sum()))
        for code in present
        for within in [codes == code]
    ]
    if all(domain.value is None for domain in found):
        return None
    return Spread(label=label, domains=tuple(sorted(found, key=lambda domain: (domain.value is None, domain.value or ""))))


class _Tried(NamedTuple):
    """A decision of the chain after, and the causes if the chain before decides otherwise on the same state; None if it was not asked."""

    node: str | None
    nominated: str | None
    group: str
    causes: tuple[Cause, ...] | None


class _Reasons:
    """Finds the causes of differences between two chains on the states of one cluster."""

    def __init__(self, before: Chain, after: Chain) -> None:
        self._decider = Decider(before)
        self._explainers = (PolicyExplainer(before), PolicyExplainer(after))

    def of(self, decision: Decision, snapshot: Snapshot) -> tuple[Cause, ...]:
        """The causes why the chain before decides otherwise; empty if it does not. The details of the decision must be current."""
        former = self._decider.decide(snapshot, decision.pod)
        return tuple(causes(former, decision, snapshot, self._explainers))


class _Comparison:
    """Compares the decisions of the chain after, as they are made, with those that the chain before makes on the same state.

    `first_nodes` are the nodes that pods got on the side before, by uid, as far as it has come.
    """

    def __init__(self, before: Chain, after: Chain, former: Pending[_Placed], first_nodes: Mapping[str, str | None]) -> None:
        self._reasons = _Reasons(before, after)
        self._former = former
        self._first_nodes = first_nodes
        self._last: dict[str, _Tried] = {}

    def tried(self, decision: Decision, snapshot: Snapshot) -> None:
        """Find the causes if the pod may end on another node. A later attempt that places it nowhere finds nothing new."""
        uid = decision.pod.uid
        if uid in self._last and decision.node is None and decision.nominated is None:
            return
        known = self._former.if_done()
        if known is None:
            may_differ = decision.node is None or decision.node != self._first_nodes.get(uid)
        else:
            may_differ = self._may_differ(known, uid, decision)
        found = self._reasons.of(decision, snapshot) if may_differ else None
        self._last[uid] = _Tried(decision.node, decision.nominated, decision.group, found)

    def found(self, former: _Placed) -> dict[str, tuple[Cause, ...]]:
        """The causes for each pod that may end on another node, by uid, as far as they were looked for."""
        return {uid: last.causes for uid, last in self._last.items() if last.causes is not None and self._may_differ(former, uid, last)}

    def missed(self, former: _Placed, later: _Placed) -> frozenset[str]:
        """The pods for which no causes were looked for, and that are evicted on the side before alone."""
        return frozenset(
            uid
            for uid, last in self._last.items()
            if last.causes is None and later.nodes[uid] == last.node and self._may_differ(former, uid, last)
        )

    @staticmethod
    def _may_differ(former: _Placed, uid: str, decision: Decision | _Tried) -> bool:
        """Return True unless the pod gets the node that it has on the side before, or its group is one on both sides.

        In a group on both sides, members differ only because the group does.
        """
        if decision.nominated is None and decision.node == former.nodes[uid]:
            return False
        return decision.group not in former.groups


def _compared_again(before: Chain, after: Chain, placing: _Placing, uids: Container[str]) -> dict[str, tuple[Cause, ...]]:
    """The causes for these pods, by uid: the chain after places all pods once more."""
    reasons = _Reasons(before, after)
    found: dict[str, tuple[Cause, ...]] = {}

    def tried(decision: Decision, snapshot: Snapshot) -> None:
        if decision.pod.uid in uids and decision.node is not None:
            found[decision.pod.uid] = reasons.of(decision, snapshot)

    placing.by(after, lambda: None, tried)
    return found


def _changes_of_pods(former: _Placed, later: _Placed, found: Mapping[str, tuple[Cause, ...]]) -> Iterator[PodChange]:
    """The changes of the pods that were placed."""
    for uid, result in later.results.items():
        before, after = former.nodes[uid], later.nodes[uid]
        devices = former.devices(uid), later.devices(uid)
        if before != after or devices[0] != devices[1]:
            because = () if result.node != after else found.get(uid, ())  # a pod that is evicted later follows another
            yield PodChange(
                pod=result.pod,
                before=before,
                after=after,
                before_message=former.message(uid),
                after_message=later.message(uid),
                follows=not because and before != after,
                causes=because,
                before_devices=devices[0],
                after_devices=devices[1],
                group=result.group or former.results[uid].group,
            )


def _of_others(state: ClusterState, former: _Placed, later: _Placed) -> Iterator[PodChange]:
    """The changes of running pods that were not to be placed, and are evicted on one side only."""
    asked = {result.pod for result in later.results.values()}
    one_side = sorted((former.evicted_for.keys() ^ later.evicted_for.keys()) - asked)
    nodes = {pod.key: pod.node_name for pod, _ in state.placements()} if one_side else {}
    for key in one_side:
        before, after = (side.evicted_for.get(key) for side in (former, later))
        yield PodChange(
            pod=key,
            before=None if before else nodes[key],
            after=None if after else nodes[key],
            before_message=_evicted(before) if before else "",
            after_message=_evicted(after) if after else "",
            follows=True,
            causes=(),
        )


class DecisionChange(Struct, frozen=True, kw_only=True):
    """A decision with another result: when and by which profile it was made, the nodes and messages of both sides, and the causes."""

    pod: str
    at: float
    profile: str
    before: str | None
    after: str | None
    before_message: str
    after_message: str
    causes: tuple[Cause, ...]


class LogDiff(Struct, frozen=True, kw_only=True, dict=True):
    """The changes of a log in order; `notes` are about missing parts. `unplaced` counts decisions without a node, before and after."""

    changes: tuple[DecisionChange, ...]
    decisions: int
    pods: int
    profiles: tuple[str, ...]
    unplaced: tuple[int, int]
    notes: tuple[str, ...]

    @property
    def rows(self) -> tuple[DecisionChange, ...]:
        """The changes, decision by decision."""
        return self.changes

    @cached_property
    def totals(self) -> Totals:
        """The changes, counted."""
        return totals((change.before, change.after, False, change.causes) for change in self.changes)


def log_diff(path: str | Path, after: replay.Others, before: replay.Others | None = None) -> LogDiff:
    """The decisions that the chains of `after` make differently from those of `before`, by default those of the log.

    Raises UsageError for a log that does not exist, BrokenLog where it cannot be read on.
    """
    reader = LogReader(path=Path(path))
    sides = replay.Side(before), replay.Side(after)
    changes: list[DecisionChange] = []
    unplaced, n_decisions = [0, 0], 0
    pods: set[str] = set()
    profiles: dict[str, None] = {}
    for recorded in decisions(reader):
        former, later = (side.decide(recorded) for side in sides)
        n_decisions += 1
        pods.add(recorded.pod.key)
        profiles[recorded.question.profile] = None
        for side, decision in enumerate((former, later)):
            unplaced[side] += decision.node is None
        explainers = sides[0].explainer(former.chain), sides[1].explainer(later.chain)
        found = causes(former, later, recorded.snapshot, explainers)
        if found:
            changes.append(
                DecisionChange(
                    pod=recorded.pod.key,
                    at=recorded.question.now,
                    profile=recorded.question.profile,
                    before=former.node,
                    after=later.node,
                    before_message=former.message,
                    after_message=later.message,
                    causes=tuple(found),
                )
            )
    return LogDiff(
        changes=tuple(changes),
        decisions=n_decisions,
        pods=len(pods),
        profiles=tuple(profiles),
        unplaced=(unplaced[0], unplaced[1]),
        notes=tuple(reader.notes),
    )
