"""kube-scheduler and Wharfinger make the same decisions on the same cluster.

Each pod is created when the one before is bound, so that the order is known. The choices are then replayed one by one: each must be among
the nodes that are best for the product, given the choices before. With less than 100 nodes kube-scheduler looks at all of them.

Pods with all kinds of requirements are decided one by one: the node, the pods that are evicted, and the reason why a pod waits are the
same.

WHARF_DRAWN_PODS=5000 python -m pytest tests/cluster/test_kube_scheduler.py -k drawn     so many per seed; few without it
"""

import json
import os
import random
import time
from contextlib import suppress
from typing import NamedTuple

import pytest

from tests.cluster import objects
from tests.cluster.api import Refused
from tests.cluster.drawn_pods import Drawing
from tests.cluster.kube_scheduler import start_kube_scheduler
from tests.cluster.snapshot import read_cluster
from tests.cluster.soundness import assert_sound, overcommitted
from tests.cluster.waiting import eventually
from tests.cluster.what_if_batch import has_its_volume, is_ready
from wharfinger import cli
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import decide
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import files

N_NODES = 40
N_PODS = 250
N_DRAWN = int(os.environ.get("WHARF_DRAWN_PODS", "80"))
FIRST_SEED = int(os.environ.get("WHARF_FIRST_DRAWN_SEED", "0"))
MAX_RUNNING = 90
SEEN_AFTER = 0.1
"""Seconds within which kube-scheduler knows of a change."""
UNCHANGED = 0.3
"""Seconds after which a pod without a node and without a nomination waits."""
ZONE = "topology.kubernetes.io/zone"
APPS = ("api", "cache", "batch", "web")
KINDS = "nodes,pods,namespaces,services,replicasets,pvc,pv,storageclasses,csinodes,pdb,priorityclasses"


def _node(i):
    taints = [{"key": "dedicated", "value": "batch", "effect": "NoSchedule" if i % 2 else "PreferNoSchedule"}] if i % 7 == 0 else None
    labels = {ZONE: f"zone-{i % 3}", "disk": "ssd" if i % 4 == 0 else "hdd"}
    return {"cpu": str(8 + i % 5), "memory": f"{16 + 3 * (i % 11)}Gi", "labels": labels, "taints": taints}


def _pod(rng):
    app = rng.choice(APPS)
    selector = {"labelSelector": {"matchLabels": {"app": app}}}
    term = {"topologyKey": rng.choice([ZONE, "kubernetes.io/hostname"]), **selector}
    spread = {"maxSkew": 2, "topologyKey": ZONE, "whenUnsatisfiable": rng.choice(["DoNotSchedule", "ScheduleAnyway"]), **selector}
    wants_ssd = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    extra = rng.choice(
        [
            {},
            {"nodeSelector": {"disk": "ssd"}},
            {"tolerations": [{"key": "dedicated", "operator": "Exists"}]},
            {"topologySpreadConstraints": [spread]},
            {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 40, "preference": wants_ssd}]}}},
            {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 30, "podAffinityTerm": term}]}}},
            {
                "affinity": {
                    "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 60, "podAffinityTerm": term}]}
                }
            },
        ]
    )
    return {"cpu": f"{rng.randrange(5, 90) * 10}m", "memory": f"{rng.randrange(32, 1500)}Mi", "labels": {"app": app}, **extra}


@pytest.mark.parametrize("seed", [1, 2])
def test_kube_scheduler_takes_a_node_that_is_best_here_too(control_plane, nodes, seed):
    rng = random.Random(seed)
    nodes(N_NODES, each=_node)
    before = read_cluster(control_plane.api)
    start_kube_scheduler(control_plane)

    placed = [_placed(control_plane.api, objects.pod(f"pod-{i:04d}", **_pod(rng))) for i in range(N_PODS)]

    single = _replay(before.state, placed)
    assert single > N_PODS / 2, "nearly everything was a tie: the comparison says little"
    assert_sound(control_plane)


def _placed(api, pod):
    """(the pod as it was created, the node that kube-scheduler has chosen)."""
    name = pod["metadata"]["name"]
    created = files.read_bytes(json.dumps({"apiVersion": "v1", "kind": "Pod", **api.create(pod)}).encode()).pods
    node = eventually(lambda: api.get("Pod", name)["spec"].get("nodeName"), every=0.005)
    return PodView(created[0]), node


def _replay(state, placed):
    """The number of choices without an alternative; fails at the first that is not among the best."""
    chain, single = assemble(), 0
    for pod, node in placed:
        ranking = decide(chain, state.snapshot(), pod).ranking(N_NODES)
        best = [ranked.node for ranked in ranking if ranked.totals == ranking[0].totals]
        assert node in best, f"{pod.key} went to {node}, and here it is {ranking[:5]}"
        single += len(best) == 1
        state.assume(pod, node)
    return single


