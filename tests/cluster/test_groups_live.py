"""Groups on a real API server when the scheduler dies between two bindings, the API server restarts, and members come late or leave.

What must hold in the end: every group has as many members on nodes as it needs, in one rack, and nothing is bound twice.
"""

import signal
import time
from collections import Counter, defaultdict

import pytest

from tests.cluster import objects
from tests.cluster.live import LiveScheduler
from tests.cluster.misbehaviour import Answer, Hold
from tests.cluster.process import WharfProcess
from tests.cluster.proxy import Proxy
from tests.cluster.replicas import BINDING, CREATED, NAME
from tests.cluster.soundness import assert_sound
from tests.cluster.test_preemption import priority_class
from tests.cluster.waiting import eventually
from tests.unit.simulate.clusters import chain_of

RACK = "rack"


@pytest.fixture
def racks(control_plane):
    """Four racks of two nodes, each for four members."""
    return control_plane.api.create_many(
        objects.node(f"r{rack}n{number}", cpu="4", labels={RACK: f"r{rack}"}) for rack in range(4) for number in range(2)
    )


def member(group, number):
    return objects.pod(f"{group}-{number}", cpu="1", scheduler=NAME, schedulingGroup={"podGroupName": group})


def create(api, group, count, least=None):
    api.create_many(member(group, number) for number in range(count))
    api.create(objects.podgroup(group, count if least is None else least, within=RACK))


def nodes_of(api):
    """Nodes of the bound members by group."""
    found = defaultdict(list)
    for pod in api.list("Pod"):
        if pod["spec"].get("nodeName"):
            found[pod["spec"]["schedulingGroup"]["podGroupName"]].append(pod["spec"]["nodeName"])
    return found


def racks_of(api):
    return {group: {node[:2] for node in nodes} for group, nodes in nodes_of(api).items()}


def bindings(*proxies):
    """The number of bindings that the API server reported, by pod."""
    seen = [exchange for proxy in proxies for exchange in tuple(proxy.seen)]
    return Counter(exchange.path.split("/")[-2] for exchange in seen if BINDING.search(exchange.path) and exchange.status == CREATED)


def complete(api, groups):
    found = nodes_of(api)
    return all(len(found[name]) >= count for name, count in groups.items())


def test_a_scheduler_killed_between_two_bindings_of_a_group_completes_it_after_a_restart(control_plane, racks):
    api = control_plane.api
    with Proxy(control_plane) as before, Proxy(control_plane) as after:
        before.add(Hold(), method="POST", path="/binding$", every=2)
        with WharfProcess(control_plane, kubeconfig=before.kubeconfig) as wharf:
            wharf.wait_scheduling()
            create(api, "g", 6)
            create(api, "h", 6)
            eventually(lambda: len(nodes_of(api)["g"]) >= 2 and len(nodes_of(api)["h"]) >= 2)
            wharf.signal(signal.SIGKILL)
            wharf.wait()
        parts = {group: len(nodes) for group, nodes in nodes_of(api).items()}
        assert all(0 < count < 6 for count in parts.values()), "it was killed too late"
        there = racks_of(api)
        with WharfProcess(control_plane, kubeconfig=after.kubeconfig) as wharf:
            eventually(lambda: complete(api, {"g": 6, "h": 6}))
            assert racks_of(api) == there, "the members that were bound pin the rack"
            assert wharf.terminate() == 0
        assert set(bindings(before, after).values()) == {1}
        assert_sound(control_plane)


