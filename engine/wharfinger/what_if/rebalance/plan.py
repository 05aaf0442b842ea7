"""A plan of moves that makes a cluster better by some goals, in which every moved pod has a place when its turn comes.

Goals are planned in the order given, each on the cluster as the moves for earlier goals leave it. A later goal never undoes the gain of an
earlier one. No pod is evicted by preemption for a moved pod, and a pod moves at most once. Pending pods that fit on a node are placed
before the first move, because the running scheduler will place them. No move makes room for another pending pod, or for a group of them,
which could take the place of the moved pod.

While a pod moves, its old node is cordoned: it does not come back, and no other pod takes the room that it leaves. Nodes that are freed
stay cordoned until the end, and so do, during a move, the nodes on which it must not end. All are uncordoned after the last move.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from msgspec import Struct, field

from wharfinger.errors import UsageError
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.groups.attempt import attempt
from wharfinger.groups.turns import all_groups, turns
from wharfinger.language.report import wording
from wharfinger.simulate.dry_run import Utilisation, utilisation
from wharfinger.simulate.placing import DirectPlacement, place_on
from wharfinger.steps import at_once
from wharfinger.what_if.rebalance.consolidation import Consolidation
from wharfinger.what_if.rebalance.draft import Draft, Moved
from wharfinger.what_if.rebalance.gains import GPU, MIN_GAIN, FreeNodes, FreeUnits, Interrupted, NodeValue, Search, Terms, one_gpu
from wharfinger.what_if.rebalance.movable import Limits, Movable

if TYPE_CHECKING:
    from wharfinger.framework.chain import Chain
    from wharfinger.framework.evaluation.decision import Decision
    from wharfinger.framework.prepared import Mask
    from wharfinger.groups.membership import GroupIndex
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.cluster_state import ClusterState
    from wharfinger.model.state.snapshot import Snapshot

DEFAULT_MOVES = 100
"""The default limit of moves of a plan."""


class Goal(Enum):
    """The goal of a plan: fewer pods on nodes that rules reject, more free nodes, more whole free GPUs, more points."""

    VIOLATIONS = "violations"
    FREE_NODES = "free-nodes"
    FREE_GPUS = "free-gpus"
    POINTS = "points"


def goals_named(names: Iterable[str]) -> tuple[Goal, ...]:
    """The goals of these names, each once; UsageError for another name, and without any."""
    known = {goal.value: goal for goal in Goal}
    chosen = tuple(dict.fromkeys(names))
    if not chosen or not known.keys() >= set(chosen):
        raise UsageError(f"unknown or missing goal: expected one or several of {', '.join(known)}, not {', '.join(chosen) or 'none'}")
    return tuple(known[name] for name in chosen)


CONSOLIDATING = frozenset({Goal.FREE_NODES, Goal.FREE_GPUS})
NOUNS = {
    Goal.VIOLATIONS: "pods on nodes that rules reject",
    Goal.FREE_NODES: "free nodes",
    Goal.FREE_GPUS: "whole free GPUs",
    Goal.POINTS: "points gained",
}


class PlanOptions(Struct, frozen=True, kw_only=True):
    """The request for a plan.

    `cost`: what each move must gain at least, in units of its goal (pods, nodes, GPUs, points). `unit`: the resources that one whole GPU
    takes; empty for what the nodes offer. `most_cordons`: the most nodes that may be cordoned at a time.
    """

    goals: tuple[Goal, ...]
    cost: float = 0.0
    most_moves: int = DEFAULT_MOVES
    most_cordons: int | None = None
    unit: Mapping[str, int] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)


class Move(Struct, frozen=True, kw_only=True):
    """One step: `cordon` and `uncordon` these nodes, evict the pod, and wait until the scheduler has placed it again, on `target`.

    `gain` is what the step adds to the value of its goal: where several pods have to leave a node, the last one gains it. `ties` is the
    number of nodes that are equally good for the pod; a pod that is created again has another uid, which may lead it to any of them.
    """

    pod: str
    uid: str
    source: str
    target: str
    goal: Goal
    why: str
    gain: float
    ties: int
    cordon: tuple[str, ...]
    uncordon: tuple[str, ...]


class GoalProgress(Struct, frozen=True, kw_only=True):
    """The value of a goal before its moves and after them."""

    goal: Goal
    before: float
    after: float
    moves: int


class Rebalance(Struct, frozen=True, kw_only=True):
    """A plan. `uncordon` are the nodes to uncordon after the last move.

    `staying` counts the placed pods that may not move by the reason, `left` has a sentence for each violation that no move ends, and
    `placed_first` are the waiting pods that have a place already. `interrupted` is True if the search was ended early: more may be gained.
    """

    chain: Chain
    plan_options: PlanOptions
    moves: tuple[Move, ...]
    uncordon: tuple[str, ...]
    goals: tuple[GoalProgress, ...]
    movable: int
    staying: Mapping[str, int]
    left: tuple[str, ...]
    placed_first: tuple[str, ...]
    before: Utilisation
    after: Utilisation
    interrupted: bool = False

    @property
    def most_cordoned(self) -> int:
        """The most nodes that are cordoned at a time."""
        most = now = 0
        for move in self.moves:
            now += len(move.cordon) - len(move.uncordon)
            most = max(most, now)
        return most


def rebalance(  # noqa: PLR0913, PLR0917 — the question, and callbacks for progress and interruption
    chain: Chain,
    state: ClusterState,
    plan_options: PlanOptions,
    waiting: Sequence[PodView] = (),
    advance: Callable[[], None] = lambda: None,
    interrupted: Callable[[], bool] = lambda: False,
) -> Rebalance:
    """The plan. `state` is left as the plan leaves the cluster; `advance` is called now and then.

    Once `interrupted` returns True, no further moves are searched, and the best plan so far is returned.
    Raises UsageError for a unit that no node offers, a unit without the goal that counts it, and whole GPUs that moves cannot change.
    """
    if plan_options.unit and Goal.FREE_GPUS not in plan_options.goals:
        raise UsageError(f"the amounts of one whole GPU are for the goal {Goal.FREE_GPUS.value}, which is not given")
    return _Planning(chain, state, plan_options, advance, interrupted).plan(waiting)


class _Planning:
    def __init__(
        self,
        chain: Chain,
        state: ClusterState,
        plan_options: PlanOptions,
        advance: Callable[[], None],
        interrupted: Callable[[], bool],
    ) -> None:
        self._chain = chain
        self._plan_options = plan_options
        self._drawn = advance
        self._interrupted = interrupted
        self._draft = Draft(chain, state, plan_options.most_cordons)
        self._staying: dict[str, str | None] = {}
        self._goal_of: list[Goal] = []  # of each move
        self._reached: list[tuple[Search, float]] = []
        self._left: tuple[str, ...] = ()

    def plan(self, waiting: Sequence[PodView]) -> Rebalance:
        """The plan; see `rebalance`."""
        draft = self._draft
        first, others = place_first(draft, self._chain, waiting)
        draft.keep_waiting(others.pods, others.groups, others.group_index)
        rules = Movable(self._chain, draft.snapshot, self._plan_options.limits, others.group_index)
        self._staying = {pod.uid: rules.reason_to_stay(pod) for pod in placed_pods(draft)}
        before = utilisation(draft.snapshot)
        goals: list[GoalProgress] = []
        with suppress(Interrupted):
            goals.extend(self._plan_goal(goal) for goal in self._plan_options.goals)
        reasons = Counter(reason for reason in self._staying.values() if reason is not None)
        moves, uncordon = _steps(draft.moves, self._goal_of)
        return Rebalance(
            chain=self._chain,
            plan_options=self._plan_options,
            moves=moves,
            uncordon=uncordon,
            goals=tuple(goals),
            movable=len(self._staying) - reasons.total(),
            staying=dict(wording.most_first(reasons)),
            left=self._left,
            placed_first=first,
            before=before,
            after=utilisation(draft.snapshot),
            interrupted=self._interrupted(),
        )

    def _advance(self) -> None:
        """Called between steps, when the draft is as the moves so far leave it, or is put back to that. Raises Interrupted."""
        self._drawn()
        if self._interrupted():
            raise Interrupted

    def _plan_goal(self, goal: Goal) -> GoalProgress:
        began = len(self._draft.moves)
        if goal is Goal.VIOLATIONS:
            before, after = self._end_violations()
        elif goal is Goal.POINTS:
            before, after = self._gain_points()
        else:
            before, after = self._consolidate(goal)
        moves = len(self._draft.moves) - began
        self._goal_of += [goal] * (len(self._draft.moves) - len(self._goal_of))
        return GoalProgress(goal=goal, before=before, after=after, moves=moves)

    def _may_move(self, pod: PodView) -> bool:
        return self._staying.get(pod.uid, "") is None

    def _holds(self) -> bool:
        """True while nothing that an earlier goal has gained is lost."""
        return all(search.total() >= reached - MIN_GAIN for search, reached in self._reached)

    def _consolidate(self, goal: Goal) -> tuple[float, float]:
        value, verb = value_of(goal, self._plan_options, self._draft.snapshot)
        terms = Terms(cost=self._plan_options.cost, most_moves=self._plan_options.most_moves)
        search = Search(self._draft, value, terms, self._may_move, verb, self._holds, self._advance)
        before = search.total()
        Consolidation(search).run()
        after = search.total()
        self._reached.append((search, after))
        return before, after

    def _end_violations(self) -> tuple[float, float]:
        """Move pods from nodes that rules reject for them, again and again until none of these has a place."""
        found = self._violations()
        before, began = len(found), len(self._draft.moves)
        try:
            while sum(self._move_alone(pod, f"ends: {why}", 1.0) for pod, why in found if self._violation(pod) is not None):
                found = self._violations()
        except Interrupted:
            return float(before), float(before + began - len(self._draft.moves))
        self._left = tuple(self._sentence(pod, why) for pod, why in found)
        return float(before), float(len(found))

    def _violations(self) -> list[tuple[PodView, str]]:
        return [(pod, why) for pod in placed_pods(self._draft) if (why := self._violation(pod)) is not None]

    def _violation(self, pod: PodView) -> str | None:
        self._advance()
        return decided_without_pod(self._draft, pod, violation)

    def _sentence(self, pod: PodView, why: str) -> str:
        return f"{pod.key} ({why}) {self._staying.get(pod.uid) or 'stays: no other node has room, or no move is left'}"

    def _gain_points(self) -> tuple[float, float]:
        """Move the pod that gains most, then the next; a gain is computed again when its pod's turn comes."""
        pods = {pod.uid: pod for pod in placed_pods(self._draft) if self._may_move(pod)}
        heap = [(-gained, pod.key, uid) for uid, pod in pods.items() if (gained := self._points(pod)) > self._min_gain]
        heapq.heapify(heap)
        total = 0.0
        with suppress(Interrupted):
            while heap and len(self._draft.moves) < self._plan_options.most_moves:
                _, key, uid = heapq.heappop(heap)
                gained = self._points(pods[uid])
                if gained <= self._min_gain:
                    continue
                if heap and -heap[0][0] > gained + MIN_GAIN:
                    heapq.heappush(heap, (-gained, key, uid))
                elif self._move_alone(pods[uid], f"{gained:+.1f} points", gained):
                    total += gained
        return 0.0, total

    @property
    def _min_gain(self) -> float:
        return max(self._plan_options.cost, MIN_GAIN)

    def _points(self, pod: PodView) -> float:
        self._advance()
        return decided_without_pod(self._draft, pod, points_gained)

    def _move_alone(self, pod: PodView, why: str, gain: float) -> bool:
        """Move one pod to the node that the chain chooses; False if it may not or cannot move, or gains too little."""
        draft = self._draft
        if not self._may_move(pod) or gain <= self._plan_options.cost or len(draft.moves) >= self._plan_options.most_moves:
            return False
        if any(move.pod.uid == pod.uid for move in draft.moves):
            return False
        mark, began = draft.mark(), len(draft.moves)
        freed = frozenset(move.source for move, goal in zip(draft.moves, self._goal_of, strict=False) if goal in CONSOLIDATING)
        if draft.move(pod, anywhere, freed) is None:
            return False
        if not self._holds():
            draft.back_to(mark)
            return False
        draft.explain(began, why, gain)
        return True


