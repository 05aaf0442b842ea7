"""Decision logs with cut lines, missing files or other faults: each fault is reported with its place."""

import asyncio
import gzip
import json
import os
import threading
import time
from pathlib import Path

import pytest

from tests.unit.scheduler.decision_log.recording import Recorded, recorded, recorder, replayed
from tests.unit.scheduler.running import node, view
from wharfinger.errors import UsageError
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.scheduler.decision_log import files
from wharfinger.scheduler.decision_log.lines import HEAD
from wharfinger.scheduler.decision_log.reading import BrokenLog, LogReader, Playback
from wharfinger.scheduler.decision_log.recorder import RecordedState


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "decisions.jsonl"
    recorded(path, rounds=8)
    return path.read_text()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "decisions.jsonl"


def eventually(holds):
    for _ in range(500):
        if holds():
            return
        time.sleep(0.02)
    pytest.fail("it never came to that")


def first(content, name):
    return next(line for line in content.splitlines(keepends=True) if f'"t":"{name}"' in line)


def test_a_last_line_that_was_cut_off_is_left_out_and_said(path, content):
    whole = content.count('"t":"decision"')
    last = content.rindex('{"t":"decision"')
    path.write_text(content[: last + 40])
    found, notes = replayed(path)

    assert len(found) == whole - 1
    assert not any(each.difference for each in found)
    assert "the last line is not complete and is left out" in notes[0]


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (lambda text: text.split("\n", 1)[1], ":1: this is not the beginning of a decision log"),
        (lambda text: text.replace('"version":1', '"version":2', 1), ":1: a decision log of version 2; this program reads version 1"),
        (lambda text: "pods and more\n" + text, ":1: this is not a decision log"),
        (lambda text: text.replace(first(text, "assume"), "{}}\n", 1), "the line cannot be read"),
        (lambda text: text.replace(first(text, "assume"), "", 1), "changes are missing"),
        (lambda text: text.replace(first(text, "state"), "", 1), "a decision of which something is missing"),
        (lambda text: text.replace('"t":"assume"', '"t":"presume"', 1), "there are no lines called 'presume'"),
        (lambda text: text.replace("weight 3", "weight 4"), "differs from the recorded one when it is read"),
        (lambda text: text.replace('"NodeResourcesFit":1', '"NodeResourcesFit":9'), "cannot be made again"),
        (lambda text: text.replace('"chain":"', '"chain":"0', 1), "cannot be made again"),
        (lambda text: text.replace('"kind":"Service"', '"kind":"Parcel"', 1), "put: there is no 'Parcel'"),
        (lambda text: "", "nothing has been written to this decision log yet"),
        (lambda text: text[:30], "no decision has been written to this decision log yet"),
        (lambda text: text.split("\n", 1)[0] + "\n", "no decision has been written to this decision log yet"),
        (lambda text: "neither a line nor a log", ":1: this is not a decision log"),
        (lambda text: "{" + "x" * 100_000, ":1: this is not a decision log"),
    ],
)
def test_faults_of_a_log_are_reported_with_their_place(path, content, broken, says):
    path.write_text(broken(content))
    with pytest.raises(BrokenLog) as error:
        replayed(path)
    assert says in str(error.value)
    assert str(path) in str(error.value)


def test_a_compressed_log_is_named_as_such(path, content):
    path.write_bytes(gzip.compress(content.encode()))
    with pytest.raises(BrokenLog, match=r":1: this is compressed; uncompress it first"):
        replayed(path)


def test_a_log_comes_through_a_pipe(path, content):
    os.mkfifo(path)
    writing_end = threading.Thread(target=path.write_text, args=(content,))
    writing_end.start()
    found, notes = replayed(path)
    writing_end.join()
    assert len(found) == content.count('"t":"decision"')
    assert notes == []


