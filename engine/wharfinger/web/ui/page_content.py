"""The content of the live page: its interface, and a snapshot as the map of nodes shows it.

The map is many numbers that seldom change, so it is read as columns. Everything else is a few small parts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from wharfinger.language.report.wording import count
from wharfinger.model.devices.device import WHOLE, Device
from wharfinger.model.devices.held_devices import HeldDevice, Holding
from wharfinger.model.node_labels import ZONE

if TYPE_CHECKING:
    from wharfinger.framework.evaluation.kept_result import Evaluation
    from wharfinger.model.state.snapshot import Snapshot

CORDONED, NOT_READY, TAINTED = 1, 2, 4
"""Bits of `NodeMap.flags`."""
MAX_PODS_OF_NODE: Final = 250
"""Most pods of a node that are listed."""
MAX_DEVICES_OF_NODE: Final = 256
"""Most devices of a node that are listed."""
MAX_HOLDERS_OF_DEVICE: Final = 16
"""Most holders of a device that are listed."""


class Tiles(Struct, frozen=True, kw_only=True):
    """The nodes in the order of all columns: their names, and for each the number of its zone in `zone_names` (-1 where it has none)."""

    names: Sequence[str]
    zones: Sequence[int]
    zone_names: Sequence[str]


class Coloring(Struct, frozen=True, kw_only=True):
    """A colouring of the nodes: `values` `(n_nodes,) float64`, NaN where there is none; `low` and `high` are the ends of the scale.

    `unit` is `fraction` for what is shown as percent, or the text after the number. `note` is a sentence about the whole.
    """

    title: str
    unit: str
    low: float
    high: float
    values: NDArray[np.float64]
    note: str = ""


class NodeMap(Struct, frozen=True, kw_only=True):
    """The nodes at one moment. `layout` changes when nodes come or go; `tiles` is None where the layout is the one that was known.

    `flags` `(n_nodes,) uint8`: the state of each node, as bits.
    """

    layout: int
    tiles: Tiles | None
    flags: NDArray[np.uint8]
    coloring: Coloring


class PodQuery(Struct, frozen=True, kw_only=True):
    """The pods whose decisions and waiting are shown. An empty text means all; `policy` is one that governs the pod.

    `result` is of decisions alone.
    """

    namespace: str = ""
    result: str = ""
    policy: str = ""


class PageContent(Protocol):
    """The values that the page shows. Every call takes a few milliseconds at most, on the event loop that schedules."""

    def node_map(self, coloring: str, known: int) -> NodeMap:
        """The nodes in a colouring; UnknownObject if there is no such colouring. `known` is the layout that the caller has."""

    def precompute(self, coloring: str) -> Iterator[None]:
        """The work of `node_map` in steps; other tasks run between two steps."""

    def parts(self) -> Iterator[tuple[str, Any] | None]:
        """The values that all pages show, by name; None for a step without a value. Other tasks run between two steps."""

    def pods(self, query: PodQuery) -> Iterator[tuple[str, Any] | None]:
        """Decisions and pending pods, in the same way."""

    def find(self, text: str) -> Iterator[list[str]]:
        """The pods (`namespace/name`) that have a text in their names, in steps."""

    def node(self, name: str) -> Mapping[str, Any]:
        """One node as plain values; UnknownObject when there is none of that name."""


SCALE_STEPS = 1000
"""Steps between the ends of a scale: no eye sees more, and numbers that only tremble are not sent."""
NO_VALUE = -1
"""The step of a node without a value."""


def steps(coloring: Coloring) -> NDArray[np.int64]:
    """`(n_nodes,) int64`: each value as a step of the scale, those beyond its ends as well; NO_VALUE where there is none."""
    width = coloring.high - coloring.low
    found = np.full(len(coloring.values), NO_VALUE, np.int64)
    known = np.isfinite(coloring.values)
    scaled = (coloring.values[known] - coloring.low) * (SCALE_STEPS / width) if width > 0 else np.zeros(int(known.sum()))
    found[known] = np.rint(np.clip(scaled, 0, 10 * SCALE_STEPS)).astype(np.int64)
    return found


def tiles_of(snapshot: Snapshot) -> Tiles:
    """The nodes of a snapshot with their zones."""
    codes = snapshot.label(ZONE)
    found, numbers = np.unique(codes, return_inverse=True)
    names = [snapshot.strings.text(code) or "" for code in found.tolist() if code >= 0]
    absent = int(len(found) > 0 and found[0] < 0)
    return Tiles(names=tuple(snapshot.names), zones=(numbers.reshape(-1) - absent).tolist(), zone_names=names)


def flags_of(snapshot: Snapshot) -> NDArray[np.uint8]:
    """`(n_nodes,) uint8`: flags for the conditions, the cordon and the taints of nodes."""
    ready = snapshot.condition("Ready")
    unready = (ready >= 0) & (ready != snapshot.strings.find("True"))
    flags = CORDONED * snapshot.unschedulable + NOT_READY * unready + TAINTED * (snapshot.taint_set != 0)
    return np.asarray(flags, np.uint8)


def plain_node(snapshot: Snapshot, row: int) -> Mapping[str, Any]:
    """A node as plain values."""
    node = snapshot.node(row)
    requested = node.requested
    return {
        "name": node.name,
        "labels": dict(node.labels),
        "taints": [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in node.taints],
        "unschedulable": node.object.spec.unschedulable,
        "conditions": dict(node.conditions),
        "resources": [
            {"name": name, "requested": requested.get(name, 0), "allocatable": amount} for name, amount in sorted(node.allocatable.items())
        ],
        "devices": plain_devices(snapshot.held_devices(row)),
        "nPods": len(node.pods),
        "pods": [{"pod": pod.key, "requests": dict(pod.requests), "priority": pod.priority} for pod in islice(node.pods, MAX_PODS_OF_NODE)],
    }


def share(title: str, used: NDArray[np.int64], offered: NDArray[np.int64]) -> Coloring:
    """The nodes coloured by the used part of their resources."""
    values = np.full(len(offered), np.nan)
    np.divide(used, offered, out=values, where=offered > 0)
    return Coloring(title=title, unit="fraction", low=0.0, high=1.0, values=values)


def points(title: str, evaluation: Evaluation, snapshot: Snapshot, pod: str = "") -> Coloring:
    """The nodes coloured by the first tier's total of an evaluation; without a value where they are not feasible.

    `who` ends the sentence about the number of feasible nodes.
    """
    feasible, tiers = evaluation.filtering.feasible, evaluation.scoring.tiers
    values = np.full(snapshot.n_nodes, np.nan)
    if evaluation.filtering.count:
        values[feasible] = tiers[0].total[feasible] if tiers else 0.0
        note = f"{evaluation.filtering.count} of {count(snapshot.n_nodes, 'node')} feasible{pod}"
    else:
        note = evaluation.rejection_message(snapshot)
    return Coloring(title=title, unit="points", **scale_of(values, "points"), values=values, note=note)


def scale_of(values: NDArray[np.float64], unit: str) -> dict[str, float]:
    """The ends of the scale: round numbers, so that they seldom move. Points only differ: their scale begins where they do."""
    known = values[np.isfinite(values)]
    if unit == "fraction" or not len(known):
        return {"low": 0.0, "high": 1.0}
    low, high = float(known.min()), float(known.max())
    if unit == "points":
        step = _round_up(max(high - low, 1e-3)) / 10
        return {"low": math.floor(low / step) * step, "high": math.floor(high / step + 1) * step}
    return {"low": -_round_up(-low) if low < 0 else 0.0, "high": _round_up(high) if high > 0 else 1.0}


def _round_up(value: float) -> float:
    """The next of 1, 2, 2.5, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1.0, 2.0, 2.5, 5.0, 10.0) if step * power >= value * (1 - 1e-9))


