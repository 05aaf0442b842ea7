"""Selections of placed pods when a policy runs: the predicate as a Python function, and the model's running counts for it.

The predicate of `pods where …` is a small program over one pod. What it needs of the pod to be placed is captured when the selection is
asked for and is part of the selection's key, so that pods whose captured values are equal share one set of counts.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.builtins.context import AtRows
from wharfinger.compiler import leaves
from wharfinger.compiler.ir import Node, Stage, ordered
from wharfinger.model.pod import PodView
from wharfinger.model.selection import Selection
from wharfinger.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ItemProgram:
    """A computation about one placed pod.

    `captures` are the earlier values it needs, in order; `text` is equal for equal programs whatever policy they come from;
    `outputs` are places in the list that holds captures, the pod and then the result of each step.
    """

    captures: tuple[Node, ...]
    steps: tuple[tuple[Callable[..., Any], tuple[int, ...]], ...]
    outputs: tuple[int, ...]
    text: str
    per_pod: bool

    def run(self, captured: Sequence[Any], pod: PodView) -> list[Any]:
        """The outputs for one pod."""
        places: list[Any] = [*captured, pod]
        for evaluate, arguments in self.steps:
            places.append(evaluate(*[places[a] for a in arguments]))
        return [places[output] for output in self.outputs]


def item_program(outputs: Sequence[Node]) -> ItemProgram:
    """The program that computes some nodes for one placed pod."""
    nodes = ordered(outputs)
    inner = [node for node in nodes if node.stage is Stage.ITEM and node.op is not leaves.ITEM]
    needed = {arg.number: arg for node in inner for arg in node.args} | {node.number: node for node in outputs}
    captures = tuple(node for node in needed.values() if node.stage is not Stage.ITEM)
    places = {node.number: place for place, node in enumerate(captures)}
    places |= {node.number: len(captures) for node in nodes if node.op is leaves.ITEM}
    steps = []
    for node in inner:
        if node.op.scalar is None:
            raise TypeError(f"{node.op.name} cannot be asked of a placed pod")
        steps.append((node.op.scalar, tuple(places[arg.number] for arg in node.args)))
        places[node.number] = len(captures) + len(steps)
    return ItemProgram(
        captures=captures,
        steps=tuple(steps),
        outputs=tuple(places[node.number] for node in outputs),
        text=_text(inner, places, outputs),
        per_pod=any(node.op.key == leaves.IDENTITY for node in inner),
    )


def _text(inner: list[Node], places: dict[int, int], outputs: Sequence[Node]) -> str:
    lines = [f"{node.op.name} {node.op.key!r} {[places[arg.number] for arg in node.args]}" for node in inner]
    return "; ".join([*lines, f"{[places[node.number] for node in outputs]}"])


def select_kernel(program: ItemProgram) -> Callable[..., Selection | SelectionWithout]:
    """The kernel of a selection: `(frame, *captured) -> selection`.

    The first output of the program says whether a pod is selected; a second and third, if any, its value and whether that is present.
    """
    valued = len(program.outputs) > 1

    def select(frame: AtRows, *captured: Any) -> Selection | SelectionWithout:
        def selected(pod: PodView) -> bool:
            return bool(program.run(captured, pod)[0])

        def value(pod: PodView) -> float | None:
            _, amount, present = program.run(captured, pod)
            return amount if present else None

        key: Hashable = (program.text, captured)
        selection = frame.snapshot.selection(key, selected, per_pod=program.per_pod, value=value if valued else None)
        own = frame.snapshot.placed(frame.pod.uid)
        if own is None:
            return selection
        weigh = value if valued else lambda _: 1.0
        return SelectionWithout(frame.snapshot, selection, own, lambda pod: weigh(pod) if selected(pod) else None)

    return select


@dataclass(frozen=True, slots=True)
class DomainsWithout:
    """The numbers of a `SelectionWithout`, (n_domains,) float64."""

    counts: NDArray[np.float64]

    def lowest(self) -> float | None:
        """The smallest of them, None where there is no domain."""
        return float(self.counts.min()) if len(self.counts) else None

    def highest(self) -> float | None:
        """The largest of them, None where there is no domain."""
        return float(self.counts.max()) if len(self.counts) else None


class SelectionWithout:
    """A selection from which one placed pod is left out: the pod being decided, where the cluster has it already."""

    __slots__ = ("_own", "_row", "_selection", "_snapshot", "_weigh", "_weight")

    def __init__(
        self, snapshot: Snapshot, selection: Selection, own: tuple[int, PodView], weigh: Callable[[PodView], float | None]
    ) -> None:
        self._snapshot = snapshot
        self._selection = selection
        self._row, self._own = own
        self._weigh = weigh
        self._weight = weigh(self._own) or 0.0

    def follow(self) -> object:
        """Something new at each call: nobody keeps answers about a pod that is placed already."""
        return object()

    @property
    def by_node(self) -> NDArray[np.float64]:
        """The count or sum of each node, (n_nodes,) float64."""
        counts = self._selection.by_node.copy()
        counts[self._row] -= self._weight
        return counts

    @property
    def total(self) -> float:
        """The count or sum over all nodes."""
        return self._selection.total - self._weight

    def domains(self, topology_key: str) -> DomainsWithout:
        """The count or sum of each domain of a topology key."""
        counts = self._selection.by_domain(topology_key).copy()
        domain = self._snapshot.domain(topology_key)[0][self._row]
        if domain >= 0:
            counts[domain] -= self._weight
        return DomainsWithout(counts)

    def in_domain(self, topology_key: str) -> NDArray[np.float64]:
        """The count or sum of each node's own domain, (n_nodes,) float64; 0 where the node lacks the key."""
        return np.append(self.domains(topology_key).counts, 0.0)[self._snapshot.domain(topology_key)[0]]

    def extreme_by_node(self, *, highest: bool) -> NDArray[np.float64]:
        """The smallest (or largest) value among each node's selected pods, (n_nodes,) float64; NaN where none is selected."""
        extremes = self._selection.extreme_by_node(highest=highest).copy()
        others = [pod for pod in self._snapshot.pods_on(self._row) if pod.uid != self._own.uid]
        values = [weight for pod in others if (weight := self._weigh(pod)) is not None]
        extremes[self._row] = (max if highest else min)(values, default=np.nan)
        return extremes

    def extreme_in_domain(self, topology_key: str, *, highest: bool) -> NDArray[np.float64]:
        """The smallest (or largest) value in each node's own domain, (n_nodes,) float64; NaN where there is none."""
        ids, n_domains = self._snapshot.domain(topology_key)
        by_domain = np.full(n_domains + 1, np.nan)  # the last one is for nodes without the key
        (np.fmax if highest else np.fmin).at(by_domain, ids[ids >= 0], self.extreme_by_node(highest=highest)[ids >= 0])
        return by_domain[ids]
