"""Devices and claims for them (dynamic resource allocation), as far as scheduling reads them.

A driver publishes its devices in ResourceSlices. A ResourceClaim requests devices of DeviceClasses, and its status names the allocated
devices. A ResourceClaimTemplate is what a controller makes a claim of, one for each pod; `status.resourceClaimStatuses` of the pod then
names the claim. Source: `api/resource/v1/types.go`, Kubernetes 1.36.

`allocation_mode` "" is ExactCount and `count` 0 is 1: the API server sets both, files may leave them out.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, field

from wharfinger.model.objects.metadata import Int64, KubeStruct, NodeSelector, ObjectMeta, Quantities, Quantity, Time

Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""A whole number that the API server takes only if it is not negative."""

EXACT_COUNT = "ExactCount"
ALL = "All"
FROM_CLASS = "FromClass"
FROM_CLAIM = "FromClaim"

EXTENDED_RESOURCE_CLAIM = "resource.kubernetes.io/extended-resource-claim"
"""The annotation of a claim that the scheduler made for the extended resources of a pod."""
IN_MEMORY = "<extended-resources>"
"""The name of such a claim before the scheduler writes it: the API server refuses it."""
FINALIZER = "resource.kubernetes.io/delete-protection"
"""The finalizer of an allocated claim."""
IMPLICIT_RESOURCE_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Every class can be requested as the extended resource with this prefix and the name of the class."""
MAX_DEVICES = 32
"""The most devices that one claim can be allocated."""
MAX_ALTERNATIVES = 8
"""The most subrequests of one request."""


class DeviceAttribute(KubeStruct, frozen=True):
    """An attribute of a device: one of the four is set."""

    int_value: Int64 | None = field(name="int", default=None)
    bool_value: bool | None = field(name="bool", default=None)
    string_value: str | None = field(name="string", default=None)
    version_value: str | None = field(name="version", default=None)

    @property
    def value(self) -> int | bool | str | None:
        """The value, without its kind; None if none is set."""
        for value in (self.string_value, self.int_value, self.bool_value):
            if value is not None:
                return value
        return self.version_value


class CapacityRange(KubeStruct, frozen=True):
    """The amounts that may be consumed of a capacity: between two, in steps from the lower one."""

    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(KubeStruct, frozen=True):
    """The amounts of a shared device's capacity that a request may consume; `default` if it names no amount."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: CapacityRange | None = None


class DeviceCapacity(KubeStruct, frozen=True):
    """An amount that a device has."""

    value: Quantity = "0"
    request_policy: CapacityRequestPolicy | None = None


class Counter(KubeStruct, frozen=True):
    """A number of units in a counter set, or of those that a device consumes."""

    value: Quantity = "0"


class CounterSet(KubeStruct, frozen=True):
    """Counters that the devices of a pool consume: the resources that partitions of one piece of hardware share."""

    name: str = ""
    counters: dict[str, Counter] = field(default_factory=dict)


class CounterConsumption(KubeStruct, frozen=True):
    """The counters of a counter set that a device consumes while it is allocated."""

    counter_set: str = ""
    counters: dict[str, Counter] = field(default_factory=dict)