def test_files_put_together_replay_and_are_checked_as_files_are(path, content):
    path.write_text(content + content)
    found, notes = replayed(path)
    assert len(found) == 2 * content.count('"t":"decision"')
    assert "does not continue the one before it: the files are out of order, or one is there twice" in notes[0]

    path.write_text(content + content.replace('"version":1', '"version":2', 1))
    with pytest.raises(BrokenLog, match="a decision log of version 2"):
        replayed(path)


def test_a_file_that_is_finished_while_the_log_is_read_is_read_once_and_in_order(path, content):
    """The scheduler begins a new file when the replay is about to open the old one."""
    first_file, second = path.with_name("decisions.jsonl.000001"), path.with_name("decisions.jsonl.000002")
    for file, number in ((first_file, 1), (path, 2)):
        file.write_text(f"{number}")
    read = []
    for name, stream in files.opened(path):
        if not read:
            path.rename(second)
            path.write_text("3")
        read.append((name.name, stream.read()))
    assert read == [("decisions.jsonl.000001", b"1"), ("decisions.jsonl.000002", b"2"), ("decisions.jsonl", b"3")]


def test_a_file_that_is_removed_while_the_log_is_read_is_left_out(path):
    numbered = [path.with_name(f"decisions.jsonl.{number:06d}") for number in (1, 2, 3)]
    for file in (*numbered, path):
        file.write_text(file.name)
    read = []
    for name, _ in files.opened(path):
        numbered[1].unlink(missing_ok=True)
        read.append(name)
    assert read == [numbered[0], numbered[2], path]


def test_a_log_that_is_not_there(path):
    with pytest.raises(UsageError, match="no such decision log"):
        replayed(path)


def test_a_file_that_is_missing_in_the_middle_is_reported_and_the_others_replay(tmp_path, path):
    running = recorded(path, rounds=60, max_bytes=60_000, max_files=100)
    finished = sorted(tmp_path.glob("*.0*"))
    finished[1].unlink()
    found, notes = replayed(path)

    assert 0 < len(found) < len(running.decisions)
    assert not any(each.difference for each in found)
    assert "decisions before this file are missing" in notes[0]


def test_a_finished_file_replays_alone(tmp_path, path):
    recorded(path, rounds=60, max_bytes=60_000, max_files=100)
    found, notes = replayed(sorted(tmp_path.glob("*.0*"))[2])
    assert found
    assert not any(each.difference for each in found)
    assert notes == []


def test_the_files_that_are_kept_are_limited_and_they_replay(tmp_path, path):
    recorded(path, rounds=60, max_bytes=60_000, max_files=3)
    assert min(found.name for found in tmp_path.iterdir()) == "decisions.jsonl"
    assert len(list(tmp_path.iterdir())) == 3
    found, notes = replayed(path)
    assert found
    assert notes == []


def test_a_log_goes_on_after_a_restart(path):
    first_run = recorded(path, rounds=6)
    second = recorded(path, rounds=6)
    found, notes = replayed(path)
    assert [each.pod for each in found] == [pod for pod, _ in first_run.decisions + second.decisions]
    assert notes == []


def test_a_folder_that_cannot_be_written_ends_the_start(tmp_path):
    with pytest.raises(UsageError, match="the decision log cannot be written"), recorder(tmp_path / "missing" / "log"):
        pass


def test_other_files_are_not_overwritten(tmp_path):
    folder, pipe, notes = tmp_path / "folder", tmp_path / "pipe", tmp_path / "notes"
    folder.mkdir()
    os.mkfifo(pipe)
    notes.write_text("important")
    for path, wrong in (
        (folder, "that is a folder; name a file in it"),
        (pipe, "that is a device or a pipe"),
        (Path("/dev/null"), "that is a device or a pipe"),
        (notes, "the file contains something else; name another one"),
    ):
        with pytest.raises(UsageError, match=f"^{path}: the decision log cannot be written: {wrong}"), recorder(path):
            pass
    assert sorted(found.name for found in tmp_path.iterdir()) == ["folder", "notes", "pipe"]
    assert notes.read_text() == "important"