def test_a_snapshot_of_kubectl_is_decided_with_the_words_of_kube_scheduler(control_plane, nodes, kubectl, tmp_path, capsys):
    nodes(N_NODES, each=_node)
    hopeless = {
        "big": {"cpu": "100"},
        "choosy": {"nodeSelector": {"disk": "tape"}},
        "elsewhere": {"nodeSelector": {ZONE: "zone-1"}, "memory": "900Gi"},
        "hungry": {"cpu": "50", "memory": "900Gi"},
    }
    control_plane.api.create_many(objects.pod(name, **fields) for name, fields in hopeless.items())
    snapshot = tmp_path / "snapshot.json"
    snapshot.write_text(kubectl("get", KINDS, "-A", "-o", "json"))

    assert cli.main(["dry-run", "--snapshot", str(snapshot), "--format", "json"]) == 0
    ours = {pod["pod"].split("/")[1]: pod["message"] for pod in json.loads(capsys.readouterr().out)["pods"]}
    start_kube_scheduler(control_plane)

    assert ours == eventually(lambda: _messages(control_plane.api, len(hopeless)))
    assert_sound(control_plane)


def _messages(api, count):
    """Every pod has the reason why it is pending."""
    found = {pod["metadata"]["name"]: pod["status"].get("conditions", [{}])[0].get("message") for pod in api.list("Pod")}
    return found if len(found) == count and all(found.values()) else None


def test_the_harness_sees_what_is_wrong(control_plane, nodes, pods):
    (node,) = nodes(1, cpu="1")
    (ignored, *bound) = pods(4, cpu="600m")
    for pod in bound:
        control_plane.api.bind(pod, node)

    assert list(overcommitted(read_cluster(control_plane.api).state))
    with pytest.raises(AssertionError, match=f"{node} offers 1000 of resource 0, its pods request 1800"):
        assert_sound(control_plane, within=0)
    with pytest.raises(AssertionError, match=f"default/{ignored} is pending without a reason"):
        assert_sound(control_plane, within=0)
    with pytest.raises(AssertionError, match="default/held is still assumed"):
        assert_sound(control_plane, within=0, assumed=lambda: ["default/held"])


class Outcome(NamedTuple):
    """What became of a pod: its node, or the reason why it waits; and the pods that had to leave for it."""

    node: str | None
    message: str
    evicted: tuple[str, ...]


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + 2))
def test_drawn_pods_end_as_they_are_decided_here(control_plane, seed):
    api, drawing, chain = control_plane.api, Drawing(seed), assemble()
    api.create_many(drawing.setting())
    api.patch("Namespace", "default", {"metadata": {"labels": {"tier": "default"}}})
    api.create_many(drawing.nodes())
    eventually(lambda: all(map(is_ready, api.list("Node"))))
    api.create_many(drawing.on_nodes())
    start_kube_scheduler(control_plane)
    different, kinds = [], set()
    for number in range(N_DRAWN):
        drawn = drawing.pod(number)
        for other in drawn.others:
            with suppress(Refused):  # a claim that other pods have too
                api.create(other)
        eventually(lambda: all(map(has_its_volume, api.list("PersistentVolumeClaim"))), every=0.01)
        time.sleep(SEEN_AFTER)
        before = read_cluster(api)
        created = api.create(drawn.pod)
        decision = decide(chain, before.state.snapshot(), _view(created))
        found = _outcome(api, created, {pod.key for pod, _ in before.state.placements()})
        kinds.add((found.node is not None, bool(found.evicted)))
        if not _agrees(decision, found):
            different.append(f"{decision.pod.key}: {found}, and here it is {decision}; {decision.nominated} {decision.victims}")
        _go_on(api, drawing, created, waits=found.node is None)

    assert not different
    assert kinds >= {(True, False), (False, False)}
    assert N_DRAWN < 1000 or (True, True) in kinds


def _view(created):
    return PodView(files.read_bytes(json.dumps({"apiVersion": "v1", "kind": "Pod", **created}).encode()).pods[0])


def _outcome(api, pod, running):
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    waiting_since = None

    def ended():
        nonlocal waiting_since
        now = api.get("Pod", name, namespace)
        if "nodeName" in now["spec"]:
            return now
        if not _reason(now) or now["status"].get("nominatedNodeName"):
            return None
        waiting_since = waiting_since or time.monotonic()
        return now if time.monotonic() - waiting_since > UNCHANGED else None

    found = eventually(ended, every=0.01)
    left = {
        f"{each['metadata']['namespace']}/{each['metadata']['name']}"
        for each in api.list("Pod")
        if "deletionTimestamp" not in each["metadata"]
    }
    node = found["spec"].get("nodeName")
    return Outcome(node, _reason(found) if node is None else "", tuple(sorted(running - left)))


def _reason(pod):
    """The reason why a pod is not scheduled, or None."""
    return next((each.get("message") for each in pod["status"].get("conditions", ()) if each["type"] == "PodScheduled"), None)


def _agrees(decision, found):
    if found.evicted:
        return (decision.nominated, tuple(sorted(pod.key for pod in decision.victims))) == (found.node, found.evicted)
    if found.node is not None:
        return found.node in decision.equal_nodes
    return (decision.node, decision.message) == (None, found.message)


def _go_on(api, drawing, pod, *, waits):
    """A pod that waits is removed, so that nothing is in the queue; pods leave and nodes change."""
    if waits:
        api.delete("Pod", pod["metadata"]["name"], pod["metadata"]["namespace"])
    running = [each for each in api.list("Pod") if "nodeName" in each["spec"]]
    for _ in range(2):
        if running and (drawing.chance(drawing.leaving) or len(running) > MAX_RUNNING):
            leaving = running.pop(drawing.random.randrange(len(running)))
            api.delete("Pod", leaving["metadata"]["name"], leaving["metadata"]["namespace"])
    if drawing.chance(0.08):
        api.patch("Node", *drawing.change_of_node())
