"""What a builtin that reads the cluster is given: the snapshot, the pod to be placed, and the candidate rows.

`AtNode` is for scalar references (one candidate), `AtRows` for kernels (any set of rows). Besides these a builtin gets its
arguments: a selection of pods arrives as a sequence of `(row, pod)` in scalar references and as the snapshot's own running
counts in kernels; a metric arrives as its name.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.model.pod import PodView
from wharfinger.model.snapshot import Snapshot

Rows = slice | NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class AtMoment:
    """A point in time and nothing else: for what is asked about a pod alone (`for pods where`, `pods where`)."""

    now: float


@dataclass(frozen=True, slots=True)
class AtNode:
    """One candidate node; `memo` keeps what is the same for every candidate, so that a reference need not recount the cluster per node."""

    snapshot: Snapshot
    pod: PodView
    row: int
    memo: dict[Hashable, Any] = field(default_factory=dict)

    @property
    def now(self) -> float:
        """The snapshot's own time, in seconds since 1970."""
        return self.snapshot.now


@dataclass(frozen=True, slots=True)
class AtRows:
    """A set of candidate rows: `slice(None)` for all, or an index array."""

    snapshot: Snapshot
    pod: PodView
    rows: Rows

    @property
    def now(self) -> float:
        """The snapshot's own time, in seconds since 1970."""
        return self.snapshot.now

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self.snapshot.n_nodes if isinstance(self.rows, slice) else len(self.rows)
