"""The live page of a running scheduler."""

from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from tests.in_memory import InMemoryCluster, ManualClock
from tests.observed import subscribed
from tests.unit.scheduler.running import node, pod
from wharfinger.builtins import CATALOGUE
from wharfinger.daemon import live_page as waiting
from wharfinger.daemon.live_page import LivePageContent
from wharfinger.errors import UnknownObject, WharfingerError
from wharfinger.framework.chain import assemble
from wharfinger.framework.policy_status import Mode, PolicyStatus, Result, SourceStatus
from wharfinger.kube.connection import ServerContact
from wharfinger.language import load
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading.decode import convert
from wharfinger.model.state.device_states import DeviceStates
from wharfinger.model.state.node_reader import READ_AT_ONCE
from wharfinger.policies import candidate
from wharfinger.policies.store import PolicyRemoved, PolicyTried, SourceChanged
from wharfinger.scheduler.events import AttemptEnded
from wharfinger.scheduler.ports import Ports
from wharfinger.scheduler.scheduler import Scheduler
from wharfinger.telemetry.policies import MAX_RELOADS, ReloadHistory
from wharfinger.telemetry.recent_decisions import RecentDecisions, SchedulingHistory
from wharfinger.web.policies import Policies
from wharfinger.web.ui import page_content
from wharfinger.web.ui.page_content import CORDONED, NOT_READY, TAINTED, PodQuery

ZONE = "topology.kubernetes.io/zone"
MEASURED = """policy "load"
metric busy: percent = prometheus("busy", node: "instance", max_age: 60s, min_coverage: 10%)
filter calm { require busy < 90% else "busy" on missing pass }
"""


class Setting:
    """A scheduler in memory that does not run, and its board."""

    def __init__(self, chain=None):
        clock, cluster = ManualClock(), InMemoryCluster()
        ports = Ports(binder=cluster, writer=cluster, events=cluster, clock=clock)
        self.scheduler = Scheduler({"wharfinger": chain or assemble()}, ports)
        daemon = SimpleNamespace(scheduler=self.scheduler, leads=True, leader="", identity="me", contact=ServerContact(lambda: 0.0))
        self.health = SimpleNamespace(daemon=daemon)
        self.recent = RecentDecisions(clock.now, clock.monotonic)
        policies = Policies(statuses=list, sources=list, shadows=dict)
        self.history = SchedulingHistory(self.recent, clock)
        self.page_content = LivePageContent(self.health, policies, self.recent, ReloadHistory(clock.now), self.history, clock)

    def put(self, *found):
        for obj in found:
            self.scheduler.sink.upsert(objects.kind_of(obj), obj)

    def parts(self):
        return dict(part for part in self.page_content.parts() if part is not None)

    def pods(self, **query):
        return dict(part for part in self.page_content.pods(PodQuery(**query)) if part is not None)


@pytest.fixture
def setting():
    made = Setting()
    made.put(
        node("a", labels={ZONE: "z1"}.items()),
        node("b", labels={ZONE: "z2"}.items(), unschedulable=True),
        node("c", taints=[{"key": "k", "value": "", "effect": "NoSchedule"}]),
        pod("old", cpu="3", nodeName="a"),
    )
    return made


def test_nodes_are_coloured_by_what_is_requested_of_them(setting):
    node_map = setting.page_content.node_map("cpu", known=-1)
    assert dict(zip(node_map.tiles.names, node_map.coloring.values.tolist(), strict=True)) == {"a": 0.75, "b": 0.0, "c": 0.0}
    assert node_map.coloring.unit == "fraction"
    assert setting.page_content.node_map("cpu", known=node_map.layout).tiles is None