FREE, PARTLY, TAKEN, BLOCKED = "free", "partly taken", "taken", "blocked"
"""States of a device; a blocked one is held by no pod, but others have used up its counters."""


def plain_devices(held: Sequence[HeldDevice]) -> Mapping[str, Any]:
    """The devices of a node as plain values: how many are in which state, and the first of them by driver and pool."""
    shown = held[:MAX_DEVICES_OF_NODE]
    return {
        "count": len(held),
        "states": Counter(map(_state, held)),
        "omitted": len(held) - len(shown),
        "pools": [
            {
                "driver": driver,
                "pool": pool,
                "counted": all(each.device.taken is None for each in found),
                "devices": list(map(_cell, found)),
            }
            for (driver, pool), each in groupby(shown, lambda held: (held.device.driver, held.device.pool))
            for found in [list(each)]
        ],
    }


def _state(held: HeldDevice) -> str:
    if held.blocked:
        return BLOCKED
    part = _part(held)
    return FREE if part <= 0 and not _counted(held) else TAKEN if part >= 1 else PARTLY


def _counted(held: HeldDevice) -> bool:
    return any(not holding.admin for holding in held.holdings)


def _part(held: HeldDevice) -> float:
    """The used part of a device, from 0 to 1: that of its fullest capacity."""
    device = held.device
    if not _divided(device):
        return 1.0 - device.thousandths / WHOLE
    return max(
        (1.0 - device.free[name] / amount for name, amount in device.capacity.items() if amount and name in device.free), default=0.0
    )


def _divided(device: Device) -> bool:
    """True if several may have a part of the device."""
    return bool(device.free) or (device.share is not None and device.taken is not None)


def _cell(held: HeldDevice) -> Mapping[str, Any]:
    device = held.device
    return {
        "name": device.name,
        "model": device.model or "",
        "state": _state(held),
        "part": round(min(1.0, max(0.0, _part(held))), 3),
        "taints": list(device.taints),
        "left": [
            {"name": name, "free": device.free_of(name), "capacity": amount}
            for name, amount in sorted(device.capacity.items())
            if math.isfinite(amount)
        ],
        "holders": [_holder(holding) for holding in islice(held.holdings, MAX_HOLDERS_OF_DEVICE)],
        "moreHolders": max(0, len(held.holdings) - MAX_HOLDERS_OF_DEVICE),
    }


def _holder(holding: Holding) -> Mapping[str, Any]:
    return {
        "claim": holding.claim,
        "pods": list(holding.pods[:MAX_HOLDERS_OF_DEVICE]),
        "amounts": dict(holding.amounts),
        "admin": holding.admin,
        "inFlight": holding.in_flight,
        "supposed": holding.supposed,
    }
