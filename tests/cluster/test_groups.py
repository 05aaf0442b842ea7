"""PodGroups on a real API server: kube-scheduler 1.36 with its gates on, and the product, on the same groups.

Where kube-scheduler places all members of a group that has one placement, the product places them there too. It may place more groups, as
it searches where kube-scheduler tries once, and never a group that has no placement.
"""

import json
from collections import Counter

import pytest

from tests.cluster import objects
from tests.cluster.group_cases import cases
from tests.cluster.kube_scheduler import start_kube_scheduler
from tests.cluster.process import WharfProcess
from tests.cluster.snapshot import read_cluster
from tests.cluster.waiting import eventually
from tests.group_searches import place
from wharfinger import cli
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.groups.membership import group_index
from wharfinger.groups.terms import Impossible, Placed

COSCHEDULING = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "podgroups.scheduling.x-k8s.io",
        "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/scheduler-plugins/pull/50"},
    },
    "spec": {
        "group": "scheduling.x-k8s.io",
        "names": {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
"""The PodGroups of the coscheduling plugin, without the schema of their fields."""

ONE, PARTIAL, HOPELESS = 50, 10, 12


def create(cluster, found, scheduler):
    """Creates pods before PodGroups, so that each group is whole when it is first tried."""
    for case in found:
        for pod in case.pod_objects(scheduler):
            cluster.api.create(pod)
    for case in found:
        cluster.api.create(case.podgroup())


def conditions(api):
    """(status, reason, message) of `PodGroupScheduled` by PodGroup."""
    return {
        group["metadata"]["name"]: (each["status"], each["reason"], each["message"])
        for group in api.list("PodGroup")
        for each in group.get("status", {}).get("conditions", [])
        if each["type"] == "PodGroupScheduled"
    }


def placed_by(case, pods):
    """The placement that a scheduler has chosen."""
    found = Counter()
    for index, cpu in enumerate(case.requests):
        node = pods[f"{case.name}-{index}"]["spec"].get("nodeName")
        if node:
            found[cpu, node] += 1
    return frozenset(found.items())


def reasons(case, pods):
    """(status, reason) of `PodScheduled` of the members."""
    found = [pods[f"{case.name}-{index}"]["status"].get("conditions", []) for index in range(len(case.requests))]
    return {(each["status"], each.get("reason")) for conditions in found for each in conditions if each["type"] == "PodScheduled"}


@pytest.fixture
def drawn(control_plane):
    """Cases, and their nodes in the cluster."""
    found = cases(7, one=ONE, partial=PARTIAL, hopeless=HOPELESS)
    make_nodes(control_plane, found.all)
    return found


def test_a_group_with_one_answer_goes_where_kube_scheduler_puts_it(control_plane, drawn):
    create(control_plane, drawn.all, "default-scheduler")
    before = read_cluster(control_plane.api)
    start_kube_scheduler(control_plane, groups=True)
    theirs, pods = settled(control_plane.api, drawn.all)
    decider, index = Decider(assemble()), group_index(before.pending, before.state.objects)
    answers = {case.name: place(decider, before.state, index.group(f"default/{case.name}")) for case in drawn.all}

    compared = 0
    for case in drawn.one:
        (only,) = case.placements(case.min_count)
        assert chosen(before, case, answers[case.name]) == only, case
        if theirs[case.name][0] == "True":
            assert placed_by(case, pods) == only, case
            compared += 1
    assert compared >= ONE // 2, "kube-scheduler placed too few: the comparison says little"
    for case in drawn.partial:
        assert case.is_sound(placed_by(case, pods)), case
        assert (placed := chosen(before, case, answers[case.name])), case
        assert case.is_sound(placed), case
    for case in drawn.hopeless:
        assert theirs[case.name][0] == "False", case
        assert isinstance(answers[case.name], Impossible), case


def test_a_live_group_gets_the_nodes_and_the_status_that_kube_scheduler_gives(control_plane, drawn):
    create(control_plane, drawn.all, "default-scheduler")
    kube_scheduler = start_kube_scheduler(control_plane, groups=True)
    theirs, their_pods = settled(control_plane.api, drawn.all)
    kube_scheduler.kill()
    for kind in ("Pod", "PodGroup"):
        control_plane.api.delete_all(kind)
    eventually(lambda: not control_plane.api.any("PodGroup"))

    with WharfProcess(control_plane) as wharf:
        wharf.wait_scheduling()
        create(control_plane, drawn.all, "wharfinger")
        ours, our_pods = settled(control_plane.api, drawn.all)
        assert wharf.terminate() == 0
    hopeless = {case.name for case in drawn.hopeless}
    for case in drawn.all:
        status, reason, message = theirs[case.name]
        if case.name in hopeless:
            assert ours[case.name][:2] == (status, reason) == ("False", "Unschedulable"), case
            assert ours[case.name][2].startswith(f"{message}; "), case
            assert reasons(case, our_pods) == reasons(case, their_pods) == {("False", "Unschedulable")}, case
        else:
            assert ours[case.name] == ("True", "Scheduled", ""), case
            assert status == "False" or theirs[case.name] == ours[case.name], case
        assert case.is_sound(placed_by(case, our_pods)), case
    for case in drawn.one:
        assert theirs[case.name][0] == "False" or placed_by(case, our_pods) == placed_by(case, their_pods), case


def test_a_group_waits_for_a_podgroup_that_comes_late_and_for_its_last_member(control_plane, nodes):
    (node,) = nodes(1)
    api = control_plane.api
    with WharfProcess(control_plane) as wharf:
        wharf.wait_scheduling()
        member = {"scheduler": "wharfinger", "schedulingGroup": {"podGroupName": "team"}}
        api.create(objects.pod("first", **member))
        api.create(objects.pod("alone", scheduler="wharfinger"))
        eventually(lambda: api.get("Pod", "alone")["spec"].get("nodeName"))
        api.create(objects.podgroup("team", 2))
        api.create(objects.pod("other", scheduler="wharfinger"))
        eventually(lambda: api.get("Pod", "other")["spec"].get("nodeName"))
        assert not api.get("Pod", "first")["spec"].get("nodeName")
        api.create(objects.pod("second", **member))
        eventually(lambda: [api.get("Pod", name)["spec"].get("nodeName") for name in ("first", "second")] == [node, node])
        eventually(lambda: conditions(api) == {"team": ("True", "Scheduled", "")})
        events = eventually(lambda: [each for each in api.list("Event") if each["regarding"].get("kind") == "PodGroup"])
        assert [(each["reason"], each["note"]) for each in events] == [("Scheduled", "Placed 2 pods on 1 node")]
        assert wharf.terminate() == 0
        assert "PodGroup" not in "".join(line for line in wharf.log.splitlines() if '"error"' in line)


def test_a_group_with_a_gated_member_gets_the_status_that_kube_scheduler_gives(control_plane, nodes):
    nodes(1)
    api = control_plane.api
    for group, scheduler in (("theirs", "default-scheduler"), ("ours", "wharfinger")):
        for number in range(3):
            gates = [{"name": "example.com/wait"}] if number == 2 else []
            member = {"schedulingGroup": {"podGroupName": group}, "schedulingGates": gates}
            api.create(objects.pod(f"{group}-{number}", scheduler=scheduler, **member))
        api.create(objects.podgroup(group, 3))
    start_kube_scheduler(control_plane, groups=True)
    with WharfProcess(control_plane) as wharf:
        found = eventually(lambda: both if len(both := conditions(api)) == 2 else None)
        assert found["ours"][:2] == found["theirs"][:2] == ("False", "Unschedulable")
        assert found["ours"][2].startswith(f"{found['theirs'][2]}; ")
        eventually(lambda: pod_reasons(api, "ours") == pod_reasons(api, "theirs") == ["Unschedulable", "Unschedulable", "SchedulingGated"])
        for group in ("theirs", "ours"):
            api.patch("Pod", f"{group}-2", {"spec": {"schedulingGates": []}})
        eventually(lambda: all(placed_on(api, f"{group}-{number}") for group in ("theirs", "ours") for number in range(3)))
        assert wharf.terminate() == 0


def pod_reasons(api, group):
    """The reason of `PodScheduled` of each of three members, "" without the condition."""
    found = [api.get("Pod", f"{group}-{number}")["status"].get("conditions", []) for number in range(3)]
    return [next((each.get("reason", "") for each in of if each["type"] == "PodScheduled"), "") for of in found]


def test_pods_of_the_coscheduling_plugin_move_with_their_labels(control_plane, nodes, kubectl, tmp_path, capsys):
    (node,) = nodes(1, cpu="4")
    kubectl("apply", "-f", "-", content=json.dumps(COSCHEDULING))
    try:
        kubectl("wait", "--for=condition=Established", "crd/podgroups.scheduling.x-k8s.io", "--timeout=60s")
        with WharfProcess(control_plane) as wharf:
            wharf.wait_scheduling()
            for group, cpu in (("fits", "1"), ("large", "3")):
                body = {
                    "apiVersion": "scheduling.x-k8s.io/v1alpha1",
                    "kind": "PodGroup",
                    "metadata": {"name": group},
                    "spec": {"minMember": 2},
                }
                for index in range(2):
                    pod = objects.pod(f"{group}-{index}", cpu=cpu, labels={"scheduling.x-k8s.io/pod-group": group}, scheduler="wharfinger")
                    control_plane.api.create(pod)
                kubectl("apply", "-f", "-", content=json.dumps(body))
            eventually(lambda: [placed_on(control_plane.api, f"fits-{index}") for index in range(2)] == [node, node])
            eventually(lambda: any(each["regarding"]["kind"] == "PodGroup" for each in control_plane.api.list("Event")))
            assert [placed_on(control_plane.api, f"large-{index}") for index in range(2)] == ["", ""]
            assert wharf.terminate() == 0
        snapshot = tmp_path / "snapshot.json"
        assert cli.main(["snapshot", "--kubeconfig", str(control_plane.kubeconfig), "-o", str(snapshot)]) == 0
        capsys.readouterr()
        assert cli.main(["dry-run", "--snapshot", str(snapshot), "--format", "json"]) == 0
        reported = json.loads(capsys.readouterr().out)
        assert {pod["pod"]: pod["node"] for pod in reported["pods"]} == {"default/large-0": None, "default/large-1": None}
        assert [group["group"] for group in reported["groups"]] == ["default/large"]
    finally:
        kubectl("delete", "crd", "podgroups.scheduling.x-k8s.io")


def placed_on(api, name):
    return api.get("Pod", name)["spec"].get("nodeName", "")


def chosen(cluster, case, answer):
    """The placement of an answer."""
    assert isinstance(answer, Placed), case
    names = {pod.uid: pod.name for pod in cluster.pending}
    return frozenset(Counter((case.requests[int(names[uid].rpartition("-")[2])], node) for uid, node in answer.nodes.items()).items())


def make_nodes(cluster, found):
    """Creates the nodes of cases, and waits until kwok has made them Ready."""
    made = cluster.api.create_many(node for case in found for node in case.node_objects())
    ready = {"type": "Ready", "status": "True"}.items()
    eventually(
        lambda: (
            len(made)
            == sum(any(ready <= each.items() for each in node["status"].get("conditions", ())) for node in cluster.api.list("Node"))
        )
    )


def settled(api, every):
    """(conditions, pods) once each PodGroup has a condition, and each that is placed has its members on nodes."""

    def look():
        found, pods = conditions(api), {pod["metadata"]["name"]: pod for pod in api.list("Pod")}
        done = len(found) == len(every) and all(
            sum(dict(placed_by(case, pods)).values()) >= case.min_count for case in every if found[case.name][0] == "True"
        )
        return (found, pods) if done else None

    return eventually(look)
