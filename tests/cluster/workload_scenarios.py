"""Capacity for several workloads that compete for the same nodes, by their priorities."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import wharfinger
from tests.cluster.api import Api
from tests.cluster.live import NAME
from tests.cluster.what_if_scenarios import PRIORITIES, CapacityScenario, Plain, renamed, served_by, without_device_claims
from wharfinger.simulate.cluster import Cluster
from wharfinger.what_if.capacity import Room

Places = Counter[tuple[str, str | None]]
"""The number of pods by workload and node; None for pods that wait."""
WORKLOAD = "workload"
"""The label with the name of the workload of a pod."""


@dataclass(slots=True)
class WorkloadsScenario(CapacityScenario):
    """Workloads with some pods are created at the same time, and then each gets further pods, in the order of the answer."""

    rooms: Sequence[Room] = ()
    found: Places = field(default_factory=Counter)
    found_more: Places = field(default_factory=Counter)

    def draw(self, draw: random.Random, owners: Mapping[str, str]) -> None:
        """Choose the objects, and the workloads. They ask for no devices: their order is that of the pods, not of their claims."""
        self._draw_running(draw, owners)
        for number in range(draw.randint(2, 3)):
            model = self._draw_asked(draw, owners)
            without_device_claims(model)
            model["metadata"]["labels"] = {**model["metadata"]["labels"], WORKLOAD: f"w{number}"}
            model["spec"]["priorityClassName"] = draw.choice(tuple(PRIORITIES))
            names = [f"w{number}-{i:02d}" for i in range(draw.randint(1, 6))]
            self.pods |= {name: renamed(model, name) for name in names}

    def foretell(self, cluster: Cluster, policies: Mapping[str, Any]) -> None:
        """Count the pods of each workload that fit, by node."""
        self.rooms = wharfinger.capacity(policies[NAME], cluster, self._pending(cluster), changes=False).rooms
        self.predicted = Counter({room.workload: room.total for room in self.rooms})

    def work(self, api: Api) -> Iterator[Sequence[Plain]]:
        """Create the pods, and then of each workload that is complete one pod more than fits."""
        asked = [pod for pod in self.pods.values() if WORKLOAD in pod["metadata"]["labels"]]
        for pod in asked:
            api.delete("Pod", pod["metadata"]["name"], self.namespace)
        yield ()
        yield [served_by(NAME, pod) for pod in asked]
        self.found = self._places(api)
        self._remove_waiting(api)
        for room in self.rooms:
            if room.placed == room.pods:
                name = _workload(room)
                model = served_by(NAME, self.pods[f"{name}-00"])
                before = self._places(api)
                yield [renamed(model, f"{name}-{room.pods + i:02d}") for i in range(room.more + 1)]
                self.found_more += self._places(api) - before
                self._remove_waiting(api)

    def _places(self, api: Api) -> Places:
        """The nodes of the pods of each workload."""
        pods = (pod for pod in api.list("Pod", self.namespace) if WORKLOAD in pod["metadata"]["labels"])
        return Counter((pod["metadata"]["labels"][WORKLOAD], pod["spec"].get("nodeName")) for pod in pods)

    def _remove_waiting(self, api: Api) -> None:
        """Remove the pods that wait: they are not counted, and could get the places that later ones make possible."""
        for pod in api.list("Pod", self.namespace):
            if "nodeName" not in pod["spec"]:
                api.delete("Pod", pod["metadata"]["name"], self.namespace)

    def compare(self, pods: Mapping[str, Plain]) -> None:
        """See that each workload has as many pods on each node as predicted, before and after it got more."""
        placed: Places = Counter()
        more: Places = Counter()
        for room in self.rooms:
            name = _workload(room)
            placed += Counter({(name, share.place): share.placed for share in room.nodes})
            placed += Counter({(name, None): room.pods - room.placed})
            more += Counter({(name, share.place): share.more for share in room.nodes})
            more += Counter({(name, None): room.placed == room.pods})
        for said, predicted, found in (("pods", placed, self.found), ("further pods", more, self.found_more)):
            if predicted != found:
                self.problems.append(f"{said}: predicted {dict(predicted - found)}, found {dict(found - predicted)}")

    @property
    def answers(self) -> Counter[str]:
        """The number of pods that fit, and that do not."""
        waiting = sum(room.pods - room.placed for room in self.rooms)
        return Counter({"workloads: fits": self.predicted.total(), "workloads: does not fit": waiting})


def _workload(room: Room) -> str:
    """The name of the workload of a room, which is the beginning of the names of its pods."""
    return room.workload.partition("/")[2].partition("-")[0]
