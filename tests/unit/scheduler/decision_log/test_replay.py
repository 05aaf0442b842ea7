"""A replay makes every decision of a log again, or shows what other policies change."""

import json
import re

from tests.unit.scheduler.decision_log.recording import SECOND, recorded, recorder, replayed
from tests.unit.scheduler.running import node, view
from tests.unit.simulate.clusters import policy
from wharfinger.builtins import CATALOGUE
from wharfinger.compiler.program import compile_policy
from wharfinger.framework.chain import assemble, with_policies
from wharfinger.language import load
from wharfinger.model import objects
from wharfinger.scheduler.decision_log.lines import DECODE, Encoding
from wharfinger.scheduler.decision_log.reading import LogReader, Playback, compiled


def names(path):
    """The names of the lines of a log."""
    return {json.loads(line)["t"] for line in path.read_text().splitlines()}


def test_every_decision_of_a_busy_cluster_comes_out_again(tmp_path):
    path = tmp_path / "decisions.jsonl"
    running = recorded(path)
    found, notes = replayed(path)

    assert len(running.decisions) > 60
    assert running.seen.preemptions, "the test is about preemption too"
    assert any(node is None for _, node in running.decisions)
    assert {"assume", "forget", "nominate", "pod gone", "node gone", "drop", "metric", "put"} <= names(path)
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
    running = recorded(path, rounds=60, max_bytes=60_000, max_files=100)
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


def test_victims_that_were_searched_for_while_the_cluster_changed_are_not_compared(tmp_path):
    path = tmp_path / "decisions.jsonl"
    recorded(path)
    text = path.read_text()
    assert '"while_changing"' not in text
    path.write_text(re.sub(r'"nominated":"[^"]+"(.*?"victims":)\[[^]]+\]', r'"nominated":"other","while_changing":true\1["none"]', text))
    found, _ = replayed(path, others=lambda _profile, chain: chain)
    assert '"while_changing":true' in path.read_text()
    assert not any(each.difference or each.change for each in found)


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


def test_each_single_change_is_made_again(tmp_path):
    path = tmp_path / "decisions.jsonl"
    with recorder(path) as (recording, _):
        recording.begin()
        state = recording.state
        for name in ("n1", "n2"):
            state.add_node(node(name))
        state.update_node(node("n1", cpu="9"))
        state.nominate(view("a"), "n1")
        state.remove_nomination(view("a"))
        state.assume(view("b"), "n1")
        state.forget(view("b"))
        state.assume(view("c"), "n2")
        state.add_pod(view("c", nodeName="n2"))
        state.remove_pod(view("c"))
        state.put(objects.Namespace(metadata=objects.ObjectMeta(name="shop")))
        state.drop("Namespace", "shop")
        state.set_metric("busy", {"n1": (0.5, 1.0)})
        state.drop_metric("busy")
        state.remove_node("n2")
        state.add_pod(view("d", nodeName="n1").placed_on("n1"))
        state.add_pod(view("e").placed_on("n1"))
        state.expect_leaving("uid-d")
        assert recording.begin()
        state.expect_leaving("uid-e")
        state.expect_leaving("uid-of another")
        state.expect_staying("uid-of another")
    playback = Playback()
    for _, line in LogReader(path=path).lines():
        playback.take(line)
    again, snapshot = playback.state, playback.state.snapshot()

    assert again.revision == state.revision
    assert snapshot.node(0).allocatable["cpu"] == 9000
    assert snapshot.nominated_to("uid-a") is None
    assert [(pod.key, pod.node_name) for pod, _ in again.placements()] == [("default/d", "n1"), ("default/e", "n1")]
    assert list(snapshot.objects) == []
    assert snapshot.metric("busy") is None
    assert list(snapshot.names) == ["n1"]
    assert set(snapshot.evicted) == {"uid-d", "uid-e"}


def test_a_policy_is_written_with_all_that_it_imports_and_its_params(tmp_path):
    (tmp_path / "lib").mkdir()
    texts = {
        "p.policy": 'import "lib/limits.policy" as limits\npolicy "p"\nparam zones: set<string> = ["a", "b"]\n'
        'filter f { require node.pod_count < limits.most and (node.labels["zone"] ?? "") in zones else "no" }\n',
        "lib/limits.policy": 'import "base.policy" as core\nlet most = core.few * 2\n',
        "lib/base.policy": "let few = 3\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    found, diagnostics = load.load_policies([str(tmp_path / "p.policy")], CATALOGUE)
    assert not diagnostics.has_errors, list(diagnostics)
    for params in ({}, {"zones": "c"}):
        own = compile_policy(found[0], params)
        first, *_ = Encoding().lines(("chain", "wharfinger", assemble([own])))
        again = compiled(DECODE(first))
        assert again.revision == own.revision
        assert again.params == own.params
