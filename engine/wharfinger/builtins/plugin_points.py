"""The points that Kubernetes' own scores give a node, as values of expressions.

A score such as InterPodAffinity is normalised over all feasible nodes, so its points are not known before all filters have run. The
framework computes them exactly as where the plugin itself scores, and hands them over by plugin (`AtRows.points`). So they exist in scores
alone. `resources` has the formulas of the other plugins, which look at one node only.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from wharfinger.builtins.signature import POINTS, AtNode, AtRows, always
from wharfinger.language.semantics.catalogue import Function, Volatility
from wharfinger.language.semantics.types import Kind, Shape


def _at(plugin: str) -> Callable[[AtNode], float]:
    def read(context: AtNode) -> float:
        points = context.points.get(plugin)
        return 0.0 if points is None else float(points[context.row])

    return read


def _rows(plugin: str) -> Callable[[AtRows], NDArray[np.float64]]:
    def read(context: AtRows) -> NDArray[np.float64]:
        points = context.points.get(plugin)
        return np.zeros(context.n_rows) if points is None else points[context.rows]

    return read


def _function(name: str, plugin: str, doc: str, *, of_cluster: bool = False) -> Function:
    return Function(
        name=name,
        parameters=(),
        result=always(Kind.NUMBER, shape=Shape.NODE),
        doc=f"The points of {plugin}, normalised over the feasible nodes as where the plugin itself scores: {doc} In scores only.",
        example=f"{name}()",
        scalar=_at(plugin),
        vector=_rows(plugin),
        never_nan=True,
        interval=lambda *_: POINTS,
        context=True,
        volatility=Volatility.GLOBAL,
        own_shape=True,
        of_cluster=of_cluster,
        plugin=plugin,
    )


PLUGIN_POINTS = (
    _function("node_affinity_points", "NodeAffinity", "100 where most of its preferences are met; 0 for a pod that prefers nothing."),
    _function(
        "pod_affinity_points",
        "InterPodAffinity",
        "100 where pods that it prefers to be with are, and pods that prefer to be with it; 0 without such terms.",
        of_cluster=True,
    ),
    _function("topology_spread_points", "PodTopologySpread", "100 where its `ScheduleAnyway` constraints are met best; 0 without any."),
    _function("taint_points", "TaintToleration", "100 where the fewest `PreferNoSchedule` taints are not tolerated."),
)
