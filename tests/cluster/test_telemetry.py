"""The metrics, logs and traces of the process on a real API server."""

import json

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster import objects
from tests.cluster.process import WharfProcess
from tests.cluster.waiting import eventually, wait_bound
from wharfinger.telemetry.declarations import Metric

NAME = "wharfinger"
POLICY = """policy "even"

filter working { require node.labels["disk"] != "none" else "has no disk" on missing pass }
score room weight 1 = least_allocated(cpu: 1)
"""
MOVED = {  # by pods that are placed, or not
    Metric.ATTEMPTS,
    Metric.ATTEMPT_DURATION,
    Metric.ALGORITHM_DURATION,
    Metric.SLI_DURATION,
    Metric.POD_ATTEMPTS,
    Metric.PENDING_PODS,
    Metric.UNSCHEDULABLE_PODS,
    Metric.INCOMING_PODS,
    Metric.POINT_DURATION,
    Metric.PLUGIN_DURATION,
    Metric.CACHE_SIZE,
    Metric.LEADER,
    Metric.REQUESTS,
    Metric.REQUEST_DURATION,
    Metric.RULE_EVALUATIONS,
    Metric.RULE_SECONDS,
    Metric.POLICY_ACTIVE,
    Metric.STATE_REVISION,
    Metric.BUILD,
    Metric.LOOP_STEPS,
    Metric.LOOP_LONGEST_STEP,
}

TOLD = (
    'scheduler_schedule_attempts_total{profile="wharfinger",result="scheduled"} 300.0',
    'scheduler_pending_pods{queue="unschedulable"} 1.0',
    'scheduler_pending_pods{queue="gated"} 1.0',
    'scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="wharfinger"} 1.0',
    'scheduler_cache_size{type="nodes"} 10.0',
    'leader_election_master_status{name="wharfinger"} 1.0',
)


@pytest.fixture
def policy(tmp_path):
    path = tmp_path / "even.policy"
    path.write_text(POLICY)
    return path


def moved(text):
    """The names of all metrics that are not 0 everywhere."""
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {sample.name.removesuffix("_count") for sample in samples if sample.value}


def test_metrics_and_log_tell_of_every_pod(control_plane, nodes, pods, policy):
    nodes(10)
    with WharfProcess(control_plane, "--policy", policy, "--log-format", "json") as wharf:
        pods(300, scheduler=NAME)
        control_plane.api.create(objects.pod("too-big", cpu="1000", scheduler=NAME))
        control_plane.api.create(objects.pod("shy", scheduler=NAME, schedulingGates=[{"name": "example.com/wait"}]))
        wait_bound(control_plane, 300)
        text = eventually(lambda: all(line in (text := wharf.get("/metrics")[1]) for line in TOLD) and text)
        assert wharf.terminate() == 0

    still = {metric for metric in MOVED if metric.declaration.name not in moved(text)}
    assert still == set()

    lines = [json.loads(line) for line in wharf.log.splitlines()]
    attempts = [line for line in lines if line["event"] == "attempt"]
    placed = [line for line in attempts if line["result"] == "scheduled"]
    assert len(placed) == len({line["pod"] for line in placed}) == 300
    assert {"queue_ms", "decide_ms", "bind_ms", "total_ms", "snapshot_revision", "policy_revision"} <= placed[0].keys()
    assert {line["plugins"][0] for line in attempts if line["result"] == "unschedulable"} == {"NodeResourcesFit"}
    assert [line["event"] for line in lines][-1] == "stopped"


def test_no_series_is_named_after_a_pod_or_a_node(control_plane, nodes, pods, policy):
    names = nodes(5)
    with WharfProcess(control_plane, "--policy", policy) as wharf:
        pods(20, scheduler=NAME)
        wait_bound(control_plane, 20)
        text = wharf.get("/metrics")[1]
    found = [name for name in [*names, *(pod["metadata"]["name"] for pod in control_plane.api.list("Pod"))] if f'"{name}"' in text]
    assert found == []
