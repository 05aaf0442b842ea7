"""Objectives that a search minimises: named measures of a finished placement, and expressions over them.

    unplaced             pods that have no node at the end
    evicted              pods that preemption evicted
    moves                pods that were on a node before and end on another one, or on none; in a decision log: decisions with another node
    nodes_touched        nodes with at least one pod
    unallocated:RESOURCE the part of what the nodes offer that no pod requests, 0 to 1
    gpu_unallocated      the same for GPUs
    imbalance:LABEL      how unlike the nodes with different values of a label are used: the part of the CPU that pods request, most minus
                         least (or of the memory, where that is more); `zone` and `region` stand for Kubernetes' own labels

An expression has `+ - * /`, parentheses, numbers, `min` and `max`, with a space around `/`.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from wharfinger.errors import UsageError
from wharfinger.language.report import wording
from wharfinger.model import objects
from wharfinger.model.node_labels import REGION, ZONE
from wharfinger.model.state.snapshot import Snapshot
from wharfinger.simulate import openb
from wharfinger.simulate.dry_run import Utilisation, utilisation

GPUS = (openb.GPU_MILLI, openb.GPU, "amd.com/gpu", "gpu.intel.com/i915")
"""Resources that count GPUs; the first that some node offers is meant by `gpu_unallocated`."""
SHORT = {"zone": ZONE, "region": REGION}

UNPLACED, EVICTED, MOVES = "unplaced", "evicted", "moves"
PLAIN = (UNPLACED, EVICTED, MOVES, "nodes_touched", "gpu_unallocated")
KEYED = ("unallocated", "imbalance")
_NAME = re.compile(r"(?<![\w.])(?P<name>[A-Za-z_]\w*)(?::(?P<key>[\w./-]*\w))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """An expression over measures, which a search makes small; `measures` are their names."""

    text: str
    tree: ast.expr = field(compare=False, repr=False)
    measures: tuple[str, ...]

    def of(self, values: Mapping[str, float]) -> float:
        """The value for these measures; infinite, so worse than any other, where it is no finite number, as after a division by 0."""
        variables = dict(zip(_variables(len(self.measures)), (values[name] for name in self.measures), strict=True))
        try:
            found = _value(self.tree, variables)
        except ZeroDivisionError:
            return math.inf
        return found if math.isfinite(found) else math.inf


def objective(text: str) -> Objective:
    """The objective of a text; raises UsageError for an invalid text."""
    measures: list[str] = []

    def variable(found: re.Match[str]) -> str:
        name = found.group()
        if found["key"] is None and found["name"] in _FUNCTIONS:
            return name
        _check(text, found["name"], found["key"])
        if name not in measures:
            measures.append(name)
        return _variables(len(measures))[measures.index(name)]

    replaced = _NAME.sub(variable, text)
    try:
        tree = ast.parse(replaced.strip(), mode="eval").body
        _value(tree, dict.fromkeys(_variables(len(measures)), 1.0))
    except ZeroDivisionError:
        pass
    except (SyntaxError, ValueError, TypeError, KeyError, OverflowError, RecursionError, MemoryError) as error:
        raise UsageError(f"--objective {text}: not an expression over measures ({', '.join(PLAIN)}, …) with + - * / min max") from error
    if not measures:
        raise UsageError(f"--objective {text}: it names no measure; there are {_known()}")
    return Objective(text=" ".join(text.split()), tree=tree, measures=tuple(measures))


def _variables(count: int) -> list[str]:
    return [f"measure{number}" for number in range(count)]


def _check(text: str, name: str, key: str | None) -> None:
    if name in (PLAIN if key is None else KEYED):
        return
    if name in KEYED:
        example = "zone" if name == "imbalance" else "cpu"
        raise UsageError(f"--objective {text}: {name} needs an argument; write it as {name}:{example}")
    near = wording.closest(name, [*PLAIN, *KEYED])
    raise UsageError(f"--objective {text}: there is no measure {name}; {f'did you mean {near}?' if near else f'there are {_known()}'}")


def _known() -> str:
    return ", ".join([*PLAIN, "unallocated:RESOURCE", "imbalance:LABEL"])


_OPERATORS: Mapping[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
}
_FUNCTIONS: Mapping[str, Callable[..., float]] = {"min": min, "max": max}


def _value(tree: ast.expr, variables: Mapping[str, float]) -> float:
    """The value of an expression; KeyError, TypeError, ValueError or OverflowError for what an objective cannot have."""
    match tree:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool) and math.isfinite(number):
            return float(number)
        case ast.Name(id=name):
            return variables[name]
        case ast.UnaryOp(op=op, operand=operand):
            return _OPERATORS[type(op)](_value(operand, variables))
        case ast.BinOp(op=op, left=left, right=right):
            return _OPERATORS[type(op)](_value(left, variables), _value(right, variables))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if len(arguments) > 1:
            return _FUNCTIONS[name](*(_value(argument, variables) for argument in arguments))
        case _:
            raise ValueError(ast.dump(tree))


def refuse_unknown(names: Iterable[str], nodes: Sequence[objects.Node]) -> None:
    """Raise UsageError for a measure of a resource or label that no node has: it would be the same for every trial."""
    of_nodes = {
        "unallocated": {resource for node in nodes for resource in node.status.allocatable},
        "imbalance": {label for node in nodes for label in node.metadata.labels},
    }
    for name in names:
        kind, _, key = name.partition(":")
        if kind in of_nodes and SHORT.get(key, key) not in of_nodes[kind]:
            near = wording.closest(key, of_nodes[kind])
            raise UsageError(f"--objective {name}: no node has {key}" + (f"; did you mean {kind}:{near}?" if near else ""))


# ── measures of a placement ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def measured(names: Sequence[str], snapshot: Snapshot, counts: Mapping[str, float]) -> dict[str, float]:
    """The measures of a finished placement by name; `counts` has those that the snapshot does not have."""
    return {name: counts[name] if name in counts else _measure(name, snapshot) for name in names}


def _measure(name: str, snapshot: Snapshot) -> float:
    kind, _, key = name.partition(":")
    if kind == "nodes_touched":
        return float(utilisation(snapshot).touched)
    if kind == "gpu_unallocated":
        use = utilisation(snapshot)
        return next((_unallocated(use, gpu) for gpu in GPUS if use.of(gpu).allocatable), 0.0)
    if kind == "unallocated":
        return _unallocated(utilisation(snapshot), key)
    return _imbalance(snapshot, SHORT.get(key, key))


def _unallocated(use: Utilisation, resource: str) -> float:
    return 1 - use.of(resource).fraction if use.of(resource).allocatable else 0.0


def _imbalance(snapshot: Snapshot, label: str) -> float:
    """The largest difference between the used parts of two domains, over CPU and memory; 0 with fewer than two domains."""
    domains, count = snapshot.domain(label)
    inside = domains >= 0
    widest = 0.0
    for resource in ("cpu", "memory"):
        row = snapshot.resource_index(resource)
        if row is None:
            continue
        used = np.bincount(domains[inside], weights=snapshot.requested[row][inside], minlength=count)
        offered = np.bincount(domains[inside], weights=snapshot.allocatable[row][inside], minlength=count)
        parts = used[offered > 0] / offered[offered > 0]
        widest = max(widest, float(np.ptp(parts))) if parts.size else widest
    return widest
