"""The values of a policy's conditions at a node, printed under the text of the policy.

    require here < max_per_node
            |      |
            3      2

A failed expectation or a rejection is easier to understand with the values of the operands than with a bare `false`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Sequence
from itertools import groupby
from typing import Any

from msgspec import Struct

from wharfinger.builtins.signature import NO_POINTS
from wharfinger.compiler.aggregates import aggregates
from wharfinger.compiler.interpreter import Interpreter, Outcome, Points
from wharfinger.compiler.program import CompiledPolicy
from wharfinger.framework.chain import Chain
from wharfinger.language.report import wording
from wharfinger.language.report.diagnostics import Source
from wharfinger.language.semantics import describe, typed, types
from wharfinger.language.semantics.types import NUMERIC, Kind, Shape
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.snapshot import Snapshot

MISSING = "missing"
MAX_DEVICES = 4
MAX_VALUES = 100
"""Values that are printed of one expression, the first ones in its text."""
MAX_COLUMNS = 400
"""Characters of a line of the source that are printed, with the values under them."""
MAX_CLAUSES = 20
"""Clauses of one filter whose sentences are given for a node."""
NO_VALUE = frozenset({Kind.PODS, Kind.DEVICES, Kind.LABELS, Kind.POD, Kind.NODE, Kind.DEVICE, Kind.WORKLOAD})
"""Kinds whose values are too long to print under an operand."""

ITEMS = frozenset({Shape.ITEM, Shape.DEVICE})
"""Shapes whose values differ between placed pods or devices, so that there is no single one to print."""

Evaluate = Callable[[typed.Expr], str]


class Value(Struct, frozen=True):
    """The printed value of the sub-expression that starts at a 1-based line and column."""

    line: int
    column: int
    text: str


def values(expression: typed.Expr, evaluate: Evaluate) -> tuple[Value, ...]:
    """The values of the sub-expressions whose value is not already in the text, outermost first where two start at one place."""
    found: dict[tuple[int, int], typed.Expr] = {}
    for part in _walk(expression):
        if isinstance(part, typed.Const) or part.type.kind in NO_VALUE or part.type.shape in ITEMS or _is_implied(part):
            continue
        line, column = _anchor(part)
        if column <= MAX_COLUMNS:
            found.setdefault((line, column), part)
    return tuple(Value(*place, evaluate(found[place])) for place in sorted(found)[:MAX_VALUES])


def lets(expression: typed.Expr) -> tuple[str, ...]:
    """Names of the lets that an expression reads itself, in the order of the text."""
    names = [part.name for part in _walk(expression) if isinstance(part, typed.LetRef)]
    return tuple(dict.fromkeys(names))


def annotated_lines(source: Source, found: tuple[Value, ...]) -> list[str]:
    """The source lines that have values, each followed by its pipes and values, without common indentation."""
    lines: list[str] = []
    for number, of_line in groupby(found, key=lambda value: value.line):
        text = source.line(number)
        margin = len(text) - len(text.lstrip())
        shown = text[:MAX_COLUMNS].rstrip() + ("…" if len(text) > MAX_COLUMNS else "")
        lines += [shown[margin:], *_under([(value.column - 1 - margin, value.text) for value in of_line])]
    return lines


def _under(marks: list[tuple[int, str]]) -> list[str]:
    """Pipes under the columns, then the values from the right, each on the first line where it does not touch its neighbour."""
    rows = [_write([(column, "|") for column, _ in marks])]
    left = list(marks)
    while left:
        shown: list[tuple[int, str]] = []
        limit: int | None = None
        for column, text in reversed(left):
            if limit is None or column + len(text) < limit:
                shown.append((column, text))
                limit = column
            else:
                limit = column
        left = [mark for mark in left if mark not in shown]
        rows.append(_write([*shown, *((column, "|") for column, _ in left)]))
    return rows


def _write(marks: list[tuple[int, str]]) -> str:
    line = ""
    for column, text in sorted(marks):
        line = line.ljust(column) + text
    return line


def _walk(expression: typed.Expr) -> Iterator[typed.Expr]:
    """The expression and its operands, from the outside in.

    Expressions inside `pods where …` have one value per pod and are left out, and so is the name of a group.
    """
    yield expression
    by_group = isinstance(expression, typed.AttributeRef) and expression.attribute.by_group
    if not isinstance(expression, typed.Select) and not by_group:
        for part in typed.parts(expression):
            yield from _walk(part)


def _is_implied(part: typed.Expr) -> bool:
    """True if the author did not write this part: the `x == y` inside `x != y`, or the `not` that `reject` became."""
    if not isinstance(part, typed.Operation):
        return False
    if part.op is typed.Op.NOT:
        inner = part.operands[0]
        return inner.span == part.span and not _is_negated(inner)
    return _is_negated(part)


def _is_negated(part: typed.Expr) -> bool:
    if not isinstance(part, typed.Operation) or part.op not in (typed.Op.EQ, typed.Op.IN):
        return False
    start = _operator(part)
    return part.span.source.text.startswith(("!=", "not"), start)


def _operator(part: typed.Operation) -> int:
    """The offset of a binary operator."""
    left, right = part.operands[0].span, part.operands[1].span
    between = left.source.text[left.end : right.start]
    return left.end + len(between) - len(between.lstrip(" )\n\t"))


def _anchor(part: typed.Expr) -> tuple[int, int]:
    """The position under which a value is printed: the operator of an operation, the first letter of anything else."""
    span = part.span
    if isinstance(part, typed.Operation) and part.op is typed.Op.NOT and part.operands[0].span == span:
        part = part.operands[0]
    if isinstance(part, typed.Operation) and len(part.operands) == 2:
        return span.position(_operator(part))
    return span.line, span.column


MAX_LETS = 8


class PolicyExplainer:
    """The sentences and values of a chain's policies; the rules of a policy are called `policy/rule`.

    The rules and nodes of one decision share an interpreter: what a policy counts over all pods is counted once.
    """

    def __init__(self, chain: Chain) -> None:
        self._at: tuple[PodView, Snapshot] | None = None
        self._interpreters: dict[str, Interpreter] = {}
        self._preferring = [policy for policy in chain.policies if policy.device_preferences]
        self._filters = {f"{policy.name}/{rule.name}": (policy, rule) for policy in chain.policies for rule in policy.policy.filters}

    def location(self, rule: str) -> str | None:
        """`file:line:column` of a policy's filter, None for any other."""
        found = self._filters.get(rule)
        if found is None:
            return None
        from wharfinger.language.files import shown_place  # noqa: PLC0415 — with the checker, which a question without policies spares

        return shown_place(str(found[1].span))

    def sentences(self, pod: PodView, snapshot: Snapshot, rule: str, row: int) -> tuple[str, ...] | None:
        """The sentences with values filled in of a policy's filter at a node, of `MAX_CLAUSES` at most; None for any other filter."""
        found = self._filters.get(rule)
        if found is None:
            return None
        interpreter = self._interpreter(found[0], pod, snapshot)
        return _sentences(interpreter, _failing(interpreter, found[1], row), row)

    def rejection(self, pod: PodView, snapshot: Snapshot, rule: str, row: int) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """(`sentences`, lines that show the operands) of a policy's filter at a node; None for any other filter."""
        found = self._filters.get(rule)
        if found is None:
            return None
        interpreter = self._interpreter(found[0], pod, snapshot)
        failing = _failing(interpreter, found[1], row)
        shown = [line for clause in failing[:MAX_CLAUSES] for line in operands(interpreter, found[0].policy, clause.condition, row)]
        return _sentences(interpreter, failing, row), tuple(shown)

    def device_preferences(self, pod: PodView, snapshot: Snapshot, row: int, given: Container[str]) -> Iterator[str]:
        """A line for each preference that ordered the devices of a node; `given` are the uids of the devices that the pod gets."""
        for policy in self._preferring:
            if not policy.governs(pod, snapshot):
                continue
            interpreter = self._interpreter(policy, pod, snapshot)
            for preference in policy.policy.device_preferences:
                values = [(device, interpreter.device_value(preference, row, device)) for device in snapshot.devices.on(row)]
                with_values = [(device, value) for device, value in values if not isinstance(value, Outcome)]
                with_values.sort(key=lambda pair: -math.inf if pair[1] is None else pair[1], reverse=True)
                got = [f"{device.name} ({printed(value, preference.value)})" for device, value in with_values if device.uid in given]
                others = [f"{device.name} ({printed(value, preference.value)})" for device, value in with_values if device.uid not in given]
                if got:
                    rest = f"; others: {wording.capped(others, MAX_DEVICES)}" if others else ""
                    yield f"{policy.name}: prefer device {preference.name}: gets {wording.capped(got, MAX_DEVICES)}{rest}"

    def _interpreter(self, policy: CompiledPolicy, pod: PodView, snapshot: Snapshot) -> Interpreter:
        if self._at is None or self._at[0] is not pod or self._at[1] is not snapshot:
            self._at, self._interpreters = (pod, snapshot), {}
        if policy.name not in self._interpreters:
            self._interpreters[policy.name] = quick_interpreter_of(policy, pod, snapshot)
        return self._interpreters[policy.name]


