"""Pods as large as the API server allows take work in proportion to their size, or are refused above a limit.

What a namespace's user writes as a template of pods costs the scheduler time just as a policy does, also in a preview, which makes no pod.
"""

from __future__ import annotations

import pytest

from tests.parity import case
from tests.unit.framework.kube import decide, node, pod, state
from tests.unit.language.policies import checked
from tests.work import calls
from wharfinger.compiler.program import compile_policy
from wharfinger.emit import ignore
from wharfinger.framework import chain
from wharfinger.framework.cluster_event import Change, ClusterEvent
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.scheduler.profiles import Profile
from wharfinger.scheduler.queue.hints import WaitingPods
from wharfinger.scheduler.queued_pods import QueuedPod

HOSTNAME = "kubernetes.io/hostname"
REQUIRED, PREFERRED = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"


def term(i, key):
    selector = {"matchExpressions": [{"key": f"k{i}", "operator": "NotIn", "values": ["v"]}]}
    return {"topologyKey": key.format(i), "labelSelector": selector}


def near(n, kind, key):
    return pod(affinity={kind: {REQUIRED: [term(i, key) for i in range(n)]}})


def preferred(n, kind, key):
    return pod(affinity={kind: {PREFERRED: [{"weight": 1, "podAffinityTerm": term(i, key)} for i in range(n)]}})


def spread(n, unsatisfiable, key):
    return pod(topologySpreadConstraints=[{"maxSkew": 1, "whenUnsatisfiable": unsatisfiable, **term(i, key)} for i in range(n)])


def on_nodes(n, operator, key, *values):
    def expression(i):
        return {"key": key.format(i), "operator": operator, "values": [each.format(i) for each in values]}

    terms = [{"matchExpressions": [expression(i)]} for i in range(n)]
    return pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}})


def on_names(n):
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [f"n{i}"]}]} for i in range(n)]
    return pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}})


def preferring(n):
    term = {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["1"]}]}
    return pod(affinity={"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": term}] * n}})


def requesting(n):
    return pod(requests={f"example.com/r{i}": "1" for i in range(n)})


def images(n):
    found = pod()
    found["spec"]["containers"] = [{"name": f"c{i}", "image": f"i{i}:1"} for i in range(n)]
    return found


PODS = {
    "tolerations": lambda n: pod(tolerations=[{"key": f"k{i}", "value": "v", "effect": "NoSchedule"} for i in range(n)]),
    "volumes of claims": lambda n: pod(volumes=[{"name": f"v{i}", "persistentVolumeClaim": {"claimName": f"c{i}"}} for i in range(n)]),
    "images": images,
    "names of nodes": on_names,
    "preferences for nodes": preferring,
    "labels for the node": lambda n: pod(nodeSelector={f"k{i}": "v" for i in range(n)}),
    "terms for the node": lambda n: on_nodes(n, "DoesNotExist", "key{}"),
    "terms with the name of the node": lambda n: on_nodes(n, "In", HOSTNAME, "v{}"),
    "numbers that labels are compared with": lambda n: on_nodes(n, "Gt", HOSTNAME, "{}"),
    "anti-affinity by names of nodes": lambda n: near(n, "podAntiAffinity", HOSTNAME),
    "anti-affinity by many keys": lambda n: near(n, "podAntiAffinity", "key{}"),
    "affinity by many keys": lambda n: near(n, "podAffinity", "key{}"),
    "preferences by many keys": lambda n: preferred(n, "podAffinity", "key{}"),
    "constraints by many keys": lambda n: spread(n, "DoNotSchedule", "key{}"),
    "soft constraints by many keys": lambda n: spread(n, "ScheduleAnyway", "key{}"),
    "ports": lambda n: pod(ports=[{"containerPort": 80, "hostPort": i + 1} for i in range(n)]),
    "disks": lambda n: pod(volumes=[{"name": f"v{i}", "gcePersistentDisk": {"pdName": f"d{i}"}} for i in range(n)]),
    "claims": lambda n: pod(resourceClaims=[{"name": f"c{i}", "resourceClaimName": f"c{i}"} for i in range(n)]),
}


def cluster(n_nodes):
    placed = [pod(f"placed-{i}", on=f"n{i}", labels={"app": f"a{i % 10}"}) for i in range(n_nodes)]
    return state([node(f"n{i}") for i in range(n_nodes)], placed)


def work(manifest, n_nodes):
    decide(cluster(1), manifest)  # NumPy imports some modules at their first use
    snapshot, decider = cluster(n_nodes).snapshot(), Decider(chain.assemble())
    decider.decide(snapshot, case.pending({"pod": pod()}))
    asked = case.pending({"pod": manifest})
    return calls(lambda: decider.decide(snapshot, asked))


@pytest.mark.parametrize("name", PODS)
def test_twice_the_pod_takes_twice_the_work(name):
    assert work(PODS[name](100), 20) <= 2.2 * work(PODS[name](50), 20)


@pytest.mark.parametrize("name", PODS)
def test_each_part_of_a_pod_is_no_work_for_each_node(name):
    """Columns are read as a whole, and those of labels that no node has are not made."""
    assert work(PODS[name](90), 200) - work(PODS[name](90), 50) <= (200 - 50) * 90 / 4


