"""How much of a placement real devices could honour.

Kubernetes' accounting sees a node's GPU-milli as one pool. Devices are bins of 1,000: a share stands on one of them, a whole GPU takes
one to itself. This lays the pods of a node into its devices, largest first, each into the fullest device that still takes it (best fit
decreasing), and counts what does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable

DEVICE = 1000


def device_overflow(n_devices: int, whole: int, shares: Iterable[int]) -> int:
    """Milli asked for on one node that find no device: `whole` GPUs and `shares` (milli each) on `n_devices` GPUs.

    Best fit decreasing is a heuristic: 0 proves that the devices can honour the placement, more than 0 does not prove that they cannot.
    """
    free = [DEVICE] * max(n_devices - whole, 0)
    overflow = DEVICE * max(whole - n_devices, 0)
    for share in sorted(shares, reverse=True):
        fitting = [i for i, left in enumerate(free) if left >= share]
        if fitting:
            free[min(fitting, key=free.__getitem__)] -= share
        else:
            overflow += share
    return overflow
