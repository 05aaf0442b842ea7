"""The answers of `/readyz` for a process that waits for its API server, one that lists, and one that may not see everything."""

import asyncio
from types import SimpleNamespace

from wharfinger.daemon.pages import Health
from wharfinger.web.app import outcome


def failures(health):
    return {name: asyncio.run(outcome(check)) for name, check in health.checks.ready.items()}


def daemon(missing=(), refused=(), trouble=None):
    informers = SimpleNamespace(refused=dict(refused))
    return SimpleNamespace(
        contact=SimpleNamespace(unreachable_reason=trouble),
        scheduler=SimpleNamespace(missing_kinds=frozenset(missing)),
        server=SimpleNamespace(informers=informers),
    )


def test_before_the_api_server_has_answered():
    assert failures(Health()) == {"api-server": "it has not answered yet", "informer-sync": "not started", "permissions": None}


def test_the_kinds_that_are_not_listed_yet_are_named():
    health = Health()
    health.watch(daemon(missing={"Pod", "Node"}))

    assert failures(health) == {"api-server": None, "informer-sync": "not listed yet: Node, Pod", "permissions": None}


def test_the_kinds_that_are_refused_are_named():
    health = Health()
    health.watch(daemon(refused={"Service": "services is forbidden"}))

    assert failures(health) == {"api-server": None, "informer-sync": None, "permissions": "Service: services is forbidden"}


def test_an_api_server_that_does_not_answer_any_more_is_named():
    health = Health()
    health.watch(daemon(trouble="no answer for 45 s: connection refused"))

    assert failures(health) == {"api-server": "no answer for 45 s: connection refused", "informer-sync": None, "permissions": None}


def test_a_healthy_state_has_no_failures():
    health = Health()
    health.watch(daemon())

    assert not any(failures(health).values())
