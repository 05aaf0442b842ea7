"""Accepted policies survive a restart of the process."""

import asyncio
import json

import pytest
from msgspec.structs import replace

from tests.unit.policies.stores import BROKEN, Mode, Place, World, policy, story, text
from wharfinger.framework.policy_status import FormerText
from wharfinger.language.files import NO_POLICIES_MARKER
from wharfinger.policies.ledger import EMPTIED


def files(tmp_path):
    return sorted((tmp_path / "policies").glob("*.json"))


@story
async def test_a_broken_policy_stays_in_force_after_a_restart_with_its_error(tmp_path):
    before = World(state=tmp_path)
    await before.offer({"a.policy": policy("a", "one"), "b.policy": policy("b")})
    await before.offer({"a.policy": BROKEN, "b.policy": policy("b")})
    since = before.status("a.policy").since

    after = World(state=tmp_path)
    after.clock.move(100)
    await after.offer({"a.policy": BROKEN, "b.policy": policy("b")})
    assert after.deciding() == {"a": "one", "b": "a"}
    assert after.states() == {"a.policy": "kept", "b.policy": "active"}
    assert "lables" in after.status("a.policy").report
    assert after.status("a.policy").since == since


@story
async def test_a_source_that_is_lost_at_the_start_has_what_it_had(tmp_path):
    before = World(Place("one"), Place("two"), state=tmp_path)
    await before.offer({"a.policy": policy("a", "one")}, "one")
    await before.offer({"b.policy": policy("b", "two")}, "two", mode=Mode.SHADOW)

    after = World(Place("one"), Place("two"), state=tmp_path)
    await after.mark_unreadable("no such folder", "one")
    await after.offer({}, "two")
    assert after.deciding() == {"a": "one"}
    assert set(after.store.active.shadows["wharfinger"]) == {"b"}
    assert not after.store.unknown_sources
    assert [source.lost for source in after.store.sources] == ["no such folder", EMPTIED]


@story
async def test_imported_libraries_are_kept_with_the_policy(tmp_path):
    user = (
        'import "lib.policy" as lib\npolicy "a"\nfilter pool { require node.labels["pool"] == lib.pool else "not one" on missing reject }\n'
    )
    before = World(state=tmp_path)
    await before.offer({"a.policy": user, "lib.policy": 'let pool = "one"\n'})

    after = World(state=tmp_path)
    await after.offer({"a.policy": user, "lib.policy": "let pool = \n"})
    assert after.deciding() == {"a": "one"}
    assert after.status("a.policy").revision == before.status("a.policy").revision


@story
async def test_policies_removed_during_the_restart_stay_removed(tmp_path):
    before = World(state=tmp_path)
    await before.offer({"a.policy": policy("a"), "b.policy": policy("b")})

    after = World(state=tmp_path)
    await after.offer({"b.policy": policy("b")})
    assert after.deciding() == {"b": "a"}
    assert after.seen.removed == ["a.policy"]
    assert len(files(tmp_path)) == 1


@story
async def test_the_first_of_two_with_one_name_is_first_after_a_restart_too(tmp_path):
    before = World(state=tmp_path)
    await before.offer({"b.policy": policy("same", "first")})

    after = World(state=tmp_path)
    await after.offer({"a.policy": policy("same", "second"), "b.policy": policy("same", "first")})
    assert after.deciding() == {"same": "first"}


@pytest.mark.parametrize("damage", ["half", "other", "nothing", "list"])
def test_a_record_that_is_damaged_is_passed_over_and_said(tmp_path, damage):
    @story
    async def scenario():
        before = World(state=tmp_path)
        await before.offer({"a.policy": policy("a", "one"), "b.policy": policy("b", "one")})
        path = next(path for path in files(tmp_path) if '"a.policy"' in path.read_text())
        whole = path.read_text()
        path.write_text({"half": whole[:100], "other": whole.replace("not one", "not two"), "nothing": "", "list": "[]"}[damage])

        after = World(state=tmp_path)
        await after.mark_unreadable()
        assert after.deciding() == {"b": "one"}
        assert len(after.store.record_errors) == 1
        assert path.name in after.store.record_errors[0]

    scenario()


@story
async def test_a_disk_that_is_full_is_reported_and_stops_nothing(tmp_path):
    (tmp_path / "policies").write_text("this is no folder")
    world = World(state=tmp_path)
    await world.offer({"a.policy": policy("a")})
    assert world.deciding() == {"a": "a"}
    [(where, error)] = world.seen.failures
    assert where == "policies"
    reason = "File exists; it is tried again until the folder has free space and may be written"
    assert error == f"folder: a.policy cannot be kept for a restart: {tmp_path / 'policies'}: {reason}"


