"""kube-scheduler and Wharfinger make the same decisions on the same cluster.

Each pod is created when the one before is bound, so that the order is known. The choices are then replayed one by one: each must be among
the nodes that are best for the product, given the choices before. With less than 100 nodes kube-scheduler looks at all of them.
"""

import json
import random

import pytest

from tests.cluster import objects
from tests.cluster.kube_scheduler import start_kube_scheduler
from tests.cluster.snapshot import read_cluster
from tests.cluster.soundness import assert_sound, overcommitted
from tests.cluster.waiting import eventually
from wharfinger import cli
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import decide
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import files

N_NODES = 40
N_PODS = 250
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
