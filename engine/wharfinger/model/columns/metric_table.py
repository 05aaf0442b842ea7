"""Metric samples per node with their times, and the requests of pods that a sample does not show yet.

Samples are kept by node name, because a metric may have a node before the API server does; the columns are built from them when read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from wharfinger.model.columns.arrays import read_only
from wharfinger.model.columns.node_table import NodeTable
from wharfinger.model.columns.pod_table import PodTable
from wharfinger.model.objects.requests import MAX_AMOUNT

Samples = Mapping[str, tuple[float, float]]  # node name → (value, time in seconds since 1970)
UNSEEN_RESOURCES: Final = ("cpu", "memory")


class MetricColumn(Struct, frozen=True, kw_only=True):
    """One metric on every node: `values` and `times` (n_nodes,) float64, NaN where `present` (n_nodes,) bool is false."""

    values: NDArray[np.float64]
    times: NDArray[np.float64]
    present: NDArray[np.bool_]


def column_of(samples: Samples, row_of: Mapping[str, int], n_nodes: int) -> MetricColumn:
    """The samples of the nodes that have a row, in the order of rows; the arrays are read-only."""
    known = [(row, *samples[name]) for name, row in row_of.items() if name in samples]
    table = np.array(known, dtype=np.float64).reshape(-1, 3)
    rows = table[:, 0].astype(np.intp)
    values, times = np.full(n_nodes, math.nan), np.full(n_nodes, math.nan)
    values[rows], times[rows] = table[:, 1], table[:, 2]
    column = MetricColumn(values=values, times=times, present=~np.isnan(values))
    for array in (column.values, column.times, column.present):
        array.setflags(write=False)
    return column


class UnseenRequests:
    """Per node, the requests of its pods that started after its sample of one metric, or have not started; 0 without a sample.

    A pod that started within `window` seconds before the sample counts in full, because the sample shows only a part of its load. The
    estimate is rather too high than too low.
    """

    __slots__ = ("_by_resource", "_full", "_horizon", "_pods", "_seen", "_views")

    def __init__(self, pods: PodTable, times: NDArray[np.float64], window: float) -> None:
        self._pods = pods
        self._horizon = np.where(np.isnan(times), math.inf, times - window)  # no pod starts after +inf
        self._by_resource: dict[str, NDArray[np.float64]] = {}
        self._views: Mapping[str, NDArray[np.float64]] = {}
        self._full: set[int] = set()
        self._seen = -1

    def by_resource(self) -> Mapping[str, NDArray[np.float64]]:
        """The sums of cpu in millicores and memory in bytes, at most `MAX_AMOUNT`, each (n_nodes,) float64 read-only."""
        if self._seen == self._pods.n_changes:
            return self._views
        changes = self._pods.changes_since(self._seen) if self._seen >= 0 else None
        if changes is None:
            self._recount()
        else:
            for placement, row, sign in changes:
                if placement.started > self._horizon[row]:
                    for resource, amounts in self._by_resource.items():
                        amounts[row] += sign * placement.pod.requests.get(resource, 0)
                        if amounts[row] >= MAX_AMOUNT:
                            self._full.add(row)
            self._recount_full()
        self._seen = self._pods.n_changes
        return self._views

    def _recount(self) -> None:
        rows = self._pods.entry_rows
        unseen = self._pods.entry_starts > self._horizon[rows]
        for resource in UNSEEN_RESOURCES:
            by_class = np.zeros(self._pods.class_numbers)
            for group in self._pods.classes.values():
                by_class[group.number] = group.example.requests.get(resource, 0)
            requests = by_class[self._pods.entry_classes[unseen]]
            amounts = np.bincount(rows[unseen], weights=requests, minlength=len(self._horizon)).astype(np.float64, copy=False)
            self._by_resource[resource] = amounts
            self._full.update(np.flatnonzero(amounts >= MAX_AMOUNT).tolist())
        self._recount_full()
        self._views = {resource: read_only(amounts) for resource, amounts in self._by_resource.items()}

    def _recount_full(self) -> None:
        """Sum up the rows again that have, or had, `MAX_AMOUNT` or more of a resource; they show that limit, as larger sums are rounded."""
        for row in tuple(self._full):
            unseen = [placed.pod.requests for placed in self._pods.by_row[row].values() if placed.started > self._horizon[row]]
            totals = {resource: sum(requests.get(resource, 0) for requests in unseen) for resource in self._by_resource}
            for resource, total in totals.items():
                self._by_resource[resource][row] = min(total, MAX_AMOUNT)
            if max(totals.values()) < MAX_AMOUNT:
                self._full.discard(row)


class MetricTable:
    """The metrics by name; `revision` changes with every new set of samples."""

    __slots__ = ("_columns", "_layout", "_nodes", "_pods", "_unseen", "revision", "samples")

    def __init__(self, nodes: NodeTable, pods: PodTable) -> None:
        self._nodes = nodes
        self._pods = pods
        self.samples: dict[str, Samples] = {}
        self._columns: dict[str, MetricColumn] = {}
        self._unseen: dict[str, dict[float, UnseenRequests]] = {}  # by window
        self._layout = -1
        self.revision = 0

    def set(self, name: str, samples: Samples) -> None:
        """Replace all samples of a metric; values that are not finite count as absent."""
        self._changed(name)
        self.samples[name] = {node: sample for node, sample in samples.items() if math.isfinite(sample[0])}

    def put(self, name: str, column: MetricColumn, samples: Samples, layout: int) -> None:
        """Replace all samples of a metric by finite ones, with their column, which was built for the rows of that layout."""
        self._changed(name)
        self.samples[name] = samples
        if layout == self._layout:
            self._columns[name] = column

    def drop(self, name: str) -> None:
        """Remove a metric; no error if it is not there."""
        self._changed(name)
        self.samples.pop(name, None)

    def _changed(self, name: str) -> None:
        self._follow_layout()
        self._columns.pop(name, None)
        self._unseen.pop(name, None)
        self.revision += 1

    def known(self, names: Sequence[str]) -> str | None:
        """The first of some names that has samples; None if none has."""
        for name in names:  # called in every decision: a generator would cost more than the loop
            if name in self.samples:
                return name
        return None

    def column(self, name: str) -> MetricColumn | None:
        """The samples of a metric in row order; None if it has no samples."""
        self._follow_layout()
        column = self._columns.get(name)
        if column is None and name in self.samples:
            column = self._columns[name] = self._build(self.samples[name])
        return column

    def unseen(self, name: str, window: float = 0.0) -> Mapping[str, NDArray[np.float64]] | None:
        """The requests that the metric does not show, or only in part, by resource (see `UnseenRequests`); None if it has no samples."""
        column = self.column(name)
        if column is None:
            return None
        by_window = self._unseen.setdefault(name, {})
        unseen = by_window.get(window)
        if unseen is None:
            unseen = by_window[window] = UnseenRequests(self._pods, column.times, window)
        return unseen.by_resource()

    def _follow_layout(self) -> None:
        if self._layout != self._nodes.rows.layout:
            self._layout = self._nodes.rows.layout
            self._columns.clear()
            self._unseen.clear()

    def _build(self, samples: Samples) -> MetricColumn:
        return column_of(samples, self._nodes.row_of, len(self._nodes.names))
