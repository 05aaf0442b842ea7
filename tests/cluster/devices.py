"""A driver of devices for tests: it publishes slices, and prepares nothing. Also the invariants of claims, which hold after every fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.cluster import objects
from tests.cluster.api import Api

DRIVER = "gpu.example.com"
NUMA = f"{DRIVER}/numa"
"""The attribute that devices of one NUMA node have in common."""
CLASS = "gpu"
TEMPLATE = "one-gpu"


def device_class(extended: str = "") -> dict[str, Any]:
    """The class of all devices of the driver, which may back an extended resource."""
    spec = {
        "selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}],
        **({"extendedResourceName": extended} if extended else {}),
    }
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": CLASS}, "spec": spec}


def resource_slice(node: str, devices: int, *, generation: int = 1, model: str = "a100") -> dict[str, Any]:
    """The devices of a node: `gpu-0`, `gpu-1`, …, four of each NUMA node."""
    listed = [
        {"name": f"gpu-{number}", "attributes": {"model": {"string": model}, "numa": {"int": number // 4}}} for number in range(devices)
    ]
    pool = {"name": node, "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": listed}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": f"{node}-{generation}"}, "spec": spec}


def wanting(count: int = 1, **more: Any) -> dict[str, Any]:
    """spec of a claim for some devices."""
    return {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": CLASS, "count": count}}], **more}}


def template(count: int = 1, **more: Any) -> dict[str, Any]:
    """A template of claims for some devices."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": TEMPLATE},
        "spec": {"spec": wanting(count, **more)},
    }


def claim(name: str, count: int = 1) -> dict[str, Any]:
    """A claim for some devices."""
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name}, "spec": wanting(count)}


def pod(name: str, *, claim_name: str = "", **alike: Any) -> dict[str, Any]:
    """A pod with its own claim, made of the template, or with the named claim."""
    made = objects.pod(name, **alike)
    source = {"resourceClaimName": claim_name} if claim_name else {"resourceClaimTemplateName": TEMPLATE}
    made["spec"]["resourceClaims"] = [{"name": "gpu", **source}]
    made["spec"]["containers"][0].setdefault("resources", {})["claims"] = [{"name": "gpu"}]
    return made


def held(api: Api) -> Counter[tuple[str, str]]:
    """The number of claims that hold each device, by pool and name."""
    allocated = (each["status"]["allocation"] for each in api.list("ResourceClaim") if each.get("status", {}).get("allocation"))
    return Counter((result["pool"], result["device"]) for allocation in allocated for result in allocation["devices"]["results"])


def wrong(api: Api) -> Iterator[str]:
    """A sentence for each device that is given twice, and for each pod whose devices are not those of its node."""
    yield from (f"{device} is held by {count} claims" for device, count in held(api).items() if count > 1)
    claims = {each["metadata"]["name"]: each for each in api.list("ResourceClaim")}
    for each in api.list("Pod"):
        node = each["spec"].get("nodeName")
        for status in each.get("status", {}).get("resourceClaimStatuses", ()) if node else ():
            found = claims.get(status["resourceClaimName"])
            if found is None or "allocation" not in found.get("status", {}):
                yield f"pod {each['metadata']['name']} is on {node}, and its claim is not allocated"
            elif any(result["pool"] != node for result in found["status"]["allocation"]["devices"]["results"]):
                yield f"pod {each['metadata']['name']} is on {node}, and its devices are not"
            elif all(consumer["uid"] != each["metadata"]["uid"] for consumer in found["status"].get("reservedFor", ())):
                yield f"pod {each['metadata']['name']} is on {node}, and its claim is not reserved for it"
