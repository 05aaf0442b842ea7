"""The policies in effect after texts were offered: new, broken, removed, unreadable, or in conflict."""

import asyncio

import pytest

from tests.unit.policies.stores import BROKEN, Mode, Place, World, policy, story, text
from wharfinger.language.files import MAX_BYTES, NO_POLICIES_MARKER
from wharfinger.policies import store
from wharfinger.policies.ledger import EMPTIED, EMPTY, REPLACED, ConfiguredSource, Entry


@story
async def test_offered_policies_decide():
    world = World()
    await world.offer({"a.policy": policy("a"), "b.policy": policy("b", "b")})
    assert world.deciding() == {"a": "a", "b": "b"}
    assert world.seen.tried == [("a.policy", "accepted"), ("b.policy", "accepted")]
    assert len(world.adopted) == 1


@story
async def test_a_policy_that_is_suspended_says_so_as_long_as_it_is():
    world = World()
    await world.offer({"a.policy": policy("a"), "b.policy": policy("b"), "c.policy": text(policy("c"), name="c.policy", mode=Mode.SHADOW)})
    revisions = {status.name: status.revision for status in world.store.statuses}
    world.scheduling.suspended = {(name, revisions[name]): "it takes too long" for name in "ac"}
    assert world.states() == {"a.policy": "suspended", "b.policy": "active", "c.policy": "shadow"}
    found = world.status("a.policy")
    assert [(each.severity, each.code, each.message) for each in found.findings] == [("warning", "budget", "it takes too long")]
    assert found.report == "warning: budget: it takes too long\n"
    world.store.suspension_changed("a", revisions["a"])
    world.scheduling.suspended = {}
    world.store.suspension_changed("a", revisions["a"])
    assert world.seen.suspended == [("a", True), ("a", False)]
    assert world.states()["a.policy"] == "active"


@story
async def test_the_same_again_changes_nothing():
    world = World()
    await world.offer({"a.policy": policy("a")})
    chain, since = world.store.active.chains["wharfinger"], world.status("a.policy").since
    await world.offer({"a.policy": policy("a")})
    await world.offer({"a.policy": policy("a") + "# a remark\n"})
    assert world.store.active.chains["wharfinger"] is chain
    assert world.status("a.policy").since == since
    assert len(world.adopted) == 1


@story
async def test_a_broken_edit_keeps_its_former_version_and_other_edits_apply():
    world = World()
    await world.offer({"a.policy": policy("a", "one"), "b.policy": policy("b", "one")})
    await world.offer({"a.policy": BROKEN, "b.policy": policy("b", "two")})
    assert world.deciding() == {"a": "one", "b": "two"}
    status = world.status("a.policy")
    assert (status.state, status.name) == ("kept", "a")
    assert {finding.line for finding in status.findings if finding.severity == "error"} == {2}
    assert "lables" in status.report
    await world.offer({"a.policy": policy("a", "three"), "b.policy": policy("b", "two")})
    assert world.deciding() == {"a": "three", "b": "two"}
    assert world.status("a.policy").state == "active"


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("", "P001"),
        ('policy "a"\nfilter pool { require node.labels["po', None),
        (policy("a", "two", test="other"), "test"),
        (policy("a", "two", more="param p: count range 1..3\n"), "params"),
        (b"\xff\xfe\x00", "P002"),
        (b"#" * (MAX_BYTES + 1), "P004"),
    ],
)
def test_with_any_fault_of_a_text_its_former_version_stays_in_force(content, code):
    @story
    async def scenario():
        world = World()
        await world.offer({"a.policy": policy("a", "one")})
        await world.offer({"a.policy": text(content)})
        assert world.deciding() == {"a": "one"}
        status = world.status("a.policy")
        assert status.state == "kept"
        assert code is None or code in [finding.code for finding in status.findings]

    scenario()


@story
async def test_a_text_that_was_never_valid_is_refused_and_the_others_apply():
    world = World()
    await world.offer({"a.policy": BROKEN, "b.policy": policy("b")})
    assert world.deciding() == {"b": "a"}
    assert world.states() == {"a.policy": "refused", "b.policy": "active"}


@story
async def test_a_removed_file_is_a_removed_policy():
    world = World()
    await world.offer({"a.policy": policy("a"), "b.policy": policy("b")})
    await world.offer({"b.policy": policy("b")})
    assert world.deciding() == {"b": "a"}
    assert world.seen.removed == ["a.policy"]


