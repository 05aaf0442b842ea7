"""The requests of pods on a node: how full it would be with the pod, and the requests that a metric does not show yet.

The formulas of points are those of Kubernetes' own plugins (pkg/scheduler/framework/plugins/noderesources, 1.36) with real numbers instead
of integers: two nodes that differ by less than one point still differ. A resource counts on a node if the node has some of it and, for
extended resources, if the pod requests it.

A metric lags: pods that started after its last sample will use cpu and memory that it does not show. A policy that reads the metric alone
sends every pod to the node that was idle a minute ago. `unseen_requests(metric)` is the sum of the requests of those pods on the node
that started after its sample was taken, to be added to the metric. Pods that are assumed or bound but have not started count.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, reduce
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from wharfinger.builtins.signature import NOT_NEGATIVE, POINTS, AtNode, AtRows, always, plain, text
from wharfinger.language.semantics.catalogue import Function, Parameter, Volatility
from wharfinger.language.semantics.typed import MetricKey
from wharfinger.language.semantics.types import NUMERIC, Kind, Shape
from wharfinger.model.columns.pod_table import started_at
from wharfinger.model.objects.requests import MAX_AMOUNT, NATIVE

Numbers = NDArray[np.float64]
DEFAULTED = NATIVE[:2]  # the resources of `Snapshot.nonzero`, which are the first of every cluster
SPELLING = {"ephemeral_storage": "ephemeral-storage"}
RESOURCE = Parameter(name="resource", kinds=frozenset({Kind.STRING}), literal=True)
WEIGHTS = {"*": plain("weight")}
METRIC = Parameter(name="metric", kinds=NUMERIC, optional_ok=True)


class Fill(Struct, frozen=True):
    """One resource on one node (floats) or on many (arrays): allocatable, requested before and after the pod, and whether it counts."""

    allocatable: Any
    before: Any
    after: Any
    counts: Any


@lru_cache(maxsize=1024)
def weights_of(names: tuple[str, ...], weights: tuple[tuple[str, float], ...]) -> Mapping[str, float]:
    """Weight by Kubernetes resource name; cpu and memory with equal weights if none is named."""
    named = dict.fromkeys(names, 1.0) | {SPELLING.get(name, name): float(weight) for name, weight in weights}
    return named or {"cpu": 1.0, "memory": 1.0}


def _lane(context: AtNode | AtRows, resource: str, *, nonzero: bool) -> tuple[int, int, NDArray[np.int64]] | None:
    """The index of a resource, the pod's request for it, and the used amounts of all resources; None if no node or pod has it."""
    snapshot = context.snapshot
    index = snapshot.resource_index(resource)
    if index is None:
        return None
    if nonzero and index < len(DEFAULTED):
        return index, context.pod.score_nonzero[index], snapshot.nonzero
    return index, context.pod.requests.get(resource, 0), snapshot.requested


def _fill_at(context: AtNode, resource: str, *, nonzero: bool) -> Fill | None:
    """The used fraction of one node; None if no node of the cluster has the resource."""
    lane = _lane(context, resource, nonzero=nonzero)
    if lane is None:
        return None
    index, asked, used = lane
    allocatable, before = float(context.snapshot.allocatable.item(index, context.row)), float(used.item(index, context.row))
    return Fill(allocatable, before, before + asked, allocatable > 0 and (asked > 0 or resource in NATIVE))


def _fill_rows(context: AtRows, resource: str, *, nonzero: bool) -> Fill | None:
    """The used fraction of the nodes; None if no node of the cluster has the resource."""
    lane = _lane(context, resource, nonzero=nonzero)
    if lane is None:
        return None
    index, asked, used = lane
    allocatable = context.snapshot.allocatable[index][context.rows].astype(np.float64)
    before = used[index][context.rows].astype(np.float64)
    counts = np.greater(allocatable, 0) if asked > 0 or resource in NATIVE else np.zeros(len(allocatable), dtype=np.bool_)
    return Fill(allocatable, before, before + asked, counts)


def _fills(context: Any, read: Callable[..., Fill | None], weights: Mapping[str, float], *, nonzero: bool) -> Iterator[tuple[Fill, float]]:
    for resource, weight in weights.items():
        fill = read(context, resource, nonzero=nonzero)
        if fill is not None:
            yield fill, weight


def _mean_at(context: AtNode, names: tuple[str, ...], weights: Mapping[str, float], points: Callable[[Fill], float]) -> float:
    total = weight_sum = 0.0
    for fill, weight in _fills(context, _fill_at, weights_of(names, tuple(weights.items())), nonzero=True):
        if fill.counts:
            total += points(fill) * weight
            weight_sum += weight
    return total / weight_sum if weight_sum > 0 else 0.0


