"""After any fault between replicas and the Lease, exactly one replica acts: never two at a time, and never none for long."""

import contextlib
import json
import threading
import time

import pytest

from tests.cluster.api import Refused
from tests.cluster.candidates import DEADLINE, DURATION, RETRY, Candidate, SkewedClock
from tests.cluster.misbehaviour import Answer, Delay, Lose
from tests.cluster.waiting import eventually

SPACE = "kube-system"
PATH = "/leases"
ONE_WAIT = RETRY * 1.2 + 1.2  # a candidate looks so often; the rest is for a busy machine


@pytest.fixture(autouse=True)
def _no_lease(control_plane):
    control_plane.api.delete("Lease", "wharfinger", SPACE)


class Referee:
    """Looks all the time whether two lead at once."""

    def __init__(self, *candidates):
        self._candidates = candidates
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.fouls = []

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()
        assert self.fouls == []

    def _watch(self):
        while not self._end.wait(0.002):
            leading = [candidate.identity for candidate in self._candidates if candidate.is_leader]
            if len(leading) > 1:
                self.fouls.append((time.monotonic(), leading))


def _spec(control_plane):
    return control_plane.api.get("Lease", "wharfinger", SPACE)["spec"]


def test_one_of_two_leads_and_when_it_ends_the_other_follows_at_once(control_plane):
    with _leading(control_plane, "one") as one, Candidate(control_plane.kubeconfig, "two") as two, Referee(one, two):
        time.sleep(DURATION * 1.5)
        assert (two.is_leader, one.is_leader, _spec(control_plane)["holderIdentity"]) == (False, True, "one")
        one.end()
        assert _spec(control_plane)["holderIdentity"] in {"", "two"}
        eventually(lambda: two.is_leader, every=0.01)
        assert _spec(control_plane)["leaseTransitions"] == 1
        assert (one.reports, two.reports) == ([], [])


