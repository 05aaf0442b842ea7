"""`wharf replay` checks a decision log, and shows what other policies would have changed."""

import json
import re

import pytest

from tests.unit.scheduler.decision_log.recording import FIRST, SECOND, record_groups, recorded


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return tmp_path_factory.mktemp("log") / "decisions.jsonl"


@pytest.fixture(scope="module")
def running(log):
    return recorded(log, rounds=25)


def other(tmp_path, text):
    path = tmp_path / "other.policy"
    path.write_text(text)
    return str(path)


def test_a_log_that_comes_out_again(wharf, log, running):
    pods = len({pod for pod, _ in running.decisions})
    expected = f"{len(running.decisions)} decisions about {pods} pods made again, each as it was recorded\n"
    assert wharf("replay", str(log)) == (0, expected, "")


def test_a_log_that_does_not_replay_exits_with_1_and_shows_the_first_difference(wharf, log, running, tmp_path):
    broken = tmp_path / "broken.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    [last] = [number for number, line in enumerate(lines) if '"t":"decision"' in line][-1:]
    lines[last] = lines[last].replace('"feasible":', '"feasible":9')
    broken.write_text("".join(lines))
    code, out, _ = wharf("replay", str(broken))
    assert code == 1
    assert out.startswith(f"{broken}:{last + 1}: ")
    assert "feasible was 9" in out
    assert "1 not as recorded" in out

    code, out, _ = wharf("replay", str(broken), "--format", "json")
    assert (code, len(json.loads(out)["differences"])) == (1, 1)


def test_other_policies_are_reported_pod_by_pod(wharf, log, running, tmp_path):
    code, out, _ = wharf("replay", str(log), "--policy", other(tmp_path, SECOND))
    assert code == 0
    assert out.splitlines()[0].split() == ["POD", "AT", "WAS", "WOULD", "BE", "FEASIBLE"]
    assert "mix/apart: " in out
    assert out.endswith(" would have been another\n")

    code, out, _ = wharf("replay", str(log), "--policy", other(tmp_path, SECOND), "--format", "json", "--exit-code")
    changes = json.loads(out)["changes"]
    assert code == 1
    assert changes
    assert all(change["node"] != change["other"] for change in changes)


def test_the_same_policies_change_nothing(wharf, log, running, tmp_path):
    code, out, _ = wharf("replay", str(log), "--policy", other(tmp_path, FIRST), "--exit-code")
    assert code == 0
    assert out.endswith("0 decisions would have been another\n")


def test_params_alone_change_the_policies_of_the_log(wharf, log, running):
    code, out, _ = wharf("replay", str(log), "--param", "most=1")
    assert code == 0
    assert re.search(r"mix/\w+ rejects \S+: runs \d of them; before it passes\n", out)


def test_room_that_others_would_make_is_a_change(wharf, log, running):
    """Neither places the pod at once, so preemption alone makes the difference."""
    code, out, _ = wharf("replay", str(log), "--param", "most=1", "--format", "json")
    assert code == 0
    waited = [change for change in json.loads(out)["changes"] if change["node"] is None and change["other"] is None]
    assert all(change["nominated"] != change["otherNominated"] for change in waited)
    assert waited

    _, out, _ = wharf("replay", str(log), "--param", "most=1")
    assert "- (room on n0" in out


def test_one_pod_alone(wharf, log, running):
    pod = running.decisions[0][0]
    code, out, _ = wharf("replay", str(log), "--pod", pod)
    assert code == 0
    assert "about 1 pod made again" in out


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--param", "mos=1"), "--param mos: no policy of the log has it; there are mix.most, most"),
        (("--pod", "default/nobody"), "no decision about pod default/nobody"),
        (("--pod", "nobody"), "--pod nobody: expected NAMESPACE/NAME"),
        (("--scheduler-name", "wharfinger"), "give one of them too"),
        (
            ("--scheduler-name", "wharf", "--param", "most=1"),
            "--scheduler-name wharf: no decision is of that profile; there are wharfinger",
        ),
        (("--policy", "missing.policy"), "missing.policy: no such file or folder"),
    ],
)
def test_a_replay_that_is_impossible_gives_the_reason(wharf, log, running, flags, says):
    code, _, err = wharf("replay", str(log), *flags)
    assert code == 2
    assert says in err


def test_missing_parts_of_a_log_cause_warnings(wharf, log, running, tmp_path):
    cut = tmp_path / "cut.jsonl"
    cut.write_text(log.read_text()[:-30])
    code, out, err = wharf("replay", str(cut))
    assert code == 0
    assert "made again" in out
    assert "warning" in err
    assert "the last line is not complete" in err


def test_a_log_that_is_not_there(wharf, tmp_path):
    code, _, err = wharf("replay", str(tmp_path / "none.jsonl"))
    assert code == 2
    assert "no such decision log" in err


def test_searches_for_groups_are_counted(wharf, tmp_path):
    path = tmp_path / "groups.jsonl"
    record_groups(path, n_single=3)
    searches = json.loads(wharf("replay", str(path), "--format", "json")[1])["searches"]
    assert searches >= 2
    expected = f"3 decisions about 3 pods, and {searches} searches for groups, made again, each as it was recorded\n"
    assert wharf("replay", str(path)) == (0, expected, "")
    assert wharf("replay", str(path), "--pod", "default/g-0")[1] == "1 search for groups made again, each as it was recorded\n"
    text = 'policy "closed"\nfilter closed { reject node.name == "a" else "closed" }'
    code, out, _ = wharf("replay", str(path), "--policy", other(tmp_path, text), "--pod", "default/g-0")
    assert code == 0
    assert [line.split() for line in out.splitlines()[1:2]] == [
        ["group", "default/g", "2023-11-14T22:13:20Z", "a", "(3)", "-", "3", "→", "0"]
    ]
    assert "3 members must be placed at once; the cluster takes " in out
