"""Counts and sums over the placed pods that satisfy a predicate: per node, per topology domain, in total.

Topology spread and pod affinity need such counts. Counting tens of thousands of pods for every decision is slow. A selection is therefore
counted once; at the next read it applies the pods that were added and removed since, which is one addition after a placement.

A predicate may depend on the identity of the pod to be placed, which changes the weights of a few placed pods. A `CorrectedSelection`
applies these corrections for one decision; nothing is counted again.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from wharfinger.model.columns.arrays import read_only
from wharfinger.model.columns.domains import MAX_EXACT_SUM, DomainCounts, Mask, exact_sum, magnitude, summed
from wharfinger.model.columns.node_table import NodeTable
from wharfinger.model.columns.pod_table import READ_PER_STEP, Change, Placement, PodClass, PodTable, unread_classes
from wharfinger.model.objects.pod_view import PodView

Predicate = Callable[[PodView], bool]
Value = Callable[[PodView], float | None]

MAX_CELLS: Final = 2**24  # numbers kept by all selections of a cluster together: 128 MB
CELLS_OF_CLASS: Final = 6  # the memory of one template's dict entry, in numbers of 8 bytes
MAX_DOMAIN_COUNTS: Final = 8  # (topology key, mask) pairs kept per selection
MIN_SELECTIONS: Final = 500  # always kept, also if they are large: as many as one policy may have
NOT_EVALUATED: Final = math.nan  # compared by identity: not evaluated yet
MAX_SELECTIONS: Final = 4096
MAX_PASSING: Final = 64  # those that are unlikely to be used again


class Selection:
    """The pods for which `predicate` is true (None: all pods), with weight 1 or their `value`; pods with value None are left out.

    Sums do not depend on the order in which pods were added: whole numbers add up exactly. Once a value is not whole, or sums would be
    rounded, changed rows are summed again with `exact_sum`. Every property first follows the changes of the state; `version` changes
    whenever a number may have changed.
    """

    __slots__ = (
        "_by_node",
        "_domains",
        "_evaluate",
        "_extremes",
        "_integral",
        "_layout",
        "_magnitude",
        "_memo",
        "_nodes",
        "_of_placements",
        "_per_pod",
        "_pods",
        "_remembers",
        "_seen",
        "_shown",
        "_total",
        "version",
    )

    def __init__(  # noqa: PLR0913 — one parameter per part of the key of a selection
        self, nodes: NodeTable, pods: PodTable, predicate: Predicate | None, *, per_pod: bool, value: Value | None, remembers: bool = True
    ) -> None:
        self._nodes = nodes
        self._pods = pods
        self._evaluate = _weight(predicate, value)
        self._per_pod = per_pod
        self._remembers = remembers
        self._memo: dict[int, float | None] = {}
        self._of_placements: dict[Placement, float | None] = {}  # weights of single pods, if the selection is per pod
        self._integral = True
        self._magnitude = 0.0  # the sum of the absolute weights, while sums are exact
        self._domains: OrderedDict[Hashable, DomainCounts] = OrderedDict()
        self._extremes: dict[bool, NDArray[np.float64]] = {}
        self._by_node: NDArray[np.float64] = np.zeros(0)
        self._shown = self._by_node
        self._total: float | None = 0.0
        self._layout = -1
        self._seen = 0
        self.version = 0

    @property
    def by_node(self) -> NDArray[np.float64]:
        """The count or sum of each node, (n_nodes,) float64 read-only."""
        self._follow()
        return self._shown

    def follow(self) -> int:
        """Follow the changes of the state; returns the version."""
        self._follow()
        return self.version

    def read_in_steps(self) -> Generator[None]:
        """The steps of evaluating the pods that are not counted yet, and of counting them.

        Changes between the steps are left to the next call.
        """
        pods = self._pods
        seen = self._seen if self._layout == self._nodes.rows.layout else -1
        for number, _ in enumerate(self._evaluated(seen), start=1):
            if not number % READ_PER_STEP:
                yield
        if pods.entries and pods.added_since(seen) is None:
            self._follow()
            yield

    def read_extreme_in_steps(self, *, highest: bool) -> Generator[None]:
        """The step of finding the smallest (or largest) weights if there are pods and they are not known. It follows `read_in_steps`."""
        if self._pods.entries and highest not in self._extremes:
            self.extreme_by_node(highest=highest)
            yield

    def _evaluated(self, seen: int) -> Generator[float | None]:
        """Evaluate the pods, or one of each template, that were added after the first `seen` changes and are not evaluated yet."""
        pods = self._pods
        if not self._per_pod:
            for group in unread_classes(pods, seen, self._memo):
                self._memo[group.serial] = weight = self._evaluate(group.example)
                yield weight
            return
        added = pods.added_since(seen)
        found = [placement for placement in (pods.entries if added is None else added) if placement not in self._of_placements]
        for placement in found:
            weight = self._of_placements[placement] = self._evaluate(placement.pod)
            yield weight

    @property
    def total(self) -> float:
        """The count or sum over all nodes."""
        self._follow()
        if self._total is None:
            self._total = exact_sum(self._by_node.tolist())
        return self._total

    @property
    def integral(self) -> bool:
        """True if all sums so far are exact."""
        self._follow()
        return self._integral

    def weight(self, placement: Placement) -> float | None:
        """The weight of a placed pod; None if it is not selected."""
        if not self._per_pod:
            return self.class_weight(placement.group)
        weight = self._of_placements.get(placement, NOT_EVALUATED)
        if weight is NOT_EVALUATED:
            weight = self._evaluate(placement.pod)
            if self._remembers:
                self._of_placements[placement] = weight
        return weight

    def class_weight(self, group: PodClass) -> float | None:
        """The weight of each pod of a class, for a selection that is not per pod."""
        if group.serial in self._memo:
            return self._memo[group.serial]
        if len(self._memo) > 2 * len(self._pods.classes) + 1024:
            self._forget_classes()
        weight = self._memo[group.serial] = self._evaluate(group.example)
        return weight

    def domains(self, topology_key: str, *, mask_key: Hashable = None, mask: Mask | None = None) -> DomainCounts:
        """The counts per domain of a topology key; with a mask (n_nodes,) bool only over the nodes where it is true.

        `mask_key` identifies the mask, so that its counts are kept; a mask with other values under the same key is counted again.
        """
        self._follow()
        key = (topology_key, mask_key)
        counts = self._domains.get(key)
        if counts is None or not counts.fits(mask):
            counts = self._domains[key] = DomainCounts(
                self._nodes.topologies.of(topology_key), self._by_node, mask, integral=self._integral
            )
            if len(self._domains) > MAX_DOMAIN_COUNTS:
                self._domains.popitem(last=False)
        return counts

    def by_domain(self, topology_key: str) -> NDArray[np.float64]:
        """The count or sum of each domain, (n_domains,) float64 read-only."""
        return self.domains(topology_key).counts

    def in_domain(self, topology_key: str) -> NDArray[np.float64]:
        """The count or sum of each node's own domain, (n_nodes,) float64 read-only; 0 where the node lacks the key."""
        return self.domains(topology_key).gathered()

    def extreme_by_node(self, *, highest: bool) -> NDArray[np.float64]:
        """The smallest (or largest) weight among each node's selected pods, (n_nodes,) float64 read-only; NaN without such pods."""
        self._follow()
        extremes = self._extremes.get(highest)
        if extremes is None:
            extremes = self._extremes[highest] = np.full(len(self._by_node), np.nan)
            (np.fmax if highest else np.fmin).at(extremes, self._pods.entry_rows, self._weights(np.nan))
        return read_only(extremes)

    def extreme_in_domain(self, topology_key: str, *, highest: bool) -> NDArray[np.float64]:
        """The smallest (or largest) weight in each node's own domain, (n_nodes,) float64; NaN without selected pods or topology key."""
        return self._nodes.topologies.of(topology_key).extremes(self.extreme_by_node(highest=highest), highest=highest)

    def _extreme(self, row: int, *, highest: bool) -> float:
        values = self._values(row)
        return (max(values) if highest else min(values)) if values else math.nan

    def _values(self, row: int) -> list[float]:
        return [weight for placement in self._pods.by_row[row].values() if (weight := self.weight(placement)) is not None]

    def _follow(self) -> None:
        if self._layout != self._nodes.rows.layout:
            self._recount()
        elif self._seen != self._pods.n_changes:
            changes = self._pods.changes_since(self._seen)
            if changes is None:
                self._recount()
            else:
                self._catch_up(changes)
                self._seen = self._pods.n_changes
                if len(self._memo) > 2 * len(self._pods.classes) + 1024:
                    self._forget_classes()

    def _catch_up(self, changes: Iterable[Change]) -> None:
        memo = self._memo  # stays empty if the selection is per pod
        for placement, row, sign in changes:
            weight = memo.get(placement.group.serial, NOT_EVALUATED)
            if weight is not None:  # most pods are of a template that is known not to be selected
                if weight is NOT_EVALUATED:
                    weight = self.weight(placement)
                if weight is not None:
                    self._apply(row, weight, sign)
                if sign < 0 and self._per_pod:
                    self._of_placements.pop(placement, None)

    def _apply(self, row: int, weight: float, sign: int) -> None:
        self.version += 1
        self._magnitude += abs(weight) * sign
        if self._integral and weight.is_integer() and self._magnitude <= MAX_EXACT_SUM:
            amount = weight * sign
            self._by_node[row] += amount
            self._total = None if self._total is None else self._total + amount
            for counts in self._domains.values():
                counts.add(row, amount)
        else:
            self._integral = False
            self._by_node[row] = exact_sum(self._values(row))
            self._total = None
            self._domains.clear()
        for highest, extremes in self._extremes.items():
            extremes[row] = self._extreme(row, highest=highest)

    def _forget_classes(self) -> None:
        live = {group.serial for group in self._pods.classes.values()}
        self._memo = {serial: weight for serial, weight in self._memo.items() if serial in live}

    def _recount(self) -> None:
        if len(self._memo) > len(self._pods.classes):
            self._forget_classes()
        weights = self._weights(0.0)
        self._magnitude = magnitude(weights)
        self._integral = self._magnitude <= MAX_EXACT_SUM
        n_nodes = self._nodes.rows.count
        if self._integral:
            self._by_node = np.bincount(self._pods.entry_rows, weights=weights, minlength=n_nodes).astype(np.float64, copy=False)
        else:
            self._by_node = summed(self._pods.entry_rows, weights, n_nodes, integral=False)
        self._shown = read_only(self._by_node)
        self._total = None
        self._domains.clear()
        self._extremes.clear()
        self._layout = self._nodes.rows.layout
        self._seen = self._pods.n_changes
        self.version += 1

    def _weights(self, nothing: float) -> NDArray[np.float64]:
        """The weight of each entry of the pod table, (n_pods,) float64; `nothing` for pods that are not selected."""
        if self._per_pod:
            weights = [self.weight(placement) for placement in self._pods.entries]
            self._of_placements = dict(zip(self._pods.entries, weights, strict=True)) if self._remembers else {}  # without removed pods
            return np.array([nothing if weight is None else weight for weight in weights], dtype=np.float64)
        memo, evaluate = self._memo, self._evaluate
        by_number = [nothing] * self._pods.class_numbers  # a list is filled faster than an array
        for group in self._pods.classes.values():
            weight = memo.get(group.serial, NOT_EVALUATED)
            if weight is NOT_EVALUATED:
                weight = memo[group.serial] = evaluate(group.example)
            if weight is not None:
                by_number[group.number] = weight
        return np.array(by_number, dtype=np.float64)[self._pods.entry_classes]


