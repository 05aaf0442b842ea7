"""Aggregates over placed pods for the interpreter, by the counts that a cluster keeps.

The interpreter itself looks at every placed pod in Python: some microseconds for each pod and operation, which is too long for
explanations on a large cluster.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from wharfinger.builtins.signature import AtRows
from wharfinger.compiler import reads, schedule
from wharfinger.compiler.graph.ir import Graph, Module, Node
from wharfinger.compiler.graph.lower import lowering_of
from wharfinger.compiler.graph.passes import optimized
from wharfinger.compiler.selections import split_selection
from wharfinger.language.semantics import typed
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.snapshot import Snapshot

if TYPE_CHECKING:
    from wharfinger.compiler.program import CompiledPolicy

Aggregates = Callable[[typed.Aggregate, int], float | None]
"""Returns the value of an aggregate over placed pods at a row, None if it is missing."""


def value_of(registers: schedule.Registers, value: int, present: int | None) -> float | None:
    """The number in a register of one row; None if it is not present."""
    if present is not None and not np.all(registers[present]):
        return None
    number = float(np.reshape(registers[value], -1)[0])
    return None if math.isnan(number) else number


class _Programs:
    """The aggregates of one policy, each as a group of roots of one program."""

    def __init__(self, policy: typed.Policy, params: Mapping[str, Any]) -> None:
        rules = [*policy.filters, *policy.permits, *policy.scores, *policy.device_preferences, *policy.tie_break]
        lets = {let.name: let.value for let in policy.lets}
        found = reads.aggregates_of_pods(list(typed.outermost(tuple(rules))), lets)
        lowering = lowering_of(policy, Graph())
        roots: dict[str, Node] = {}
        self.numbers = {id(aggregate): str(number) for number, aggregate in enumerate(found)}
        groups: dict[str, list[str]] = {}
        for number, aggregate in enumerate(found):
            lowered = lowering(aggregate)
            own = {f"{number} value": lowered.node} | ({} if lowered.present is None else {f"{number} present": lowered.present})
            roots |= own
            groups[str(number)] = list(own)
        self.program = schedule.schedule(
            optimized(Module(graph=lowering.graph, roots=roots, places=lowering.places), params, split_selection), groups
        )


_PROGRAMS: WeakKeyDictionary[CompiledPolicy, _Programs] = WeakKeyDictionary()


def aggregates(policy: CompiledPolicy, pod: PodView, snapshot: Snapshot) -> Aggregates:
    """The aggregates of a policy for a pod to be placed; its program is compiled at the first call."""
    found = _PROGRAMS.get(policy)
    if found is None:
        found = _PROGRAMS[policy] = _Programs(policy.policy, policy.params)
    programs = found
    start = schedule.bound(programs.program, pod, strings=snapshot.strings)
    placed = snapshot.placement(pod.uid) is not None

    def value(expr: typed.Aggregate, row: int) -> float | None:
        number, registers = programs.numbers[id(expr)], programs.program.registers
        frame = schedule.with_frame(start, AtRows(snapshot, pod, np.array([row], dtype=np.intp), placed))
        with np.errstate(all="ignore"):
            schedule.run(programs.program.plans[number].steps, frame)
        return value_of(frame, registers[f"{number} value"], registers.get(f"{number} present"))

    return value
