"""SchedulingPolicies as a source: offered as soon as they are listed; no policies where the definition is not installed."""

import asyncio

import pytest
from msgspec import structs

from tests.in_memory import ManualClock
from wharfinger.crd import GROUP, MANAGED_BY, MANAGER, NAMESPACE_LABEL
from wharfinger.crd.models import SchedulingPolicySpec
from wharfinger.framework.policy_status import Mode
from wharfinger.kube.custom_resources import PolicyApp, SchedulingPolicy
from wharfinger.language.semantics.authority import CLUSTER, Authority, TenantPolicies, TenantRights
from wharfinger.model.objects.metadata import ObjectMeta
from wharfinger.operator import scheduling_policy
from wharfinger.operator.controller import ObjectCache
from wharfinger.operator.scheduling_policy import KIND, NOT_INSTALLED, SOURCE, SchedulingPolicySource, text_of


class Heard:
    def __init__(self):
        self.said = []

    def offer(self, source, texts):
        self.said.append((source, "offers", dict(texts)))

    def mark_unreadable(self, source, why):
        self.said.append((source, "is lost", why))


async def calm():
    for _ in range(20):
        await asyncio.sleep(0)


STATES = {
    "there is none": (None, False, (SOURCE, "offers", {})),
    "the kind is not installed": ("404 page not found", True, (SOURCE, "offers", {})),
    "it may not be read": ("forbidden", False, (SOURCE, "is lost", "SchedulingPolicies cannot be read: forbidden")),
}


@pytest.mark.parametrize(("refused", "absent", "expected"), STATES.values(), ids=STATES)
def test_the_source_offers_policies_as_soon_as_the_kind_is_listed(refused, absent, expected):
    async def story():
        cache, sink = ObjectCache([KIND]), Heard()
        source = SchedulingPolicySource(cache, ManualClock(), lambda: refused, lambda: absent)
        running = asyncio.create_task(source.run(sink))
        await calm()
        assert sink.said == []
        cache.synced(KIND)
        await calm()
        assert sink.said == [expected]
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
        assert sink.said[1:] == [(SOURCE, "is lost", NOT_INSTALLED)]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(story())


MADE = {MANAGED_BY: MANAGER, NAMESPACE_LABEL: "team-a"}
AUTHORITIES = {
    "of the cluster": ({}, {}, CLUSTER),
    "of a namespace": ({"namespace": "team-a"}, {}, Authority("team-a")),
    "made for a PolicyApp": ({"namespace": "team-a"}, MADE, Authority("team-a")),
    "made for a PolicyApp, where the definition has no such field": ({}, MADE, Authority("team-a")),
    "whose text cannot be read": ({"namespace": "team-a", "source": 3}, {}, Authority("team-a")),
    "with the label of somebody else": ({}, {NAMESPACE_LABEL: "team-a"}, CLUSTER),
}


@pytest.mark.parametrize(("spec", "labels", "expected"), AUTHORITIES.values(), ids=AUTHORITIES)
def test_the_authority_comes_from_the_object_and_not_from_its_text(spec, labels, expected):
    found = SchedulingPolicy(metadata=ObjectMeta(name="p", labels=labels), spec={"source": 'policy "p"', **spec})

    assert text_of(found, TenantRights()).authority == expected


def test_the_rights_of_a_namespace_come_from_the_settings():
    found = SchedulingPolicy(metadata=ObjectMeta(name="p"), spec={"source": 'policy "p"', "namespace": "team-a"})
    rights = TenantRights(TenantPolicies.TRUSTED, frozenset({"default"}))

    assert text_of(found, rights).authority == Authority("team-a", TenantPolicies.TRUSTED, frozenset({"default"}))


OTHER_VALUES = {"source": 'policy "other"\n', "mode": "Shadow", "params": {"share": "1"}, "namespace": "shop"}


@pytest.mark.parametrize("field", [field.alias for field in SchedulingPolicySpec.model_fields.values()])
def test_every_field_of_the_spec_is_read(field):
    spec = {"source": 'policy "one"\n'}

    def text(given):
        return text_of(SchedulingPolicy(metadata=ObjectMeta(name="p"), spec=given), TenantRights())

    assert text({**spec, field: OTHER_VALUES[field]}) != text(spec)


