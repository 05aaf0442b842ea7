"""The budget of policies: how much time of a decision a policy may take, and the suspension of those that take more.

A policy that exceeds its budget several times in a row is suspended: pods that it governs wait, and all others are placed as before. To
decide about them without it would place pods where its author forbids it. The policy is tried again after a pause that doubles each time,
and at once when its text or the size of the cluster changes.

Nothing is measured while decisions are quick: a decision within the budget has no policy that exceeds it. After a slow decision, the
policies that govern the pod are measured rule by rule, until some decisions in a row were within the budget. Rules that are computed in
steps before a decision are measured always, and count for it. What is only read before it, and kept for all pods, does not count. Times are
CPU times, so other load on the machine does not suspend a policy.

What looks at every placed pod in one step is not measured but counted, before it is done (`scans.py`): policies that would take too many
operations for a pod together are suspended at once, those with the most first. A cluster with fewer pods has them decide.

A group is decided in many steps. Each decision about a member is compared with the budget by itself, so that a large group may take long.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct, field

from wharfinger.event_loop import Backoff
from wharfinger.framework.cluster_event import NO_EVENT
from wharfinger.framework.extension import Plugin
from wharfinger.framework.plugin_calls import NO_TIMER, CallTimer, DecisionTimer, RuleStatistics, Stopwatch
from wharfinger.framework.prepared import Reason
from wharfinger.framework.rules.policy_rules import PolicyFilter, PolicyScore
from wharfinger.model.state.object_store import EvaluationContext
from wharfinger.policies import scans

if TYPE_CHECKING:
    from wharfinger.compiler.program import CompiledPolicy
    from wharfinger.framework.chain import Chain
    from wharfinger.model.objects.pod_view import PodView

SUSPEND_AFTER = 3
"""Decisions in a row that exceed the budget, after which a policy is suspended."""
SUSPEND_AT = 100
"""One decision that takes this many times the budget suspends a policy."""
STEADY_AFTER = 10
"""Decisions in a row within the budget, after which a policy is not measured any more, and its pauses start again from the first."""
RETRY_AT_SIZE_CHANGE = 0.1
"""The relative change of the number of nodes or placed pods after which a suspended policy is tried again at once."""
MIN_SIZE = 100
"""Numbers of nodes or pods below this count as this many in `RETRY_AT_SIZE_CHANGE`."""

Key = tuple[str, str]
"""A policy's name and revision."""
Size = tuple[int, int]
"""The number of nodes, and the number of pods on them."""


class Suspended(Plugin):
    """The rejector of pods that wait for suspended policies; no event of the cluster wakes these pods."""

    name = "suspended policies"
    wakes_on = NO_EVENT


SUSPENDED = Suspended()


class BudgetSettings(Struct, frozen=True, kw_only=True):
    """`seconds` that a policy may take of a decision, 0 for no limit; `pauses` until a suspended policy is tried again.

    `timer` returns the CPU time of the thread in seconds.
    """

    seconds: float = 0.02
    pauses: Backoff = field(default_factory=lambda: Backoff(initial=30.0, maximum=1800.0))
    timer: Callable[[], float] = time.thread_time


class Suspension(Struct, frozen=True, kw_only=True):
    """A suspended policy: the seconds it took of the last decision, and the seconds of the pause.

    `scanned` is the number of operations on placed pods for which it was suspended before a decision; 0 if it was measured. `since` is
    seconds since 1970.
    """

    policy: str
    revision: str
    seconds: float
    allowed: float
    pause: float
    since: float
    scanned: int = 0

    @property
    def key(self) -> Key:
        """The policy's name and revision."""
        return self.policy, self.revision

    def __str__(self) -> str:
        why = f"it took {_milliseconds(self.seconds)} of a decision and may take {_milliseconds(self.allowed)}"
        if self.scanned:
            why = (
                f"it would look at every placed pod in each decision with {self.scanned:,} operations, and the policies of a pod may take "
                f"{scans.MAX_SCANNED:,} together {scans.NO_INDEX}"
            )
        return (
            f'policy "{self.policy}" is suspended: {why}; pods that it governs wait. '
            f"It is tried again after {self.pause:g} s, and when its text or the size of the cluster changes"
        )


