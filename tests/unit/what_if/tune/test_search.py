"""A search: deterministic however many processes run its trials, and better than the current values where there is something better."""

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from collections import deque
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from functools import partial
from multiprocessing.context import SpawnProcess
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from msgspec.structs import replace

import wharfinger
from tests.unit.scheduler.decision_log.recording import recorded as record
from tests.unit.simulate.clusters import pods_of, policy, state_of
from wharfinger.api import load_policies
from wharfinger.errors import UsageError
from wharfinger.framework.chain import assemble
from wharfinger.what_if.tune import search, trial_chart, trials, tunables, workloads
from wharfinger.what_if.tune.objectives import objective

# The default spreads. Fewer nodes are touched with any weight of `pack` above that of `spread`.
TEXT = """policy "pack"
param reserve: percent = 10% range 0%..50%
filter room { require node.free.memory - pod.requests.memory >= node.allocatable.memory * reserve else "no room" }
score pack = most_allocated(cpu: 1, memory: 1)
score spread weight 9 = least_allocated(cpu: 1, memory: 1)
base kubernetes {
  NodeResourcesFit weight 0
  NodeResourcesBalancedAllocation weight 0
  PodTopologySpread weight 0
}
test "spreads" {
  node a { cpu: 4cpu, memory: 16Gi }
  node b like a
  pod p { requests: { cpu: 1cpu, memory: 1Gi } }
  running q like p on a
  place p
  expect p on b
}
"""
HERE = partial(trials.processes, jobs=1)
GOALS = ("nodes_touched", "unplaced + 0")


def tuned(executor=HERE, *, text=TEXT, n_trials=12, seed=0, goals=GOALS, wanted=(), share=0.5):
    current = policy(text)
    whole = workloads.waiting("all", state_of(16), pods_of(24, 2), None)
    searched, held_out = workloads.split([whole], share, seed)
    numbers = tunables.chosen(tunables.found([current], assemble([current])), wanted, [current])
    return search.tuned([current], numbers, list(map(objective, goals)), searched, held_out, executor, n_trials=n_trials, seed=seed)


@pytest.fixture(scope="module")
def found():
    return tuned(wanted=("pack", "spread", "reserve"))


def test_the_best_is_better_and_changes_no_more_than_it_must(found):
    assert found.is_better
    assert found.best.objectives < found.current.objectives
    changed = [tunable.own_name for tunable, value in zip(found.tunables, found.best.values, strict=True) if value != tunable.current]
    assert changed
    assert "reserve" not in changed
    assert found.failing == ("pack: spreads",)
    assert found.better == ("nodes_touched",)
    assert found.worse == ()
    assert found.change.startswith("--- mix.policy\n+++ mix.policy\n")


def test_the_change_is_what_was_tried(found):
    texts = tunables.edited(
        [policy(TEXT).policy.source],
        found.tunables,
        {tunable.name: value for tunable, value in zip(found.tunables, found.best.values, strict=True)},
    )
    workload, _ = workloads.waiting("all", state_of(16), pods_of(24, 2), None).split(0.5, 0)
    measures = workload.measured([policy(texts["mix.policy"])], ["nodes_touched"])
    assert measures["nodes_touched"] == found.best.objectives[0]


def test_the_front_is_what_no_other_trial_beats(found):
    every = found.every
    assert len(every) == 13
    expected = {
        trial.objectives
        for trial in every
        if not any(
            other.objectives != trial.objectives and all(a <= b for a, b in zip(other.objectives, trial.objectives, strict=True))
            for other in every
        )
    }
    assert {trial.objectives for trial in found.front} == expected
    assert len(found.front) == len(expected)


def test_any_number_of_processes_finds_the_same(found):
    assert tuned(partial(trials.processes, jobs=2), wanted=("pack", "spread", "reserve")) == found


def test_another_seed_searches_elsewhere(found):
    assert tuned(seed=1, wanted=("pack", "spread", "reserve")).trials != found.trials


def test_a_dask_cluster_finds_the_same(found):
    import distributed

    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster:
        assert tuned(partial(trials.dask, address=cluster.scheduler_address), wanted=("pack", "spread", "reserve")) == found


class Pairs(Executor):
    """Runs what waits, the two that were submitted first at a time, once an answer is asked for: as two processes would."""

    def __init__(self):
        self.waiting = deque()
        self.ran = []
        self.alone = 0

    def submit(self, fn, /, *args):
        future = Asked(self)
        self.waiting.append((future, fn, args))
        return future

    def run_two(self):
        pair = [self.waiting.popleft() for _ in range(min(2, len(self.waiting)))]
        self.alone += len(pair) == 1
        for future, fn, args in pair:
            self.ran.append((tuple(args[0].items()), args[1]))
            future.set_result(fn(*args))


class Asked(Future):
    def __init__(self, executor):
        super().__init__()
        self.executor = executor

    def result(self, timeout=None):
        while not self.done():
            self.executor.run_two()
        return super().result(timeout)


def test_no_trial_runs_twice_and_both_processes_have_work():
    """Few run alone: the last of an odd number, and a step back that follows one that was accepted."""
    executor = Pairs()

    @contextmanager
    def pairs(setup):
        trials.keep(pickle.dumps(setup))
        yield executor

    assert tuned(pairs) == tuned()
    assert len(executor.ran) == len(set(executor.ran))
    assert executor.alone <= 3


def test_no_dask_scheduler_is_an_error():
    with pytest.raises(UsageError, match="--dask nowhere://x: there is no Dask scheduler"):
        tuned(partial(trials.dask, address="nowhere://x"))


