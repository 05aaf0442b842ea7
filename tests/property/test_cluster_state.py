"""After any changes in any order, the columns of a cluster are those of one built from the same objects at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from tests.property import clusters
from wharfinger.errors import StaleSnapshot, UnknownObject
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.snapshot import Snapshot

SELECTIONS: dict[str, dict[str, Any]] = {
    "app a": {"predicate": lambda pod: pod.labels.get("app") == "a"},
    "memory": {"predicate": lambda pod: not pod.terminating, "value": lambda pod: pod.requests.get("memory")},
    "thirds": {"predicate": lambda _: True, "value": lambda pod: pod.priority / 3},
    "by identity": {"predicate": lambda pod: pod.name < "pod-4", "per_pod": True, "value": lambda pod: pod.created},
    "start": {"predicate": lambda _: True, "per_pod": True, "value": lambda pod: pod.started},
    "on their node": {"predicate": lambda pod: pod.node_name < "node-3", "per_pod": True},
}


def _by_name(snapshot: Snapshot, values: Any) -> dict[str, float | None]:
    return {name: None if np.isnan(value) else float(value) for name, value in zip(snapshot.names, values, strict=True)}


def _selected(snapshot: Snapshot) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, question in SELECTIONS.items():
        selection = snapshot.selection(key, **question)
        found[key] = {
            "by_node": _by_name(snapshot, selection.by_node),
            "total": selection.total,
            "extremes": [_by_name(snapshot, selection.extreme_by_node(highest=highest)) for highest in (False, True)],
            "in zone": _by_name(snapshot, selection.in_domain(clusters.ZONE)),
            "zone extremes": [_by_name(snapshot, selection.extreme_in_domain(clusters.ZONE, highest=highest)) for highest in (False, True)],
            **{label: _domains(snapshot, key, label, masked=masked) for label in (clusters.ZONE, "disk") for masked in (False, True)},
        }
    return found


def _domains(snapshot: Snapshot, key: str, label: str, *, masked: bool) -> dict[str | None, Any]:
    selection = snapshot.selection(key, **SELECTIONS[key])
    mask = ~snapshot.unschedulable if masked else None
    counts = selection.domains(label, mask_key="schedulable" if masked else None, mask=mask)
    texts = [snapshot.strings.text(code) for code in snapshot.topology(label).codes]
    present = [(float(count), text) for count, nodes, text in zip(counts.counts, counts.nodes, texts, strict=True) if nodes]
    assert counts.lowest() == min((count for count, _ in present), default=None)
    assert counts.highest() == max((count for count, _ in present), default=None)
    return {text: count for count, text in present}


def _picture(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "nodes": clusters.node_facts(snapshot),
        "usage": clusters.usage(snapshot),
        "selections": _selected(snapshot),
        "tally": dict(snapshot.tally("apps", lambda pod: pod.labels.values()).found),
        "metrics": clusters.metrics(snapshot),
    }


class Cluster(RuleBasedStateMachine):
    """The state under test, with a plain model: only the objects that should be in it."""

    def __init__(self) -> None:
        super().__init__()
        self.state = ClusterState()
        self.nodes: dict[str, objects.Node] = {}
        self.placed: dict[str, PodView] = {}
        self.assumed: dict[str, tuple[PodView, str]] = {}
        self.nominated: dict[str, tuple[PodView, str]] = {}
        self.samples: dict[str, tuple[float, float]] = {}
        self.revision = 0
        self.snapshot = self.state.snapshot()

    @initialize(
        nodes=st.lists(clusters.nodes(), min_size=3, max_size=5, unique_by=lambda node: node.metadata.name),
        pods=st.lists(clusters.node_names.flatmap(lambda name: clusters.pods(node_name=name)), min_size=2, max_size=6),
    )
    def begin(self, nodes: list[objects.Node], pods: list[objects.Pod]) -> None:
        for node in nodes:
            self.add_or_update_node(node)
        for pod in pods:
            self.add_or_update_pod(pod)

    # ── nodes ──

    @rule(node=clusters.nodes())
    def add_or_update_node(self, node: objects.Node) -> None:
        self.state.add_node(node)
        self.nodes[node.metadata.name] = node

    @rule(number=st.integers(0, 4), other=clusters.nodes(), part=st.sampled_from(["metadata", "spec", "status"]))
    def change_a_part_of_a_node(self, number: int, other: objects.Node, part: str) -> None:
        if number < len(self.nodes):
            node = list(self.nodes.values())[number]
            changed = replace(node, **{part: getattr(other, part)})
            self.add_or_update_node(replace(changed, metadata=replace(changed.metadata, name=node.metadata.name)))

    @rule(name=st.sampled_from(clusters.NODE_NAMES))
    def remove_node(self, name: str) -> None:
        assert self.state.remove_node(name) == (self.nodes.pop(name, None) is not None)

    # ── pods ──

    @rule(pod=st.sampled_from([*clusters.NODE_NAMES]).flatmap(lambda name: clusters.pods(node_name=name)))
    def add_or_update_pod(self, pod: objects.Pod) -> None:
        view = PodView(pod)
        self.state.add_pod(pod)
        self.assumed.pop(view.uid, None)
        self.nominated.pop(view.uid, None)
        self.placed[view.uid] = view

    @rule(number=st.integers(0, 7), other=clusters.pods(), part=st.sampled_from(["labels", "creation_timestamp", "status"]))
    def change_a_part_of_a_pod(self, number: int, other: objects.Pod, part: str) -> None:
        if number < len(self.placed):
            pod = list(self.placed.values())[number].object
            if part == "status":
                self.add_or_update_pod(replace(pod, status=other.status))
            else:
                self.add_or_update_pod(replace(pod, metadata=replace(pod.metadata, **{part: getattr(other.metadata, part)})))

    @rule(pod=clusters.pods())
    def a_pending_pod_changes_nothing(self, pod: objects.Pod) -> None:
        before = self.state.revision
        self.state.add_pod(pod)
        assert self.state.revision == before

    @rule(pod=clusters.pods())
    def remove_pod(self, pod: objects.Pod) -> None:
        uid = PodView(pod).uid
        known = [table.pop(uid, None) is not None for table in (self.placed, self.assumed, self.nominated)]
        assert self.state.remove_pod(pod) == any(known)

    @rule(pod=clusters.pods(), node_name=st.sampled_from(clusters.NODE_NAMES))
    def assume(self, pod: objects.Pod, node_name: str) -> None:
        view = PodView(pod)
        if node_name not in self.nodes:
            with pytest.raises(UnknownObject):
                self.state.assume(view, node_name)
        elif view.uid in self.placed or view.uid in self.assumed:
            with pytest.raises(ValueError, match="already"):
                self.state.assume(view, node_name)
        else:
            self.state.assume(view, node_name)
            self.nominated.pop(view.uid, None)
            self.assumed[view.uid] = (view, node_name)

    @rule(number=st.integers(0, 7), node_name=clusters.node_names)
    def assume_a_nominated_pod(self, number: int, node_name: str) -> None:
        if number < len(self.nominated):
            self.assume(list(self.nominated.values())[number][0].object, node_name)

    @rule(number=st.integers(0, 7))
    def forget_an_assumed_pod(self, number: int) -> None:
        if number < len(self.assumed):
            self.forget(list(self.assumed.values())[number][0].object)

    @rule(pod=clusters.pods())
    def forget(self, pod: objects.Pod) -> None:
        view = PodView(pod)
        assert self.state.forget(view) == (self.assumed.pop(view.uid, None) is not None)

    @rule(number=st.integers(0, 7), node_name=st.sampled_from([None, *clusters.NODE_NAMES]))
    def confirm(self, number: int, node_name: str | None) -> None:
        if number >= len(self.assumed):
            return
        view, assumed_on = list(self.assumed.values())[number]
        spec = replace(view.object.spec, node_name=node_name or assumed_on)
        self.add_or_update_pod(replace(view.object, spec=spec))

    @rule(pod=clusters.pods(), node_name=st.sampled_from(clusters.NODE_NAMES))
    def nominate(self, pod: objects.Pod, node_name: str) -> None:
        view = PodView(pod)
        if view.uid not in self.placed and view.uid not in self.assumed:
            self.state.nominate(view, node_name)
            self.nominated[view.uid] = (view, node_name)

    @rule(
        samples=st.dictionaries(st.sampled_from([*clusters.NODE_NAMES, "elsewhere"]), st.tuples(st.floats(0, 1), st.integers(1_000, 1_010)))
    )
    def measure(self, samples: dict[str, tuple[float, float]]) -> None:
        self.samples = samples
        self.state.set_metric("load", samples)

    # ── what must hold ──

    def _fresh(self) -> Snapshot:
        fresh = ClusterState()
        for node in reversed(self.nodes.values()):
            fresh.add_node(node)
        for pod in reversed(self.placed.values()):
            fresh.add_pod(pod)
        for pod, node_name in self.assumed.values():
            if node_name in self.nodes:
                fresh.assume(pod, node_name)
        for pod, node_name in self.nominated.values():
            fresh.nominate(pod, node_name)
        if self.state.snapshot().metric("load") is not None:
            fresh.set_metric("load", self.samples)
        return fresh.snapshot()

    @rule(names=st.lists(clusters.node_names, max_size=3))
    def several_things_between_two_looks(self, names: list[str]) -> None:
        """Readers of the columns catch up with more than one change at once."""
        for name in names:
            self.remove_node(name)
        for pod in list(self.placed.values())[:2]:
            self.remove_pod(pod.object)

    @invariant()
    def the_columns_are_those_of_a_fresh_build(self) -> None:
        self._look(self.state.snapshot())

    @rule()
    def look_at_a_copy(self) -> None:
        copy = self.state.snapshot().detach()
        assert _picture(copy) == _picture(self._fresh())
        self.state.set_metric("another", {})
        assert copy.n_nodes == len(self.nodes)  # still readable, though the state has moved on

    def _look(self, snapshot: Snapshot) -> None:
        assert _picture(snapshot) == _picture(self._fresh())

    @invariant()
    def every_pod_is_in_the_state_it_should_be_in(self) -> None:
        for uid in (f"uid-of-{name}" for name in clusters.POD_NAMES):
            assert self.state.is_assumed(uid) == (uid in self.assumed)
            assert self.state.is_placed(uid) == (uid in self.assumed or uid in self.placed)

    @invariant()
    def an_old_snapshot_is_refused(self) -> None:
        if self.snapshot.revision != self.state.revision:
            with pytest.raises(StaleSnapshot):
                _ = self.snapshot.n_nodes
        self.snapshot = self.state.snapshot()


TestCluster = Cluster.TestCase
TestCluster.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


class Changes(Cluster):
    """The same, but asking which rows changed since the last look: every row that looks different must be among them."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = self._rows(self.state.snapshot())

    @staticmethod
    def _rows(snapshot: Snapshot) -> tuple[int, dict[str, Any], dict[str, Any]]:
        return snapshot.revision, clusters.node_facts(snapshot), clusters.usage(snapshot)

    def _look(self, snapshot: Snapshot) -> None:
        revision, facts, usage = self.seen
        self.seen = self._rows(snapshot)
        node_rows, usage_rows = snapshot.node_changes(revision), snapshot.usage_changes(revision)
        if revision < snapshot.layout_revision:
            assert node_rows is None
            assert usage_rows is None
            return
        assert _differing(facts, self.seen[1]) <= {snapshot.names[row] for row in node_rows.tolist()}
        assert _differing(usage, self.seen[2]) <= {snapshot.names[row] for row in usage_rows.tolist()}


def _differing(old: Any, new: Any) -> set[str]:
    """The node names under which two pictures differ."""
    before, after = dict(_by_path(old)), dict(_by_path(new))
    return {path[-1] for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def _by_path(picture: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every value of a picture that stands under a node name and is not nothing, by the path to it."""
    branches = picture.items() if isinstance(picture, dict) else enumerate(picture) if isinstance(picture, list) else ()
    for key, branch in branches:
        if key not in clusters.NODE_NAMES:
            yield from _by_path(branch, (*path, key))
        elif branch:
            yield (*path, key), branch


TestChanges = Changes.TestCase
TestChanges.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
