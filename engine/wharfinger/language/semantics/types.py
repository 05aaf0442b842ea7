"""Types of the policy language: what a value measures, whether it may be absent, and how many there are of it.

A type has three independent parts, and each prevents one family of mistakes that schedulers' configuration has had for years:

- `Kind` is the dimension: `cpu` cannot be added to `memory`, and `memory` cannot be compared with a bare number.
- `optional` says that the value may be missing; nothing optional reaches a verdict or a score without the policy saying what then.
- `Shape` says how many values there are: one for all (`CONST`), one per pod (`POD`), one per node (`NODE`), one per placed pod (`ITEM`,
  inside `pods where …`). An operation has the larger shape of its operands.

Every numeric kind is a float64 when evaluated: cpu in millicores, memory in bytes, percent as a fraction (10% is 0.1), duration in
seconds, time in seconds since 1970, count as a whole number. Both evaluators use exactly these, so that they can be compared bit by bit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, IntEnum


class Kind(Enum):
    """What a value measures."""

    BOOL = "bool"
    STRING = "string"
    NUMBER = "number"
    COUNT = "count"
    PERCENT = "percent"
    CPU = "cpu"
    MEMORY = "memory"
    DURATION = "duration"
    TIME = "time"
    SET = "set"
    LABELS = "labels"
    PODS = "pods"
    POD = "pod"  # a pod itself, as an argument: `tolerates(pod, …)`
    NODE = "node"  # the candidate node itself, as an argument: `taints(node, …)`
    UNKNOWN = "unknown"  # the type of an expression that already has an error: silences follow-up errors


NUMERIC = frozenset({Kind.NUMBER, Kind.COUNT, Kind.PERCENT, Kind.CPU, Kind.MEMORY, Kind.DURATION, Kind.TIME})
DIMENSIONLESS = frozenset({Kind.NUMBER, Kind.COUNT, Kind.PERCENT})
PLAIN = frozenset({Kind.NUMBER, Kind.COUNT})


def unified(a: Kind, b: Kind) -> Kind | None:
    """The one kind of two alternatives; None if they have nothing in common. `number` and `count` mix freely."""
    if a is b:
        return a
    if Kind.UNKNOWN in (a, b):
        return Kind.UNKNOWN
    return Kind.NUMBER if {a, b} <= PLAIN else None


class Shape(IntEnum):
    """How many values there are, smallest first. NODE and ITEM never meet in one operation except through an aggregate."""

    CONST = 0
    POD = 1
    NODE = 2
    ITEM = 3


@dataclass(frozen=True, slots=True)
class Type:
    """Kind, optionality and shape of an expression; `element` is the kind of a set's members."""

    kind: Kind
    shape: Shape = Shape.CONST
    optional: bool = False
    element: Kind | None = None

    def __str__(self) -> str:
        base = f"set<{self.element.value}>" if self.kind is Kind.SET and self.element else self.kind.value
        return base + ("?" if self.optional else "")

    def present(self) -> Type:
        """The same type with absence ruled out."""
        return replace(self, optional=False)

    def maybe(self) -> Type:
        """The same type, possibly absent."""
        return replace(self, optional=True)

    def shaped(self, shape: Shape) -> Type:
        """The same type with another shape."""
        return replace(self, shape=shape)