def value_of(goal: Goal, plan_options: PlanOptions, snapshot: Snapshot) -> tuple[NodeValue, str]:
    """The value that a goal about nodes counts, and the verb of its moves. Raises UsageError for a unit that no node offers."""
    if goal is Goal.FREE_NODES:
        return FreeNodes(), "frees"
    unit = plan_options.unit or one_gpu(snapshot)
    for name in unit:
        index = snapshot.resource_index(name)
        if index is None or not snapshot.allocatable[index].any():
            raise UsageError(f"goal {goal.value}: no node offers {name}; give the resources of one whole GPU with --whole")
    if not plan_options.unit and set(unit.values()) == {1}:
        raise UsageError(
            f"goal {goal.value}: every free {GPU} here is a whole one, so moves gain none; --whole {GPU}=8 counts eights on one node"
        )
    return FreeUnits(unit), "frees GPUs of"


class StillWaiting(NamedTuple):
    """What waits and has no place: one pod for each template, and the members of each group by its key; `group_index` has all groups."""

    pods: tuple[PodView, ...]
    groups: Mapping[str, tuple[PodView, ...]]
    group_index: GroupIndex


def place_first(draft: Draft, chain: Chain, waiting: Iterable[PodView]) -> tuple[tuple[str, ...], StillWaiting]:
    """Place the waiting pods that have a place, without preemption, in the order of the queue; returns their keys, and what still waits."""
    placed: list[str] = []
    left: dict[bytes, PodView] = {}
    groups: dict[str, tuple[PodView, ...]] = {}
    waiting = tuple(waiting)
    pods = [pod for pod in waiting if chain.gate(pod) is None]
    index = all_groups(chain, draft.state, waiting)
    decider = Decider(chain)
    for turn in turns(chain, index, pods):
        if turn.group is None:
            [pod] = turn.pods
            decision = draft.decide(draft.claimed(pod))
            found = [] if decision.node is None else [(decision.pod, decision.node)]
            if not found:
                left.setdefault(pod.template, pod)
        else:
            members = tuple(map(draft.claimed, turn.pods))
            found = list(at_once(attempt(decider, draft.state, index, turn.group, members)).placed)
            if without := tuple(pod for pod in turn.pods if pod.uid not in {got.uid for got, _ in found}):
                groups[turn.group] = without
        for pod, node in found:
            index.put(place_on(decider, DirectPlacement(draft.state), pod, node).placed_on(node))
            placed.append(pod.key)
    return tuple(placed), StillWaiting(tuple(left.values()), groups, index)


