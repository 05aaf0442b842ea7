"""SchedulingPolicies as a source: heard as soon as they are listed, and none where nobody has installed them."""

import asyncio

import pytest

from wharfinger.crd.names import GROUP
from wharfinger.kube.custom_resources import PolicyApp, SchedulingPolicy
from wharfinger.model.objects_meta import ObjectMeta
from wharfinger.reconcile.object_cache import ObjectCache
from wharfinger.reconcile.policy_source import KIND, SOURCE, SchedulingPolicySource
from wharfinger.runtime.in_memory import ManualClock


class Heard:
    def __init__(self):
        self.said = []

    def offer(self, source, texts):
        self.said.append((source, "offers", dict(texts)))

    def lose(self, source, why):
        self.said.append((source, "is lost", why))


async def calm():
    for _ in range(20):
        await asyncio.sleep(0)


STATES = {
    "there is none": (None, False, (SOURCE, "offers", {})),
    "the kind is not installed": ("404 page not found", True, (SOURCE, "offers", {})),
    "it may not be read": ("forbidden", False, (SOURCE, "is lost", "SchedulingPolicies cannot be read: forbidden")),
}


@pytest.mark.parametrize(("refused", "absent", "heard"), STATES.values(), ids=STATES)
def test_it_speaks_as_soon_as_the_kind_is_listed(refused, absent, heard):
    async def story():
        cache, sink = ObjectCache([KIND]), Heard()
        source = SchedulingPolicySource(cache, ManualClock(), lambda: refused, lambda: absent)
        running = asyncio.create_task(source.run(sink))
        await calm()
        assert sink.said == []
        cache.synced(KIND)
        await calm()
        assert sink.said == [heard]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(story())


def policy(name, **labels):
    meta = ObjectMeta(name=name, uid=f"uid of {name}", labels={f"{GROUP}/{key}": value for key, value in labels.items()})
    return SchedulingPolicy(metadata=meta, spec={"source": 'policy "p"'})


OWNERS = {
    "nobody's": (policy("gold"), ("SchedulingPolicy", "", "gold", "uid of gold")),
    "an app's": (policy("shop.web", **{"app": "web", "app-namespace": "shop"}), ("PolicyApp", "shop", "web", "uid of web")),
    "an app's that has gone": (policy("shop.old", **{"app": "old", "app-namespace": "shop"}), None),
}


@pytest.mark.parametrize(("made", "about"), OWNERS.values(), ids=OWNERS)
def test_events_are_about_the_object_that_people_have_written(made, about):
    async def story():
        cache, sink = ObjectCache([KIND, "PolicyApp"]), Heard()
        cache.upsert("PolicyApp", PolicyApp(metadata=ObjectMeta(name="web", namespace="shop", uid="uid of web")))
        cache.upsert(KIND, made)
        cache.synced(KIND)
        running = asyncio.create_task(SchedulingPolicySource(cache, ManualClock(), lambda: None).run(sink))
        await calm()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        found = sink.said[0][2][made.metadata.name].about
        assert (None if found is None else (found.kind, found.namespace, found.name, found.uid)) == about

    asyncio.run(story())


def test_a_kind_that_vanishes_later_is_lost():
    async def story():
        clock, cache, sink, gone = ManualClock(), ObjectCache([KIND]), Heard(), []
        source = SchedulingPolicySource(cache, clock, lambda: gone[0] if gone else None, lambda: bool(gone))
        running = asyncio.create_task(source.run(sink))
        cache.synced(KIND)
        await calm()
        gone.append("404 page not found")
        clock.move(2)
        await calm()
        assert sink.said[1:] == [(SOURCE, "is lost", "SchedulingPolicies cannot be read: 404 page not found")]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(story())
