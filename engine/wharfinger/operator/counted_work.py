"""The work of an answer, counted and not timed: the same question about the same cluster takes the same work on every machine.

One operation is what `compiler.cost` counts: about 2 ns for each node. A rule counts its operations for each node that it is evaluated on,
and everything around it counts as much as it takes at least.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import ParamSpec, TypeVar

from wharfinger.compiler import weights
from wharfinger.errors import UsageError
from wharfinger.framework.extension import Plugin
from wharfinger.framework.plugin_calls import NO_TIMER, CallTimer, RuleStatistics
from wharfinger.framework.rules.policy_rules import operations_of
from wharfinger.steps import followed_by

MAX_OPERATIONS = 5_000_000_000
"""Operations that an answer may take: about 10 s of the scheduler's time."""

SECONDS_OF_AN_OPERATION = 2e-9

STEP = 10_000
"""Operations that are counted for each step of an answer, for any work in it."""
DECISION = 200_000
"""Those of a decision apart from its rules, or of bringing an earlier one up to date."""
PREEMPTION = 2_000_000
"""Those of looking for pods to evict."""
VICTIM = 200
"""Those of a rule about one pod that may be evicted."""

Found = TypeVar("Found")
P = ParamSpec("P")
R = TypeVar("R")


class CountedWork:
    """A `Stopwatch` that counts operations and reads no clock."""

    def __init__(self) -> None:
        self._around = 0
        self._rules: dict[Plugin, tuple[RuleStatistics, int]] = {}

    @property
    def operations(self) -> int:
        """The operations so far."""
        return self._around + sum(statistics.evaluated * each for statistics, each in self._rules.values())

    def add(self, operations: int) -> None:
        """Count operations that are not those of a rule on nodes."""
        self._around += operations

    def statistics_of(self, plugin: Plugin) -> RuleStatistics:
        """The number of nodes that a plugin was evaluated on, which the caller updates."""
        if plugin not in self._rules:
            self._rules[plugin] = RuleStatistics(), _operations(plugin)
        return self._rules[plugin][0]

    def begin_precomputing(self) -> CallTimer:
        """Nothing is counted: the decision counts the nodes of each rule, computed in steps or not."""
        return NO_TIMER

    def begin(self, *, whole: bool, policies: Sequence[str], precomputed: CallTimer = NO_TIMER) -> CallTimer:  # noqa: ARG002 — what is evaluated again is counted by rule
        """The timer of a decision that begins."""
        self.add(DECISION)
        return _CountingTimer(self)

    def ended(self, call_timer: CallTimer, status: str) -> None:
        """Everything is counted already."""


class _CountingTimer(CallTimer):
    """The timer of one decision: it counts searches for victims."""

    __slots__ = ("_work",)

    def __init__(self, work: CountedWork) -> None:
        self._work = work

    def mark(self, point: str) -> None:
        """Count a search for pods to evict; filters and scores are counted by node."""
        if point == "PostFilter":
            self._work.add(PREEMPTION)

    def of_policy(self, policy: str, rule: Callable[P, R]) -> Callable[P, R]:  # noqa: ARG002 — all policies count alike
        """The rule, counted at each call."""

        def wrapped(*arguments: P.args, **named: P.kwargs) -> R:
            self._work.add(VICTIM)
            return rule(*arguments, **named)

        return wrapped


def _operations(plugin: Plugin) -> int:
    """The operations of a rule for each node; at least as many as one of Kubernetes takes."""
    return max(weights.PLUGIN, operations_of(plugin))


def within(steps: Generator[None, None, Found], work: CountedWork, limit: int = MAX_OPERATIONS) -> Generator[None, None, Found]:
    """The same steps, whose decisions `work` counts; UsageError once they have taken more than `limit` operations together."""

    def count() -> None:
        work.add(STEP)
        if work.operations > limit:
            raise UsageError(
                f"the answer takes more than {limit:,} operations, about {limit * SECONDS_OF_AN_OPERATION:g} s of the scheduler's time; "
                "ask about fewer pods, or with fewer rules"
            )

    return followed_by(steps, count)
