"""Which of several equally good nodes: chosen by a stable hash of the pod's uid and the node names.

Kubernetes leaves ties to the order in which goroutines happen to finish. Here a tie must fall the same way on every machine and in every
replay, and still spread over the tied nodes as if drawn at random, so that pods of one template do not all prefer the node with the
smallest name.

Names and uids are hashed to 64 bits with BLAKE2b, which depends on nothing but the text; the node hashes are kept with the columns
(`Snapshot.name_hashes`). The tied nodes are ordered by the hashes of their names, and the pod's hash, scaled from 0..2⁶⁴ to their number
(Lemire, Fast Random Integer Generation in an Interval, 2019, without its rejection step: the bias is below n/2⁶⁴), is the place of the
winner in that order. So only the number of tied nodes and one of them have to be known, and nodes can be counted by blocks
(`best_rows`).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

BITS = 64


def stable_hash(text: str) -> int:
    """The 64-bit hash of a name: the first 8 bytes of its BLAKE2b, little-endian."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def place(uid: str, n_tied: int) -> int:
    """The winner's place, 0..n_tied-1, among the tied nodes in the order of their name hashes, for the pod of this uid."""
    return stable_hash(uid) * n_tied >> BITS


def winner(uid: str, name_hashes: NDArray[np.uint64]) -> int:
    """The index (into `name_hashes`, not empty) of the node that the pod of this uid gets among equals."""
    wanted = place(uid, len(name_hashes))
    return int(np.argpartition(name_hashes, wanted)[wanted])
