"""Two replicas: after any fault of the leader, every pod is bound exactly once, and a former leader binds nothing."""

import signal

import pytest

from tests.cluster.misbehaviour import Answer, Delay
from tests.cluster.replicas import (
    DEADLINE,
    DURATION,
    arriving,
    two_replicas,
    wait_for_bindings,
)
from tests.cluster.soundness import assert_sound
from tests.cluster.waiting import eventually, wait_bound

N_NODES = 50
N_PODS = 2000
MIDDLE = 500
N_SLOWLY = 400  # pods that arrive one after the other, so that there is always one to bind


def reported(control_plane):
    """The names of the pods with an event of their binding."""
    return {event["regarding"]["name"] for event in control_plane.api.list("Event") if event["reason"] == "Scheduled"}


@pytest.fixture
def replicas(control_plane, nodes):
    nodes(N_NODES)
    with two_replicas(control_plane) as both:
        yield both


def test_the_leader_is_killed_in_the_middle(control_plane, replicas):
    leader, standby = replicas
    with arriving(control_plane, N_PODS):
        wait_for_bindings(leader, MIDDLE)
        leader.kill()
        assert standby.bindings() == []
        wait_for_bindings(standby, 1)
    wait_bound(control_plane, N_PODS)

    assert_sound(control_plane)
    assert MIDDLE <= sum(leader.bound().values()) < N_PODS
    assert max((leader.bound() + standby.bound()).values()) == 1
    eventually(lambda: len(reported(control_plane)) == N_PODS)


def test_the_leader_is_stopped_for_longer_than_its_lease_and_binds_nothing_when_it_goes_on(control_plane, replicas):
    leader, standby = replicas
    with arriving(control_plane, N_SLOWLY, seconds=2):
        wait_for_bindings(leader, N_SLOWLY // 4)
        leader.signal(signal.SIGSTOP)
        wait_for_bindings(standby, N_SLOWLY // 4)
        before = len(leader.bindings())  # what it had sent has arrived
        leader.signal(signal.SIGCONT)
        assert leader.wait() == 1
    wait_bound(control_plane, N_SLOWLY)

    assert_sound(control_plane)
    assert len(leader.bindings()) <= before + 1, "none but the one that it may have been handing over when it was stopped"
    assert "lost the lease" in leader.log
    assert max((leader.bound() + standby.bound()).values()) == 1


@pytest.mark.parametrize("fault", [Answer(status=500), Delay(seconds=60)], ids=["refused", "unanswered"])
def test_a_leader_that_cannot_renew_binds_nothing_after_the_deadline(control_plane, replicas, fault):
    leader, standby = replicas
    with arriving(control_plane, N_SLOWLY, seconds=DEADLINE + 2):
        wait_for_bindings(leader, 10)
        leader.proxy.add(fault, method="PUT", path="/leases/")
        assert leader.wait() == 1
    wait_bound(control_plane, N_SLOWLY)

    assert_sound(control_plane)
    last_renewal = max(seen.at for seen in leader.proxy.seen if seen.method == "PUT" and "/leases/" in seen.path and seen.status == 200)
    last = max(seen.at for seen in leader.bindings())
    assert last < last_renewal + DURATION, "a rival may lead by then"
    assert min(seen.at for seen in standby.bindings()) > last
    assert f"not renewed for {DEADLINE:g} s" in leader.log


def test_a_leader_that_is_stopped_ends_what_it_began_and_gives_the_lease_back(control_plane, replicas):
    leader, standby = replicas
    with arriving(control_plane, N_PODS // 2):
        wait_for_bindings(leader, MIDDLE // 2)
        assert leader.terminate() == 0
        wait_for_bindings(standby, 1)
    wait_bound(control_plane, N_PODS // 2)

    assert_sound(control_plane)
    assert leader.gave_back()
    bound = leader.bound()
    assert bound.keys() - reported(control_plane) == set()
    assert max((bound + standby.bound()).values()) == 1
