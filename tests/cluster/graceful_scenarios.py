"""Scenarios of drains in which pods need their grace periods to end: some replacements are there before the old pods are gone.

The controller of ReplicaSets is the real one, which creates a replacement as soon as a pod is marked as deleted. It is stopped while all
pods of a step are marked, as a busy one is late, and the scheduler is stopped while it creates their replacements: so their order is known.
Replacements of StatefulSets are created once the old pods are gone, and those of Jobs last, as test_replacements.py sees the real
controllers do.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.cluster.api import Api
from tests.cluster.control_plane import ENDS_LATE
from tests.cluster.what_if_scenarios import ORIGIN, DrainScenario, Pause, Plain, Scenario, owned_by, without_node
from wharfinger.what_if.drain.answer import DrainedPod

GRACE = 600
"""Seconds for which a pod that is marked as deleted could stay: longer than any scenario takes."""


@dataclass(slots=True)
class GracefulDrainScenario(DrainScenario):
    """Nodes are drained whose pods need time to end."""

    def draw(self, draw: random.Random, owners: Mapping[str, str]) -> None:
        """Choose the objects, and the controllers of pods."""
        DrainScenario.draw(self, draw, owners)
        for pod in self.pods.values():
            pod["metadata"]["annotations"] = {**pod["metadata"]["annotations"], ENDS_LATE: "true"}
            if owner_of(pod) == "StatefulSet" and "nodeName" in pod["spec"]:
                kind = draw.choices(("ReplicaSet", "Job", "StatefulSet"), (60, 20, 20))[0]
                if kind == "ReplicaSet":
                    give_to_replicaset(self, pod)
                else:
                    pod["metadata"]["ownerReferences"] = owned_by(kind, owners)

    def _do(self, api: Api, step: int, leaving: Sequence[DrainedPod]) -> Iterator[Sequence[Plain] | Pause]:
        """Mark the pods of a step, let their controllers create some again, end them, and create the others again."""
        yield Pause.CONTROLLERS
        self._evict(api, step, leaving, grace=GRACE)
        yield ()
        yield Pause.END
        for pod in leaving:
            api.delete("Pod", pod.pod.partition("/")[2], self.namespace)
        yield ()
        yield self._created_again(pod for pod in leaving if pod.controller.startswith("StatefulSet/"))
        yield self._created_again(pod for pod in leaving if pod.controller.startswith("Job/"))

    def is_replaced(self, pods: Iterable[Plain]) -> bool:
        """True if there is another pod for every pod of a ReplicaSet that leaves."""
        return is_replaced(pods)


def owner_of(pod: Plain) -> str:
    """The kind of the owner of a pod, "" for none."""
    return next((owner["kind"] for owner in pod["metadata"].get("ownerReferences", ())), "")


def give_to_replicaset(one: Scenario, pod: Plain) -> None:
    """Let a pod of a scenario belong to a ReplicaSet of its own, which is created later."""
    metadata = pod["metadata"]
    name, origin = metadata["name"], {ORIGIN: metadata["name"]}
    pod["metadata"] = {**metadata, "labels": {**metadata["labels"], **origin}, "ownerReferences": []}
    template = {
        "metadata": {key: pod["metadata"][key] for key in ("labels", "annotations")},
        "spec": without_node(pod)["spec"],
    }
    spec = {"replicas": 1, "selector": {"matchLabels": origin}, "template": template}
    own = {"name": name, "namespace": one.namespace}
    one.workloads.append({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": own, "spec": spec})


def is_replaced(pods: Iterable[Plain]) -> bool:
    """True if there is another pod for every pod of a ReplicaSet that is marked as deleted."""
    found: dict[bool, set[str]] = {True: set(), False: set()}
    for metadata in (pod["metadata"] for pod in pods):
        if ORIGIN in metadata.get("labels", {}):
            found["deletionTimestamp" in metadata].add(metadata["labels"][ORIGIN])
    return found[True] <= found[False]


def scenario(seed: int, namespace: str, owners: Mapping[str, str]) -> GracefulDrainScenario:
    """The random scenario of that number; `owners` has the uids of the owners in its namespace by kind."""
    made = GracefulDrainScenario(namespace, seed)
    made.draw(random.Random(seed), owners)
    return made
