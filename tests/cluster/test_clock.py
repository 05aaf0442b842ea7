"""A clock that is set while pods are scheduled: waits use the monotonic clock, and written times are those of the set clock."""

from datetime import UTC, datetime

import pytest

from tests.cluster import objects
from tests.cluster.candidates import SkewedClock
from tests.cluster.live import NAME, LiveScheduler
from tests.cluster.soundness import assert_sound
from tests.cluster.waiting import eventually, wait_bound

HOUR = 3600.0


@pytest.mark.parametrize("jump", [HOUR, -HOUR], ids=["forward", "back"])
def test_clock_jumps_change_no_binding_and_no_wait(control_plane, nodes, pods, jump):
    nodes(4, cpu="1")
    clock = SkewedClock()
    with LiveScheduler(control_plane.kubeconfig, clock=clock) as scheduler:
        pods(16, scheduler=NAME, cpu="300m")
        wait_bound(control_plane, 12)
        eventually(lambda: len(scheduler.complaints.attempts) == 16 and list(scheduler.waiting().values()) == ["unschedulable"] * 4)
        before = scheduler.complaints.attempts.total()

        clock.ahead = jump
        pods(2, prefix="late", scheduler=NAME, cpu="300m")
        eventually(lambda: len(scheduler.waiting()) == 6)
        control_plane.api.create(objects.pod("small", scheduler=NAME, cpu="50m"))
        wait_bound(control_plane, 13)
        eventually(lambda: scheduler.complaints.attempts.total() - before == 3)  # a clock that jumps is no reason to try pods again

        nodes(2, prefix="more", cpu="1")
        wait_bound(control_plane, 19)
        assert_sound(control_plane, assumed=scheduler.assumed)
        assert scheduler.complaints.counts == {}
    _written_at_the_time_of_the_clock(control_plane.api, clock)


def test_a_pod_that_backs_off_is_tried_in_time_although_the_clock_was_set_back(control_plane, nodes, pods):
    nodes(1, cpu="1")
    clock = SkewedClock()
    with LiveScheduler(control_plane.kubeconfig, clock=clock) as scheduler:
        pods(1, scheduler=NAME, cpu="2")
        eventually(lambda: scheduler.waiting() == {"default/pod-0000": "unschedulable"})
        nodes(1, prefix="small", cpu="1", each=lambda i: {"labels": {"wakes": "it"}})
        clock.ahead = -HOUR
        nodes(1, prefix="large", cpu="4")

        wait_bound(control_plane, 1)
        assert_sound(control_plane, assumed=scheduler.assumed)


def _written_at_the_time_of_the_clock(api, clock):
    """The last write has the present time of the clock; an event from before the clock was set has the former time."""
    said = [event for event in api.list("Event") if event.get("reportingController") == NAME]
    times = {event["regarding"]["name"]: datetime.fromisoformat(event["eventTime"]).timestamp() for event in said}
    now = datetime.now(UTC).timestamp()
    assert abs(times["small"] - (now + clock.ahead)) < HOUR / 4
    assert abs(times["pod-0000"] - now) < HOUR / 4
