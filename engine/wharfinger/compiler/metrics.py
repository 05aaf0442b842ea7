"""Samples of metrics: which are fresh, and which metrics too few nodes have.

Where only some nodes have a fresh value, ranking by it would rank which nodes have metrics. A metric whose coverage is below `min_coverage`
is therefore suspended: filters that use it let every node pass, scores leave every node out.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from wharfinger.builtins.signature import AtNode, AtRows, Rows
from wharfinger.language.semantics import typed
from wharfinger.model.columns.arrays import StringTable
from wharfinger.model.columns.metric_table import MetricColumn
from wharfinger.model.state.snapshot import Snapshot


def coverage(snapshot: Snapshot, metric: typed.Metric) -> float:
    """The fraction of nodes that have a fresh value of a metric; 1 if there are no nodes."""
    samples = snapshot.metric(*metric.key.names)
    if not snapshot.n_nodes:
        return 1.0
    if samples is None:
        return 0.0
    return float(_is_fresh(samples, slice(None), snapshot.now, metric.max_age).sum()) / snapshot.n_nodes


def fresh_samples(frame: AtRows, names: Sequence[str], max_age: float) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The samples of a metric `(n_rows,) float64`, and where there is one that is fresh `(n_rows,) bool`."""
    samples = frame.snapshot.metric(*names)
    if samples is None:
        return np.zeros(frame.n_rows), np.zeros(frame.n_rows, dtype=np.bool_)
    return samples.values[frame.rows], _is_fresh(samples, frame.rows, frame.now, max_age)


def fresh_sample(frame: AtNode, names: Sequence[str], max_age: float) -> tuple[float, bool]:
    """The sample of a metric at one node, and whether there is one that is fresh."""
    samples, row = frame.snapshot.metric(*names), frame.row
    if samples is None or not samples.present.item(row):
        return 0.0, False
    return samples.values.item(row), frame.now - samples.times.item(row) <= max_age


def _is_fresh(samples: MetricColumn, rows: Rows, now: float, max_age: float) -> NDArray[np.bool_]:
    return samples.present[rows] & (now - samples.times[rows] <= max_age)


class Freshness:
    """The suspended metrics of a policy, computed again when samples, rows or the time change."""

    __slots__ = ("_key", "_last", "_metrics", "_strings", "_suspended")

    def __init__(self, metrics: Sequence[typed.Metric]) -> None:
        self._metrics = tuple(metrics)
        self._key: Hashable = None
        self._last: Snapshot | None = None
        self._strings: StringTable | None = None  # of the cluster that the key is about; referenced so that no other table gets its id
        self._suspended: frozenset[str] = frozenset()

    def suspended(self, snapshot: Snapshot) -> frozenset[str]:
        """The names of the metrics whose coverage is below their `min_coverage`."""
        if not self._metrics or snapshot is self._last:
            return self._suspended
        self._last = snapshot  # a snapshot does not change, so neither does its result
        strings, key = snapshot.strings, (snapshot.metrics_revision, snapshot.layout_revision, snapshot.now)
        if strings is not self._strings or key != self._key:
            self._suspended = frozenset(m.name for m in self._metrics if coverage(snapshot, m) < m.min_coverage)
            self._strings, self._key = strings, key
        return self._suspended
