"""A pod that waits only because of the time is tried again when the time has come, although nothing happens in the cluster."""

import asyncio
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from tests.unit.scheduler.running import node, pod, running
from tests.unit.scheduler.test_groups_live import gang, members
from tests.unit.simulate.clusters import policy
from wharfinger.framework.chain import assemble

BEGIN = 1_700_000_000
NOT_ALONE = 'filter alone { require count(pods where (it.labels["app"] ?? "-") == "web", on: node) > 0 else "too young to be alone" }'
YOUNG = "age(pod.created) < 60s"


def created(obj, seconds=0):
    return replace(obj, metadata=replace(obj.metadata, creation_timestamp=datetime.fromtimestamp(BEGIN + seconds, UTC)))


@pytest.mark.parametrize(
    "text",
    [
        f'policy "p"\nfor pods where {YOUNG}\n{NOT_ALONE}',
        f'policy "p"\n{NOT_ALONE.replace("alone {", f"alone when {YOUNG} {{")}',
        'policy "p"\nfilter old { require age(pod.created) >= 60s else "too young" on missing reject }',
    ],
)
def test_a_pod_is_woken_when_a_policy_lets_it_go(text):
    async def story():
        chains = {"wharfinger": assemble([policy(text)])}
        async with running(node("a"), created(pod("web")), created(pod("later"), 30), chains=chains) as world:
            await world.pass_time(55)
            assert world.cluster.bindings == []
            await world.pass_time(16)
            assert world.cluster.bindings == [("default/web", "a")]
            await world.pass_time(30)
            assert world.cluster.bindings == [("default/web", "a"), ("default/later", "a")]

    asyncio.run(story())


def test_a_group_is_decided_at_the_present_time():
    async def story():
        chains = {
            "wharfinger": assemble([policy('policy "p"\nfilter old { require age(pod.created) >= 60s else "young" on missing reject }')])
        }
        async with running(node("a"), gang("g", 2), *map(created, members("g", 2)), chains=chains) as world:
            await world.pass_time(55)
            assert world.cluster.bindings == []
            await world.pass_time(16)
            assert len(world.cluster.bindings) == 2

    asyncio.run(story())


@pytest.mark.parametrize(
    "rules",
    [
        "preemption { never_evict when age(it.created) < 60s on missing keep }",
        f"for pods where {YOUNG}\npreemption {{ never_evict when it.priority < 1 }}",
    ],
)
def test_a_pod_is_woken_when_others_may_be_evicted_for_it(rules):
    async def story():
        chains = {"wharfinger": assemble([policy(f'policy "p"\n{rules}')])}
        low, high = created(pod("low", cpu="4", nodeName="a")), created(pod("high", cpu="4", priority=9))
        async with running(node("a"), low, high, chains=chains) as world:
            await world.pass_time(55)
            assert world.seen.preemptions == []
            await world.pass_time(16)
            assert world.seen.preemptions == [("default/high", "a", 1)]

    asyncio.run(story())


@pytest.mark.parametrize(
    "rules",
    [
        "preemption { never_evict when age(it.created) < 60s on missing keep }",
        f"for pods where {YOUNG}\npreemption {{ never_evict when it.priority < 1 }}",
    ],
)
def test_a_group_is_woken_when_others_may_be_evicted_for_it(rules):
    async def story():
        chains = {"wharfinger": assemble([policy(f'policy "p"\n{rules}')])}
        low, high = created(pod("low", cpu="4", nodeName="a")), map(created, members("g", 2, "2", priority=9))
        async with running(node("a"), low, gang("g", 2), *high, chains=chains) as world:
            await world.pass_time(55)
            assert world.seen.preemptions == []
            await world.pass_time(16)
            assert [(node, victims) for _, node, victims in world.seen.preemptions] == [("a", 1)]

    asyncio.run(story())


def test_no_pod_is_woken_by_time_where_none_could_be_evicted():
    async def story():
        chains = {"wharfinger": assemble([policy('policy "p"\npreemption { never_evict when age(it.created) < 60s on missing keep }')])}
        async with running(node("a"), created(pod("big", cpu="9", priority=9)), chains=chains) as world:
            await world.pass_time(120)
            assert len(world.seen.attempts) == 1

    asyncio.run(story())