def test_an_api_server_that_restarts_in_the_middle_leaves_no_group_in_part(control_plane, racks):
    api = control_plane.api
    with Proxy(control_plane) as proxy, WharfProcess(control_plane, kubeconfig=proxy.kubeconfig) as wharf:
        wharf.wait_scheduling()
        hold = Hold()
        proxy.add(hold, method="POST", path="/binding$", every=3)
        groups = {f"g{number}": 4 for number in range(8)}
        for name, count in groups.items():
            create(api, name, count)
        eventually(lambda: sum(bindings(proxy).values()) >= 4)
        control_plane.api_server.kill()
        hold.let_go()
        proxy.clear()
        control_plane.start_api_server()
        eventually(lambda: complete(api, groups))
        assert {len(found) for found in racks_of(api).values()} == {1}
        assert max(bindings(proxy).values()) == 1
        assert wharf.terminate() == 0
    assert_sound(control_plane)


def test_members_that_come_late_or_leave(control_plane, racks):
    api = control_plane.api
    with Proxy(control_plane) as proxy, WharfProcess(control_plane, kubeconfig=proxy.kubeconfig) as wharf:
        wharf.wait_scheduling()
        create(api, "g", 2, least=3)
        create(api, "other", 2)
        eventually(lambda: complete(api, {"other": 2}))
        assert "g" not in nodes_of(api)
        api.create(member("g", 2))
        eventually(lambda: complete(api, {"g": 3}))
        (rack,) = racks_of(api)["g"]
        api.create(member("g", 3))
        eventually(lambda: complete(api, {"g": 4}))
        api.delete("Pod", "g-0")
        eventually(lambda: len(nodes_of(api)["g"]) == 3)
        api.create(member("g", 4))
        eventually(lambda: complete(api, {"g": 4}))
        assert racks_of(api)["g"] == {rack}

        hold = Hold()
        proxy.add(hold, method="POST", path="/late-[0-9]/binding$")
        create(api, "late", 3)
        hold.catch()
        for number in range(3):
            api.delete("Pod", f"late-{number}")
        proxy.clear()
        hold.let_go()
        api.create_many(member("late", number) for number in range(3))
        eventually(lambda: complete(api, {"late": 3}))
        assert len(racks_of(api)["late"]) == 1
        assert wharf.terminate() == 0
    assert_sound(control_plane)


PATIENT = 'policy "jobs"\ngroup by pod.labels["job"] { min_count 3 timeout 5s within required "rack" }\n'


def worker(name):
    return objects.pod(name, cpu="1", scheduler=NAME, labels={"job": "j"})


def test_a_group_in_part_stays_as_it_is_beyond_its_timeout_until_the_others_can_be_bound(control_plane, proxy, racks):
    """One member is refused for longer than the timeout, and a bound one is deleted and made again."""
    api = control_plane.api
    proxy.add(Answer(status=422), method="POST", path="/j-2/binding$")
    with LiveScheduler(proxy.kubeconfig, chain_of(PATIENT)) as scheduler:

        def nodes():
            return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in api.list("Pod") if "nodeName" in pod["spec"]}

        def tried(times):
            return eventually(lambda: scheduler.complaints.attempts["default/j-2"] >= times)

        api.create_many(worker(f"j-{number}") for number in range(3))
        eventually(lambda: len(nodes()) == 2)
        before = nodes()
        time.sleep(6)
        tried(3)
        assert nodes() == before, "bound members are not evicted"
        eventually(lambda: scheduler.assumed() == [])  # nothing is kept for the other one between two attempts
        waits = next(each for each in api.get("Pod", "j-2")["status"]["conditions"] if each["type"] == "PodScheduled")
        assert waits["status"] == "False"

        api.delete("Pod", "j-0")
        api.create(worker("j-3"))
        eventually(lambda: "j-3" in nodes())
        proxy.clear()
        eventually(lambda: set(nodes()) == {"j-1", "j-2", "j-3"})
        assert len({node[:2] for node in nodes().values()}) == 1
        assert nodes()["j-1"] == before["j-1"]
        assert_sound(control_plane, assumed=scheduler.assumed, chain=chain_of(PATIENT))