def test_a_change_is_checked_once_for_pods_that_differ_in_labels_only():
    """Each pod of an indexed Job has a template of its own; thousands of them may wait for room."""

    def waking(n):
        waiting, chained = WaitingPods(), chain.assemble()
        rejectors = frozenset(chained.plugin(name) for name in ("NodeResourcesFit", "TaintToleration", "NodeAffinity"))
        profile = Profile("wharfinger", chained)
        for i in range(n):
            found = case.pending({"pod": pod(f"p{i}", labels={"index": str(i)}, requests={"cpu": "64"})})
            queued = QueuedPod(pod=found, profile=profile, sort_key=0, first_seen=0.0, waits_since=0.0, queued_at=0.0, rejectors=rejectors)
            waiting.add(queued)
        gone = case.pending({"pod": pod("gone", on="n0")})
        change = Change(events=ClusterEvent.POD_REMOVED, label="", node="n0", pod=gone)
        there = cluster(20)
        assert waiting.pods_to_wake(change, there.snapshot, ignore) == []
        return calls(lambda: waiting.pods_to_wake(change, there.snapshot, ignore))

    assert waking(1000) < 2 * waking(10)


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_terms_of_placed_pods_by_keys_that_no_node_has_are_hardly_any_work_for_others(kind):
    """Every user who can create pods can write such terms. They apply to every pod that is placed afterwards."""
    placed = near(2000, kind, "key{}")
    placed = {**placed, "metadata": {**placed["metadata"], "name": "placed", "uid": "placed"}, "spec": {**placed["spec"], "nodeName": "n0"}}
    alone, beside = (decided_second(state([node(f"n{i}") for i in range(20)], found)) for found in ([], [placed]))
    assert beside <= alone + 10 * 2000


def decided_second(cluster):
    """The work for a pod on a cluster on which a pod of another template was decided before."""
    snapshot, decider = cluster.snapshot(), Decider(chain.assemble())
    decider.decide(snapshot, case.pending({"pod": pod(labels={"app": "first"})}))
    return calls(lambda: decider.decide(snapshot, case.pending({"pod": pod(labels={"app": "second"})})))


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        (near(101, "podAffinity", "k{}"), "pod affinity cannot be read: there are 101 terms; at most 100 are supported"),
        (preferred(101, "podAntiAffinity", "k{}"), "pod affinity cannot be read: there are 101 terms; at most 100 are supported"),
        (spread(101, "ScheduleAnyway", "k{}"), "topology spread constraints cannot be read: there are 101; at most 100 are supported"),
        (requesting(32), "the pod requests 32 different resources; at most 31 are supported"),
        (on_nodes(1001, "Gt", "cores", "{}"), "the pod has 1,001 requirements on its node; at most 1,000 are supported"),
        (on_names(1001), "the pod has 1,001 requirements on its node; at most 1,000 are supported"),
        (preferring(1001), "the pod has 1,001 requirements on its node; at most 1,000 are supported"),
        (
            on_nodes(1, "NotIn", "rack", *map(str, range(10_001))),
            "the pod has 10,001 values in its requirements on its node; at most 10,000 are supported",
        ),
        (on_nodes(51, "Exists", "k{}"), "the pod has 51 different labels in its requirements on its node; at most 50 are supported"),
        (
            PODS["labels for the node"](51),
            "the pod has 51 different labels in its requirements on its node; at most 50 are supported",
        ),
        (PODS["ports"](501), "the pod has 501 host ports; at most 500 are supported"),
        (PODS["disks"](201), "the pod has 201 claims and disks; at most 200 are supported"),
        (PODS["volumes of claims"](201), "the pod has 201 claims and disks; at most 200 are supported"),
    ],
)
def test_a_pod_with_too_many_parts_is_refused_in_words(manifest, reason):
    decision = decide(state([node("a")]), manifest)
    assert decision.message.startswith(f"0/1 nodes are available: {reason}")


def test_the_most_resources_that_are_supported_are_all_compared():
    """A node that has all but the last is refused for it."""
    offer = {f"example.com/r{i}": "1" for i in range(30)}
    assert decide(state([node("a", offer=offer)]), requesting(31)).message.startswith(
        "0/1 nodes are available: 1 Insufficient example.com/r30."
    )
    assert decide(state([node("a", offer=offer | {"example.com/r30": "1"})]), requesting(31)).node == "a"


LARGE = pod(
    tolerations=[{"key": f"k{i}", "value": "v", "effect": "NoSchedule"} for i in range(2000)],
    containers=[{"name": f"c{i}", "image": "web:1", "resources": {"limits": {f"example.com/r{i}": "1"}}} for i in range(500)],
)


@pytest.mark.parametrize("condition", ['tolerates(pod, "k{0}=w:NoSchedule")', '(pod.limits["example.com/r{0}"] ?? 0) > 3'])
def test_fields_of_a_large_pod_are_read_once(condition):
    """Each question of a policy is no work for each toleration or container of the pod."""
    conditions = " or ".join(f"({condition.replace('{0}', str(i))})" for i in range(90))
    policy, _ = checked(f'policy "p"\nfilter f {{ require {conditions} }}\n')
    decider = Decider(chain.assemble([compile_policy(policy)]))
    snapshot, asked = cluster(5).snapshot(), case.pending({"pod": LARGE})
    decider.decide(snapshot, case.pending({"pod": pod()}))
    assert calls(lambda: decider.decide(snapshot, asked)) < 40_000
