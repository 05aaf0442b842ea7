"""The conditions under which the process counts as idle, so that garbage may be collected."""

from types import SimpleNamespace

import pytest

from wharfinger.daemon.compose import Daemon


@pytest.mark.parametrize(
    ("unsynced", "binding", "active", "idle"),
    [
        ((), 0, 0, True),
        (("Pod",), 0, 0, False),  # a list is read: new objects are no garbage, and a collection would look at all of them
        ((), 1, 0, False),
        ((), 0, 1, False),
    ],
)
def test_the_process_is_idle_when_it_neither_reads_lists_nor_places_pods(unsynced, binding, active, idle):
    daemon = SimpleNamespace(
        server=SimpleNamespace(informers=SimpleNamespace(unsynced=frozenset(unsynced))),
        scheduler=SimpleNamespace(n_binding=binding, queue=SimpleNamespace(depths={"active": active})),
    )
    assert Daemon._is_idle(daemon) is idle