@story
async def test_a_source_that_has_nothing_left_is_lost_and_not_a_removal():
    world = World()
    await world.offer({"a.policy": policy("a")})
    await world.offer({})
    assert world.deciding() == {"a": "a"}
    assert world.seen.sources[-1][1].startswith("all policies were removed")
    await world.mark_unreadable("no such folder")
    assert world.deciding() == {"a": "a"}
    await world.offer({"a.policy": policy("a", "b")})
    assert world.deciding() == {"a": "b"}
    assert world.store.sources[0].lost == ""


@story
async def test_the_last_policy_is_removed_if_the_marker_file_exists():
    world = World()
    marker = {NO_POLICIES_MARKER: text("anything", wanted=False, name=NO_POLICIES_MARKER)}
    await world.offer({"a.policy": policy("a"), **marker})
    assert world.deciding() == {"a": "a"}, "beside policies it says nothing"
    await world.offer(marker)
    assert (world.deciding(), world.states(), world.seen.removed) == ({}, {}, ["a.policy"])
    assert world.store.sources[0].lost == ""
    await world.offer({})
    assert world.store.sources[0].lost == EMPTY
    await world.offer({"a.policy": policy("a", "b")})
    assert world.deciding() == {"a": "b"}


@story
async def test_the_last_policy_of_a_source_that_may_be_empty_is_removed():
    world = World(Place("resources", empty_is_lost=False))
    await world.offer({"a": policy("a")}, "resources")
    await world.offer({}, "resources")
    assert world.deciding() == {}
    assert not world.store.unknown_sources


@story
async def test_the_first_of_two_policies_with_the_same_name_stays():
    world = World()
    await world.offer({"b.policy": policy("same", "first")})
    await world.offer({"a.policy": policy("same", "second"), "b.policy": policy("same", "first")})
    assert world.deciding() == {"same": "first"}
    assert world.states() == {"a.policy": "refused", "b.policy": "active"}
    assert 'two policies called "same"' in world.status("a.policy").findings[0].message
    await world.offer({"a.policy": policy("same", "second"), "b.policy": policy("same", "third")})
    assert world.deciding() == {"same": "third"}
    await world.offer({"a.policy": policy("same", "second")})
    assert world.deciding() == {"same": "second"}
    assert world.states() == {"a.policy": "active"}


@story
async def test_a_policy_that_takes_over_a_name_is_reported():
    world = World()
    await world.offer({"b.policy": policy("same", "first")})
    await world.offer({"a.policy": policy("same", "second"), "b.policy": policy("same", "first")})
    assert world.seen.tried == [("b.policy", "accepted"), ("a.policy", "refused")]
    await world.offer({"a.policy": policy("same", "second")})
    assert world.deciding() == {"same": "second"}
    assert world.seen.removed == ["b.policy"]
    assert world.seen.changed == [("a.policy", "active")]
    await world.offer({"a.policy": policy("same", "second")})
    assert len(world.seen.changed) == 1
    assert len(world.seen.tried) == 2, "its text is the same"


@story
async def test_another_mode_of_the_same_text_is_reported():
    world = World()
    await world.offer({"a.policy": text(policy("a"))})
    for mode in (Mode.SHADOW, Mode.OFF, Mode.OFF, Mode.ENFORCE):
        await world.offer({"a.policy": text(policy("a"), mode=mode)})
    assert world.seen.tried == [("a.policy", "accepted")]
    assert world.seen.changed == [("a.policy", "shadow"), ("a.policy", "off"), ("a.policy", "active")]


@story
async def test_a_policy_that_was_kept_and_holds_again_is_reported_once():
    world = World()
    await world.offer({"a.policy": policy("a")})
    await world.offer({"a.policy": BROKEN})
    await world.offer({"a.policy": policy("a")})
    assert [result for _, result in world.seen.tried] == ["accepted", "refused", "accepted"]
    assert world.seen.changed == []


@story
async def test_events_that_are_held_back_are_emitted_at_the_end_in_their_order_or_never():
    world = World()
    with world.store.emit_later():
        await world.offer({"a.policy": policy("a")})
        await world.offer({})
        await world.offer({"a.policy": BROKEN})
        assert (world.seen.tried, world.seen.held, world.seen.sources) == ([], [], [])
    assert world.seen.tried == [("a.policy", "accepted"), ("a.policy", "refused")]
    assert world.seen.sources == [("folder", EMPTIED), ("folder", "")]
    assert [len(statuses) for statuses in world.seen.held] == [1, 1, 1]

    async def end_in_an_error():
        with world.store.emit_later():
            await world.offer({"a.policy": policy("other")})
            {}["nothing"]

    with pytest.raises(KeyError):
        await end_in_an_error()
    assert len(world.seen.tried) == 2
    await world.offer({"a.policy": policy("another")})
    assert len(world.seen.tried) == 3


