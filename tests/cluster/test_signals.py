"""Pods are placed by the load that a real Prometheus measures, and without it when Prometheus is down."""

import json
import re
from pathlib import Path

import pytest

from tests.cluster import custom
from tests.cluster.live import NAME
from tests.cluster.process import WharfProcess
from tests.cluster.programs import built
from tests.cluster.prometheus import GROUPS, Exporter, Prometheus
from tests.cluster.waiting import eventually
from wharfinger import cli

REFRESH, MAX_AGE = 1, 10
POLICY = f"""policy "idle"
metric load: percent = prometheus(
  'test_load', node: "instance", times: 'timestamp(test_load)', refresh: {REFRESH}s, max_age: {MAX_AGE}s, min_coverage: 60%)
score idle weight 50 = curve(load, 0% -> 100, 100% -> 0) on missing neutral
"""
SETTINGS = """apiVersion: config.wharfinger.dev/v1alpha1
kind: WharfingerConfiguration
profiles: [{{policies: {policies}}}]
prometheus: {{default: {{url: "{url}", timeout: {timeout}}}}}
logging: {{format: json}}
"""


@pytest.fixture
def exporter():
    with Exporter() as running:
        yield running


@pytest.fixture
def prometheus(tmp_path, exporter):
    built("prometheus")
    with Prometheus(tmp_path, exporter) as running:
        yield running


@pytest.fixture
def wharf_on(control_plane, tmp_path):
    """A process that asks the server of a URL for the metrics of a policy."""

    def make(url, policy=POLICY, timeout="2s"):
        (tmp_path / "idle.policy").write_text(policy)
        policies = "[idle.policy]" if policy else "[]"
        (tmp_path / "wharf.yaml").write_text(SETTINGS.format(url=url, policies=policies, timeout=timeout))
        return WharfProcess(control_plane, f"--config={tmp_path / 'wharf.yaml'}")

    return make


@pytest.fixture
def place(control_plane, pods):
    """Creates pods, waits until they are bound: how many are on each node."""

    def make(prefix, number, cpu="10m"):
        names = pods(number, prefix=prefix, scheduler=NAME, cpu=cpu, memory="1Mi")
        found = {}

        def bound():
            found.clear()
            found.update((pod["metadata"]["name"], pod["spec"].get("nodeName")) for pod in control_plane.api.list("Pod"))
            return all(found.get(name) for name in names)

        eventually(bound)
        return {found[name] for name in names}

    return make


def measured(wharf, name, **labels):
    """The value of one of the process' own metrics."""
    for line in wharf.get("/metrics")[1].splitlines():
        if re.match(rf"{name}[{{ ]", line) and all(f'{key}="{value}"' in line for key, value in labels.items()):
            return float(line.rpartition(" ")[2])
    return None


def placed_before(wharf, event, prefix):
    """The nodes of the pods of a prefix that were placed before an event of the log."""
    lines = eventually(
        lambda: (said := [json.loads(line) for line in wharf.log.splitlines() if line.startswith("{")]) and event in _events(said) and said
    )
    earlier = lines[: _events(lines).index(event)]
    return {line["node"] for line in earlier if line.get("result") == "scheduled" and line["pod"].startswith(f"default/{prefix}-")}


def _events(lines):
    return [line["event"] for line in lines]


def fresh(wharf):
    return measured(wharf, "wharfinger_signal_coverage_ratio", policy="idle")


def refreshes(wharf):
    return measured(wharf, "wharfinger_signal_refresh_duration_seconds_count", server="default") or 0


def suspended(wharf):
    return measured(wharf, "wharfinger_signal_suspended", policy="idle")


def test_placements_follow_load_and_base_scores_where_there_is_none(nodes, place, exporter, prometheus, wharf_on):
    names = nodes(200, cpu="64")
    idle, other = set(names[:10]), set(names[100:110])
    exporter.set(names, 0.8)
    exporter.set(sorted(idle), 0.05)
    eventually(lambda: prometheus.values("test_load") == exporter.load)

    with wharf_on(prometheus.url) as wharf:
        eventually(lambda: fresh(wharf) == 1.0)
        assert place("first", 50) <= idle

        exporter.set(names, 0.8)
        exporter.set(sorted(other), 0.05)
        eventually(lambda: prometheus.values("test_load") == exporter.load)
        asked = refreshes(wharf)
        eventually(lambda: refreshes(wharf) >= asked + 2)
        assert place("second", 50) <= other

        prometheus.kill()
        place("third", 20)
        eventually(lambda: suspended(wharf) == 1.0)
        before = placed_before(wharf, "metric suspended", "third")
        assert before
        assert before <= other  # what was measured last was not too old yet
        without = place("fourth", 100, cpu="4")
        assert len(without - other) >= 50  # base scores spread them
        assert measured(wharf, "wharfinger_signal_refresh_failures_total", kind="unreachable") >= 1
        assert measured(wharf, "wharfinger_signal_suspensions_total", policy="idle", metric="load") == 1.0
        eventually(lambda: re.search(r"metric `load` of policy idle is fresh on \d+ of 200 nodes \(fewer than 60 %\)", wharf.log))

        prometheus.start()
        eventually(lambda: suspended(wharf) == 0.0)
        eventually(lambda: "metric resumed" in wharf.log)
        assert place("fifth", 50) <= other
        assert wharf.terminate() == 0


