"""Shadow policies: the decisions that they would have made, compared with the real ones.

Each is compared with the decisions about pods that it governs, on the state they were made on, and changes none of them. All shadows
together may take a share of the time. When it is used up, decisions are not compared, and are counted as unseen. A shadow that exceeds the
budget of a policy pauses, where a deciding policy would be suspended.

A comparison is one step of the event loop. Work that takes several steps, such as the first evaluation of all nodes for a template, is done
a few steps at a time; until it is done, decisions are not compared. A shadow searches for no pods to evict.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct, field

from wharfinger.framework.chain import Chain
from wharfinger.framework.evaluation.cycle import Decider, Pause
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.policies.active import ActivePolicies
from wharfinger.policies.budget import Allowance, BudgetSettings, EveryDecision
from wharfinger.policies.scans import scans_too_much

if TYPE_CHECKING:
    from wharfinger.compiler.program import CompiledPolicy
    from wharfinger.framework.ports import Clock
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot

MAX_TIME_SHARE = 0.1
"""The share of time that all shadow policies together may take."""
MAX_SAVED_SECONDS = 0.2
"""Seconds of this share that are saved at most while nothing is decided."""
STEP_SECONDS = 0.005
"""Seconds of such work for each decision that is not compared."""
MAX_KEPT = 50
MAX_CELLS = 5_000_000
"""Node × rule results that a shadow caches: a tenth of what a deciding chain may."""


class Disagreement(Struct, frozen=True, kw_only=True):
    """A decision that the shadow would have made differently: chosen nodes (None: no node fits) and feasible nodes of both."""

    pod: str
    at: float
    profile: str
    node: str | None
    feasible: int
    shadow_node: str | None
    shadow_feasible: int
    shadow_message: str
    policy_revision: str


class ShadowReport(Struct, kw_only=True):
    """The comparison of a shadow policy with the decisions; `unseen` were not compared. The last disagreements are kept."""

    policy: str
    revision: str
    agreed: int = 0
    disagreed: int = 0
    errors: int = 0
    unseen: int = 0
    last_error: str = ""
    last: deque[Disagreement] = field(default_factory=lambda: deque(maxlen=MAX_KEPT))


class _Shadow:
    """A shadow policy in one profile."""

    def __init__(self, policy: CompiledPolicy, chain: Chain, report: ShadowReport, budget: BudgetSettings) -> None:
        self.policy = policy
        self.chain = chain
        self.report = report
        self._budget = budget
        self._allowance = Allowance(budget)
        self._measured = EveryDecision(budget.timer)
        self._decider = Decider(chain, MAX_CELLS, self._measured)
        self._ahead: tuple[Generator[Pause], PodView] | None = None  # the steps under way, and the pod that they are for
        self._last: deque[Snapshot] = deque(maxlen=1)  # of the last decision; steps read it without a reference to this object

    def pauses(self, now: float) -> bool:
        """True if the shadow took too long recently and does not compare now; `now` is a monotonic time."""
        until = self._allowance.suspended_until
        if until is not None and now >= until:
            self._allowance.try_again()
            until = None
        return until is not None

    def is_ready(self, decision: Decision) -> bool:
        """True if the shadow can be compared with a decision in one step; takes some steps towards that if not."""
        snapshot, pod = decision.snapshot, decision.pod
        self._last.append(snapshot)
        if scans_too_much(self.policy, snapshot):
            self.report.last_error = "it would look at too many placed pods in each decision; decisions are not compared"
            return False
        if self._ahead is None:
            self._ahead = self._decider.precompute(partial(_only, self._last), pod), pod
        steps, until = self._ahead[0], self._budget.timer() + STEP_SECONDS
        for _ in steps:
            if self._budget.timer() >= until:
                return False
        of, self._ahead = self._ahead[1], None
        if of is not pod and of.template != pod.template:
            return False
        if self._decider.takes_long(snapshot, pod):
            self.report.last_error = "the policies of a pod take too long together for one step; decisions are not compared"
            return False
        return True

    def compare(self, profile: str, decision: Decision, at: float, now: float) -> None:
        """Count whether the shadow agrees; it pauses if it took too long."""
        snapshot, pod = decision.snapshot, decision.pod
        evaluation, choice = self._decider.evaluated_choice(snapshot, pod)
        node, message = (None, evaluation.rejection_message(snapshot)) if choice is None else (snapshot.names[choice.row], "")
        seconds = self._measured.seconds.get(self.policy.name, 0.0)
        if self._budget.seconds and self._allowance.took(seconds, now):
            self.report.last_error = (
                f"it took {1000 * seconds:.3g} ms of a decision and may take {1000 * self._budget.seconds:.3g} ms; "
                f"decisions are not compared for {self._allowance.pause:g} s"
            )
        if node == decision.node:
            self.report.agreed += 1
            return
        self.report.disagreed += 1
        disagreement = Disagreement(
            pod=decision.pod.key,
            at=at,
            profile=profile,
            node=decision.node,
            feasible=decision.feasible,
            shadow_node=node,
            shadow_feasible=evaluation.filtering.count,
            shadow_message=message,
            policy_revision=decision.policy_revision,
        )
        self.report.last.append(disagreement)


def _only(snapshots: Sequence[Snapshot]) -> Snapshot:
    return snapshots[0]


class Shadows:
    """The shadow policies of all profiles. `timer` measures their time together; `budget` is the time of a decision that one may take."""

    def __init__(self, clock: Clock, timer: Callable[[], float] | None = None, budget: BudgetSettings | None = None) -> None:
        self._clock = clock
        self._timer = timer or clock.monotonic
        self._budget = budget or BudgetSettings()
        self._by_profile: dict[str, list[_Shadow]] = {}
        self._saved = MAX_SAVED_SECONDS
        self._asked_at = self._timer()
        self.reports: Mapping[str, ShadowReport] = {}

    def adopt(self, active: ActivePolicies) -> None:
        """Set the shadow policies. A policy whose revision has not changed keeps its counts."""
        known = {(profile, found.policy.name): found for profile, shadows in self._by_profile.items() for found in shadows}
        reports: dict[str, ShadowReport] = {}
        self._by_profile = {}
        for profile, chains in active.shadows.items():
            for name, chain in chains.items():
                policy = next(policy for policy in chain.policies if policy.name == name)
                report = reports.setdefault(name, self._report(policy))
                before = known.get((profile, name))
                same = before is not None and before.chain is chain
                shadow = before if same and before is not None else _Shadow(policy, chain, report, self._budget)
                self._by_profile.setdefault(profile, []).append(shadow)
        self.reports = reports

    def _report(self, policy: CompiledPolicy) -> ShadowReport:
        before = self.reports.get(policy.name)
        return (
            before
            if before is not None and before.revision == policy.revision
            else ShadowReport(policy=policy.name, revision=policy.revision)
        )

    def compare(self, profile: str, decision: Decision) -> None:
        """Compare a decision that was just made with those of the shadow policies that govern the pod. Never raises."""
        shadows = self._by_profile.get(profile)
        if not shadows:
            return
        for shadow in shadows:
            try:
                if shadow.policy.governs(decision.pod, decision.snapshot):
                    self._compare(shadow, profile, decision)
            except Exception as error:  # noqa: BLE001 — an error of a shadow must not affect the decision
                shadow.report.errors += 1
                shadow.report.last_error = f"{type(error).__name__}: {error}"[:500]
        shadows.append(shadows.pop(0))  # when time is short, another is first next time

    def _compare(self, shadow: _Shadow, profile: str, decision: Decision) -> None:
        began = self._timer()
        self._saved = min(MAX_SAVED_SECONDS, self._saved + MAX_TIME_SHARE * (began - self._asked_at))
        self._asked_at = began
        if self._saved <= 0 or shadow.pauses(self._clock.monotonic()):
            shadow.report.unseen += 1
            return
        try:
            if shadow.is_ready(decision):
                shadow.compare(profile, decision, self._clock.now(), self._clock.monotonic())
            else:
                shadow.report.unseen += 1
        finally:
            self._saved -= self._timer() - began
