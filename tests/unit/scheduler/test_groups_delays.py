"""Groups whose members are held, refused and delayed on the way to the binding, while members and nodes come and go."""

import asyncio
import random

import pytest

from tests.unit.scheduler.running import node, pod, running
from tests.unit.scheduler.test_groups_live import RACK, bound, gang, member, racks, racks_of
from wharfinger.framework.chain import Chain, ChainEntry, assemble
from wharfinger.framework.extension import Permission, PermitPlugin, PreBindPlugin, ReservePlugin
from wharfinger.framework.ports import BindFailed
from wharfinger.framework.prepared import Reason
from wharfinger.scheduler.scheduler import SchedulerSettings

STEPS = 60
FAULTS = ("reserve", "refuse", "hold", "fail", "pause")


class Hurdles(ReservePlugin, PermitPlugin, PreBindPlugin):
    """Does to a pod what `faults` says for its name."""

    name = "Hurdles"

    def __init__(self):
        super().__init__()
        self.faults = {}

    def _has(self, placement, fault):
        return self.faults.get(placement.pod.name) == fault

    def reserve(self, placement):
        return Reason("no licence") if self._has(placement, "reserve") else None

    def unreserve(self, placement):
        pass

    def permit(self, placement, waiting):
        if self._has(placement, "refuse"):
            return Permission(approved=False, reason=Reason("not permitted"))
        return Permission(approved=False, wait_seconds=50.0) if self._has(placement, "hold") else Permission()

    async def pre_bind(self, placement):
        while self._has(placement, "pause"):  # noqa: ASYNC110 — it is set by a test, between two steps of the loop
            await asyncio.sleep(0)
        return Reason("volume is lost") if self._has(placement, "fail") else None


class Events:
    """Random events. A group from which a bound member is taken may be in part afterwards: it is not looked at any more."""

    def __init__(self, world, hurdles, seed):
        self.world, self.hurdles, self.chance = world, hurdles, random.Random(seed)
        self.least, self.in_one_rack, self.taken_from, self.removed = {}, set(), set(), []
        self.made = 0

    def put_member(self, group):
        self.made += 1
        self.world.cluster.put(member(group, self.made, self.chance.choice(["1", "2"])))

    def step(self):
        chance, cluster = self.chance, self.world.cluster
        pods, nodes = sorted(cluster._objects["Pod"]), sorted(cluster._objects["Node"])
        match chance.choice(["group", "member", "member", "fault", "fault", "clear", "leave", "remove", "return"]):
            case "group" if len(self.least) < len(FAULTS):
                group = f"g{len(self.least)}"
                self.least[group] = chance.randint(1, 5)
                levels = chance.choice([(), (RACK,)])
                cluster.put(gang(group, self.least[group], *levels))
                self.in_one_rack |= {group} if levels else set()
                for _ in range(self.least[group]):
                    self.put_member(group)
            case "member" if self.least:
                self.put_member(chance.choice(sorted(self.least)))
            case "fault" if pods:
                self.hurdles.faults[chance.choice(pods).partition("/")[2]] = chance.choice(FAULTS)
            case "clear":
                self.hurdles.faults = {}
            case "leave" if pods:
                self.leave(chance.choice(pods))
            case "remove" if len(nodes) > 2:
                self.removed.append(cluster._objects["Node"][chance.choice(nodes)])
                name = self.removed[-1].metadata.name
                cluster.remove("Node", name)
                for key in [key for key, there in cluster.nodes_of_pods().items() if there == name]:
                    self.leave(key)
            case "return" if self.removed:
                cluster.put(self.removed.pop())
            case _:
                pass

    def leave(self, key):
        group = key.partition("/")[2].partition("-")[0]
        if key in bound(self.world, group):
            self.taken_from.add(group)
        self.world.cluster.remove("Pod", key)

    def check(self):
        for group, least in self.least.items():
            assert group in self.taken_from or len(bound(self.world, group)) not in range(1, least), group
        assert not [error for _, error in self.world.seen.failures if not isinstance(error, BindFailed)]

    def end(self):
        """Remove all obstacles: every rack that is left has room for all groups."""
        self.hurdles.faults = {}
        for each in (*self.removed, *(node(f"{rack}n9", "100", labels=[(RACK, rack)]) for rack in ("r0", "r1", "r2")), pod("last")):
            self.world.cluster.put(each)


@pytest.mark.parametrize("seed", [*range(8), 28, 47])
def test_no_group_is_bound_in_part(seed):
    async def story():
        hurdles, built_in = Hurdles(), assemble()
        chains = {"wharfinger": Chain(entries=(*built_in.entries, ChainEntry(plugin=hurdles, weight=None)))}
        settings = SchedulerSettings(slice_seconds=0.0) if seed % 2 else SchedulerSettings()
        async with running(*racks(3, 2), chains=chains, settings=settings) as world:
            events = Events(world, hurdles, seed)
            for _ in range(STEPS):
                events.step()
                seconds = events.chance.choice([0, 0, 0.5, 3, 60, 320])
                await world.pass_time(seconds, step=max(0.5, seconds / 12))
                await world.calm()
                events.check()
            events.end()
            await world.pass_time(700, step=5)
            events.check()
            for group, least in events.least.items():
                there = {key for key in world.cluster._objects["Pod"] if key.startswith(f"default/{group}-")}
                assert len(there) < least or bound(world, group) == there, group
                if group in events.in_one_rack - events.taken_from:
                    assert len(racks_of(world, group)) <= 1, group
            assert not any(assumed for _, assumed in world.scheduler.state.placements())

    asyncio.run(story())
