"""A compiled policy bound to one pod: evaluates its rules for any set of nodes.

Registers are kept between questions about the same rows of the same snapshot, so what two rules have in common is computed once.

Costly rules are computed in steps before a question about all nodes (`compute_in_steps`), by parts of their expressions. The cluster may
change between the steps: the question computes the nodes again that have changed, so its answer is the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Mapping
from functools import partial
from typing import Any
from weakref import ref

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from wharfinger.builtins.signature import NO_POINTS, AtRows, Rows
from wharfinger.compiler import schedule
from wharfinger.compiler.aggregates import Aggregates, value_of
from wharfinger.compiler.normalize import SKIPPED, VALUE
from wharfinger.compiler.program import CompiledPolicy, whole_column
from wharfinger.compiler.row_code import OneRow
from wharfinger.compiler.rules import CompiledFilter, CompiledPermit, CompiledScore, Rule
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.snapshot import Snapshot

_NO_ROWS: NDArray[np.intp] = np.zeros(0, dtype=np.intp)
OPERATIONS_PER_STEP = 2_500_000
"""Operations on numbers of nodes that a step of `compute_in_steps` takes: about 5 ms."""


class _Precomputed(Struct, frozen=True):
    """The outputs of a rule for all rows, each of which is as of `revision` or has changed since; valid while `token` is the same."""

    revision: int
    token: Hashable
    outputs: list[Any]


class BoundPolicy:
    """One policy for one pod on one cluster (any number of its snapshots).

    It also answers for other pods of the template, if the policy does not read their identity and none of them is placed yet.
    """

    __slots__ = (
        "_frame",
        "_one_row",
        "_placed",
        "_pod",
        "_points",
        "_policy",
        "_precomputed",
        "_reasons",
        "_registers",
        "_start",
        "_static",
        "_strings",
        "_tokens",
    )

    def __init__(self, policy: CompiledPolicy, pod: PodView, snapshot: Snapshot, *, counted: bool = False) -> None:
        """`counted`: selections count the pod itself if it is placed."""
        self._policy = policy
        self._pod = pod
        self._placed = not counted and snapshot.placement(pod.uid) is not None
        self._strings = strings = snapshot.strings
        self._static = policy.static_columns(strings)
        self._start = schedule.bound(policy.program, pod, strings=strings, tables=self._static.tables)
        if not self._placed:
            fresh = schedule.with_frame(self._start, AtRows(snapshot, pod, _NO_ROWS))
            schedule.run(policy.program.lasting, fresh)
            for register, _ in policy.program.lasting:
                self._start[register] = fresh[register]
        self._frame: AtRows | None = None
        self._precomputed: dict[int, _Precomputed] = {}  # by the identity of the plan
        self._tokens: dict[int, Hashable] = {}  # the same, as they were followed last
        self._points = NO_POINTS
        self._registers: schedule.Registers = self._start
        self._one_row: ref[OneRow] | None = None  # it refers to this object, and only garbage collections would free both
        self._reasons: dict[int, tuple[str, ...]] = {}

    @property
    def one_row(self) -> OneRow:
        """The rules in the policy's `row_code` for one node at a time; there must be some."""
        found = None if self._one_row is None else self._one_row()
        if found is None:
            assert self._policy.row_code is not None  # noqa: S101 — callers have checked `is_quick`
            found = OneRow(self._policy.row_code, self._pod, self._start, self.static_column, placed=self._placed)
            self._one_row = ref(found)
        return found

    def use_points(self, points: Mapping[str, NDArray[np.float64]]) -> None:
        """Take these points of Kubernetes' scores for all scores from now on, by plugin, `(n_nodes,)` each."""
        if points is not self._points:
            self._points, self._frame = points, None

    def reasons(self, index: int) -> tuple[str, ...]:
        """The reasons of filter number `index`, one sentence per bit; values that differ between nodes are `…`."""
        found = self._reasons.get(index)
        if found is None:
            found = self._reasons[index] = self._policy.reasons.of(index, self._pod)
        return found

    def left_out(self, rule: Rule, snapshot: Snapshot) -> bool:
        """True if a rule is left out because one of its metrics is suspended."""
        return bool(rule.metrics) and not rule.metrics.isdisjoint(self._policy.freshness.suspended(snapshot))

    def suspended(self, snapshot: Snapshot) -> tuple[str, ...]:
        """The metrics of the policy that too few nodes have; rules that use them are left out."""
        return tuple(sorted(self._policy.freshness.suspended(snapshot)))

    def forget_columns(self) -> None:
        """Forget the columns of the last question. The cluster has changed before they are read again."""
        self._precomputed = {}
        self._frame, self._registers = None, self._start

    def filter_bits(self, index: int, snapshot: Snapshot, rows: Rows) -> NDArray[np.uint64]:
        """The reasons of filter number `index` against nodes, `(n_rows,) uint64`: bit k is `filters[index].bits[k]`, 0 passes."""
        return self.bits_of(self._policy.filters[index], snapshot, rows)

    def bits_of(self, rule: CompiledFilter, snapshot: Snapshot, rows: Rows) -> NDArray[np.uint64]:
        """The reasons of a rule against nodes, `(n_rows,) uint64`: bit k is `rule.bits[k]`, 0 passes."""
        frame = self._at(snapshot, rows)
        if self._left_out(rule, snapshot):
            return np.zeros(frame.n_rows, dtype=np.uint64)
        outputs = self._outputs(rule, frame)
        bits: NDArray[np.uint64] | None = None
        for k in range(len(rule.bits)):
            fails = _column(outputs[k], frame, np.uint64)
            bits = fails if bits is None else bits | (fails << np.uint64(k))
        if bits is None:
            return np.zeros(frame.n_rows, dtype=np.uint64)
        return np.where(outputs[-1], bits, np.uint64(0)) if rule.guarded else bits

    def aggregates(self, rule: CompiledPermit, snapshot: Snapshot, row: int) -> Aggregates:
        """The aggregates over placed pods of a permit, at this node only."""
        self._at(snapshot, np.array([row], dtype=np.intp))
        with np.errstate(all="ignore"):
            schedule.run(rule.counts.steps, self._registers)
        found = {id(each.expr): value_of(self._registers, each.value, each.present) for each in rule.aggregates}
        return lambda expr, _row: found[id(expr)]

    def score(self, index: int, snapshot: Snapshot, rows: Rows) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
        """The raw values of score number `index`, `(n_rows,) float64`, and their states, `(n_rows,) uint8`.

        A state is 0 for a value, 1 for missing, 2 for skipped. Where it is not 0, the value is 0.
        """
        rule = self._policy.scores[index]
        frame = self._at(snapshot, rows)
        if self._left_out(rule, snapshot):
            return np.zeros(frame.n_rows), np.full(frame.n_rows, SKIPPED, dtype=np.uint8)
        outputs = self._outputs(rule, frame)
        raw = _column(outputs[0], frame, np.float64)
        state = self._states(rule, raw, outputs)
        if state is None:
            return raw, np.zeros(len(raw), dtype=np.uint8)
        if np.count_nonzero(state):
            raw[state != VALUE] = 0.0
        return raw, state

    def _states(self, rule: CompiledScore, raw: NDArray[np.float64], outputs: list[Any]) -> NDArray[np.uint8] | None:
        """The state of each value, None if all are values. A value that is not finite is missing."""
        missing: Any = None
        if rule.plan.may_warn and np.count_nonzero(finite := np.isfinite(raw)) < len(raw):
            missing = np.logical_not(finite)
        if rule.optional and np.count_nonzero(outputs[1]) < np.size(outputs[1]):
            absent = np.logical_not(outputs[1])
            missing = absent if missing is None else np.logical_or(missing, absent)
        state = (
            None if missing is None else np.array(np.broadcast_to(missing, raw.shape) if np.ndim(missing) == 0 else missing).view(np.uint8)
        )
        if not rule.guarded:
            return state
        return np.where(outputs[-1], np.zeros(len(raw), dtype=np.uint8) if state is None else state, np.uint8(SKIPPED))

    def tie_key(self, index: int, snapshot: Snapshot, rows: Rows) -> NDArray[np.float64]:
        """The value of key number `index` of the tie break, `(n_rows,) float64`; NaN where it is missing.

        For texts and versions, a number that orders these rows as their values do.
        """
        rule = self._policy.tie_break[index]
        frame = self._at(snapshot, rows)
        if self._left_out(rule, snapshot):
            return np.full(frame.n_rows, np.nan)
        outputs = self._outputs(rule, frame)
        if rule.texts is None:
            key = _column(outputs[0], frame, np.float64)
        else:
            key = rule.texts.ranks(snapshot.strings, _column(outputs[0], frame, np.int32))
        return np.where(outputs[1], key, np.nan) if rule.optional else key

    def device_order(self, snapshot: Snapshot, row: int) -> list[NDArray[np.float64]]:
        """The value of each preference for each device of a node, `(n_devices,) float64` each, the most important preference first.

        The larger comes first; a value that is missing is -inf. Preferences that say nothing of this pod or node are left out.
        """
        n_devices = len(snapshot.devices.on(row))
        found = []
        for rule in self._policy.device_preferences:
            frame = self._at(snapshot, np.array([row]))
            if self._left_out(rule, snapshot):
                continue
            outputs = self._outputs(rule, frame)
            if rule.guarded and not np.all(outputs[-1]):
                continue
            values = np.array(np.broadcast_to(outputs[0], (n_devices,)), dtype=np.float64)
            if rule.optional:
                values[~np.broadcast_to(outputs[1], (n_devices,))] = -np.inf
            values[np.isnan(values)] = -np.inf
            found.append(values)
        return found

    def token(self, rule: Rule, snapshot: Snapshot) -> Hashable:
        """A token that changes with anything that a rule reads except its own row and node objects.

        If two snapshots have equal tokens, the answer for a row can differ only by what changed on that row or in a node object. Only
        GLOBAL rules depend on more. The token keeps references to what it compares, so an old one never equals a new one by chance.
        """
        dependencies = rule.plan.dependencies
        moment: Hashable = snapshot.moment if dependencies.reads_time or rule.metrics else None
        if dependencies.namespaces:
            moment = moment, snapshot.objects.namespace_labels
        if not dependencies.selections and not dependencies.groups:
            return moment
        registers = self._start
        if dependencies.groups or any(registers[place] is None for place in dependencies.selections):  # the others last
            registers = schedule.with_frame(registers, AtRows(snapshot, self._pod, _NO_ROWS, self._placed))
            with np.errstate(all="ignore"):  # the name of a group may be chosen by values that are not present
                schedule.run(dependencies.steps, registers)
        counts = ((registers[place], registers[place].follow()) for place in dependencies.selections)
        return (moment, *(registers[place] for place in dependencies.groups), *counts)

    def follow(self, rule: Rule, snapshot: Snapshot) -> bool:
        """True if the token of a rule is another than at the last call for it; at the first, if it is not None."""
        before, token = self._tokens.get(id(rule.plan)), self.token(rule, snapshot)
        self._tokens[id(rule.plan)] = token
        return token != before

    def has_moved(self, rule: Rule, snapshot: Snapshot) -> bool:
        """True if `follow` would return True."""
        return self.token(rule, snapshot) != self._tokens.get(id(rule.plan))

    # ── evaluation ──

    def _left_out(self, rule: Rule, snapshot: Snapshot) -> bool:
        """True if a rule is left out: one of its metrics is suspended, or its guard is not true for this pod."""
        if self.left_out(rule, snapshot):
            return True
        return rule.pod_guard is not None and not self._start[rule.pod_guard]

    def _outputs(self, rule: Rule, frame: AtRows) -> list[Any]:
        """The outputs of a rule; each is a column or one value for all rows."""
        plan = rule.plan
        if (
            self._precomputed
            and (precomputed := self._precomputed.get(id(plan))) is not None
            and (found := self._from_precomputed(rule, precomputed, frame)) is not None
        ):
            return found
        if plan.may_warn:
            with np.errstate(all="ignore"):  # values that are not present are arbitrary, also as divisors
                self._run(plan, frame)
        else:
            self._run(plan, frame)
        registers = self._registers
        return [registers[output] for output in plan.outputs]

    def _run(self, plan: schedule.Plan, frame: AtRows) -> None:
        if 2 * frame.n_rows <= frame.snapshot.n_nodes and not isinstance(frame.rows, slice):
            schedule.run(plan.steps, self._registers)
            return
        for part in plan.static:
            if self._registers[part.register] is None:
                self._registers[part.register] = self.static_column(part, frame.snapshot)[frame.rows]
        schedule.run_for_all_rows(plan, self._registers)

    def _at(self, snapshot: Snapshot, rows: Rows) -> AtRows:
        """The frame for these rows; a new one empties the registers."""
        frame = self._frame
        if frame is None or frame.snapshot is not snapshot or (frame.rows is not rows and not _all_rows(frame.rows, rows)):
            if snapshot.strings is not self._strings:
                raise ValueError("a bound policy was evaluated on another cluster")
            frame = self._frame = AtRows(snapshot, self._pod, rows, self._placed, self._points)
            self._registers = schedule.with_frame(self._start, frame)
        return frame

    def read_in_steps(self, snapshot: Callable[[], Snapshot]) -> Generator[None]:
        """The steps of counting the pods, and of computing the kept columns, that the first question reads; none for a small cluster.

        `snapshot` returns the cluster as it is at each step. What changes meanwhile is left to the question.
        """
        for counting, places in self._policy.program.counting:
            for reader in counting(snapshot, [self._start[place] for place in places]):
                yield from reader.read_in_steps()
        for plan in self._policy.program.plans.values():
            for part in plan.static:
                if not part.own:
                    yield from self._static.fill_in_steps(self._key(part), snapshot, partial(self._values, part))

    def compute_in_steps(self, rules: Iterable[Rule], snapshot: Callable[[], Snapshot]) -> Generator[None]:
        """The steps of computing rules for all rows, whose outputs the next questions about them read.

        `snapshot` returns the cluster as it is at each step. If rows move meanwhile, the rest is left to the questions.
        """
        now = began = snapshot()
        registers = schedule.with_frame(self._start, self._whole(now))
        most, self._precomputed = OPERATIONS_PER_STEP // max(1, now.n_nodes), {}
        # Rules share registers, so what a rule reads may be as of the beginning.
        wanted = [(rule, self.token(rule, now)) for rule in rules if not self._left_out(rule, now)]
        for rule, token in wanted:
            plan = rule.plan
            for part in list(schedule.parts(plan.weights, most)) or [slice(0)]:  # there may be kept columns alone
                with np.errstate(all="ignore"):  # not across a pause
                    for static in plan.static:
                        if registers[static.register] is None:
                            registers[static.register] = self.static_column(static, now)
                    schedule.run_for_all_rows(plan, registers, part)
                yield
                now = snapshot()
                if now.layout_revision > began.revision or now.strings is not self._strings:
                    return
                registers[schedule.FRAME] = self._whole(now)
            self._precomputed[id(plan)] = _Precomputed(began.revision, token, [registers[output] for output in plan.outputs])

    def _whole(self, snapshot: Snapshot) -> AtRows:
        return AtRows(snapshot, self._pod, slice(None), self._placed, self._points)

    def is_precomputed(self, rule: Rule, snapshot: Snapshot) -> bool:
        """True if the outputs of the rule have been computed for all rows, and only changed rows must be computed again."""
        precomputed = self._precomputed.get(id(rule.plan))
        if precomputed is None or snapshot.node_changes(precomputed.revision) is None or snapshot.strings is not self._strings:
            return False
        if rule.volatility < Volatility.TIMED:
            return True
        return not len(snapshot.changed_nodes(precomputed.revision)) and self.token(rule, snapshot) == precomputed.token

    def _from_precomputed(self, rule: Rule, precomputed: _Precomputed, frame: AtRows) -> list[Any] | None:
        """The outputs for the rows of a frame, of which only those are computed that have changed; None if all must be."""
        snapshot, n_nodes = frame.snapshot, frame.snapshot.n_nodes
        if not self.is_precomputed(rule, snapshot):
            return None
        changed = np.zeros(n_nodes, np.bool_)
        for rows in (snapshot.node_changes(precomputed.revision), snapshot.usage_changes(precomputed.revision)):
            changed[rows] = True
        outputs = [np.broadcast_to(output, (n_nodes,))[frame.rows] for output in precomputed.outputs]
        again = np.flatnonzero(changed[frame.rows])
        if not len(again):
            return outputs
        rows = again if isinstance(frame.rows, slice) else frame.rows[again]
        registers = schedule.with_frame(self._start, AtRows(snapshot, self._pod, rows, self._placed, self._points))
        with np.errstate(all="ignore"):
            schedule.run(rule.plan.steps, registers)
        outputs = [np.array(output) for output in outputs]
        for output, register in zip(outputs, rule.plan.outputs, strict=True):
            output[again] = registers[register]
        return outputs

    def static_column(self, part: schedule.StaticPart, snapshot: Snapshot) -> NDArray[Any]:
        """The values of a static part for all rows, `(n_nodes,)`; an array that is never modified."""
        if part.own:
            return whole_column(self._values(part, snapshot, slice(None)), snapshot.n_nodes)
        return self._static.get(self._key(part), snapshot, partial(self._values, part, snapshot))

    def _key(self, part: schedule.StaticPart) -> Hashable:
        return (part.register, *(self._start[place] for place in part.depends), self._pod.template if part.of_pod else None)

    def _values(self, part: schedule.StaticPart, snapshot: Snapshot, rows: Rows) -> Any:
        fresh = schedule.with_frame(self._start, AtRows(snapshot, self._pod, rows, self._placed))
        with np.errstate(all="ignore"):  # needed if the caller is code for one row, which sets no error state
            schedule.run(part.steps, fresh)
        return fresh[part.register]


def _column(output: Any, frame: AtRows, dtype: type[np.generic]) -> NDArray[Any]:
    """An output as a new column, which the caller may modify."""
    if isinstance(output, np.ndarray) and output.ndim:
        return output.astype(dtype)
    return np.full(frame.n_rows, output, dtype=dtype)


def _all_rows(a: Rows, b: Rows) -> bool:
    """True if both are for all rows."""
    return isinstance(a, slice) and isinstance(b, slice) and a == b
