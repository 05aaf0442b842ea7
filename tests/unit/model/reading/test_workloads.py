"""The pods that the controllers of Kubernetes would make of a workload."""

import pytest

from wharfinger.errors import InvalidObject
from wharfinger.framework.plugins.volumes.volume_claims import is_for
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import files, workloads

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, creationTimestamp: null}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, tier: front}, annotations: {team: a}}
    spec: {containers: [{name: c, image: nginx}]}
"""


def expand(text, cluster=None):
    found = files.read_bytes(text.encode())
    return workloads.expand(found, None if cluster is None else files.read_bytes(cluster.encode()))


def views(text, cluster=None):
    return [PodView(pod) for pod in expand(text, cluster).pods]


def test_defaults_are_computed_once_for_the_pods_of_a_template():
    """A template may have thousands of tolerations and containers; its pods are made between two decisions of the scheduler."""
    pods = expand(DEPLOYMENT).pods
    assert all(pod.spec is pods[0].spec for pod in pods)
    assert len(pods[0].spec.tolerations) == 2


def test_a_deployment_gives_pods_of_one_template_owned_by_a_replica_set():
    expansion = expand(DEPLOYMENT)
    pods = [PodView(pod) for pod in expansion.pods]
    assert [pod.key for pod in pods] == ["shop/web-0", "shop/web-1", "shop/web-2"]
    assert len({pod.template for pod in pods}) == 1
    assert len({pod.uid for pod in pods}) == 3
    assert pods[0].annotations == {"team": "a"}
    (replica_set,) = expansion.made
    assert isinstance(replica_set, objects.ReplicaSet)
    owner = pods[0].controller
    assert owner is not None
    assert (owner.api_version, owner.kind, owner.name) == ("apps/v1", "ReplicaSet", replica_set.metadata.name)
    assert replica_set.metadata.namespace == "shop"
    assert replica_set.spec.selector is not None
    assert replica_set.spec.selector.match_labels.items() <= pods[0].labels.items()
    assert pods[0].labels["pod-template-hash"] == replica_set.metadata.name.removeprefix("web-")


def test_the_same_manifest_gives_the_same_pods_and_another_template_another_hash():
    assert expand(DEPLOYMENT) == expand(DEPLOYMENT)
    (other,) = expand(DEPLOYMENT.replace("nginx", "nginx:2")).made
    assert other.metadata.name != expand(DEPLOYMENT).made[0].metadata.name


@pytest.mark.parametrize(("replicas", "count"), [("replicas: 0", 0), ("replicas: null", 1), ("paused: true", 1)])
def test_replicas_default_to_one(replicas, count):
    assert len(expand(DEPLOYMENT.replace("replicas: 3", replicas)).pods) == count


def test_a_negative_number_of_pods_is_refused():
    with pytest.raises(InvalidObject, match=r"^Deployment shop/web has -3 pods; the number cannot be negative$"):
        expand(DEPLOYMENT.replace("replicas: 3", "replicas: -3"))


def test_more_pods_than_anyone_means_are_refused(monkeypatch):
    monkeypatch.setattr(workloads, "MAX_PODS", 100)
    with pytest.raises(InvalidObject, match=r"Deployment shop/web has 2,000,000,000 pods; at most 100 are supported"):
        expand(DEPLOYMENT.replace("replicas: 3", "replicas: 2000000000"))
    many = DEPLOYMENT.replace("replicas: 3", "replicas: 60")
    with pytest.raises(InvalidObject, match=r"more than 100 pods; shop/api-40 is one too many"):
        expand(f"{many}---\n{many.replace('name: web', 'name: api')}")


def test_a_stateful_sets_pods_have_ordinals_and_claims():
    expansion = expand("""
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  ordinals: {start: 5}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: c}], volumes: [{name: data, emptyDir: {}}, {name: image, image: {reference: x}}]}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {storageClassName: fast, resources: {requests: {storage: 10Gi}}}}]
""")
    pods = [PodView(pod) for pod in expansion.pods]
    assert [pod.key for pod in pods] == ["default/db-5", "default/db-6"]
    assert pods[0].labels == {"app": "db", "statefulset.kubernetes.io/pod-name": "db-5", "apps.kubernetes.io/pod-index": "5"}
    claim, image = pods[0].object.spec.volumes
    assert claim.persistent_volume_claim is not None
    assert claim.persistent_volume_claim.claim_name == "data-db-5"
    assert image.image is not None
    claims = [obj for obj in expansion.made if isinstance(obj, objects.PersistentVolumeClaim)]
    assert [objects.key_of(one) for one in claims] == ["default/data-db-5", "default/data-db-6"]
    assert claims[0].spec.storage_class_name == "fast"
    assert any(isinstance(obj, objects.StatefulSet) for obj in expansion.made)


JOB = "{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {%s, template: {spec: {containers: [{name: c}]}}}}"


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        ("backoffLimit: 1", 1),
        ("parallelism: 4", 4),
        ("parallelism: 4, completions: 2", 2),
        ("completions: 9", 1),
        ("parallelism: 4, suspend: true", 0),
    ],
)
def test_a_jobs_pods_are_those_that_run_at_once(spec, count):
    pods = views(JOB % spec)
    assert [pod.name for pod in pods] == [f"j-{number}" for number in range(count)]
    assert all(pod.labels["batch.kubernetes.io/job-name"] == "j" for pod in pods)


def test_pods_of_an_indexed_job_know_their_index():
    pods = views(JOB % "parallelism: 2, completionMode: Indexed, completions: 2")
    assert [pod.annotations["batch.kubernetes.io/job-completion-index"] for pod in pods] == ["0", "1"]
    assert [pod.labels["batch.kubernetes.io/job-completion-index"] for pod in pods] == ["0", "1"]


def test_other_workloads():
    text = """
