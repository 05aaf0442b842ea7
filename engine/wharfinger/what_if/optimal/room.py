"""What groups of pods ask for, and what each node has for them: what the models count with.

Of devices it is how many fit each request alone. Its result is never too low: constraints, counters that devices share and requests that
compete for the same devices are left to the chain, and so are alternatives, `All`, claims of several pods and devices that can be shared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec.structs import replace

from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.plugins.devices.requests import KnownAsks
from wharfinger.framework.plugins.devices.shortage import funnels
from wharfinger.framework.plugins.node_resources import NodeResourcesFit
from wharfinger.model import objects
from wharfinger.model.state.device_states import DeviceStates
from wharfinger.simulate.placing import Direct
from wharfinger.what_if.optimal.model import NO_LIMIT, Amounts, Masks, Place

if TYPE_CHECKING:
    from wharfinger.framework.chain import Chain
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.cluster_state import ClusterState
    from wharfinger.model.state.snapshot import Snapshot

_KEY = msgspec.json.Encoder(order="deterministic").encode


class Room:
    """The room of a cluster for groups of pods, one pod of each in `one`; `here` pods of them have been taken from their nodes.

    `names` are the nodes by row. `asks` are the requests of a pod of each group, resources and devices; `amounts` what each node has of
    these, at least what the pods of `here` take. `allowed` are the rows that all filters let each group on, `static` those that no filter
    rejects for the sake of the node's object alone.
    """

    def __init__(self, chain: Chain, state: ClusterState, one: Mapping[bytes, PodView], here: Counter[Place]) -> None:
        self.names = state.snapshot().names
        self._rows = {name: row for row, name in enumerate(self.names)}
        asks: dict[bytes, Mapping[str, int]] = {}
        allowed, static = {}, {}
        decider = Decider(chain)
        for template, pod in one.items():
            claimed = Direct(state).claimed(pod)
            filtering = decider.decide(state.snapshot(), claimed).evaluation.filtering
            asks[template] = {**pod.requests, **_devices_of(claimed, state.snapshot())}
            allowed[template] = np.array(filtering.feasible, np.bool_)
            static[template] = filtering.by_object
        self.asks: Mapping[bytes, Mapping[str, int]] = asks
        self.allowed: Masks = allowed
        self.static: Masks = static
        self.amounts: Amounts = _amounts(chain, state.snapshot(), one, asks)
        used = self.taken(here.elements())
        self.amounts = {name: np.maximum(np.maximum(amounts, used[name]), 0) for name, amounts in self.amounts.items()}

    def taken(self, placed: Iterable[Place]) -> Amounts:
        """What pods of these groups take of these nodes."""
        taken = {name: np.zeros(len(self.names), np.int64) for name in self.amounts}
        for template, node in placed:
            row = self._rows[node]
            taken["pods"][row] += 1
            for name, amount in self.asks[template].items():
                if name in taken:
                    taken[name][row] += amount
        return taken


def _amounts(chain: Chain, snapshot: Snapshot, one: Mapping[bytes, PodView], asks: Mapping[bytes, Mapping[str, int]]) -> Amounts:
    """What is free on each node of the resources that a filter of the chain compares with requests, and of devices."""
    fit = chain.plugin(NodeResourcesFit.name)
    wanted = {name for pod in one.values() for name in pod.requests if isinstance(fit, NodeResourcesFit) and fit.checks(name)}
    of_devices = {name for template, asked in asks.items() for name in asked if name not in one[template].requests}
    room = {"pods": np.array(snapshot.allowed_pods - snapshot.pod_count, np.int64)}
    for name in sorted(wanted):
        index = snapshot.resource_index(name)
        free = 0 if index is None else snapshot.allocatable[index] - snapshot.requested[index]
        room[name] = np.zeros(snapshot.n_nodes, np.int64) + free
    for name in sorted(of_devices):
        room[name] = np.array([NO_LIMIT if fits is None else fits for fits in _room_for(name, snapshot)], np.int64)
    return room


def _devices_of(pod: PodView, snapshot: Snapshot) -> Mapping[str, int]:
    """How many devices the pod needs for itself, by their requirements; the pod names claims that exist."""
    found: Counter[str] = Counter()
    for each in _requests(pod, snapshot):
        found[_KEY(replace(each, count=1)).decode()] += each.count or 1
    return found


def _requests(pod: PodView, snapshot: Snapshot) -> Iterator[objects.ExactDeviceRequest]:
    for use in pod.object.spec.resource_claims:
        name = pod.claim_name(use) if use.resource_claim_template_name is not None else None
        claim = None if name is None else snapshot.objects.get(objects.ResourceClaim, name, pod.namespace)
        for request in () if claim is None else claim.spec.devices.requests:
            own = request.exactly
            if own is not None and not own.admin_access and not own.wants_all:
                yield own


def _room_for(asked: str, snapshot: Snapshot) -> list[int | None]:
    """How many free devices of each row fit the requirements, a key of `_devices_of`; None without a limit."""
    exactly = msgspec.json.decode(asked, type=objects.ExactDeviceRequest)
    store = snapshot.objects
    if store.get(objects.DeviceClass, exactly.device_class_name) is None:
        return [0] * snapshot.n_nodes
    request = objects.DeviceRequest(name="devices", exactly=exactly)
    wanted = store.following(KnownAsks).of([objects.ResourceClaimSpec(devices=objects.DeviceClaim(requests=(request,)))])
    states, found = store.following(DeviceStates), dict[int, int | None]()
    ids = states.ids(snapshot)
    wanted.follow(states.pools_epoch)
    for number in set(ids.tolist()):
        state = states.state(number)
        codes = [wanted.pool(pool) for pool in state.node.pools]
        shared = any(device.shareable and device.matches[0] is True for code in codes for device in code.codes)
        found[number] = None if shared else funnels(wanted, state.node, codes, state.usage)[0].left
    wanted.compact()
    return [found[number] for number in ids.tolist()]