FAULTS = {
    "no answer": Delay(seconds=30),
    "500": Answer(status=500),
    "429 with a long wait": Answer(status=429, retry_after=60),
    "the connection breaks after the answer was lost": Lose(),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_leader_that_cannot_renew_stops_at_the_deadline_and_another_leads_after_it(control_plane, proxy, fault):
    with _leading(proxy, "one") as one, Candidate(control_plane.kubeconfig, "two") as two, Referee(one, two):
        proxy.add(FAULTS[fault], path=PATH)

        eventually(lambda: one.times("stopped"), every=0.005)
        assert not one.is_leader
        assert one.when("stopped") - max(_renewals(proxy)) > DEADLINE - RETRY * 2
        eventually(lambda: two.is_leader, every=0.005)
        assert two.when("started") > one.when("stopped")
        assert any("lost" in report for report in one.reports), one.reports

        proxy.clear()
        time.sleep(ONE_WAIT)
        assert (one.is_leader, two.is_leader) == (False, True)


def test_updates_alone_that_are_refused_are_enough(control_plane, proxy):
    with _leading(proxy, "one") as one:
        proxy.add(Answer(status=409), method="PUT", path=PATH)

        eventually(lambda: not one.is_leader, every=0.005)


def test_a_short_trouble_costs_nothing(control_plane, proxy):
    with _leading(proxy, "one") as one:
        proxy.add(Answer(status=500), path=PATH, times=2)
        proxy.add(Answer(status=409), path=PATH, method="PUT", times=2)
        time.sleep(DURATION)

        assert one.is_leader
        assert [said for _, said in one.reported] == ["started"]


def test_a_process_suspended_for_longer_than_its_lease_does_not_lead_afterwards_even_with_skewed_clocks(control_plane):
    clock = SkewedClock(3600)
    with _leading(control_plane, "one", clock) as one, Candidate(control_plane.kubeconfig, "two") as two, Referee(one, two):
        time.sleep(DURATION + ONE_WAIT)
        assert (one.is_leader, two.is_leader) == (True, False)

        one.stand_still(DURATION + ONE_WAIT * 2)
        eventually(lambda: two.is_leader)
        eventually(lambda: one.times("stopped"))
        time.sleep(ONE_WAIT)
        assert (one.is_leader, two.is_leader) == (False, True)


def test_a_clock_that_jumps_while_it_leads_changes_nothing(control_plane):
    clock = SkewedClock()
    with _leading(control_plane, "one", clock) as one, Candidate(control_plane.kubeconfig, "two") as two, Referee(one, two):
        for clock.ahead in (3600.0, -3600.0, 0.0):
            time.sleep(DURATION / 2)
        assert [said for _, said in one.reported] == ["started"]


def test_a_deleted_lease_is_created_again(control_plane):
    with _leading(control_plane, "one") as one:
        for _ in range(3):
            control_plane.api.delete("Lease", "wharfinger", SPACE)
            eventually(lambda: _holder(control_plane) == "one", every=0.02)
        assert [said for _, said in one.reported] == ["started"]


def test_a_deleted_lease_that_another_replica_recreated_is_lost_at_the_next_read(control_plane):
    with _leading(control_plane, "one") as one:
        eventually(lambda: _replaced(control_plane, {"holderIdentity": "rival", "leaseDurationSeconds": 15}), every=0.0)
        eventually(lambda: not one.is_leader, every=0.005)
        assert any("rival" in report for report in one.reports), one.reports


GARBAGE = {
    "nothing at all": None,
    "an empty spec": {},
    "no holder, but a time": {"renewTime": "2099-01-01T00:00:00.000000Z"},
    "a holder without a duration": {"holderIdentity": "who"},
    "a holder from the future": {"holderIdentity": "who", "leaseDurationSeconds": 1, "renewTime": "2099-01-01T00:00:00.000000Z"},
    "many transitions": {"holderIdentity": "who", "leaseDurationSeconds": 1, "leaseTransitions": 2**31 - 1},
}


@pytest.mark.parametrize("garbage", GARBAGE)
def test_a_lease_that_makes_little_sense_is_taken_over_when_it_has_not_changed(control_plane, proxy, garbage):
    _create(control_plane, GARBAGE[garbage])
    began = time.monotonic()
    with Candidate(proxy.kubeconfig, "one") as one:
        eventually(lambda: one.is_leader, every=0.02)
        held = (GARBAGE[garbage] or {}).get("holderIdentity") is not None
        assert (_looks(proxy) > 1) == held
        assert not held or one.when("started") - began >= 1.0
        assert _spec(control_plane)["leaseDurationSeconds"] == DURATION


def test_only_one_of_two_candidates_with_the_same_identity_leads(control_plane, proxy):
    with Candidate(proxy.kubeconfig, "same") as one, Candidate(proxy.kubeconfig, "same") as two, Referee(one, two):
        time.sleep(DURATION * 1.5)
        eventually(lambda: one.is_leader != two.is_leader)
        leader, other = (one, two) if one.is_leader else (two, one)
        leader.end()
        assert "" in [json.loads(seen.body)["spec"]["holderIdentity"] for seen in _written(proxy)], "given back: no replica waits"
        eventually(lambda: other.is_leader)


def test_no_replica_leads_before_the_api_server_is_there(control_plane):
    control_plane.api_server.kill()
    with Candidate(control_plane.kubeconfig, "one") as one:
        time.sleep(0.5)
        assert not one.is_leader
        control_plane.start_api_server()
        eventually(lambda: one.is_leader)


@contextlib.contextmanager
def _leading(way, identity, clock=None):
    with Candidate(way.kubeconfig, identity, clock) as candidate:
        eventually(lambda: candidate.is_leader, every=0.01)
        yield candidate


def _create(control_plane, spec):
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "wharfinger", "namespace": SPACE}}
    control_plane.api.create(lease if spec is None else {**lease, "spec": spec})


def _replaced(control_plane, spec):
    """True if the lease is that of a rival now; False if its holder made it again first."""
    control_plane.api.delete("Lease", "wharfinger", SPACE)
    try:
        _create(control_plane, spec)
    except Refused:
        return False
    return True


def _written(proxy):
    """The answered writes to the lease."""
    return [seen for seen in tuple(proxy.seen) if seen.method in {"PUT", "POST"} and "/leases" in seen.path and seen.status in {200, 201}]


def _renewals(proxy):
    """The times at which the Lease was written."""
    return [seen.at for seen in _written(proxy)]


def _looks(proxy):
    """The number of reads of the lease before it was written."""
    asked = [seen.method for seen in tuple(proxy.seen) if "/leases" in seen.path]
    return next(number for number, method in enumerate(asked) if method != "GET")


def _holder(control_plane):
    try:
        return _spec(control_plane)["holderIdentity"]
    except Refused:
        return None
