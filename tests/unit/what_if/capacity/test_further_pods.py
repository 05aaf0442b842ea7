"""Further pods are those that the workload would have with more replicas."""

import itertools

import msgspec
import pytest

from wharfinger.errors import UsageError
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import workloads
from wharfinger.model.reading.files import Objects
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.what_if.further_pods import grouped

TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web"}]}}
CLAIM = {"metadata": {"name": "data"}, "spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}}


def deployment(replicas):
    return objects.Deployment, {"spec": {"replicas": replicas, "template": TEMPLATE}}


def job(replicas):
    spec = {"parallelism": replicas, "completions": replicas, "completionMode": "Indexed", "template": TEMPLATE}
    return objects.Job, {"spec": spec}


def stateful_set(replicas):
    return objects.StatefulSet, {"spec": {"replicas": replicas, "template": TEMPLATE, "volumeClaimTemplates": [CLAIM]}}


def with_scratch(replicas):
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": CLAIM["spec"]}}}
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "volumes": [volume]}}
    return objects.Deployment, {"spec": {"replicas": replicas, "template": template}}


def expanded(workload):
    kind, manifest = workload
    found = msgspec.convert({"metadata": {"name": "web", "namespace": "shop"}, **manifest}, kind)
    return workloads.expand(Objects(by_kind={kind: (found,)}))


@pytest.mark.parametrize("made_by", [deployment, job, stateful_set, with_scratch])
def test_further_pods_and_claims_are_those_of_more_replicas(made_by):
    state = ClusterState()
    few, many = expanded(made_by(2)), expanded(made_by(5))
    for obj in few.made:
        state.put(obj)
    (group,) = grouped([PodView(pod) for pod in few.pods])

    further = list(itertools.islice(group.further(state), 3))

    assert group.name == "shop/web"
    expected = [PodView(pod) for pod in many.pods[2:]]
    assert [(each.pod.key, each.pod.uid, each.pod.template) for each in further] == [(pod.key, pod.uid, pod.template) for pod in expected]
    claims = [obj for obj in many.made if isinstance(obj, objects.PersistentVolumeClaim)][2:]
    assert [claim for each in further for claim in each.claims] == claims
    assert group.are_equal is (made_by is deployment)


def test_bare_pods_of_one_template_are_one_group_and_taken_names_are_left_out():
    def bare(name):
        return PodView(objects.Pod(metadata=objects.ObjectMeta(name=name, namespace="x")))

    state = ClusterState()
    state.add_node(objects.Node(metadata=objects.ObjectMeta(name="n")))
    state.assume(bare("gpu-4"), "n")
    (group,) = grouped([bare("gpu-3"), bare("gpu-2")])
    assert [each.pod.name for each in itertools.islice(group.further(state), 2)] == ["gpu-5", "gpu-6"]


def test_pods_that_name_their_node_are_no_pods_of_those_that_name_another_or_none():
    pods = [
        PodView(objects.Pod(metadata=objects.ObjectMeta(name=name, namespace="x"), spec=objects.PodSpec(node_name=node)))
        for name, node in (("a", ""), ("b", "one"), ("c", "two"), ("d", ""), ("e", "one"))
    ]
    assert [[pod.name for pod in group.pods] for group in grouped(pods)] == [["a", "d"], ["b", "e"], ["c"]]


def test_a_daemon_set_has_no_further_pods():
    owner = objects.OwnerReference(kind="DaemonSet", name="agent", controller=True)
    pod = objects.Pod(metadata=objects.ObjectMeta(name="agent-x", namespace="x", owner_references=(owner,)))
    with pytest.raises(UsageError, match="DaemonSet x/agent has one pod for each node"):
        grouped([PodView(pod)])