def test_nodes_are_in_their_zones_and_show_what_is_the_matter_with_them(setting):
    unready = msgspec.structs.replace(node("d").status, conditions=(objects.NodeCondition(type="Ready", status="Unknown"),))
    setting.put(msgspec.structs.replace(node("d"), status=unready))
    node_map = setting.page_content.node_map("cpu", known=-1)
    zones = dict(zip(node_map.tiles.names, node_map.tiles.zones, strict=True))
    assert {name: node_map.tiles.zone_names[zone] for name, zone in zones.items() if zone >= 0} == {"a": "z1", "b": "z2"}
    flags = dict(zip(node_map.tiles.names, node_map.flags.tolist(), strict=True))
    assert flags == {"a": 0, "b": CORDONED, "c": TAINTED, "d": NOT_READY}


def test_nodes_are_coloured_by_the_scores_of_a_pod_where_it_fits(setting):
    setting.put(pod("new", cpu="2"))
    node_map = setting.page_content.node_map("pod:default/new", known=-1)
    assert np.isfinite(node_map.coloring.values).sum() == 0
    assert "Insufficient cpu" in node_map.coloring.note

    setting.put(node("e"))
    node_map = setting.page_content.node_map("pod:default/new", known=-1)
    best = dict(zip(node_map.tiles.names, np.isfinite(node_map.coloring.values).tolist(), strict=True))
    assert best == {"a": False, "b": False, "c": False, "e": True}
    assert node_map.coloring.note == "1 of 4 nodes feasible"
    value = float(np.nanmax(node_map.coloring.values))
    assert node_map.coloring.low <= value <= node_map.coloring.high


def test_a_pod_that_is_bound_is_scored_as_another_like_it(setting):
    setting.put(node("e"))
    node_map = setting.page_content.node_map("pod:default/old", known=-1)
    assert node_map.coloring.note == "1 of 4 nodes feasible for another like it"


def test_nodes_are_coloured_by_a_metric(tmp_path):
    (tmp_path / "load.policy").write_text(MEASURED)
    (typed,), diagnostics = load.load_policies([str(tmp_path / "load.policy")], CATALOGUE)
    assert typed is not None, list(diagnostics)
    setting = Setting(assemble(candidate.compile_all([typed], {})))
    setting.put(node("a"), node("b"))
    assert "metric:load/busy" in {coloring["key"] for coloring in setting.parts()["summary"]["colorings"]}
    assert setting.page_content.node_map("metric:load/busy", known=-1).coloring.note == "there are no samples yet"

    setting.scheduler.state.set_metric("busy", {"a": (0.4, 0.0)})

    coloring = setting.page_content.node_map("metric:load/busy", known=-1).coloring
    assert (coloring.unit, coloring.values[0], coloring.note) == ("fraction", 0.4, "samples of 1 of 2 nodes")


@pytest.mark.parametrize("coloring", ["example.com/none", "pod:default/none", "metric:none/none"])
def test_missing_objects_are_named(setting, coloring):
    with pytest.raises(UnknownObject, match="none"):
        setting.page_content.node_map(coloring, known=-1)


def test_pods_that_wait_are_listed_in_groups_and_steps(setting, monkeypatch):
    monkeypatch.setattr(waiting, "PODS_PER_STEP", 10)
    setting.put(*(pod(f"new-{index}") for index in range(45)))
    steps = list(setting.page_content.pods(PodQuery()))
    assert steps.count(None) >= 4
    (group,) = setting.pods()["pending"]["groups"]
    assert (group["count"], group["queue"], len(group["pods"])) == (45, "active", waiting.MAX_PODS_OF_CAUSE)


def waiting_pod(setting, name, message, namespace="default", policies=()):
    """A pod that was tried once and fits on no node."""
    new = pod(name)
    setting.put(msgspec.structs.replace(new, metadata=msgspec.structs.replace(new.metadata, namespace=namespace)))
    queued = setting.scheduler.queue.pop()
    queued.message, queued.policies = message, policies
    setting.scheduler.queue.reject(queued, frozenset())


@pytest.fixture
def crowd(setting):
    waiting_pod(setting, "a", "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu.", policies=("pools",))
    waiting_pod(
        setting,
        "b",
        "0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are available: 3 no.",
        namespace="shop",
    )
    waiting_pod(setting, "c", "0/3 nodes are available: 1 Insufficient cpu, 2 Insufficient memory.")
    return setting


