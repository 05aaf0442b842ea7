"""Load that a metric has not seen yet.

A metric lags: pods that started after its last sample will use cpu and memory that it does not show. A policy that looks at
the metric alone sends every pod to the node that was idle a minute ago. `unseen_requests(metric)` is the sum of requests of the
pods on the node that started since its sample was taken, to be added to what the metric says. Pods that are assumed or bound but
have not started count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.builtins.context import AtNode, AtRows
from wharfinger.builtins.signatures import NOT_NEGATIVE, always
from wharfinger.language.catalogue import Function, Parameter, Volatility
from wharfinger.language.types import NUMERIC, Kind, Shape

if TYPE_CHECKING:
    from wharfinger.model.pod import PodView

METRIC = Parameter(name="metric", kinds=NUMERIC, optional_ok=True)


def _is_unseen(pod: PodView, since: float) -> bool:
    """Whether a pod on a node began after `since`. Without a start time only a pod that says it runs is taken for an old one."""
    return pod.object.status.phase != "Running" if pod.started is None else pod.started > since


def _unseen_at(resource: str) -> Callable[[AtNode, str], float | None]:
    def evaluate(context: AtNode, metric: str) -> float | None:
        samples = context.snapshot.metric(metric)
        if samples is None or not samples.present[context.row]:
            return None
        since = float(samples.times[context.row])
        pods = context.snapshot.pods_on(context.row)
        return float(sum(pod.requests.get(resource, 0) for pod in pods if pod.uid != context.pod.uid and _is_unseen(pod, since)))

    return evaluate


def _unseen_rows(resource: str) -> Callable[[AtRows, str], Any]:
    def evaluate(context: AtRows, metric: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        snapshot = context.snapshot
        samples = snapshot.metric(metric)
        if samples is None:
            n_rows = len(snapshot.pod_count[context.rows])
            return np.zeros(n_rows), np.zeros(n_rows, dtype=np.bool_)

        def unseen(pod: PodView) -> bool:
            row = snapshot.row(pod.node_name)
            return row is not None and bool(samples.present[row]) and _is_unseen(pod, float(samples.times[row]))

        key = ("unseen_requests", metric, resource, snapshot.metrics_revision)
        selection = snapshot.selection(key, unseen, per_pod=True, value=lambda pod: pod.requests.get(resource, 0))
        return selection.by_node[context.rows], samples.present[context.rows]

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
        interval=lambda *_: NOT_NEGATIVE,
        context=True,
        volatility=Volatility.GLOBAL,
        own_shape=True,
    )


FUNCTIONS = (_function("cpu", Kind.CPU), _function("memory", Kind.MEMORY))