- {apiVersion: batch/v1, kind: CronJob, metadata: {name: tick, namespace: ns}, spec: {jobTemplate: {spec: {parallelism: 2}}}}
- {apiVersion: v1, kind: ReplicationController, metadata: {name: rc}, spec: {replicas: 2, template: {metadata: {labels: {a: b}}}}}
- {apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: rs, uid: U}, spec: {template: {metadata: {labels: {a: b}}}}}
- {apiVersion: v1, kind: PodTemplate, metadata: {name: pt}, template: {metadata: {labels: {a: b}}}}
- {apiVersion: v1, kind: Service, metadata: {name: svc}, spec: {selector: {a: b}}}
"""
    pods = {pod.key: pod for pod in views(text)}
    assert list(pods) == ["ns/tick-0", "ns/tick-1", "default/rc-0", "default/rc-1", "default/rs-0", "default/pt"]
    owners = {key: pod.controller and (pod.controller.api_version, pod.controller.kind, pod.controller.uid) for key, pod in pods.items()}
    assert owners["default/rs-0"] == ("apps/v1", "ReplicaSet", "U")
    assert owners["default/rc-0"] == ("v1", "ReplicationController", "ReplicationController/default/rc")
    assert owners["default/pt"] is None


def test_objects_whose_name_the_api_server_makes_have_names_of_their_own():
    pod = "{apiVersion: v1, kind: Pod, metadata: {%s}, spec: {}}"
    job = "{apiVersion: batch/v1, kind: Job, metadata: {generateName: run-}, spec: {template: {spec: {}}}}"
    cron = "{apiVersion: batch/v1, kind: CronJob, metadata: {generateName: at-}, spec: {jobTemplate: {spec: {template: {spec: {}}}}}}"
    own = [pod % "name: p-1", pod % "generateName: p-", pod % "generateName: p-", pod % "generateName: p-, namespace: shop"]
    given = files.read_bytes("\n---\n".join([*own, job, job, cron]).encode(), written=True)
    assert [objects.key_of(each) for each in workloads.expand(given).pods] == [
        *("default/p-1", "default/p-0", "default/p-2", "shop/p-0"),
        *("default/run-0-0", "default/run-1-0", "default/at-0-0"),
    ]
    assert not given.skipped
    with pytest.raises(InvalidObject, match=r"metadata\.name: it has no name"):
        files.read_bytes(job.encode())  # what a cluster has, has a name


@pytest.mark.parametrize(
    ("kind", "spec", "why"),
    [
        ("Deployment", "replicas: 0", "its replicas or its parallelism is 0"),
        ("StatefulSet", "replicas: 0", "its replicas or its parallelism is 0"),
        ("Job", "parallelism: 0", "its replicas or its parallelism is 0"),
        ("Job", "suspend: true", "it is suspended"),
        ("CronJob", "suspend: true", "it is suspended"),
        ("DaemonSet", "", "its node selector, affinity and tolerations admit no node"),
    ],
)
def test_a_workload_without_pods_is_named(kind, spec, why):
    group = "batch" if kind.endswith("Job") else "apps"
    found = expand(f"{{apiVersion: {group}/v1, kind: {kind}, metadata: {{name: none, namespace: shop}}, spec: {{{spec}}}}}")
    assert not found.pods
    assert found.warnings == (f"{kind} shop/none has no pods: {why}",)


def test_a_pod_that_ran_is_pending_again():
    running = "{apiVersion: v1, kind: Pod, metadata: {name: p, uid: U}, spec: {nodeName: n}, status: {phase: Running}}"
    fixed = "{apiVersion: v1, kind: Pod, metadata: {generateName: q-}, spec: {nodeName: n}}"
    was_running, demands_node = views(f"---\n{running}\n---\n{fixed}\n")
    assert (was_running.uid, was_running.node_name, was_running.object.status) == ("U", "", objects.PodStatus())
    assert (demands_node.name, demands_node.node_name) == ("q-0", "n")


def test_pods_that_name_their_node_are_reported_once_for_each_node():
    running = "{apiVersion: v1, kind: Pod, metadata: {name: ran}, spec: {nodeName: a}, status: {phase: Running}}"
    fixed = "{apiVersion: v1, kind: Pod, metadata: {name: fixed}, spec: {nodeName: b}}"
    named = DEPLOYMENT.replace("containers:", "nodeName: a, containers:")
    assert expand(f"---\n{running}\n---\n{fixed}\n---\n{named}").warnings == (
        "pod default/fixed: spec.nodeName is b, so no other node is tried; remove the field to try every node",
        "pod shop/web-0 and 2 more: spec.nodeName is a, so no other node is tried; remove the field to try every node",
    )
    assert not expand(DEPLOYMENT).warnings


NODES = """
- {apiVersion: v1, kind: Node, metadata: {name: a, labels: {disk: ssd}}}
- {apiVersion: v1, kind: Node, metadata: {name: b, labels: {disk: hdd}}}
- {apiVersion: v1, kind: Node, metadata: {name: c, labels: {disk: ssd}}, spec: {taints: [{key: dedicated, value: x, effect: NoSchedule}]}}
- apiVersion: v1
  kind: Node
  metadata: {name: d, labels: {disk: ssd}}
  spec: {taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]}
