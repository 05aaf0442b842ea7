"""Other policies take over between two cycles."""

import asyncio

from tests.unit.compiler.texts import compiled
from tests.unit.scheduler.running import node, pod, running
from wharfinger.framework.chain import assemble, with_policies
from wharfinger.scheduler.events import Decided
from wharfinger.scheduler.scheduler import SchedulerSettings

BASE = assemble()


def only(name, label, scope=""):
    return compiled(
        f'policy "{name}"\n{scope}\nfilter f {{ require node.labels["pool"] == "{label}" else "not {label}" on missing reject }}\n'
    )


def chain(*policies):
    return with_policies(BASE, policies)


def story(scenario):
    def test():
        asyncio.run(scenario())

    return test


def started(policies, *things, **more):
    return running(
        node("a", labels={"pool": "a"}), node("b", labels={"pool": "b"}), *things, chains={"wharfinger": chain(*policies)}, **more
    )


@story
async def test_the_next_pod_is_decided_by_the_new_policies():
    async with started([only("where", "a")], pod("first")) as world:
        world.scheduler.adopt({"wharfinger": chain(only("where", "b"))})
        world.cluster.put(pod("second"))
        await world.calm()
        assert world.cluster.nodes_of_pods() == {"default/first": "a", "default/second": "b"}
        assert len({attempt.policy_revision for attempt in world.seen.attempts}) == 2


@story
async def test_a_pod_that_fitted_nowhere_is_tried_again_as_soon_as_its_backoff_is_over():
    async with started([only("where", "c")], pod("waiting")) as world:
        assert world.cluster.nodes_of_pods() == {}
        assert world.scheduler.adopt({"wharfinger": chain(only("where", "b"))}) == 1
        await world.pass_time(2)
        assert world.cluster.nodes_of_pods() == {"default/waiting": "b"}


@story
async def test_pods_that_no_changed_policy_governs_go_on_waiting():
    web = 'for pods where pod.labels["app"] == "web"'
    everywhere = only("all", "c")
    async with started([everywhere], pod("other"), pod("web", labels={"app": "web"})) as world:
        assert world.scheduler.adopt({"wharfinger": chain(everywhere, only("web", "a", web))}) == 1
        assert world.scheduler.adopt({"wharfinger": chain(only("web", "a", web))}) == 1


@story
async def test_equal_policies_change_nothing():
    async with started([only("where", "a")], pod("first")) as world:
        profile = world.scheduler.profiles["wharfinger"]
        before = profile.chain, profile.decider
        world.scheduler.adopt({"wharfinger": chain(only("where", "a"))})
        assert (profile.chain, profile.decider) == before


@story
async def test_plugins_are_carried_over_with_all_they_remember():
    async with started([only("where", "a")]) as world:
        profile = world.scheduler.profiles["wharfinger"]
        plugins = [link.plugin for link in profile.chain.links]
        world.scheduler.adopt({"wharfinger": chain(only("where", "b"))})
        assert all(link.plugin is plugin for link, plugin in zip(profile.chain.links, plugins, strict=True))


@story
async def test_a_pod_whose_binding_fails_after_the_change_is_decided_anew():
    async with started([only("where", "a")]) as world:
        queue = world.scheduler.queue
        world.cluster.put(pod("p"))
        queued = queue.pop()
        world.scheduler.adopt({"wharfinger": chain(only("where", "b"))})
        queue.reject(queued, frozenset(world.scheduler.profiles["wharfinger"].chain.filters[:1]))
        await world.pass_time(2)
        assert world.cluster.nodes_of_pods() == {"default/p": "b"}


def test_the_rules_of_a_policy_that_stays_are_shared():
    stays = only("stays", "a")
    before = chain(stays)
    after = with_policies(before, [stays, only("new", "b")])
    assert before.rules[0] in after.rules
    assert after.links is before.links
    assert with_policies(after, list(after.policies)) is after


@story
async def test_the_scheduler_rests_between_two_slices_when_it_is_asked_to():
    async with started([], settings=SchedulerSettings(slice_seconds=0.0), rest=lambda: 0.5) as world:
        for name in "pq":
            world.cluster.put(pod(name))
        await world.calm()
        assert len(world.cluster.nodes_of_pods()) == 1
        await world.pass_time(0.5)
        assert len(world.cluster.nodes_of_pods()) == 2


@story
async def test_and_decides_in_shorter_slices_then():
    async with started([], settings=SchedulerSettings(slice_seconds=1.0), rest=lambda: 100.0) as world:
        world.subscribers.subscribe({Decided: lambda _: world.clock.move(0.3)})
        for index in range(8):
            world.cluster.put(pod(f"p{index}"))
        await world.calm()
        assert len(world.cluster.nodes_of_pods()) == 1  # a whole slice would have decided four
