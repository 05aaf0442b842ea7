"""A copy of a state that is brought up to date when it is needed, which takes time in proportion to what has changed since.

The copy remembers by reference what it was made of. Everything is immutable, so an object that is another one than before has changed. The
references are taken in one go, while the snapshot is current; the rest is done in steps.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field

from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import OBJECTS_PER_STEP, ClusterState
from wharfinger.model.state.snapshot import Snapshot


@dataclass(slots=True)
class _Seen:
    """What a copy was made of, by reference: nodes, the pods of each by uid, nominations by uid, and revisions."""

    revision: int = -1
    objects_revision: int = -1
    metrics_revision: int = -1
    nodes: dict[str, objects.Node] = field(default_factory=dict)
    pods: dict[str, dict[str, PodView]] = field(default_factory=dict)
    nominations: dict[str, tuple[PodView, str]] = field(default_factory=dict)
    others: dict[tuple[str, str], objects.AnyObject] = field(default_factory=dict)
    metrics: set[str] = field(default_factory=set)


class FollowedCopy:
    """A copy of one state. It may be changed for a question, if it is put back before it follows again."""

    def __init__(self) -> None:
        self._state: ClusterState | None = None
        self._seen = _Seen()

    def drop(self) -> None:
        """Free the copy; it is made anew when it is needed again."""
        self._state, self._seen = None, _Seen()

    def follow(self, snapshot: Snapshot) -> Generator[None, None, ClusterState]:
        """A generator of steps that returns the copy as of `snapshot`; the first step must run while the snapshot is current.

        A generator that is not run to its end leaves no copy: the next one makes it anew.
        """
        state, seen = self._state or ClusterState(snapshot.now), self._seen
        self.drop()
        state.set_time(snapshot.now)
        nodes, pods = _changed(snapshot, seen)
        there = set(snapshot.names)
        nominations = {pod.uid: (pod, snapshot.names[row]) for row in snapshot.nominated_rows.tolist() for pod in snapshot.nominated(row)}
        others = None if snapshot.objects.revision == seen.objects_revision else list(snapshot.objects)
        renewed = snapshot.metrics_revision != seen.metrics_revision
        metrics = {name: dict(samples) for name, samples in snapshot.samples.items()} if renewed else None
        seen.revision, seen.metrics_revision = snapshot.revision, snapshot.metrics_revision
        seen.objects_revision = snapshot.objects.revision
        sizes, leaving = dict(snapshot.group_sizes), set(snapshot.evicted)
        yield
        yield from _follow_nodes(state, seen, nodes, there)
        if others is not None:
            yield from _follow_others(state, seen, others)
        yield from _follow_pods(state, seen, pods)
        _follow_nominations(state, seen, nominations)
        for key in {*state.snapshot().group_sizes, *sizes}:
            state.set_group_size(key, sizes.get(key, 0))
        for uid in {*state.snapshot().evicted} - leaving:
            state.expect_staying(uid)
        for uid in leaving:
            state.expect_leaving(uid)
        if metrics is not None:
            for name in seen.metrics - metrics.keys():
                state.drop_metric(name)
            for name, samples in metrics.items():
                state.set_metric(name, samples)
                yield
            seen.metrics = set(metrics)
        self._state, self._seen = state, seen
        return state


def _changed(snapshot: Snapshot, seen: _Seen) -> tuple[dict[str, objects.Node], dict[str, dict[str, PodView]]]:
    """The nodes that may have changed since, and the pods of nodes whose pods may have."""
    tables = snapshot._current()  # noqa: SLF001 — row by row would take several times as long, and this step blocks the loop
    names, every = snapshot.names, range(snapshot.n_nodes)
    node_rows, pod_rows = (
        every if rows is None else rows.tolist() for rows in (snapshot.node_changes(seen.revision), snapshot.usage_changes(seen.revision))
    )
    nodes = {names[row]: tables.nodes.objects[row] for row in node_rows}
    return nodes, {names[row]: {uid: placement.pod for uid, placement in tables.pods.by_row[row].items()} for row in pod_rows}


def _follow_nodes(state: ClusterState, seen: _Seen, nodes: Mapping[str, objects.Node], there: set[str]) -> Generator[None, None, None]:
    for name in seen.nodes.keys() - there:
        for pod in seen.pods.pop(name, {}).values():
            state.remove_pod(pod)
        state.remove_node(name)
        del seen.nodes[name]
    for number, (name, node) in enumerate(nodes.items()):
        if seen.nodes.get(name) is not node:
            state.add_node(node)
            seen.nodes[name] = node
        if number % OBJECTS_PER_STEP == 0:
            yield


def _follow_pods(state: ClusterState, seen: _Seen, pods: Mapping[str, dict[str, PodView]]) -> Generator[None, None, None]:
    """First the pods that have left their node, so that one that has moved is not taken from where it is now."""
    for number, (name, now) in enumerate(pods.items()):
        for uid, pod in seen.pods.get(name, {}).items():
            if uid not in now:
                state.remove_pod(pod)
        if number % OBJECTS_PER_STEP == 0:
            yield
    for number, (name, now) in enumerate(pods.items()):
        before = seen.pods.get(name, {})
        for uid, pod in now.items():
            if before.get(uid) is not pod:
                state.add_pod(pod)
        seen.pods[name] = now
        if number % (OBJECTS_PER_STEP // 10) == 0:
            yield


def _follow_others(state: ClusterState, seen: _Seen, others: list[objects.AnyObject]) -> Generator[None, None, None]:
    now = {}
    for number, obj in enumerate(others):
        key = objects.kind_of(obj), objects.key_of(obj)
        now[key] = obj
        if seen.others.get(key) is not obj:
            state.put(obj)
        if number % OBJECTS_PER_STEP == 0:
            yield
    for kind, name in seen.others.keys() - now.keys():
        state.drop(kind, name)
    seen.others = now


def _follow_nominations(state: ClusterState, seen: _Seen, nominations: dict[str, tuple[PodView, str]]) -> None:
    for uid, (pod, node) in seen.nominations.items():
        found = nominations.get(uid)
        if found is None or found[0] is not pod or found[1] != node:
            state.denominate(pod)
    for pod, node in nominations.values():
        if state.snapshot().nominated_to(pod.uid) != node:
            state.nominate(pod, node)
    seen.nominations = nominations