class Allowance:
    """The use of the budget by one policy; `suspended_until` is a monotonic time, None if it is not suspended."""

    __slots__ = ("_over", "_settings", "_steady", "pauses", "suspended_until")

    def __init__(self, settings: BudgetSettings) -> None:
        self._settings = settings
        self._over = 0
        self._steady = 0
        self.pauses = 0
        self.suspended_until: float | None = None

    def took(self, seconds: float, now: float) -> bool:
        """True if a decision for which the policy took `seconds` suspends it."""
        allowed = self._settings.seconds
        if seconds <= allowed:
            self._over = 0
            self._steady += 1
            return False
        self._steady = 0
        self._over += 1
        if self._over < SUSPEND_AFTER and seconds <= SUSPEND_AT * allowed:
            return False
        self.suspend(now)
        return True

    def suspend(self, now: float) -> None:
        """Begin the next pause."""
        self.pauses += 1
        self.suspended_until = now + self.pause

    @property
    def pause(self) -> float:
        """The seconds of the last suspension."""
        return self._settings.pauses.seconds(self.pauses)

    @property
    def is_steady(self) -> bool:
        """True if the policy need not be measured any more."""
        return self._steady >= STEADY_AFTER

    def try_again(self) -> None:
        """End the suspension; the next decision over the budget suspends the policy again."""
        self.suspended_until = None
        self._over = SUSPEND_AFTER - 1


