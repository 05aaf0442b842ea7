"""Plans of moves that are carried out on a cluster in memory, move by move."""

from __future__ import annotations

import random

from msgspec.structs import replace

import wharfinger
from tests.property.predictions.drawn_cluster import DrawnCluster
from tests.property.predictions.world import CREATES_AT_THE_MARK, MARKED, World, at_work, owner_of
from wharfinger.model import objects
from wharfinger.what_if.leaving_pods import cordoned
from wharfinger.what_if.rebalance.plan import Rebalance

GOALS = ("violations", "free-nodes", "free-gpus", "points")


class RebalancedWorld(World):
    """A world in which moves are made."""

    def __init__(self, drawn: DrawnCluster, policies, pause: float) -> None:
        super().__init__(drawn, policies, pause)
        self.moving = ""  # the uid of the pod that leaves
        self.problems: list[str] = []

    def is_kept(self, pod):
        """True for the pod that moves: it goes after its replacement was tried."""
        return pod.metadata.uid == self.moving

    async def carry_out(self, plan: Rebalance) -> None:
        """Make the moves."""
        for number, move in enumerate(plan.moves, 1):
            for name in move.uncordon:
                self.set_cordon(name, cordon=False)
            for name in move.cordon:
                self.set_cordon(name, cordon=True)
            await self.settle()
            there = self.cluster.everything()["Pod"].get(move.pod)
            if there is None or there.spec.node_name != move.source:
                self.problems.append(f"move {number}: {move.pod} is not on {move.source}")
                return
            if not self.evictable(there):
                continue  # as `--apply`, which asks again until a budget allows it
            self.moving = there.metadata.uid
            self.cluster.put(replace(there, metadata=replace(there.metadata, deletion_timestamp=MARKED)))
            there = self.cluster.pod(move.pod)
            if owner_of(there) in CREATES_AT_THE_MARK:
                self.create_again([there])
            await self.settle()
            self.gone(there)
            self.moving = ""
            await self.controlled()
            if owner_of(there) not in CREATES_AT_THE_MARK:
                self.create_again([there])
            await self.settle()
            node = self.places().get(move.pod.partition("/")[2])
            if node != move.target:
                said = f"move {number} of {len(plan.moves)} for {move.goal.value}"
                self.problems.append(f"{said}: {move.pod} of {move.source} is on {node}, not {move.target}")
                return
        for name in plan.uncordon:
            self.set_cordon(name, cordon=False)
        await self.settle()

    def set_cordon(self, name: str, *, cordon: bool) -> None:
        """Cordon a node, or undo it."""
        node: objects.Node = self.cluster.everything()["Node"][name]
        if cordon:
            self.cluster.put(cordoned(node))
        else:
            taints = tuple(taint for taint in node.spec.taints if taint.key != "node.kubernetes.io/unschedulable")
            self.cluster.put(replace(node, spec=replace(node.spec, unschedulable=False, taints=taints)))


async def rebalance_problems(drawn: DrawnCluster, policies, pause: float) -> tuple[Rebalance, list[str]]:
    """A random plan, and what was not as it says."""
    draw = random.Random(drawn.seed)
    goals = draw.sample(GOALS, draw.randint(1, 2))
    options = {"most_moves": draw.choice((1, 3, 100)), "cost": draw.choice((0.0, 0.0, 0.5)), "min_age": draw.choice((0.0, 0.0, 300.0))}
    if "points" not in goals and draw.random() < 0.2:
        options["most_cordons"] = draw.randint(1, 3)
    world = RebalancedWorld(drawn, policies, pause)
    async with at_work(world):
        if "free-gpus" in goals and not any("nvidia.com/gpu" in node.status.allocatable for node in drawn.nodes):
            goals = ["free-nodes"]
        elif "free-gpus" in goals:
            options["whole"] = {"nvidia.com/gpu": "2"}
            if not any(int(node.status.allocatable.get("nvidia.com/gpu", "0")) for node in drawn.nodes):
                goals, options = ["free-nodes"], {}
        before, cluster = world.places(), world.capture()
        plan = wharfinger.rebalance(policies, cluster, goals, **options)
        await world.carry_out(plan)
        if not world.problems:
            moved = {move.pod.partition("/")[2].partition(".")[0]: move.target for move in plan.moves}
            for name, node in world.places().items():
                wanted = moved.get(name, before[name])
                if wanted is not None and node != wanted:
                    world.problems.append(f"{name} is on {node} in the end, not {wanted}")
        return plan, world.problems
