"""Groups whose objects change, are doubled or are odd: nothing is lost or left assumed, and what is bound stays."""

import asyncio

import msgspec
import pytest
from msgspec.structs import replace

from tests.unit.scheduler.running import node, pod, running
from tests.unit.scheduler.test_groups_live import bound, gang, member, members
from tests.unit.simulate.clusters import policy
from wharfinger.framework.chain import assemble
from wharfinger.framework.ports import BindFailed
from wharfinger.model import objects


def in_namespace(obj, namespace):
    return replace(obj, metadata=replace(obj.metadata, namespace=namespace, uid=f"{namespace}-{obj.metadata.uid}"))


def assumed(world):
    return [pod.key for pod, assumed in world.scheduler.state.placements() if assumed]


def test_groups_of_one_name_in_two_namespaces_are_two():
    async def story():
        x = [in_namespace(each, "x") for each in (gang("g", 2), *members("g", 2))]
        y = [in_namespace(each, "y") for each in (gang("g", 3), *members("g", 2))]
        async with running(node("a", "8"), *x, *y) as world:
            assert set(world.cluster.nodes_of_pods()) == {"x/g-0", "x/g-1"}
            world.cluster.put(in_namespace(member("g", 2), "y"))
            await world.pass_time(2)
            assert len(world.cluster.nodes_of_pods()) == 5

    asyncio.run(story())


def test_a_minimum_that_grows_after_members_were_bound_counts_these():
    async def story():
        async with running(node("a", "3"), gang("g", 2), *members("g", 4)) as world:
            assert len(bound(world, "g")) == 3
            world.cluster.put(gang("g", 4))
            await world.pass_time(5)
            assert len(bound(world, "g")) == 3, "no pod is evicted"
            world.cluster.put(node("b", "1"))
            await world.pass_time(15)
            assert len(bound(world, "g")) == 4

    asyncio.run(story())


def test_a_podgroup_that_is_deleted_while_its_group_waits_and_made_again_with_less():
    async def story():
        async with running(node("a", "3"), gang("g", 4), *members("g", 4)) as world:
            world.cluster.remove("PodGroup", "default/g")
            await world.pass_time(5)
            assert bound(world, "g") == set()
            assert world.scheduler.queue.depths["gated"] == 4
            world.cluster.put(gang("g", 2))
            await world.pass_time(15)
            assert len(bound(world, "g")) == 3

    asyncio.run(story())


def test_pods_of_a_daemonset_each_of_which_has_one_node():
    def on(name, number):
        terms = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}]}
        affinity = msgspec.convert({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}, objects.Affinity)
        there = member("g", number)
        return replace(there, spec=replace(there.spec, affinity=affinity))

    async def story():
        async with running(node("a"), node("b"), gang("g", 3), *(on(name, number) for number, name in enumerate("abc"))) as world:
            assert world.cluster.bindings == []
            world.cluster.put(node("c"))
            await world.pass_time(15)
            assert world.cluster.nodes_of_pods() == {"default/g-0": "a", "default/g-1": "b", "default/g-2": "c"}

    asyncio.run(story())


@pytest.mark.parametrize(
    ("then", "bound_then"),
    [
        ('group by pod.labels["team"] { min_count 3 }', 3),
        ('group by pod.labels["team"] { min_count 4 }', 2),
        ('group by pod.labels["job"] { min_count 2 }', 3),
        ('filter any { require node.name != "" else "-" }', 3),
    ],
)
def test_pods_that_are_grouped_otherwise_while_their_group_is_bound_in_part(then, bound_then):
    """The third member of `job` is refused. Bound pods stay whatever policies say, and the third waits for a group of four only."""

    async def story():
        refused = True

        def refuse(view, _node):
            if refused and view.name == "j-2":
                raise BindFailed("no")

        chain = assemble([policy('policy "g"\ngroup by pod.labels["job"] { min_count 3 }')])
        async with running(node("a", "8"), chains={"wharfinger": chain}) as world:
            world.cluster.before_bind = refuse
            for number in range(3):
                world.cluster.put(pod(f"j-{number}", labels={"job": "j", "team": "t"}))
            await world.pass_time(1)
            assert set(world.cluster.nodes_of_pods()) == {"default/j-0", "default/j-1"}
            world.scheduler.adopt({"wharfinger": assemble([policy(f'policy "g"\n{then}')])})
            await world.pass_time(5)
            assert set(world.cluster.nodes_of_pods()) == {"default/j-0", "default/j-1"}
            refused = False
            await world.pass_time(60)
            assert len(world.cluster.nodes_of_pods()) == bound_then
            assert assumed(world) == []

    asyncio.run(story())