- {apiVersion: v1, kind: Node, metadata: {name: e, labels: {disk: ssd}}, spec: {taints: [{key: soft, effect: PreferNoSchedule}]}}
"""


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NOT_SSD = "{key: disk, operator: NotIn, values: [ssd]}"


def daemon(extra):
    spec = f"containers: [{{name: c}}], {extra}"
    return f"{{apiVersion: apps/v1, kind: DaemonSet, metadata: {{name: agent}}, spec: {{template: {{spec: {{{spec}}}}}}}}}"


@pytest.mark.parametrize(
    ("extra", "nodes"),
    [
        ("nodeSelector: {disk: ssd}", "ade"),
        ("nodeSelector: {disk: ssd}, tolerations: [{operator: Exists}]", "acde"),
        ("tolerations: [{key: dedicated, value: x}]", "abcde"),
        ("tolerations: [{key: dedicated, value: y}]", "abde"),
        ("nodeName: b", "b"),
        (
            f"affinity: {{nodeAffinity: {{{REQUIRED}: {{nodeSelectorTerms: [{{matchExpressions: [{NOT_SSD}]}}]}}}}}}",
            "b",
        ),
    ],
)
def test_a_daemon_goes_to_the_nodes_that_its_controller_would_choose(extra, nodes):
    pods = views(daemon(extra), NODES)
    assert [pod.name for pod in pods] == [f"agent-{name}" for name in nodes]


def test_a_daemon_is_bound_to_its_node_by_affinity():
    (pod, *_others) = views(daemon("hostNetwork: true"), NODES)
    assert pod.object.spec.affinity is not None
    assert pod.object.spec.affinity.node_affinity is not None
    required = pod.object.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    assert required is not None
    (term,) = required.node_selector_terms
    assert term.match_fields == (objects.NodeSelectorRequirement(key="metadata.name", operator="In", values=("a",)),)
    tolerated = {toleration.key for toleration in pod.object.spec.tolerations}
    assert {"node.kubernetes.io/unschedulable", "node.kubernetes.io/network-unavailable"} <= tolerated
    kept = [toleration for toleration in pod.object.spec.tolerations if toleration.key == "node.kubernetes.io/not-ready"]
    assert [toleration.toleration_seconds for toleration in kept] == [None], "a daemon stays for ever, not for five minutes"


CLAIMS = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: shared}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
"""


def test_claims_for_volumes_come_with_the_pods_and_keep_the_volumes_that_they_have():
    claim = "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: %s}, spec: {storageClassName: fast}}"
    given = f"""{claim % "one"}
---
{claim % "two"}
---
{{apiVersion: apps/v1, kind: StatefulSet, metadata: {{name: db}}, spec: {{template: {{}}, volumeClaimTemplates: [{claim % "data"}]}}}}
"""
    made = expand(given, f"{claim % 'two'}\n---\n{claim % 'data-db-0'}").made
    assert [objects.key_of(one) for one in made if isinstance(one, objects.PersistentVolumeClaim)] == ["default/one"]