@story
async def test_the_order_of_sources_and_keys_decides_between_two_policies_that_come_together():
    world = World(Place("one"), Place("two"))
    world.store.offer("two", {"a.policy": text(policy("same", "two"))})
    world.store.offer(
        "one", {"b.policy": text(policy("same", "one"), name="b.policy"), "c.policy": text(policy("same", "c"), name="c.policy")}
    )
    await world.store.build_offers()
    assert world.deciding() == {"same": "one"}


@story
async def test_a_renamed_policy_that_takes_a_name_goes_on_under_its_own():
    world = World()
    await world.offer({"a.policy": policy("a", "one"), "b.policy": policy("b", "one")})
    await world.offer({"a.policy": policy("b", "two"), "b.policy": policy("b", "one")})
    assert world.deciding() == {"a": "one", "b": "one"}
    assert world.states()["a.policy"] == "kept"
    await world.offer({"a.policy": policy("b", "two"), "b.policy": policy("c", "one")})
    assert world.deciding() == {"b": "two", "c": "one"}


@story
async def test_a_file_renamed_and_broken_at_once_keeps_its_former_version():
    world = World()
    await world.offer({"a.policy": policy("a", "one"), "b.policy": policy("b")})
    await world.offer({"z.policy": policy("a", "two", test="other"), "b.policy": policy("b")})
    assert world.deciding() == {"a": "one", "b": "a"}


@pytest.mark.parametrize("content", [BROKEN, "no policy at all", 'policy "z"\nimport "missing"\n'])
@story
async def test_policies_that_are_all_replaced_by_refused_ones_stay_in_force_until_one_is_accepted(content, tmp_path):
    world = World(state=tmp_path)
    await world.offer({"a.policy": policy("a"), "b.policy": policy("b")})
    for texts in ({"z.policy": content}, {"z.policy": content, "y.policy": BROKEN}):
        await world.offer(texts)
        assert (world.deciding(), world.seen.removed) == ({"a": "a", "b": "a"}, [])
        assert world.states() == {"a.policy": "active", "b.policy": "active", **dict.fromkeys(texts, "refused")}
        assert world.seen.sources == [("folder", REPLACED)]

    again = World(state=tmp_path)
    await again.offer({"z.policy": content})
    assert (again.deciding(), again.store.sources[0].lost) == ({"a": "a", "b": "a"}, REPLACED)
    for each in (world, again):
        await each.offer({"z.policy": policy("z")})
        assert (each.deciding(), each.states()) == ({"z": "a"}, {"z.policy": "active"})
        assert {"a.policy", "b.policy"} <= set(each.seen.removed)
        assert each.store.sources[0].lost == ""


@story
async def test_policies_are_removed_although_another_is_refused_if_one_is_left_or_the_marker_is_there():
    for left in ({"b.policy": policy("b")}, {"b.policy": 'policy "b"\nscore s =\n'}):
        world = World()
        await world.offer({"a.policy": policy("a"), "b.policy": policy("b")})
        await world.offer({**left, "z.policy": BROKEN})
        assert (world.deciding(), world.seen.removed, world.seen.sources) == ({"b": "a"}, ["a.policy"], [])
    await world.offer({"z.policy": BROKEN, NO_POLICIES_MARKER: text("", wanted=False, name=NO_POLICIES_MARKER)})
    assert (world.deciding(), world.states()) == ({}, {"z.policy": "refused"})


@story
async def test_policies_that_were_replaced_by_libraries_alone_are_removed():
    world = World()
    await world.offer({"a.policy": policy("a")})
    await world.offer({"lib.policy": 'let pool = "one"\n'})
    assert (world.deciding(), world.seen.removed) == ({}, ["a.policy"])


@story
async def test_policies_that_contradict_each_other_do_not_both_hold():
    world = World()
    weight = "base kubernetes {{ ImageLocality weight {} }}\n"
    await world.offer({"b.policy": policy("b", more=weight.format(2))})
    await world.offer({"a.policy": policy("a", more=weight.format(3)), "b.policy": policy("b", more=weight.format(2))})
    assert set(world.deciding()) == {"b"}
    assert "ImageLocality" in world.status("a.policy").findings[0].message


