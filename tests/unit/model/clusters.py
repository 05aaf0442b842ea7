"""Small clusters for tests of the model."""

from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState


def node(name, labels=None, *, images=(), unschedulable=False, **amounts):
    quantities = {"cpu": "4", "memory": "16Gi", "pods": "110", **{key: str(value) for key, value in amounts.items()}}
    return objects.Node(
        metadata=objects.ObjectMeta(name=name, labels=labels or {}),
        spec=objects.NodeSpec(unschedulable=unschedulable),
        status=objects.NodeStatus(allocatable=quantities, capacity=quantities, images=tuple(images)),
    )


def pod(name, on="", *, labels=None, phase="", host_port=0, uid="", priority=0, **requests):
    container = objects.Container(
        name="main",
        resources=objects.ContainerResources(requests={key: str(value) for key, value in requests.items()}),
        ports=(objects.ContainerPort(host_port=host_port),) if host_port else (),
    )
    return objects.Pod(
        metadata=objects.ObjectMeta(name=name, uid=uid, labels=labels or {}),
        spec=objects.PodSpec(containers=(container,), node_name=on, priority=priority),
        status=objects.PodStatus(phase=phase),
    )


def view(name, on="", **more):
    return PodView(pod(name, on, **more))


def state(nodes, pods=()):
    """A cluster of nodes (names or objects) with pods on them."""
    cluster = ClusterState()
    for one in nodes:
        cluster.add_node(node(one) if isinstance(one, str) else one)
    for one in pods:
        cluster.add_pod(one)
    return cluster


def requested(cluster, name, resource="cpu"):
    snapshot = cluster.snapshot()
    return int(snapshot.requested[snapshot.resource_index(resource), snapshot.row(name)])


def uids_on(cluster, name):
    snapshot = cluster.snapshot()
    return {pod.uid for pod in snapshot.pods_on(snapshot.row(name))}
