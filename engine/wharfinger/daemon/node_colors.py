"""Colours of the nodes on the live page: by a resource, the number of pods, a metric, or the scores of one pod.

cpu, memory, nvidia.com/gpu …   requested per allocatable
pods                            pods per pods allowed
metric:<policy>/<name>          the samples of a metric that a policy declares
pod:<namespace>/<name>          the first tier's total of every node that is feasible for that pod now
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from wharfinger.errors import UnknownObject
from wharfinger.framework.evaluation.kept_result import Evaluation
from wharfinger.language.report.wording import count
from wharfinger.language.semantics import typed
from wharfinger.model.objects.pod_view import PodView
from wharfinger.simulate.dry_run import FIRST
from wharfinger.web.ui.board import Coloring

if TYPE_CHECKING:
    from wharfinger.framework.chain import Chain
    from wharfinger.model.state.snapshot import Snapshot
    from wharfinger.scheduler.scheduler import Scheduler

METRIC, POD = "metric:", "pod:"
MOST_RESOURCES = 30
MOST_METRICS = 50
MOST_KEPT = 6
"""Pods whose scores are kept up to date."""


@dataclass(frozen=True, slots=True)
class _PodEvaluation:
    """The evaluation of a pod by a chain."""

    chain: Chain
    key: Hashable
    evaluation: Evaluation


class NodeColorings:
    """The colourings of one scheduler's nodes. Pods are evaluated apart from the scheduler, whose decisions are not affected."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._evaluations: OrderedDict[str, _PodEvaluation] = OrderedDict()

    def choices(self, snapshot: Snapshot) -> Iterator[tuple[str, str]]:
        """(key, title) of every colouring except those of pods."""
        offered = [name for index, name in enumerate(snapshot.resource_names) if snapshot.has_allocatable[index].any()]
        ordered = sorted(offered, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))
        yield from ((name, f"{name} requested") for name in ordered[:MOST_RESOURCES])
        yield "pods", "pods per node"
        yield from ((f"{METRIC}{name}", f"metric {name}") for name, _ in zip(self._metrics(), range(MOST_METRICS), strict=False))

    def _metrics(self) -> dict[str, typed.Metric]:
        policies = [policy for profile in self._scheduler.profiles for policy in profile.chain.policies]
        return {f"{policy.name}/{metric.name}": metric for policy in policies for metric in policy.policy.metrics}

    def coloring(self, key: str, snapshot: Snapshot) -> Coloring:
        """The colours of all nodes; UnknownObject for a key that is not there."""
        if key.startswith(METRIC):
            return self._measured(key.removeprefix(METRIC), snapshot)
        if key.startswith(POD):
            return self._scores(key.removeprefix(POD), snapshot)
        if key == "pods":
            return _share("pods per node", snapshot.pod_count, snapshot.allowed_pods)
        index = snapshot.resource_index(key)
        if index is None or not snapshot.n_nodes:
            if key in FIRST or not snapshot.n_nodes:
                return _share(f"{key} requested", np.zeros(snapshot.n_nodes, np.int64), np.zeros(snapshot.n_nodes, np.int64))
            raise UnknownObject(f"no node offers {key}")
        return _share(f"{key} requested", snapshot.requested[index], snapshot.allocatable[index])

    def _measured(self, name: str, snapshot: Snapshot) -> Coloring:
        metric = self._metrics().get(name)
        if metric is None:
            raise UnknownObject(f"no policy that decides declares the metric {name}")
        column = snapshot.metric(*metric.key.names)
        values = np.full(snapshot.n_nodes, np.nan) if column is None else column.values
        unit = "fraction" if metric.type.kind.value == "percent" else metric.type.kind.value
        present = 0 if column is None else int(column.present.sum())
        return Coloring(title=f"metric {name}", unit=unit, **_scale(values, unit), values=values, note=_coverage(column, present, snapshot))

    def _scores(self, key: str, snapshot: Snapshot) -> Coloring:
        pod = self._scheduler.known_pod(key)
        profile = None if pod is None else self._scheduler.profiles.of(pod)
        if pod is None or profile is None:
            raise UnknownObject(f"there is no pod {key}" if pod is None else f"pod {key} belongs to another scheduler")
        waiting = _waiting(pod)
        evaluation = self._evaluation(profile.chain, waiting, snapshot)
        evaluation.update(waiting, snapshot)
        feasible, tiers = evaluation.filtering.feasible, evaluation.scoring.tiers
        values = np.full(snapshot.n_nodes, np.nan)
        if evaluation.filtering.count:
            values[feasible] = tiers[0].total[feasible] if tiers else 0.0
            another = "" if waiting is pod else " for another like it"
            note = f"{evaluation.filtering.count} of {count(snapshot.n_nodes, 'node')} feasible{another}"
        else:
            note = evaluation.rejection_message(snapshot)
        return Coloring(title=f"score for {key}", unit="points", **_scale(values, "points"), values=values, note=note)

    def _evaluation(self, chain: Chain, pod: PodView, snapshot: Snapshot) -> Evaluation:
        kept = self._evaluations.pop(pod.uid, None)
        key = chain.key(pod, snapshot.now)
        if kept is None or kept.chain is not chain or kept.key != key:
            kept = _PodEvaluation(chain, key, Evaluation(chain.lineup(pod, snapshot.now)))
        self._evaluations[pod.uid] = kept
        while len(self._evaluations) > MOST_KEPT:
            self._evaluations.popitem(last=False)
        return kept.evaluation


def _waiting(pod: PodView) -> PodView:
    """The pod as it was before it was bound: bound, it would fit its own node alone."""
    return PodView(replace(pod.object, spec=replace(pod.object.spec, node_name=""))) if pod.node_name else pod


def _share(title: str, used: NDArray[np.int64], offered: NDArray[np.int64]) -> Coloring:
    values = np.full(len(offered), np.nan)
    np.divide(used, offered, out=values, where=offered > 0)
    return Coloring(title=title, unit="fraction", low=0.0, high=1.0, values=values)


def _scale(values: NDArray[np.float64], unit: str) -> dict[str, float]:
    """The ends of the scale: round numbers, so that they seldom move. Points only differ: their scale begins where they do."""
    known = values[np.isfinite(values)]
    if unit == "fraction" or not len(known):
        return {"low": 0.0, "high": 1.0}
    low, high = float(known.min()), float(known.max())
    if unit == "points":
        step = _round_up(max(high - low, 1e-3)) / 10
        return {"low": math.floor(low / step) * step, "high": math.floor(high / step + 1) * step}
    return {"low": -_round_up(-low) if low < 0 else 0.0, "high": _round_up(high) if high > 0 else 1.0}


def _round_up(value: float) -> float:
    """The next of 1, 2, 2.5, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1.0, 2.0, 2.5, 5.0, 10.0) if step * power >= value * (1 - 1e-9))


def _coverage(column: object, present: int, snapshot: Snapshot) -> str:
    return "there are no samples yet" if column is None else f"samples of {present} of {count(snapshot.n_nodes, 'node')}"