class PolicyBudget:
    """The budgets of the policies that decide. `now` and `monotonic` are the clock's; `size` is that of the cluster.

    `changed` is called with name and revision of every policy that is suspended, or is not any more.
    """

    def __init__(
        self,
        settings: BudgetSettings,
        now: Callable[[], float],
        monotonic: Callable[[], float],
        size: Callable[[], Size],
        changed: Callable[[str, str], None] = lambda _policy, _revision: None,
    ) -> None:
        self.settings = settings
        self._now = now
        self._monotonic = monotonic
        self._size = size
        self._watched: dict[Key, Allowance] = {}
        self._watched_names: frozenset[str] = frozenset()
        self._suspended: dict[Key, tuple[Suspension, Size]] = {}
        self._call_timer: PolicyTimer | None = None  # of the decision about a single pod that is under way, if it is measured
        self._of_members: dict[PolicyTimer, None] | None = None  # that were measured in a step of a group, in order; None outside of one
        self._kept: dict[Key, list[CompiledPolicy]] = {}  # for each decision about a group in which a policy kept to its budget
        self._exceeded: set[Key] = set()  # by policies, in a decision about that group
        self._changed = changed

    @property
    def suspended(self) -> Mapping[Key, Suspension]:
        """The policies that are suspended, by name and revision."""
        return {key: suspension for key, (suspension, _) in self._suspended.items()}

    def stopwatch(self, inner: Stopwatch | None) -> Stopwatch | None:
        """A stopwatch that measures watched policies and leaves everything else to `inner`; `inner` itself if there is no limit."""
        return PolicyStopwatch(self, inner) if self.settings.seconds else inner

    def watches(self, policies: Sequence[str]) -> bool:
        """True if one of these policies is watched."""
        return bool(self._watched_names) and not self._watched_names.isdisjoint(policies)

    def deciding(self) -> None:
        """Begin a decision about a single pod; `decided` is its end, also where it raises."""
        self._call_timer = None

    def decided(self, governing: Sequence[CompiledPolicy], seconds: float, *, goes_on: bool = False) -> bool:
        """True if a decision about a pod that these policies govern, which took these seconds, suspends one of them.

        With `goes_on`, the same evaluation may be concluded by a later decision: a policy has not yet kept to its budget in it.
        """
        call_timer, self._call_timer = self._call_timer, None
        if not self.settings.seconds:
            return False
        if call_timer is not None:
            return self._check_pod(governing, call_timer, goes_on=goes_on)
        if seconds > self.settings.seconds:
            self._watch(governing)
        return False

    def _check_pod(self, governing: Sequence[CompiledPolicy], call_timer: PolicyTimer, *, goes_on: bool) -> bool:
        """Compare a decision about a single pod with the budget; True if it suspends one of these policies."""
        seconds = seconds_by_policy(call_timer)
        over, within = self._newly_over(governing, call_timer, seconds)
        return self._check(over if goes_on else [*over, *within], seconds)

    def _newly_over(
        self, governing: Sequence[CompiledPolicy], call_timer: PolicyTimer, seconds: Mapping[str, float]
    ) -> tuple[list[CompiledPolicy], list[CompiledPolicy]]:
        """The policies that exceed their budget in this decision for the first time, and those that are within it.

        A policy exceeds its budget once in a decision, however many parts the decision has.
        """
        undecided = [policy for policy in governing if policy.name not in call_timer.exceeded]
        over = [policy for policy in undecided if seconds.get(policy.name, 0.0) > self.settings.seconds]
        call_timer.exceeded.update(policy.name for policy in over)
        return over, [policy for policy in undecided if policy.name not in call_timer.exceeded]

    @contextmanager
    def group_step(self, governing: Callable[[], Sequence[CompiledPolicy]]) -> Iterator[None]:
        """A context for one step of a group; each decision in it about a member is measured separately.

        `governing` returns the policies that govern one of the members.
        """
        if not self.settings.seconds:
            yield
            return
        began, self._of_members = self._monotonic(), {}
        try:
            yield
        finally:
            measured = self.check_step(governing)
            self._of_members = None
            if not measured and self._monotonic() - began > self.settings.seconds:
                self._watch(governing())

    def check_step(self, governing: Callable[[], Sequence[CompiledPolicy]]) -> bool:
        """True if something was measured in this step of a group; it is compared with the budget before the group is placed."""
        if self._of_members is None:  # there is no limit
            return False
        found, self._of_members = self._of_members, {}
        for call_timer in found:
            self._check_member(governing(), call_timer)
        return bool(found)

    def measured(self, call_timer: PolicyTimer) -> None:
        """Record the times of a timer that has begun, has reached the next part of the decision, or has ended.

        A search for a group may ask for the scores steps later.
        """
        if self._of_members is not None:
            self._of_members[call_timer] = None
        else:
            self._call_timer = call_timer

    def group_ended(self) -> None:
        """End the decisions about a group: a policy that exceeded its budget in none of them has kept to it."""
        for key, kept in self._kept.items():
            for policy in () if key in self._exceeded else kept:
                self._check([policy], {})
        self._kept, self._exceeded = {}, set()

    def _check_member(self, governing: Sequence[CompiledPolicy], call_timer: PolicyTimer) -> None:
        """Compare a decision about a member, or about victims, with the budget."""
        seconds = seconds_by_policy(call_timer)
        over, within = self._newly_over([policy for policy in governing if policy.name in call_timer.policies], call_timer, seconds)
        self._exceeded.update((policy.name, policy.revision) for policy in over)
        self._check(over, seconds)
        for policy in within if call_timer.has_ended else ():
            self._kept.setdefault((policy.name, policy.revision), []).append(policy)

    def _watch(self, governing: Sequence[CompiledPolicy]) -> None:
        for policy in governing:
            self._watched.setdefault((policy.name, policy.revision), Allowance(self.settings))
        self._update_names()

    def _check(self, governing: Sequence[CompiledPolicy], measured: Mapping[str, float]) -> bool:
        """True if one of these policies is suspended for what it took of a decision."""
        suspends = False
        for policy in governing:
            key, seconds = (policy.name, policy.revision), measured.get(policy.name, 0.0)
            if key in self._suspended:  # by an earlier member of the same step
                continue
            allowance = self._watched.get(key)
            if allowance is None and seconds > self.settings.seconds:
                allowance = self._watched[key] = Allowance(self.settings)
            if allowance is None:
                continue
            if allowance.took(seconds, self._monotonic()):
                self._suspend(key, seconds, allowance)
                suspends = True
            elif allowance.is_steady:
                del self._watched[key]
        self._update_names()
        return suspends

    def _update_names(self) -> None:
        self._watched_names = frozenset(name for name, _ in self._watched)

    def _suspend(self, key: Key, seconds: float, allowance: Allowance, scanned: int = 0) -> None:
        self._suspended[key] = self._suspension(key, seconds, allowance.pause, scanned), self._size()
        self._changed(*key)

    def _suspension(self, key: Key, seconds: float, pause: float, scanned: int) -> Suspension:
        policy, revision = key
        allowed, since = self.settings.seconds, self._now()
        return Suspension(policy=policy, revision=revision, seconds=seconds, allowed=allowed, pause=pause, since=since, scanned=scanned)

    def _scanning_too_much(self, chain: Chain, pod: PodView, at: EvaluationContext) -> list[tuple[CompiledPolicy, int]]:
        """The policies to suspend before a decision about a pod, with their operations on placed pods."""
        if not chain.scanning or not self.settings.seconds:
            return []
        return list(scans.scanning_too_much(chain, pod, at, self._size()[1], self._suspended))

    def _holding(self, chain: Chain, pod: PodView, at: EvaluationContext) -> tuple[Suspension, ...]:
        """The policies that are suspended already, of those that govern a pod."""
        if not self._suspended:
            return ()
        return tuple(
            self._suspended[policy.name, policy.revision][0]
            for policy in chain.possible_policies(pod.namespace)
            if (policy.name, policy.revision) in self._suspended and policy.governs(pod, at)
        )

    def holding(self, chain: Chain, pod: PodView, at: EvaluationContext) -> tuple[Suspension, ...]:
        """The suspended policies that govern a pod at this time, with these objects; those that scan too much are suspended now."""
        for policy, scanned in self._scanning_too_much(chain, pod, at):
            self._watch([policy])
            allowance = self._watched[policy.name, policy.revision]
            allowance.suspend(self._monotonic())
            self._suspend((policy.name, policy.revision), 0.0, allowance, scanned)
        return self._holding(chain, pod, at)

    def would_hold(self, chain: Chain, pod: PodView, at: EvaluationContext) -> tuple[Suspension, ...]:
        """The suspensions for which a pod would wait; suspends no policy. The chain may have policies that do not decide."""
        pause = self.settings.pauses.seconds(1)
        scanning = [
            self._suspension((policy.name, policy.revision), 0.0, pause, scanned)
            for policy, scanned in self._scanning_too_much(chain, pod, at)
        ]
        return (*self._holding(chain, pod, at), *scanning)

    def scanned(self, operations: int) -> int:
        """The operations on placed pods that a rule takes at once, which does so many for each of them; 0 if there is no limit."""
        return operations * self._size()[1] if self.settings.seconds else 0

    def held_back(self, chain: Chain, at: Callable[[], EvaluationContext]) -> Chain:
        """The chain for answers about pods that are not decided: its gate also holds pods that would wait for a suspended policy."""

        def waits(pod: PodView) -> Reason | None:
            found = self.would_hold(chain, pod, at())
            return Reason("; ".join(map(str, found))) if found else None

        return chain.with_gate(waits)

    def adopted(self, chains: Iterable[Chain]) -> None:
        """Forget policies that are in none of these chains, which decide now."""
        present = {(policy.name, policy.revision) for chain in chains for policy in chain.policies}
        for key in self._watched.keys() - present:
            del self._watched[key]
        self._update_names()
        for key in self._suspended.keys() - present:
            del self._suspended[key]
            self._changed(*key)

    def review(self) -> bool:
        """True if a suspended policy is tried again from now on: its pause has ended, or the size of the cluster has changed."""
        if not self._suspended:
            return False
        now, size = self._monotonic(), self._size()
        found = [key for key, (_, then) in self._suspended.items() if self._due(key, now) or _resized(then, size)]
        for key in found:
            del self._suspended[key]
            self._watched[key].try_again()
            self._changed(*key)
        return bool(found)

    def _due(self, key: Key, now: float) -> bool:
        until = self._watched[key].suspended_until
        return until is None or now >= until


