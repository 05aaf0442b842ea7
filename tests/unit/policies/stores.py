"""A policy store with sources that tests set."""

import asyncio

from tests.in_memory import ManualClock
from tests.observed import subscribed
from wharfinger.emit import Failed
from wharfinger.framework.chain import assemble
from wharfinger.framework.policy_status import Mode, PolicyText
from wharfinger.policies.last_known_good import LastKnownGood
from wharfinger.policies.ledger import ConfiguredSource
from wharfinger.policies.store import (
    PoliciesReloaded,
    PolicyChanged,
    PolicyRemoved,
    PolicyResumed,
    PolicyReviewed,
    PolicyStore,
    PolicySuspended,
    PolicyTried,
    SourceChanged,
)

BASE = assemble()


def policy(name, label="a", *, test=None, more=""):
    """A policy that requires nodes with a label, and perhaps a test that expects a node of another."""
    text = f'policy "{name}"\n{more}filter pool {{ require node.labels["pool"] == "{label}" else "not {label}" on missing reject }}\n'
    if test is not None:
        text += f'test "goes there" {{\n node n {{ labels: {{"pool": "{test}"}} }}\n pod p {{}}\n place p\n expect p on n\n}}\n'
    return text


BROKEN = 'policy "x"\nfilter pool { require node.lables == }\n'


class Place:
    """A source that does nothing by itself."""

    def __init__(self, name="folder", empty_is_lost=True, imports=True):
        self.name = name
        self.empty_is_lost = empty_is_lost
        self.imports = imports

    async def run(self, sink):
        await asyncio.Event().wait()


class Seen:
    """A subscriber that keeps everything."""

    def __init__(self):
        self.tried = []
        self.removed = []
        self.changed = []
        self.reviewed = []
        self.suspended = []
        self.held = []
        self.sources = []
        self.failures = []
        self.emit = subscribed(
            {
                PolicyTried: lambda event: self.tried.append((event.status.key, event.status.result.value)),
                PolicyChanged: lambda event: self.changed.append((event.status.key, event.status.state)),
                PolicyReviewed: lambda event: self.reviewed.append((event.status.key, [each.message for each in event.findings])),
                PolicyRemoved: lambda event: self.removed.append(event.status.key),
                PolicySuspended: lambda event: self.suspended.append((event.status.name, True)),
                PolicyResumed: lambda event: self.suspended.append((event.status.name, False)),
                PoliciesReloaded: lambda event: self.held.append(event.statuses),
                SourceChanged: lambda event: self.sources.append((event.status.name, event.status.lost)),
                Failed: lambda event: self.failures.append((event.where, str(event.error))),
            }
        ).emit


class Scheduling:
    """A scheduler that keeps what it adopts; `sampled` may be set."""

    def __init__(self):
        self.adopted = []
        self.suspended = {}
        self.sampled = lambda: None
        self.adopt = self.adopted.append

    def sample(self):
        return self.sampled()


class World:
    def __init__(self, *places, state=None, profiles=("wharfinger",), params=None, scheduling=None):
        self.clock = ManualClock()
        self.seen = Seen()
        places = places or (Place(),)
        configured = [
            place
            if isinstance(place, ConfiguredSource)
            else ConfiguredSource(source=place, profiles=frozenset(profiles), params=params or {})
            for place in places
        ]
        kept = None if state is None else LastKnownGood(state)
        self.store = PolicyStore(configured, dict.fromkeys(profiles, BASE), self.clock, emit=self.seen.emit, kept=kept)
        self.scheduling = scheduling or Scheduling()
        self.store.connect(self.scheduling)
        self.scheduling.adopted.clear()
        self.adopted = self.scheduling.adopted

    async def offer(self, texts, source="folder", **more):
        """Offer texts (by key; or PolicyText) and wait for what comes of it."""
        made = {
            key: text if isinstance(text, PolicyText) else PolicyText(name=key, content=text.encode(), **more)
            for key, text in texts.items()
        }
        self.clock.move(1)
        self.store.offer(source, made)
        await self.store.build_offers()

    async def mark_unreadable(self, why="gone", source="folder"):
        self.store.mark_unreadable(source, why)
        await self.store.build_offers()

    def deciding(self, profile="wharfinger"):
        """The labels that policies require, by name."""
        return {
            found.name: found.policy.filters[0].clauses[0].message.parts[0].removeprefix("not ")
            for found in self.store.active.chains[profile].policies
        }

    def states(self):
        return {status.key: status.state for status in self.store.statuses}

    def status(self, key):
        return next(status for status in self.store.statuses if status.key == key)


def text(content, **more):
    return PolicyText(name=more.pop("name", "a.policy"), content=content if isinstance(content, bytes) else content.encode(), **more)


def story(scenario):
    """A test function that runs a coroutine."""

    def test(**fixtures):
        asyncio.run(scenario(**fixtures))

    import functools
    import inspect

    functools.update_wrapper(test, scenario)
    test.__signature__ = inspect.signature(scenario)
    return test


__all__ = ["BASE", "BROKEN", "Mode", "Place", "Seen", "World", "policy", "story", "text"]