@story
async def test_changes_that_a_full_disk_refused_are_made_later(tmp_path):
    (tmp_path / "policies").write_text("this is no folder")
    world = World(state=tmp_path)
    await world.offer({"a.policy": policy("a"), "b.policy": policy("b")})
    assert len(world.seen.failures) == 2
    (tmp_path / "policies").unlink()
    reviewing = asyncio.create_task(world.store.keep_reviewing())
    async with asyncio.timeout(30):
        while len(files(tmp_path)) < 2:  # noqa: ASYNC110 — they are written in a thread
            await asyncio.sleep(0.001)
    reviewing.cancel()
    assert len(world.seen.failures) == 2

    world.seen.failures.clear()
    (tmp_path / "policies").rename(tmp_path / "elsewhere")
    (tmp_path / "policies").write_text("this is no folder")
    await world.offer({"b.policy": policy("b")})
    assert "a.policy cannot be forgotten" in world.seen.failures[0][1]
    (tmp_path / "policies").unlink()
    (tmp_path / "elsewhere").rename(tmp_path / "policies")
    await world.offer({"b.policy": policy("b", "other")})
    assert ['"b.policy"' in path.read_text() for path in files(tmp_path)] == [True]


@story
async def test_records_hold_the_texts_as_they_were_written(tmp_path):
    world = World(state=tmp_path)
    await world.offer({"a.policy": text(policy("a"), params={}, generation=7)})
    body = json.loads(files(tmp_path)[0].read_text())["policy"]
    assert (body["texts"], body["generation"], body["mode"]) == ({"a.policy": policy("a")}, 7, "Enforce")


FORMER = FormerText(content=policy("a", "one").encode(), generation=3, since=17.0)


@story
async def test_without_a_folder_the_version_kept_by_the_source_stays_in_force():
    world = World()
    await world.offer({"a.policy": text(BROKEN, generation=4, former=FORMER)})

    assert world.deciding() == {"a": "one"}
    status = world.status("a.policy")
    assert (status.state, status.since, status.generation_in_force) == ("kept", 17.0, 3)
    assert status.text_in_force == FORMER
    assert "lables" in status.report


@story
async def test_a_valid_text_takes_precedence_over_the_version_kept_by_the_source():
    world = World()
    await world.offer({"a.policy": text(policy("a", "two"), generation=4, former=FORMER)})
    assert world.deciding() == {"a": "two"}
    assert world.status("a.policy").text_in_force.content == policy("a", "two").encode()


@pytest.mark.parametrize(("generation", "expected"), [(2, "two"), (3, "two"), (4, "one")])
def test_the_later_generation_of_folder_and_source_counts(tmp_path, generation, expected):
    async def happens():
        before = World(state=tmp_path)
        await before.offer({"a.policy": text(policy("a", "two"), generation=3)})

        after = World(state=tmp_path)
        await after.offer({"a.policy": text(BROKEN, generation=5, former=replace(FORMER, generation=generation))})
        assert after.deciding() == {"a": expected}

    asyncio.run(happens())


@story
async def test_a_policy_that_imports_is_not_remembered_by_its_text_alone():
    world = World()
    library = 'import "lib.policy" as lib\npolicy "a"\nfilter f { require node.pod_count < lib.most else "full" }\n'
    await world.offer({"a.policy": library, "lib.policy": "let most = 5\n"})
    assert world.status("a.policy").state == "active"
    assert world.status("a.policy").text_in_force is None


@story
async def test_while_texts_are_built_a_policy_that_is_kept_is_not_reported_as_refused(tmp_path):
    await World(state=tmp_path).offer({"a.policy": policy("a", "one")})
    after, reported = World(state=tmp_path), []
    run = after.store.build_thread.run

    async def watched(*asked):
        reported.append(after.states())
        built = await run(*asked)
        reported.append(after.states())
        return built

    after.store.build_thread.run = watched
    await after.offer({"a.policy": BROKEN})
    assert len(reported) >= 4
    assert not any(reported)
    assert after.states() == {"a.policy": "kept"}


@story
async def test_a_marker_allows_having_no_policies(tmp_path):
    before = World(state=tmp_path)
    await before.offer({"a.policy": policy("a")})
    after = World(state=tmp_path)
    await after.offer({NO_POLICIES_MARKER: text("", wanted=False)})
    assert (after.deciding(), after.states(), after.store.unknown_sources) == ({}, {}, frozenset())
    assert after.store.sources[0].lost == ""
    assert World(state=tmp_path).store.unknown_sources == {"folder"}, "the former policies are forgotten"
