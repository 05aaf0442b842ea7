"""How many devices each node has for what pods ask for, as far as it can be said of each request alone.

The models count with it. What it says is never too little: constraints, counters that devices share and requests that
compete for the same devices are left to the chain, and so are alternatives, `All`, claims of several pods and devices that can be shared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec
from msgspec.structs import replace

from wharfinger.framework.plugins.devices.requests import KnownAsks
from wharfinger.framework.plugins.devices.shortage import funnels
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.device_states import DeviceStates
from wharfinger.model.state.snapshot import Snapshot

_KEY = msgspec.json.Encoder(order="deterministic").encode


def devices_of(pod: PodView, snapshot: Snapshot) -> Mapping[str, int]:
    """How many devices the pod needs for itself, by what is asked of them; the pod names claims that exist."""
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


def room_for(asked: str, snapshot: Snapshot) -> list[int | None]:
    """How many free devices of each row fit what is asked, a key of `devices_of`; None without a limit."""
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