def interpreter_of(
    policy: CompiledPolicy, pod: PodView, snapshot: Snapshot, points: Points = NO_POINTS, *, counted: bool = False
) -> Interpreter:
    """The interpreter of a compiled policy for one pod; `points` are those of Kubernetes' scores by plugin.

    `counted`: selections count the pod itself if it is placed, as in `permit`.
    """
    return Interpreter(policy.policy, policy.params, pod, snapshot, points, counted=counted)


def quick_interpreter_of(policy: CompiledPolicy, pod: PodView, snapshot: Snapshot) -> Interpreter:
    """The same, with aggregates over placed pods from the counts that are kept: the cluster may be large."""
    return Interpreter(policy.policy, policy.params, pod, snapshot, aggregates=aggregates(policy, pod, snapshot))


def _failing(interpreter: Interpreter, rule: typed.Filter, row: int) -> list[typed.Clause]:
    return [clause for clause, answer in interpreter.filter(rule, row) if not passes(clause, answer)]


def _sentences(interpreter: Interpreter, failing: Sequence[typed.Clause], row: int) -> tuple[str, ...]:
    """The message of each clause that fails; of many the first ones, and how many there are more."""
    rest = len(failing) - MAX_CLAUSES
    more = [f"and {wording.count(rest, 'more requirement')}"] if rest > 0 else []
    return (*(interpreter.message(clause, row) for clause in failing[:MAX_CLAUSES]), *more)


