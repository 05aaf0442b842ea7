"""Differences between policies over a decision log: each recorded decision is made again by the other scheduler."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import wharfinger
from tests.cluster.api import Api
from tests.cluster.live import NAME
from tests.cluster.what_if_scenarios import OTHER_NAME, PlacedTwiceScenario, Plain, renamed, served_by
from wharfinger.scheduler.decision_log.reading import LogReader, decisions
from wharfinger.simulate.cluster import Cluster


class Made(NamedTuple):
    """A recorded decision: the name of the pod, when it was made, and the node."""

    pod: str
    at: float
    node: str | None


@dataclass(slots=True)
class LogScenario(PlacedTwiceScenario):
    """Pods are placed by one scheduler, and each of its decisions is made again by the other, on the cluster as it was."""

    policies: Mapping[str, Any] = field(default_factory=dict)
    since: float = 0.0
    """The time from which decisions are those of this scenario: others were in its namespace before."""
    made: list[Made] = field(default_factory=list)
    changed: dict[Made, str | None] = field(default_factory=dict)
    """The predicted node of each decision that changes."""

    def foretell(self, cluster: Cluster, policies: Mapping[str, Any]) -> None:
        """Keep the policies: what they change is asked once the decisions are recorded."""
        self.policies = policies

    def work(self, api: Api) -> Iterator[Sequence[Plain]]:
        """Have the decisions recorded, ask what changes, and make each of them again."""
        asked = {name: pod for name, pod in self.pods.items() if "nodeName" not in pod["spec"]}
        self._remove(api, asked)
        self.since = time.time()
        yield ()
        yield [served_by(NAME, pod) for pod in asked.values()]
        self._ask()
        self._remove(api, asked)
        yield ()
        for made in self.made:
            yield [served_by(OTHER_NAME, asked[made.pod])]
            there = api.get("Pod", made.pod, self.namespace)["spec"].get("nodeName")
            if there != self._predicted(made):
                self.problems.append(f"{made.pod}, recorded on {made.node}: predicted {self._predicted(made)}, found on {there}")
            self._remove(api, [made.pod])
            if made.node is not None:  # under another name: kwok may be late, and deletes pods by their names alone
                kept = renamed(asked[made.pod], _kept(made.pod))
                api.create({**kept, "spec": {**kept["spec"], "nodeName": made.node}})

    def _remove(self, api: Api, names: Iterator[str] | Sequence[str] | Mapping[str, Plain]) -> None:
        for name in names:
            api.delete("Pod", name, self.namespace)

    def _ask(self) -> None:
        """Read the decisions about the pods of the scenario, and which of them the policies of the other scheduler change."""
        own = f"{self.namespace}/"
        for recorded in decisions(LogReader(path=self.decision_log)):
            is_own = recorded.pod.key.startswith(own) and recorded.question.now >= self.since
            if is_own and recorded.question.profile == NAME:
                self.made.append(Made(recorded.pod.name, recorded.question.now, recorded.answer.node))
        told = wharfinger.diff(self.policies[OTHER_NAME], log=self.decision_log, scheduler_name=NAME)
        for change in told.changes:
            if change.pod.startswith(own) and change.at >= self.since:
                self.changed[Made(change.pod.removeprefix(own), change.at, change.before)] = change.after

    def _predicted(self, made: Made) -> str | None:
        return self.changed.get(made, made.node)

    def compare(self, pods: Mapping[str, Plain]) -> None:
        """See that all changes are of recorded decisions, and that these have put the pods where the first scheduler did."""
        if unknown := self.changed.keys() - set(self.made):
            self.problems.append(f"changes of decisions that were not recorded: {unknown}")
        last = {made.pod: made.node for made in self.made if made.node is not None}
        found = {name: pods[_kept(name)]["spec"]["nodeName"] for name in last if _kept(name) in pods}
        if found != last:
            self.problems.append(f"recorded {self.made}, found {found}")

    @property
    def answers(self) -> Counter[str]:
        """The number of decisions that change, and that do not."""
        return Counter({"log: changes": len(self.changed), "log: same": len(self.made) - len(self.changed)})


def _kept(name: str) -> str:
    """The name of a pod that stays on the node of its recorded decision."""
    return f"kept-{name}"
