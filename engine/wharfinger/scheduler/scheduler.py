"""The scheduler: a loop that takes pods from the queue and places them, on one event loop with everything else.

Deciding is plain computation, so it happens in slices of a few milliseconds; between them the event loop carries on with watching, binding
and serving. The number of binds under way is limited; while there is no room for another, nothing is decided, as the decision would only
grow stale.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from wharfinger.compiler.program import CompiledPolicy
from wharfinger.emit import Failed
from wharfinger.event_loop import until
from wharfinger.framework.chain import Chain
from wharfinger.groups.membership import GroupIndex, GroupRule, group_of_policies, no_rule
from wharfinger.language.report.wording import count
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.object_store import EvaluationContext, TimeAndObjects
from wharfinger.policies.budget import BudgetSettings, PolicyBudget
from wharfinger.scheduler.binding.cycle import BindingCycle
from wharfinger.scheduler.binding.permits import Permits
from wharfinger.scheduler.cycle import SchedulingCycle
from wharfinger.scheduler.event_handlers import EventHandlers, MetricSamples
from wharfinger.scheduler.group_cycle import GroupCycle
from wharfinger.scheduler.held_changes import HeldChanges
from wharfinger.scheduler.incomplete_groups import IncompleteGroups
from wharfinger.scheduler.ports import LiveCluster, Ports
from wharfinger.scheduler.preemption import Preemptor
from wharfinger.scheduler.profiles import Profiles
from wharfinger.scheduler.queue.scheduling_queue import SchedulingQueue
from wharfinger.scheduler.queue.sub_queues import QueueSettings
from wharfinger.scheduler.queue.time_shares import TimeShares
from wharfinger.scheduler.queued_pods import QueuedGroup
from wharfinger.scheduler.status import FailureHandler, GroupStatus, StatusWrites, assigned, bound_recently

if TYPE_CHECKING:
    from wharfinger.errors import PluginFault
    from wharfinger.framework.ports import ClusterSink
    from wharfinger.groups.terms import GroupTerms
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot
    from wharfinger.scheduler.profiles import Profile
    from wharfinger.scheduler.queued_pods import QueuedPod


BUILD_SLICE_DIVISOR = 4
"""The divisor of a slice while policies are being built."""
PODS_PER_STEP = 1000
"""The number of pods that a new leader examines in one step for bindings whose events may be missing."""
MAX_IDLE_SECONDS = 1.0
"""Seconds after which an idle loop checks backoffs, pods that have waited too long, and the lease."""


class SchedulerSettings(Struct, frozen=True, kw_only=True):
    """Limits of the loop.

    `needed`: kinds that must be known before the first decision. `slice_seconds`: how long to decide before other tasks have their turn.
    `max_binds`, `max_writes`: requests under way at a time. `stop_seconds`: how long a stop waits for work under way. `budget`: how much
    of the time of a decision policies may take.
    """

    needed: frozenset[str] = frozenset({"Node", "Pod"})
    slice_seconds: float = 0.004
    max_binds: int = 256
    max_writes: int = 32
    stop_seconds: float = 10.0
    queue: QueueSettings = field(default_factory=QueueSettings)
    budget: BudgetSettings = field(default_factory=BudgetSettings)


class Scheduler:
    """Places the pods of its profiles; `sink` takes watch events, `measurements` takes metric samples.

    `state` is an empty state, for callers that record its changes. `rest` returns for how many seconds to decide nothing after a slice.
    `suspension_changed` is called with name and revision of each policy that is suspended, or is not any more. `coscheduling` returns True
    if the API server has PodGroups of the coscheduling plugin.
    """

    def __init__(  # noqa: PLR0913 — its collaborators and settings
        self,
        chains: Mapping[str, Chain],
        ports: Ports,
        settings: SchedulerSettings | None = None,
        state: ClusterState | None = None,
        *,
        rest: Callable[[], float] = lambda: 0.0,
        suspension_changed: Callable[[str, str], None] = lambda _policy, _revision: None,
        coscheduling: Callable[[], bool] = lambda: False,
    ) -> None:
        self.settings = settings or SchedulerSettings()
        self.state = ClusterState() if state is None else state
        self._ports = ports
        self._cluster = LiveCluster(state=self.state, ports=ports)
        self._wake = asyncio.Event()
        shares = TimeShares(ports.clock.monotonic, self._cluster.snapshot)
        self.queue = SchedulingQueue(
            ports.clock,
            self._cluster.snapshot,
            settings=self.settings.queue,
            emit=ports.emit,
            wake=self._wake.set,
            gate_failed=self._gate_failed,
            index=GroupIndex(self.state.objects, served=coscheduling),
            shares=shares,
        )
        self.budget = PolicyBudget(self.settings.budget, ports.clock.now, ports.clock.monotonic, self._cluster_size, suspension_changed)
        self.profiles = Profiles(chains, ports.emit, ports.stopwatch, self.budget)
        self._rest = rest
        self._stopping = False
        self._regrouping: Iterator[None] | None = None  # the remaining steps after a change of policies, or of labels of namespaces
        self._missing_events: Iterator[PodView] = iter(())  # pods left to look at, whose events a former leader may not have written
        self._led = False  # at the last step
        self._namespaces: set[str] = set()  # whose labels have changed since the groups of their pods were computed
        self._writes = StatusWrites(ports.writer, ports.leadership, ports.emit, self.settings.max_writes)
        self._group_status = GroupStatus(self._cluster, binding=lambda: bool(self.n_binding))
        self._permits = permits = Permits(self._cluster, self.budget)
        self._failures = failures = FailureHandler(self._cluster, self.queue, self._writes)
        self._binding = BindingCycle(
            self._cluster, queue=self.queue, writes=self._writes, failures=failures, permits=permits, limit=self.settings.max_binds
        )
        self._preemptor = Preemptor(self._cluster, self.queue, self._writes, permits, self._group_status)
        self._feed = EventHandlers(
            state=self.state,
            queue=self.queue,
            profiles=self.profiles,
            emit=ports.emit,
            leaving=self._leaving,
            node_removed=self._binding.node_removed,
            unreadable=failures.unreadable,
            changed=self._changed,
            claim_changed=self._binding.claims.claim_changed,
            relabelled=self._relabelled,
        )
        self._changes = changes = HeldChanges(self._cluster, self._feed, self._wake.set)
        self._cycle = SchedulingCycle(self._cluster, self.queue, self._binding, failures, self._preemptor, self.budget, shares, changes)
        self._group_cycle = GroupCycle(
            self._cluster,
            self.queue,
            self._binding,
            failures,
            self.budget,
            shares=shares,
            status=self._group_status,
            preemptor=self._preemptor,
            changes=changes,
        )
        self._incomplete_groups = IncompleteGroups(ports, self.queue.groups, self._group_status)
        for plugin in {plugin for profile in self.profiles for plugin in profile.chain.precomputing}:
            plugin.follow(self.state.objects)
        if any(profile.grouping or profile.reads_sizes for profile in self.profiles):
            self._regroup()
        self.measurements = MetricSamples(self._cluster, self.queue, self._wake.set, changes.put)

    @property
    def sink(self) -> ClusterSink:
        """The sink for watch events."""
        return self._changes

    @property
    def known_pods(self) -> Collection[PodView]:
        """All pods of the cluster in their last state, of any scheduler, waiting or placed."""
        return self._feed.known_pods

    @property
    def pods_revision(self) -> int:
        """A number that changes whenever one of `known_pods` changes, comes or goes."""
        return self._feed.pods_revision

    def known_pod(self, key: str) -> PodView | None:
        """The pod of that `namespace/name` in its last state; None if there is none."""
        return self._feed.known_pod(key)

    @property
    def missing_kinds(self) -> frozenset[str]:
        """The kinds that are not known yet; nothing is decided before this is empty."""
        return self.settings.needed - self._feed.synced_kinds

    @property
    def n_binding(self) -> int:
        """The number of pods that are being bound."""
        return len(self._binding)

    @property
    def n_writing(self) -> int:
        """The number of statuses that are being written or wait to be."""
        return len(self._writes) + len(self._group_status)

    @property
    def cluster_is_held(self) -> bool:
        """True while changes of the cluster wait for a decision that is concluded in steps."""
        return self._changes.holder is not None

    def snapshot(self) -> Snapshot:
        """The cluster as decisions see it now."""
        return self._cluster.snapshot()

    def adopt(self, chains: Mapping[str, Chain]) -> int:
        """The number of waiting pods that are tried again because these chains decide now.

        To be called on the event loop, so between two cycles.

        `chains` are by scheduler name; profiles that are not named, and chains that are the same, keep what they have cached. Decisions
        that are being carried out are those of the former chain, and carry its revision; only the permits that hold them are those of the
        new one.
        """
        changed = {}
        grouping = any(profile.grouping or profile.reads_sizes for profile in self.profiles)
        for name, chain in chains.items():
            profile = self.profiles[name]
            if chain is not profile.chain and chain.revision != profile.chain.revision:
                changed[profile] = policies_between(profile.chain, chain)
                profile.adopt(chain)
                grouping = grouping or bool(profile.grouping or profile.reads_sizes)
        self.budget.adopted(profile.chain for profile in self.profiles)
        if grouping:
            self._regroup()
        self._permits.cluster_changed()
        if not changed:
            return 0
        affected = AffectedByPolicies(changed, self._evaluation_context())
        return self.queue.policies_changed(affected, lambda: affected.n_evaluated)

    async def run(self) -> None:
        """Schedule until `stop` is called and work under way has ended, or `stop_seconds` have passed.

        Cancelling stops everything at once.
        """
        try:
            while not self._stopping:
                await self._step()
            await self._drain()
        finally:
            self.abandon()

    def stop(self) -> None:
        """Take no further pod from the queue, and let `run` end."""
        self._stopping = True
        self._wake.set()

    def abandon(self) -> None:
        """Stop binding, writing and evicting at once, as the loss of leadership demands."""
        self._cycle.cancel()
        self._group_cycle.cancel()
        self._binding.cancel()
        self._preemptor.cancel()
        self._writes.cancel()
        self._group_status.cancel()

    async def _step(self) -> None:
        self._wake.clear()
        if self._apply_held_changes():
            await self._ports.clock.sleep(0)
            return
        deciding = not self.missing_kinds and self._ports.leadership.is_leader
        if not deciding:
            self._cycle.cancel()
            self._group_cycle.cancel()
        if deciding and not self._led:
            self._missing_events = iter(tuple(self.known_pods))
        self._led = deciding
        if self._regrouping is None and self._namespaces and deciding and self._changes.holder is None:
            namespaces, self._namespaces = self._namespaces, set()
            self._regrouping = itertools.chain(self._following_labels(namespaces), self.queue.regroup())
        if self._regrouping is not None and self._regroup_slice():
            await self._ports.clock.sleep(self._rest())
            return
        if not deciding:
            await until(self._wake, self._ports.clock, MAX_IDLE_SECONDS)
            return
        self._review()
        if not self._binding.slot_free.is_set():
            await self._wait_for_room()
        elif self._schedule_slice():
            await self._ports.clock.sleep(self._rest())
        elif self._wake.is_set():  # a part of some work is left; `until` would return without a turn for others
            await self._ports.clock.sleep(0)
        else:
            await until(self._wake, self._ports.clock, self._seconds_to_wait())

    async def _wait_for_room(self) -> None:
        """Wait until another pod may be bound, or apply the changes first that bindings may wait for."""
        if self._changes.holder is not None:
            self._changes.release(self._changes.holder)
            return
        await until(self._binding.slot_free, self._ports.clock, MAX_IDLE_SECONDS)

    def _apply_held_changes(self) -> bool:
        """Apply changes that waited for a decision, for a slice of time; True if some are left."""
        ends_at = self._ports.clock.monotonic() + self.settings.slice_seconds
        return self._changes.apply(lambda: self._ports.clock.monotonic() >= ends_at)

    def _review(self) -> None:
        """Do what is due between decisions, some of it in parts."""
        self._record_missing_events()
        for profile in self.profiles:
            if profile.release_former():
                self._wake.set()  # for what is left
        self.queue.flush()
        self._group_cycle.reservations.review()
        self._incomplete_groups.review()
        if self.budget.review():
            self.queue.resumed()

    def _record_missing_events(self) -> None:
        """Record the events of pods that were bound recently again: a leader that was killed may not have written them."""
        pods = tuple(itertools.islice(self._missing_events, PODS_PER_STEP))
        if not pods:
            return
        self._wake.set()  # for the pods that are left
        now = self._ports.clock.now()
        for pod in pods:
            if bound_recently(pod, now) and self.profiles.of(pod) is not None:
                self._ports.events.record(pod, assigned(pod, pod.node_name))

    def _schedule_slice(self) -> bool:
        """True if more pods may be ready after a slice of time; False when no pod is ready."""
        clock, group = self._ports.clock, self._group_cycle
        seconds = self.settings.slice_seconds / (BUILD_SLICE_DIVISOR if self._rest() else 1)
        holder = self._changes.holder  # its decision is concluded before anything else changes the cluster
        if group.busy and holder in {None, group}:
            group.advance(clock.monotonic() + seconds)
        if self._cycle.busy and self._changes.holder in {None, self._cycle}:
            self._cycle.advance(clock.monotonic() + seconds)
        ends_at = clock.monotonic() + seconds
        while self._binding.slot_free.is_set():
            if not (group.may_be_passed and self._cycle.may_be_passed):
                return True
            queued = self.queue.pop(groups=not group.busy)
            if queued is None:
                return group.busy or self._cycle.busy
            if isinstance(queued, QueuedGroup):
                group.start(queued)
                group.advance(ends_at)
            else:
                self._cycle.schedule(queued, ends_at)
            if clock.monotonic() >= ends_at:
                return True
        return True

    def _seconds_to_wait(self) -> float:
        ready_at = self.queue.next_ready_at()
        return MAX_IDLE_SECONDS if ready_at is None else min(MAX_IDLE_SECONDS, max(0.0, ready_at - self._ports.clock.monotonic()))

    def _cluster_size(self) -> tuple[int, int]:
        snapshot = self.state.snapshot()
        return snapshot.n_nodes, int(snapshot.pod_count.sum())

    def _gate_failed(self, queued: QueuedPod, fault: PluginFault) -> None:
        self._failures.gate_failed(queued, fault)

    def _group_rule(self) -> GroupRule:
        """The rule that returns the group of a pod by the present policies, for pods of the profiles."""
        grouping = {profile.name: profile.grouping for profile in self.profiles}

        def group_of(pod: PodView) -> tuple[str, GroupTerms] | None:
            profile = self.profiles.of(pod)
            return None if profile is None else group_of_policies(grouping[profile.name], pod, self._evaluation_context())

        return group_of if any(grouping.values()) else no_rule

    def _evaluation_context(self) -> EvaluationContext:
        return TimeAndObjects(self._ports.clock.now(), self.state.objects)

    def _regroup(self) -> None:
        """Follow the groups of the policies that decide now; nothing is decided until the groups of all pods are known."""
        index = self.queue.groups.index
        index.sized = self.state.set_group_size if any(profile.reads_sizes for profile in self.profiles) else None
        for key in () if index.sized is not None else tuple(self.state.snapshot().group_sizes):
            self.state.set_group_size(key, 0)
        self._regrouping = itertools.chain(index.follow_rule(self._group_rule(), self._known_in_groups()), self.queue.regroup())
        self._regroup_slice()

    def _regroup_slice(self) -> bool:
        """Continue with `_regrouping` for a slice of time; True if a part is left for the next step."""
        clock = self._ports.clock
        ends_at = clock.monotonic() + self.settings.slice_seconds
        self._wake.set()  # for the remaining steps, and for labels that have changed since
        for _ in self._regrouping or ():
            if clock.monotonic() > ends_at:
                return True
        self._regrouping = None
        self._permits.cluster_changed()
        return False

    def _known_in_groups(self) -> Iterator[PodView]:
        """The pods that groups are made of: all that have not ended, with the nodes of pods that are assumed at that time."""
        return (self.state.assumed(pod.uid) or pod for pod in tuple(self.known_pods) if not pod.finished)

    def _following_labels(self, namespaces: Collection[str]) -> Iterator[None]:
        """Put the pods of namespaces that have other labels into the groups that the policies name now, in steps of one pod."""
        for pod in tuple(self.known_pods):
            if pod.namespace in namespaces and not pod.finished and self.known_pod(pod.key) is pod:  # others were put by their own events
                self.queue.groups.index.put(self.state.assumed(pod.uid) or pod)
            yield

    def _relabelled(self, namespace: str) -> None:
        """Record that the labels of a namespace have changed, if groups depend on them."""
        if any(policy.groups_read_namespaces for profile in self.profiles for policy in profile.grouping):
            self._namespaces.add(namespace)

    def _changed(self) -> None:
        self._permits.cluster_changed()
        self._wake.set()

    def _leaving(self, uid: str, gone: bool) -> None:
        self._preemptor.leaving(uid)
        self._binding.leaving(uid)
        if gone:
            self._writes.forget(uid)

    async def _drain(self) -> None:
        """Wait for work under way, at most `stop_seconds`. Placements that wait for permits are released at once."""
        self._cycle.cancel()
        self._group_cycle.cancel()  # members that are being bound would wait for those whose bindings have not begun
        self._changes.apply(lambda: False)
        self._permits.release()
        try:
            async with asyncio.timeout(self.settings.stop_seconds):
                await self._binding.drain()
                await self._preemptor.drain()
                await self._writes.drain()
                await self._group_status.drain()
                await self._ports.events.drain()
        except TimeoutError:
            left = f"{count(self.n_binding, 'binding')} and {count(self.n_writing, 'status', 'statuses')} under way"
            self._ports.emit(Failed("stopping", TimeoutError(f"{left} after {self.settings.stop_seconds:g} s; they are given up")))


def policies_between(old: Chain, new: Chain) -> tuple[CompiledPolicy, ...]:
    """The policies that one of the chains has and the other does not have in that revision."""
    before = {(policy.name, policy.revision): policy for policy in old.policies}
    after = {(policy.name, policy.revision): policy for policy in new.policies}
    both = before | after
    return tuple(both[key] for key in sorted(before.keys() ^ after.keys()))


MAX_MEMBERS_ASKED = 200
"""Members of a waiting group, times changed policies, that are checked in one step; a larger group is tried again without a check."""


class AffectedByPolicies:
    """A test for queued pods: True if a change of policies concerns the pod.

    `changed` are the changed policies by profile; they are evaluated for pods in the state `at` the change.
    """

    def __init__(self, changed: Mapping[Profile, Sequence[CompiledPolicy]], at: EvaluationContext) -> None:
        self._changed = changed
        self._at = at
        self._answers: dict[tuple[bytes, Profile], bool] = {}
        self.n_evaluated = 0
        """The scopes that were evaluated so far."""

    def __call__(self, queued: QueuedPod) -> bool:
        """True if another policy decides about the pod now, or about a member of a group.

        Pods of one template get one answer, unless a scope reads their identity.
        """
        policies = [policy for policy in self._changed.get(queued.profile, ()) if policy.authority.covers(queued.pod.namespace)]
        if isinstance(queued, QueuedGroup):
            members = queued.members.values()
            return bool(policies) and (len(members) * len(policies) > MAX_MEMBERS_ASKED or any(self(member) for member in members))
        if any(policy.scope_varies for policy in policies):
            return self._governed(queued, policies)
        key = (queued.pod.template, queued.profile)
        if key not in self._answers:
            self._answers[key] = self._governed(queued, policies)
        return self._answers[key]

    def _governed(self, queued: QueuedPod, policies: Sequence[CompiledPolicy]) -> bool:
        self.n_evaluated += len(policies)
        try:
            return any(policy.governs(queued.pod, self._at) for policy in policies)
        except Exception:  # noqa: BLE001 — a policy that fails on this pod is reported when the pod is tried
            return True