def placed_pods(draft: Draft) -> list[PodView]:
    """All pods on known nodes, by key."""
    snapshot = draft.snapshot
    return sorted((pod for row in range(snapshot.n_nodes) for pod in snapshot.pods_on(row)), key=lambda pod: pod.key)


Found = TypeVar("Found")


def decided_without_pod(draft: Draft, pod: PodView, question: Callable[[Decision, str], Found]) -> Found:
    """The result of `question` for a new decision about the pod and its present node, as if the node were not cordoned. Changes nothing."""
    mark = draft.mark()
    source = draft.evict(pod)
    draft.ignore_cordon(source)
    found = question(draft.decide(draft.recreated(pod)), source)
    draft.back_to(mark)
    return found


def violation(decision: Decision, source: str) -> str | None:
    """The reason why the pod's own node would be rejected for it now; None if it would not be."""
    return next(iter(decision.rejections_at(source)), None)


def points_gained(decision: Decision, source: str) -> float:
    """The points by which the chosen node is better than the pod's own, in the first tier in which they differ.

    0 if they are the same node, the pod has no place, or the own node is rejected.
    """
    if decision.node is None or decision.node == source:
        return 0.0
    own, chosen = (_totals(decision, node) for node in (source, decision.node))
    return next((there - here for here, there in zip(own, chosen, strict=False) if abs(there - here) > MIN_GAIN), 0.0)


def _totals(decision: Decision, node: str) -> list[float]:
    """The totals of a node by tier; empty if it is rejected."""
    parts = decision.scores_at(node)
    return [sum(part.weighted for part in parts if part.tier == tier) for tier in decision.tiers] if parts else []


def anywhere(snapshot: Snapshot) -> Mask:
    """True for every node."""
    return np.ones(snapshot.n_nodes, np.bool_)


def _steps(moves: Sequence[Moved], goals: Sequence[Goal]) -> tuple[tuple[Move, ...], tuple[str, ...]]:
    """The moves with the cordons to change before each, and the nodes to uncordon after the last."""
    steps, cordoned = [], frozenset[str]()
    for moved, goal in zip(moves, goals, strict=True):
        steps.append(
            Move(
                pod=moved.pod.key,
                uid=moved.pod.uid,
                source=moved.source,
                target=moved.target,
                goal=goal,
                why=moved.why,
                gain=moved.gain,
                ties=moved.ties,
                cordon=tuple(sorted(moved.cordoned - cordoned)),
                uncordon=tuple(sorted(cordoned - moved.cordoned)),
            )
        )
        cordoned = moved.cordoned
    return tuple(steps), tuple(sorted(cordoned))
