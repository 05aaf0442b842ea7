"""Of several replicas one leads, stops in time when it cannot renew, and releases the lease when it ends."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace

import pytest

from tests.unit.kube.conftest import Recorder, running, until
from tests.unit.kube.scripted_server import Answer, refused
from wharfinger.event_loop import SystemClock
from wharfinger.kube.lease import LeaseElection, LeaseSettings

COLLECTION = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
PATH = f"{COLLECTION}/wharfinger"
FAST = {"lease_duration": 0.6, "renew_deadline": 0.4, "retry_period": 0.01}


class Machine:
    """The real clock."""

    def now(self):
        return time.time()

    def monotonic(self):
        return time.monotonic()

    async def sleep(self, seconds):
        await asyncio.sleep(seconds)


class Leaping(Machine):
    """A clock whose time of day can be set, and which can be away with its machine."""

    def __init__(self):
        self.ahead = self.away = 0.0

    def now(self):
        return time.time() + self.ahead + self.away

    def monotonic(self):
        return time.monotonic() + self.away


class Leases:
    """The lease as an API server keeps it: versions, conflicts. `broken` is the answer to everything while it is set."""

    def __init__(self, server, spec=None):
        self.lease = None if spec is None else {"metadata": {"name": "wharfinger", "resourceVersion": "1"}, "spec": spec}
        self.broken = None
        self.holders = []
        server.on("GET", PATH, lambda seen: self.broken or self._get())
        server.on("PUT", PATH, lambda seen: self.broken or self._put(seen.body))
        server.on("POST", COLLECTION, lambda seen: self.broken or self._post(seen.body))

    def _get(self):
        return Answer(body=self.lease) if self.lease else refused(404, "NotFound")

    def _post(self, body):
        if self.lease is not None:
            return refused(409, "AlreadyExists")
        return self._store(body, 1)

    def _put(self, body):
        version = self.lease["metadata"]["resourceVersion"]
        if body["metadata"].get("resourceVersion") != version:
            return refused(409, "Conflict")
        return self._store(body, int(version) + 1)

    def _store(self, body, version):
        self.lease = json.loads(json.dumps(body))
        self.lease["metadata"]["resourceVersion"] = str(version)
        self.holders.append(body["spec"]["holderIdentity"])
        return Answer(body=self.lease)


class Replica:
    """One candidate and what happened to it."""

    def __init__(self, connection, identity="me", **settings):
        self.reported = []
        self.recorder = Recorder()
        self.election = LeaseElection(connection, LeaseSettings(identity=identity, **{**FAST, **settings}), Machine(), self.recorder.emit)

    def run(self):
        return self.election.run(lambda: self.reported.append("started"), lambda: self.reported.append("stopped"))


def test_a_free_lease_is_taken_renewed_and_given_back(run):
    async def scenario(server, connection):
        leases, me = Leases(server), Replica(connection)
        async with running(me.run()):
            await until(lambda: len(leases.holders) >= 4)
            assert me.election.is_leader
            assert me.reported == ["started"]
            assert leases.lease["spec"]["leaseTransitions"] == 0
            assert len(server.requests("GET")) == 1, "who leads need not look before it writes"
        assert me.reported == ["started", "stopped"]
        assert leases.lease["spec"]["holderIdentity"] == ""
        assert not me.election.is_leader
        assert me.recorder.reports == []

    run(scenario)


def test_a_lease_is_released_although_the_answer_to_its_last_renewal_was_lost(run):
    async def scenario(server, connection):
        leases, me = Leases(server), Replica(connection)
        async with running(me.run()):
            await until(lambda: me.election.is_leader)
            written = len(leases.holders)
            server.on("PUT", PATH, lambda seen: replace(leases._put(seen.body), delay=20))
            await until(lambda: len(leases.holders) > written)
            server.on("PUT", PATH, lambda seen: leases._put(seen.body))
        assert leases.lease["spec"]["holderIdentity"] == ""
        assert me.recorder.reports == []

    run(scenario)


def test_many_refused_renewals_do_not_make_the_lease_that_of_another_process(run):
    async def scenario(server, connection):
        leases, me = Leases(server), Replica(connection, lease_duration=60.0, renew_deadline=30.0, retry_period=0.02)
        async with running(me.run()):
            await until(lambda: me.election.is_leader)
            tried = []
            server.on("PUT", PATH, lambda seen: tried.append(seen) or refused(500, "InternalError"))
            await until(lambda: len(tried) > 30)
            server.on("PUT", PATH, lambda seen: leases._put(seen.body))
            written = len(leases.holders)
            await until(lambda: len(leases.holders) > written)
            assert me.reported == ["started"]

    run(scenario)


def test_the_lease_of_another_is_left_alone_until_it_has_not_changed_for_its_duration(run):
    async def scenario(server, connection):
        spec = {"holderIdentity": "other", "leaseDurationSeconds": 0.1, "renewTime": "2099-01-01T00:00:00.000000Z", "leaseTransitions": 3}
        leases, me = Leases(server, spec), Replica(connection)
        began = time.monotonic()
        async with running(me.run()):
            await until(lambda: me.election.is_leader)
            assert time.monotonic() - began >= 0.1
            assert leases.lease["spec"]["leaseTransitions"] == 4
            assert leases.lease["spec"]["acquireTime"] == leases.lease["spec"]["renewTime"] or len(leases.holders) > 1

    run(scenario)


def test_the_second_of_two_candidates_leads_as_soon_as_the_first_ends(run):
    async def scenario(server, connection):
        Leases(server)
        one, two = Replica(connection, "one"), Replica(connection, "two")
        async with running(two.run()):
            async with running(one.run()):
                await until(lambda: one.election.is_leader or two.election.is_leader)
                await asyncio.sleep(0.05)
                assert one.election.is_leader != two.election.is_leader
            await until(lambda: two.election.is_leader)

    run(scenario)


@pytest.mark.parametrize("broken", [refused(500), Answer(dropped=True), Answer(delay=20), refused(429, Retry_After="9")])
def test_a_leader_that_cannot_renew_stops_at_the_deadline(run, broken):
    async def scenario(server, connection):
        leases, me = Leases(server), Replica(connection)
        async with running(me.run()) as task:
            await until(lambda: me.election.is_leader)
            leases.broken = broken
            await until(lambda: "stopped" in me.reported)
            assert not me.election.is_leader
            await task

    run(scenario)


def test_a_lease_that_another_took_is_lost_at_once(run):
    async def scenario(server, connection):
        leases, me = Leases(server), Replica(connection, lease_duration=30.0, renew_deadline=20.0)
        async with running(me.run()):
            await until(lambda: me.election.is_leader)
            leases._store({**leases.lease, "spec": {**leases.lease["spec"], "holderIdentity": "other"}}, 50)
            await until(lambda: me.reported == ["started", "stopped"])
            assert leases.lease["spec"]["holderIdentity"] == "other"

    run(scenario)


def test_one_renewal_that_is_never_answered_does_not_cost_the_lease(run):
    async def scenario(server, connection):
        leases, me = Leases(server), Replica(connection)
        async with running(me.run()):
            await until(lambda: me.election.is_leader)
            leases.broken = Answer(delay=20)
            asked = len(server.seen)
            await until(lambda: len(server.seen) > asked)
            leases.broken = None
            await asyncio.sleep(FAST["renew_deadline"] * 1.5)
            assert me.reported == ["started"]

    run(scenario)


def test_a_renewal_does_not_wait_for_a_connection_behind_other_requests(run):
    async def scenario(server, connection):
        leases, me = Leases(server), Replica(connection)
        server.on("POST", "/slow", Answer(delay=20))
        async with running(me.run()):
            await until(lambda: me.election.is_leader)
            async with running(connection.request("POST", "/slow")):
                await until(lambda: any(seen.path == "/slow" for seen in server.seen))
                renewed = len(leases.holders)
                await until(lambda: len(leases.holders) > renewed + 3)
                assert me.election.is_leader

    run(scenario, connections=1)


def test_leadership_ends_at_its_deadline_even_if_nothing_has_run_since(run):
    async def scenario(server, connection):
        Leases(server)
        me = Replica(connection, retry_period=0.01, renew_deadline=0.4)
        async with running(me.run()):
            await until(lambda: me.election.is_leader)
            time.sleep(0.5)  # noqa: ASYNC251 — the loop standing still is what is tested
            assert not me.election.is_leader

    run(scenario)


def test_the_lease_names_whole_seconds_that_are_never_less_than_its_duration(run):
    async def scenario(server, connection):
        leases, me = Leases(server), Replica(connection, lease_duration=1.4, renew_deadline=1.2)
        async with running(me.run()):
            await until(lambda: me.election.is_leader)
            assert leases.lease["spec"]["leaseDurationSeconds"] == 2

    run(scenario)


def test_an_answer_that_is_no_lease_is_reported_and_asked_again(run):
    async def scenario(server, connection):
        leases, me = Leases(server), Replica(connection)
        leases.broken = Answer(raw=b"<html>log in first</html>")
        async with running(me.run()):
            await until(lambda: me.recorder.reports)
            leases.broken = None
            await until(lambda: me.election.is_leader)

    run(scenario)


@pytest.mark.parametrize("wrong", [{"lease_duration": 10.0}, {"renew_deadline": 2.0}, {"retry_period": 0.0}])
def test_durations_have_to_fit_together(wrong):
    with pytest.raises(ValueError, match="leaseDuration"):
        LeaseSettings(identity="me", **wrong)


def test_a_machine_that_was_suspended_is_no_leader_until_it_has_renewed(run):
    async def scenario(server, connection):
        leases, clock = Leases(server), Leaping()
        settings = LeaseSettings(identity="me", lease_duration=15.0, renew_deadline=10.0, retry_period=0.01)
        election = LeaseElection(connection, settings, clock, Recorder().emit)
        assert await election._try()
        assert election.is_leader

        clock.ahead += 3600.0  # the host has suspended its guest, which only the time of day shows
        assert not election.is_leader
        assert await election._try()
        assert election.is_leader, "it was renewed since"
        clock.ahead -= 7200.0  # the clock was set back
        assert election.is_leader
        assert await election._try()
        clock.ahead += 0.5
        assert election.is_leader

        clock.away += 11.0  # the machine itself was suspended, which its clock counts
        assert not election.is_leader
        assert set(leases.holders) == {"me"}

    run(scenario)


def test_the_clock_of_the_machine_counts_while_it_is_suspended():
    if not hasattr(time, "CLOCK_BOOTTIME"):
        pytest.skip("this system counts by another clock")
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= SystemClock().monotonic() <= time.clock_gettime(time.CLOCK_BOOTTIME)
