"""Policies change while `wharf run` schedules."""

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from tests.cluster.live import NAME
from tests.cluster.policies import BROKEN, Mounted, bound, policies, pools_by_revision, revision, scheduled, where
from tests.cluster.process import WharfProcess, run_to_end
from tests.cluster.soundness import assert_sound
from tests.cluster.waiting import eventually

WHARF = Path(sys.executable).with_name("wharf")


def test_a_swap_in_the_middle_of_2000_pods_splits_them_in_two(control_plane, pools, pods, tmp_path):
    mounted = Mounted(tmp_path / "policies")
    mounted.write(where=where("a"))

    with WharfProcess(control_plane, "--policy", mounted.root, "--log-format=json") as wharf:
        before = revision(wharf)
        pods(1000, prefix="early", scheduler=NAME, cpu="10m", memory="1Mi")
        eventually(lambda: scheduled(wharf))
        mounted.write(where=where("b"))
        pods(990, prefix="late", scheduler=NAME, cpu="10m", memory="1Mi")
        eventually(lambda: revision(wharf) != before)
        pods(10, prefix="last", scheduler=NAME, cpu="10m", memory="1Mi")  # it may have been as quick as those were made
        eventually(lambda: bound(control_plane.api) == 2000)
        eventually(lambda: len(scheduled(wharf)) == 2000)

        by_revision = pools_by_revision(wharf, pools)
        assert sorted(by_revision.values(), key=sorted) == [{"a"}, {"b"}]
        assert_sound(control_plane)


def test_good_bad_good_through_the_api(control_plane, pools, pods, config_map, kubectl):
    config_map(where=where("a"), other='policy "other"\nfilter all { require node.pod_count < 200 else "full" }\n')

    with WharfProcess(control_plane, "--policy-configmap=default/policies", "--log-format=json") as wharf:
        pods(20, prefix="first", scheduler=NAME)
        eventually(lambda: bound(control_plane.api) == 20)
        config_map(where=BROKEN)
        eventually(lambda: policies(wharf) == {"other.policy": "active", "where.policy": "kept"})
        pods(20, prefix="second", scheduler=NAME)
        eventually(lambda: bound(control_plane.api) == 40)
        shown = subprocess.run([WHARF, "status", f"--url={wharf.url}"], capture_output=True, text=True, check=False)
        described = eventually(lambda: (text := kubectl("describe", "configmap", "policies")) and "PolicyRefused" in text and text)
        config_map(where=where("b"))
        eventually(lambda: policies(wharf) == {"other.policy": "active", "where.policy": "active"})
        pods(20, prefix="third", scheduler=NAME)
        eventually(lambda: len(scheduled(wharf)) == 60)

        placed = defaultdict(set)
        for line in scheduled(wharf):
            placed[line["pod"].split("/")[1].split("-")[0]].add(pools[line["node"]])
        assert placed == {"first": {"a"}, "second": {"a"}, "third": {"b"}}
        assert shown.returncode == 1
        assert "where   cluster  kept" in shown.stdout
        assert "default/policies/where.policy:2:" in shown.stdout
        assert "its former version stays in force" in described
        metrics = wharf.get("/metrics")[1]
        assert 'wharfinger_policy_reload_total{result="refused"} 1.0' in metrics
        assert 'wharfinger_policy_reload_total{result="accepted"} 3.0' in metrics
        assert 'wharfinger_policy_last_success_timestamp_seconds{policy="where"}' in metrics


def test_a_config_map_that_is_not_there_is_waited_for_and_one_that_goes_is_kept(control_plane, pools, pods, config_map):
    wharf = WharfProcess(control_plane, "--policy-configmap=default/policies", "--log-format=json")
    try:
        wharf.start()
        eventually(lambda: "policy source lost" in wharf.log)
        pods(10, prefix="p", scheduler=NAME)
        assert wharf.get("/readyz")[0] != 200
        assert bound(control_plane.api) == 0
        config_map(where=where("b"))
        wharf.wait_ready()
        eventually(lambda: bound(control_plane.api) == 10)
        control_plane.api.delete("ConfigMap", "policies")
        eventually(lambda: "has been deleted" in wharf.log)
        pods(10, prefix="q", scheduler=NAME)
        eventually(lambda: len(scheduled(wharf)) == 20)
        assert {pools[line["node"]] for line in scheduled(wharf)} == {"b"}
    finally:
        wharf.kill()


def test_a_broken_file_at_the_start_ends_it_unless_it_was_good_before(control_plane, pools, pods, tmp_path):
    path = tmp_path / "where.policy"
    path.write_text(BROKEN)
    flags = ("--policy", path, "--state-dir", tmp_path / "state", "--log-format=json")

    code, log = run_to_end(control_plane, *flags)
    assert code == 1
    assert "lables" in log

    path.write_text(where("b"))
    with WharfProcess(control_plane, *flags) as wharf:
        before = revision(wharf)
        assert wharf.terminate() == 0
    path.write_text(BROKEN)
    with WharfProcess(control_plane, *flags, name="after") as wharf:
        assert policies(wharf) == {"where.policy": "kept"}
        assert revision(wharf) == before
        eventually(lambda: "lables" in wharf.log)
        pods(10, prefix="p", scheduler=NAME)
        eventually(lambda: len(scheduled(wharf)) == 10)
        assert pools_by_revision(wharf, pools).popitem()[1] == {"b"}


def test_a_policy_that_rejects_every_node_is_active_and_is_reported_and_a_better_one_frees_the_pods(control_plane, pools, pods, tmp_path):
    path = tmp_path / "where.policy"
    path.write_text(where("a"))

    with WharfProcess(control_plane, "--policy", tmp_path, "--log-format=json") as wharf:
        pods(5, prefix="first", scheduler=NAME)
        eventually(lambda: len(scheduled(wharf)) == 5)
        path.write_text(where("nowhere"))
        eventually(lambda: "rejects all 40 nodes" in wharf.log)
        assert policies(wharf) == {"where.policy": "active"}
        pods(5, prefix="second", scheduler=NAME)
        eventually(lambda: "not nowhere" in wharf.log)
        assert wharf.log.index("rejects all 40 nodes") < wharf.log.index("not nowhere")
        path.write_text(where("b"))
        eventually(lambda: len(scheduled(wharf)) == 10)
        assert {pools[line["node"]] for line in scheduled(wharf)[5:]} == {"b"}


def test_a_shadow_is_counted_and_places_nothing(control_plane, pools, pods, tmp_path):
    (tmp_path / "where.policy").write_text(where("a"))
    (tmp_path / "next.policy").write_text(where("b"))

    shadow = ("--policy", tmp_path / "where.policy", "--shadow", tmp_path / "next.policy", "--log-format=json")
    with WharfProcess(control_plane, *shadow) as wharf:
        pods(30, prefix="p", scheduler=NAME)
        eventually(lambda: len(scheduled(wharf)) == 30)
        assert {pools[line["node"]] for line in scheduled(wharf)} == {"a"}

        def compared():
            reported = json.loads(wharf.get("/policies/where/shadow")[1])
            return reported["agreed"] + reported["disagreed"] + reported["unseen"] == 30 and reported

        reported = eventually(compared)
        assert reported["agreed"] == 0
        assert {pools[case["shadowNode"]] for case in reported["last"]} == {"b"}
        assert 'wharfinger_policy_shadow_decisions_total{policy="where",result="disagree"}' in wharf.get("/metrics")[1]
