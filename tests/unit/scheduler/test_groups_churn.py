"""Groups during many concurrent changes: the invariants at every moment, and after the changes."""

import asyncio
import random

import pytest

from tests.group_searches import place
from tests.unit.scheduler.running import node, pod, running
from tests.unit.scheduler.test_groups_live import RACK, gang, member
from wharfinger.framework.ports import BindFailed, WriteFailed
from wharfinger.groups.terms import Impossible
from wharfinger.scheduler import group_search
from wharfinger.scheduler.scheduler import SchedulerSettings

N_GROUPS, ROUNDS = 6, 25


class Churn:
    """Members and single pods that come, leave and fail to be bound."""

    def __init__(self, world, seed):
        self.world, self.chance = world, random.Random(seed)
        self.least = {f"g{number}": self.chance.randint(1, 4) for number in range(N_GROUPS)}
        self.failing = True
        self.number = 0
        world.cluster.before_bind = self.bind

    def bind(self, _pod, _node):
        if self.failing and self.chance.random() < 0.15:
            raise BindFailed("the server is busy")

    def there(self, group):
        return [key for key in self.world.cluster._objects["Pod"] if key.startswith(f"default/{group}-")]

    def step(self):
        group = self.chance.choice(sorted(self.least))
        match self.chance.choice(["member"] * 4 + ["single", "single", "leave", "leave", "podgroup"]):
            case "member" if len(self.there(group)) < self.least[group] + 1:
                self.number += 1
                self.world.cluster.put(member(group, self.number, self.chance.choice(["1", "2"]), priority=self.chance.choice([0, 0, 5])))
            case "single":
                self.number += 1
                self.world.cluster.put(pod(f"single-{self.number}", "1", priority=self.chance.choice([0, 3])))
            case "leave":
                there = sorted(self.world.cluster._objects["Pod"])
                if there:
                    self.world.cluster.remove("Pod", self.chance.choice(there))
            case "podgroup" if f"default/{group}" in self.world.cluster._objects["PodGroup"]:
                self.world.cluster.remove("PodGroup", f"default/{group}")
            case "podgroup":
                self.put_podgroup(group)
            case _:
                pass

    def put_podgroup(self, group):
        levels = (RACK,) if group in {"g0", "g1", "g2"} else ()
        self.world.cluster.put(gang(group, self.least[group], *levels))

    def check(self):
        used = {}
        for key, name in self.world.cluster.nodes_of_pods().items():
            cpu = self.world.cluster._objects["Pod"][key].spec.containers[0].resources.requests["cpu"]
            used[name] = used.get(name, 0) + int(str(cpu))
        assert all(total <= 6 for total in used.values()), used
        for group in ("g0", "g1", "g2"):
            racks = {name[:2] for key, name in self.world.cluster.nodes_of_pods().items() if key in self.there(group)}
            assert len(racks) <= 1, (group, racks)
        assert not [error for _, error in self.world.seen.failures if not isinstance(error, BindFailed | WriteFailed)]


@pytest.mark.parametrize("seed", range(6))
def test_no_group_is_left_in_part_and_nothing_is_overcommitted(seed, monkeypatch):
    if seed % 2:
        monkeypatch.setattr(group_search, "DIRECT_SEARCH_MEMBERS", 0)

    async def story():
        nodes = [node(f"r{rack}n{number}", "6", labels=[(RACK, f"r{rack}")]) for rack in range(3) for number in range(2)]
        settings = SchedulerSettings(slice_seconds=0.0) if seed % 2 else SchedulerSettings()
        async with running(*nodes, settings=settings) as world:
            churn = Churn(world, seed)
            for group in churn.least:
                churn.put_podgroup(group)
            for _ in range(ROUNDS):
                for _ in range(churn.chance.randint(1, 6)):
                    churn.step()
                await world.pass_time(churn.chance.choice([0.5, 1.0, 3.0]))
                churn.check()
            churn.failing = False
            for key in [key for key in world.cluster._objects["Pod"] if key.startswith("default/single-")]:
                world.cluster.remove("Pod", key)
            for group in churn.least:
                churn.put_podgroup(group)
            await world.pass_time(40)
            churn.check()
            bound = world.cluster.nodes_of_pods()
            for group, least in churn.least.items():
                there = churn.there(group)
                placed = sum(key in bound for key in there)
                if len(there) >= least and placed < least:  # only where it is proved that there is no room
                    asked = world.scheduler.queue.groups.index.group(f"default/{group}")
                    answer = place(world.scheduler.profiles["wharfinger"].decider, world.scheduler.state, asked)
                    assert isinstance(answer, Impossible), (group, least, placed, len(there))
            assert world.scheduler.n_binding == 0
            assert {entry.key for entry in world.scheduler.queue.groups} <= {f"default/{group}" for group in churn.least}
            assumed = [pod.key for pod, assumed in world.scheduler.state.placements() if assumed]
            assert assumed == []

    asyncio.run(story())
