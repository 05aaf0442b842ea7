"""Values that can hardly be what their unit says: a percentage of 3,700 %, more cores in use than there are.

The usual mistake is one of scale: Prometheus has seconds, bytes, cores and fractions, and queries that multiply them for a dashboard.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.language import typed
from wharfinger.language.types import Kind
from wharfinger.model.snapshot import Snapshot
from wharfinger.signals.mapping import Mapped

_COUNTABLE = 1e9  # from which on digits tell nobody anything
_TOO_FULL = 2.0  # times what there is: a burst may be measured above capacity for a moment


def doubts(metric: typed.Metric, found: Mapped, snapshot: Snapshot) -> Iterator[str]:
    """One sentence for each thing that is hard to believe of the values."""
    values = found.column.values[found.column.present]
    if not len(values):
        return
    kind = metric.type.kind
    if kind is Kind.PERCENT:
        yield from _percent(values)
    elif kind in {Kind.CPU, Kind.MEMORY}:
        yield from _resource(kind, found, snapshot)
    elif kind is Kind.COUNT and (values != np.rint(values)).any():
        yield f"a count of {values[values != np.rint(values)][0]:g} is not whole"
    if len(values) > 1 and values.min() == values.max():
        yield f"all {len(values):,} nodes have the same value, so it tells no node from another"


def _percent(values: NDArray[Any]) -> Iterator[str]:
    highest = float(values.max())
    if highest > _TOO_FULL:
        yield f"values up to {_percentage(highest)}: 100 % is 1 in the answer of a query; divide by 100?"
    if float(values.min()) < -0.01:
        yield f"values down to {_percentage(float(values.min()))}"


def _resource(kind: Kind, found: Mapped, snapshot: Snapshot) -> Iterator[str]:
    index = snapshot.resource_index(kind.value)
    if index is None:
        return
    capacity = snapshot.capacity[index].astype(np.float64)
    present = found.column.present
    if len(present) != len(capacity):
        return
    share = np.divide(found.column.values, capacity, out=np.zeros(len(capacity)), where=present & (capacity > 0))
    if share.max() > _TOO_FULL:
        expected = "cores" if kind is Kind.CPU else "bytes"
        yield f"values up to {share.max():,.0f} times what the node has; the answer of a query is taken as {expected}"


def _percentage(value: float) -> str:
    return f"{100 * value:,.0f} %" if value < _COUNTABLE else f"{100 * value:.3g} %"
