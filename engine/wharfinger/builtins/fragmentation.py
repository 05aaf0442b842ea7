"""The part of a node's free devices that typical pods cannot use.

Source: "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX ATC'23, and the simulator of
its authors. Let R_g be the free thousandths of device g of a node, T their sum, and C its free CPU. A typical request m has c CPU and k
devices with v thousandths of each. It fits the node if C >= c and at least k devices have R_g >= v. What of the free devices is of no use
to m is

    F(m) = T                       where m requests no device, or does not fit
           sum of R_g with R_g < v elsewhere

and the fragmentation of the node is the mean of F(m) over the workload, weighted by how common each request is. A device of a model that m
cannot use is a device without room for it. The authors leave memory out; here it counts for requests that name some.

The pod to be placed takes its thousandths of one device if it asks for a part of one, and of the devices with the least room otherwise, the
first of equal ones; for whole devices, these are the first free ones. The kernel computes for each distinct pair of thousandths and models
how many devices fit and how much does not, once for all nodes, and then each request from these two numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import lru_cache, partial

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from wharfinger.builtins.signature import NOT_NEGATIVE, AtNode, AtRows, Rows, always
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.catalogue import Function, Parameter, Volatility
from wharfinger.language.semantics.types import Kind, Shape
from wharfinger.model.columns.pod_table import ReadInSteps
from wharfinger.model.devices.device import WHOLE, Device, DeviceDemand
from wharfinger.model.devices.device_table import DevicesOf, DeviceTable, ReadColumn, ReadPerNode
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.snapshot import Snapshot

Numbers = NDArray[np.float64]
MAX_CELLS = 2**15
"""Numbers that are computed at a time, 256 KB, which caches of processors hold: for all devices of 5,000 nodes, they would be gigabytes."""

FEW_CELLS = 2**12
"""Comparisons of devices with requests, and with nodes, that are made one by one: it takes less time than to count them together."""

FEW_DEVICES = 64
"""So many devices are not compared with each other: it would take longer than to calculate each of them."""


# ── the plain definition ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────


class State(Struct, frozen=True):
    """A node as the formula sees it: free CPU and memory, the free thousandths of each device, and the model of each."""

    cpu: float
    memory: float
    free: tuple[float, ...]
    models: tuple[str | None, ...]

    def useless_to(self, request: typed.Request) -> float:
        """F(m)."""
        room = [
            free >= request.milli and (not request.models or model in request.models)
            for free, model in zip(self.free, self.models, strict=True)
        ]
        fits = self.cpu >= request.cpu and self.memory >= request.memory and 0 < request.devices <= sum(room)
        return sum(self.free) if not fits else sum(free for free, enough in zip(self.free, room, strict=True) if not enough)

    def fragmentation(self, workload: typed.Workload) -> float:
        """The mean of F(m) over a workload."""
        total = 0.0
        for request in workload.requests:
            total += request.weight * self.useless_to(request)
        return total

    def without(self, cpu: float, memory: float, taken: Sequence[int], milli: float) -> State:
        """The node with a pod that takes a part of some devices."""
        free = tuple(left - milli if place in taken else left for place, left in enumerate(self.free))
        return State(self.cpu - cpu, self.memory - memory, free, self.models)


def _state(context: AtNode) -> State:
    node, devices = context.snapshot.node(context.row), context.snapshot.devices.on(context.row)
    allocatable, requested = node.allocatable, node.requested
    cpu, memory = (float(allocatable.get(resource, 0) - requested.get(resource, 0)) for resource in ("cpu", "memory"))
    return State(
        cpu,
        memory,
        tuple(device.thousandths for device in devices),
        tuple(device.model for device in devices),
    )


Requested = tuple[float, float, DeviceDemand]


def _requested(context: AtNode | AtRows) -> Requested:
    """The CPU, memory and devices that the pod to be placed requests."""
    pod = context.pod
    demand = context.snapshot.devices.demand(pod) or DeviceDemand(0)
    return float(pod.requests.get("cpu", 0)), float(pod.requests.get("memory", 0)), demand


def _now(context: AtNode, workload: typed.Workload) -> float:
    return _state(context).fragmentation(workload)


def _after(context: AtNode, workload: typed.Workload) -> float | None:
    state, (cpu, memory, asked) = _state(context), _requested(context)
    enough = [place for place, free in enumerate(state.free) if free >= asked.milli]
    if len(enough) < asked.count:
        return None
    if asked.count == 1 and asked.milli < WHOLE:
        return min(state.without(cpu, memory, [place], asked.milli).fragmentation(workload) for place in enough)
    tightest = sorted(enough, key=lambda place: state.free[place])[: asked.count]
    return state.without(cpu, memory, tightest, asked.milli).fragmentation(workload)


def _with(context: AtNode, device: Device, workload: typed.Workload) -> float | None:
    state, (cpu, memory, asked) = _state(context), _requested(context)
    place = next(place for place, each in enumerate(context.snapshot.devices.on(context.row)) if each is device)
    if not asked.count or state.free[place] < asked.milli:
        return None
    return state.without(cpu, memory, [place], asked.milli).fragmentation(workload)


# ── the kernel ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Models(Struct, frozen=True):
    """The models that the requests of a workload name, by their numbers."""

    numbers: Mapping[str | None, int]

    @property
    def key(self) -> Hashable:
        """The key of the column of `number_of`: workloads that name the same models have one."""
        return "models", *self.numbers

    def number_of(self, device: Device) -> int:
        """The number of the model of a device; one more than the last for models that are not named."""
        return self.numbers.get(device.model, len(self.numbers))


class _Plan(Struct, frozen=True):
    """A workload as arrays: of its requests, each (n_requests, 1), and of its distinct pairs of thousandths and models.

    `cpu`, `memory` and `devices` are what each request needs, infinite devices if it requests none. `pair` (n_requests,) is the number of
    its pair. The thousandths of the pairs are in `milli` (n_pairs, 1). `usable` (n_pairs, n_models + 1) tells which pairs may use devices
    of each named model, and of any other in the last column.
    """

    cpu: Numbers
    memory: Numbers
    devices: Numbers
    pair: NDArray[np.intp]
    weight: Numbers
    milli: Numbers
    models: _Models
    usable: NDArray[np.bool_]
    alike: tuple[NDArray[np.intp], ...]
    """The pairs with the same models, those with fewer thousandths first."""

    @property
    def height(self) -> int:
        """The numbers that are computed for a device."""
        return len(self.cpu) + len(self.milli)


@lru_cache(maxsize=64)
def _plan(workload: typed.Workload) -> _Plan:
    pairs = distinct_devices(workload)
    by_models: dict[frozenset[str], list[tuple[float, int]]] = {}
    for number, (milli, models) in enumerate(pairs):
        by_models.setdefault(models, []).append((milli, number))
    requests, names = workload.requests, sorted(frozenset[str]().union(*by_models))
    return _Plan(
        cpu=np.array([[each.cpu] for each in requests]),
        memory=np.array([[each.memory] for each in requests]),
        devices=np.array([[each.devices or np.inf] for each in requests]),
        pair=np.array([pairs.index((each.milli, each.models)) for each in requests], dtype=np.intp),
        weight=np.array([[each.weight] for each in requests]),
        milli=np.array([[milli] for milli, _ in pairs]),
        models=_Models({name: number for number, name in enumerate(names)}),
        usable=np.array([[not models or name in models for name in (*names, None)] for _, models in pairs]),
        alike=tuple(np.array([number for _, number in sorted(each)], dtype=np.intp) for each in by_models.values()),
    )


def distinct_devices(workload: typed.Workload) -> tuple[tuple[float, frozenset[str]], ...]:
    """The distinct pairs of thousandths and models that requests name."""
    return tuple(dict.fromkeys((request.milli, request.models) for request in workload.requests))


class _States(Struct, frozen=True):
    """Many nodes, or one node with each of several devices taken: a column each.

    `room` and `useless` have a row for each pair of the plan: how many devices have room, and the free thousandths of those without.
    """

    cpu: Numbers
    memory: Numbers
    total: Numbers
    room: Numbers
    useless: Numbers

    def fragmentation(self, plan: _Plan) -> Numbers:
        """The mean of F(m) of each column; requests are added in their order, as the definition does."""
        mean = np.empty(len(self.total))
        for part in _parts(len(mean), len(plan.cpu)):
            fits = self.room[plan.pair, part] >= plan.devices
            fits &= self.cpu[part] >= plan.cpu
            fits &= self.memory[part] >= plan.memory
            lost = np.where(fits, self.useless[plan.pair, part], self.total[part])
            lost *= plan.weight
            mean[part] = np.cumsum(lost, axis=0, out=lost)[-1]  # a sum over one column would add in another order
        return mean


def _parts(n: int, height: int) -> Iterator[slice]:
    """`n` columns of that height in parts, each of about `MAX_CELLS` numbers."""
    width = max(1, MAX_CELLS // max(1, height))
    return (slice(start, start + width) for start in range(0, n, width))


def _thousandths(device: Device) -> float:
    return device.thousandths


class _Nodes:
    """The devices of some rows, as far as a workload distinguishes them."""

    def __init__(self, context: AtRows, plan: _Plan, rows: Rows) -> None:
        snapshot = context.snapshot
        table: DeviceTable = snapshot.devices
        of = table.of(rows)
        self.plan = plan
        self.owners, self.n_rows = of.owners, of.n_rows
        self.free: Numbers = table.numbers("thousandths", _thousandths)[of.entries]
        self.models = table.numbers(plan.models.key, plan.models.number_of)[of.entries].astype(np.intp) if plan.models.numbers else None
        self.usable = plan.usable if self.models is None else plan.usable[:, self.models]  # (n_pairs, n_devices) or (n_pairs, 1)
        amounts = snapshot.allocatable[:2, rows] - snapshot.requested[:2, rows]
        self.cpu, self.memory = amounts.astype(np.float64)

    def per_node(self, values: Numbers) -> Numbers:
        """The sum over the devices of each node."""
        return np.bincount(self.owners, weights=values, minlength=self.n_rows).astype(np.float64, copy=False)

    def states(self, free: Numbers, cpu: float = 0.0, memory: float = 0.0) -> _States:
        """The nodes with these free thousandths and less CPU and memory."""
        few = len(free) * max(len(self.plan.milli), self.n_rows) <= FEW_CELLS
        rooms, useless = (self._each_pair if few else self._all_pairs)(free)
        return _States(self.cpu - cpu, self.memory - memory, self.per_node(free), rooms, useless)

    def _each_pair(self, free: Numbers) -> tuple[Numbers, Numbers]:
        """`_States.room` and `useless`: each device compared with each pair; free thousandths are whole numbers, so sums are exact."""
        fits = (free >= self.plan.milli) & self.usable
        of = (self.owners[:, None] == np.arange(self.n_rows)).astype(np.float64)
        return fits @ of, np.where(fits, 0.0, free) @ of

    def _all_pairs(self, free: Numbers) -> tuple[Numbers, Numbers]:
        """The same for many devices.

        Each device is counted once for all pairs with the same models, at the number of them that it has room for; sums of these counts are
        those of each pair.
        """
        n_pairs = len(self.plan.milli)
        rooms, useless = np.empty((n_pairs, self.n_rows)), np.empty((n_pairs, self.n_rows))
        for pairs in self.plan.alike:
            larger = self.usable[pairs[0]] * np.searchsorted(self.plan.milli[pairs, 0], free, side="right")
            shape = len(pairs) + 1, self.n_rows
            places = larger * self.n_rows + self.owners
            counts, sums = (np.bincount(places, each, shape[0] * shape[1]).reshape(shape) for each in (None, free))
            rooms[pairs] = np.cumsum(counts[:0:-1], axis=0)[::-1]
            useless[pairs] = np.cumsum(sums[:-1], axis=0)
        return rooms, useless

    def fragmentation_with(self, cpu: float, memory: float, milli: float, taken: NDArray[np.bool_]) -> Numbers:
        """The fragmentation of the node of each device that is `taken`, with that part of it taken."""
        now, (places, group) = self.states(self.free), self._distinct(np.flatnonzero(taken))
        found = np.empty(len(places))
        for part in _parts(len(places), len(self.plan.milli)):
            found[part] = self._states_with(now, cpu, memory, milli, places[part]).fragmentation(self.plan)
        return found[group]

    def _distinct(self, places: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """(one of some devices for each node, model and free part; for each of the devices the number of the one that is like it)."""
        if len(places) < FEW_DEVICES:
            return places, np.arange(len(places))
        keys = [each[places] for each in (self.models, self.free, self.owners) if each is not None]
        order = np.lexsort(keys)
        differs = np.logical_or.reduce([key[order[1:]] != key[order[:-1]] for key in keys])
        number = np.concatenate((np.zeros(1, dtype=np.intp), np.cumsum(differs)))
        group = np.empty(len(places), dtype=np.intp)
        group[order] = number
        return places[order[np.concatenate((np.ones(1, dtype=np.bool_), differs))]], group

    def _states_with(self, now: _States, cpu: float, memory: float, milli: float, taken: NDArray[np.intp]) -> _States:
        """A column for each device that is `taken`: its node with that part of it taken."""
        owners = self.owners[taken]
        before, after = self.free[taken], self.free[taken] - milli
        usable = self.usable if self.usable.shape[1] == 1 else self.usable[:, taken]
        had, has = (before >= self.plan.milli) & usable, (after >= self.plan.milli) & usable
        return _States(
            (self.cpu - cpu)[owners],
            (self.memory - memory)[owners],
            now.total[owners] - milli,
            now.room[:, owners] - had + has,
            now.useless[:, owners] - np.where(had, 0.0, before) + np.where(has, 0.0, after),
        )

    def tightest(self, count: int, milli: float) -> NDArray[np.bool_]:
        """The `count` devices of each node that have the least room and enough, the first of equal ones, (n_devices,) bool."""
        order = np.lexsort((self.free, self.free < milli, self.owners))
        first = np.searchsorted(self.owners, np.arange(self.n_rows))
        chosen = np.zeros(len(self.free), dtype=np.bool_)
        chosen[order] = (np.arange(len(order)) - first[self.owners]) < count  # sorted by node, so its devices stay together
        return chosen & (self.free >= milli)


def _kept(context: AtRows, workload: typed.Workload, rows: Rows, *, after: bool) -> Numbers:
    """The fragmentation of some rows `after` the pod was placed, NaN where it has no room, or now; kept from the first for all rows on."""
    key, evaluate = _keyed(lambda: context, workload, after=after)
    return context.snapshot.devices.per_node(key, evaluate, rows)


def _keyed(context: Callable[[], AtRows], workload: typed.Workload, *, after: bool) -> tuple[Hashable, Callable[[Rows], Numbers]]:
    """The key of a fragmentation per node, and the function that computes it for some rows, as the cluster is then."""
    if after:
        requested = _requested(context())
        return ("fragmentation", workload, requested), lambda rows: _after_rows(context(), workload, requested, rows)
    return ("fragmentation", workload), lambda rows: _now_rows(context(), workload, rows)


def _now_rows(context: AtRows, workload: typed.Workload, rows: Rows) -> Numbers:
    plan = _plan(workload)
    nodes = _Nodes(context, plan, rows)
    return nodes.states(nodes.free).fragmentation(plan)


def _after_rows(context: AtRows, workload: typed.Workload, requested: Requested, rows: Rows) -> Numbers:
    plan, (cpu, memory, asked) = _plan(workload), requested
    nodes = _Nodes(context, plan, rows)
    enough = nodes.free >= asked.milli
    if asked.count == 1 and asked.milli < WHOLE:
        least = np.full(nodes.n_rows, np.inf)
        np.minimum.at(least, nodes.owners[enough], nodes.fragmentation_with(cpu, memory, asked.milli, enough))
    else:
        free = np.where(nodes.tightest(asked.count, asked.milli), nodes.free - asked.milli, nodes.free) if asked.count else nodes.free
        least = nodes.states(free, cpu, memory).fragmentation(plan)
    return np.where(nodes.per_node(enough.astype(np.float64)) >= asked.count, least, np.nan)


def _now_kernel(context: AtRows, workload: typed.Workload) -> Numbers:
    return _kept(context, workload, context.rows, after=False)


def _after_kernel(context: AtRows, workload: typed.Workload) -> tuple[Numbers, NDArray[np.bool_]]:
    found = _kept(context, workload, context.rows, after=True)
    absent = np.isnan(found)
    return np.where(absent, 0.0, found), ~absent


def _slow_device_reads(snapshot: Callable[[], Snapshot], _pod: PodView, workload: typed.Workload) -> Iterator[ReadInSteps]:
    """The devices of all nodes, with what a workload distinguishes."""
    yield snapshot().devices
    yield ReadColumn(snapshot().devices, "thousandths", _thousandths)
    if (models := _plan(workload).models).numbers:
        yield ReadColumn(snapshot().devices, models.key, models.number_of)


def _slow_reads(snapshot: Callable[[], Snapshot], pod: PodView, workload: typed.Workload, *, after: bool) -> Iterator[ReadInSteps]:
    """The fragmentation of each node, and the devices that it is computed from."""

    def context() -> AtRows:
        return AtRows(snapshot(), pod, slice(None))

    yield from _slow_device_reads(snapshot, pod, workload)
    yield ReadPerNode(snapshot().devices, *_keyed(context, workload, after=after), _plan(workload).height)


def _with_kernel(context: AtRows, of: DevicesOf, workload: typed.Workload) -> tuple[Numbers, NDArray[np.bool_]]:
    plan, (cpu, memory, asked) = _plan(workload), _requested(context)
    nodes = _Nodes(context, plan, context.rows)
    fits = (nodes.free >= asked.milli) & (asked.count > 0)
    found = np.zeros(len(of.owners))
    found[fits] = nodes.fragmentation_with(cpu, memory, asked.milli, fits)
    return found, fits


def _now_row(context: AtNode, workload: typed.Workload) -> float:
    return float(_now_kernel(_rows_of(context), workload)[0])


def _after_row(context: AtNode, workload: typed.Workload) -> float | None:
    found, present = _after_kernel(_rows_of(context), workload)
    return float(found[0]) if present[0] else None


def _rows_of(context: AtNode) -> AtRows:
    return AtRows(context.snapshot, context.pod, np.array([context.row]), context.placed, context.points)


WORKLOAD = Parameter(name="workload", kinds=frozenset({Kind.WORKLOAD}))
FRAGMENTATION = (
    Function(
        name="fragmentation",
        parameters=(WORKLOAD,),
        result=always(Kind.NUMBER, shape=Shape.NODE),
        own_shape=True,
        doc=(
            "The thousandths of the node's free devices that the requests of a workload cannot use, on average; 1000 is one device "
            "(Weng et al., USENIX ATC'23)."
        ),
        example="fragmentation(typical)",
        scalar=_now,
        vector=_now_kernel,
        row=_now_row,
        interval=lambda *_: NOT_NEGATIVE,
        never_nan=True,
        context=True,
        volatility=Volatility.ROW,
        slow_reads=partial(_slow_reads, after=False),
    ),
    Function(
        name="fragmentation_after",
        parameters=(WORKLOAD,),
        result=always(Kind.NUMBER, shape=Shape.NODE, optional=True),
        own_shape=True,
        doc=(
            "The same with the pod placed: a part of a device is taken where that leaves the least, whole devices in their order; missing "
            "where too few devices have room."
        ),
        example="fragmentation_after(typical)",
        scalar=_after,
        vector=_after_kernel,
        row=_after_row,
        interval=lambda *_: NOT_NEGATIVE,
        never_nan=True,
        context=True,
        volatility=Volatility.ROW,
        slow_reads=partial(_slow_reads, after=True),
    ),
    Function(
        name="fragmentation_with",
        parameters=(Parameter(name="device", kinds=frozenset({Kind.DEVICE})), WORKLOAD),
        result=always(Kind.NUMBER, shape=Shape.DEVICE, optional=True),
        own_shape=True,
        doc=(
            "The same with the pod's part of that device taken; missing where it has too little room, and for a pod that asks for no "
            "device. For `prefer device`."
        ),
        example="fragmentation_with(it, typical)",
        scalar=_with,
        vector=_with_kernel,
        interval=lambda *_: NOT_NEGATIVE,
        never_nan=True,
        context=True,
        volatility=Volatility.ROW,
        slow_reads=_slow_device_reads,
    ),
)
