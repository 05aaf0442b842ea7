from tests.unit.runtime.clusters import policy
from tests.unit.runtime.decision_log.recording import SECOND, recorded, replayed
from wharfinger.framework.chain import assemble, with_policies


def nodes(found):
    return [(replayed.pod, None if replayed.change is None else replayed.change.other) for replayed in found]


def test_every_decision_of_a_busy_cluster_comes_out_again(tmp_path):
    path = tmp_path / "decisions.jsonl"
    running = recorded(path)
    found, notes = replayed(path)

    assert len(running.decisions) > 60
    assert running.seen.preemptions, "the test is about preemption too"
    assert any(node is None for _, node in running.decisions)
    assert [each.pod for each in found] == [pod for pod, _ in running.decisions]
    assert [each.difference for each in found if each.difference] == []
    assert notes == []


def test_policies_that_change_meanwhile_are_replayed_each_in_its_time(tmp_path):
    path = tmp_path / "decisions.jsonl"
    recorded(path, change=lambda running: running.scheduler.adopt({"wharfinger": assemble([policy(SECOND)])}))
    found, _ = replayed(path)
    assert path.read_text().count('"t":"chain"') == 2
    assert not any(each.difference for each in found)


def test_many_small_files_replay_as_one(tmp_path):
    path = tmp_path / "decisions.jsonl"
    running = recorded(path, rounds=60, most_bytes=60_000, most_files=100)
    assert len(list(tmp_path.iterdir())) > 3
    found, notes = replayed(path)

    assert [each.pod for each in found] == [pod for pod, _ in running.decisions]
    assert not any(each.difference for each in found)
    assert notes == []


def test_other_policies_say_what_they_would_change_and_why(tmp_path):
    path = tmp_path / "decisions.jsonl"
    running = recorded(path)
    found, _ = replayed(path, others=lambda _profile, chain: with_policies(chain, [policy(SECOND)]))
    changes = [each.change for each in found if each.change]

    assert not any(each.difference for each in found)
    assert 0 < len(changes) < len(found)
    assert all(change.node != change.other for change in changes)
    assert [change.node for change in changes] == [node for (_, node), each in zip(running.decisions, found, strict=True) if each.change]
    assert any("mix/apart" in reason for change in changes for reason in change.reasons)


def test_the_same_policies_change_nothing(tmp_path):
    path = tmp_path / "decisions.jsonl"
    recorded(path, rounds=8)
    found, _ = replayed(path, others=lambda _profile, chain: chain)
    assert found
    assert not any(each.change for each in found)


def test_a_decision_that_was_written_otherwise_is_found(tmp_path):
    path = tmp_path / "decisions.jsonl"
    recorded(path, rounds=8)
    lines = path.read_text().splitlines(keepends=True)
    [last] = [number for number, line in enumerate(lines) if '"t":"decision"' in line][-1:]
    lines[last] = lines[last].replace('"ties":', '"ties":7')
    path.write_text("".join(lines))
    found, _ = replayed(path)

    [each] = [each for each in found if each.difference]
    assert each is found[-1]
    assert each.difference.part == "ties"
    assert str(each.difference).startswith(f"{path}:{last + 1}: {each.pod}: ties was 7")


def test_one_pod_alone_can_be_asked_about(tmp_path):
    path = tmp_path / "decisions.jsonl"
    running = recorded(path, rounds=8)
    key = running.decisions[5][0]
    found, _ = replayed(path, only=key)
    assert [each.pod for each in found] == [pod for pod, _ in running.decisions if pod == key]
