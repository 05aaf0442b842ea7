"""The rules of a policy as one generated Python function about one node.

A placement changes one row. Evaluating the kernels on an array of one row costs ten times the arithmetic, and interpreting the graph step
by step still costs most of that. So the rules that can change with the pods of a row are written out as straight Python code, once per
policy: one line per operation on local names, each computed once however many rules need it. `OneRow` calls that function for one bound
policy.

The operations are those of the kernels on plain values, so the results are equal to the last bit; a property test compares them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from wharfinger.builtins.signature import AtNode
from wharfinger.compiler.graph.operations import byte_code, expression
from wharfinger.compiler.rules import CompiledFilter, CompiledScore, Rule
from wharfinger.compiler.schedule import Registers, RowStep, StaticPart
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model.state.snapshot import Snapshot

if TYPE_CHECKING:
    from wharfinger.model.objects.pod_view import PodView


class RowCode(Struct, frozen=True):
    """The function `(frame, start, columns) -> answers`; `columns` are those of `static`, in order.

    `answers` holds the bits of each filter in `filters` and the raw value of each score in `scores` (NaN missing, +inf left out), at the
    given positions. `source` is the function's text.
    """

    run: Callable[[AtNode, Registers, Sequence[Any]], tuple[Any, ...]]
    static: tuple[StaticPart, ...]
    filters: dict[int, int]
    scores: dict[int, int]
    source: str


def row_code(filters: Sequence[CompiledFilter], scores: Sequence[CompiledScore]) -> RowCode | None:
    """The code of all rules for which `is_quick` is true; None if there are none."""
    quick_filters = [index for index, rule in enumerate(filters) if is_quick(rule)]
    quick_scores = [index for index, rule in enumerate(scores) if is_quick(rule)]
    if not quick_filters and not quick_scores:
        return None
    text = _Text()
    answers = [text.filter(filters[index]) for index in quick_filters] + [text.score(scores[index]) for index in quick_scores]
    source = text.source(answers)
    names = dict(text.names)
    exec(byte_code(source), names)  # noqa: S102 — the text is made from the operations above, never from a policy's own words
    places = {index: place for place, index in enumerate(quick_filters)}
    score_places = {index: len(places) + place for place, index in enumerate(quick_scores)}
    return RowCode(names.pop("rules"), tuple(text.static.values()), places, score_places, source)


def is_quick(rule: Rule) -> bool:
    """True if a rule depends on the pods of its own row only, and each operation has a form for one row."""
    return rule.plan.one_row is not None and rule.volatility in {Volatility.ROW, Volatility.TIMED}


class _Text:
    """The lines of the function and the names they use."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"nan": math.nan, "inf": math.inf, "isfinite": math.isfinite}
        self.static: dict[int, StaticPart] = {}
        self._lines: list[str] = []
        self._given: dict[int, str] = {}  # the lines that fetch registers filled before, and static columns
        self._written: set[int] = set()

    def filter(self, rule: CompiledFilter) -> str:
        """The expression of a filter's bits."""
        self._steps(rule)
        bits = " | ".join(f"({1 << k} if {self._name(rule.plan.outputs[k])} else 0)" for k in range(len(rule.bits))) or "0"
        return self._guarded(rule, bits, "0")

    def score(self, rule: CompiledScore) -> str:
        """The expression of a score's raw value."""
        self._steps(rule)
        value = f"float({self._name(rule.plan.outputs[0])})"
        presence = [self._name(rule.plan.outputs[1])] if rule.optional else []
        name = f"raw{len(self._lines)}"
        self._lines.append(f"{name} = {value}")
        present = " and ".join([*presence, f"isfinite({name})"])
        return self._guarded(rule, f"({name} if {present} else nan)", "inf")

    def source(self, answers: Sequence[str]) -> str:
        """The text of the function."""
        body = ["row = frame.row", *self._given.values(), *self._lines, f"return ({', '.join(answers)},)"]
        return "\n    ".join(["def rules(frame, start, columns):", *body]) + "\n"

    def _guarded(self, rule: Rule, expression: str, otherwise: str) -> str:
        guards = [self._name(rule.plan.outputs[-1])] if rule.guarded else []
        guards += [] if rule.pod_guard is None else [self._name(rule.pod_guard)]
        return f"({expression} if {' and '.join(guards)} else {otherwise})" if guards else expression

    def _steps(self, rule: Rule) -> None:
        for part in rule.plan.static:
            if part.register not in self.static:
                self._given[part.register] = f"v{part.register} = columns[{len(self.static)}].item(row)"
                self.static[part.register] = part
        for step in rule.plan.one_row or ():
            if step.register not in self._written and step.register not in self.static:
                self._written.add(step.register)
                written = f"v{step.register} = {self._expression(step)}"
                kept = [f"v{step.register} = start[{step.register}]", f"if v{step.register} is None:", f"    {written}"]
                self._lines += kept if step.lasting else [written]

    def _expression(self, step: RowStep) -> str:
        arguments = [self._name(register) for register in step.arguments]
        written = expression(step.op, arguments, at_row=True)
        if written is not None:
            return written
        self.names[f"f{step.register}"] = step.function
        return f"f{step.register}({', '.join((['frame'] if step.reads_cluster else []) + arguments)})"

    def _name(self, register: int) -> str:
        if register not in self._written and register not in self.static:
            self._given.setdefault(register, f"v{register} = start[{register}]")
        return f"v{register}"


Static = Callable[[StaticPart, Snapshot], Any]


class OneRow:
    """The rules of one policy for one pod, one node at a time; the answers of all rules are kept for the last node.

    `static` returns the column of a static part for all rows. `placed` as in `AtNode`.
    """

    __slots__ = ("__weakref__", "_answers", "_code", "_columns", "_placed", "_pod", "_row", "_since", "_snapshot", "_start", "_static")

    def __init__(self, code: RowCode, pod: PodView, start: Registers, static: Static, *, placed: bool) -> None:
        self._code = code
        self._pod = pod
        self._placed = placed
        self._start = start
        self._static = static
        self._columns: list[Any] | None = None  # of static parts, valid since the revision `_since`
        self._since = 0
        self._snapshot: Snapshot | None = None
        self._row = -1
        self._answers: tuple[Any, ...] = ()

    def filter_bits(self, index: int, snapshot: Snapshot, row: int) -> int:
        """The reasons of filter number `index` against the node of a row: one bit per reason, 0 if it passes."""
        if row != self._row or snapshot is not self._snapshot:
            self._evaluate(snapshot, row)
        bits: int = self._answers[self._code.filters[index]]
        return bits

    def score(self, index: int, snapshot: Snapshot, row: int) -> float:
        """The raw value of score number `index` at the node of a row; NaN if missing, infinite if the rule is left out."""
        if row != self._row or snapshot is not self._snapshot:
            self._evaluate(snapshot, row)
        value: float = self._answers[self._code.scores[index]]
        return value

    def _evaluate(self, snapshot: Snapshot, row: int) -> None:
        changed = snapshot.node_changes(self._since)
        columns = self._columns
        if columns is None or changed is None or len(changed):
            columns = self._columns = [self._static(part, snapshot) for part in self._code.static]
        self._since, self._snapshot, self._row = snapshot.revision, snapshot, row
        self._answers = self._code.run(AtNode(snapshot, self._pod, row, self._placed), self._start, columns)
