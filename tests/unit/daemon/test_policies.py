"""The policies that a process begins with: nothing is reported about them before the process has started."""

import asyncio
from types import SimpleNamespace

import pytest

from tests.in_memory import ManualClock
from tests.unit.policies.stores import BROKEN, Seen, World, policy
from wharfinger.daemon.policies import notify_when_loaded, policies_of
from wharfinger.daemon.settings import Profile, Settings
from wharfinger.errors import WharfingerError


def started(folder, **params):
    """The events of a start, and the error that it ended with."""
    settings = Settings(profiles=(Profile(policies=(str(folder),), params=params),))
    seen = Seen()
    try:
        asyncio.run(policies_of(settings, ManualClock(), seen.emit, lambda _note: None))
    except WharfingerError as error:
        return seen, error
    return seen, None


def test_policies_that_begin_are_reported(tmp_path):
    (tmp_path / "a.policy").write_text(policy("a"))

    seen, error = started(tmp_path)

    assert error is None
    assert seen.tried == [("a.policy", "accepted")]
    assert len(seen.held) == 1


@pytest.mark.parametrize(("text", "params"), [(policy("a"), {"nobodys": 1}), (BROKEN, {})])
def test_policies_that_end_the_process_are_not_reported_as_active(tmp_path, text, params):
    (tmp_path / "a.policy").write_text(text)

    seen, error = started(tmp_path, **params)

    assert error is not None
    assert (seen.tried, seen.held) == ([], [])


def test_a_trial_of_the_first_policies_that_fails_is_reported_and_does_not_end_the_process():
    asked = []

    def fails_at_first():
        asked.append(None)
        if len(asked) == 1:
            raise KeyError("a cluster at fault")

    async def story():
        world = World()
        await world.offer({"a.policy": policy("a", "one")})
        world.scheduling.sampled = fails_at_first
        scheduler = SimpleNamespace(sink=SimpleNamespace(synced=lambda _kind: None), missing_kinds=frozenset())
        announcing = asyncio.create_task(notify_when_loaded(world.store, scheduler, world.clock))
        for _ in range(200):
            world.clock.move(0.5)
            await asyncio.sleep(0.001)
            if len(asked) == 3:
                break
        assert (announcing.done(), len(asked), world.seen.failures) == (False, 3, [("policies", "'a cluster at fault'")])
        announcing.cancel()

    asyncio.run(story())