def passes(clause: typed.Clause, answer: bool | None) -> bool:
    """True if an answer of a clause's condition lets the pod onto the node."""
    return clause.missing_passes is True if answer is None else answer


def operands(interpreter: Interpreter, policy: typed.Policy, expression: typed.Expr, row: int) -> list[str]:
    """The source lines of an expression with the values under them, then those of the lets it reads."""
    lines: list[str] = []
    waiting = [expression]
    known = {let.name: let for let in policy.lets if not let.of_group}
    shown: set[str] = set()
    while waiting and len(shown) <= MAX_LETS:
        part = waiting.pop(0)
        found = values(part, lambda sub: printed(interpreter.value(sub, row), sub))
        lines += annotated_lines(part.span.source, found)
        lines += of_devices(interpreter, policy, part, row)
        for name in lets(part):
            if name in known and name not in shown and known[name].value.type.kind not in NO_VALUE:
                shown.add(name)
                waiting.append(known[name].value)
    return lines


def of_devices(interpreter: Interpreter, policy: typed.Policy, expression: typed.Expr, row: int) -> list[str]:
    """The numbers of devices of a node that meet each condition, and all, for each selection of devices that an expression reads."""
    lets_of_devices = {let.name: let.value for let in policy.lets if let.value.type.kind is Kind.DEVICES}
    lines: list[str] = []
    for part in typed.walk(expression):
        chosen = lets_of_devices.get(part.name) if isinstance(part, typed.LetRef) else part
        if isinstance(chosen, typed.Select) and chosen.type.kind is Kind.DEVICES and chosen.where is not None:
            lines.append(_matching(interpreter, chosen.where, row))
    return list(dict.fromkeys(lines))


def _matching(interpreter: Interpreter, where: typed.Expr, row: int) -> str:
    """`of 8 devices, 2 match `it.attributes["model"] == "A100"`, 1 `not it.tainted`; 1 all`."""
    devices = interpreter.snapshot.devices.on(row)
    conditions = list(_joined(where))
    met = [[interpreter.value(each, row, device) is True for device in devices] for each in conditions]
    parts = [f"{sum(answers)} match `{describe.describe(each)}`" for each, answers in zip(conditions, met, strict=True)]
    whole = f"; {sum(map(all, zip(*met, strict=True)))} match all" if len(conditions) > 1 else ""
    return f"of {wording.count(len(devices), 'device')}, {', '.join(parts)}{whole}"


def _joined(where: typed.Expr) -> Iterator[typed.Expr]:
    """The conditions that `and` joins, in order."""
    if isinstance(where, typed.Operation) and where.op is typed.Op.AND:
        for operand in where.operands:
            yield from _joined(operand)
    else:
        yield where


def printed(value: Any, expression: typed.Expr) -> str:
    """A value as text in the unit of its expression's kind, short enough to fit under an operand."""
    kind = expression.type.kind
    if value is None:
        return MISSING
    if kind in NUMERIC:
        return types.readable(float(value), kind)
    if isinstance(value, bool | str):
        return describe.value_text(value, kind)
    if isinstance(value, Sequence | frozenset | set):
        return f"[{', '.join(sorted(map(str, value)))}]"
    return str(value)