def test_without_an_improvement_nothing_changes():
    found = tuned(goals=["0 * unplaced"], n_trials=3)
    assert (found.is_better, found.change, found.failing) == (False, "", ())
    assert found.held_out is not None
    assert found.worse == found.better == ()


def test_numbers_that_policies_cannot_have_are_counted(tmp_path):
    for name in ("one", "two"):  # that disagree unless their weights are equal
        (tmp_path / f"{name}.policy").write_text(f'policy "{name}"\n\nbase kubernetes {{\n  NodeResourcesFit weight 1\n}}\n')
    policies = load_policies(tmp_path)
    numbers = tunables.chosen(tunables.found(policies, assemble(policies)), ["NodeResourcesFit=0..2"], policies)
    whole = workloads.waiting("all", state_of(4), pods_of(4), None)
    found = search.tuned(policies, numbers, [objective("unplaced")], [whole], [], HERE, n_trials=12)
    assert 0 < found.unusable < 12
    assert len(found.trials) + found.unusable == 12
    assert found.held_out is None


def test_without_a_number_there_is_nothing_to_search():
    with pytest.raises(UsageError, match="no number to search"):
        tuned(text='policy "none"\nfilter all { reject false else "never" }\n')


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(UsageError, match=r"pip install 'wharfinger\[tune\]'"):
        tuned()
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(UsageError, match=r"pip install 'wharfinger\[dask\]'"), trials.dask(None, "tcp://127.0.0.1:1"):
        pass


@pytest.mark.parametrize("goals", [["nodes_touched"], GOALS, ["nodes_touched", "unplaced", "imbalance:zone"]])
def test_the_picture_has_a_point_for_each_trial(goals):
    found = tuned(goals=goals, n_trials=4)
    root = ET.fromstring(trial_chart.svg(found))
    circles = list(root.iter("{http://www.w3.org/2000/svg}circle"))
    assert len(circles) == 5 * max(1, len(goals) - 1)
    assert {circle.get("class") for circle in circles} >= {"current"}
    assert all(circle.find("{http://www.w3.org/2000/svg}title").text for circle in circles)
    assert not {element.tag.rpartition("}")[2] for element in root.iter()} & {"script", "image", "foreignObject"}


def test_python_takes_several_clusters_and_decision_logs(tmp_path):
    log = tmp_path / "decisions.jsonl"
    record(log, rounds=8)
    snapshot = tmp_path / "empty.json"
    snapshot.write_text('{"apiVersion": "v1", "kind": "List", "items": []}')
    cluster = replace(wharfinger.load_snapshot(snapshot), state=state_of(8), pending=tuple(pods_of(8, 2)))
    found = wharfinger.tune([policy(TEXT)], [cluster, cluster], ["unplaced"], logs=[log], search=["spread"], trials=2)
    assert len(found.searched) == 3
    assert {title.split(":")[0] for title in found.searched} >= {"cluster 1", "cluster 2"}
    with pytest.raises(UsageError, match="nothing to search on"):
        wharfinger.tune([policy(TEXT)], [], ["unplaced"])


def test_python_places_running_pods_anew_and_some_twice(tmp_path):
    snapshot = tmp_path / "empty.json"
    snapshot.write_text('{"apiVersion": "v1", "kind": "List", "items": []}')
    state = state_of(8)
    for number, pod in enumerate(pods_of(6, 2)):
        state.assume(pod, state.snapshot().names[number])
    cluster = replace(wharfinger.load_snapshot(snapshot), state=state, pending=())
    with pytest.raises(UsageError, match="no pods to place"):
        wharfinger.tune([policy(TEXT)], cluster, ["unplaced"], trials=1)
    found = wharfinger.tune([policy(TEXT)], cluster, ["moves"], replace=["all"], load=1.5, kubernetes=True, held_out=0, trials=1)
    assert found.searched == ("cluster: 8 nodes, 9 pods to place",)
    assert any(tunable.own_name == "NodeAffinity" for tunable in found.tunables)


SEARCH = """
import os, time
from wharfinger.what_if.tune import trials
with trials.processes(None, 2) as executor:
    print(executor.submit(os.getpid).result(), flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_processes_end_when_the_search_is_killed(number):
    with subprocess.Popen([sys.executable, "-c", SEARCH], stdout=subprocess.PIPE) as process:
        assert int(process.stdout.readline()) != process.pid
        process.send_signal(number)
        process.communicate(timeout=60)  # the output ends when no process can write to it any more
    assert process.returncode == -number


def test_a_process_that_is_ended_is_no_error_of_our_own():
    with pytest.raises(UsageError, match="try fewer with --jobs"), trials.processes(None, 2) as executor:
        executor.submit(os._exit, 1).result()


def test_an_interrupt_does_not_reach_the_processes_and_an_exception_ends_them_at_once():
    """Ctrl-C in a terminal is sent to all processes, also to one that is being started, which would print a traceback."""
    with pytest.raises(KeyboardInterrupt), trials.processes(None, 2) as executor:  # noqa: PT012 — what runs inside is what is interrupted
        executor.submit(time.sleep, 600)
        (process,) = multiprocessing.active_children()
        status = Path(f"/proc/{process.pid}/status").read_text()
        raise KeyboardInterrupt
    (blocked,) = (line.split()[1] for line in status.splitlines() if line.startswith("SigBlk:"))
    assert int(blocked, 16) & 1 << (signal.SIGINT - 1)
    assert not process.is_alive()


def test_an_interrupt_while_a_process_is_started_is_not_lost(monkeypatch):
    start = SpawnProcess.start

    def started(process):
        start(process)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(SpawnProcess, "start", started)
    with pytest.raises(KeyboardInterrupt), trials.processes(None, 2) as executor:
        executor.submit(time.sleep, 600)
    assert not multiprocessing.active_children()
