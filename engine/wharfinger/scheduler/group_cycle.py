"""The scheduling cycle of a group: from the queue to assumed placements of its members, or a reason why there are none.

A group is decided as a whole. Either as many members as it needs are assumed at once, and each of them is bound by the binding cycle, or
nothing changes. An attempt is a generator of short steps, so that other pods are placed while a long search continues; one group is tried
at a time. Without a long search, what comes after the group in the queue waits for the end of its attempt.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from wharfinger.emit import Failed
from wharfinger.errors import CycleAborted
from wharfinger.framework.cluster_event import Change, ClusterEvent, pod_placed
from wharfinger.framework.extension import Placement, Plugin
from wharfinger.framework.plugins import default_preemption
from wharfinger.framework.plugins.volumes import volume_claims
from wharfinger.groups.domains import Work
from wharfinger.groups.preempting import PreemptionAnswer, no_victims
from wharfinger.groups.results import result_of
from wharfinger.groups.terms import Group, GroupAnswer, Impossible, Placed, Preemption
from wharfinger.policies.budget import SUSPENDED
from wharfinger.scheduler import status
from wharfinger.scheduler.binding.group_binding import DELETED, STOPPED, GroupBinding
from wharfinger.scheduler.cycle import STEPS_IN_ORDER, Precomputation
from wharfinger.scheduler.events import NOT_DECIDED, DecisionSummary, GroupAttemptEnded, GroupSearchBegun, GroupSearched
from wharfinger.scheduler.group_budget import GroupBudget, GroupSuspended
from wharfinger.scheduler.group_search import MEMBERS_PER_STEP, GroupSearch, Reservations, in_one_step, is_small
from wharfinger.scheduler.group_victims import GroupVictims
from wharfinger.scheduler.queue import hints
from wharfinger.scheduler.queued_pods import Place
from wharfinger.steps import followed_by

if TYPE_CHECKING:
    from wharfinger.framework.prepared import Reason
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot
    from wharfinger.policies.budget import PolicyBudget
    from wharfinger.scheduler.binding.cycle import BindingCycle
    from wharfinger.scheduler.held_changes import HeldChanges
    from wharfinger.scheduler.ports import LiveCluster
    from wharfinger.scheduler.preemption import Preemptor
    from wharfinger.scheduler.profiles import Profile
    from wharfinger.scheduler.queue.scheduling_queue import SchedulingQueue
    from wharfinger.scheduler.queue.time_shares import TimeShares
    from wharfinger.scheduler.queued_pods import QueuedGroup, QueuedPod
    from wharfinger.scheduler.status import FailureHandler, GroupStatus

MAX_SEARCHES = 3
"""Searches in one attempt: other pods may take the nodes that a search in slices finds."""
OVERTAKEN = f"the nodes that were found for the group were taken by other pods {MAX_SEARCHES} times while it was placed"
SCHEDULER_NAMES = 'all pods in a single pod group should have the same .spec.schedulerName set, got: "{}" and "{}"'
TOO_FEW = (
    "{} members must be placed at once, and fewer may be tried: the others have scheduling gates or another schedulerName, or are being "
    "deleted"
)

Steps = Generator[None, None, None]
Found = TypeVar("Found")


class _Attempt(Struct, kw_only=True):
    """An attempt under way: the members by uid, and how long its searches took."""

    entry: QueuedGroup
    group: Group
    members: Mapping[str, QueuedPod]
    searched: float = 0.0

    @property
    def profile(self) -> Profile:
        """The profile that decides."""
        return self.entry.profile


class GroupCycle:
    """Decides about groups on the live state and acts on the decisions."""

    def __init__(  # noqa: PLR0913 — its collaborators and settings
        self,
        cluster: LiveCluster,
        queue: SchedulingQueue,
        binding: BindingCycle,
        failures: FailureHandler,
        budget: PolicyBudget,
        *,
        shares: TimeShares,
        status: GroupStatus,
        preemptor: Preemptor,
        changes: HeldChanges,
    ) -> None:
        self._cluster = cluster
        self._clock = cluster.ports.clock
        self._emit = cluster.ports.emit
        self._queue = queue
        self._groups = queue.groups
        self._binding = binding
        self._failures = failures
        self._budget = GroupBudget(cluster, budget)
        self._status = status
        self._preemptor = preemptor
        self._changes = changes
        self._victims = GroupVictims(cluster.snapshot, queue.groups.index)
        self._timer = budget.settings.timer
        self._search = GroupSearch(cluster, budget.stopwatch(None), self._timer)
        self.reservations = Reservations(cluster, queue, self._search)
        self._entry: QueuedGroup | None = None
        self._steps: Steps | None = None
        self._takes_long = False
        self._shares = shares
        self._members: Sequence[PodView] = ()  # of the attempt under way
        self._spent = 0.0  # the counted seconds of its steps

    @property
    def busy(self) -> bool:
        """True while a group is being tried."""
        return self._steps is not None

    @property
    def may_be_passed(self) -> bool:
        """True if pods may be placed now that come after the group that is being tried: it takes a long search, or there is none."""
        return self._takes_long or not self.busy

    def start(self, entry: QueuedGroup) -> None:
        """Begin with a group that was just popped; `advance` does the work."""
        self._entry, self._takes_long = entry, False
        self._members = [member.pod for member in entry.trying.values()]
        self._spent = -self._shares.free_seconds(entry, len(self._members))
        self._steps = self._attempt(entry)

    def advance(self, ends_at: float) -> None:
        """Continue with the attempt under way until the monotonic time `ends_at`; in the end its members are bound, or wait again."""
        steps, entry = self._steps, self._entry
        if steps is None or entry is None:
            return
        began = self._clock.monotonic()
        try:
            while True:
                with self._budget.step():
                    next(steps)
                if self._clock.monotonic() >= ends_at:
                    return
        except StopIteration:
            self._end()
        except Exception as error:  # noqa: BLE001 — an object or a plugin may cause any exception; the others continue
            self._end()
            self._failed(entry, error)
        finally:
            self._spent += self._clock.monotonic() - began
            if self._steps is None:
                self._shares.took(entry, self._spent, self._members)

    def cancel(self) -> None:
        """Give up the attempt under way; the group waits as if it had not been tried."""
        steps, entry = self._steps, self._entry
        self._end()
        if steps is not None and entry is not None:
            steps.close()
            if entry.place is Place.IN_FLIGHT:
                self._groups.put_back(entry)

    def _end(self) -> None:
        self._steps = self._entry = None
        self._budget.end()

    # ── an attempt ──

    def _attempt(self, entry: QueuedGroup) -> Steps:
        if self._preemptor.evicting_for(entry.uid):
            self._groups.wait_for_event(entry)
            return
        there = self._groups.index.members(entry.key)
        if any(pod.node_name and self._binding.will_be_released(pod.uid) for pod in there):
            self._groups.fail(entry)  # one that still prepares is assumed, but will not be bound: it must not count as placed
            return
        self._leave_out(entry)
        terms = self._groups.index.terms(entry.key)
        if terms is None or not entry.trying:
            self._groups.put_back(entry)
            return
        members = dict(entry.trying)
        placed = tuple(pod for pod in there if pod.node_name and pod.uid not in members)
        group = Group(key=entry.key, terms=terms, waiting=tuple(member.pod for member in members.values()), placed=placed)
        attempt = _Attempt(entry=entry, group=group, members=members)
        self._budget.begin(entry.profile, group)
        if len(names := sorted({member.profile.name for member in members.values()})) > 1:
            raise CycleAborted(SCHEDULER_NAMES.format(*names))
        if group.needed > len(members):
            yield from self._rejected(attempt, TOO_FEW.format(group.needed), frozenset({hints.GROUP_MEMBERS}))
            return
        try:
            self._budget.check()
            yield from self._decide(attempt)
        except GroupSuspended as suspended:
            if entry.stale:
                self._groups.put_back(entry)
            else:
                yield from self._rejected(attempt, str(suspended), frozenset({SUSPENDED}))

    def _decide(self, attempt: _Attempt) -> Steps:
        """Search for a place and act on the answer; `GroupSuspended` if a policy that governs a member is suspended during a search."""
        entry = attempt.entry
        for _ in range(MAX_SEARCHES):
            started = self._clock.monotonic()
            answer, revision = yield from self._answer(attempt)
            attempt.searched += self._clock.monotonic() - started
            if entry.stale and revision is not None:
                self._groups.put_back(entry)
                return
            if not isinstance(answer, Placed) or not answer.nodes:
                yield from self._no_place(attempt, answer)
                return
            if revision is None or (yield from self._assume(attempt, answer.nodes, revision)):
                yield from self._placed(attempt, answer, self._cluster.snapshot().revision if revision is None else revision)
                return
        yield from self._rejected(attempt, OVERTAKEN, frozenset())

    def _leave_out(self, entry: QueuedGroup) -> None:
        """Leave out members that need no node any more, as `SchedulingCycle` does."""
        for member in list(entry.trying.values()):
            pod = member.pod
            terminating = pod.terminating
            if terminating or self._cluster.state.is_placed(pod.uid):
                self._queue.done(member)
                entry.trying.pop(pod.uid, None)
            if terminating:
                self._cluster.ports.events.record(pod, status.failed_scheduling(f"skip schedule deleting pod: {pod.key}"))

    def _keeping_order(self, steps: Generator[None, None, Found]) -> Generator[None, None, Found]:
        """The same steps; other pods may pass a small group once its search has taken more than `STEPS_IN_ORDER`."""
        self._search.work = Work()

        def note_length() -> None:
            self._takes_long = self._search.work.steps > STEPS_IN_ORDER

        return followed_by(steps, note_length)

    def _answer(self, attempt: _Attempt) -> Generator[None, None, tuple[GroupAnswer, int | None]]:
        """The answer of the search, and the revision of the state that it is about; None if its members are assumed already."""
        decider, snapshot = attempt.profile.decider, self._cluster.snapshot
        every_kind = (searching for pod in attempt.group.kinds for searching in decider.precompute(snapshot, pod))
        precomputation = Precomputation(every_kind, snapshot, self._timer)
        try:
            for _ in precomputation:
                self._takes_long = precomputation.may_be_passed
                if precomputation.concluding:
                    self._changes.hold(self)
                yield
            found = self._answer_at_once(attempt)
        finally:
            self._changes.release(self)
        if found is not None:
            return found
        self._takes_long = not is_small(attempt.group)
        yield
        self._emit(self._begun(attempt))
        steps = self._budget.checking(self._search.in_steps(attempt.profile, attempt.group))
        answer, revision = yield from (steps if self._takes_long else self._keeping_order(steps))
        self._emit(GroupSearched(attempt.group, answer))
        return answer, revision

    def _answer_at_once(self, attempt: _Attempt) -> tuple[GroupAnswer, int | None] | None:
        """The same for a small group, found on the state itself; None if that takes too long."""
        if not is_small(attempt.group):
            return None
        store = self._cluster.state.objects
        keep = not any(pod.demand.may_claim or volume_claims.waiting_claims(pod, store) for pod in attempt.group.waiting)
        self._emit(self._begun(attempt))
        answer = self._search.at_once(attempt.profile, attempt.group, keep=keep)
        if answer is None:
            return None
        self._emit(GroupSearched(attempt.group, answer))
        kept = answer.nodes if keep and isinstance(answer, Placed) else {}
        try:
            self._budget.check_result()
        except GroupSuspended:
            self._forget(attempt, kept)
            raise
        return answer, None if kept else self._cluster.snapshot().revision

    def _begun(self, attempt: _Attempt, others: tuple[Group, ...] | None = None) -> GroupSearchBegun:
        return GroupSearchBegun(attempt.profile.name, attempt.profile.chain, attempt.group, self._cluster.snapshot().now, others)

    # ── a placement ──

    def _assume(self, attempt: _Attempt, nodes: Mapping[str, str], since: int) -> Generator[None, None, bool]:
        """A generator of steps that assumes the members, and returns whether all still fit; if not, none stays assumed."""
        views = {uid: member.pod for uid, member in attempt.members.items()}
        complete = False
        try:
            complete = yield from self._search.assuming(attempt.profile, nodes, views, since, self._binding)
            return complete
        finally:
            if not complete:
                self._freed(attempt, nodes)

    def _freed(self, attempt: _Attempt, nodes: Mapping[str, str]) -> None:
        """Wake pods that were rejected between two steps while members were assumed; fewer members are assumed in one step."""
        if not in_one_step(len(nodes)):
            for uid, node in nodes.items():
                self._binding.freed(attempt.members[uid].pod, node)
            self._binding.devices_freed()
            self._binding.volumes_freed()

    @staticmethod
    def _assumed(pod: PodView, snapshot: Snapshot) -> PodView:
        """The pod with the annotations that it was assumed with, which are written with its binding."""
        placed = snapshot.placed(pod.uid)
        return pod if placed is None else pod.assigning(placed[1].assigned)

    def _placed(self, attempt: _Attempt, answer: Placed, since: int) -> Steps:
        """Reserve the placement of the members that are assumed, and bind them together; they fitted in the revision `since`."""
        entry = attempt.entry
        if entry.stale:
            self._forget(attempt, answer.nodes)
            self._groups.put_back(entry)
            return
        snapshot = self._cluster.snapshot()
        views = {uid: self._assumed(attempt.members[uid].pod, snapshot) for uid in answer.nodes}
        placements = {uid: Placement(pod=views[uid], node=node) for uid, node in answer.nodes.items()}
        refused = self._reserve(attempt, placements)
        if refused is not None:
            plugin, reason = refused
            yield from self._rejected(attempt, reason.text, frozenset({plugin}))
            return
        key, terms = attempt.group.key, attempt.group.terms
        if self.reservations.holds(key):
            self.reservations.release()
        names = {uid: placement.pod.name for uid, placement in placements.items()}
        together = self._binding.waiting(pod.uid for pod in attempt.group.placed)
        if together is None:
            required = {level.key: answer.domains[level.key] for level in terms.levels if level.required}
            misfit_reason = partial(self._binding.misfit_reason, since=since, domains=required)
            needed = min(attempt.group.needed, len(placements))
            together = GroupBinding(
                key, names, needed, terms.timeout, self._clock, release=self._binding.release, misfit_reason=misfit_reason
            )
        else:
            together.join(names)
        yield from self._start_bindings(attempt, placements, together)
        rejectors = yield from self._rejectors(attempt, answer.left)
        for number, placement in enumerate(placements.values()):
            self._queue.notify(pod_placed(placement.pod, placement.node))
            if number % MEMBERS_PER_STEP == MEMBERS_PER_STEP - 1:
                yield
        if together.failure:
            self._released(attempt, together.failure)
            return
        self._groups.decided(entry, rejectors)
        result = result_of(attempt.group, answer)
        self._status.scheduled(attempt.group, list(answer.nodes.values()), answer.domains)
        self._ended(attempt, "scheduled", result.message, answer)
        yield from self._report(attempt, [attempt.members[pod.uid] for pod in answer.left], result.of_member, rejectors)

    def _start_bindings(self, attempt: _Attempt, placements: Mapping[str, Placement], together: GroupBinding) -> Steps:
        """Start the binding cycle for the members of a reserved placement.

        Those that are deleted meanwhile are undone; so are the others that are left if this generator is closed.
        """
        entry, left, why = attempt.entry, dict(placements), STOPPED
        profile, snapshot = attempt.profile, self._cluster.snapshot()
        try:
            for number, (uid, placement) in enumerate(placements.items()):
                if number % MEMBERS_PER_STEP == MEMBERS_PER_STEP - 1:
                    yield
                    snapshot = self._cluster.snapshot()
                if uid in entry.trying:
                    member, decided = attempt.members[uid], self._summary(profile, placement.pod, snapshot, placement.node)
                    del left[uid]
                    self._groups.placed(entry, member, placement.pod.placed_on(placement.node))
                    self._binding.start(member, placement, decided, together)
            why = DELETED
        finally:
            for uid, placement in left.items():
                self._binding.undo(attempt.members[uid], placement)
                together.lost(uid, why)

    def _released(self, attempt: _Attempt, why: str) -> None:
        """End an attempt with too few members left before their bindings; the binding cycle releases the other members."""
        if attempt.entry.stale:
            self._groups.put_back(attempt.entry)
            return
        self._groups.fail(attempt.entry)
        self._status.unschedulable(attempt.group, why)
        self._ended(attempt, "unschedulable", why)

    def _reserve(self, attempt: _Attempt, placements: Mapping[str, Placement]) -> tuple[Plugin, Reason] | None:
        """The plugin that refuses to reserve a placement, and why; then everything is undone. None if no plugin refuses."""
        complete = False
        try:
            for placement in placements.values():
                for plugin in attempt.profile.reserves:
                    reason = plugin.reserve(placement)
                    if reason is not None:
                        return plugin, reason
            complete = True
            return None
        finally:
            if not complete:
                for uid, placement in reversed(list(placements.items())):
                    self._binding.undo(attempt.members[uid], placement, known=not in_one_step(len(placements)))

    def _forget(self, attempt: _Attempt, nodes: Mapping[str, str]) -> None:
        for uid in reversed(list(nodes)):
            self._binding.claims.release(attempt.members[uid].pod)
            self._binding.volumes.release(attempt.members[uid].pod)
            self._cluster.state.forget(attempt.members[uid].pod)
        self._freed(attempt, nodes)

    @staticmethod
    def _summary(profile: Profile, pod: PodView, snapshot: Snapshot, node: str | None, plugins: tuple[str, ...] = ()) -> DecisionSummary:
        """The summary of the decision about a member; how many nodes it would have alone is not counted."""
        return DecisionSummary(
            node=node,
            message="",
            feasible=0 if node is None else 1,
            n_nodes=snapshot.n_nodes,
            snapshot_revision=snapshot.revision,
            policy_revision=profile.chain.policy_revision,
            plugins=plugins,
            policies=profile.chain.pod_rules(pod, snapshot).policies,
        )

    # ── no placement ──

    def _no_place(self, attempt: _Attempt, answer: GroupAnswer) -> Steps:
        """Preempt for the group where that helps, or let it wait for an event that may help."""
        entry, group = attempt.entry, attempt.group
        message = result_of(group, answer).message
        rejectors = yield from self._budget.checking(self._rejectors(attempt, group.waiting))
        nominated: Mapping[str, str] | None = None
        if self._victims.are_leaving(group, entry.evicted):
            message = f"{message}. preemption: {default_preemption.WAITING}"
        elif isinstance(answer, Impossible):
            found = yield from self._preemption(attempt)
            if entry.stale:
                self._groups.put_back(entry)
                return
            if isinstance(found, Preemption):
                yield from self._preempt(attempt, found, rejectors)
                return
            message = f"{message}. {found.message}"
            rejectors |= self._victims.protectors(attempt.profile.chain, group) if rejectors else frozenset()
            if not self.reservations.holds(group.key):
                self._take_nominations_back(group)
                nominated = {}
        if group.terms.reserve:
            said = yield from self._keeping_order(self._budget.checking(self.reservations.consider(attempt.profile, group)))
            message = f"{message}. {said}" if said else message
        if entry.stale:
            self._groups.put_back(entry)
            return
        yield from self._rejected(attempt, message, rejectors, nominated)

    def _preemption(self, attempt: _Attempt) -> Generator[None, None, PreemptionAnswer]:
        """The pods that must leave; there is no search if no pod has a lower priority."""
        group, snapshot = attempt.group, self._cluster.snapshot()
        if (impossible := no_victims(group, snapshot)) is not None:
            return impossible
        others = tuple(self._groups.index.disrupted_as_whole())
        started = self._clock.monotonic()
        self._emit(self._begun(attempt, others))
        found = yield from self._keeping_order(self._budget.checking(self._search.preempting(attempt.profile, group, others)))
        self._emit(GroupSearched(group, found))
        attempt.searched += self._clock.monotonic() - started
        return found

    def _preempt(self, attempt: _Attempt, found: Preemption, rejectors: frozenset[Plugin]) -> Steps:
        """Keep the nodes of the placement for the group, and evict the victims; then the group is tried again."""
        group, members = attempt.group, list(attempt.members.values())
        nodes = [(attempt.members[uid].pod, node) for uid, node in found.placement.nodes.items()]
        self._groups.reject(attempt.entry, rejectors)
        attempt.entry.evicted = frozenset(victim.uid for victim in found.victims)
        self._preemptor.preempt_for_group(attempt.entry, nodes, found.victims, self._victims.disrupted_groups(found.victims))
        message = self._status.waits_for_preemption(group)
        self._ended(attempt, "waiting_on_preemption", message)
        nominated = {pod.uid: node for pod, node in nodes}
        yield from self._report(attempt, members, f"group {group.key}: {message}", rejectors, nominated)

    def _take_nominations_back(self, group: Group) -> None:
        """Take back nominations of members that do not help the group."""
        for pod in group.waiting:
            node = self._cluster.snapshot().nominated_to(pod.uid)
            if node is not None and self._cluster.state.remove_nomination(pod):
                self._queue.notify(Change(events=ClusterEvent.NOMINATION, label="PodUpdate", node=node))

    def _rejected(self, attempt: _Attempt, message: str, rejectors: frozenset[Plugin], nominated: Mapping[str, str] | None = None) -> Steps:
        """Queue the group as unschedulable. Nominations of members stay, or are set to the nodes of `nominated`."""
        members = list(attempt.members.values())
        self._groups.reject(attempt.entry, rejectors)
        self._status.unschedulable(attempt.group, message)
        self._ended(attempt, "unschedulable", message)
        yield from self._report(attempt, members, f"group {attempt.group.key}: {message}", rejectors, nominated)

    def _report(
        self,
        attempt: _Attempt,
        members: Sequence[QueuedPod],
        message: str,
        rejectors: frozenset[Plugin],
        nominated: Mapping[str, str] | None = None,
    ) -> Steps:
        """Write why the members have no node, and the nodes they are nominated to (None: as they are)."""
        names = tuple(sorted(plugin.name for plugin in rejectors))
        for number, member in enumerate(members):
            decided = self._summary(attempt.profile, member.pod, self._cluster.snapshot(), None, names)
            self._failures.report(
                member,
                result="unschedulable",
                reason=status.UNSCHEDULABLE,
                decided=decided,
                message=message,
                nominated=None if nominated is None else nominated.get(member.uid, ""),
            )
            if number % MEMBERS_PER_STEP == MEMBERS_PER_STEP - 1:
                yield

    def _failed(self, entry: QueuedGroup, error: Exception) -> None:
        """Try the group again after the error backoff; assumed members are bound, or were released."""
        members = list(entry.trying.values())
        self._groups.fail(entry)
        self._emit(Failed(f"group {entry.key}", error))
        message = str(error) or type(error).__name__
        for member in members:
            self._failures.report(member, result="error", reason=status.SCHEDULER_ERROR, decided=NOT_DECIDED, message=message)
        terms = self._groups.index.terms(entry.key)
        if terms is not None:
            group = Group(key=entry.key, terms=terms, waiting=tuple(member.pod for member in members))
            self._status.failed(group, error)
            self._ended(_Attempt(entry=entry, group=group, members={}), "error", message)

    def _rejectors(self, attempt: _Attempt, pods: Sequence[PodView]) -> Generator[None, None, frozenset[Plugin]]:
        """A generator of steps that returns the plugins whose rejection of these members a change may end."""
        return hints.group_rejectors(attempt.profile.decider, self._cluster.snapshot, attempt.group.terms, pods)

    def _ended(self, attempt: _Attempt, result: str, message: str, answer: Placed | None = None) -> None:
        self._emit(
            GroupAttemptEnded(
                key=attempt.group.key,
                profile=attempt.profile.name,
                terms=attempt.group.terms,
                result=result,
                message=message,
                started=attempt.entry.started,
                ended=self._clock.monotonic(),
                searched=attempt.searched,
                nodes={} if answer is None else answer.nodes,
                domains={} if answer is None else answer.domains,
                left=() if answer is None else answer.left,
                was_placed=len(attempt.group.placed),
            )
        )