def _mean_rows(context: AtRows, names: tuple[str, ...], weights: Mapping[str, float], points: Callable[[Fill], Numbers]) -> Numbers:
    fills = list(_fills(context, _fill_rows, weights_of(names, tuple(weights.items())), nonzero=True))
    n_rows = context.n_rows
    of_all = sum(weight for _, weight in fills)
    if of_all > 0 and all(np.count_nonzero(fill.counts) == n_rows for fill, _ in fills):  # the usual case: the nodes have all resources
        mean: Numbers = reduce(np.add, (points(fill) * weight for fill, weight in fills)) / of_all
        return mean
    total, weight_sum = np.zeros(n_rows), np.zeros(n_rows)
    for fill, weight in fills:
        total += np.where(fill.counts, points(fill) * weight, 0.0)
        weight_sum += np.where(fill.counts, weight, 0.0)
    return np.where(weight_sum > 0, total / weight_sum, 0.0)


def _free_points(fill: Fill) -> float:
    return 0.0 if fill.after > fill.allocatable else (fill.allocatable - fill.after) * 100 / fill.allocatable


def _free_points_kernel(fill: Fill) -> Numbers:
    points: Numbers = np.where(fill.after > fill.allocatable, 0.0, (fill.allocatable - fill.after) * 100 / fill.allocatable)
    return points


def _used_points(fill: Fill) -> float:
    return float(min(fill.after, fill.allocatable) * 100 / fill.allocatable)


def _used_points_kernel(fill: Fill) -> Numbers:
    points: Numbers = np.minimum(fill.after, fill.allocatable) * 100 / fill.allocatable
    return points


def _least_allocated(context: AtNode, *names: str, **weights: float) -> float:
    return _mean_at(context, names, weights, _free_points)


def _least_allocated_kernel(context: AtRows, *names: str, **weights: float) -> Numbers:
    return _mean_rows(context, names, weights, _free_points_kernel)


def _most_allocated(context: AtNode, *names: str, **weights: float) -> float:
    return _mean_at(context, names, weights, _used_points)


def _most_allocated_kernel(context: AtRows, *names: str, **weights: float) -> Numbers:
    return _mean_rows(context, names, weights, _used_points_kernel)


def _deviation(fractions: list[float]) -> float:
    if not fractions:
        return 0.0
    mean = _added(fractions) / len(fractions)
    return math.sqrt(_added((f - mean) * (f - mean) for f in fractions) / len(fractions))


def _added(numbers: Iterable[float]) -> float:
    """The sum, added in order as in the kernel: since Python 3.12 `sum` compensates rounding errors."""
    return reduce(operator.add, numbers, 0.0)


def _balanced(context: AtNode, *names: str) -> float:
    fills = [fill for fill, _ in _fills(context, _fill_at, weights_of(names, ()), nonzero=False) if fill.counts]
    after = _deviation([min(1.0, fill.after / fill.allocatable) for fill in fills])
    before = _deviation([min(1.0, fill.before / fill.allocatable) for fill in fills])
    return 50 + (50 + (1 - after) * 100 - (1 - before) * 100) / 2


def _deviation_kernel(fractions: list[Numbers], counts: list[NDArray[np.bool_]], n_rows: int) -> Numbers:
    n, total, squares = np.zeros(n_rows), np.zeros(n_rows), np.zeros(n_rows)
    for fraction, counted in zip(fractions, counts, strict=True):
        n += counted
        total += np.where(counted, fraction, 0.0)
    mean = total / n
    for fraction, counted in zip(fractions, counts, strict=True):
        squares += np.where(counted, (fraction - mean) * (fraction - mean), 0.0)
    return np.where(n > 0, np.sqrt(squares / n), 0.0)


def _balanced_kernel(context: AtRows, *names: str) -> Numbers:
    n_rows = context.n_rows
    fills = [fill for fill, _ in _fills(context, _fill_rows, weights_of(names, ()), nonzero=False)]
    counts = [fill.counts for fill in fills]
    after = _deviation_kernel([np.minimum(1.0, fill.after / fill.allocatable) for fill in fills], counts, n_rows)
    before = _deviation_kernel([np.minimum(1.0, fill.before / fill.allocatable) for fill in fills], counts, n_rows)
    return 50 + (50 + (1 - after) * 100 - (1 - before) * 100) / 2


def _share_after(context: AtNode, resource: str) -> float | None:
    fill = _fill_at(context, SPELLING.get(resource, resource), nonzero=False)
    return None if fill is None or fill.allocatable <= 0 else float(fill.after / fill.allocatable)


def _share_after_kernel(context: AtRows, resource: str) -> tuple[Numbers, NDArray[np.bool_]]:
    fill = _fill_rows(context, SPELLING.get(resource, resource), nonzero=False)
    if fill is None:
        n_rows = context.n_rows
        return np.zeros(n_rows), np.zeros(n_rows, dtype=np.bool_)
    return fill.after / fill.allocatable, np.greater(fill.allocatable, 0)


