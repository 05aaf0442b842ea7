"""The statuses of many SchedulingPolicies: several are written at a time, and a policy that changes does not wait for all others."""

import asyncio
from types import SimpleNamespace

import pytest
from msgspec import structs

from tests.unit.operator.test_policy_status import status
from tests.unit.scheduler.running import node, pod, running
from tests.unit.simulate.clusters import policy
from wharfinger.framework.policy_status import Mode
from wharfinger.kube.custom_resources import SchedulingPolicy
from wharfinger.language.semantics.authority import TenantRights
from wharfinger.model.objects.metadata import ObjectMeta
from wharfinger.operator import compose
from wharfinger.operator.controller import ObjectCache
from wharfinger.operator.scheduling_policy import KIND, REFRESH, SOURCE
from wharfinger.policies.store import PolicySuspended, PolicyTried

SECONDS = 0.1
"""The time of a write."""


class Server:
    """A connection to an API server that stores statuses, each after `SECONDS`, and whose watch is the cache."""

    def __init__(self, clock, cache):
        self.clock = clock
        self.cache = cache
        self.written = []
        self.under_way = 0
        self.most = 0

    async def apply_status(self, obj, found):
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await self.clock.sleep(SECONDS)
        self.under_way -= 1
        self.written.append((obj.metadata.name, found["matched"]))
        meta = structs.replace(obj.metadata, resource_version=str(len(self.written)))
        self.cache.upsert(KIND, structs.replace(obj, metadata=meta, status=found))

    @property
    def names(self):
        return [name for name, _ in self.written]


class Store:
    """A store that has built the policies of `built` generations."""

    def __init__(self, compiled):
        self.built = {}
        self._compiled = compiled

    def status(self, name):
        generation = self.built.get(name)
        return None if generation is None else structs.replace(status(mode=Mode.ENFORCE), key=name, source=SOURCE, generation=generation)

    def compiled(self, _name):
        return self._compiled

    def metrics(self, _name):
        return ()


def put(cache, name, generation=1):
    cache.upsert(KIND, SchedulingPolicy(metadata=ObjectMeta(name=name, generation=generation, resource_version=f"v{generation}"), spec={}))


def story(scenario, monkeypatch, count):
    """Run the reconcilers of SchedulingPolicies on a scheduler with one node."""

    async def run():
        async with running(node("a")) as world:
            cache = ObjectCache(["PolicyApp", "PlacementPreview", "Deployment", "Service", KIND])
            server, store = Server(world.clock, cache), Store(policy('policy "p"\nscore s = 1\n'))
            monkeypatch.setattr(compose, "ObjectWriter", lambda *_: server)
            reconcilers = compose.Reconcilers(
                cache,
                TenantRights(),
                world.scheduler,
                None,
                None,
                clock=world.clock,
                leadership=world.office,
                emit=lambda _: None,
                policies=store,
                max_apps=1,
            )
            for number in range(count):
                put(cache, f"p{number}")
            working = asyncio.ensure_future(reconcilers.policies.run())
            try:
                await scenario(SimpleNamespace(world=world, cache=cache, server=server, store=store, reconcilers=reconcilers))
            finally:
                working.cancel()

    asyncio.run(run())


def built(cluster, name, generation=1):
    """Have the store build a policy, and emit it."""
    cluster.store.built[name] = generation
    cluster.reconcilers.handlers[PolicyTried](PolicyTried(cluster.store.status(name)))


def test_the_statuses_of_many_policies_are_written_several_at_a_time(monkeypatch):
    async def scenario(cluster):
        for number in range(80):
            built(cluster, f"p{number}")
        await cluster.world.pass_time(80 * SECONDS / 4, step=SECONDS / 2)
        assert set(cluster.server.names) == {f"p{number}" for number in range(80)}
        assert cluster.server.most == compose.STATUSES_AT_ONCE

    story(scenario, monkeypatch, 80)


@pytest.mark.parametrize("event", [PolicyTried, PolicySuspended])
def test_a_policy_that_changes_does_not_wait_for_the_counts_of_all_others(event, monkeypatch):
    """A pod is placed, which changes the counts of all."""

    async def scenario(cluster):
        for number in range(200):
            built(cluster, f"p{number}")
        await cluster.world.pass_time(200 * SECONDS / 4 + REFRESH, step=SECONDS / 2)
        cluster.world.cluster.put(pod("more", cpu="10m"))
        await cluster.world.calm()
        before = len(cluster.server.written)
        last = cluster.server.names[-1]
        cluster.world.clock.move(2 * REFRESH)  # all come back
        await cluster.world.calm()
        put(cluster.cache, last, generation=2)
        cluster.store.built[last] = 2
        cluster.reconcilers.handlers[event](event(cluster.store.status(last)))
        await cluster.world.pass_time(200 * SECONDS / 4, step=SECONDS / 2)
        later = cluster.server.names[before:]
        assert len(set(later)) == 200, "all others are written too"
        assert last in later[: 2 * compose.STATUSES_AT_ONCE]

    story(scenario, monkeypatch, 200)


def test_what_the_store_builds_is_not_asked_for_again_and_again(monkeypatch):
    async def scenario(cluster):
        asked = []
        status_of = cluster.store.status
        cluster.store.status = lambda name: asked.append(name) or status_of(name)
        await cluster.world.pass_time(REFRESH - 1)
        assert len(asked) == 20
        built(cluster, "p3")
        await cluster.world.pass_time(2 * SECONDS, step=SECONDS / 2)
        assert cluster.server.names == ["p3"]

    story(scenario, monkeypatch, 20)


def test_a_policy_of_another_source_has_no_status(monkeypatch):
    async def scenario(cluster):
        cluster.store.built["p0"] = 1
        event = PolicyTried(structs.replace(cluster.store.status("p0"), source="policies", key="p1"))
        await cluster.world.pass_time(1.0)
        cluster.reconcilers.handlers[PolicyTried](event)
        assert not len(cluster.reconcilers.policies.queue)

    story(scenario, monkeypatch, 1)
