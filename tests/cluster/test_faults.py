"""No pod is lost after any fault between the scheduler and the API server."""

import pytest

from tests.cluster.live import NAME, LiveScheduler
from tests.cluster.misbehaviour import Answer, Delay, Lose
from tests.cluster.soundness import assert_sound
from tests.cluster.waiting import eventually, wait_bound

N_NODES = 50
N_PODS = 400
N_MANY = 2000


FAULTS = {
    "nothing": lambda proxy: None,
    "watches are cut every second": lambda proxy: proxy.cut(watches=True, every=1.0),
    "all connections are cut twice a second": lambda proxy: proxy.cut(every=0.5, longer=1.1),
    "every third watch is expired": lambda proxy: (proxy.add(Answer(status=410), watch=True, every=3), proxy.cut(watches=True, every=0.5)),
    "every third watch expires as it streams": lambda proxy: (
        proxy.add(Answer(status=410, in_stream=True), watch=True, every=3),
        proxy.cut(watches=True, every=0.5),
    ),
    "bindings are answered with bursts of 429": lambda proxy: proxy.add(Answer(status=429, retry_after=1), path="/binding$", times=100),
    "bindings are answered with bursts of 500": lambda proxy: proxy.add(Answer(status=500), path="/binding$", times=100),
    "everything is refused now and then": lambda proxy: proxy.add(Answer(status=503), every=7, times=200),
    "answers of bindings are lost": lambda proxy: proxy.add(Lose(), path="/binding$", every=4, times=60),
    "answers come five seconds late": lambda proxy: proxy.add(Delay(seconds=5, after=True), every=5, times=60),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_pod_is_bound_once_although(control_plane, proxy, nodes, pods, fault):
    nodes(N_NODES)
    FAULTS[fault](proxy)

    with LiveScheduler(proxy.kubeconfig) as scheduler:
        pods(N_PODS, scheduler=NAME)
        wait_bound(control_plane, N_PODS)
        proxy.clear()
        assert_sound(control_plane, assumed=scheduler.assumed)


def test_the_api_server_dies_in_the_middle(control_plane, nodes, pods):
    nodes(N_NODES)
    pods(N_MANY, scheduler=NAME, cpu="10m", memory="16Mi")

    with LiveScheduler(control_plane.kubeconfig) as scheduler:
        eventually(lambda: scheduler.placed() > N_MANY / 10, every=0.005)
        control_plane.api_server.kill()
        assert scheduler.placed() < N_MANY, "it came too late"
        control_plane.start_api_server()
        wait_bound(control_plane, N_MANY)
        assert_sound(control_plane, assumed=scheduler.assumed)


def test_pods_without_a_feasible_node_say_why_and_are_bound_when_there_is_room(control_plane, nodes, pods):
    nodes(2, cpu="1")
    pods(10, scheduler=NAME, cpu="300m")

    with LiveScheduler(control_plane.kubeconfig) as scheduler:
        wait_bound(control_plane, 6)
        assert_sound(control_plane, assumed=scheduler.assumed)
        nodes(2, prefix="more", cpu="1")
        wait_bound(control_plane, 10)
        assert_sound(control_plane, assumed=scheduler.assumed)
