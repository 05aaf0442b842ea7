"""The power of a node: idle and busy watts of its GPUs and CPUs.

A GPU that has a pod, or a part of one, draws its full power, others their idle power. CPUs are busy as far as pods request their cores, a
whole socket at a time. Source of the method and the watts: F. Lettich et al., "Power- and Fragmentation-aware Online Scheduling for GPU
Datacenters", CCGrid 2025, and the code of its authors, who took full power from data sheets and say that idle power is hard to come by. The
trace hides what G2 and G3 are: the authors' code assumes the watts below for both. All nodes here have the CPU that it assumes where none
is named.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tests.league.protocol import Machine

GPU_WATTS = {
    "T4": (10, 70),
    "A10": (30, 150),
    "P100": (25, 250),
    "V100M16": (30, 300),
    "V100M32": (30, 300),
    "G2": (25, 250),
    "G3": (25, 250),
}
"""Model → (idle, busy)."""
CPU_WATTS = (15, 120)
SOCKET = 32_000
"""mCPU of a socket: 16 cores with two threads each."""


def watts(machine: Machine, free_cpu: int, free_gpus: Sequence[int]) -> float:
    """The watts of a node with so much of it free."""
    idle, busy = GPU_WATTS[machine.model]
    gpus = sum(idle if left == 1000 else busy for left in free_gpus)
    sockets = math.ceil(machine.cpu / SOCKET)
    used = math.ceil((machine.cpu - free_cpu) / SOCKET)
    return gpus + used * CPU_WATTS[1] + (sockets - used) * CPU_WATTS[0]
