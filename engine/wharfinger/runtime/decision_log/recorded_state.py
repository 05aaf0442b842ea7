"""A cluster's state that tells every change made to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from wharfinger.model import objects
from wharfinger.model.cluster_state import ClusterState
from wharfinger.model.metric_table import MetricColumn, Samples
from wharfinger.model.pod import PodView

Told = Callable[[tuple[Any, ...]], None]
"""Told an entry: the name of the change, and what is needed to make it again."""


class RecordedState(ClusterState):
    """Tells `told` after each change; what a change causes inside is not told again, and one that fails is not told."""

    def __init__(self, told: Told) -> None:
        super().__init__()
        self._told = told
        self._inside = False

    @contextmanager
    def _one(self, *entry: Any) -> Iterator[None]:
        """A change that may cause others."""
        if self._inside:
            yield
            return
        self._inside = True
        try:
            yield
        finally:
            self._inside = False
        self._told(entry)

    def _note(self, *entry: Any) -> None:
        if not self._inside:
            self._told(entry)

    def add_node(self, node: objects.Node) -> None:
        """Add a node, or update it."""
        super().add_node(node)
        self._note("node", node)

    def remove_node(self, name: str) -> bool:
        """Whether there was such a node, which is gone now."""
        found = super().remove_node(name)
        if found:
            self._note("node gone", name)
        return found

    def add_pod(self, pod: objects.Pod | PodView) -> None:
        """Take over what the API server says of a pod."""
        view = pod if isinstance(pod, PodView) else PodView(pod)
        with self._one("pod", view):
            super().add_pod(view)

    def remove_pod(self, pod: objects.Pod | PodView) -> bool:
        """Whether the pod was here; it is gone now."""
        uid = pod.uid if isinstance(pod, PodView) else PodView(pod).uid
        found = super().remove_pod(pod)
        if found:
            self._note("pod gone", uid)
        return found

    def assume(self, pod: PodView, node_name: str) -> None:
        """Count a pod on the node that was chosen for it."""
        super().assume(pod, node_name)
        self._note("assume", pod, node_name)

    def forget(self, pod: PodView) -> bool:
        """Whether the pod was assumed; it counts nowhere any more."""
        found = super().forget(pod)
        if found:
            self._note("forget", pod.uid)
        return found

    def nominate(self, pod: PodView, node_name: str) -> None:
        """Reserve a node for a pending pod."""
        super().nominate(pod, node_name)
        self._note("nominate", pod, node_name)

    def denominate(self, pod: PodView) -> bool:
        """Whether the pod was nominated, which it no longer is."""
        found = super().denominate(pod)
        if found:
            self._note("denominate", pod.uid)
        return found

    def put(self, obj: objects.AnyObject) -> None:
        """Keep any object."""
        if isinstance(obj, objects.Node | objects.Pod):
            super().put(obj)  # which tells it as a node or pod
        else:
            super().put(obj)
            self._note("put", obj)

    def drop(self, kind: str, key: str) -> bool:
        """Whether there was an object of that kind and key, which is gone now."""
        found = super().drop(kind, key)
        self._note("drop", kind, key)
        return found

    def set_metric(self, name: str, samples: Samples) -> None:
        """Replace the samples of a metric."""
        super().set_metric(name, samples)
        self._note("metric", name, samples)

    def put_metric(self, name: str, column: MetricColumn, samples: Samples, layout: int) -> None:
        """Replace the samples of a metric, whose column is made already."""
        super().put_metric(name, column, samples, layout)
        self._note("metric", name, samples)

    def drop_metric(self, name: str) -> None:
        """Forget a metric."""
        super().drop_metric(name)
        self._note("metric gone", name)
