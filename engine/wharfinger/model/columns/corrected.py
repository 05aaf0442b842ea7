"""The counts of a selection in which some pods count differently for the pod that is being decided.

A selection does not depend on the pod being decided. Where its name matters, it affects few placed pods; these are corrected here, without
recounting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wharfinger.model.columns.domains import MOST_EXACT, exact_sum, summed
from wharfinger.model.columns.node_table import NodeTable
from wharfinger.model.columns.pod_table import Placement, PodClass, PodTable
from wharfinger.model.columns.selection import Selection


@dataclass(frozen=True, slots=True)
class Corrections:
    """What pods count instead, None for nothing: all `classes` by serial, and single `placements` by uid, which outweigh their class."""

    classes: Mapping[int, tuple[PodClass, float | None]]
    placements: Mapping[str, tuple[Placement, float | None]]

    def __bool__(self) -> bool:
        return bool(self.classes or self.placements)

    def weight(self, placement: Placement, kept: Selection) -> float | None:
        """What a pod counts, None for nothing."""
        single = self.placements.get(placement.pod.uid)
        if single is not None:
            return single[1]
        group = self.classes.get(placement.group.serial)
        return kept.weight(placement) if group is None else group[1]


@dataclass(frozen=True, slots=True)
class DomainTotals:
    """The numbers of all domains of a topology key, (n_domains,) float64."""

    counts: NDArray[np.float64]

    def lowest(self) -> float | None:
        """The smallest of them, None where there is no domain."""
        return float(self.counts.min()) if len(self.counts) else None

    def highest(self) -> float | None:
        """The largest of them, None where there is no domain."""
        return float(self.counts.max()) if len(self.counts) else None


class CorrectedSelection:
    """The numbers of a `Selection` with corrections, for as long as the cluster does not change."""

    __slots__ = ("_by_node", "_corrections", "_integral", "_kept", "_nodes", "_pods")

    def __init__(self, nodes: NodeTable, pods: PodTable, kept: Selection, corrections: Corrections) -> None:
        self._nodes = nodes
        self._pods = pods
        self._kept = kept
        self._corrections = corrections
        weights = [(group.count, weight) for group, weight in corrections.classes.values()]
        weights += [(1, weight) for _, weight in corrections.placements.values()]
        counted = [(count, weight) for count, weight in weights if weight is not None]
        whole = all(weight.is_integer() for _, weight in counted)
        self._integral = kept.integral and whole and sum(count * abs(weight) for count, weight in counted) <= MOST_EXACT
        self._by_node = self._counted()
        self._by_node.setflags(write=False)

    def follow(self) -> object:
        """A new object at each call: answers about one pod must not be kept."""
        return object()

    @property
    def by_node(self) -> NDArray[np.float64]:
        """The count or sum of each node, (n_nodes,) float64 read-only."""
        return self._by_node

    @property
    def total(self) -> float:
        """The count or sum over all nodes."""
        return exact_sum(self._by_node.tolist())

    def domains(self, topology_key: str) -> DomainTotals:
        """The count or sum of each domain of a topology key."""
        topology = self._nodes.topologies.of(topology_key)
        present = topology.ids >= 0
        return DomainTotals(summed(topology.ids[present], self._by_node[present], topology.n_domains, integral=self._integral))

    def in_domain(self, topology_key: str) -> NDArray[np.float64]:
        """The count or sum of each node's own domain, (n_nodes,) float64; 0 where the node lacks the key."""
        return np.append(self.domains(topology_key).counts, 0.0)[self._nodes.topologies.of(topology_key).ids]

    def extreme_by_node(self, *, highest: bool) -> NDArray[np.float64]:
        """The smallest (or largest) value among each node's selected pods, (n_nodes,) float64; NaN where none is selected."""
        extremes = self._kept.extreme_by_node(highest=highest).copy()
        for row in self._rows():
            extremes[row] = (max if highest else min)(self._values(row), default=np.nan)
        return extremes

    def extreme_in_domain(self, topology_key: str, *, highest: bool) -> NDArray[np.float64]:
        """The smallest (or largest) value in each node's own domain, (n_nodes,) float64; NaN where there is none."""
        return self._nodes.topologies.of(topology_key).extremes(self.extreme_by_node(highest=highest), highest=highest)

    # ── counting ──

    def _counted(self) -> NDArray[np.float64]:
        counts = self._kept.by_node.copy()
        if not self._integral:
            for row in self._rows():
                counts[row] = exact_sum(self._values(row))
            return counts
        if self._corrections.classes:
            counts += self._by_class()
        for placement, weight in self._corrections.placements.values():
            group = self._corrections.classes.get(placement.group.serial)
            before = self._kept.weight(placement) if group is None else group[1]
            counts[placement.row] += (weight or 0.0) - (before or 0.0)
        return counts

    def _by_class(self) -> NDArray[np.float64]:
        """What the corrections of whole classes add to each node, (n_nodes,) float64."""
        more = np.zeros(self._pods.class_numbers)
        for group, weight in self._corrections.classes.values():
            more[group.number] = (weight or 0.0) - (self._kept.class_weight(group) or 0.0)
        weights = more[self._pods.entry_classes]
        return np.bincount(self._pods.entry_rows, weights=weights, minlength=self._nodes.rows.count).astype(np.float64, copy=False)

    def _rows(self) -> list[int]:
        """The rows of the pods that are corrected."""
        rows = {placement.row for placement, _ in self._corrections.placements.values()}
        if self._corrections.classes:
            chosen = np.zeros(self._pods.class_numbers, dtype=np.bool_)
            chosen[[group.number for group, _ in self._corrections.classes.values()]] = True
            rows.update(np.unique(self._pods.entry_rows[chosen[self._pods.entry_classes]]).tolist())
        return sorted(rows)

    def _values(self, row: int) -> list[float]:
        """What the pods of a node count, apart from those that count nothing."""
        weights = (self._corrections.weight(placement, self._kept) for placement in self._pods.by_row[row].values())
        return [weight for weight in weights if weight is not None]
