"""Which of several equally good nodes: a stable hash of (pod uid, node name).

Kubernetes leaves ties to the order in which goroutines happen to finish. Here a tie must fall the same way on every machine and in every
replay, and still spread over the tied nodes as if drawn at random, so that pods of one template do not all prefer the node with the
smallest name.

Both names are hashed to 64 bits with BLAKE2b, which depends on nothing but the text; the node hashes are kept with the columns
(`Snapshot.name_hashes`, `model.columns`). A pod's hash is mixed into all of them at once with the finaliser of SplitMix64 (Steele, Lea,
Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014), and the smallest result wins.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

_MASK = 0xFFFF_FFFF_FFFF_FFFF
_FIRST = np.uint64(0xBF58_476D_1CE4_E5B9)
_SECOND = np.uint64(0x94D0_49BB_1331_11EB)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)


def stable_hash(text: str) -> int:
    """The 64-bit hash of a name: the first 8 bytes of its BLAKE2b, little-endian."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def mixed(pod_hash: int, name_hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """`(n,) uint64`: for each node, SplitMix64's finaliser over `name_hash XOR pod_hash`."""
    values = name_hashes ^ np.uint64(pod_hash & _MASK)
    shifted = values >> _SHIFTS[0]
    values ^= shifted
    values *= _FIRST
    np.right_shift(values, _SHIFTS[1], out=shifted)
    values ^= shifted
    values *= _SECOND
    np.right_shift(values, _SHIFTS[2], out=shifted)
    values ^= shifted
    return values


def winner(uid: str, name_hashes: NDArray[np.uint64]) -> int:
    """The index (into `name_hashes`, not empty) of the node that the pod of this uid gets among equals."""
    return int(mixed(stable_hash(uid), name_hashes).argmin())
