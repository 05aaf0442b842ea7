"""Metrics that too few nodes have: the rules that use them are suspended.

Where only some nodes have a fresh value, ranking by it would rank who has metrics. Below `min_coverage` a metric therefore
counts for nobody: filters that use it let every node pass, scores leave every node alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from wharfinger.language import typed
from wharfinger.model.columns.strings import StringTable
from wharfinger.model.state.snapshot import Snapshot


def coverage(snapshot: Snapshot, metric: typed.Metric) -> float:
    """The fraction of nodes that have a fresh value of a metric; 1 where there are no nodes."""
    samples = snapshot.metric(*metric.key.names)
    if not snapshot.n_nodes:
        return 1.0
    if samples is None:
        return 0.0
    fresh = samples.present & (snapshot.now - samples.times <= metric.max_age)
    return float(fresh.sum()) / snapshot.n_nodes


class Freshness:
    """Which metrics of a policy are suspended; worked out again when samples, rows or the time change."""

    __slots__ = ("_key", "_last", "_metrics", "_strings", "_suspended")

    def __init__(self, metrics: Sequence[typed.Metric]) -> None:
        self._metrics = tuple(metrics)
        self._key: Hashable = None
        self._last: Snapshot | None = None
        self._strings: StringTable | None = None  # whose cluster the key is of; held, so that no other table gets its identity
        self._suspended: frozenset[str] = frozenset()

    def suspended(self, snapshot: Snapshot) -> frozenset[str]:
        """The names of the metrics whose coverage is below what their policy demands."""
        if not self._metrics or snapshot is self._last:
            return self._suspended
        self._last = snapshot  # a snapshot can be read only while nothing changes, so its answer is always the same
        strings, key = snapshot.strings, (snapshot.metrics_revision, snapshot.layout_revision, snapshot.now)
        if strings is not self._strings or key != self._key:
            self._suspended = frozenset(m.name for m in self._metrics if coverage(snapshot, m) < m.min_coverage)
            self._strings, self._key = strings, key
        return self._suspended
