"""Decisions remembered and brought up to date are those of a scheduler that has just started: same nodes, reasons, scores and victims."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.property import topologies
from wharfinger.framework import chain
from wharfinger.framework.evaluation import cycle
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState

CHAIN = chain.assemble()


def as_values(decision: Decision) -> dict[str, Any]:
    """The values of a decision, independent of the rows of the nodes."""
    snapshot = decision.snapshot
    return {
        "node": decision.node,
        "message": decision.message,
        "preemption": (decision.nominated, [victim.key for victim in decision.victims]),
        "feasible": decision.feasible_nodes(),
        "rejections": {name: decision.rejections_at(name) for name in snapshot.names},
        "scores": {name: decision.scores_at(name) for name in decision.feasible_nodes()},
    }


class Scheduler(RuleBasedStateMachine):
    """A cluster with a scheduler that has been running all the time, and another that starts again for every question."""

    def __init__(self) -> None:
        super().__init__()
        self.state = ClusterState()
        self.decider = cycle.Decider(CHAIN)
        self.nodes: dict[str, objects.Node] = {}
        self.placed: dict[str, PodView] = {}
        self.nominated: dict[str, tuple[PodView, str]] = {}
        self.others: list[Any] = []
        self.askers: list[PodView] = []

    @initialize(
        data=st.data(),
        askers=st.lists(topologies.pods("asker"), min_size=1, max_size=2),
        nodes=st.lists(st.sampled_from(topologies.NODE_NAMES).flatmap(topologies.nodes), min_size=2, max_size=6),
        others=st.lists(topologies.others, max_size=3),
    )
    def begin(self, data: st.DataObject, askers: list[objects.Pod], nodes: list[objects.Node], others: list[Any]) -> None:
        self.askers = [PodView(asker) for asker in askers]
        for node in nodes:
            self.put_node(node)
        for other in others:
            self.put_other(other)
        for name in data.draw(st.lists(st.sampled_from(topologies.POD_NAMES), max_size=10, unique=True)):
            self.put_pod(data, name, data.draw(st.sampled_from([node.metadata.name for node in nodes])))

    @rule(node=topologies.nodes())
    def put_node(self, node: objects.Node) -> None:
        self.nodes[node.metadata.name] = node
        self.state.add_node(node)

    @rule(name=st.sampled_from(topologies.NODE_NAMES))
    def remove_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.state.remove_node(name)

    @rule(data=st.data(), name=st.sampled_from(topologies.POD_NAMES), node=st.sampled_from(topologies.NODE_NAMES))
    def put_pod(self, data: st.DataObject, name: str, node: str) -> None:
        view = PodView(data.draw(topologies.pods(name, node_name=node)))
        self.nominated.pop(view.uid, None)
        self.placed.pop(view.uid, None)  # the order in which pods came to a node is part of the picture
        self.placed[view.uid] = view
        self.state.remove_pod(view)
        self.state.add_pod(view)

    @rule(name=st.sampled_from(topologies.POD_NAMES))
    def remove_pod(self, name: str) -> None:
        view = self.placed.pop(f"uid-{name}", None)
        if view is not None:
            self.state.remove_pod(view)

    @rule(data=st.data(), name=st.sampled_from(topologies.POD_NAMES), node=st.sampled_from(topologies.NODE_NAMES))
    def nominate(self, data: st.DataObject, name: str, node: str) -> None:
        view = PodView(data.draw(topologies.pods(name)))
        if view.uid not in self.placed:
            self.nominated[view.uid] = view, node
            self.state.nominate(view, node)

    @rule(other=topologies.others)
    def put_other(self, other: Any) -> None:
        self.others.append(other)
        self.state.put(other)

    @rule(data=st.data())
    def follow_the_decision(self, data: st.DataObject) -> None:
        """Place a pod on the node of the scheduler, or evict and nominate as it decides."""
        view = PodView(data.draw(topologies.pods(data.draw(st.sampled_from(topologies.POD_NAMES)))))
        if view.uid in self.placed:
            return
        decision = self.decider.decide(self.state.snapshot(), view)
        for victim in decision.victims:
            del self.placed[victim.uid]
            self.state.remove_pod(victim)
        if decision.nominated is not None:
            self.nominated[view.uid] = view, decision.nominated
            self.state.nominate(view, decision.nominated)
        if decision.node is not None:
            self.nominated.pop(view.uid, None)
            self.state.assume(view, decision.node)
            self.placed[view.uid] = view.placed_on(decision.node)

    @invariant()
    def the_running_one_and_the_new_one_agree(self) -> None:
        for asker in self.askers:
            running = as_values(self.decider.decide(self.state.snapshot(), asker))
            assert running == as_values(cycle.decide(CHAIN, self._anew().snapshot(), asker))

    def _anew(self) -> ClusterState:
        state = ClusterState()
        for node in self.nodes.values():
            state.add_node(node)
        for view in self.placed.values():
            state.add_pod(view)
        for view, node in self.nominated.values():
            state.nominate(view, node)
        for other in self.others:
            state.put(other)
        return state


TestScheduler = Scheduler.TestCase
TestScheduler.settings = settings(max_examples=40, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck))