def storage_class(name, annotation="storageclass.kubernetes.io/is-default-class", is_default="true", day=1):
    metadata = f'name: {name}, creationTimestamp: "2026-01-0{day}T00:00:00Z", annotations: {{{annotation}: "{is_default}"}}'
    return f"{{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {{{metadata}}}, provisioner: p}}"


@pytest.mark.parametrize(
    ("classes", "name"),
    [
        ((), None),
        ([storage_class("a", is_default="false")], None),
        ([storage_class("a")], "a"),
        ([storage_class("a", annotation="storageclass.beta.kubernetes.io/is-default-class")], "a"),
        ([storage_class("a"), storage_class("b", day=2), storage_class("c", is_default="false", day=3)], "b"),  # the newest
        ([storage_class("b"), storage_class("a")], "a"),
    ],
)
def test_a_claim_that_names_no_class_gets_the_default_one_of_the_cluster(classes, name):
    claim = "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: %s, annotations: {%s}}, spec: {%s}}"
    template = claim % ("data", "", "")
    inline = "ephemeral: {volumeClaimTemplate: {metadata: {labels: {a: b}}, spec: {}}}"
    given = f"""{claim % ("none", "", "")}
---
{claim % ("empty", "", 'storageClassName: ""')}
---
{claim % ("own", "", "storageClassName: slow")}
---
{claim % ("older", "volume.beta.kubernetes.io/storage-class: slow", "")}
---
{{apiVersion: apps/v1, kind: StatefulSet, metadata: {{name: db}}, spec: {{template: {{}}, volumeClaimTemplates: [{template}]}}}}
---
{{apiVersion: v1, kind: Pod, metadata: {{name: one}}, spec: {{volumes: [{{name: tmp, {inline}}}]}}}}
"""
    made = [one for one in expand(given, "\n---\n".join(classes)).made if isinstance(one, objects.PersistentVolumeClaim)]
    assert {one.metadata.name: one.spec.storage_class_name for one in made} == {
        "none": name,
        "empty": "",
        "own": "slow",
        "older": None,
        "data-db-0": name,
        "one-tmp": name,
    }
    assert objects.StorageClass in workloads.LOOKED_UP


def test_an_ephemeral_volume_has_a_claim_of_its_pod():
    volume = "{name: tmp, ephemeral: {volumeClaimTemplate: {metadata: {labels: {a: b}}, spec: {storageClassName: fast}}}}"
    template = f"{{spec: {{volumes: [{volume}]}}}}"
    web = (
        f"{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web, namespace: shop}}, spec: {{replicas: 2, template: {template}}}}}"
    )
    given = files.read_bytes(web.encode())
    found = workloads.expand(given, is_taken=lambda uid: uid.endswith("-1"))
    claims = {one.metadata.name: one for one in found.made if isinstance(one, objects.PersistentVolumeClaim)}
    assert claims.keys() == {"web-0-tmp", "web-1-tmp"}
    for pod in found.pods:
        claim = claims[f"{pod.metadata.name}-tmp"]
        assert (claim.metadata.namespace, claim.metadata.labels, claim.spec.storage_class_name) == ("shop", {"a": "b"}, "fast")
        assert is_for(claim, PodView(pod))


def test_kinds_that_are_not_used_are_named():
    given = files.read_bytes(
        b"""
{apiVersion: v1, kind: Node, metadata: {name: n}}
---
{apiVersion: v1, kind: Service, metadata: {name: s}}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: p}, value: 1}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}
""",
        written=True,
    )
    assert workloads.left_out(given) == [
        f"1 {kind} left out: no pods are created from this kind" for kind in ("Node", "Service", "ConfigMap")
    ]


def test_claims_and_their_templates_come_with_the_pods():
    assert [objects.key_of(made) for made in expand(CLAIMS).made] == ["default/gpu", "default/shared"]


def test_a_claim_that_the_cluster_has_keeps_its_devices():
    held = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: shared, namespace: default}
status: {allocation: {devices: {results: [{request: gpu, driver: d, pool: p, device: gpu-0}]}}}
"""
    assert [objects.key_of(made) for made in expand(CLAIMS, held).made] == ["default/gpu"]
    assert objects.ResourceClaim in workloads.LOOKED_UP  # for those who look up in a running cluster
