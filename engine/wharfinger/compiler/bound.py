"""A compiled policy bound to one pod: evaluates its rules for any set of nodes.

Between questions about the same rows of the same snapshot, registers are kept: whatever two rules have in common is computed
once. What only depends on the node objects is kept longer, see `static_columns`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.builtins.context import AtRows, Rows
from wharfinger.compiler import schedule
from wharfinger.compiler.ir import Stage
from wharfinger.compiler.rules import Rule
from wharfinger.model.pod import PodView
from wharfinger.model.snapshot import Snapshot
from wharfinger.model.strings import StringTable

if TYPE_CHECKING:
    from wharfinger.compiler.program import CompiledPolicy

VALUE, MISSING, SKIPPED = range(3)  # states of a raw score


class BoundPolicy:
    """One policy, one pod, one cluster (any number of its snapshots)."""

    __slots__ = ("_frame", "_pod", "_policy", "_program", "_registers", "_start", "_static", "_strings")

    def __init__(self, policy: CompiledPolicy, pod: PodView, strings: StringTable) -> None:
        self._policy = policy
        self._program = policy.program
        self._pod = pod
        self._strings = strings
        self._static = policy.static_columns(strings)
        self._start = schedule.bound(policy.program, pod, strings=strings)
        self._frame: AtRows | None = None
        self._registers: schedule.Registers = self._start

    def reasons(self, index: int) -> tuple[str, ...]:
        """What filter number `index` says of nodes it rejects, one sentence per bit; what differs between nodes is `…`."""
        return self._policy.reasons.of(index, self._pod)

    def suspended(self, snapshot: Snapshot) -> tuple[str, ...]:
        """The metrics of the policy that too few nodes have; rules that use them have no say."""
        return tuple(sorted(self._policy.freshness.suspended(snapshot)))

    def filter_bits(self, index: int, snapshot: Snapshot, rows: Rows) -> NDArray[np.uint64]:
        """Why filter number `index` rejects nodes, (n_rows,) uint64: bit k is `filters[index].bits[k]`, 0 lets the node pass."""
        rule = self._policy.filters[index]
        if self._left_out(rule, snapshot):
            return np.zeros(AtRows(snapshot, self._pod, rows).n_rows, dtype=np.uint64)
        frame, outputs = self._outputs(rule, snapshot, rows)
        bits = np.zeros(frame.n_rows, dtype=np.uint64)
        for k in range(len(rule.bits)):
            bits |= np.multiply(outputs[k], np.uint64(1 << k), dtype=np.uint64)
        return bits if rule.guard is None else np.where(outputs[-1], bits, np.uint64(0))

    def score(self, index: int, snapshot: Snapshot, rows: Rows) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
        """The raw value of score number `index`, (n_rows,) float64, and its state, (n_rows,) uint8: 0 a value, 1 missing, 2 skipped.

        Where the state is not 0, the value is.
        """
        rule = self._policy.scores[index]
        if self._left_out(rule, snapshot):
            n_rows = AtRows(snapshot, self._pod, rows).n_rows
            return np.zeros(n_rows), np.full(n_rows, SKIPPED, dtype=np.uint8)
        frame, outputs = self._outputs(rule, snapshot, rows)
        raw = np.array(np.broadcast_to(outputs[0], (frame.n_rows,)), dtype=np.float64)
        present = np.isfinite(raw)
        names = self._program.groups[rule.plan]
        if len(names) > 1 and names[1].endswith(" present"):
            present &= outputs[1]
        state = np.logical_not(present).view(np.uint8)
        if rule.guard is not None:
            state = np.where(outputs[-1], state, np.uint8(SKIPPED))
        raw[state != VALUE] = 0.0
        return raw, state

    def tie_key(self, index: int, snapshot: Snapshot, rows: Rows) -> NDArray[np.float64]:
        """The value of key number `index` of the tie break, (n_rows,) float64; NaN where it is missing."""
        rule = self._policy.tie_break[index]
        if self._left_out(rule, snapshot):
            return np.full(AtRows(snapshot, self._pod, rows).n_rows, np.nan)
        frame, outputs = self._outputs(rule, snapshot, rows)
        key = np.array(np.broadcast_to(outputs[0], (frame.n_rows,)), dtype=np.float64)
        return np.where(outputs[1], key, np.nan) if len(outputs) > 1 else key

    # ── evaluation ──

    def _left_out(self, rule: Rule, snapshot: Snapshot) -> bool:
        """Whether a rule has no say: one of its metrics is suspended, or its guard is not true for this pod."""
        if rule.metrics and not rule.metrics.isdisjoint(self._policy.freshness.suspended(snapshot)):
            return True
        if rule.guard is None or self._program.module.roots[rule.guard].stage is Stage.RUN:
            return False
        return not self._start[self._program.registers[rule.guard]]

    def _outputs(self, rule: Rule, snapshot: Snapshot, rows: Rows) -> tuple[AtRows, list[Any]]:
        """The outputs of a rule's plan."""
        frame = self._at(snapshot, rows)
        plan = self._program.plans[rule.plan]
        registers = self._registers
        with np.errstate(all="ignore"):  # what is not present may be anything, also divided by zero
            if isinstance(rows, slice):
                for part in plan.static:
                    self._fill_static(part, frame)
                schedule.run(plan.rest, registers)
            else:
                schedule.run(plan.steps, registers)
        return frame, [registers[output] for output in plan.outputs]

    def _at(self, snapshot: Snapshot, rows: Rows) -> AtRows:
        """The frame of a question; a new one empties the registers."""
        frame = self._frame
        if frame is None or frame.snapshot is not snapshot or not _same(frame.rows, rows):
            if snapshot.strings is not self._strings:
                raise ValueError("a bound policy was asked about another cluster")
            frame = self._frame = AtRows(snapshot, self._pod, rows)
            self._registers = schedule.framed(self._start, frame)
        return frame

    def _fill_static(self, part: schedule.StaticPart, frame: AtRows) -> None:
        registers = self._registers
        if registers[part.register] is not None:
            return
        key = (part.register, *(self._start[place] for place in part.depends), self._pod.template if part.of_pod else None)

        def evaluate(rows: Rows) -> Any:
            fresh = schedule.framed(self._start, AtRows(frame.snapshot, self._pod, rows))
            schedule.run(part.steps, fresh)
            return fresh[part.register]

        registers[part.register] = self._static.get(key, frame.snapshot, evaluate)


def _same(a: Rows, b: Rows) -> bool:
    """Whether two sets of rows are the same one."""
    return a is b or (isinstance(a, slice) and isinstance(b, slice) and a == b)