class PolicyStopwatch:
    """A `Stopwatch` that measures watched policies for a budget; `inner` measures all other decisions."""

    def __init__(self, budget: PolicyBudget, inner: Stopwatch | None) -> None:
        self._budget = budget
        self._inner = inner

    def statistics_of(self, plugin: Plugin) -> RuleStatistics | None:
        """The statistics of a plugin, as `inner` keeps it."""
        return None if self._inner is None else self._inner.statistics_of(plugin)

    def begin_precomputing(self) -> CallTimer:
        """The timer of steps before a decision, for each policy."""
        return DecisionTimer(self._budget.settings.timer, whole=False)

    def begin(self, *, whole: bool, policies: Sequence[str], precomputed: CallTimer = NO_TIMER) -> CallTimer:
        """The timer of a decision that begins; what was computed in steps before it counts too."""
        if precomputed is not NO_TIMER or self._budget.watches(policies):
            call_timer = PolicyTimer(self._budget.settings.timer, whole=whole, policies=policies, marked=self._budget.measured)
            call_timer.by_policy |= precomputed.by_policy
            self._budget.measured(call_timer)
            return call_timer
        return NO_TIMER if self._inner is None else self._inner.begin(whole=whole, policies=policies, precomputed=precomputed)

    def ended(self, call_timer: CallTimer, status: str) -> None:
        """Pass the timer on to the budget, or to `inner`."""
        if isinstance(call_timer, PolicyTimer):
            call_timer.has_ended = True
            self._budget.measured(call_timer)
        elif self._inner is not None:
            self._inner.ended(call_timer, status)