def test_a_link_leads_to_all_files_of_a_log(tmp_path, path):
    entry = tmp_path / "link"
    entry.symlink_to(tmp_path / "logs" / path.name)
    (tmp_path / "logs").mkdir()
    running = recorded(entry, rounds=20, max_bytes=20_000, max_files=100)
    assert sorted(found.name for found in tmp_path.iterdir()) == ["link", "logs"]
    assert len(list((tmp_path / "logs").iterdir())) > 1
    found, notes = replayed(entry)
    assert [each.pod for each in found] == [pod for pod, _ in running.decisions]
    assert notes == []


def test_two_processes_that_share_a_log_lose_no_line(path):
    with recorder(path, max_bytes=10_000, max_files=100) as (recording, _):
        first = Recorded(recording)
        with recorder(path, max_bytes=10_000, max_files=100) as (also_recording, _):
            second = Recorded(also_recording, seed=2)

            async def both():
                await asyncio.gather(first.churn(15, None), second.churn(15, None))

            asyncio.run(both())
    found, _ = replayed(path)
    assert not any(each.difference for each in found)
    assert len(found) == len(first.decisions) + len(second.decisions)


def test_files_that_several_begin_at_once_are_all_there_and_each_has_one_writer(path):
    """As scheduling processes that share a log do: each begins a file, writes two parts of a line, and begins the next."""

    def write(writer):
        for number in range(40):
            with files.begun(path) as file:
                file.write(HEAD + f"{writer} {number} ".encode())
                file.write(b"end")

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [stream.read() for _, stream in files.opened(path)]
    assert sorted(found) == sorted(HEAD + f"{writer} {number} end".encode() for writer in range(8) for number in range(40))


def test_a_file_that_another_process_has_begun_is_not_removed_while_it_is_empty(path):
    with files.begun(path) as slow, files.begun(path), files.begun(path):
        files.prune(path, 8)
        slow.write(HEAD + b"slow")
    assert [stream.read() for _, stream in files.opened(path)] == [HEAD + b"slow", b""]
    files.prune(path, 8)
    assert sorted(found.name for found in path.parent.iterdir()) == [path.name, f"{path.name}.000001"]


def test_an_empty_file_that_was_removed_before_it_was_used_is_begun_again(path):
    with recorder(path) as (recording, _):
        path.unlink()
        recording.begin()
    assert path.read_bytes().startswith(HEAD)


def test_processes_that_end_before_they_record_anything_leave_no_heap_of_files(path):
    whole = recorded(path, rounds=8)
    for _ in range(10):
        with recorder(path, max_files=2):
            pass
    assert len(list(path.parent.iterdir())) <= 3
    found, _ = replayed(path)
    assert len(found) == len(whole.decisions)


def test_a_disk_that_does_not_keep_up_loses_entries_and_reports_it(path, monkeypatch):
    monkeypatch.setattr(files, "MAX_WAITING", 20)
    with recorder(path) as (recording, failures):
        recording.begin()
        written, recording._writer._write_all = recording._writer._write_all, lambda: None  # the disk hangs
        for number in range(100):
            recording.state.add_node(node(f"n{number}"))
        recording._writer._write_all = written
        for _ in range(100):
            recording._writer._thread.wake()
            if not recording._writer._entries:
                break
            time.sleep(0.02)
        recording.state.add_node(node("last"))
    assert "the disk does not keep up" in str(failures[0])
    written = sorted(path.parent.iterdir())
    heads = [json.loads(file.read_text().splitlines()[0]) for file in written]
    assert [head.get("lost", False) for head in heads] == [True, False]  # the file that is written now, and the one before
    nodes = [line for line in written[0].read_text().splitlines() if '"t":"node"' in line]
    assert len(nodes) == 101, "the new file begins with everything"


