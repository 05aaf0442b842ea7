"""Names of a cluster that a policy can use: keys and values of labels, resources, taints; and the spread of a value over its nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from msgspec import Struct

from wharfinger.compiler import reads
from wharfinger.compiler.interpreter import Interpreter
from wharfinger.errors import WharfingerError
from wharfinger.language.report import wording
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.catalogue import Subject
from wharfinger.language.semantics.types import NUMERIC, Kind, readable
from wharfinger.model import objects
from wharfinger.model.objects.matching import taint_text
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.snapshot import Snapshot
from wharfinger.simulate.cluster import Cluster

MAX_PODS = 20_000  # looked at for keys and values
MAX_NODES = 2_000  # whose values are calculated for a spread
MAX_VALUES = 5  # named in a spread of texts

Counts = Mapping[str, Counter[str]]
"""By key, how many objects have each value."""


class Spread(Struct, frozen=True, kw_only=True):
    """The values of an expression over nodes: the number of nodes with a value, and a text that describes the values."""

    nodes: int
    present: int
    text: str


class KnownCluster:
    """A cluster that policies are written for. `name` is its source: `openb:default`, a file, a context of the kubeconfig."""

    def __init__(self, name: str, cluster: Cluster) -> None:
        self.name = name
        self.cluster = cluster

    @cached_property
    def snapshot(self) -> Snapshot:
        """The cluster at one moment."""
        return self.cluster.state.snapshot().detach()

    @cached_property
    def pods(self) -> tuple[PodView, ...]:
        """Pods of the cluster: those that wait for a node, and those that have one."""
        snapshot = self.snapshot
        placed = (pod for row in range(snapshot.n_nodes) for pod in snapshot.pods_on(row))
        return (*self.cluster.pending, *placed)[:MAX_PODS]

    @cached_property
    def _nodes(self) -> Mapping[str, Counts]:
        views = [self.snapshot.node(row) for row in range(self.snapshot.n_nodes)]
        return {
            "labels": _counted(view.labels for view in views),
            "annotations": _counted(view.annotations for view in views),
            "conditions": _counted(view.conditions for view in views),
        }

    @cached_property
    def _pods(self) -> Mapping[str, Counts]:
        return {
            "labels": _counted(pod.labels for pod in self.pods),
            "annotations": _counted(pod.annotations for pod in self.pods),
            "node_selector": _counted(pod.object.spec.node_selector for pod in self.pods),
            "namespace_labels": _counted(each.metadata.labels for each in self.snapshot.objects.all(objects.Namespace)),
        }

    @cached_property
    def _devices(self) -> Mapping[str, Counts]:
        table = self.snapshot.devices
        devices = [device for row in _chosen(self.snapshot.n_nodes) for device in table.on(row)]
        capacities = _counted(dict.fromkeys(device.capacity, "") for device in devices)
        return {
            "attributes": _counted({name: str(value) for name, value in device.attributes.items()} for device in devices),
            "capacity": capacities,
            "free": capacities,
        }

    def keys(self, subject: Subject, group: str) -> Counts:
        """The keys of a field (`labels`, `annotations`, `conditions`, `requests`, …) with their values and the number of each."""
        fields = self._nodes if subject is Subject.NODE else self._devices if subject is Subject.DEVICE else self._pods
        known = fields.get(group)
        if known is not None or subject is Subject.DEVICE:
            return known or {}
        return {name: Counter() for name in self.snapshot.resource_names}

    @cached_property
    def fields(self) -> Mapping[str, Counter[str]]:
        """The values of fields of pods that hold a text, by the path of the field."""
        read: Mapping[str, Callable[[PodView], str | None]] = {
            "namespace": lambda pod: pod.namespace,
            "owner_kind": lambda pod: pod.controller.kind if pod.controller is not None else None,
            "priority_class": lambda pod: pod.object.spec.priority_class_name,
            "qos": lambda pod: pod.qos,
            "service_account": lambda pod: pod.object.spec.service_account_name,
            "scheduler_name": lambda pod: pod.object.spec.scheduler_name,
        }
        return {path: Counter(value for pod in self.pods if (value := of(pod))) for path, of in read.items()}

    @cached_property
    def taints(self) -> Counter[str]:
        """The taints of nodes as kubectl writes them, with the number of nodes."""
        found: Counter[str] = Counter()
        sets = Counter(int(number) for number in self.snapshot.taint_set)
        for number, nodes in sets.items():
            for taint in self.snapshot.taints(number):
                found[taint_text(taint)] += nodes
        return found

    def spread(self, expr: typed.Expr, policy: typed.Policy | None, params: Mapping[str, Any]) -> Spread | None:
        """The spread of a value that differs between nodes; None where it cannot be calculated without a pod."""
        rows = _chosen(self.snapshot.n_nodes)
        if not rows:
            return None
        found = _values(expr, policy, params, self.snapshot, rows)
        return None if found is None else _spread(found, expr)


def _counted(mappings: Iterable[Mapping[str, str]]) -> Counts:
    found: dict[str, Counter[str]] = {}
    for mapping in mappings:
        for key, value in mapping.items():
            found.setdefault(key, Counter())[value] += 1
    return found


def _chosen(nodes: int) -> Sequence[int]:
    """The rows to look at: all, or evenly chosen ones of many."""
    if nodes <= MAX_NODES:
        return range(nodes)
    return [int(row) for row in np.linspace(0, nodes - 1, MAX_NODES)]


def _values(
    expr: typed.Expr, policy: typed.Policy | None, params: Mapping[str, Any], snapshot: Snapshot, rows: Sequence[int]
) -> list[Any] | None:
    lets = {let.name: let.value for let in policy.lets} if policy is not None else {}
    if policy is None or reads_pod(expr, lets):
        return None
    try:
        interpreter = Interpreter(policy, params, None, snapshot)  # type: ignore[arg-type]  # nothing reads the pod
        return [interpreter.value(expr, row) for row in rows]
    except (WharfingerError, AttributeError, KeyError, TypeError):
        return None


def reads_pod(expr: typed.Expr, lets: Mapping[str, typed.Expr]) -> bool:
    """True if a value depends on the pod that is being placed, or on a let that is not known because it has an error."""
    try:
        return any(map(_is_of_pod, reads.walk(expr, lets)))
    except KeyError:
        return True


def _is_of_pod(part: typed.Expr) -> bool:
    if isinstance(part, typed.AttributeRef):
        return part.attribute.subject is not Subject.NODE
    return isinstance(part, (typed.SubjectRef, typed.Select, typed.Aggregate)) or (isinstance(part, typed.Call) and part.function.context)


def _spread(values: Sequence[Any], expr: typed.Expr) -> Spread:
    present = [value for value in values if value is not None]
    kind = expr.type.kind
    if not present:
        text = "missing everywhere"
    elif kind in NUMERIC:
        text = _numbers(np.array(present, dtype=np.float64), kind)
    elif kind is Kind.BOOL:
        text = f"true at {sum(present):,}, false at {len(present) - sum(present):,}"
    else:
        text = _texts(Counter(map(_shown, present)))
    return Spread(nodes=len(values), present=len(present), text=text)


def _numbers(values: Any, kind: Kind) -> str:
    ends = zip(("least", "median", "most"), (values.min(), np.median(values), values.max()), strict=True)
    return ", ".join(f"{word} {readable(float(value), kind)}" for word, value in ends)


def _shown(value: Any) -> str:
    return ", ".join(sorted(map(str, value))) if isinstance(value, (frozenset, set)) else str(value)


def _texts(counts: Counter[str]) -> str:
    named = [f"{text} ({number:,})" for text, number in counts.most_common(MAX_VALUES)]
    more = len(counts) - len(named)
    return ", ".join(named) + (f" and {wording.count(more, 'other')}" if more else "")
