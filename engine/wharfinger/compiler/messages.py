"""The messages of policies for rejected nodes, with their placeholders filled in.

A placeholder that reads the pod or a param has one value. One that reads the node has a value per node; where nodes are summed up it
prints as `…`. `Reasons` gives the sentences of a filter for one pod and all nodes, one per bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wharfinger.compiler import reads, schedule
from wharfinger.compiler.graph.ir import Graph, Module, Node, Stage
from wharfinger.compiler.graph.lower import lowering_of
from wharfinger.compiler.graph.lowering import Lowering
from wharfinger.compiler.graph.passes import optimized
from wharfinger.compiler.rules import CompiledFilter
from wharfinger.errors import printable
from wharfinger.language.semantics import typed, types
from wharfinger.language.semantics.describe import describe
from wharfinger.language.semantics.types import Kind, Type
from wharfinger.model.objects.pod_view import PodView

OPEN = "…"
NONE = "<none>"
MAX_NAMED = 3
MAX_LENGTH = 1000  # of a message: the length of an event


def shown(value: Any, type_: Type) -> str:
    """A value as people read it: `500m`, `2Gi`, `10%`, `web`; `<none>` if it is missing."""
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, bytes)):
        return str(value)
    if isinstance(value, frozenset):
        element = Type(type_.element or Kind.STRING)
        return "[" + ", ".join(shown(member, element) for member in sorted(value)) + "]"
    return types.readable(float(value), type_.kind)


def filled_message(message: typed.Message, value_of: Callable[[typed.Expr], str]) -> str:
    """The text of a message with `value_of` for each placeholder, cut at the length of an event's message.

    A placeholder of three letters can have an annotation of 256 KiB as its value, so no values are computed after the cut. An annotation
    can also have control characters, which a terminal obeys: values are made printable.
    """
    parts: list[str] = []
    room = MAX_LENGTH
    for part in message.parts:
        text = part if isinstance(part, str) else printable(value_of(part)[: MAX_LENGTH + 1])
        parts.append(text)
        room -= len(text)
        if room < 0:
            return "".join(parts)[: MAX_LENGTH - 1] + OPEN
    return "".join(parts)


def missing_text(condition: typed.Expr, lets: Mapping[str, typed.Expr]) -> str:
    """The text about a condition that is neither true nor false: `node.labels["zone"] is missing`."""
    absent = [describe(expr) for expr in reads.possibly_absent(condition, lets)] or [describe(condition)]
    shown_ = absent if len(absent) <= MAX_NAMED else [*absent[: MAX_NAMED - 1], "another value"]
    return f"{' or '.join(shown_)} is missing"


OTHER_REQUIREMENT = "another requirement of the filter is not met"


class Reasons:
    """The sentences of some filters, or permits, of a policy.

    They are seldom needed, so their program is compiled at the first call. Those about missing values name parts of the filter, which is
    looked through with the policy's compilation: it may be long.
    """

    def __init__(self, policy: typed.Policy, params: Mapping[str, Any], filters: Sequence[CompiledFilter]) -> None:
        self._policy = policy
        self._params = params
        self._filters = filters
        self._lets = {let.name: let.value for let in policy.lets}
        self._missing = {
            (index, bit.clause): missing_text(rule.clauses[bit.clause].condition, self._lets)
            for index, rule in enumerate(filters)
            for bit in rule.bits
            if bit.missing and bit.clause is not None
        }
        self._program: schedule.Program | None = None
        self._with_values_of_pods: set[int] = set()
        self._same_for_all_pods: dict[int, tuple[str, ...]] = {}

    def of(self, index: int, pod: PodView) -> tuple[str, ...]:
        """One sentence per bit of a filter; values that differ between nodes are `…`."""
        known = self._same_for_all_pods.get(index)
        if known is not None:
            return known
        rule = self._filters[index]
        program = self._scheduled()
        registers = schedule.bound(program, pod)
        found = tuple(
            OTHER_REQUIREMENT if bit.clause is None else self._sentence(index, bit.clause, program, registers, missing=bit.missing)
            for bit in rule.bits
        )
        if index not in self._with_values_of_pods:
            self._same_for_all_pods[index] = found
        return found

    def _sentence(self, index: int, number: int, program: schedule.Program, registers: schedule.Registers, *, missing: bool) -> str:
        clause = self._filters[index].clauses[number]
        if missing:
            return self._missing[index, number]
        names = iter(f"{index} {number} {placeholder}" for placeholder in range(len(clause.message.parts)))

        def value_of(expr: typed.Expr) -> str:
            name = next(names)
            value, present = f"{name} value", f"{name} present"
            if value not in program.registers:
                return OPEN
            known = present not in program.registers or registers[program.registers[present]]
            return shown(registers[program.registers[value]] if known else None, expr.type)

        return filled_message(clause.message, value_of)

    def _scheduled(self) -> schedule.Program:
        if self._program is None:
            lowering = lowering_of(self._policy, Graph())
            roots: dict[str, Node] = {}
            for index, rule in enumerate(self._filters):
                for number, clause in enumerate(rule.clauses):
                    placeholders = _placeholders(lowering, f"{index} {number}", clause.message)
                    roots |= placeholders
                    if placeholders:
                        self._with_values_of_pods.add(index)
            self._program = schedule.schedule(optimized(Module(graph=lowering.graph, roots=roots), self._params), {})
        return self._program


def _placeholders(lowering: Lowering, prefix: str, message: typed.Message) -> dict[str, Node]:
    """The placeholders of a message whose values do not depend on the node."""
    roots: dict[str, Node] = {}
    for number, placeholder in enumerate(part for part in message.parts if isinstance(part, typed.Expr)):
        value = lowering(placeholder)
        if value.node.stage <= Stage.POD and (value.present is None or value.present.stage <= Stage.POD):
            roots[f"{prefix} {number} value"] = value.node
            if value.present is not None:
                roots[f"{prefix} {number} present"] = value.present
    return roots
