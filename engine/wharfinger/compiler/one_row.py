"""A bound policy asked about one node, in plain Python.

After a placement one row has changed, and a NumPy call on an array of one costs ten times the arithmetic. Most rules can be evaluated with
their operations' forms for one row instead; the result is the same to the last bit, and a property test says so. What only depends on the
node objects is looked up in the columns kept for all rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from wharfinger.builtins.context import AtNode
from wharfinger.compiler import schedule
from wharfinger.compiler.rules import Rule
from wharfinger.model.snapshot import Snapshot

if TYPE_CHECKING:
    from wharfinger.compiler.program import CompiledPolicy
    from wharfinger.model.pod import PodView

MISSING, SKIPPED = math.nan, math.inf


class OneRow:
    """The rules of one policy for one pod, one node at a time; only for rules whose plan has a form for one row.

    `static` gives the column of a static part for all rows.
    """

    __slots__ = ("_columns", "_pod", "_policy", "_registers", "_row", "_since", "_snapshot", "_start", "_static")

    def __init__(self, policy: CompiledPolicy, start: schedule.Registers, static: Callable[[schedule.StaticPart, Snapshot], Any]) -> None:
        self._policy = policy
        self._start = start
        self._static = static
        self._columns: dict[int, Any] = {}  # those of static parts, as they have been since the revision `_since`
        self._since = 0
        self._snapshot: Snapshot | None = None
        self._pod: PodView | None = None
        self._row = -1
        self._registers = start

    def filter_bits(self, index: int, pod: PodView, snapshot: Snapshot, row: int) -> int:
        """Why filter number `index` rejects the node of a row: one bit per reason, 0 lets the node pass."""
        rule = self._policy.filters[index]
        if self._left_out(rule, snapshot):
            return 0
        registers = self._run(rule.plan, pod, snapshot, row)
        outputs = rule.plan.outputs
        if rule.guarded and not registers[outputs[-1]]:
            return 0
        return sum(1 << k for k in range(len(rule.bits)) if registers[outputs[k]])

    def score(self, index: int, pod: PodView, snapshot: Snapshot, row: int) -> float:
        """The raw value of score number `index` at the node of a row; NaN where it is missing, infinite where the rule is left out."""
        rule = self._policy.scores[index]
        if self._left_out(rule, snapshot):
            return SKIPPED
        registers = self._run(rule.plan, pod, snapshot, row)
        outputs = rule.plan.outputs
        if rule.guarded and not registers[outputs[-1]]:
            return SKIPPED
        value = float(registers[outputs[0]])
        if not math.isfinite(value) or (rule.optional and not registers[outputs[1]]):
            return MISSING
        return value

    def _left_out(self, rule: Rule, snapshot: Snapshot) -> bool:
        if rule.metrics and not rule.metrics.isdisjoint(self._policy.freshness.suspended(snapshot)):
            return True
        return rule.pod_guard is not None and not self._start[rule.pod_guard]

    def _run(self, plan: schedule.Plan, pod: PodView, snapshot: Snapshot, row: int) -> schedule.Registers:
        """The registers with the plan's outputs filled; kept between questions about one node, so that rules share."""
        if row != self._row or snapshot is not self._snapshot or pod is not self._pod:
            self._turn_to(pod, snapshot, row)
        registers = self._registers
        for part in plan.static:
            if registers[part.register] is None:
                registers[part.register] = self._column(part, snapshot).item(row)
        schedule.run(plan.one_row or (), registers)
        return registers

    def _turn_to(self, pod: PodView, snapshot: Snapshot, row: int) -> None:
        changed = snapshot.node_changes(self._since)
        if changed is None or len(changed):
            self._columns.clear()
        self._since, self._snapshot, self._pod, self._row = snapshot.revision, snapshot, pod, row
        self._registers = self._start.copy()
        self._registers[schedule.FRAME] = AtNode(snapshot, pod, row)

    def _column(self, part: schedule.StaticPart, snapshot: Snapshot) -> Any:
        column = self._columns.get(part.register)
        if column is None:
            column = self._columns[part.register] = self._static(part, snapshot)
        return column