def test_a_failing_disk_is_reported_and_tried_again_later(path, monkeypatch):
    with recorder(path) as (recording, failures):
        recording.begin()
        recording._writer._write = lambda: (_ for _ in ()).throw(OSError(28, "No space left on device"))
        recording.state.add_node(node("n1"))
        for _ in range(100):
            if failures:
                break
            time.sleep(0.02)
        goes_on = "nothing is recorded until the disk has free space and may be written"
        assert str(failures[0]) == f"{path}: the decision log cannot be written: No space left on device; {goes_on}"
        del recording._writer._write
        recording.state.add_node(node("n2"))
        assert not recording._writer.has_room, "not at once"
        recording._writer._paused_until = 0.0
        recording.state.add_node(node("n3"))
    assert path.read_text().count('"t":"node"') == 3
    assert json.loads(path.read_text().splitlines()[0])["lost"] is True


def test_a_disk_that_stays_full_costs_no_file_that_can_be_replayed(path, monkeypatch):
    """Every attempt writes a part of a checkpoint."""
    whole = recorded(path, rounds=8)
    monkeypatch.setattr(files, "RETRY_AFTER", 0.0)
    with recorder(path, max_files=2) as (recording, failures):
        write = recording._writer._write

        def half():
            if recording._writer._content:
                del recording._writer._content[1:]
                write()
                raise OSError(28, "No space left on device")

        recording._writer._write = half
        for attempt in range(4):
            recording.state.add_node(node(f"n{attempt}"))
            recording.begin()
            eventually(lambda attempt=attempt: len(failures) > attempt)
    assert len(list(path.parent.iterdir())) == 2, "one file is tried again and again"
    found, _ = replayed(path)
    assert len(found) == len(whole.decisions)


def test_assumed_pods_and_pods_on_unknown_nodes_outlast_a_checkpoint(path):
    with recorder(path) as (recording, _):
        recording.begin()
        state = recording.state
        for name in ("n1", "n2", "n3"):
            state.add_node(node(name))
        state.assume(view("a"), "n2")
        state.assume(view("b"), "n3")
        state.add_pod(view("c", nodeName="nowhere"))
        state.nominate(view("d"), "n1")
        state.remove_node("n3")
        recording._writer.wants_checkpoint = True
        state.add_node(node("n4"))
        last = state
    playback = Playback()
    for _, line in LogReader(path=path).lines():
        playback.take(line)
    again = playback.state
    assert again.revision == last.revision
    assert list(again.snapshot().names) == list(last.snapshot().names)
    reported = [[(pod.key, pod.node_name, assumed) for pod, assumed in found.placements()] for found in (last, again)]
    assert reported[0] == reported[1]
    assert again.snapshot().nominated_to("uid-d") == "n1"
    again.add_node(node("n3"))
    assert again.snapshot().placed("uid-b") is not None


def test_changes_before_the_first_decision_are_in_the_checkpoint(path):
    with recorder(path) as (recording, _):
        for name in ("n1", "n2"):
            recording.state.add_node(node(name))
        recording.state.remove_node("n1")
        recording.begin()
        recording.state.add_node(node("n3"))
    assert [json.loads(line)["t"] for line in path.read_text().splitlines()] == ["log", "node", "state", "node"]


def test_every_change_that_a_state_can_make_is_recorded():
    reading = {"from_objects", "revision", "objects", "snapshot", "is_placed", "is_assumed", "assumed", "nodes_listed"}
    reading |= {"placements", "n_placements"}
    built_on_others = {"update_node"}
    kept_with_each_decision = {"set_time"}
    set_by_the_chain = {"read_devices"}
    public = {name for name in vars(ClusterState) if not name.startswith("_")}
    assert public - reading - built_on_others - kept_with_each_decision - set_by_the_chain == {
        name for name in vars(RecordedState) if not name.startswith("_")
    }
