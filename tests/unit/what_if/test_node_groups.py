"""The number of pods of a group that are tried: all, as far as there is time."""

import itertools

import pytest

from tests.cluster import objects as made
from wharfinger.framework.chain import assemble
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.steps import at_once
from wharfinger.what_if import node_groups
from wharfinger.what_if.node_groups import BUDGET, NodeGroup, ranked_groups


def group(name, n_pods):
    node = decode.convert(made.node(name, cpu="64"), objects.Node)
    pods = [PodView(decode.convert(made.pod(f"p{number:03d}", cpu="100m"), objects.Pod)) for number in range(n_pods)]
    return NodeGroup(name=name, node=node, count=1, pods=tuple(pods))


@pytest.mark.parametrize(
    ("takes", "tried", "cut"),
    [
        (0.01, {40, 12}, ""),  # time for all
        (BUDGET / 3, {20, 12}, " (of 40; there was time for no more)"),  # a third for the first ten, so twice as many in what is left
        (BUDGET, {10}, " (of 40; there was time for no more)"),
    ],
)
def test_as_many_pods_are_tried_as_there_is_time_for(monkeypatch, takes, tried, cut):
    monkeypatch.setattr(node_groups, "MIN_PODS", 10)
    clock = itertools.count(0.0, takes)
    ranked = at_once(ranked_groups(assemble(), ClusterState(0.0), [group("large", 40), group("small", 12)], lambda: next(clock)))
    assert {found.tried for found in ranked} == tried
    assert all(found.placed == found.tried for found in ranked)
    large = next(found for found in ranked if found.name == "large")
    assert cut in str(large)
    assert ("time" in str(large)) == bool(cut)


@pytest.mark.parametrize(("n_groups", "tried"), [(1, 500), (2, 500), (4, 250), (2000, 1)])
def test_many_groups_share_the_pods_that_are_tried_in_any_case(monkeypatch, n_groups, tried):
    asked = []
    alone = node_groups._alone
    monkeypatch.setattr(node_groups, "_alone", lambda *found: asked.append(found[-1]) or alone(*found))
    clock = itertools.count(0.0, BUDGET)
    at_once(ranked_groups(assemble(), ClusterState(0.0), [group(f"g{number}", 1) for number in range(n_groups)], lambda: next(clock)))
    assert asked == [tried] * n_groups


INSTANCE = "node.kubernetes.io/instance-type"


def gpu_slice(node_name, n_devices):
    return objects.ResourceSlice(
        metadata=objects.ObjectMeta(name=f"{node_name}-gpus"),
        spec=objects.ResourceSliceSpec(
            driver="gpu.example.com",
            node_name=node_name,
            pool=objects.ResourcePool(name=node_name, generation=1, resource_slice_count=1),
            devices=tuple(objects.Device(name=f"gpu-{number}") for number in range(n_devices)),
        ),
    )


def labelled(name, **labels):
    plain = made.node(name, cpu="64")
    plain["metadata"]["labels"] = {"kubernetes.io/hostname": name, **{key.replace("_", "/"): value for key, value in labels.items()}}
    return decode.convert(plain, objects.Node)


@pytest.mark.parametrize(
    ("labels", "placed", "said"),
    [
        ({INSTANCE: "g4", "disk": "ssd"}, 4, "devices as on full"),
        ({INSTANCE: "g4", "disk": "hdd"}, 4, "devices as on full"),  # of the two of this type none has these labels: the first by name
        ({INSTANCE: "g1", "disk": "ssd"}, 1, "devices as on one"),
        ({INSTANCE: "g9", "disk": "ssd"}, 0, "without devices, as no node of its kind has any"),
        ({"disk": "ssd"}, 0, "without devices, as no node of its kind has any"),
    ],
)
def test_the_nodes_of_a_group_have_the_devices_of_a_node_of_their_kind(labels, placed, said):
    state = ClusterState(0.0)
    for name, kind, devices in (("full", "g4", 4), ("more", "g4", 2), ("one", "g1", 1)):
        state.add_node(labelled(name, **{INSTANCE.replace("/", "_"): kind, "disk": "ssd"}))
        state.put(gpu_slice(name, devices))
        taken = objects.ResourceClaim(
            metadata=objects.ObjectMeta(name=f"taken-{name}", namespace="default", uid=f"taken-{name}"),
            status=objects.ResourceClaimStatus(
                allocation=objects.Allocation(
                    devices=objects.AllocatedDevices(
                        results=tuple(
                            objects.AllocatedDevice(request="r", driver="gpu.example.com", pool=name, device=f"gpu-{number}")
                            for number in range(devices)
                        )
                    )
                )
            ),
        )
        state.put(taken)
    state.put(objects.DeviceClass(metadata=objects.ObjectMeta(name="gpu")))
    pods = []
    for number in range(6):
        exactly = objects.ExactDeviceRequest(device_class_name="gpu", allocation_mode="ExactCount", count=1)
        devices = objects.DeviceClaim(requests=(objects.DeviceRequest(name="r", exactly=exactly),))
        metadata = objects.ObjectMeta(name=f"claim-{number}", namespace="default", uid=f"claim-{number}")
        state.put(objects.ResourceClaim(metadata=metadata, spec=objects.ResourceClaimSpec(devices=devices)))
        plain = made.pod(f"p{number}", cpu="100m")
        plain["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": f"claim-{number}"}]
        pods.append(PodView(decode.convert(plain, objects.Pod)))
    template = labelled("template", **{key.replace("/", "_"): value for key, value in labels.items()})
    before = len(state.objects.all(objects.ResourceSlice))
    (found,) = at_once(ranked_groups(assemble(), state, [NodeGroup(name="gpus", node=template, count=1, pods=tuple(pods))]))
    assert found.placed == placed
    assert str(found).endswith(said)
    assert len(state.objects.all(objects.ResourceSlice)) == before


def test_nothing_is_reported_of_devices_where_no_pod_requests_any():
    (found,) = at_once(ranked_groups(assemble(), ClusterState(0.0), [group("plain", 1)]))
    assert "devices" not in str(found)