class EveryDecision:
    """A `Stopwatch` that measures the policies of every decision; `seconds` are those of the last one, by policy."""

    def __init__(self, timer: Callable[[], float]) -> None:
        self._timer = timer
        self.seconds: Mapping[str, float] = {}

    def statistics_of(self, plugin: Plugin) -> RuleStatistics | None:  # noqa: ARG002 — not kept
        """No statistics are kept."""
        return None

    def begin_precomputing(self) -> CallTimer:
        """The timer of steps before a decision, for each policy."""
        return DecisionTimer(self._timer, whole=False)

    def begin(self, *, whole: bool, policies: Sequence[str], precomputed: CallTimer = NO_TIMER) -> CallTimer:  # noqa: ARG002 — all are measured
        """The timer of a decision that begins; what was computed in steps before it counts too."""
        self.seconds = {}
        call_timer = DecisionTimer(self._timer, whole=whole)
        call_timer.by_policy |= precomputed.by_policy
        return call_timer

    def ended(self, call_timer: CallTimer, status: str) -> None:  # noqa: ARG002 — the same for every status
        """Keep the seconds of the policies."""
        if isinstance(call_timer, DecisionTimer):
            self.seconds = seconds_by_policy(call_timer)


class PolicyTimer(DecisionTimer):
    """The times of one decision for the budget of `policies`, by name; `exceeded` are those that were found to be above theirs.

    `has_ended` once the decision goes no further. `marked` is called after each part of the decision, such as the filters or the scores.
    """

    __slots__ = ("_marked", "exceeded", "has_ended", "policies")

    def __init__(self, clock: Callable[[], float], *, whole: bool, policies: Sequence[str], marked: Callable[[PolicyTimer], None]) -> None:
        super().__init__(clock, whole=whole)
        self.policies = policies
        self.exceeded: set[str] = set()
        self.has_ended = False
        self._marked = marked

    def mark(self, point: str) -> None:
        """Count the time since the last mark for an extension point."""
        super().mark(point)
        self._marked(self)


def seconds_by_policy(call_timer: DecisionTimer) -> dict[str, float]:
    """The seconds of a decision that each policy took."""
    found = dict(call_timer.by_policy)
    for _, slot, seconds in call_timer.calls:
        if isinstance(slot.plugin, PolicyFilter | PolicyScore):
            name = slot.plugin.origin[0]
            found[name] = found.get(name, 0.0) + seconds
    return found


def _resized(before: Size, now: Size) -> bool:
    return any(abs(new - old) > RETRY_AT_SIZE_CHANGE * max(old, MIN_SIZE) for old, new in zip(before, now, strict=True))


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms"
