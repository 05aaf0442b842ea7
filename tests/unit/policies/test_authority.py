"""The authority of a policy survives edits, refusals and restarts: no version ever holds with more rights than its source gives it now."""

import pytest

from tests.unit.policies.stores import BROKEN, World, policy, story
from wharfinger.framework.policy_status import FormerText, PolicyText
from wharfinger.language.semantics.authority import CLUSTER, Authority

TENANT = Authority("team-a")


def text(content, authority, **more):
    return PolicyText(name="a", content=content.encode(), authority=authority, **more)


def held(world):
    return [(each.name, each.authority) for each in world.store.active.chains["wharfinger"].policies]


@story
async def test_the_source_says_whose_policy_it_is():
    world = World()
    await world.offer({"a": text(policy("p"), TENANT)})

    assert held(world) == [("p", TENANT)]
    assert [status.authority for status in world.store.statuses] == [TENANT]


@story
async def test_a_policy_that_changes_hands_is_another_one():
    world = World()
    await world.offer({"a": text(policy("p"), CLUSTER)})
    before = world.store.active.revision
    await world.offer({"a": text(policy("p"), TENANT)})

    assert held(world) == [("p", TENANT)]
    assert world.store.active.revision != before


@story
async def test_a_version_accepted_under_another_authority_does_not_stay_in_force():
    world = World()
    await world.offer({"a": text(policy("p"), CLUSTER)})
    await world.offer({"a": text(BROKEN, TENANT)})

    assert held(world) == []


@pytest.mark.parametrize("former", [None, FormerText(content=policy("p").encode(), generation=9)])
@story
async def test_after_a_restart_the_source_defines_the_authority(tmp_path, former):
    before = World(state=tmp_path)
    await before.offer({"a": text(policy("p"), CLUSTER)})
    after = World(state=tmp_path)
    await after.offer({"a": text(BROKEN, TENANT, former=former)})

    assert held(after) == [("p", TENANT)]


@story
async def test_while_its_source_is_lost_the_authority_stays_the_same(tmp_path):
    before = World(state=tmp_path)
    await before.offer({"a": text(policy("p"), TENANT)})
    after = World(state=tmp_path)
    after.store.mark_unreadable("folder", "unreadable")
    await after.store.build_offers()

    assert held(after) == [("p", TENANT)]


SCAN = "score s = count(pods where starts_with(it.name, pod.name), on: node) normalize minmax\n"


@story
async def test_a_scan_of_all_pods_is_refused_to_a_namespace_and_causes_a_warning_for_the_cluster():
    world = World()
    await world.offer({"a": text(policy("p") + SCAN, TENANT), "b": PolicyText(name="b", content=(policy("q") + SCAN).encode())})

    assert held(world) == [("q", CLUSTER)]
    codes = {status.name: [finding.code for finding in status.findings if finding.code != "trial"] for status in world.store.statuses}
    assert codes == {"p": ["P610"], "q": ["L501"]}
