"""Points that a node gets in comparison with other nodes.

`spread` gives a node `100 · (max + min − n) / max` points, where `n` is the number of selected pods in the node's domain and `max` and
`min` are the largest and smallest such number over all domains of that key (100 everywhere if all are 0). It is the formula of Kubernetes'
PodTopologySpread (plugins/podtopologyspread/scoring.go, NormalizeScore, 1.36) on plain counts: the emptiest domain gets 100 points, more
pods give fewer points, and the more pods there are the less one pod of difference changes.

The other functions are the points of Kubernetes' own scores. A score such as InterPodAffinity is normalised over all feasible nodes, so its
points are not known before all filters have run. The framework computes them exactly as where the plugin itself scores, and hands them over
by plugin (`AtRows.points`). So they exist in scores alone. `resources` has the formulas of the plugins that look at one node only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from wharfinger.builtins.signature import POINTS, AtNode, AtRows, always, text
from wharfinger.language.semantics.catalogue import Function, Parameter, Volatility
from wharfinger.language.semantics.types import Kind, Shape
from wharfinger.model.objects.pod_view import PodView


def _count_by_domain(context: AtNode, selected: Sequence[tuple[int, PodView]], by: str) -> dict[str, int]:
    """The number of selected pods in each domain, 0 included."""
    counts: dict[str, int] = {}
    snapshot = context.snapshot
    for row in range(snapshot.n_nodes):
        domain = snapshot.node(row).labels.get(by)
        if domain is not None:
            counts.setdefault(domain, 0)
    for row, _ in selected:
        domain = snapshot.node(row).labels.get(by)
        if domain is not None:
            counts[domain] += 1
    return counts


def _spread(context: AtNode, selected: Sequence[tuple[int, PodView]], by: str) -> float | None:
    domain = context.snapshot.node(context.row).labels.get(by)
    if domain is None:
        return None
    key = ("spread", id(selected), by)
    if key not in context.memo:
        context.memo[key] = _count_by_domain(context, selected, by)
    counts = context.memo[key]
    most, least = max(counts.values()), min(counts.values())
    return 100.0 if most == 0 else (most + least - counts[domain]) * 100 / most


class DomainTotals(Protocol):
    """Totals by domain (`model.columns.domains`): `counts` (n_domains,) float64 and their extremes."""

    counts: NDArray[np.float64]

    def lowest(self) -> float | None:
        """The smallest count; None if there is no domain."""

    def highest(self) -> float | None:
        """The largest count; None if there is no domain."""


class Counted(Protocol):
    """A selection that is counted by domain (`model.columns.selection.Selection`)."""

    def domains(self, topology_key: str) -> DomainTotals:
        """The counts in the domains of a topology key."""


def _spread_kernel(context: AtRows, selection: Counted, by: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    ids = context.snapshot.domain(by)[0][context.rows]
    totals = selection.domains(by)
    most, least = totals.highest(), totals.lowest()
    present = np.greater_equal(ids, 0)
    if most is None or least is None:
        return np.zeros(len(ids)), present
    if most == 0:
        return np.full(len(ids), 100.0), present
    if len(ids) < len(totals.counts):
        return (most + least - totals.counts[ids]) * 100 / most, present
    return ((most + least - totals.counts) * 100 / most).take(ids), present  # −1, no domain, takes the last: it is not present


SPREADING = (
    Function(
        name="spread",
        parameters=(Parameter(name="pods", kinds=frozenset({Kind.PODS})), text("by", literal=True)),
        result=always(Kind.NUMBER, optional=True, shape=Shape.NODE),
        doc="Points for domains of the topology key that have few of the selected pods: 100 in the emptiest, fewer the more there are "
        "(`100 · (max + min − n) / max`); missing on nodes without the key.",
        example='spread(pods where it.labels["app"] == pod.labels["app"], by: "topology.kubernetes.io/zone") ?? 0',
        scalar=_spread,
        vector=_spread_kernel,
        interval=lambda *_: POINTS,
        context=True,
        volatility=Volatility.GLOBAL,
        own_shape=True,
    ),
)


def _points_at(plugin: str) -> Callable[[AtNode], float]:
    def read(context: AtNode) -> float:
        points = context.points.get(plugin)
        return 0.0 if points is None else float(points[context.row])

    return read


def _points_of_rows(plugin: str) -> Callable[[AtRows], NDArray[np.float64]]:
    def read(context: AtRows) -> NDArray[np.float64]:
        points = context.points.get(plugin)
        return np.zeros(context.n_rows) if points is None else points[context.rows]

    return read


def _points_of(name: str, plugin: str, doc: str, *, of_cluster: bool = False) -> Function:
    return Function(
        name=name,
        parameters=(),
        result=always(Kind.NUMBER, shape=Shape.NODE),
        doc=f"The points of {plugin}, normalised over the feasible nodes as where the plugin itself scores: {doc} In scores only.",
        example=f"{name}()",
        scalar=_points_at(plugin),
        vector=_points_of_rows(plugin),
        never_nan=True,
        interval=lambda *_: POINTS,
        context=True,
        volatility=Volatility.GLOBAL,
        own_shape=True,
        of_cluster=of_cluster,
        plugin=plugin,
    )


PLUGIN_POINTS = (
    _points_of("node_affinity_points", "NodeAffinity", "100 where most of its preferences are met; 0 for a pod that prefers nothing."),
    _points_of(
        "pod_affinity_points",
        "InterPodAffinity",
        "100 where pods that it prefers to be with are, and pods that prefer to be with it; 0 without such terms.",
        of_cluster=True,
    ),
    _points_of("topology_spread_points", "PodTopologySpread", "100 where its `ScheduleAnyway` constraints are met best; 0 without any."),
    _points_of("taint_points", "TaintToleration", "100 where the fewest `PreferNoSchedule` taints are not tolerated."),
)
