"""Why a filter rejects, for one pod and all nodes: one sentence for each of its bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wharfinger.compiler import messages, schedule
from wharfinger.compiler.ir import Graph, Module, Node, Stage
from wharfinger.compiler.lower import Lowering
from wharfinger.compiler.passes import optimized
from wharfinger.compiler.rules import CompiledFilter
from wharfinger.language import typed
from wharfinger.model.pod import PodView

REST = "one of the filter's further requirements does not hold"


class Reasons:
    """The sentences of a policy's filters.

    Messages are seldom asked for, so they have a program of their own, made at the first question.
    """

    def __init__(self, policy: typed.Policy, params: Mapping[str, Any], filters: Sequence[CompiledFilter]) -> None:
        self._policy = policy
        self._params = params
        self._filters = filters
        self._lets = {let.name: let.value for let in policy.lets}
        self._program: schedule.Program | None = None

    def of(self, index: int, pod: PodView) -> tuple[str, ...]:
        """One sentence per bit of a filter; what differs between nodes is `…`."""
        rule = self._filters[index]
        program = self._scheduled()
        registers = schedule.bound(program, pod)
        return tuple(
            REST if bit.clause is None else self._sentence(index, bit.clause, program, registers, missing=bit.missing) for bit in rule.bits
        )

    def _sentence(self, index: int, number: int, program: schedule.Program, registers: schedule.Registers, *, missing: bool) -> str:
        clause = self._filters[index].clauses[number]
        if missing:
            return messages.missing_text(clause.condition, self._lets)
        names = iter(f"{index} {number} {hole}" for hole in range(len(clause.message.parts)))

        def value_of(expr: typed.Expr) -> str:
            name = next(names)
            value, present = f"{name} value", f"{name} present"
            if value not in program.registers:
                return messages.OPEN
            known = present not in program.registers or registers[program.registers[present]]
            return messages.shown(registers[program.registers[value]] if known else None, expr.type)

        return messages.filled(clause.message, value_of)

    def _scheduled(self) -> schedule.Program:
        if self._program is None:
            lowering = Lowering(self._policy, Graph())
            roots: dict[str, Node] = {}
            for index, rule in enumerate(self._policy.filters):
                for number, clause in enumerate(rule.clauses):
                    roots |= _holes(lowering, f"{index} {number}", clause.message)
            self._program = schedule.schedule(optimized(Module(graph=lowering.graph, roots=roots), self._params), {})
        return self._program


def _holes(lowering: Lowering, prefix: str, message: typed.Message) -> dict[str, Node]:
    """The holes of a message whose values do not depend on the node."""
    roots: dict[str, Node] = {}
    for number, hole in enumerate(part for part in message.parts if isinstance(part, typed.Expr)):
        value = lowering(hole)
        if value.node.stage <= Stage.POD and (value.present is None or value.present.stage <= Stage.POD):
            roots[f"{prefix} {number} value"] = value.node
            if value.present is not None:
                roots[f"{prefix} {number} present"] = value.present
    return roots