@story
async def test_a_policy_is_built_anew_when_what_it_imports_changes():
    world = World()
    user = (
        'import "lib.policy" as lib\npolicy "a"\nfilter pool { require node.labels["pool"] == lib.pool else "not it" on missing reject }\n'
    )
    await world.offer({"a.policy": user, "lib.policy": 'let pool = "one"\n', "b.policy": policy("b")})
    before = world.status("a.policy").revision
    await world.offer({"a.policy": user, "lib.policy": 'let pool = "two"\n', "b.policy": policy("b")})
    assert world.status("a.policy").revision != before
    assert [key for key, _ in world.seen.tried].count("b.policy") == 1
    await world.offer({"a.policy": user, "b.policy": policy("b")})
    assert world.states() == {"a.policy": "kept", "b.policy": "active"}
    assert "lib.policy" not in world.states()


@story
async def test_tests_in_the_test_file_of_a_policy_count():
    tests = 'test "goes there" {\n node n { labels: {"pool": "x"} }\n pod p {}\n place p\n expect p on n\n}\n'
    world = World()
    await world.offer({"a.policy": policy("a", "x"), "a_test.policy": tests})
    await world.offer({"a.policy": policy("a", "y"), "a_test.policy": tests})
    assert world.deciding() == {"a": "x"}
    await world.offer({"a.policy": policy("a", "y"), "a_test.policy": tests.replace('"x"', '"y"')})
    assert world.deciding() == {"a": "y"}
    assert set(world.states()) == {"a.policy"}


@pytest.mark.parametrize("path", ["../secret.policy", "/etc/secret.policy", "other.policy"])
def test_nothing_outside_of_a_source_can_be_imported(path, tmp_path):
    @story
    async def scenario():
        world = World()
        (tmp_path / "secret.policy").write_text('let pool = "one"\n')
        await world.offer({f"{tmp_path}/in/a.policy": f'import "{path}" as lib\n{policy("a")}'})
        assert "there is no such .policy file where this one comes from" in world.store.statuses[0].findings[0].message

    scenario()


@story
async def test_a_text_without_other_files_imports_nothing():
    world = World(Place("resources", empty_is_lost=False, imports=False))
    await world.offer({"a": f'import "b.policy" as lib\n{policy("a")}', "b.policy": 'let pool = "one"\n'}, "resources")
    assert "has no other files to import" in world.status("a").findings[0].message


@story
async def test_off_is_off_even_for_a_broken_text_and_on_again_is_the_last_good():
    world = World()
    await world.offer({"a.policy": policy("a", "one")})
    await world.offer({"a.policy": BROKEN}, mode=Mode.OFF)
    assert (world.deciding(), world.states()) == ({}, {"a.policy": "off"})
    await world.offer({"a.policy": BROKEN})
    assert (world.deciding(), world.states()) == ({"a": "one"}, {"a.policy": "kept"})


@story
async def test_a_shadow_decides_nothing_and_is_compiled_with_the_policies_that_do():
    world = World(Place("deciding"), Place("shadows"))
    await world.offer({"a.policy": policy("a", "one"), "b.policy": policy("b", "one")}, "deciding")
    chain = world.store.active.chains["wharfinger"]
    await world.offer({"a.policy": policy("a", "two"), "new.policy": policy("new")}, "shadows", mode=Mode.SHADOW)
    assert world.store.active.chains["wharfinger"] is chain
    shadows = world.store.active.shadows["wharfinger"]
    assert {name: [found.name for found in chain_of_shadow.policies] for name, chain_of_shadow in shadows.items()} == {
        "a": ["a", "b"],
        "new": ["a", "b", "new"],
    }
    assert shadows["a"].policies[0].revision != chain.policies[0].revision


