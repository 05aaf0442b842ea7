"""Other policies take over between two cycles."""

import asyncio

import pytest

from tests.unit.compiler.texts import compiled
from tests.unit.scheduler.running import node, pod, running
from wharfinger.framework.chain import Chain, assemble, with_policies
from wharfinger.framework.evaluation.cycle import DROPPED_AT_ONCE
from wharfinger.framework.rules.policy_rules import PolicyPermit
from wharfinger.scheduler.binding import permits
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
async def test_a_pod_without_a_feasible_node_is_tried_again_as_soon_as_its_backoff_is_over():
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
        plugins = [entry.plugin for entry in profile.chain.entries]
        world.scheduler.adopt({"wharfinger": chain(only("where", "b"))})
        assert all(entry.plugin is plugin for entry, plugin in zip(profile.chain.entries, plugins, strict=True))


@story
async def test_a_pod_whose_binding_fails_after_the_change_is_decided_again():
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
    assert after.entries is before.entries
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
async def test_slices_are_shorter_while_policies_are_compiled():
    async with started([], settings=SchedulerSettings(slice_seconds=1.0), rest=lambda: 100.0) as world:
        world.subscribers.subscribe({Decided: lambda _: world.clock.move(0.3)})
        for index in range(8):
            world.cluster.put(pod(f"p{index}"))
        await world.calm()
        assert len(world.cluster.nodes_of_pods()) == 1  # a whole slice would have decided four


def held_until(condition, name="hold", scope="", timeout="1min"):
    return compiled(f'policy "{name}"\n{scope}\npermit p timeout {timeout} {{ require {condition} on missing reject }}\n')


CLOSED, OPEN = 'node.labels["open"] == "yes"', 'node.labels["pool"] == "a"'


@pytest.mark.parametrize(
    ("before", "after", "is_bound"),
    [
        ([held_until(CLOSED)], [], True),
        ([held_until(CLOSED)], [held_until(OPEN)], True),
        ([held_until(CLOSED)], [only("where", "b")], True),
        ([held_until(CLOSED)], [held_until(CLOSED, scope='for pods where pod.labels["app"] == "web"')], True),
        ([held_until(CLOSED)], [held_until(CLOSED, timeout="2min")], False),
        ([held_until(CLOSED)], [held_until(CLOSED), held_until(OPEN, "other")], False),
        ([held_until(OPEN, "first"), held_until(CLOSED)], [held_until(CLOSED, "first")], False),
        ([held_until(CLOSED)], [held_until(OPEN), held_until(CLOSED, "other")], False),
    ],
    ids=[
        "removed",
        "satisfied",
        "replaced by a filter",
        "governs others",
        "still held",
        "another beside",
        "an approval is asked again",
        "held by another",
    ],
)
def test_a_pod_that_a_permit_holds_needs_the_permits_of_the_new_policies(before, after, is_bound):
    async def scenario():
        async with running(node("a", labels={"pool": "a"}), pod("held"), chains={"wharfinger": chain(*before)}) as world:
            assert world.scheduler.state.is_assumed("uid-held")
            await world.pass_time(10)
            world.scheduler.adopt({"wharfinger": chain(*after)})
            await world.calm()
            assert ("default/held" in world.cluster.nodes_of_pods()) == is_bound
            assert world.scheduler.state.is_placed("uid-held")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("after", "seconds"),
    [
        ([held_until(CLOSED), only("where", "a")], 60),
        ([held_until(CLOSED, timeout="2min")], 120),
        ([held_until(CLOSED, timeout="20s")], 30),
    ],
    ids=["the same permit", "a longer timeout", "one that is over"],
)
def test_the_timeout_of_a_permit_counts_from_when_the_pod_was_first_held(after, seconds):
    async def scenario():
        async with running(node("a", labels={"pool": "a"}), pod("held"), chains={"wharfinger": chain(held_until(CLOSED))}) as world:
            await world.pass_time(30)
            world.scheduler.adopt({"wharfinger": chain(*after)})
            await world.calm()
            await world.pass_time(seconds - 31)
            refused = [note for note in world.reasons() if note == ("default/held", "FailedScheduling")]
            assert bool(refused) == (seconds <= 30)
            await world.pass_time(2)
            assert ("default/held", "FailedScheduling") in world.reasons()

    asyncio.run(scenario())


@story
async def test_a_pod_whose_permit_refuses_after_the_change_is_tried_again_at_once():
    async with started([held_until(CLOSED)], pod("held")) as world:
        await world.pass_time(30)
        world.scheduler.adopt({"wharfinger": chain(held_until(CLOSED, timeout="20s"))})
        await world.pass_time(3)
        assert world.scheduler.state.is_assumed("uid-held"), "placed again, and held again"
        assert len([event for event in world.cluster.events if event[1].reason == "FailedScheduling"]) == 1


@story
async def test_thousands_of_held_pods_are_released_a_few_at_a_time():
    asked = PolicyPermit.permission
    steps = [0]

    def permission(self, *of):
        steps[-1] += 1
        return asked(self, *of)

    async def each_turn():
        while True:
            steps.append(0)
            await asyncio.sleep(0)

    by_identity = '(node.labels["open"] == "yes" or pod.name == "x")'
    async with running(
        node("a", cpu="200"), *(pod(f"p{n}") for n in range(100)), chains={"wharfinger": chain(held_until(by_identity))}
    ) as world:
        await world.pass_time(10)
        with pytest.MonkeyPatch.context() as patching:
            patching.setattr(PolicyPermit, "permission", permission)
            ticks = asyncio.ensure_future(each_turn())
            world.scheduler.adopt({"wharfinger": chain(held_until(f'{by_identity} or node.labels["wide"] == "yes"'))})
            for _ in range(30):
                await world.pass_time(permits.STEP_PAUSE, step=permits.STEP_PAUSE)
            ticks.cancel()
        assert sum(steps) >= 100
        assert max(steps) <= 2 * permits.ANSWERS_PER_STEP


def test_a_pod_about_which_the_new_policies_fail_keeps_no_other_from_being_asked_again(monkeypatch):
    async def scenario():
        async with started([held_until(CLOSED)], pod("bad"), pod("good")) as world:
            permits_of = Chain.permits

            def choke(self, held, at):
                if held.name == "bad":
                    raise ZeroDivisionError("a policy at fault")
                return permits_of(self, held, at)

            monkeypatch.setattr(Chain, "permits", choke)
            world.scheduler.adopt({"wharfinger": chain()})
            await world.calm()
            assert set(world.cluster.nodes_of_pods()) == {"default/good"}
            assert world.cluster.pod("default/bad").status.conditions[0].message == "a policy at fault"
            monkeypatch.undo()
            await world.pass_time(4)
            assert set(world.cluster.nodes_of_pods()) == {"default/bad", "default/good"}

    asyncio.run(scenario())


@story
async def test_the_caches_of_the_former_policies_are_released_in_steps():
    templates = 5 * DROPPED_AT_ONCE + 3
    async with started([only("where", "a")], *(pod(f"p{number}", labels={"n": str(number)}) for number in range(templates))) as world:
        former = world.scheduler.profiles["wharfinger"].decider
        assert len(former._kept) == templates
        world.scheduler.adopt({"wharfinger": chain(only("where", "b"))})
        kept = [templates]
        while kept[-1]:
            await asyncio.sleep(0)
            kept.append(len(former._kept))
            assert kept[-2] - kept[-1] <= DROPPED_AT_ONCE
            assert len(kept) < 100