def scheduled(api, group):
    """The status and reason of the condition PodGroupScheduled; None as long as there is none."""
    conditions = api.get("PodGroup", group).get("status", {}).get("conditions", [])
    return next(((each["status"], each["reason"]) for each in conditions if each["type"] == "PodGroupScheduled"), None)


def test_groups_that_exclude_each_other_and_a_podgroup_that_is_made_again(control_plane, racks):
    """A rack takes eight members; the group `few` leaves three racks for four groups that need one each."""
    api = control_plane.api
    with Proxy(control_plane) as proxy, WharfProcess(control_plane, kubeconfig=proxy.kubeconfig) as wharf:
        wharf.wait_scheduling()
        create(api, "few", 4, least=5)
        create(api, "other", 1)
        eventually(lambda: complete(api, {"other": 1}))
        assert "few" not in nodes_of(api)
        api.delete("PodGroup", "few")  # it stays, with its finalizer, as long as it has members
        for number in range(4):
            api.delete("Pod", f"few-{number}")
        eventually(lambda: all(each["metadata"]["name"] != "few" for each in api.list("PodGroup")))
        create(api, "few", 4)
        eventually(lambda: complete(api, {"few": 4}))
        api.delete("Pod", "other-0")

        groups = [f"whole-{number}" for number in range(4)]
        for group in groups:
            create(api, group, 8)
        eventually(lambda: sorted(len(nodes_of(api)[group]) for group in groups) == [0, 8, 8, 8])
        (waiting,) = (group for group in groups if not nodes_of(api)[group])
        eventually(lambda: scheduled(api, waiting) == ("False", "Unschedulable"))
        gone = next(group for group in groups if group != waiting)
        for number in range(8):
            assert waiting not in nodes_of(api)
            api.delete("Pod", f"{gone}-{number}")
        eventually(lambda: complete(api, {waiting: 8}))
        eventually(lambda: scheduled(api, waiting) == ("True", "Scheduled"))
        assert {len(found) for found in racks_of(api).values()} == {1}
        assert max(bindings(proxy).values()) == 1
        assert wharf.terminate() == 0
    assert_sound(control_plane)


WHOLE = 'policy "jobs"\ngroup by pod.labels["job"] { min_count 8 disruption group }\n'


def workers(job, **more):
    """Eight pods, each of which needs a node of its own."""
    labels = {"job": job}
    return [
        objects.pod(f"{job}-{number}", cpu="3", scheduler=NAME, labels=labels, terminationGracePeriodSeconds=1, **more)
        for number in range(8)
    ]


@pytest.mark.parametrize("method", ["DELETE", "PATCH"])
def test_a_group_of_which_one_eviction_is_refused_is_not_evicted_in_part(control_plane, proxy, racks, method):
    api = control_plane.api
    important = priority_class(api, "important")
    with LiveScheduler(proxy.kubeconfig, chain_of(WHOLE)) as scheduler:
        before = api.create_many(workers("old"))
        eventually(lambda: all(pod["spec"].get("nodeName") for pod in api.list("Pod")))
        refused = proxy.add(Answer(status=403), method=method, path="/pods/old-5(/status)?$")
        api.create_many(workers("new", priorityClassName=important))
        eventually(lambda: refused.done >= 2)  # it is tried again
        there = [pod for pod in api.list("Pod") if pod["metadata"]["name"].startswith("old-")]
        assert {pod["metadata"]["uid"] for pod in there} == {pod["metadata"]["uid"] for pod in before}
        assert all("deletionTimestamp" not in pod["metadata"] for pod in there)
        assert all(each["type"] != "DisruptionTarget" for pod in there for each in pod["status"]["conditions"])
        proxy.clear()
        eventually(lambda: {pod["metadata"]["name"] for pod in api.list("Pod")} == {f"new-{number}" for number in range(8)})
        eventually(lambda: all(pod["spec"].get("nodeName") for pod in api.list("Pod")))
        assert_sound(control_plane, assumed=scheduler.assumed, chain=chain_of(WHOLE))
