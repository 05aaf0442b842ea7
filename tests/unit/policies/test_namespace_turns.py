"""Many changes of one namespace delay neither the cluster's changes nor those of other namespaces."""

import pytest

from tests.unit.policies.stores import Place, Scheduling, World, policy, story, text
from wharfinger.language.semantics.authority import Authority
from wharfinger.policies import namespace_turns
from wharfinger.policies.namespace_turns import MAX_TEXTS

RESOURCES = "SchedulingPolicies"


def owned(namespace, name, label="a", more=""):
    """The text of a policy of a namespace, by key."""
    title = f"{namespace}.{name}"
    return {title: text(policy(title, label) + more, name=title, authority=Authority(namespace))}


class Adopting(Scheduling):
    """A scheduler that does something with what it adopts."""

    def __init__(self):
        super().__init__()
        self.then = lambda: None
        self.adopt = self._adopt

    def _adopt(self, active):
        self.adopted.append([found.name for found in active.chains["wharfinger"].policies])
        self.then()


async def known_world():
    """A store that knows all of its sources."""
    world = World(Place("folder"), Place(RESOURCES, empty_is_lost=False, imports=False), scheduling=Adopting())
    await world.offer({"a.policy": policy("a")})
    await world.offer({}, RESOURCES)
    assert world.store.all_sources_known.is_set()
    world.adopted.clear()
    return world


def flood(count, namespace="noisy", label="a"):
    return {key: each for number in range(count) for key, each in owned(namespace, f"p{number:03}", label).items()}


@story
async def test_a_change_of_the_cluster_waits_for_one_portion_of_a_flood():
    world = await known_world()
    scheduling = world.scheduling

    def change():
        scheduling.then = lambda: None
        world.store.offer("folder", {"b.policy": text(policy("b"), name="b.policy")})

    scheduling.then = change
    await world.offer(flood(5 * MAX_TEXTS), RESOURCES)
    first, second, *_, last = scheduling.adopted
    assert ("b" in first, len(first)) == (False, 1 + MAX_TEXTS)
    assert ("b" in second, len(second)) == (True, 1 + 2 * MAX_TEXTS)
    assert len(last) == 1 + 5 * MAX_TEXTS
    assert len(scheduling.adopted) == 5


@story
async def test_a_namespace_with_one_change_does_not_wait_for_those_of_another():
    world = await known_world()
    scheduling = world.scheduling

    def change():
        scheduling.then = lambda: None
        world.store.offer(RESOURCES, flood(5 * MAX_TEXTS) | owned("quiet", "one") | owned("zoo", "two"))

    scheduling.then = change
    await world.offer(flood(5 * MAX_TEXTS), RESOURCES)
    assert {"quiet.one", "zoo.two"} <= set(scheduling.adopted[1])
    assert len(scheduling.adopted[-1]) == 1 + 5 * MAX_TEXTS + 2


@story
async def test_two_namespaces_with_many_changes_take_turns():
    world = await known_world()
    await world.offer(flood(3 * MAX_TEXTS, "a") | flood(3 * MAX_TEXTS, "b"), RESOURCES)
    for number, names in enumerate(world.scheduling.adopted, start=1):
        assert sum(name.startswith("a.") for name in names) == sum(name.startswith("b.") for name in names) == number * MAX_TEXTS // 2


@story
async def test_the_same_offers_are_built_in_the_same_order():
    orders = []
    for _ in range(2):
        world = await known_world()
        await world.offer(flood(2 * MAX_TEXTS, "a") | flood(MAX_TEXTS, "b") | flood(3, "c"), RESOURCES)
        orders.append([sorted(names) for names in world.scheduling.adopted])
    assert orders[0] == orders[1]


@story
async def test_a_text_that_waits_for_its_turn_is_shown_as_it_was():
    world = await known_world()
    await world.offer(flood(2 * MAX_TEXTS), RESOURCES)
    seen = []
    before = {status.key: status.revision for status in world.store.statuses}

    def look():
        kept = world.store.named("noisy.p039")[0]
        seen.append((kept.generation, kept.revision == before["noisy.p039"], "noisy.p100" in world.states()))

    world.scheduling.then = look
    changed = {key: text(each.content, name=key, authority=each.authority, generation=7) for key, each in flood(40, label="b").items()}
    await world.offer(changed | owned("noisy", "p100"), RESOURCES)
    assert seen[0] == (0, True, False)
    assert world.store.named("noisy.p039")[0].generation == 7
    assert set(world.deciding().values()) == {"a", "b"}
    assert list(world.deciding().values()).count("b") == 40
    assert "noisy.p100" in world.deciding()


@story
async def test_texts_removed_or_changed_while_they_wait_are_not_built():
    world = await known_world()
    scheduling = world.scheduling

    def change():
        scheduling.then = lambda: None
        world.store.offer(RESOURCES, flood(MAX_TEXTS) | owned("noisy", "p050", "b"))

    scheduling.then = change
    await world.offer(flood(4 * MAX_TEXTS), RESOURCES)
    assert len(world.deciding()) == 1 + MAX_TEXTS + 1
    assert world.deciding()["noisy.p050"] == "b"
    assert len([key for key, _ in world.seen.tried if key == "noisy.p050"]) == 1


@story
async def test_a_portion_is_bounded_by_the_size_of_its_texts():
    world = await known_world()
    long = "# " + "x" * (namespace_turns.MAX_BYTES // 3) + "\n"
    await world.offer({key: each for number in range(5) for key, each in owned("noisy", f"p{number}", more=long).items()}, RESOURCES)
    assert [len(names) - 1 for names in world.scheduling.adopted] == [2, 4, 5]


@pytest.mark.parametrize(
    ("path", "sizes"),
    [("it's.policy", [2, 4, 5]), (r"it\'s.policy", [2, 4, 5]), ("over.policy", [2, 4, 5]), ("small.policy", [5])],
)
def test_a_portion_is_bounded_by_the_size_of_what_its_texts_import_too(path, sizes):
    long = "# " + "x" * (namespace_turns.MAX_BYTES // 3) + "\nlet many = 9\n"
    libraries = (("it's.policy", long), ("over.policy", 'import "it\'s.policy" as s\n'), ("small.policy", "let few = 1\n"))
    texts = {}
    for number in range(5):
        title = f"noisy.p{number}"
        content = f'import "{path}" as own{number}\n{policy(title)}'
        texts[title] = text(content, name=title, authority=Authority("noisy", libraries=libraries))

    @story
    async def scenario():
        world = await known_world()
        await world.offer(texts, RESOURCES)
        assert [len(names) - 1 for names in world.scheduling.adopted] == sizes

    scenario()


@pytest.mark.parametrize("namespace", [None, "noisy"])
def test_before_all_sources_are_known_everything_is_built_together(namespace):
    @story
    async def scenario():
        world = World(Place(RESOURCES, empty_is_lost=False, imports=False), scheduling=Adopting())
        world.adopted.clear()
        texts = flood(3 * MAX_TEXTS) if namespace else {f"p{n}": text(policy(f"p{n}"), name=f"p{n}") for n in range(3 * MAX_TEXTS)}
        await world.offer(texts, RESOURCES)
        assert [len(names) for names in world.scheduling.adopted] == [3 * MAX_TEXTS]

    scenario()


@story
async def test_all_changes_of_the_cluster_are_adopted_together():
    world = await known_world()
    await world.offer({f"p{number}.policy": policy(f"p{number}") for number in range(3 * MAX_TEXTS)})
    assert [len(names) for names in world.scheduling.adopted] == [3 * MAX_TEXTS]
