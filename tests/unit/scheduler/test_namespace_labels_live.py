"""Changes of namespace labels while pods wait: other policies govern the pods, other pods may be evicted, and groups change."""

import asyncio

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.compiler.texts import compiled
from tests.unit.scheduler.running import node, pod, running
from wharfinger.framework.chain import assemble, with_policies
from wharfinger.groups.membership import GroupIndex, group_index
from wharfinger.model.objects import Namespace, ObjectMeta
from wharfinger.scheduler.scheduler import SchedulerSettings

ML = 'pod.namespace_labels["team"] == "ml"'
ONLY_GPU = 'filter gpu { require node.labels["gpu"] == "yes" else "no GPU" on missing reject }'
GANG = 'group by pod.namespace_labels["team"] { min_count 2 }'
ONE_AT_A_TIME = SchedulerSettings(slice_seconds=-1)  # each slice ends after its first pod


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


def test_the_pods_of_a_namespace_follow_its_labels_a_slice_at_a_time(monkeypatch):
    """However many pods a namespace has, its labels must not keep the event loop from everybody else."""
    steps, put = [0], GroupIndex.put

    def counted(self, pod):
        steps[-1] += 1
        return put(self, pod)

    async def each_turn():
        while True:
            steps.append(0)
            await asyncio.sleep(0)

    async def story():
        pods = [pod(f"p{number}") for number in range(40)]
        async with running(namespace(), *pods, chains=chains(GANG.replace("2", "50")), settings=ONE_AT_A_TIME) as world:
            await world.pass_time(2)
            turns = asyncio.ensure_future(each_turn())
            monkeypatch.setattr(GroupIndex, "put", counted)
            world.cluster.put(namespace(team="ml"))
            await world.pass_time(1)
            turns.cancel()
            assert sum(steps) == 40
            assert max(steps) == 1
            assert [len(entry.members) for entry in world.scheduler.queue.groups] == [40]

    asyncio.run(story())


def test_nothing_is_decided_before_all_pods_follow_the_labels():
    async def story():
        pods = [pod(f"p{number}") for number in range(40)]
        async with running(namespace(), *pods, chains=chains(GANG.replace("2", "41")), settings=ONE_AT_A_TIME) as world:
            await world.pass_time(2)
            world.cluster.put(namespace(team="ml"))
            world.cluster.put(node("a", cpu="64"))
            await world.pass_time(3)
            assert world.cluster.bindings == []
            world.cluster.put(namespace())
            await world.pass_time(3)
            assert len(world.cluster.bindings) == 40

    asyncio.run(story())


@pytest.mark.parametrize("turns", range(12))
def test_labels_that_change_again_meanwhile_are_followed_too(turns):
    async def story():
        async with running(namespace(), *(pod(name, nodeName="n") for name in "abc"), chains=chains(GANG), settings=ONE_AT_A_TIME) as world:
            world.cluster.put(namespace(team="ml"))
            for _ in range(turns):
                await asyncio.sleep(0)
            world.cluster.put(namespace(team="web"))
            await world.calm()
            assert list(world.scheduler.queue.groups.index) == ["default/web"]

    asyncio.run(story())


def test_a_pod_that_is_assumed_counts_as_placed_in_its_other_group():
    async def story():
        rules = GANG.replace("2", "1") + '\npermit hold timeout 1h { require pod.annotations["go"] == "yes" on missing reject }'
        async with running(namespace(team="ml"), node("a"), pod("one"), chains=chains(rules)) as world:
            await world.pass_time(2)
            world.cluster.put(namespace(team="web"))
            await world.pass_time(2)
            assert world.scheduler.state.is_assumed("uid-one")
            assert world.scheduler.queue.groups.index.n_placed("default/web") == 1

    asyncio.run(story())


def test_labels_that_change_all_the_time_do_not_keep_pods_from_being_placed():
    async def story():
        rules = GANG.replace("2", "1")
        async with running(namespace(), node("a"), chains=chains(rules), settings=ONE_AT_A_TIME) as world:
            world.cluster.put(namespace(team="ml"))
            world.cluster.put(pod("one"))
            for number in range(60):
                await asyncio.sleep(0)
                world.cluster.put(namespace(team=f"ml-{number}"))
            assert world.cluster.nodes_of_pods() == {"default/one": "a"}

    asyncio.run(story())


POLICIES = [
    GANG,
    'group by pod.labels["team"] { min_count 3 }',
    f'for pods where {ML}\ngroup by "all" {{ min_count 2 }}',
    "filter f { require node.pod_count < 99 }",
]
happening = st.one_of(
    st.tuples(st.just("label"), st.sampled_from(["ml", "web", None])),
    st.tuples(st.just("pod"), st.sampled_from("abcdef")),
    st.tuples(st.just("bound"), st.sampled_from("abcdef")),
    st.tuples(st.just("remove"), st.sampled_from("abcdef")),
    st.tuples(st.just("policy"), st.sampled_from(POLICIES)),
    st.tuples(st.just("turns"), st.integers(1, 4)),
)


@given(st.lists(happening, max_size=25))
@example([("label", "ml"), ("turns", 2), ("pod", "a"), ("bound", "b"), ("remove", "f"), ("remove", "e"), ("pod", "e")])
@example([("label", "ml"), ("turns", 2), ("policy", POLICIES[1]), ("turns", 2), ("label", "web"), ("remove", "f"), ("pod", "e")])
def test_after_any_changes_the_groups_equal_those_of_a_new_index(events):
    async def story():
        pods = [pod(name, cpu="8", labels={"team": "x"}) for name in "abcdef"]
        async with running(node("a"), namespace(), *pods, chains=chains(GANG), settings=ONE_AT_A_TIME) as world:
            scheduler, there = world.scheduler, {each.metadata.name for each in pods}
            for number, (kind, what) in enumerate(events):
                match kind:
                    case "label":
                        world.cluster.put(namespace(**({} if what is None else {"team": what})))
                    case "pod" | "bound":
                        bound = {"nodeName": "a"} if kind == "bound" else {}
                        world.cluster.put(pod(what, cpu="8", uid=f"uid-{what}-{number}", labels={"team": f"y{number % 2}"}, **bound))
                        there.add(what)
                    case "remove" if what in there:
                        world.cluster.remove("Pod", f"default/{what}")
                        there.discard(what)
                    case "policy":
                        chain = scheduler.profiles["wharfinger"].chain
                        scheduler.adopt({"wharfinger": with_policies(chain, [compiled(f'policy "p"\n{what}')])})
                    case "turns":
                        for _ in range(what):
                            await asyncio.sleep(0)
                    case _:
                        pass
            for _ in range(4):
                await world.pass_time(1)
            index, fresh = scheduler.queue.groups.index, group_index(scheduler.known_pods, scheduler.state.objects, scheduler._group_rule())
            assert shown(index) == shown(fresh)
            assert {(queued.uid, queued.group) for queued in scheduler.queue} == {
                (each.uid, fresh.key_of(each.uid)) for each in scheduler.known_pods if not each.node_name
            }

    asyncio.run(story())


def shown(index):
    return {key: (sorted(each.uid for each in index.members(key)), index.n_placed(key), index.terms(key)) for key in index}
