"""Policy texts that are invalid, incomplete, too large or in conflict, and sources that stop answering."""

import json
import time

import pytest

from tests.cluster import custom
from tests.cluster.api import Refused
from tests.cluster.live import NAME
from tests.cluster.policies import BROKEN, policies, pools_by_revision, revision, scheduled, where
from tests.cluster.process import WharfProcess
from tests.cluster.waiting import eventually

MAP = "--policy-configmap=default/policies"
JSON = "--log-format=json"
MEGABYTE = 1024 * 1024


def named(name, pool):
    return where(pool).replace('"where"', f'"{name}"')


def found(wharf, key):
    """All events about the policy of a key."""
    return next(each for each in json.loads(wharf.get("/policies")[1])["policies"] if each["key"] == key)


def said(wharf, key):
    """The findings about the last text of a key."""
    return "; ".join(finding["message"] for finding in found(wharf, key)["diagnostics"])


def active(status):
    """The condition of a status that says whether the policy is active."""
    return next((each for each in status.get("conditions", ()) if each["type"] == "Active"), {})


def placed_in(wharf, pools, after=0):
    """The pools of the five pods that were placed after that many others."""
    eventually(lambda: len(scheduled(wharf)) == after + 5)
    return {pools[line["node"]] for line in scheduled(wharf)[after:]}


@pytest.mark.parametrize("kept", [True, False])
def test_a_key_that_is_broken_at_the_start_is_what_it_was_or_left_out(control_plane, pools, pods, config_map, tmp_path, kept):  # noqa: PLR0917 — the fixtures and the case
    flags = [MAP, JSON, *(["--state-dir", tmp_path] if kept else [])]
    config_map(where=where("b"), other=named("other", "b"))
    with WharfProcess(control_plane, *flags) as wharf:
        before = found(wharf, "where.policy")["revision"]
        assert wharf.terminate() == 0
    config_map(where=BROKEN, other=named("other", "b"))

    with WharfProcess(control_plane, *flags, name="after") as wharf:
        assert policies(wharf) == {"other.policy": "active", "where.policy": "kept" if kept else "refused"}
        assert found(wharf, "where.policy").get("revision") == (before if kept else None)
        eventually(lambda: "lables" in wharf.log)
        pods(5, scheduler=NAME)
        assert placed_in(wharf, pools) == {"b"}


def test_a_resource_that_breaks_is_what_it_was_even_for_a_process_that_has_kept_nothing(defined, pools, pods):
    custom.create(defined, "SchedulingPolicy", "where", {"source": where("b")})
    with WharfProcess(defined, JSON) as wharf:
        eventually(lambda: custom.status(defined, "SchedulingPolicy", "where").get("lastKnownGood"))
        before = revision(wharf)
        wharf.kill()
    custom.patch(defined, "SchedulingPolicy", "where", {"spec": {"source": BROKEN}})  # while no scheduler runs

    with WharfProcess(defined, JSON, name="after") as wharf:
        assert policies(wharf) == {"where": "kept"}
        assert revision(wharf) == before
        pods(5, scheduler=NAME)
        assert placed_in(wharf, pools) == {"b"}
        status = eventually(
            lambda: (reported := custom.status(defined, "SchedulingPolicy", "where")).get("observedGeneration") == 2 and reported
        )
        assert active(status)["message"].startswith("the version of generation 1 stays in force: schedulingpolicies/where:2:38: P100")
        assert (status["revision"], status["lastKnownGood"]["generation"]) == (before, 1)
        assert status["lastKnownGood"]["source"] == where("b")


def test_a_resource_that_rejects_every_node_says_so_in_its_status(defined, pools, pods):
    with WharfProcess(defined, JSON) as wharf:
        custom.create(defined, "SchedulingPolicy", "where", {"source": where("nowhere")})
        eventually(lambda: policies(wharf) == {"where": "active"})
        pods(1, scheduler=NAME)

        def reason():
            return active(custom.status(defined, "SchedulingPolicy", "where")).get("reason")

        eventually(lambda: reason() == "NoNodeEligible")
        status = eventually(lambda: (reported := custom.status(defined, "SchedulingPolicy", "where")).get("matched") == 1 and reported)
        assert (status["eligible"], status["nodes"]) == (0, 40)