@story
async def test_params_of_a_profile_reach_the_policies_that_declare_them_and_their_own_outweigh():
    declares = 'param most: count = 2 range 1..9\nfilter few { require node.pod_count < most else "full" }\n'
    own = text(f'policy "b"\n{declares}', name="b.policy", params={"most": "7"})
    world = World(ConfiguredSource(source=Place(), profiles=frozenset({"wharfinger"}), params={"most": "3"}))
    await world.offer({"a.policy": f'policy "a"\n{declares}', "b.policy": own, "c.policy": policy("c")})
    assert {found.name: dict(found.params) for found in world.store.active.chains["wharfinger"].policies} == {
        "a": {"most": 3.0},
        "b": {"most": 7.0},
        "c": {},
    }
    wrong = text(f'policy "b"\n{declares}', name="b.policy", params={"most": "70"})
    await world.offer({"b.policy": wrong})
    assert "outside of its range" in world.status("b.policy").findings[0].message
    assert world.store.active.chains["wharfinger"].policies[0].params == {"most": 7.0}


@story
async def test_each_profile_has_its_own_policies():
    shared = ConfiguredSource(source=Place("all"), profiles=frozenset({"one", "two"}))
    mine = ConfiguredSource(source=Place("mine"), profiles=frozenset({"two"}))
    world = World(shared, mine, profiles=("one", "two"))
    await world.offer({"a.policy": policy("a")}, "all")
    await world.offer({"b.policy": policy("b")}, "mine")
    assert (set(world.deciding("one")), set(world.deciding("two"))) == ({"a"}, {"a", "b"})


@story
async def test_sources_are_unknown_until_each_has_offered_policies():
    world = World(Place("one"), Place("two"))
    await world.offer({"a.policy": policy("a")}, "one")
    assert world.store.unknown_sources == {"two"}
    await world.mark_unreadable("no such ConfigMap", "two")
    assert world.store.unknown_sources == {"two"}
    await world.offer({"b.policy": policy("b")}, "two")
    assert not world.store.unknown_sources


@story
async def test_policies_are_tried_on_the_cluster_as_soon_as_it_is_known():
    from tests.unit.scheduler.running import node, view
    from wharfinger.model.state.cluster_state import ClusterState
    from wharfinger.policies.candidate import sample_of

    state = ClusterState()
    state.add_node(node("n", labels={"pool": "a"}))
    state.add_node(node("other", labels={"pool": "a"}))
    world = World()
    await world.offer({"a.policy": policy("a", "nowhere"), "b.policy": policy("b", "a")})
    assert not world.status("a.policy").findings
    world.scheduling.sampled = lambda: sample_of(state.snapshot(), [view("p")])
    await world.store.review()
    (found,) = world.status("a.policy").now
    assert "a rejects all 2 nodes for every pod" in found.message
    assert not world.status("a.policy").findings, "nothing is wrong with the text"
    assert not world.status("b.policy").now
    assert world.seen.reviewed == [("a.policy", [found.message])]
    assert world.seen.tried == [("a.policy", "accepted"), ("b.policy", "accepted")], "each text is reported once"
    await world.store.review()
    assert world.status("a.policy").now == (found,)
    assert len(world.seen.reviewed) == 1, "what is known is not reported again"
    state.add_node(node("m", labels={"pool": "b"}))
    await world.store.review()
    assert "a rejects all 3 nodes" in world.status("a.policy").now[0].message, "as it is now"
    assert len(world.seen.reviewed) == 1, "what differs only in counts is not reported again"
    state.add_node(node("o", labels={"pool": "nowhere"}))
    await world.store.review()
    assert not world.status("a.policy").now, "what no longer holds is not reported any more"
    state.remove_node("o")
    await world.store.review()
    assert len(world.seen.reviewed) == 2
    assert set(world.states().values()) == {"active"}
    await world.offer({"a.policy": policy("a", "elsewhere"), "b.policy": policy("b", "a")})
    assert "a rejects all 3 nodes for every pod" in world.status("a.policy").now[0].message


@story
async def test_many_policies_are_tried_some_at_a_time_until_all_were_tried():
    from tests.unit.scheduler.running import node, view
    from wharfinger.model.state.cluster_state import ClusterState
    from wharfinger.policies.candidate import sample_of

    state = ClusterState()
    state.add_node(node("n", labels={"pool": "a"}))
    world = World()
    names = [f"{number}.policy" for number in range(5)]
    await world.offer({name: policy(f"p{name[0]}", "nowhere") for name in names})
    world.scheduling.sampled = lambda: sample_of(state.snapshot(), [view("p")])
    counts = []
    for _ in range(3):
        await world.store.review(2)
        counts.append(sum(bool(world.status(name).now) for name in names))
    assert counts == [2, 4, 5]


