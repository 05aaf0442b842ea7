"""Labels of namespaces that change while pods wait: other policies govern the pods, others may be evicted, and groups are others."""

import asyncio

import pytest

from tests.unit.compiler.texts import compiled
from tests.unit.scheduler.running import node, pod, running
from wharfinger.framework.chain import assemble
from wharfinger.model.objects import Namespace, ObjectMeta

ML = 'pod.namespace_labels["team"] == "ml"'
ONLY_GPU = 'filter gpu { require node.labels["gpu"] == "yes" else "no GPU" on missing reject }'
GANG = 'group by pod.namespace_labels["team"] { min_count 2 }'


def namespace(**labels):
    return Namespace(metadata=ObjectMeta(name="default", labels=labels))


def chains(text):
    return {"wharfinger": assemble([compiled(f'policy "p"\n{text}')])}


def test_a_policy_governs_pods_of_namespaces_with_a_label():
    async def story():
        things = (namespace(team="ml"), node("a"), node("b", labels={"gpu": "yes"}), pod("one"))
        async with running(*things, chains=chains(f"for pods where {ML}\n{ONLY_GPU}")) as world:
            assert world.cluster.nodes_of_pods() == {"default/one": "b"}
            world.cluster.put(namespace(team="web"))
            world.cluster.put(node("b", unschedulable=True, labels={"gpu": "yes"}))
            world.cluster.put(pod("two"))
            await world.calm()
            assert world.cluster.nodes_of_pods() == {"default/one": "b", "default/two": "a"}

    asyncio.run(story())


@pytest.mark.parametrize("labels", [{"team": "web"}, {}])
def test_a_pod_is_woken_when_the_policy_governs_it_no_more(labels):
    async def story():
        things = (namespace(team="ml"), node("a"), pod("one"))
        async with running(*things, chains=chains(f"for pods where {ML}\n{ONLY_GPU}")) as world:
            assert world.cluster.nodes_of_pods() == {}
            world.cluster.put(namespace(**labels))
            await world.pass_time(2)
            assert world.cluster.nodes_of_pods() == {"default/one": "a"}

    asyncio.run(story())


@pytest.mark.parametrize(
    "rules",
    [
        'preemption { never_evict when it.namespace_labels["team"] == "ml" on missing evict }',
        f"for pods where {ML}\npreemption {{ never_evict when it.priority < 1 }}",
    ],
)
def test_a_pod_is_woken_when_labels_protect_others_no_more(rules):
    async def story():
        low, high = pod("low", cpu="4", nodeName="a"), pod("high", cpu="4", priority=9)
        async with running(namespace(team="ml"), node("a"), low, high, chains=chains(rules)) as world:
            await world.pass_time(2)
            assert world.seen.preemptions == []
            world.cluster.put(namespace(team="web"))
            await world.pass_time(2)
            assert world.seen.preemptions == [("default/high", "a", 1)]

    asyncio.run(story())


@pytest.mark.parametrize("rules", [GANG, f'for pods where {ML}\ngroup by "all" {{ min_count 2 }}'])
def test_pods_are_in_groups_by_the_labels_that_their_namespace_has_now(rules):
    async def story():
        async with running(node("a"), namespace(team="ml"), pod("one"), chains=chains(rules)) as world:
            assert world.cluster.nodes_of_pods() == {}
            assert [list(entry.members) for entry in world.scheduler.queue.groups] == [["uid-one"]]
            world.cluster.put(namespace())
            await world.pass_time(2)
            assert world.cluster.nodes_of_pods() == {"default/one": "a"}
            assert list(world.scheduler.queue.groups) == []

    asyncio.run(story())


def test_other_labels_of_a_namespace_put_waiting_pods_into_a_group():
    async def story():
        async with running(namespace(), pod("one"), pod("two"), chains=chains(GANG)) as world:
            assert list(world.scheduler.queue.groups) == []
            world.cluster.put(namespace(team="ml"))
            await world.pass_time(1)
            assert [entry.key for entry in world.scheduler.queue.groups] == ["default/ml"]
            world.cluster.put(node("a", cpu="1"))
            await world.pass_time(2)
            assert world.cluster.nodes_of_pods() == {}
            world.cluster.put(node("b", cpu="1"))
            await world.pass_time(2)
            assert set(world.cluster.nodes_of_pods()) == {"default/one", "default/two"}

    asyncio.run(story())