def test_policies_decide_although_their_versions_cannot_be_kept(control_plane, pools, pods, config_map, tmp_path):
    (tmp_path / "policies").write_text("this is no folder")
    config_map(where=where("b"))

    with WharfProcess(control_plane, MAP, JSON, "--state-dir", tmp_path) as wharf:
        pods(5, scheduler=NAME)
        assert placed_in(wharf, pools) == {"b"}
        failed = eventually(lambda: [json.loads(line) for line in wharf.log.splitlines() if '"place":"policies"' in line])
        assert f"where.policy cannot be kept for a restart: {tmp_path / 'policies'}: File exists; it is tried again" in failed[0]["error"]
        (tmp_path / "policies").unlink()
        eventually(lambda: list((tmp_path / "policies").glob("*.json")))


def test_a_file_of_10_mb_and_one_half_written_change_nothing_but_their_own_state(control_plane, pools, pods, tmp_path):
    good, other = tmp_path / "where.policy", tmp_path / "other.policy"
    good.write_text(where("a"))
    other.write_text(named("other", "a"))

    with WharfProcess(control_plane, "--policy", tmp_path, JSON) as wharf:
        other.write_bytes(b"# " + b"x" * 10 * MEGABYTE)
        eventually(lambda: policies(wharf) == {"other.policy": "kept", "where.policy": "active"})
        assert "other.policy is larger than 256 KiB" in said(wharf, "other.policy")
        text = where("b")
        with good.open("w") as stream:
            stream.write(text[: len(text) // 2])
            stream.flush()
            eventually(lambda: policies(wharf)["where.policy"] == "kept")
            pods(5, scheduler=NAME)
            assert placed_in(wharf, pools) == {"a"}
            stream.write(text[len(text) // 2 :])
        other.write_text(named("other", "b"))
        eventually(lambda: policies(wharf) == {"other.policy": "active", "where.policy": "active"})
        pods(5, prefix="late", scheduler=NAME)
        assert placed_in(wharf, pools, after=5) == {"b"}
        assert sorted(pools_by_revision(wharf, pools).values(), key=sorted) == [{"a"}, {"b"}]


def test_the_first_of_two_policies_with_the_same_name_stays_and_a_config_map_that_is_too_large_is_refused(
    control_plane, pools, pods, config_map
):
    config_map(where=where("a"))

    with WharfProcess(control_plane, MAP, JSON) as wharf:
        config_map(where=where("a"), again=where("b"))
        eventually(lambda: policies(wharf) == {"again.policy": "refused", "where.policy": "active"})
        assert 'there are two policies called "where"' in said(wharf, "again.policy")
        for megabytes, refusal in ((2, Refused), (10, (Refused, OSError))):  # it hangs up on what is far too large
            with pytest.raises(refusal):
                config_map(where=where("b") + "# " + "x" * megabytes * MEGABYTE)
        pods(5, scheduler=NAME)
        assert placed_in(wharf, pools) == {"a"}
        config_map(where=None, again=where("b"))
        eventually(lambda: policies(wharf) == {"again.policy": "active"})


def test_edits_arrive_after_the_api_server_was_away(control_plane, pools, pods, config_map):
    config_map(where=where("a"))

    with WharfProcess(control_plane, MAP, JSON) as wharf:
        before = revision(wharf)
        control_plane.api_server.kill()
        time.sleep(1)
        assert policies(wharf) == {"where.policy": "active"}
        control_plane.start_api_server()
        config_map(where=where("b"))
        eventually(lambda: revision(wharf) != before)
        pods(5, scheduler=NAME)
        assert placed_in(wharf, pools) == {"b"}
