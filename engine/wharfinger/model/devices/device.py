"""One device of a node in plain values, and where devices come from.

Kubernetes has three sources of devices: ResourceSlices name each of them (dynamic resource allocation), extended resources say how many a
node has, and annotations of pods say which part of which one a pod holds. Each is a `DeviceSource`. Whatever the source, a policy sees the
same record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from msgspec import Struct, field

from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView

T = TypeVar("T", bound=objects.AnyObject)

MILLI: Final = "milli"
"""The capacity of a device that several pods may share: 1000 is all of it."""
WHOLE: Final = 1000.0


MODELS: Final = ("model", "productName", "product")
"""Attributes that name the model of a device, as drivers call it."""


class Version(str):
    """An attribute that is a semantic version, and not a plain text."""

    __slots__ = ()


AttributeValue = str | bool | int | Version


def unique_name(driver: str, pool: str, name: str) -> str:
    """The name of a device that is unique among the devices of the cluster."""
    return f"{driver}/{pool}/{name}"


class Device(Struct, frozen=True):
    """A device of a node.

    Names of attributes and capacities are without a domain where the domain is the driver's, as in selectors of claims. `capacity` and
    `free` are in base units (bytes, thousandths under `MILLI`, else units); a capacity without an entry in `free` is free as long as the
    device is. `taken` is None if it is not known which devices of the node are taken; `share` is then the number of thousandths that count
    as free. `taints` are written as kubectl writes them; those without an effect on placing pods are left out.
    """

    driver: str
    pool: str
    name: str
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    capacity: Mapping[str, float] = field(default_factory=dict)
    free: Mapping[str, float] = field(default_factory=dict)
    taken: bool | None = False
    taints: tuple[str, ...] = ()
    share: float | None = None

    @property
    def uid(self) -> str:
        """The `unique_name` of the device."""
        return unique_name(self.driver, self.pool, self.name)

    def attribute(self, name: str) -> AttributeValue | None:
        """The attribute of a name, with or without the driver's own domain; None if it has none."""
        return self.attributes.get(own_name(self.driver, name))

    def capacity_of(self, name: str) -> float | None:
        """The capacity of a name; None if it has none."""
        return self.capacity.get(own_name(self.driver, name))

    def free_of(self, name: str) -> float | None:
        """The free amount of a capacity; None if the device has no such capacity, or its allocated part is not known."""
        own = own_name(self.driver, name)
        if own not in self.capacity:
            return None
        if own in self.free:
            return self.free[own]
        return None if self.taken is None else 0.0 if self.taken else self.capacity[own]

    @property
    def model(self) -> str | None:
        """The model as text, by the first of `MODELS` that the device has."""
        return next((str(self.attributes[name]) for name in MODELS if name in self.attributes), None)

    @property
    def thousandths(self) -> float:
        """The free thousandths of the device, a whole number: the free part of the capacity `MILLI` if it has one, else 1,000 or 0."""
        if MILLI in self.capacity:
            return float(math.floor(self.free_of(MILLI) or 0.0))
        if self.share is not None:
            return self.share
        return 0.0 if self.taken else WHOLE


def own_name(driver: str, name: str) -> str:
    """A name of an attribute or capacity without the domain, if that is the driver's."""
    domain, slash, rest = name.rpartition("/")
    return rest if slash and domain == driver else name


class DeviceDemand(Struct, frozen=True):
    """The number of devices that a pod requests, and the thousandths of each."""

    count: int
    milli: float = WHOLE


class Store(Protocol):
    """The objects that are neither nodes nor pods (`model.state.object_store.ObjectStore`)."""

    revision: int

    def following(self, make: type[Any]) -> Any:
        """The object that a class derives from the objects, kept up to date."""

    def get(self, kind: type[T], name: str, namespace: str = "") -> T | None:
        """The object of that name."""

    def all(self, kind: type[T], namespace: str | None = None) -> Sequence[T]:
        """Every object of a kind sorted by key."""

    def group(self, kind: type[T], grouping: Callable[[T], Hashable], group: Hashable) -> Sequence[T]:
        """The objects of a kind that `grouping` puts into a group, sorted by key."""

    def revision_of(self, *kinds: type[objects.AnyObject]) -> int:
        """The revision of the last change of some kinds."""


class DeviceSource(Protocol):
    """A source of devices of nodes. It keeps no state of a cluster: all is read from the arguments."""

    def devices_on(self, node: objects.Node, pods: Sequence[PodView], store: Store) -> Sequence[Device]:
        """The devices of a node with these pods, in the order in which they are tried."""

    def demand(self, pod: PodView, store: Store) -> DeviceDemand | None:
        """The request of a pod for these devices; None if nothing."""

    def token(self, store: Store) -> Hashable:
        """A value that changes whenever something besides a node and its pods changes its devices."""

    def changed_nodes(self, store: Store, token: Hashable) -> Collection[str] | None:
        """The names of the nodes whose devices may have changed since that token, without those whose node or pods did; None: any."""