@story
async def test_only_the_last_of_a_hundred_quick_edits_is_built():
    world = World()
    for edit in range(100):
        world.store.offer("folder", {"a.policy": text(policy("a", str(edit)))})
    await world.store.build_offers()
    assert world.deciding() == {"a": "99"}
    assert world.seen.tried == [("a.policy", "accepted")]


@story
async def test_an_unexpected_error_is_reported_and_the_policies_in_force_are_kept(monkeypatch):
    world = World()
    failures = world.seen.failures
    await world.offer({"a.policy": policy("a", "one")})
    task = asyncio.create_task(world.store.run())
    await asyncio.sleep(0)

    def broken(*_):
        raise RuntimeError("no such luck")

    with monkeypatch.context() as patched:
        patched.setattr("wharfinger.policies.store.choose", broken)
        world.store.offer("folder", {"a.policy": text(policy("a", "two"))})
        await _passing(world, lambda: failures)
    assert failures == [("policies", "no such luck")]
    assert world.deciding() == {"a": "one"}
    world.store.offer("folder", {"a.policy": text(policy("a", "three"))})
    await _passing(world, lambda: world.deciding() == {"a": "three"})
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@story
async def test_an_author_who_writes_all_the_time_leaves_half_of_the_time_to_others(monkeypatch):
    world, took = World(), 0.2
    really = store._built

    def built(jobs, sample):
        if jobs:
            world.clock.move(took)
            offers.append(world.clock.monotonic())
            world.store.offer("folder", {"a.policy": text(policy("a", str(len(offers))))})
        return really(jobs, sample)

    offers = []
    await world.offer({"a.policy": policy("a")})
    monkeypatch.setattr(store, "_built", built)
    world.store.offer("folder", {"a.policy": text(policy("a", "first"))})
    running = asyncio.create_task(world.store.run())
    while len(offers) < 10:
        await asyncio.sleep(0.001)
        world.clock.move(0.001)
    running.cancel()
    assert offers[-1] - offers[1] > 1.9 * took * (len(offers) - 2)
    assert world.deciding()["a"] in {str(number) for number in range(1, 11)}


@story
async def test_an_edit_of_one_of_many_policies_makes_no_status_of_the_others_again(monkeypatch):
    world, made, really = World(Place("many", imports=False)), [], Entry._status
    texts = {f"p{number}": text(policy(f"p{number}"), name=f"p{number}") for number in range(50)}
    await world.offer(texts, "many")
    monkeypatch.setattr(Entry, "_status", lambda entry: made.append(entry.key) or really(entry))
    await world.offer({**texts, "p7": text(policy("p7", "b"), name="p7")}, "many")
    assert set(made) == {"p7"}
    assert world.deciding()["p7"] == "b"


async def _passing(world, condition):
    async with asyncio.timeout(30):
        while not condition():
            world.clock.move(0.1)
            await asyncio.sleep(0.01)


@story
async def test_policies_that_could_not_be_adopted_are_adopted_later_without_another_offer():
    world, failing = World(), [True]
    adopt = world.scheduling.adopt

    def fails_once(active):
        if failing:
            failing.pop()
            raise KeyError("a scheduler at fault")
        adopt(active)

    world.scheduling.adopt = fails_once
    world.store.offer("folder", {"a.policy": text(policy("a", "one"))})
    running = asyncio.create_task(world.store.run())
    try:
        await _passing(world, lambda: world.seen.failures)
        assert world.deciding() == {}
        await _passing(world, lambda: world.deciding() == {"a": "one"})
        assert (world.states(), len(world.seen.failures)) == ({"a.policy": "active"}, 1)
    finally:
        running.cancel()


@story
async def test_a_policy_is_found_by_its_key_and_by_its_name_as_among_all():
    world = World()
    await world.offer({"a.policy": policy("a"), "b.policy": policy("b"), "c.policy": policy("a"), "d.policy": BROKEN})
    revision = world.status("a.policy").revision
    world.scheduling.suspended = {("a", revision): "it takes too long"}

    def found():
        every = world.store.statuses
        assert [world.store.status(status.source, status.key) for status in every] == list(every)
        assert world.store.named("a") == [status for status in every if status.name == "a"]
        return [status.key for status in world.store.named("a")]

    assert found() == ["a.policy", "c.policy"]
    assert world.store.status("folder", "none") is None
    seen = []
    world.scheduling.sample = lambda: seen.append(found())
    await world.offer({"a.policy": policy("a", "two")})
    assert seen == [["a.policy", "c.policy"]], "as before while texts are built"
    assert found() == ["a.policy"]
