"""Checks moves of a plan on the present cluster before they are made: each pod must have a place, and the move must be worth it.

A plan is a sequence of bundles. A bundle is moves that gain something only together, such as those of all pods of one node. The whole plan
is checked once, before anything is written. After that, each bundle is checked before its first move. If only the moves have changed the
cluster since the last check, only the next move is decided again.

A replaced pod has a new uid, so among equally good nodes it may get another one than planned, and may take room that another bundle needs.
That bundle is `MoveNotPossible` then: it is left out, and the others are independent of it. The whole plan is `Stopped` if a pod has no
place although all moves ended as planned, or if another rebalance is running.

A check changes the watched state and restores it. It is made in steps, between which other tasks run; watch events wait until its end.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec import structs

from wharfinger.framework.plugins.taint_toleration import UNSCHEDULABLE_TAINT
from wharfinger.groups.membership import GroupIndex
from wharfinger.groups.turns import groups_of_pods
from wharfinger.language.report import wording
from wharfinger.model import objects
from wharfinger.model.objects.node_view import changed_parts
from wharfinger.model.objects.pod_view import PodView
from wharfinger.what_if.rebalance.draft import Draft
from wharfinger.what_if.rebalance.gains import MIN_GAIN
from wharfinger.what_if.rebalance.movable import Movable
from wharfinger.what_if.rebalance.plan import (
    CONSOLIDATING,
    Goal,
    Move,
    PlanOptions,
    decided_without_pod,
    points_gained,
    value_of,
    violation,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wharfinger.framework.chain import Chain
    from wharfinger.framework.evaluation.decision import Decision
    from wharfinger.framework.ports import Clock
    from wharfinger.model.state.snapshot import Snapshot
    from wharfinger.what_if.rebalance.watched_cluster import Change, WatchedCluster

TOLERANCE = 1e-6
CORDONED_BY = "wharfinger.dev/cordoned-by"
ENFORCED = frozenset({"PodDisruptionBudget"})
"""Kinds that no placement depends on: the Eviction API itself keeps to them."""
MAX_NAMED = 5
UNDO = "wharf rebalance --live --undo-cordons"


class Stopped(Exception):
    """The plan cannot continue; the message has the reason."""


class MoveNotPossible(Exception):
    """The moves of a bundle are not possible any more, or not worth it; the message has the reason."""


def left_cordons(snapshot: Snapshot) -> Mapping[str, str]:
    """The author of the cordon, by the names of nodes that a rebalance has cordoned and not uncordoned since; sorted by name."""
    cordoned = (snapshot.node(row).object.metadata for row in np.flatnonzero(snapshot.unschedulable).tolist())
    found = {node.name: node.annotations[CORDONED_BY] for node in cordoned if CORDONED_BY in node.annotations}
    return dict(sorted(found.items()))


def cordon_hint(left: Mapping[str, str]) -> str:
    """A sentence that says how to remove remaining cordons."""
    owners = ", ".join(sorted(set(left.values())))
    return (
        f"still cordoned by another rebalance ({owners}): {wording.capped([*left], MAX_NAMED)}; "
        f"if it does not run any more, uncordon them with {UNDO}"
    )


class Step(NamedTuple):
    """A move, and the nodes that are cordoned for the plan while it is made."""

    move: Move
    cordoned: frozenset[str]


def bundles(moves: Sequence[Move], cost: float) -> list[list[Step]]:
    """The moves in order, split after each that completes a gain above the cost of the moves since the last one.

    What is left at the end of a goal belongs to the bundle before.
    """
    found: list[list[Step]] = []
    for _, of_goal in groupby(_steps(moves), key=lambda step: step.move.goal):
        complete: list[list[Step]] = []
        begun: list[Step] = []
        gained = 0.0
        for step in of_goal:
            begun.append(step)
            gained += step.move.gain - cost
            if gained > MIN_GAIN:
                complete.append(begun)
                begun, gained = [], 0.0
        found += [*complete[:-1], [*complete[-1], *begun]] if complete else [begun]
    return found


def _steps(moves: Sequence[Move]) -> Iterator[Step]:
    cordoned = frozenset[str]()
    for move in moves:
        cordoned = (cordoned - set(move.uncordon)) | set(move.cordon)
        yield Step(move, cordoned)


class MoveCheck:
    """The checks of one plan, and what the plan has done to the cluster so far, which its executor tells.

    `by` is the value of the annotation of a cordoned node. With `exact` each pod must get the node of the plan.
    """

    def __init__(  # noqa: PLR0913 — its collaborators and settings
        self, chain: Chain, plan_options: PlanOptions, live: WatchedCluster, clock: Clock, by: str, *, exact: bool
    ) -> None:
        self._chain = chain
        self._plan_options = plan_options
        self._live = live
        self._clock = clock
        self._by = by
        self._exact = exact
        self.draft = Draft(chain, live.state)  # kept, and with it what it has evaluated
        self.ours: set[str] = set()
        """The nodes that are cordoned for the plan."""
        self._deviated = False  # a move has ended elsewhere than planned, or a bundle was left out
        self._ending: dict[str, PodView] = {}  # evicted pods that may still be there
        self._expected: dict[str, str] = {}  # the nodes of the last check, by the uid of the pod that moves there
        self._replacements: dict[str, tuple[PodView, str]] = {}  # by uid: of which pod, and its expected node
        self._groups = GroupIndex(live.state.objects)  # of the last check
        self._lifted: set[str] = set()  # nodes that this plan has cordoned and that are uncordoned in the draft

    # ── what the plan has done ──

    def evicting(self, pod: PodView) -> None:
        """Note that a pod is being evicted for the plan."""
        self._ending[pod.uid] = pod

    def ending(self) -> PodView | None:
        """One of the evicted pods that are still there, None if all are gone."""
        return next((pod for uid, pod in self._ending.items() if uid in self._live.pods), None)

    def replaced(self, move: Move, evicted: PodView, replacement: PodView) -> str | None:
        """Note the replacement of an evicted pod, which has a node. Returns why it shows that the scheduler decides otherwise; None if not.

        The policies of the scheduler may have been changed since the plan was made, or are not those that the plan was given.
        """
        self._replacements[replacement.uid] = evicted, replacement.node_name
        expected = self._expected.get(move.uid)
        nothing_else = self.still_holds()
        self._deviated |= replacement.node_name != move.target
        if replacement.node_name == expected:
            return None
        self._expected.clear()
        return self._other_rules(evicted, replacement) if nothing_else else None

    def skip_bundle(self) -> None:
        """Note that a bundle is left out: what comes later was checked after it."""
        self._deviated = True
        self._expected.clear()

    # ── checks ──

    def of_plan(self, plan: Sequence[Sequence[Step]]) -> Generator[None, None, str | None]:
        """The reason why the plan does not hold on the present cluster; None if it does. In steps."""
        steps = [step for bundle in plan for step in bundle]
        try:
            yield from self._of_plan(steps)
        except (Stopped, MoveNotPossible) as error:
            return str(error)
        return None

    def _of_plan(self, steps: Sequence[Step]) -> Generator[None, None, None]:
        self._begin()
        yield from self._all_movable(steps, budgets=self._exact)
        goals = dict.fromkeys(step.move.goal for step in steps)
        try:
            before = self._totals(goals)
            yield from self._tried(steps, whole=True)
            after = self._totals(goals)
        finally:
            self.draft.back_to(0)
        for goal in before:
            planned, gained = sum(step.move.gain for step in steps if step.move.goal is goal), after[goal] - before[goal]
            if gained < planned - TOLERANCE:
                raise MoveNotPossible(f"goal {goal.value}: the plan would gain {gained:g} now, not {planned:g} as planned")

    def of_bundle(self, steps: Sequence[Step]) -> Generator[None, None, None]:
        """Check the moves of one bundle, in steps. Raises MoveNotPossible or Stopped if they are not to be made."""
        self._begin()
        yield from self._all_movable(steps, budgets=False)
        goal = steps[0].move.goal
        goals = self._plan_options.goals
        kept = goals[: goals.index(goal) + 1] if goal in goals else (goal,)
        try:
            before = self._totals(kept)
            yield from self._tried(steps, whole=False)
            after = self._totals(kept)
        finally:
            self.draft.back_to(0)
        for each in before:
            gained = after[each] - before[each]
            if each is goal:
                if gained - self._plan_options.cost * len(steps) <= MIN_GAIN:
                    planned = sum(step.move.gain for step in steps)
                    raise MoveNotPossible(f"goal {goal.value}: it would gain {gained:g} now, not {planned:g} as planned")
            elif gained < -TOLERANCE:
                raise MoveNotPossible(f"goal {each.value}: it would lose {-gained:g} now")

    def still_holds(self) -> bool:
        """True if nothing but the moves has changed the cluster since the last check; otherwise its result is outdated."""
        if self._was_changed():
            self._expected.clear()
        return bool(self._expected)

    def is_as_expected(self, step: Step) -> bool:
        """True if the last check still holds, and this move goes where it went in that."""
        move = step.move
        pod = self._live.pods.get(move.uid)
        expected = self._expected.get(move.uid) if self.still_holds() else None
        if pod is None or expected is None:
            return False
        self._live.state.set_time(self._clock.now())
        try:
            self._begin_draft()
            return self._changed(move) is None and expected in self._decided(step, pod).equal_nodes
        finally:
            self.draft.back_to(0)

    def protection(self, move: Move, pod: PodView, *, budgets: bool = False) -> str | None:
        """The reason why the pod of a move may not move any more; None if it may.

        Without `budgets`, a budget that may allow its eviction later is none: the Eviction API is asked again and again.
        """
        rules = Movable(self._chain, self.draft.snapshot, self._plan_options.limits, self._groups)
        why = rules.reason_to_stay(pod) if budgets else rules.lasting_reason(pod)
        return None if why is None else f"pod {move.pod} may not move any more: {why}"

    def _begin(self) -> None:
        """Raise Stopped if another rebalance is at work. What has changed until now is checked."""
        self._was_changed()
        self._expected.clear()
        self._live.state.set_time(self._clock.now())
        others = {name: by for name, by in left_cordons(self.draft.snapshot).items() if by != self._by}
        if others:
            raise Stopped(cordon_hint(others))

    def _all_movable(self, steps: Sequence[Step], *, budgets: bool) -> Generator[None, None, None]:
        there = [pod for uid, pod in self._live.pods.items() if uid not in self._ending]
        self._groups = yield from groups_of_pods(self._chain, self._live.state, there)
        for step in steps:
            yield
            pod = self._live.pods.get(step.move.uid)
            if pod is not None and not pod.terminating and (why := self.protection(step.move, pod, budgets=budgets)) is not None:
                raise MoveNotPossible(why)

    def _totals(self, goals: Iterable[Goal]) -> dict[Goal, float]:
        snapshot = self.draft.snapshot
        cordoned = frozenset(snapshot.names[row] for row in np.flatnonzero(snapshot.unschedulable).tolist())
        others = cordoned - self.ours - self.draft.cordoned
        asked = [goal for goal in goals if goal in CONSOLIDATING]
        return {goal: value_of(goal, self._plan_options, snapshot)[0].total(snapshot, others) for goal in asked}

    def _tried(self, steps: Sequence[Step], *, whole: bool) -> Generator[None, None, None]:
        """Change the draft by these moves. Raises MoveNotPossible or Stopped at the first that is impossible or not worth it."""
        self._begin_draft()
        for place, step in enumerate(steps):
            yield
            self._try(step, as_planned=self._exact or (whole and place == 0), points=not whole)

    def _try(self, step: Step, *, as_planned: bool, points: bool) -> None:
        """Change the draft by one move, which must go to the node of the plan if `as_planned` and no move before has ended elsewhere."""
        draft, move = self.draft, step.move
        changed = self._changed(move)
        if changed is not None:
            raise MoveNotPossible(changed)
        pod = self._live.pods[move.uid]
        if move.goal is Goal.VIOLATIONS and decided_without_pod(draft, pod, violation) is None:
            raise MoveNotPossible(f"pod {move.pod} is on a node that no rule rejects any more")
        if points and move.goal is Goal.POINTS:
            gained = decided_without_pod(draft, pod, points_gained)
            if gained - self._plan_options.cost <= MIN_GAIN:
                raise MoveNotPossible(f"goal {move.goal.value}: it would gain {gained:g} now, not {move.gain:g} as planned")
        decision = self._decided(step, pod)
        if decision.node is None:
            why = f"pod {move.pod} would find no place: {decision.message}"
            raise MoveNotPossible(why) if self._deviated else Stopped(why)
        is_target = move.target in decision.equal_nodes
        if as_planned and not is_target and not self._deviated:
            raise MoveNotPossible(f"pod {move.pod} would go to {decision.node}, not to {move.target} as planned")
        target = self._expected[move.uid] = move.target if is_target else decision.node
        draft.place(decision.pod, target, decision.claims_at(target))

    def _changed(self, move: Move) -> str | None:
        """The change of the pod or the nodes of a move since it was planned; None if there is none."""
        snapshot = self.draft.snapshot
        placed = snapshot.placed(move.uid)
        pod = self._live.pods.get(move.uid)
        if placed is None and pod is not None and not (pod.node_name or pod.terminating):
            return f"pod {move.pod} was to be on {move.source} before the first move, and the scheduler has not placed it"
        if placed is None or placed[1].terminating:
            return gone(move)
        if placed[1].key != move.pod:
            return f"the pod of uid {move.uid} is {placed[1].key}, not {move.pod} as planned"
        node = snapshot.names[placed[0]]
        if node != move.source:
            return f"pod {move.pod} is on {node}, not on {move.source} as planned"
        return None if snapshot.row(move.target) is not None else f"node {move.target} is gone"

    def _decided(self, step: Step, pod: PodView) -> Decision:
        """The decision about the pod of a move, made again, once the draft is changed as the cluster is for the move."""
        draft = self.draft
        draft.uncordon(sorted(draft.cordoned - step.cordoned))
        for name in sorted(self.ours - step.cordoned - self._lifted):
            draft.ignore_cordon(name)
            self._lifted.add(name)
        for name in sorted(step.cordoned - draft.cordoned - (self.ours - self._lifted)):
            draft.cordon(name)
        draft.evict(pod)
        return draft.decide(draft.claimed(draft.recreated(pod)))

    def _other_rules(self, evicted: PodView, replacement: PodView) -> str | None:
        """The reason why a replacement was not placed by the rules of the plan, on the cluster as it was; None if it may have been.

        The scheduler may have seen the evicted pod on its node, or not any more. Metrics are not known here.
        """
        if any(policy.policy.metrics for policy in self._chain.policies):
            return None
        draft = self.draft
        self._live.state.set_time(self._clock.now())
        try:
            self._begin_draft()
            chosen = self._chosen_for(replacement)
            if replacement.node_name in chosen:
                return None
            draft.back_to(0)
            if draft.snapshot.placed(evicted.uid) is None:
                draft.place(evicted, evicted.node_name)
            if replacement.node_name in self._chosen_for(replacement):
                return None
        finally:
            draft.back_to(0)
        return (
            f"pod {replacement.key} got {replacement.node_name}, and the policies and settings of this plan choose "
            f"{wording.capped(chosen, MAX_NAMED) or 'no node'}: the scheduler uses other policies or settings"
        )

    def _chosen_for(self, placed: PodView) -> Sequence[str]:
        """The nodes that are equally good for a placed pod in the draft, decided again; this takes it off its node."""
        self.draft.evict(placed)
        return self.draft.decide(self.draft.claimed(self.draft.recreated(placed))).equal_nodes

    def _begin_draft(self) -> None:
        """Take evicted pods that are still there off their nodes, in the draft."""
        self._lifted.clear()
        for uid, pod in [*self._ending.items()]:
            if uid not in self._live.pods:
                del self._ending[uid]
            elif self.draft.snapshot.placed(uid) is not None:
                self.draft.evict(pod)

    # ── what has changed otherwise than by the moves ──

    def _was_changed(self) -> bool:
        """True if the cluster has changed since the last call, otherwise than by the moves."""
        return not all(map(self._is_planned, self._live.changes()))

    def _is_planned(self, change: Change) -> bool:
        """True if a change is one that the moves make, or one that no decision reads."""
        if change.kind == "Node":
            return self._is_own_cordon(change.before, change.now)
        if change.kind == "Pod":
            return self._is_own_move(change.before, change.now)
        return change.kind in ENFORCED or _content(change.before) == _content(change.now)

    def _is_own_cordon(self, before: objects.Node | None, now: objects.Node | None) -> bool:
        """True if a node differs by a cordon of this plan at most, and is cordoned by it exactly if it should be."""
        if before is None or now is None or self._is_cordoned(now) != (now.metadata.name in self.ours):
            return before is now
        cordoned = [node.spec.unschedulable and not self._is_cordoned(node) for node in (before, now)]  # by others
        return cordoned[0] == cordoned[1] and not changed_parts(_without_cordon(before), _without_cordon(now))

    def _is_cordoned(self, node: objects.Node) -> bool:
        return node.spec.unschedulable and node.metadata.annotations.get(CORDONED_BY) == self._by

    def _is_own_move(self, before: objects.Pod | None, now: objects.Pod | None) -> bool:
        """True if a pod is one that the plan has evicted, its replacement on the expected node, or takes room just as it did."""
        then, place = _place(before), _place(now)
        if then == place or (before is not None and PodView(before).uid in self._ending):
            return True
        if then is not None or now is None:
            return False
        arrived = PodView(now)
        evicted, node = self._replacements.get(arrived.uid, (None, ""))
        return evicted is not None and arrived.node_name == node and arrived.demand == evicted.demand


def gone(move: Move) -> str:
    """A sentence that says that the pod of a move is gone."""
    return f"pod {move.pod} is gone, or being deleted"


def _without_cordon(node: objects.Node) -> objects.Node:
    """The node without a cordon, its taint and its author."""
    annotations = {name: text for name, text in node.metadata.annotations.items() if name != CORDONED_BY}
    taints = tuple(taint for taint in node.spec.taints if taint.key != UNSCHEDULABLE_TAINT.key)
    metadata, spec = structs.replace(node.metadata, annotations=annotations), structs.replace(node.spec, unschedulable=False, taints=taints)
    return structs.replace(node, metadata=metadata, spec=spec)


def _place(pod: objects.Pod | None) -> tuple[str, str, bytes] | None:
    """The node that a pod takes or is nominated for, with all that decisions read of it; None if it takes no room."""
    if pod is None:
        return None
    view = PodView(pod)
    return None if view.finished or not (view.node_name or view.nominated_node) else (view.node_name, view.nominated_node, view.template)


def _content(obj: Any) -> Any:
    """The object without the version that every write changes."""
    return None if obj is None else structs.replace(obj, metadata=structs.replace(obj.metadata, resource_version=""))
