"""New samples reach decisions, and wake the pods that waited for them."""

import asyncio

from tests.unit.compiler.texts import compiled
from tests.unit.scheduler.running import node, pod, running
from wharfinger.framework.chain import assemble
from wharfinger.signals.mapping import Series, mapped
from wharfinger.signals.query import queries_of

POLICY = compiled(
    'policy "cool"\nmetric load: percent = prometheus("load", max_age: 60s, min_coverage: 100%)\n'
    'filter cool { require load < 50% else "hot" on missing pass }\n'
)
(QUERY,) = queries_of([POLICY.policy]).values()


def story(scenario):
    def test():
        asyncio.run(scenario())

    return test


def publish(world, **loads):
    measurements = world.scheduler.measurements
    series = [Series({"node": name}, load, world.clock.now()) for name, load in loads.items()]
    measurements.publish(QUERY.key, mapped(series, QUERY, measurements.nodes()))


def started():
    return running(node("a"), node("b"), chains={"wharfinger": assemble([POLICY])})


@story
async def test_a_pod_rejected_for_high_temperatures_is_placed_after_a_lower_sample():
    async with started() as world:
        publish(world, a=0.9, b=0.9)
        world.cluster.put(pod("web"))
        await world.pass_time(20)
        assert world.cluster.nodes_of_pods() == {}
        publish(world, a=0.9, b=0.1)
        await world.pass_time(15)  # a pod that time may help is tried again after its backoff, whatever happens
        assert world.cluster.nodes_of_pods() == {"default/web": "b"}


@story
async def test_a_pod_is_placed_once_the_temperatures_of_nodes_are_too_old():
    async with started() as world:
        publish(world, a=0.9, b=0.9)
        world.cluster.put(pod("web"))
        await world.pass_time(61)
        assert world.cluster.nodes_of_pods() == {}
        world.scheduler.measurements.retry_rejected()  # what signals do when a metric is suspended
        await world.pass_time(15)
        assert list(world.cluster.nodes_of_pods()) == ["default/web"]


@story
async def test_one_sample_too_few_suspends_the_rule_and_a_dropped_signal_does():
    async with started() as world:
        publish(world, a=0.9)
        world.cluster.put(pod("first"))
        await world.calm()
        publish(world, a=0.9, b=0.9)
        world.cluster.put(pod("second"))
        await world.calm()
        assert list(world.cluster.nodes_of_pods()) == ["default/first"]
        world.scheduler.measurements.drop(QUERY.key)
        world.cluster.put(pod("third"))
        await world.calm()
        assert set(world.cluster.nodes_of_pods()) == {"default/first", "default/third"}


@story
async def test_addresses_are_worked_out_once_and_again_when_they_change():
    async with started() as world:
        first = world.scheduler.measurements.nodes()
        assert first.of("10.0.0.1") is None
        second = world.scheduler.measurements.nodes()
        assert second.of("10.0.0.1") is None
        assert vars(second)["_by_address"] is vars(first)["_by_address"]
        world.cluster.put(node("c"))
        await world.calm()
        third = world.scheduler.measurements.nodes()
        assert (third.of("c:9100"), third.of("10.0.0.1")) == ("c", None)
        assert vars(third)["_by_address"] is not vars(second)["_by_address"]