def _weight(predicate: Predicate | None, value: Value | None) -> Value:
    if value is None:
        return lambda pod: 1.0 if predicate is None or predicate(pod) else None
    if predicate is None:
        return value

    def weigh(pod: PodView) -> float | None:
        weight = value(pod) if predicate(pod) else None
        return None if weight is None else float(weight)

    return weigh


class Selections:
    """The selections in use; the least recently used is dropped first.

    Selections that are unlikely to be used again (`passing`) have a small separate limit, so they do not displace others.
    """

    __slots__ = ("_lasting", "_nodes", "_passing", "_pods")

    def __init__(self, nodes: NodeTable, pods: PodTable) -> None:
        self._nodes = nodes
        self._pods = pods
        self._lasting: OrderedDict[Hashable, Selection] = OrderedDict()
        self._passing: OrderedDict[Hashable, Selection] = OrderedDict()

    def __len__(self) -> int:
        return len(self._lasting) + len(self._passing)

    def of(
        self, key: Hashable, predicate: Predicate | None, *, per_pod: bool = False, value: Value | None = None, passing: bool = False
    ) -> Selection:
        """The selection of a key, which identifies `predicate`, `value` and `per_pod`; these are used only if the key is new."""
        kept = self._passing if passing else self._lasting
        selection = kept.get(key)
        if selection is None:
            selection = Selection(self._nodes, self._pods, predicate, per_pod=per_pod, value=value, remembers=not passing)
            kept[key] = selection
            limit = MAX_PASSING if passing else self._limit()
            while len(kept) > limit:
                kept.popitem(last=False)
        else:
            kept.move_to_end(key)
        return selection

    def _limit(self) -> int:
        cells = self._nodes.rows.count + CELLS_OF_CLASS * len(self._pods.classes)
        return max(MIN_SELECTIONS, min(MAX_SELECTIONS, MAX_CELLS // max(1, cells)))


class ReadExtreme(Struct, frozen=True):
    """The smallest (or largest) weights of a selection, read in steps (`ReadInSteps`)."""

    selection: Selection
    highest: bool

    def read_in_steps(self) -> Generator[None]:
        """The step of finding them; none if they are known."""
        return self.selection.read_extreme_in_steps(highest=self.highest)


class Corrections(Struct, frozen=True):
    """Corrected weights, None for pods that are not selected: of whole `classes` by serial, and of single `placements` by uid.

    A correction of a placement takes precedence over one of its class.
    """

    classes: Mapping[int, tuple[PodClass, float | None]]
    placements: Mapping[str, tuple[Placement, float | None]]

    def __bool__(self) -> bool:
        return bool(self.classes or self.placements)

    def weight(self, placement: Placement, kept: Selection) -> float | None:
        """The corrected weight of a pod; None if it is not selected."""
        single = self.placements.get(placement.pod.uid)
        if single is not None:
            return single[1]
        group = self.classes.get(placement.group.serial)
        return kept.weight(placement) if group is None else group[1]


class DomainTotals(Struct, frozen=True):
    """The numbers of all domains of a topology key, (n_domains,) float64."""

    counts: NDArray[np.float64]

    def lowest(self) -> float | None:
        """The smallest number; None without domains."""
        return float(self.counts.min()) if len(self.counts) else None

    def highest(self) -> float | None:
        """The largest number; None without domains."""
        return float(self.counts.max()) if len(self.counts) else None


class CorrectedSelection:
    """The numbers of a `Selection` with corrections; valid until the next change of the cluster."""

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
        self._integral = kept.integral and whole and sum(count * abs(weight) for count, weight in counted) <= MAX_EXACT_SUM
        self._by_node = self._counted()
        self._by_node.setflags(write=False)

    def follow(self) -> object:
        """A new object at each call, in place of a version: results for one pod must not be kept."""
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
        """The smallest (or largest) weight among each node's selected pods, (n_nodes,) float64; NaN without such pods."""
        extremes = self._kept.extreme_by_node(highest=highest).copy()
        for row in self._rows():
            extremes[row] = (max if highest else min)(self._values(row), default=np.nan)
        return extremes

    def extreme_in_domain(self, topology_key: str, *, highest: bool) -> NDArray[np.float64]:
        """The smallest (or largest) weight in each node's own domain, (n_nodes,) float64; NaN without selected pods or topology key."""
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
        """The amount that the corrections of whole classes add to each node, (n_nodes,) float64."""
        more = np.zeros(self._pods.class_numbers)
        for group, weight in self._corrections.classes.values():
            more[group.number] = (weight or 0.0) - (self._kept.class_weight(group) or 0.0)
        weights = more[self._pods.entry_classes]
        return np.bincount(self._pods.entry_rows, weights=weights, minlength=self._nodes.rows.count).astype(np.float64, copy=False)

    def _rows(self) -> list[int]:
        """The rows of the pods with corrections, ascending."""
        rows = {placement.row for placement, _ in self._corrections.placements.values()}
        if self._corrections.classes:
            chosen = np.zeros(self._pods.class_numbers, dtype=np.bool_)
            chosen[[group.number for group, _ in self._corrections.classes.values()]] = True
            rows.update(np.unique(self._pods.entry_rows[chosen[self._pods.entry_classes]]).tolist())
        return sorted(rows)

    def _values(self, row: int) -> list[float]:
        """The corrected weights of the selected pods on a node."""
        weights = (self._corrections.weight(placement, self._kept) for placement in self._pods.by_row[row].values())
        return [weight for weight in weights if weight is not None]