@pytest.mark.parametrize(
    ("query", "groups"),
    [
        ({}, {"Insufficient cpu": 2, "Insufficient memory": 1}),
        ({"namespace": "shop"}, {"Insufficient cpu": 1}),
        ({"namespace": "none"}, {}),
        ({"policy": "pools"}, {"Insufficient cpu": 1}),
        ({"namespace": "shop", "policy": "pools"}, {}),
    ],
)
def test_pods_that_wait_are_grouped_by_what_is_missing_on_most_nodes(crowd, query, groups):
    found = crowd.pods(**query)["pending"]
    assert {group["missing"]: group["count"] for group in found["groups"]} == groups
    assert found["total"] == sum(groups.values())
    assert found["namespaces"] == ["default", "shop"]  # whatever is chosen now


def test_causes_of_equally_many_pods_are_ordered_by_the_numbers_in_them(setting):
    for gpus in (10, 9):
        waiting_pod(setting, f"p{gpus}", f"0/3 nodes are available: 3 node(s) had fewer than {gpus} GPUs.")
    found = setting.pods()["pending"]["groups"]
    assert [group["missing"] for group in found] == [f"node(s) had fewer than {gpus} GPUs" for gpus in (9, 10)]


def test_a_listed_decision_has_what_the_page_shows_and_no_more(setting):
    times = {"first_seen": 0.0, "started": 1.0, "ended": 2.0}
    attempt = AttemptEnded(pod=PodView(pod("web")), profile="wharfinger", result="scheduled", attempts=1, stages={"decide": 0.001}, **times)
    setting.recent.handlers[AttemptEnded](attempt)
    (decision,) = setting.pods()["decisions"]["latest"]
    assert set(decision) == set(waiting.SHOWN_OF_DECISION)
    assert decision["milliseconds"] == {"decide": 1.0}


def test_a_cause_counts_its_pods_by_namespace(setting, monkeypatch):
    monkeypatch.setattr(waiting, "MAX_NAMESPACES_OF_CAUSE", 2)
    for name, namespace in (("a", "shop"), ("b", "team"), ("c", "shop"), ("d", "lab")):
        waiting_pod(setting, name, "0/3 nodes are available: 3 Insufficient cpu.", namespace=namespace)
    (group,) = setting.pods()["pending"]["groups"]
    assert group["namespaces"] == [{"namespace": "shop", "count": 2}, {"namespace": "team", "count": 1}]
    assert group["moreNamespaces"] == 1


def test_pods_are_found_by_a_part_of_their_names_in_steps(setting, monkeypatch):
    monkeypatch.setattr(waiting, "PODS_PER_STEP", 10)
    setting.put(*(pod(f"new-{index}") for index in range(25)))
    steps = list(setting.page_content.find("NEW-2"))
    assert len(steps) == 3
    assert sorted(key for step in steps for key in step) == ["default/new-2", *(f"default/new-2{digit}" for digit in range(5))]


def test_one_node_is_described_with_its_pods(setting):
    found = setting.page_content.node("a")
    assert [each["pod"] for each in found["pods"]] == ["default/old"]
    assert {"name": "cpu", "requested": 3000, "allocatable": 4000} in found["resources"]
    with pytest.raises(UnknownObject, match="there is no node z"):
        setting.page_content.node("z")


def test_the_history_shows_how_full_the_cluster_was_and_which_pods_waited(setting):
    setting.put(pod("new"))
    setting.history.add(waiting.reading(setting.scheduler))
    (point,) = setting.parts()["history"]
    assert (point["pending"], point["used"], point["rate"], point["p50"]) == (1, {"cpu": 0.25}, 0, None)


def test_before_there_is_a_connection_little_is_known(setting):
    setting.health.daemon = None
    assert setting.parts()["summary"]["connected"] is False
    with pytest.raises(WharfingerError, match="has not answered yet"):
        setting.page_content.node_map("cpu", known=-1)