class DeviceTaint(KubeStruct, frozen=True):
    """A mark on a device that keeps away requests which do not tolerate it; effects are None, NoSchedule and NoExecute."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: Time | None = None


class DeviceToleration(KubeStruct, frozen=True):
    """A toleration of device taints; operator "" is Equal, effect "" matches every effect, key "" with Exists every key."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class Device(KubeStruct, frozen=True):
    """One device of a slice; its nodes are those of the slice, or its own with `perDeviceNodeSelection`."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] = field(default_factory=dict)
    capacity: dict[str, DeviceCapacity] = field(default_factory=dict)
    consumes_counters: tuple[CounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool = False


class ResourcePool(KubeStruct, frozen=True):
    """The pool of a slice: only slices of the highest generation count, and `resource_slice_count` of them make it complete."""

    name: str = ""
    generation: Number = 0
    resource_slice_count: Number = 0


class ResourceSliceSpec(KubeStruct, frozen=True):
    """spec of a slice: devices or counters, and one of `node_name`, `node_selector`, `all_nodes`, `per_device_node_selection`."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(KubeStruct, frozen=True):
    """Devices of a driver, in a pool."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceSliceSpec = ResourceSliceSpec()


class CELSelector(KubeStruct, frozen=True):
    """An expression over a device that is true or false."""

    expression: str = ""


class DeviceSelector(KubeStruct, frozen=True):
    """A condition that devices have to meet."""

    cel: CELSelector | None = None


class OpaqueConfiguration(KubeStruct, frozen=True):
    """Parameters that only the driver understands."""

    driver: str = ""
    parameters: Any = None


class ClassConfiguration(KubeStruct, frozen=True):
    """A configuration that comes with a class."""

    opaque: OpaqueConfiguration | None = None


class ClaimConfiguration(KubeStruct, frozen=True):
    """A configuration of a claim, for some requests or, if none are named, for all."""

    requests: tuple[str, ...] = ()
    opaque: OpaqueConfiguration | None = None


class AllocatedConfiguration(KubeStruct, frozen=True):
    """A configuration for the driver: that of a class (`FromClass`) or of the claim (`FromClaim`)."""

    source: str = ""
    requests: tuple[str, ...] = ()
    opaque: OpaqueConfiguration | None = None


class DeviceClassSpec(KubeStruct, frozen=True):
    """spec of a device class; `extended_resource_name` None for a class that backs no extended resource of that name."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[ClassConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(KubeStruct, frozen=True):
    """A named kind of devices."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()


class CapacityRequirements(KubeStruct, frozen=True):
    """The amounts of capacity that a request needs of each device."""

    requests: Quantities = field(default_factory=dict)


class RequestedDevices(KubeStruct, frozen=True):
    """The common fields of an exact request and a subrequest."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: Number = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None

    @property
    def wants_all(self) -> bool:
        """True if every matching device is wanted."""
        return self.allocation_mode == ALL


class ExactDeviceRequest(RequestedDevices, frozen=True):
    """A request for a number of devices, or all; `admin_access` also takes devices that are in use."""

    admin_access: bool | None = None


class DeviceSubRequest(RequestedDevices, frozen=True):
    """One of the alternatives of a request."""

    name: str = ""


class DeviceRequest(KubeStruct, frozen=True):
    """A request of a claim: exactly these devices, or the first alternative that is available."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(KubeStruct, frozen=True):
    """An attribute that must be the same, or different, for all devices of some requests or, if none are named, of all."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaim(KubeStruct, frozen=True):
    """spec.devices of a claim."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[ClaimConfiguration, ...] = ()


class ResourceClaimSpec(KubeStruct, frozen=True):
    """spec of a claim."""

    devices: DeviceClaim = DeviceClaim()


class AllocatedDevice(KubeStruct, frozen=True):
    """One device of an allocation; `request` is `request/subrequest` for an alternative, `share_id` names one share of a shared device."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = field(name="shareID", default=None)
    consumed_capacity: Quantities = field(default_factory=dict)


class AllocatedDevices(KubeStruct, frozen=True):
    """The devices of an allocation, and their configurations."""

    results: tuple[AllocatedDevice, ...] = ()
    config: tuple[AllocatedConfiguration, ...] = ()


class Allocation(KubeStruct, frozen=True):
    """status.allocation of a claim; without `node_selector` the devices can be used on every node."""

    devices: AllocatedDevices = AllocatedDevices()
    node_selector: NodeSelector | None = None
    allocation_timestamp: Time | None = None


class ClaimConsumer(KubeStruct, frozen=True):
    """An object, mostly a pod, for which a claim is reserved."""

    api_group: str = field(name="apiGroup", default="")
    resource: str = ""
    name: str = ""
    uid: str = ""


class DeviceCondition(KubeStruct, frozen=True):
    """A condition of an allocated device."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class AllocatedDeviceStatus(KubeStruct, frozen=True):
    """The status of an allocated device, written by the driver."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = field(name="shareID", default=None)
    conditions: tuple[DeviceCondition, ...] = ()


class ResourceClaimStatus(KubeStruct, frozen=True):
    """status of a claim."""

    allocation: Allocation | None = None
    reserved_for: tuple[ClaimConsumer, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(KubeStruct, frozen=True):
    """A claim for devices."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(KubeStruct, frozen=True):
    """The metadata and spec of the claims made from a template."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(KubeStruct, frozen=True):
    """A template of claims, one for each pod that names it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()
