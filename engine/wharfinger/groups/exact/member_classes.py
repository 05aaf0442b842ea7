"""Members that get equal answers, and bounds on how many of them fit, for all nodes at once.

A group of a thousand equal pods is one class: what is shown for one of them holds for all. The bounds count the filters of which it is
known that a pod more on a node never helps; so no bound is ever too low.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.plugins.resources.node_resources_fit import Fit
from wharfinger.language.semantics.catalogue import Volatility

if TYPE_CHECKING:
    from wharfinger.framework.evaluation.cycle import Decider
    from wharfinger.framework.evaluation.filtering import Filtering
    from wharfinger.framework.prepared import Mask
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot

WORSENING = frozenset({"NodeResourcesFit", "NodePorts", "NodeVolumeLimits", "VolumeRestrictions"})
"""The filters, besides the STATIC ones, that never let a pod onto a node because another pod was added somewhere."""
MEMBERS_PER_STEP = 64
"""Members whose class is looked up in one step."""
UNLIMITED = 1 << 40
ROUNDED = 1 - 1e-9  # so that a sum of floats is never above the true one


@dataclass(slots=True)
class MemberClass:
    """Members with equal answers, in the order in which they are placed."""

    key: Hashable
    members: list[PodView] = field(default_factory=list)

    @property
    def pod(self) -> PodView:
        """The first member."""
        return self.members[0]


def ordered(waiting: Sequence[PodView]) -> list[PodView]:
    """Members by priority, then by creation, then by name: the order of kube-scheduler 1.36 (schedule_one_podgroup.go)."""
    return sorted(waiting, key=lambda pod: (-pod.priority, pod.created if pod.created is not None else np.inf, pod.key))


def classes(decider: Decider, waiting: Sequence[PodView], snapshot: Snapshot) -> Generator[None, None, list[MemberClass]]:
    """A generator of steps that returns the classes of some members, in the order of their first members."""
    found: dict[Hashable, MemberClass] = {}
    for number, pod in enumerate(waiting):
        key = decider.chain.key(pod, snapshot)
        found.setdefault(key, MemberClass(key)).members.append(pod)
        if number % MEMBERS_PER_STEP == MEMBERS_PER_STEP - 1:
            yield
    return list(found.values())


def open_rows(filtering: Filtering, n_nodes: int) -> Mask:
    """The nodes that may take the pod now or after more pods were placed, `(n_nodes,) bool`; all nodes that ever can are among them."""
    mask = np.ones(n_nodes, np.bool_)
    if filtering.refusal is not None:
        return mask
    if filtering.node_set is not None:
        mask &= filtering.node_set.mask
    for slot in filtering.slots:
        if not slot.skipped and (slot.volatility is Volatility.STATIC or slot.plugin.name in WORSENING):
            mask &= slot.bits == 0
    return mask


def room(decider: Decider, snapshot: Snapshot, pod: PodView) -> NDArray[np.int64]:
    """The most pods of a template that each node may take at once, `(n_nodes,)`: never too few."""
    return room_by(decider.evaluation(snapshot, pod).filtering, snapshot, pod)


def room_by(filtering: Filtering, snapshot: Snapshot, pod: PodView) -> NDArray[np.int64]:
    """The same by what the filters say about the pod."""
    mask = open_rows(filtering, snapshot.n_nodes)
    found = np.where(mask, UNLIMITED, 0)
    for slot in filtering.slots:
        if filtering.refusal is None and not slot.skipped and isinstance(slot.answer, Fit):
            found = np.where(mask, np.minimum(found, slot.answer.room(snapshot, slice(None))), 0)
    if pod.host_ports:
        found = np.minimum(found, 1)
    return found


class Sums:
    """What all classes need together, and what is free for it. A class without the filter for resources needs nothing."""

    def __init__(self, n_nodes: int) -> None:
        self._open_to_any = np.zeros(n_nodes, np.bool_)
        self._needs: list[tuple[int, Mapping[str, int]]] = []

    def add(self, each: MemberClass, filtering: Filtering) -> None:
        """Count a class by what the filters say about its member."""
        self._open_to_any |= open_rows(filtering, len(self._open_to_any))
        checked = filtering.slots if filtering.refusal is None else ()
        found = [slot.answer.needs for slot in checked if not slot.skipped and isinstance(slot.answer, Fit)]
        self._needs.append((len(each.members), found[0] if found else {}))

    def enough(self, snapshot: Snapshot) -> Callable[[NDArray[np.intp]], int]:
        """A function of rows: the most members of all classes by the sums of what is free, the smallest first for each resource.

        Never too few.
        """
        steps: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = []  # free amounts by node, and the running sums of ascending needs
        for name in sorted({name for _, need in self._needs for name in need}):
            place = snapshot.resource_index(name)
            amounts = np.sort(np.concatenate([np.full(number, need.get(name, 0), np.float64) for number, need in self._needs]))
            free = np.zeros(snapshot.n_nodes, np.int64) if place is None else snapshot.allocatable[place] - snapshot.requested[place]
            steps.append((np.where(self._open_to_any, np.maximum(free, 0), 0), np.cumsum(amounts) * ROUNDED))
        everyone = sum(number for number, _ in self._needs)

        def most(rows: NDArray[np.intp]) -> int:
            found = (int(np.searchsorted(sums, float(free[rows].sum()), side="right")) for free, sums in steps)
            return min(found, default=everyone)

        return most
