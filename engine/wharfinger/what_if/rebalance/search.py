"""What every search for a consolidation has: the draft that is tried on, the value that shall grow, and what moves may cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.what_if.rebalance.draft import Draft
    from wharfinger.what_if.rebalance.freed_nodes import NodeValue

MAX_WHOLE_SEARCH = 24
"""The largest number of nodes that is searched as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a plan may cost: the gain that each move must be worth, and how many there may be at most."""

    cost: float
    most_moves: int


class Outcome(NamedTuple):
    """What a set of bundles led to, so that the better one is greater: gains less costs, then fewer moves, then fewer cordons."""

    worth: float
    moves: int
    cordons: int


NO_OUTCOME = Outcome(0.0, 0, 0)


class Search:
    """One draft, one value, and the terms of moves.

    `may_move` says which pods may move, `verb` what a move does to the node that it leaves. Moves are given up if `holds` is false after
    them. `advance` is called between steps. `ends_at` is the number of decisions after which the search ends.
    """

    def __init__(  # noqa: PLR0913, PLR0917 — what it searches, and by which rules
        self,
        draft: Draft,
        value: NodeValue,
        terms: Terms,
        may_move: Callable[[PodView], bool],
        verb: str,
        holds: Callable[[], bool],
        advance: Callable[[], None],
    ) -> None:
        self.draft = draft
        self.value = value
        self.terms = terms
        self.verb = verb
        self.holds = holds
        self.advance = advance
        self.ends_at = 0
        self._may_move = may_move
        snapshot = draft.snapshot
        self.closed = frozenset(snapshot.names[row] for row in np.flatnonzero(snapshot.unschedulable).tolist()) - draft.cordoned
        self._largest = np.maximum(snapshot.allocatable.max(axis=1, initial=1), 1)

    @property
    def is_over(self) -> bool:
        """True once the search has made its decisions."""
        return self.draft.decisions >= self.ends_at

    def total(self) -> float:
        """The value now."""
        return self.value.total(self.draft.snapshot, self.closed)

    def begun(self) -> tuple[float, int]:
        """The value, and the number of moves so far: where `since` counts from."""
        return self.total(), len(self.draft.moves)

    def since(self, begun: tuple[float, int]) -> Outcome:
        """What the moves since then led to."""
        value, n_moves = begun
        moved = len(self.draft.moves) - n_moves
        return Outcome(round(self.total() - value - self.terms.cost * moved, 9), -moved, -len(self.draft.cordoned))

    def open_rows(self) -> list[int]:
        """The rows of the nodes that were not cordoned from the start."""
        return [row for row, name in enumerate(self.draft.snapshot.names) if name not in self.closed]

    def movable(self, rows: Iterable[int]) -> Iterator[tuple[int, list[PodView]]]:
        """For each of some nodes its row and the pods that may move from there and have not been moved yet."""
        moved = {move.pod.uid for move in self.draft.moves}
        for row in rows:
            yield row, [pod for pod in self.draft.snapshot.pods_on(row) if pod.uid not in moved and self._may_move(pod)]

    def size(self, pods: Sequence[PodView]) -> float:
        """The sum of what pods ask for, each as the largest fraction of what the largest node has."""
        snapshot = self.draft.snapshot
        fractions = [
            max(
                (
                    amount / self._largest[index]
                    for name, amount in pod.requests.items()
                    if (index := snapshot.resource_index(name)) is not None
                ),
                default=0.0,
            )
            for pod in pods
        ]
        return float(sum(fractions))
