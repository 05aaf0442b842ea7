"""Bursts: thousands of pods, nodes that are removed and added again, compaction of etcd; removed objects leave nothing in memory."""

import gc
import multiprocessing
import resource
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial

import pytest

from tests.cluster import objects
from tests.cluster.api import Api
from tests.cluster.control_plane import TOKEN
from tests.cluster.live import NAME, LiveScheduler
from tests.cluster.process import WharfProcess
from tests.cluster.soundness import assert_sound
from tests.cluster.waiting import eventually, wait_bound
from wharfinger.model.columns.pod_table import LOG_LIMIT
from wharfinger.model.objects.pod_view import PodView

SAMPLES = ('scheduler_cache_size{type="pods"}', 'scheduler_pending_pods{queue="unschedulable"}')
SMALL = {"cpu": "10m", "memory": "16Mi"}
N_NODES = 200
N_PODS = 2000
MANY_NODES = 250
MANY_PODS = 20_000
LONGEST = 300.0
"""Seconds from the last pod created to the last bound."""


def test_nodes_vanish_and_come_back_while_pods_are_placed(control_plane, nodes, pods):
    api = control_plane.api
    names = nodes(N_NODES)
    with LiveScheduler(control_plane.kubeconfig) as scheduler, ThreadPoolExecutor(1) as other:
        arriving = other.submit(pods, N_PODS, scheduler=NAME, **SMALL)
        eventually(lambda: scheduler.placed() > N_PODS / 10, every=0.005)
        for name in names:
            api.delete("Node", name)
        assert scheduler.placed() < N_PODS, "it came too late"
        api.create_many(objects.node(name) for name in names)
        arriving.result()
        wait_bound(control_plane, N_PODS)
        assert_sound(control_plane, assumed=scheduler.assumed)
        eventually(lambda: scheduler.placed() == N_PODS and not scheduler.waiting())


@pytest.mark.parametrize("while_away", ["watches are cut", "everything is cut"])
def test_watches_recover_from_a_compaction_of_etcd(control_plane, proxy, nodes, pods, while_away):
    api = control_plane.api
    nodes(20)
    with LiveScheduler(proxy.kubeconfig) as scheduler:
        pods(50, prefix="before", scheduler=NAME, **SMALL)
        eventually(lambda: scheduler.placed() == 50)
        proxy.cut(watches=while_away == "watches are cut", every=0.05)  # no watch gets anywhere until it is cleared
        pods(50, prefix="meanwhile", scheduler=NAME, **SMALL)
        api.delete("Pod", "before-0000")
        api.delete("Node", "node-0000")
        control_plane.compact()
        control_plane.api_server.stop()  # its cache of watched objects would still know the versions that etcd has forgotten
        control_plane.start_api_server()
        proxy.clear()
        wait_bound(control_plane, 99)
        assert_sound(control_plane, assumed=scheduler.assumed, removed_nodes={"node-0000"})
        assert any(seen.status == 410 or (seen.watch and seen.status == 200) for seen in proxy.seen)
        eventually(lambda: scheduler.ask(lambda running: running.state.snapshot().row("node-0000")) is None)


def create(port, certificate, numbers):
    """Creates pods from another process, which leaves this one to the scheduler."""
    Api(port, TOKEN, certificate).create_many(objects.pod(f"pod-{number:05d}", scheduler=NAME, **SMALL) for number in numbers)


def test_a_burst_of_twenty_thousand_pods(control_plane, nodes, record_property):
    nodes(MANY_NODES)
    control_plane.kwok.stop()  # they need not run
    with (
        LiveScheduler(control_plane.kubeconfig) as scheduler,
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as other,
    ):
        began = time.monotonic()
        other.submit(create, control_plane.port, control_plane.certificate, range(MANY_PODS)).result()
        eventually(lambda: scheduler.placed() == MANY_PODS, within=LONGEST, every=0.2)
        took = time.monotonic() - began
        record_property("seconds", round(took))
        record_property("megabytes", _megabytes())
        assert_sound(control_plane, assumed=scheduler.assumed)
        eventually(lambda: not scheduler.waiting())


def _megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def rounds(control_plane, pods, n, placed, measure):
    """The measurements after each of three rounds in which n pods come, all but a tenth find room, and all go."""
    control_plane.kwok.stop()  # they need not run
    for index in range(3):
        pods(n, prefix=f"round-{index}", scheduler=NAME, each=partial(_heavy, index), **SMALL)
        eventually(lambda: placed() == (n - n // 10, n // 10))
        control_plane.api.delete_all("Pod")
        eventually(lambda: placed() == (0, 0))
        yield measure()


def _heavy(index, number):
    """Labels that make some templates in each round, of which results are kept for a while, and 16 kB that only take up room."""
    return {"labels": {"round": f"{index}", "own": f"{number % 20}"}, "annotations": {"note": "x" * 16_384}}


def test_nothing_is_kept_of_pods_that_have_gone(control_plane, nodes, pods):
    nodes(9, pods=60)

    def views():
        gc.collect()
        return sum(isinstance(each, PodView) for each in gc.get_objects())

    with LiveScheduler(control_plane.kubeconfig) as scheduler:
        before = views()
        scheduler.ask(lambda running: running.state._tables.pods._log.clear())
        kept = list(rounds(control_plane, pods, 600, lambda: (scheduler.placed(), len(scheduler.waiting())), views))
        scheduler.ask(lambda running: running.state._tables.pods._log.clear())  # the log of changes is bounded
        after = views()
    assert max(kept) < before + 2 * LOG_LIMIT + 600
    assert after < before + 600 + 100, "an example of each template that was there"


def test_memory_returns_to_its_level(control_plane, nodes, pods):
    nodes(18, pods=N_PODS // 20)
    with WharfProcess(control_plane) as wharf:

        def placed():
            read = dict(line.rsplit(" ", 1) for line in wharf.get("/metrics")[1].splitlines() if line.startswith(SAMPLES))
            return tuple(int(float(read[sample])) for sample in SAMPLES)

        levels = [rss // 2**20 for rss in rounds(control_plane, pods, N_PODS, placed, lambda: wharf.rss)]
    assert levels[2] < levels[0] + 25, f"{levels} MB; a round whose pods were kept would add more than 30"


def test_events_follow_while_binding_goes_on(control_plane, nodes, pods):
    """Not after the last binding, as if they were written when all is done: versions of etcd say what was written before what."""
    nodes(20, cpu="64", pods=200)
    control_plane.kwok.stop()  # a pod that begins to run would have a later version than its binding
    n = 1500
    pods(n, scheduler="wharfinger", **SMALL)
    with WharfProcess(control_plane) as wharf:
        wait_bound(control_plane, n)
        eventually(lambda: "wharfinger_event_age_seconds 0.0\n" in wharf.get("/metrics")[1])
        assert "wharfinger_events_left_out_total 0.0\n" in wharf.get("/metrics")[1]
    last = max(int(pod["metadata"]["resourceVersion"]) for pod in control_plane.api.list("Pod"))
    written = {
        event["regarding"]["name"]: int(event["metadata"]["resourceVersion"])
        for event in control_plane.api.list("Event")
        if event["reason"] == "Scheduled"
    }
    assert len(written) == n
    early = sum(version < last for version in written.values())
    assert early > n / 100, "all events were written after the last binding"
