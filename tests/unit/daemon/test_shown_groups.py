"""The groups of a running scheduler, as the live page and /explain show them."""

import asyncio

import numpy as np
import pytest

from tests.in_memory import InMemoryCluster, ManualClock
from tests.unit.scheduler.running import pod, running
from tests.unit.scheduler.test_groups_live import RACK, gang, member, members, racks
from wharfinger.daemon.live_page import groups
from wharfinger.daemon.node_colors import NodeColorings
from wharfinger.errors import UnknownObject
from wharfinger.framework.chain import assemble
from wharfinger.groups.results import GroupState
from wharfinger.scheduler.live_answers import LiveExplanations
from wharfinger.scheduler.ports import Ports
from wharfinger.scheduler.scheduler import Scheduler
from wharfinger.steps import at_once
from wharfinger.web.ui.page_content import PodQuery

SMALL = [gang("small", 4, RACK), *members("small", 4)]
BIG = [gang("big", 9, RACK), *members("big", 9)]
FEW = [gang("few", 4), *members("few", 2)]


def shown(world, **query):
    return at_once(groups(world.scheduler, PodQuery(**query), world.cluster_clock))


def asked(*found, question):
    """The answer about a scheduler that has nothing to do."""

    async def story():
        async with running(*racks(2, 2), *found) as world:
            world.cluster_clock = ManualClock()
            answer = question(world)
            return await answer if asyncio.iscoroutine(answer) else answer

    return asyncio.run(story())


def test_groups_that_wait_come_first_and_say_what_for():
    shown_groups = asked(*SMALL, *BIG, *FEW, pod("web", "1"), question=shown)
    assert (shown_groups["total"], shown_groups["waiting"], shown_groups["omitted"]) == (3, 2, 0)
    rows = {row["group"]: row for row in shown_groups["groups"]}
    assert [row["group"] for row in shown_groups["groups"]][-1] == "default/small"
    assert (rows["default/small"]["state"], rows["default/small"]["nodes"] > 0) == (GroupState.PLACED.value, True)
    assert [each["key"] for each in rows["default/small"]["domains"]] == [RACK]
    assert rows["default/big"]["state"] == GroupState.NO_ROOM.value
    assert rows["default/big"]["message"].startswith("9 members must be placed at once")
    assert (rows["default/few"]["state"], rows["default/few"]["message"]) == (GroupState.AWAITING.value, "2 of 4 members are there")
    assert rows["default/big"]["since"] is not None


@pytest.mark.parametrize(("query", "expected"), [({"namespace": "default"}, 3), ({"namespace": "other"}, 0), ({"policy": "none"}, 0)])
def test_groups_are_chosen_as_pods_are(query, expected):
    assert asked(*SMALL, *BIG, *FEW, question=lambda world: shown(world, **query))["total"] == expected


def test_members_of_a_placed_group_colour_their_rack():
    def question(world):
        snapshot = world.scheduler.state.snapshot()
        found = NodeColorings(world.scheduler).coloring("group:default/small", snapshot)
        return found, dict(zip(snapshot.names, found.values.tolist(), strict=True))

    found, values = asked(*SMALL, question=question)
    inside = {name for name, value in values.items() if np.isfinite(value)}
    assert len({name[:2] for name in inside}) == 1
    assert len(inside) == 2
    assert sum(values[name] for name in inside) == 4
    assert found.note.startswith("4 members on")


def test_a_group_that_waits_colours_each_rack_by_what_it_may_take():
    def question(world):
        return NodeColorings(world.scheduler).coloring("group:default/big", world.scheduler.state.snapshot())

    found = asked(*BIG, question=question)
    assert found.values.tolist() == [8.0] * 4
    assert found.note == "no domain may take more than 8 of 9 waiting members"


def test_a_group_that_is_not_there_has_no_colours():
    cluster, clock = InMemoryCluster(), ManualClock()
    scheduler = Scheduler({"wharfinger": assemble()}, Ports(binder=cluster, writer=cluster, events=cluster, clock=clock))
    with pytest.raises(UnknownObject, match="there is no group default/none"):
        NodeColorings(scheduler).coloring("group:default/none", scheduler.state.snapshot())


@pytest.mark.parametrize(
    ("key", "state", "domains"),
    [("default/big", "waits for room", [8, 4]), ("default/few", "waits for members", [2]), ("default/small", "placed", [])],
)
def test_a_group_is_explained_by_the_scheduler_that_runs(key, state, domains):
    async def question(world):
        return await LiveExplanations(world.cluster_clock).of_group(world.scheduler, key)

    shown_groups = asked(*SMALL, *BIG, *FEW, question=question)
    assert (shown_groups.state, [fit.fits for fit in shown_groups.domains]) == (state, domains)
    assert len(shown_groups.members) == {"default/big": 9, "default/few": 2, "default/small": 4}[key]


def test_a_waiting_member_is_explained_with_its_group():
    async def question(world):
        return await LiveExplanations(world.cluster_clock).of(world.scheduler, "default/big-0")

    shown_groups = asked(*BIG, question=question)
    assert (shown_groups.group, shown_groups.explanation.node) == ("default/big", None)
    assert shown_groups.explanation.message.startswith("group default/big: 9 members must be placed at once")


def test_a_group_without_members_is_unknown():
    async def question(world):
        with pytest.raises(UnknownObject, match="did you mean default/big"):
            await LiveExplanations(world.cluster_clock).of_group(world.scheduler, "default/bag")

    asked(*BIG, member("other", 0), question=question)