RESOURCES = (
    Function(
        name="least_allocated",
        parameters=(),
        variadic=RESOURCE,
        named=WEIGHTS,
        result=always(Kind.NUMBER, shape=Shape.NODE),
        doc="Points for what would be left free with the pod placed, as NodeResourcesFit's LeastAllocated: 100 on an empty node, 0 on a "
        "full one. Resources and their weights as arguments; cpu and memory with equal weights when none is given.",
        example="least_allocated(cpu: 1, memory: 1)",
        scalar=_least_allocated,
        vector=_least_allocated_kernel,
        interval=lambda *_: POINTS,
        context=True,
        volatility=Volatility.ROW,
        own_shape=True,
    ),
    Function(
        name="most_allocated",
        parameters=(),
        variadic=RESOURCE,
        named=WEIGHTS,
        result=always(Kind.NUMBER, shape=Shape.NODE),
        doc="Points for what would be in use with the pod placed, as NodeResourcesFit's MostAllocated: 0 on an empty node, 100 on a "
        "full one. Resources and their weights as arguments; cpu and memory with equal weights when none is given.",
        example='most_allocated("nvidia.com/gpu")',
        scalar=_most_allocated,
        vector=_most_allocated_kernel,
        interval=lambda *_: POINTS,
        context=True,
        volatility=Volatility.ROW,
        own_shape=True,
    ),
    Function(
        name="balanced_allocation",
        parameters=(),
        variadic=RESOURCE,
        result=always(Kind.NUMBER, shape=Shape.NODE),
        doc="Points for how much more evenly the node's resources would be used with the pod placed, as NodeResourcesBalancedAllocation: "
        "75 where nothing changes, 50 to 100. Looks at cpu and memory when no resource is given.",
        example="balanced_allocation()",
        scalar=_balanced,
        vector=_balanced_kernel,
        interval=lambda *_: (50.0, 100.0),
        context=True,
        volatility=Volatility.ROW,
        own_shape=True,
    ),
    Function(
        name="share_after",
        parameters=(text("resource", literal=True),),
        result=always(Kind.PERCENT, optional=True, shape=Shape.NODE),
        doc="The share of what the node has of a resource that would be requested with the pod placed; missing where it has none.",
        example='share_after("memory") <= 90%',
        scalar=_share_after,
        vector=_share_after_kernel,
        interval=lambda *_: NOT_NEGATIVE,
        context=True,
        volatility=Volatility.ROW,
        own_shape=True,
    ),
)


# ── requests that a metric does not show yet ──


def _unseen_at(resource: str) -> Callable[[AtNode, MetricKey], float | None]:
    def evaluate(context: AtNode, metric: MetricKey) -> float | None:
        samples = context.snapshot.metric(*metric.names)
        if samples is None or not samples.present[context.row]:
            return None
        since = float(samples.times[context.row]) - metric.window
        pods = context.snapshot.pods_on(context.row)
        return float(min(sum(pod.requests.get(resource, 0) for pod in pods if started_at(pod) > since), MAX_AMOUNT))

    return evaluate


def _unseen_row(resource: str) -> Callable[[AtNode, MetricKey], float | None]:
    def evaluate(context: AtNode, metric: MetricKey) -> float | None:
        samples, unseen = context.snapshot.metric(*metric.names), context.snapshot.unseen(*metric.names, window=metric.window)
        if samples is None or unseen is None or not samples.present.item(context.row):
            return None
        return unseen[resource].item(context.row)

    return evaluate


def _unseen_rows(resource: str) -> Callable[[AtRows, MetricKey], tuple[NDArray[np.float64], NDArray[np.bool_]]]:
    def evaluate(context: AtRows, metric: MetricKey) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        samples, unseen = context.snapshot.metric(*metric.names), context.snapshot.unseen(*metric.names, window=metric.window)
        if samples is None or unseen is None:
            return np.zeros(context.n_rows), np.zeros(context.n_rows, dtype=np.bool_)
        return unseen[resource][context.rows], samples.present[context.rows]

    return evaluate


def _unseen_requests(resource: str, kind: Kind) -> Function:
    return Function(
        name=f"unseen_requests.{resource}",
        parameters=(METRIC,),
        result=always(kind, optional=True, shape=Shape.NODE),
        doc=f"The {resource} requests of pods on the node that its sample of the metric has not seen; missing where there is no sample.",
        example=f"unseen_requests(load).{resource}",
        scalar=_unseen_at(resource),
        vector=_unseen_rows(resource),
        row=_unseen_row(resource),
        interval=lambda *_: NOT_NEGATIVE,
        context=True,
        volatility=Volatility.TIMED,
        own_shape=True,
    )


METRICS = (_unseen_requests("cpu", Kind.CPU), _unseen_requests("memory", Kind.MEMORY))