def test_everything_can_be_written_as_json(setting):
    setting.put(pod("new"))
    msgspec.json.encode([setting.parts(), setting.pods(), setting.page_content.node("a")])


def test_the_history_of_reloads_is_bounded():
    history = ReloadHistory(lambda: 7.0)
    emit = subscribed(history.handlers).emit
    given = {"name": "p", "source": "s", "key": "p.policy", "mode": Mode.ENFORCE, "revision": None, "version": None, "since": None}
    status = PolicyStatus(**given, result=Result.REFUSED, attempted=5.0, generation=0, generation_in_force=0, report="x" * 9999)
    for _ in range(MAX_RELOADS + 5):
        emit(PolicyTried(status))
    emit(SourceChanged(SourceStatus(name="s", lost="gone", notes=(), texts=0)))
    emit(PolicyRemoved(status))
    assert len(history.reloads) == MAX_RELOADS
    assert [(found.what, found.at) for found in history.reloads][-3:] == [("refused", 5.0), ("lost", 7.0), ("removed", 7.0)]
    assert len(history.reloads[-1].report) < 5000


def devices_of(setting, node="a"):
    return setting.page_content.node(node)["devices"]


def test_the_devices_of_a_node_are_listed_by_pool_with_their_states(setting):
    devices = [{"name": "gpu-0"}, {"name": "gpu-1", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "8"}}}]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    setting.put(
        convert(
            {"metadata": {"name": "s"}, "spec": {"driver": "d", "pool": pool, "nodeName": "a", "devices": devices}}, objects.ResourceSlice
        )
    )
    assert devices_of(setting)["states"] == {"free": 2}
    result = {"request": "r", "driver": "d", "pool": "p", "device": "gpu-1", "shareID": "x", "consumedCapacity": {"memory": "2"}}
    claim = {"metadata": {"name": "c", "namespace": "default"}, "status": {"allocation": {"devices": {"results": [result]}}}}
    setting.put(convert(claim, objects.ResourceClaim))
    answer = devices_of(setting)
    assert answer["states"] == {"free": 1, "partly taken": 1}
    (free, shared) = answer["pools"][0]["devices"]
    assert (free["state"], free["holders"]) == ("free", [])
    assert (shared["part"], shared["left"], shared["holders"][0]["claim"]) == (
        0.25,
        [{"name": "memory", "free": 6.0, "capacity": 8.0}],
        "default/c",
    )
    assert devices_of(setting, "b")["count"] == 0
    assert "devices" in {coloring["key"] for coloring in setting.parts()["summary"]["colorings"]}
    node_map = setting.page_content.node_map("devices", known=-1)
    values = dict(zip(node_map.tiles.names, node_map.coloring.values.tolist(), strict=True))
    assert values["a"] == 0.5
    assert np.isnan(values["b"])


def test_the_devices_of_all_nodes_are_read_in_steps(setting, monkeypatch):
    read, number = [], DeviceStates._number
    monkeypatch.setattr(DeviceStates, "_number", lambda self, snapshot, row: read.append(row) or number(self, snapshot, row))
    setting.put(*(node(f"more-{index}") for index in range(3 * READ_AT_ONCE)))
    for count, _ in enumerate(setting.page_content.precompute("devices"), start=1):
        assert len(read) == count
    assert len(read) == 3 + 3 * READ_AT_ONCE
    setting.page_content.node_map("devices", known=-1)
    assert len(read) == 3 + 3 * READ_AT_ONCE
    assert not list(setting.page_content.precompute("cpu"))


def test_most_devices_and_holders_are_counted_and_not_listed(setting, monkeypatch):
    monkeypatch.setattr(page_content, "MAX_DEVICES_OF_NODE", 3)
    given = node("e")
    given.status.allocatable["example.com/port"] = "5"
    setting.put(given, pod("user", nodeName="e"))
    answer = devices_of(setting, "e")
    assert (answer["count"], answer["omitted"], [len(each["devices"]) for each in answer["pools"]]) == (5, 2, [3])
    assert answer["pools"][0]["counted"]
