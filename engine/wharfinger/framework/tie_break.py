"""Which of several equally good nodes: a stable hash of (pod uid, node name).

Kubernetes leaves ties to the order in which goroutines happen to finish. Here a tie must fall the same way on every machine and in every
replay, and still spread over the tied nodes as if drawn at random, so that pods of one template do not all prefer the node with the
smallest name.

Both names are hashed to 64 bits with BLAKE2b, which depends on nothing but the text; the node hashes are kept with the columns
(`Snapshot.name_hashes`). A pod's hash is mixed into all of them at once by multiplicative hashing (Knuth, The Art of Computer Programming
3, 6.4) of their XOR, and the smallest result wins. One multiplication is enough to give every pod an order of its own, because what
goes into it is random already; a test holds the winners against a uniform distribution.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E37_79B9_7F4A_7C15)  # 2⁶⁴ divided by the golden ratio, made odd


def stable_hash(text: str) -> int:
    """The 64-bit hash of a name: the first 8 bytes of its BLAKE2b, little-endian."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def mixed(pod_hash: int, name_hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """`(n,) uint64`: for each node, (`name_hash` XOR `pod_hash`) times the golden ratio, modulo 2⁶⁴."""
    values = name_hashes ^ np.uint64(pod_hash)
    values *= _GOLDEN
    return values


def winner(uid: str, name_hashes: NDArray[np.uint64]) -> int:
    """The index (into `name_hashes`, not empty) of the node that the pod of this uid gets among equals."""
    return int(mixed(stable_hash(uid), name_hashes).argmin())
