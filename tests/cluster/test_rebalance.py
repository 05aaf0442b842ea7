"""`wharf rebalance --apply` on a real API server keeps to budgets, survives a restart of the API server, and opens what it has cordoned."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.cluster import custom, objects
from tests.cluster.live import NAME, LiveScheduler
from tests.cluster.policies import policies, revision
from tests.cluster.process import WharfProcess
from tests.cluster.waiting import eventually, wait_bound
from wharfinger.what_if.rebalance.move_check import CORDONED_BY

WHARF = Path(sys.executable).with_name("wharf")
PODS = 6
MANY = 24


def budget(name, *, unavailable):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"maxUnavailable": unavailable, "selector": {"matchLabels": {"app": name}}},
    }


@pytest.fixture
def spread_out(control_plane, nodes):
    """A running scheduler, and six pods of a Deployment on three nodes of which one has room for all."""
    nodes(3, cpu="8")
    with LiveScheduler(control_plane.kubeconfig) as scheduler:
        control_plane.api.create(objects.deployment("web", PODS, scheduler=NAME, cpu="1"))
        wait_bound(control_plane, PODS)
        eventually(lambda: scheduler.running() == PODS)
        yield scheduler


def allowed(api, n):
    return lambda: api.get("PodDisruptionBudget", "web")["status"].get("disruptionsAllowed") == n


def used(api):
    return {pod["spec"]["nodeName"] for pod in api.list("Pod") if "nodeName" in pod["spec"]}


def rebalance(cluster, *flags, goal="free-nodes"):
    """The command, started."""
    command = [WHARF, "rebalance", "--live", f"--kubeconfig={cluster.kubeconfig}", "--min-age=0s", f"--goal={goal}", *flags]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class Lowest(threading.Thread):
    """Looks again and again how few ready pods there are, while the context lasts."""

    def __init__(self, api):
        super().__init__(daemon=True)
        self._api = api
        self._over = threading.Event()
        self.seen = PODS

    def run(self):
        while not self._over.wait(0.02):
            try:
                pods = self._api.list("Pod")
            except Exception:  # noqa: BLE001 — the API server is away for a while
                continue
            self.seen = min(self.seen, sum(map(ready, pods)))

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self.join()


def ready(pod):
    if pod["metadata"].get("deletionTimestamp"):
        return False
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in pod["status"].get("conditions", ()))


def test_nodes_are_freed_within_the_budget_across_a_restart_of_the_api_server(control_plane, spread_out):
    api = control_plane.api
    api.create(budget("web", unavailable=1))
    eventually(allowed(api, 1))
    before, n_used = {pod["metadata"]["uid"] for pod in api.list("Pod")}, len(used(api))
    assert n_used > 1
    with Lowest(api) as lowest:
        running = rebalance(control_plane, "--apply", "--pods-of", NAME)
        eventually(lambda: before - {pod["metadata"]["uid"] for pod in api.list("Pod")})  # the first has left
        control_plane.api_server.kill()
        control_plane.start_api_server()
        out, err = running.communicate(timeout=240)
    assert running.returncode == 0, out + err
    assert "moves carried out" in err
    wait_bound(control_plane, PODS)
    assert len(used(api)) == 1
    assert lowest.seen >= PODS - 1
    assert not any(node["spec"].get("unschedulable") for node in api.list("Node"))


def test_a_budget_that_allows_nothing_keeps_all_pods(control_plane, spread_out):
    api = control_plane.api
    api.create(budget("web", unavailable=0))
    eventually(lambda: api.get("PodDisruptionBudget", "web")["status"].get("expectedPods") == PODS)
    before = {pod["metadata"]["uid"] for pod in api.list("Pod")}
    running = rebalance(control_plane, "--apply", "--pods-of", NAME)
    out, err = running.communicate(timeout=120)
    assert running.returncode == 0, out + err
    assert "may not: PodDisruptionBudget default/web" in out
    assert {pod["metadata"]["uid"] for pod in api.list("Pod")} == before


def test_a_cluster_that_has_changed_stops_the_plan_and_nothing_stays_cordoned(control_plane, spread_out):
    api = control_plane.api
    before = {pod["metadata"]["uid"]: pod for pod in api.list("Pod")}
    running = rebalance(control_plane, "--apply", "--pods-of", NAME)
    eventually(lambda: set(before) - {pod["metadata"]["uid"] for pod in api.list("Pod")})
    api.create({**objects.pod("big", cpu="7"), "spec": {**objects.pod("big", cpu="7")["spec"], "nodeName": fullest(api)}})
    out, err = running.communicate(timeout=240)
    assert running.returncode == 1, out + err
    assert "the plan does not fit the cluster any more" in err
    assert not any(node["spec"].get("unschedulable") for node in api.list("Node"))
    wait_bound(control_plane, PODS + 1)


def cordoned(api):
    return {node["metadata"]["name"] for node in api.list("Node") if node["spec"].get("unschedulable")}


def ended(running):
    out, err = running.communicate(timeout=240)
    return running.returncode, out, err


def test_the_cordons_of_a_killed_rebalance_are_reported_and_removed(control_plane, spread_out):
    api = control_plane.api
    own = fullest(api)
    api.patch("Node", own, {"spec": {"unschedulable": True}})  # an administrator's
    running = rebalance(control_plane, "--apply", "--pods-of", NAME)
    eventually(lambda: cordoned(api) - {own})
    running.kill()
    running.communicate(timeout=60)
    assert cordoned(api) > {own}
    code, _, err = ended(rebalance(control_plane, "--apply", "--pods-of", NAME))
    assert code == 2
    assert "still cordoned by another rebalance (wharf rebalance, process" in err
    assert "--undo-cordons" in err
    command = [WHARF, "rebalance", "--live", f"--kubeconfig={control_plane.kubeconfig}", "--undo-cordons"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.count("is uncordoned")) == (0, done.stdout.count("\n")), done.stderr
    assert cordoned(api) == {own}
    wait_bound(control_plane, PODS)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "no node was left cordoned by a rebalance\n"


def test_a_kept_plan_is_carried_out_as_it_is_and_refused_once_it_is_stale(control_plane, spread_out, tmp_path):
    api = control_plane.api
    code, plan, err = ended(rebalance(control_plane, "--pods-of", NAME, "--format", "json"))
    assert code == 0, err
    path = tmp_path / "plan.json"
    path.write_text(plan)
    planned = [move["target"] for move in json.loads(plan)["moves"]]
    command = [WHARF, "rebalance", "--live", f"--kubeconfig={control_plane.kubeconfig}", "--plan", path, "--apply"]
    policy = tmp_path / "other.policy"
    policy.write_text('policy "other"\nscore s weight 1 = least_allocated()\n')
    before = {pod["metadata"]["uid"] for pod in api.list("Pod")}
    done = subprocess.run([*command, "--policy", policy], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "is stale: it was made with policies of revision" in done.stderr
    assert {pod["metadata"]["uid"] for pod in api.list("Pod")} == before

    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{len(planned)} of {len(planned)} moves carried out" in done.stderr
    assert used(api) == set(planned)
    before = {pod["metadata"]["uid"] for pod in api.list("Pod")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "is gone, or being deleted; nothing was changed" in done.stderr
    assert ({pod["metadata"]["uid"] for pod in api.list("Pod")}, cordoned(api)) == (before, set())


def fullest(api):
    """The node where most pods are."""
    on = [pod["spec"].get("nodeName") for pod in api.list("Pod")]
    return max((name for name in on if name), key=on.count)


def first_eviction(api):
    """A condition that becomes true once one of the pods of now has left."""
    before = {pod["metadata"]["uid"] for pod in api.list("Pod")}
    return lambda: before - {pod["metadata"]["uid"] for pod in api.list("Pod")}


def deleted_node(api):
    api.delete("Node", next(name for name in sorted(used(api)) if name != fullest(api)))


def new_budget(api):
    api.create(budget("web", unavailable=0))


def foreign_cordon(api):
    api.patch("Node", fullest(api), {"spec": {"unschedulable": True}, "metadata": {"annotations": {CORDONED_BY: "another"}}})


@pytest.mark.parametrize(
    ("interfere", "said"),
    [
        (new_budget, "evicting default/web"),
        (deleted_node, "carried out"),
        (foreign_cordon, "the plan does not fit the cluster any more"),
    ],
)
def test_changes_by_others_stop_a_plan_with_a_report_and_uncordoned_nodes(control_plane, spread_out, interfere, said):
    api = control_plane.api
    left = first_eviction(api)
    running = rebalance(control_plane, "--apply", "--pods-of", NAME, "--timeout=5s")
    eventually(left)
    interfere(api)
    code, out, err = ended(running)
    assert code in {0, 1}, out + err
    assert said in err
    assert "Traceback" not in err
    assert all(name == fullest(api) for name in cordoned(api)) if interfere is foreign_cordon else cordoned(api) == set()


def scaled_to_none(api):
    api.patch("Deployment", "web", {"spec": {"replicas": 0}})


def deleted_workload(api):
    api.delete("Deployment", "web")


@pytest.mark.parametrize("interfere", [scaled_to_none, deleted_workload])
def test_a_workload_that_is_given_up_half_way_is_not_waited_for(control_plane, spread_out, interfere):
    api = control_plane.api
    left = first_eviction(api)
    running = rebalance(control_plane, "--apply", "--pods-of", NAME, "--timeout=200s")
    eventually(left)
    interfere(api)
    code, out, err = ended(running)
    assert code in {0, 1}, out + err  # 0 if all had been made
    assert " after 200 s" not in err
    assert "Traceback" not in err
    assert cordoned(api) == set()


def test_a_budget_that_allows_an_eviction_again_is_waited_for(control_plane, spread_out):
    api = control_plane.api
    api.create(budget("web", unavailable=1))
    eventually(allowed(api, 1))
    left = first_eviction(api)
    running = rebalance(control_plane, "--apply", "--pods-of", NAME)
    eventually(left)
    api.patch("PodDisruptionBudget", "web", {"spec": {"maxUnavailable": 0}})
    time.sleep(10)
    assert running.poll() is None
    api.patch("PodDisruptionBudget", "web", {"spec": {"maxUnavailable": 1}})
    code, out, err = ended(running)
    assert code == 0, out + err
    assert len(used(api)) == 1
    assert cordoned(api) == set()


def test_a_plan_of_another_cluster_changes_nothing(control_plane, spread_out, tmp_path):
    api = control_plane.api
    code, plan, err = ended(rebalance(control_plane, "--pods-of", NAME, "--format", "json"))
    assert code == 0, err
    found = json.loads(plan)
    for move in found["moves"]:
        move["uid"] = f"{move['uid'][:-1]}z"
    (tmp_path / "plan.json").write_text(json.dumps(found))
    before = {pod["metadata"]["uid"] for pod in api.list("Pod")}
    command = [WHARF, "rebalance", "--live", f"--kubeconfig={control_plane.kubeconfig}", "--plan", tmp_path / "plan.json", "--apply"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2, done.stderr
    assert "is gone, or being deleted; nothing was changed" in done.stderr
    assert ({pod["metadata"]["uid"] for pod in api.list("Pod")}, cordoned(api)) == (before, set())


def test_a_pod_that_is_protected_half_way_stays_and_the_moves_without_it_are_made(control_plane, spread_out, tmp_path):
    api = control_plane.api
    code, plan, err = ended(rebalance(control_plane, "--pods-of", NAME, "--format", "json"))
    assert code == 0, err
    path = tmp_path / "plan.json"
    path.write_text(plan)
    moves = json.loads(plan)["moves"]
    last = moves[-1]
    of_last = [move for move in moves if move["source"] == last["source"]]
    assert len(of_last) < len(moves)
    left = first_eviction(api)
    command = [WHARF, "rebalance", "--live", f"--kubeconfig={control_plane.kubeconfig}", "--plan", path, "--apply"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    eventually(left)
    api.patch(
        "Pod", last["pod"].partition("/")[2], {"metadata": {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}}
    )
    code, out, err = ended(running)
    assert code == 1, out + err
    assert f"pod {last['pod']} may not move any more: it has the annotation" in err
    assert "left out, because they do not fit the cluster any more" in err
    assert last["uid"] in {pod["metadata"]["uid"] for pod in api.list("Pod")}
    assert not used(api) & {move["source"] for move in moves if move not in of_last}  # these nodes were freed
    assert cordoned(api) == set()


def test_a_replacement_that_no_scheduler_places_stops_it(control_plane, nodes):
    api = control_plane.api
    nodes(3, cpu="8")
    with LiveScheduler(control_plane.kubeconfig) as scheduler:
        api.create(objects.deployment("web", PODS, scheduler=NAME, cpu="1"))
        wait_bound(control_plane, PODS)
        eventually(lambda: scheduler.running() == PODS)
    code, out, err = ended(rebalance(control_plane, "--apply", "--pods-of", NAME, "--timeout=5s"))
    assert code == 1, out + err
    assert "no replacement has a node after 5 s" in err
    assert cordoned(api) == set()


def test_an_interrupt_while_a_budget_forbids_the_next_eviction_says_that_no_pod_is_missing(control_plane, spread_out):
    api = control_plane.api
    api.create(budget("web", unavailable=1))
    eventually(allowed(api, 1))
    left = first_eviction(api)
    running = rebalance(control_plane, "--apply", "--pods-of", NAME)
    eventually(left)
    api.patch("PodDisruptionBudget", "web", {"spec": {"maxUnavailable": 0}})
    eventually(lambda: "trying again" in running.stderr.readline())
    running.send_signal(signal.SIGTERM)
    code, out, err = ended(running)
    assert code == 130, out + err
    assert "no evicted pod is without a replacement" in err
    assert cordoned(api) == set()
    wait_bound(control_plane, PODS)


def test_an_interrupt_while_the_api_server_is_away_names_the_cordoned_nodes_in_few_lines(control_plane, spread_out):
    api = control_plane.api
    running = rebalance(control_plane, "--apply", "--pods-of", NAME, "--timeout=3s")
    eventually(lambda: cordoned(api))
    control_plane.api_server.kill()
    running.send_signal(signal.SIGTERM)
    code, out, err = ended(running)
    control_plane.start_api_server()
    assert code == 130, out + err
    assert err.count("watch of ") == 1, err
    assert "still cordoned, uncordon them with wharf rebalance --live --undo-cordons: node-" in err
    command = [WHARF, "rebalance", "--live", f"--kubeconfig={control_plane.kubeconfig}", "--undo-cordons"]
    assert subprocess.run(command, capture_output=True, text=True, timeout=120, check=False).returncode == 0
    assert cordoned(api) == set()
    wait_bound(control_plane, PODS)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_an_interrupt_opens_the_nodes_and_a_second_run_ends_the_work(control_plane, spread_out, number):
    api = control_plane.api
    left = first_eviction(api)
    before = signal.signal(number, signal.SIG_DFL)  # the tests may run where it is ignored, as under nohup
    try:
        running = rebalance(control_plane, "--apply", "--pods-of", NAME)
    finally:
        signal.signal(number, before)
    eventually(left)
    running.send_signal(number)
    code, out, err = ended(running)
    assert code == 130, out + err
    assert cordoned(api) == set()
    wait_bound(control_plane, PODS)
    code, out, err = ended(rebalance(control_plane, "--apply", "--pods-of", NAME))
    assert code == 0, out + err
    assert len(used(api)) == 1


def test_two_at_the_same_time_leave_every_pod_placed_and_every_node_open(control_plane, spread_out):
    api = control_plane.api
    both = [rebalance(control_plane, "--apply", "--pods-of", NAME, "--timeout=20s") for _ in range(2)]
    results = [ended(running) for running in both]
    assert {code for code, *_ in results} <= {0, 1, 2}, results
    assert not any("Traceback" in err for *_, err in results), results
    wait_bound(control_plane, PODS)
    assert cordoned(api) == set()


RANKED = 'policy "ranked"\nscore rank weight 1000 = if node.name == "{best}" then 100 else 0\n'


@pytest.fixture
def source(request):
    """Where the scheduler reads its policies."""
    return getattr(request, "param", "file")


@pytest.fixture
def ranked(control_plane, nodes, source, request, tmp_path):
    """(a file with a policy, a function that writes which node is best there and to `source`), of which `wharf run` has the latter.

    Its pods are on another node than the policy prefers.
    """
    nodes(3, cpu="32")
    path = tmp_path / "ranked.policy"
    flags = {"file": ["--policy", path], "ConfigMap": ["--policy-configmap=default/policies"], "SchedulingPolicy": ["--custom-resources"]}
    if source == "SchedulingPolicy":
        request.getfixturevalue("defined")
        custom.create(control_plane, source, "ranked", {"source": RANKED.format(best="node-0000")})

    def write(best):
        path.write_text(RANKED.format(best=best))
        if source == "ConfigMap":
            request.getfixturevalue("config_map")(ranked=path.read_text())
        elif source == "SchedulingPolicy":
            custom.patch(control_plane, source, "ranked", {"spec": {"source": path.read_text()}})

    write("node-0000")
    with WharfProcess(control_plane, *flags[source], "--log-format=json") as scheduler:
        eventually(lambda: policies(scheduler))
        control_plane.api.create(objects.deployment("web", MANY, scheduler=NAME, cpu="1"))
        wait_bound(control_plane, MANY)
        assert used(control_plane.api) == {"node-0000"}
        before = revision(scheduler)
        write("node-0001")
        eventually(lambda: revision(scheduler) != before)
        yield path, write


@pytest.mark.parametrize("source", ["file", "ConfigMap", "SchedulingPolicy"], indirect=True)
def test_a_policy_that_is_edited_half_way_stops_the_plan(control_plane, ranked):
    api = control_plane.api
    path, write = ranked
    left = first_eviction(api)
    running = rebalance(control_plane, "--apply", "--pods-of", NAME, f"--policy={path}", goal="points")
    eventually(left)
    write("node-0002")
    code, out, err = ended(running)
    assert code == 1, out + err
    assert "stopped, because the plan does not fit the cluster any more: pod default/web-" in err
    assert (
        "got node-0002, and the policies and settings of this plan choose node-0001: the scheduler uses other policies or settings" in err
    )
    assert cordoned(api) == set()
    wait_bound(control_plane, MANY)
    on = Counter(pod["spec"]["nodeName"] for pod in api.list("Pod"))
    assert on["node-0002"] == 1  # no more pods were evicted
    assert on["node-0000"] > 0


def test_an_edit_of_a_policy_that_changes_no_decision_does_not_stop_the_plan(control_plane, ranked):
    api = control_plane.api
    path, _ = ranked
    left = first_eviction(api)
    running = rebalance(control_plane, "--apply", "--pods-of", NAME, f"--policy={path}", goal="points")
    eventually(left)
    path.write_text(RANKED.format(best="node-0001").replace("1000", "900"))
    code, out, err = ended(running)
    assert code == 0, out + err
    assert used(api) == {"node-0001"}
    assert cordoned(api) == set()


@pytest.mark.parametrize("change", [{"spec": {"unschedulable": True}}, None], ids=["cordoned", "deleted"])
def test_a_node_that_goes_half_way_gets_no_pod_and_the_report_is_not_about_policies(control_plane, ranked, change):
    api = control_plane.api
    path, _ = ranked
    left = first_eviction(api)
    running = rebalance(control_plane, "--apply", "--pods-of", NAME, f"--policy={path}", goal="points")
    eventually(left)
    if change is None:
        api.delete("Node", "node-0001")
    else:
        api.patch("Node", "node-0001", change)
    code, out, err = ended(running)
    assert code in {0, 1}, out + err  # 0 if all had moved
    assert "uses other policies or settings" not in err
    assert "Traceback" not in err
    assert cordoned(api) <= {"node-0001"}


POOL = 'policy "pool"\nfilter pool { require node.labels["pool"] == "web" else "not of the pool" on missing reject }\n'


@pytest.fixture
def misplaced(control_plane, nodes, tmp_path):
    """A file with a policy: `wharf run` has it, and its pods are on a node that it rejects since a label has moved to another node."""
    nodes(3, cpu="32")
    path = tmp_path / "pool.policy"
    path.write_text(POOL)
    label(control_plane.api, "node-0000", "web")
    with WharfProcess(control_plane, "--policy", path, "--log-format=json"):
        control_plane.api.create(objects.deployment("web", MANY, scheduler=NAME, cpu="1"))
        wait_bound(control_plane, MANY)
        label(control_plane.api, "node-0001", "web")
        label(control_plane.api, "node-0000", None)
        yield path


def label(api, node, pool, key="pool"):
    """Set a label of a node; None removes it."""
    api.patch("Node", node, {"metadata": {"labels": {key: pool}}})


def started(control_plane, path):
    """The command that moves pods which their policy rejects, once the first of them has left."""
    left = first_eviction(control_plane.api)
    running = rebalance(control_plane, "--apply", "--pods-of", NAME, f"--policy={path}", goal="violations")
    eventually(left)
    return running


def test_labels_that_concern_no_move_do_not_stop_the_plan(control_plane, misplaced):
    api = control_plane.api
    running = started(control_plane, misplaced)
    for number in range(6):
        label(api, f"node-000{number % 3}", str(number), key="team")
    code, out, err = ended(running)
    assert code == 0, out + err
    wait_bound(control_plane, MANY)
    assert used(api) == {"node-0001"}
    assert cordoned(api) == set()


def test_a_label_that_moves_to_another_node_half_way_leaves_every_pod_placed(control_plane, misplaced):
    api = control_plane.api
    running = started(control_plane, misplaced)
    label(api, "node-0002", "web")
    label(api, "node-0001", None)
    code, out, err = ended(running)
    wait_bound(control_plane, MANY)
    on = Counter(pod["spec"]["nodeName"] for pod in api.list("Pod"))
    if code == 0:  # the pods were moved to the other node
        assert on["node-0000"] == 0, out + err
    else:
        assert code == 1, out + err
        assert "the plan does not fit the cluster any more" in err
    assert "uses other policies or settings" not in err
    assert cordoned(api) == set()


def test_a_label_that_all_targets_lose_half_way_ends_the_evictions(control_plane, misplaced):
    api = control_plane.api
    running = started(control_plane, misplaced)
    label(api, "node-0001", None)
    code, out, err = ended(running)
    assert code == 1, out + err
    assert "Traceback" not in err
    assert "uses other policies or settings" not in err
    assert cordoned(api) == set()
    without = [pod["metadata"]["name"] for pod in api.list("Pod") if "nodeName" not in pod["spec"]]
    assert len(without) <= 1  # one may have left at that moment; the report says so
    assert bool(without) == ("its replacement finds no node" in err), err
    label(api, "node-0001", "web")
    wait_bound(control_plane, MANY)
