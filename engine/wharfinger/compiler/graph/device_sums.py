"""Aggregates over the devices of each row, as arrays: from one entry per device to one per row.

Each takes the devices of the rows, which of them are selected, and a value for each; it returns the result for each row and where there is
one. Numbers and conditions that are the same for all devices come without an axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.language.semantics import typed
from wharfinger.model.columns.domains import MAX_EXACT_SUM, magnitude, summed
from wharfinger.model.devices.device_table import DevicesOf

Answer = tuple[NDArray[np.float64], NDArray[np.bool_]]


def _chosen(of: DevicesOf, selected: Any, value: Any) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The row and the value of each selected device."""
    chosen = np.broadcast_to(selected, of.owners.shape)
    return of.owners[chosen], np.broadcast_to(value, of.owners.shape)[chosen]


def _counts(of: DevicesOf, owners: NDArray[np.intp]) -> NDArray[np.float64]:
    return np.bincount(owners, minlength=of.n_rows).astype(np.float64)


def _count(of: DevicesOf, selected: Any, value: Any) -> Answer:
    found = _counts(of, _chosen(of, selected, value)[0])
    return found, np.ones(of.n_rows, dtype=np.bool_)


def _sum(of: DevicesOf, selected: Any, value: Any) -> Answer:
    owners, values = _chosen(of, selected, value)
    exact = magnitude(values) <= MAX_EXACT_SUM
    return summed(owners.astype(np.int32), values, of.n_rows, integral=exact), np.ones(of.n_rows, dtype=np.bool_)


def _avg(of: DevicesOf, selected: Any, value: Any) -> Answer:
    counts = _counts(of, _chosen(of, selected, value)[0])
    found = _sum(of, selected, value)[0] / counts
    return found, (counts > 0) & ~np.isnan(found)


def _extreme(ufunc: np.ufunc) -> Callable[[DevicesOf, Any, Any], Answer]:
    def extreme(of: DevicesOf, selected: Any, value: Any) -> Answer:
        owners, values = _chosen(of, selected, value)
        found = np.full(of.n_rows, np.nan)
        ufunc.at(found, owners, values)
        return found, ~np.isnan(found)

    return extreme


REDUCTIONS: Mapping[typed.Reduction, Callable[[DevicesOf, Any, Any], Answer]] = {
    typed.Reduction.COUNT: _count,
    typed.Reduction.SUM: _sum,
    typed.Reduction.AVG: _avg,
    typed.Reduction.MIN: _extreme(np.fmin),
    typed.Reduction.MAX: _extreme(np.fmax),
}
