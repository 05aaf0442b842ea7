"""The declaration of a builtin (parameters, result type, interval), and the objects from which it reads the cluster.

Result functions look at kinds only; the checker joins shape and optionality of the arguments. With `optional`, the result can be missing
although all arguments are present (`ratio` of something to zero).

A builtin with `context=True` takes an evaluation context first: `AtNode` in its scalar reference (one candidate node), `AtRows` in its
kernel (any set of rows). A selection of pods arrives as a sequence of `(row, pod)` in scalar references and as the snapshot's running
counts in kernels; a metric arrives as its key (`typed.MetricKey`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from wharfinger.language.semantics.bounds import Interval
from wharfinger.language.semantics.catalogue import ArgumentMismatch, Parameter
from wharfinger.language.semantics.types import DIMENSIONLESS, NUMERIC, Kind, Shape, Type
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.snapshot import Snapshot

type_of = Callable[[tuple[Type, ...]], Type]

POINTS: Interval = (0.0, 100.0)
NOT_NEGATIVE: Interval = (0.0, math.inf)


def numeric(name: str) -> Parameter:
    """A parameter that takes a number of any dimension."""
    return Parameter(name=name, kinds=NUMERIC)


def plain(name: str) -> Parameter:
    """A parameter that takes a number without a dimension."""
    return Parameter(name=name, kinds=DIMENSIONLESS)


def text(
    name: str, *, literal: bool = False, validate: Callable[[object], str | None] | None = None, steps: Callable[[str], int] | None = None
) -> Parameter:
    """A parameter that takes a string; `steps` is what checking a literal costs (`Parameter.steps`)."""
    return Parameter(name=name, kinds=frozenset({Kind.STRING}), literal=literal, validate=validate, steps=steps)


def always(kind: Kind, *, optional: bool = False, shape: Shape = Shape.CONST) -> type_of:
    """A result function that returns the same type for all arguments."""
    return lambda _types: Type(kind, shape=shape, optional=optional)


def common(types: tuple[Type, ...]) -> Kind:
    """The kind that values of all these types share; count, percent and number together are a number.

    Raises `ArgumentMismatch` naming the first argument that measures something else.
    """
    kinds = [t.kind for t in types]
    for index, kind in enumerate(kinds):
        if Kind.UNKNOWN in (kind, kinds[0]) or kind is kinds[0]:
            continue
        if not {kind, kinds[0]} <= DIMENSIONLESS:
            raise ArgumentMismatch(index, f"{kinds[0].value} and {kind.value} cannot be taken together")
    known = {kind for kind in kinds if kind is not Kind.UNKNOWN}
    return Kind.UNKNOWN if not known else known.pop() if len(known) == 1 else Kind.NUMBER


def same_dimension(types: tuple[Type, ...]) -> Type:
    """The type of one of the arguments, which must all have the same dimension."""
    return Type(common(types))


def quotient(types: tuple[Type, ...]) -> Type:
    """The type of one argument divided by another of the same dimension: a percent, missing where the divisor is 0."""
    common(types)
    return Type(Kind.PERCENT, optional=True)


Rows = slice | NDArray[np.intp]
NO_POINTS: Mapping[str, NDArray[np.float64]] = MappingProxyType({})


class AtMoment(Struct, frozen=True):
    """A point in time: the context of functions that are evaluated for a pod alone (`for pods where`, `pods where`)."""

    now: float


class AtNode(Struct, frozen=True):
    """One candidate node; `memo` keeps values that are the same for all candidates. `placed`, `points` as in `AtRows`."""

    snapshot: Snapshot
    pod: PodView
    row: int
    placed: bool = False
    memo: dict[Hashable, Any] = field(default_factory=dict)
    points: Mapping[str, NDArray[np.float64]] = field(default_factory=lambda: NO_POINTS)

    @property
    def now(self) -> float:
        """The snapshot's own time, in seconds since 1970."""
        return self.snapshot.now


class AtRows(Struct, frozen=True):
    """A set of candidate rows: `slice(None)` for all, or an index array. `placed`: the pod is on a node; selections leave it out there.

    `points` are those of Kubernetes' scores by plugin, each `(n_nodes,)` for all rows; empty where no score is computed.
    """

    snapshot: Snapshot
    pod: PodView
    rows: Rows
    placed: bool = False
    points: Mapping[str, NDArray[np.float64]] = field(default_factory=lambda: NO_POINTS)

    @property
    def now(self) -> float:
        """The snapshot's own time, in seconds since 1970."""
        return self.snapshot.now

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.snapshot.n_nodes if isinstance(self.rows, slice) else len(self.rows)
