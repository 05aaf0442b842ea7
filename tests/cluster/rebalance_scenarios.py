"""Rebalances that `wharf rebalance --apply` carries out."""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.cluster.api import Api
from tests.cluster.control_plane import ENDS_LATE
from tests.cluster.graceful_scenarios import give_to_replicaset, is_replaced, owner_of
from tests.cluster.live import NAME
from tests.cluster.what_if_scenarios import Plain, Scenario, by_origin, without_node
from wharfinger.framework.chain import assemble
from wharfinger.model.state.copies import checkpoint_of, restored
from wharfinger.simulate.cluster import Cluster
from wharfinger.what_if.rebalance.movable import Limits
from wharfinger.what_if.rebalance.plan import Goal, PlanOptions, Rebalance, rebalance

ONE_AT_A_TIME = threading.Lock()
GOALS = (Goal.FREE_NODES, Goal.VIOLATIONS, Goal.POINTS)


@dataclass(slots=True)
class RebalanceScenario(Scenario):
    """Pods are moved by `wharf rebalance --apply`, which plans again."""

    goal: Goal = Goal.FREE_NODES
    predicted: Rebalance | None = None
    reported: str = ""

    @property
    def waits_for(self) -> str:
        """The scheduler of the pods without a node: they are in the queue before the first move."""
        return NAME

    def draw(self, draw: random.Random, owners: Mapping[str, str]) -> None:
        """Choose the objects, the budgets and the goal."""
        Scenario.draw(self, draw, owners)
        self._draw_budgets(draw, likely=0.3, most=3)
        for pod in self.pods.values():
            if owner_of(pod) == "StatefulSet" and "nodeName" in pod["spec"] and draw.random() < 0.5:
                pod["metadata"]["annotations"] = {ENDS_LATE: "true"}
                give_to_replicaset(self, pod)
        self.goal = draw.choice(GOALS)

    def foretell(self, cluster: Cluster, policies: Mapping[str, Any]) -> None:
        """Plan the moves, on a copy of the cluster."""
        state = restored(checkpoint_of(cluster.state), cluster.state.snapshot().now)
        plan_options = PlanOptions(goals=(self.goal,), limits=Limits(namespaces=frozenset({self.namespace})))
        self.predicted = rebalance(assemble(policies[NAME]), state, plan_options, self._pending(cluster))

    def work(self, api: Api) -> Iterator[Sequence[Plain]]:
        """Run the command, and create a replacement for each pod that it evicts; the controller of ReplicaSets creates its own."""
        while not ONE_AT_A_TIME.acquire(blocking=False):
            yield ()
        try:
            flags = (f"--goal={self.goal.value}", f"--namespace={self.namespace}", "--min-age=0s", "--apply")
            running = subprocess.Popen([*self.rebalancing, *flags], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            try:
                while (left := self._left(api, running)) is not None:
                    gone, ending = left
                    yield [without_node(self.pods[name]) for name in gone]
                    for name in ending:
                        api.delete("Pod", name, self.namespace)
                self.reported, _ = running.communicate(timeout=60)
            finally:
                running.kill()
            if running.returncode:
                self.problems.append(f"exit code {running.returncode}: {self.reported}")
        finally:
            ONE_AT_A_TIME.release()

    def _left(self, api: Api, running: subprocess.Popen[str]) -> tuple[list[str], list[str]] | None:
        """(the pods that are gone, those that end and are replaced), as soon as there are some; None when the command has ended."""
        while running.poll() is None:
            pods = api.list("Pod", self.namespace)
            gone = sorted(self.pods.keys() - by_origin(pods).keys())
            ending = [pod["metadata"]["name"] for pod in pods if "deletionTimestamp" in pod["metadata"]]
            if gone or (ending and is_replaced(pods)):
                return gone, ending
            time.sleep(0.05)
        return None

    def compare(self, pods: Mapping[str, Plain]) -> None:
        """See that the pods of the plan are where it says, under a new uid, and all others that had a node where they were."""
        assert self.predicted is not None
        planned = {move.pod.partition("/")[2]: move for move in self.predicted.moves}
        for name, pod in self.pods.items():
            found = pods.get(name)
            node = None if found is None else found["spec"].get("nodeName")
            is_new = found is not None and found["metadata"]["uid"] != self.uids[name]
            move = planned.get(name)
            wanted = pod["spec"].get("nodeName") if move is None else move.target
            if (wanted is not None and node != wanted) or is_new != (move is not None):
                self.problems.append(
                    f"{name}: predicted {wanted}, moved: {move is not None}; found on {node}, moved: {is_new}; {self.reported}"
                )

    @property
    def answers(self) -> Counter[str]:
        """The numbers of pods that move and that stay."""
        assert self.predicted is not None
        moves = len(self.predicted.moves)
        return Counter({"rebalance: moves": moves, "rebalance: stays": len(self.pods) - moves})
