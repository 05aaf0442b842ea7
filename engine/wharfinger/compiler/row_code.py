"""The rules of a policy as one Python function about one node.

A placement changes one row. Asking the kernels about an array of one costs ten times the arithmetic, and walking the graph step by step
still costs most of that. So for the rules that can change with a row's pods, the graph is written out as straight Python code, once per
policy: every operation one line on local names, each computed once however many rules need it.

The operations are those of the kernels on plain values, so the results are the same to the last bit; a property test says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from wharfinger.builtins.context import AtNode
from wharfinger.compiler import ops
from wharfinger.compiler.plain_code import INLINE, byte_code
from wharfinger.compiler.rules import CompiledFilter, CompiledScore, Rule
from wharfinger.compiler.schedule import Registers, RowStep, StaticPart
from wharfinger.language.catalogue import Volatility

KNOWN = "{0}[1]"  # what may be missing is a pair of value and presence
GIVEN = "{0}[0]"  # the operations made by `ops.given`


@dataclass(frozen=True, slots=True)
class RowCode:
    """The function `(frame, start, columns) -> answers` and what it needs: the columns of `static`, in order.

    `answers` holds for every filter in `filters` its bits, and for every score in `scores` its raw value (NaN missing, +inf left out), at
    the given places. `source` is the function's text.
    """

    run: Callable[[AtNode, Registers, Sequence[Any]], tuple[Any, ...]]
    static: tuple[StaticPart, ...]
    filters: dict[int, int]
    scores: dict[int, int]
    source: str


def row_code(filters: Sequence[CompiledFilter], scores: Sequence[CompiledScore]) -> RowCode | None:
    """The code of the rules that can be written so and that a row's pods can change; None if there are none."""
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
    return RowCode(names["rules"], tuple(text.static.values()), places, score_places, source)


def is_quick(rule: Rule) -> bool:
    """Whether a rule is in the code: no pods of other rows change it, those of its own do, and each operation has a form for one row."""
    return rule.plan.one_row is not None and rule.volatility in {Volatility.ROW, Volatility.TIMED}


class _Text:
    """The lines of the function as they are written, and the names they use."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"nan": math.nan, "inf": math.inf, "isfinite": math.isfinite}
        self.static: dict[int, StaticPart] = {}
        self._lines: list[str] = []
        self._given: dict[int, str] = {}  # registers filled before the function runs, and static columns: the lines that fetch them
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
        there = [self._name(rule.plan.outputs[1])] if rule.optional else []
        name = f"raw{len(self._lines)}"
        self._lines.append(f"{name} = {value}")
        present = " and ".join([*there, f"isfinite({name})"])
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
                self._lines.append(f"v{step.register} = {self._expression(step)}")

    def _expression(self, step: RowStep) -> str:
        arguments = [self._name(register) for register in step.arguments]
        template = GIVEN if step.op.name == "given" else KNOWN if step.op is ops.KNOWN else INLINE.get(step.op)
        if template is not None:
            return template.format(*arguments)
        self.names[f"f{step.register}"] = step.function
        return f"f{step.register}({', '.join((['frame'] if step.framed else []) + arguments)})"

    def _name(self, register: int) -> str:
        if register not in self._written and register not in self.static:
            self._given.setdefault(register, f"v{register} = start[{register}]")
        return f"v{register}"
