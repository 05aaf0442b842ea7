"""Nodes and the cluster-wide objects that decisions read."""

from __future__ import annotations

from msgspec import field

from wharfinger.model.objects_meta import Int32, Int64, KubeStruct, ObjectMeta, Quantities, Time


class Taint(KubeStruct, frozen=True):
    """A mark on a node that keeps away pods which do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(KubeStruct, frozen=True):
    """spec of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = field(name="providerID", default="")


class NodeCondition(KubeStruct, frozen=True):
    """One of status.conditions."""

    type: str = ""
    status: str = ""
    reason: str = ""
    last_heartbeat_time: Time | None = None
    last_transition_time: Time | None = None


class ContainerImage(KubeStruct, frozen=True):
    """An image that a node already has."""

    names: tuple[str, ...] = ()
    size_bytes: Int64 = 0


class AttachedVolume(KubeStruct, frozen=True):
    """A volume that is attached to a node."""

    name: str = ""


class NodeAddress(KubeStruct, frozen=True):
    """An address of a node: its InternalIP, Hostname and so on."""

    type: str = ""
    address: str = ""


class NodeStatus(KubeStruct, frozen=True):
    """status of a node."""

    capacity: Quantities = field(default_factory=dict)
    allocatable: Quantities = field(default_factory=dict)
    conditions: tuple[NodeCondition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    volumes_attached: tuple[AttachedVolume, ...] = ()
    volumes_in_use: tuple[str, ...] = ()


class Node(KubeStruct, frozen=True):
    """A node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Namespace(KubeStruct, frozen=True):
    """A namespace; its labels are what namespace selectors match."""

    metadata: ObjectMeta = ObjectMeta()


class PriorityClass(KubeStruct, frozen=True):
    """A named priority."""

    metadata: ObjectMeta = ObjectMeta()
    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str | None = None


class RuntimeClassOverhead(KubeStruct, frozen=True):
    """What a runtime itself takes, per pod."""

    pod_fixed: Quantities = field(default_factory=dict)


class RuntimeClass(KubeStruct, frozen=True):
    """A container runtime."""

    metadata: ObjectMeta = ObjectMeta()
    handler: str = ""
    overhead: RuntimeClassOverhead | None = None