def test_targets_that_are_down_take_their_nodes_out_and_too_many_the_rule(nodes, place, exporter, prometheus, wharf_on):
    names = nodes(200, cpu="64")
    exporter.set(names, 0.8)
    down = sorted({name for group in range(3) for name, _ in exporter.of_group(group)})
    exporter.set(down, 0.0)
    up = sorted(set(names) - set(down))
    exporter.set(up[:10], 0.05)
    eventually(lambda: prometheus.values("test_load") == exporter.load)

    with wharf_on(prometheus.url) as wharf:
        eventually(lambda: fresh(wharf) == 1.0)
        assert place("first", 20) <= set(down)

        exporter.down = set(range(3))  # 30 % of the nodes: the others continue, the lost are average
        eventually(lambda: fresh(wharf) == pytest.approx(0.7))
        assert suspended(wharf) == 0.0
        assert place("second", 20) <= set(up[:10])

        exporter.down = set(range(GROUPS // 2))
        eventually(lambda: suspended(wharf) == 1.0)
        assert len(place("third", 100, cpu="4") - set(up[:10])) >= 50


def test_a_policy_says_in_its_status_that_it_is_not_measured(defined, nodes, exporter, prometheus, wharf_on):
    names = nodes(5)
    exporter.set(names, 0.5)
    eventually(lambda: len(prometheus.values("test_load")) == 5)
    custom.create(defined, "SchedulingPolicy", "idle", {"source": POLICY})

    def condition():
        status = custom.get(defined, "SchedulingPolicy", "idle").get("status", {})
        return {each["type"]: each["status"] for each in status.get("conditions", ())}.get("MetricsAvailable")

    with wharf_on(prometheus.url, policy="") as wharf:
        eventually(lambda: condition() == "True")
        prometheus.kill()
        eventually(lambda: condition() == "False")
        reasons = eventually(lambda: [event["reason"] for event in defined.api.list("Event") if event["reason"] == "MetricsUnavailable"])
        assert reasons == ["MetricsUnavailable"]
        prometheus.start()
        eventually(lambda: condition() == "True")
        assert wharf.running


def test_load_is_right_from_the_second_scrape_on(exporter, prometheus, tmp_path, capsys):
    """The query of the shipped policy on a few seconds of data; a check says that the series are young."""
    query = re.search(r"'(1 - .*)'", (Path(__file__).parents[2] / "policies" / "cpu-load.policy").read_text())[1]
    exporter.busy.update({"a": 0.15, "b": 0.8})
    eventually(lambda: len(prometheus.values(query)) == 2)
    assert prometheus.values(query) == {"a": pytest.approx(0.15, abs=0.02), "b": pytest.approx(0.8, abs=0.02)}
    node = "apiVersion: v1\nkind: Node\nmetadata: {{name: {}}}\nstatus: {{capacity: {{cpu: '2'}}}}\n"
    (tmp_path / "nodes.yaml").write_text("---\n".join(node.format(name) for name in "ab"))
    command = ["signals", "check", str(Path(__file__).parents[2] / "policies" / "cpu-load.policy"), "--prometheus", prometheus.url]
    assert cli.main([*command, "--snapshot", str(tmp_path / "nodes.yaml")]) == 1
    assert "the series of 2 nodes, as a, are younger than the 2min that the query looks back" in capsys.readouterr().out
    metric = f"""metric load: percent = prometheus('{query.replace("2m", "3s")}', node: "instance")"""
    (tmp_path / "short.policy").write_text(f'policy "short"\n{metric}\nscore x = curve(load, 0% -> 0, 100% -> 100) on missing 0\n')
    command[2] = str(tmp_path / "short.policy")
    eventually(lambda: cli.main([*command, "--snapshot", str(tmp_path / "nodes.yaml")]) == 0)
