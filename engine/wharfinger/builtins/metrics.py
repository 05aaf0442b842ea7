"""Requests that a metric does not show yet.

A metric lags: pods that started after its last sample will use cpu and memory that it does not show. A policy that reads the metric alone
sends every pod to the node that was idle a minute ago. `unseen_requests(metric)` is the sum of the requests of those pods on the node
that started after its sample was taken, to be added to the metric. Pods that are assumed or bound but have not started count.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from wharfinger.builtins.signature import NOT_NEGATIVE, AtNode, AtRows, always
from wharfinger.language.semantics.catalogue import Function, Parameter, Volatility
from wharfinger.language.semantics.typed import MetricKey
from wharfinger.language.semantics.types import NUMERIC, Kind, Shape
from wharfinger.model.columns.pod_table import started_at
from wharfinger.model.objects.requests import MAX_AMOUNT

METRIC = Parameter(name="metric", kinds=NUMERIC, optional_ok=True)


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


def _function(resource: str, kind: Kind) -> Function:
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


METRICS = (_function("cpu", Kind.CPU), _function("memory", Kind.MEMORY))
