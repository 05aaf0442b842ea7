"""A binding either happened or did not, and the binder finds out which."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.kube.conftest import RealClock, until
from tests.unit.kube.scripted_server import Answer, refused
from wharfinger.framework.ports import BindFailed
from wharfinger.kube.writes import ApiBinder
from wharfinger.model.objects import ObjectMeta, Pod
from wharfinger.model.objects.pod_view import PodView

POD_PATH = "/api/v1/namespaces/shop/pods/web"
BINDING = f"{POD_PATH}/binding"
CONFLICT = refused(409, "Conflict", "Operation cannot be fulfilled")


def pod(uid="u1"):
    return PodView(Pod(metadata=ObjectMeta(name="web", namespace="shop", uid=uid)))


def stored(node="", uid="u1", **metadata):
    return Answer(body={"metadata": {"name": "web", "namespace": "shop", "uid": uid, **metadata}, "spec": {"nodeName": node}})


@pytest.fixture
def bind(run):
    """Binds the pod to node n1 and gives (BindFailed or None, server, clock)."""

    def start(*answers, found=None, may_write=lambda: True, **limits):
        outcome = []

        async def scenario(server, connection):
            server.on("POST", BINDING, *answers)
            if found is not None:
                server.on("GET", POD_PATH, found)
            clock, failure = RealClock(), None
            binder = ApiBinder(connection, clock, may_write)
            try:
                await binder.bind(pod(), "n1")
            except BindFailed as error:
                failure = error
            assert binder.in_flight == 0
            outcome.extend((failure, server, clock))

        run(scenario, **limits)
        return outcome

    return start


def test_a_binding_names_the_pod_its_uid_and_the_node(bind):
    failure, server, _ = bind(Answer(status=201))
    assert failure is None
    assert [seen.path for seen in server.seen] == [BINDING]
    assert server.seen[0].body == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }
    assert server.seen[0].headers["Authorization"] == "Bearer secret"


LATE = Answer(status=201, delay=30)
GONE = refused(404, "NotFound")
CASES = {
    "no such pod": (GONE, None, {"gone"}),
    "conflict: bound to another node": (CONFLICT, stored("n2"), {"bound"}),
    "conflict: another pod of the name": (CONFLICT, stored(uid="u2"), {"gone"}),
    "conflict: no pod any more": (CONFLICT, GONE, {"gone"}),
    "conflict: being deleted": (CONFLICT, stored(deletionTimestamp="2026-01-01T00:00:00Z"), {"gone"}),
    "conflict: not bound": (CONFLICT, stored(), {"retriable"}),
    "conflict: nobody knows": (CONFLICT, refused(500), {"retriable"}),
    "no answer: not bound yet": (LATE, stored(), {"retriable", "unknown"}),
    "no answer: bound to another node": (LATE, stored("n2"), {"bound"}),
    "no answer: nobody knows": (LATE, refused(503), {"retriable", "unknown"}),
    "connection dropped": (Answer(dropped=True), stored(), {"retriable", "unknown"}),
    "server error: not bound": (refused(500), stored(), {"retriable"}),
    "forbidden": (refused(403, "Forbidden"), None, {"retriable"}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_failed_binding_says_what_is_known(bind, case):
    answer, found, expected = CASES[case]
    failure, _, _ = bind(answer, found=found, request_timeout=0.5)
    assert {name for name in ("retriable", "gone", "bound", "unknown") if getattr(failure, name)} == expected


@pytest.mark.parametrize("answer", [CONFLICT, LATE, refused(500), refused(504), Answer(dropped=True)])
def test_a_pod_that_is_on_the_node_is_bound_whatever_the_answer(bind, answer):
    assert bind(answer, found=stored("n1"), request_timeout=0.5)[0] is None


def test_a_busy_server_is_asked_again_when_it_says(bind):
    failure, server, clock = bind(refused(429, "TooManyRequests", Retry_After="3"), Answer(status=201))
    assert failure is None
    assert len(server.requests("POST")) == 2
    assert clock.waits[0] >= 3.0


def test_a_server_that_stays_busy_gives_the_pod_back(bind):
    failure, server, _ = bind(refused(429))
    assert failure.retriable
    assert not failure.unknown
    assert len(server.requests("POST")) == 5


def test_after_the_loss_of_the_lease_nothing_is_bound(bind):
    failure, server, _ = bind(Answer(status=201), may_write=lambda: False)
    assert failure.retriable
    assert server.seen == []


def test_a_binding_is_not_repeated_after_the_loss_of_the_lease(bind):
    leading = iter([True, True, False])  # it is read again once there is a connection
    _, server, _ = bind(refused(429), Answer(status=201), may_write=lambda: next(leading))
    assert len(server.requests("POST")) == 1


def test_a_binding_that_waits_for_a_connection_while_leadership_is_lost_is_not_sent(run):
    async def scenario(server, connection):
        server.on("POST", BINDING, Answer(status=201, delay=0.2))
        leading = True
        binder = ApiBinder(connection, RealClock(), lambda: leading)
        binds = [asyncio.ensure_future(binder.bind(pod(), "n1")) for _ in range(3)]
        await until(lambda: server.seen)
        leading = False
        outcomes = await asyncio.gather(*binds, return_exceptions=True)

        assert outcomes[0] is None
        assert [str(outcome) for outcome in outcomes[1:]] == ["this process is not the leader any more"] * 2
        assert len(server.seen) == 1

    run(scenario, connections=1)