GOOD = {"source": 'policy "p"\n', "mode": "Shadow"}
UNREADABLE = {
    "source": ({**GOOD, "source": 3}, Mode.SHADOW, "spec.source: "),
    "no source": ({"mode": "Off"}, Mode.OFF, "spec.source: "),
    "params": ({**GOOD, "params": [{}]}, Mode.SHADOW, "spec.params: "),
    "a param with an odd name": ({**GOOD, "params": {"a\x1b[31m\n": 1}}, Mode.SHADOW, "spec.params.a\ufffd[31m: "),
    "mode": ({**GOOD, "mode": "Later"}, Mode.SHADOW, "spec.mode: "),
    "mode of another type": ({**GOOD, "mode": {}}, Mode.SHADOW, "spec.mode: "),
    "no mode": ({"source": 3}, Mode.ENFORCE, "spec.source: "),
}


@pytest.mark.parametrize(("spec", "mode", "trouble"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_spec_that_cannot_be_read_says_why_and_keeps_its_mode(spec, mode, trouble):
    async def story():
        cache, sink = ObjectCache([KIND, "PolicyApp"]), Heard()
        cache.synced(KIND)
        running = asyncio.create_task(SchedulingPolicySource(cache, ManualClock(), lambda: None).run(sink))
        for version, each in enumerate((GOOD, spec)):
            cache.upsert(KIND, SchedulingPolicy(metadata=ObjectMeta(name="p", resource_version=str(version)), spec=each))
            await calm()
        running.cancel()
        return sink.said[-1][-1]["p"]

    text = asyncio.run(story())
    assert (text.mode, text.trouble[: len(trouble)]) == (mode, trouble)


def test_a_status_that_is_written_is_no_offer():
    async def story():
        cache, sink = ObjectCache([KIND, "PolicyApp"]), Heard()
        first = policy("shop.web", **{"app": "web", "app-namespace": "shop"})
        cache.upsert(KIND, first)
        cache.synced(KIND)
        running = asyncio.create_task(SchedulingPolicySource(cache, ManualClock(), lambda: None).run(sink))
        await calm()

        async def changed(**fields):
            version = str(len(versions))
            versions.append(version)
            (now,) = cache.all(KIND)
            cache.upsert(KIND, structs.replace(now, metadata=structs.replace(now.metadata, resource_version=version), **fields))
            await calm()
            return len(sink.said)

        versions = []
        good = {"source": 'policy "p"', "generation": 1, "since": "2026-01-01T00:00:00Z"}
        assert await changed(status={"matched": 3}) == 1
        assert await changed(status={"matched": 3, "lastKnownGood": good}) == 1
        assert await changed(spec={"source": 'policy "p" version "2"'}) == 2
        cache.upsert("PolicyApp", PolicyApp(metadata=ObjectMeta(name="web", namespace="shop", uid="uid of web")))
        assert await changed() == 3, "events are about the app from now on"
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(story())


def test_a_status_that_is_written_has_no_other_policy_read_again(monkeypatch):
    read, really = [], text_of
    monkeypatch.setattr(scheduling_policy, "text_of", lambda found, *more: read.append(found.metadata.name) or really(found, *more))

    async def story():
        cache, sink = ObjectCache([KIND, "PolicyApp"]), Heard()
        for number in range(30):
            cache.upsert(KIND, policy(f"p{number}"))
        running = asyncio.create_task(SchedulingPolicySource(cache, ManualClock(), lambda: None).run(sink))
        cache.synced(KIND)
        await calm()
        assert len(read) == 30
        read.clear()
        for version in range(1, 4):
            found = policy("p7")
            metadata = structs.replace(found.metadata, resource_version=str(version))
            cache.upsert(KIND, structs.replace(found, metadata=metadata, status={"matched": version}))
            await calm()
        cache.delete(KIND, policy("p8"))
        await calm()
        running.cancel()
        return sink.said

    first, last = asyncio.run(story())
    assert read == ["p7"] * 3
    assert first[-1].keys() - last[-1].keys() == {"p8"}
