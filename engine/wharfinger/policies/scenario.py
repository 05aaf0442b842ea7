"""One `test` block carried out: its nodes and pods as a cluster, and what happened to each pod it placed.

A test goes through the same reading, chain and `decide` as a real cluster does; only the objects are made up. A test names only what
matters to it; the rest has defaults: a node with 8 CPUs, 32Gi of memory and room for 110 pods, a pod in namespace `default` without
requests. The fields are those of the language reference; quantities keep the text they were written in, so that the code for a cluster's
objects reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wharfinger.builtins.signature import NO_POINTS
from wharfinger.compiler.interpreter import Interpreter
from wharfinger.compiler.program import CompiledPolicy, compile_policy
from wharfinger.errors import UsageError
from wharfinger.explain import conditions
from wharfinger.framework.chain import Chain, assemble
from wharfinger.framework.evaluation.cycle import Decider, decide
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.groups.membership import GroupIndex, rule_of_policies
from wharfinger.groups.placing import placing
from wharfinger.groups.terms import Group, GroupAnswer, Placed
from wharfinger.language import ast, test_steps
from wharfinger.language.semantics import typed, types
from wharfinger.language.semantics.types import Kind
from wharfinger.model import objects
from wharfinger.model.devices.allocated import with_allocation
from wharfinger.model.devices.device import Device
from wharfinger.model.node_labels import HOSTNAME
from wharfinger.model.objects import quantity
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.objects.requests import NATIVE_BY_FIELD
from wharfinger.model.reading import decode
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.object_store import TimeAndObjects
from wharfinger.model.state.snapshot import Snapshot
from wharfinger.steps import at_once

T = TypeVar("T")

Manifest = dict[str, Any]
Fields = Mapping[str, Any]

MAX_STEPS = 2_000  # of the search for a group in a test
NODE_DEFAULTS: Fields = {"cpu": "8", "memory": "32Gi", "pods": "110"}
_NODE_AMOUNTS = (*NATIVE_BY_FIELD, "pods")


def plain(value: ast.Expr | tuple[ast.ObjectField, ...]) -> Any:
    """A literal or an object as plain values: numbers as the text of a quantity, sets as lists, objects as dicts."""
    if isinstance(value, ast.ObjectLiteral):
        return plain(value.fields)
    if isinstance(value, tuple):
        return {field.name: _attributes(field.value) if field.name == "attributes" else plain(field.value) for field in value}
    if isinstance(value, ast.Number):
        return _number(value)
    if isinstance(value, ast.String | ast.Boolean):
        return value.value
    if isinstance(value, ast.SetLiteral):
        return [plain(item) for item in value.items]
    if isinstance(value, ast.Unary) and value.op is ast.UnaryOp.MINUS:
        return f"-{plain(value.operand)}"
    raise TypeError(f"{type(value).__name__} in a test object")


def _attributes(values: ast.Expr | tuple[ast.ObjectField, ...]) -> Any:
    """The attributes of a device as those of a ResourceSlice, each under its type."""
    return {field.name: _attribute(field.value) for field in values} if isinstance(values, tuple) else {}


def _attribute(value: ast.Expr | tuple[ast.ObjectField, ...]) -> Manifest:
    found = plain(value)
    if isinstance(value, ast.String):
        return {"string": found}
    return {"bool": found} if isinstance(value, ast.Boolean) else {"int": int(found)}


def _number(literal: ast.Number) -> str | float:
    kind = types.literal_kind(literal.digits, literal.unit)
    if kind in (Kind.DURATION, Kind.PERCENT):
        return types.base_value(literal.digits, literal.unit) or 0.0
    return literal.digits + ("" if literal.unit in ("cpu", "B") else literal.unit)  # the other units are Kubernetes' own suffixes


def merged(base: Fields, own: Fields) -> Fields:
    """The fields of an object declared `like` another: its own replace the other's; objects are merged key by key."""
    both = {name: {**base[name], **own[name]} for name in base.keys() & own.keys() if isinstance(own[name], dict)}
    return {**base, **own, **both}


def node_manifest(name: str, fields: Fields, *, now: datetime = test_steps.START) -> Manifest:
    """A node as a manifest."""
    amounts = {**NODE_DEFAULTS, **{key: fields[key] for key in _NODE_AMOUNTS if key in fields}, **fields.get("resources", {})}
    allocatable = {NATIVE_BY_FIELD.get(key, key): value for key, value in amounts.items()}
    conditions = {"Ready": "True", **fields.get("conditions", {})}
    return {
        "metadata": _metadata(name, fields, now) | {"labels": {HOSTNAME: name, **fields.get("labels", {})}},
        "spec": {"unschedulable": fields.get("unschedulable", False), "taints": [_taint(text) for text in fields.get("taints", ())]},
        "status": {
            "allocatable": allocatable,
            "capacity": {**allocatable, **_amounts(fields.get("capacity", {}))},
            "conditions": [{"type": kind, "status": str(status)} for kind, status in conditions.items()],
            "images": [{"names": [image], "sizeBytes": quantity.value(size)} for image, size in fields.get("images", {}).items()],
        },
    }


def pod_manifest(name: str, fields: Fields, *, node: str | None = None, now: datetime = test_steps.START) -> Manifest:
    """A pod as a manifest; running on `node`, or pending."""
    metadata = _metadata(name, fields, now) | {"namespace": fields.get("namespace", "default")}
    if "owner" in fields:
        metadata["ownerReferences"] = [{"controller": True, **fields["owner"]}]
    spec: Manifest = {
        "containers": _containers(fields),
        "priority": int(fields.get("priority", 0)),
        "tolerations": [_toleration(text) for text in fields.get("tolerations", ())],
        "nodeName": node or "",
    }
    for field, key in _POD_SPEC.items():
        if field in fields:
            spec[key] = fields[field]
    if "devices" in fields:
        spec["resourceClaims"] = [{"name": f"claim-{n}", "resourceClaimName": f"{name}-{n}"} for n in range(len(fields["devices"]))]
    status: Manifest = {"phase": "Running" if node else "Pending"}
    if "qos" in fields:
        status["qosClass"] = fields["qos"]
    return {"metadata": metadata, "spec": spec, "status": status}


_POD_SPEC = {
    "node_selector": "nodeSelector",
    "priority_class": "priorityClassName",
    "scheduler_name": "schedulerName",
    "service_account": "serviceAccountName",
}


def _metadata(name: str, fields: Fields, now: datetime) -> Manifest:
    metadata: Manifest = {"name": name, "labels": fields.get("labels", {}), "annotations": fields.get("annotations", {})}
    if "age" in fields:
        metadata["creationTimestamp"] = (now - timedelta(seconds=fields["age"])).isoformat()
    return metadata


def _containers(fields: Fields) -> list[Manifest]:
    """One container with the requests, limits and host ports; one more for each image after the first."""
    first, *others = fields.get("images") or [""]
    resources = {"requests": _amounts(fields.get("requests", {})), "limits": _amounts(fields.get("limits", {}))}
    ports = [{"containerPort": int(port), "hostPort": int(port), "protocol": "TCP"} for port in fields.get("host_ports", ())]
    return [
        {"name": "main", "image": first, "resources": resources, "ports": ports},
        *({"name": f"other-{i}", "image": image} for i, image in enumerate(others)),
    ]


def _amounts(fields: Fields) -> Manifest:
    return {NATIVE_BY_FIELD.get(key, key): value for key, value in fields.items()}


def _taint(text: str) -> Manifest:
    """`key=value:Effect` or `key:Effect`, as kubectl writes taints."""
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect}


def _toleration(text: str) -> Manifest:
    """`key=value:Effect` tolerates that taint, `key:Effect` any value of the key, `key` any value and effect."""
    pair, colon, effect = text.rpartition(":") if ":" in text else (text, "", "")
    key, equals, value = pair.partition("=")
    return {"key": key, "operator": "Equal" if equals else "Exists", "value": value, "effect": effect if colon else ""}


DRIVER = "gpu.example.com"


def slice_manifests(node: str, devices: Sequence[Fields]) -> list[Manifest]:
    """The devices of a node as ResourceSlices, one for each driver; the pool is called as the node."""
    by_driver: dict[str, list[Manifest]] = {}
    numbers: Counter[tuple[str, str]] = Counter()
    for fields in devices:
        driver, name = fields.get("driver", DRIVER), fields.get("name", "gpu")
        of_driver = by_driver.setdefault(driver, [])
        numbered = "count" in fields or "name" not in fields
        for _ in range(int(fields.get("count", 1))):
            of_driver.append({"name": f"{name}-{numbers[driver, name]}" if numbered else name, **_device(fields)})
            numbers[driver, name] += 1
    return [
        {
            "metadata": {"name": f"{node}-{driver}"},
            "spec": {
                "driver": driver,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                "nodeName": node,
                "devices": found,
            },
        }
        for driver, found in by_driver.items()
    ]


def _device(fields: Fields) -> Manifest:
    versions = {name: {"version": version} for name, version in fields.get("versions", {}).items()}
    return {
        "attributes": fields.get("attributes", {}) | versions,
        "capacity": {name: {"value": value} for name, value in fields.get("capacity", {}).items()},
        "taints": [_taint(text) for text in fields.get("taints", ())],
    }


def claim_manifests(pod: str, fields: Fields, held: Sequence[Device] | None = None) -> list[Manifest]:
    """The claims of a pod, one for each driver, and the class of each; allocated with these devices for a pod that runs."""
    found: list[Manifest] = []
    for number, (driver, count) in enumerate(fields.get("devices", {}).items()):
        request = {"name": "devices", "exactly": {"deviceClassName": driver, "count": int(count)}}
        results = [{"request": "devices", "driver": each.driver, "pool": each.pool, "device": each.name} for each in held or ()]
        own = [result for result in results if result["driver"] == driver]
        found.append(
            {
                "kind": "ResourceClaim",
                "metadata": {"name": f"{pod}-{number}", "namespace": fields.get("namespace", "default"), "uid": f"{pod}-{number}"},
                "spec": {"devices": {"requests": [request]}},
                "status": {"allocation": {"devices": {"results": own}}} if held is not None else {},
            }
        )
        selector = {"cel": {"expression": f"device.driver == '{driver}'"}}
        found.append({"kind": "DeviceClass", "metadata": {"name": driver}, "spec": {"selectors": [selector]}})
    return found


Compiling = Callable[[typed.Policy, Mapping[str, Any]], CompiledPolicy]


class Attempt(Struct, frozen=True, kw_only=True):
    """One `place`: the decision, and the cluster just before it.

    `devices` are the names of the devices that the pod got. Where preemption made room for the pod, decision and cluster are those after
    its victims have left, and `evicted` are their names. `preempting` is the interpreter for the cluster before that; None where the pod
    fitted at once. `answers` are the ones that expectations have asked for, by question.
    """

    decision: Decision
    evicted: tuple[str, ...]
    snapshot: Snapshot
    interpreter: Interpreter
    preempting: Interpreter | None
    governed: bool
    devices: tuple[str, ...] = ()
    answers: dict[Hashable, Any] = msgspec.field(default_factory=dict)

    def once(self, question: Hashable, answer: Callable[[], T]) -> T:
        """The answer to a question about the attempt, which is computed when it is first asked."""
        if question not in self.answers:
            self.answers[question] = answer()
        found: T = self.answers[question]
        return found


class GroupAttempt(Struct, frozen=True, kw_only=True):
    """One `place group`: the group as it was, the answer, and the placements of its waiting members, by name."""

    group: Group
    answer: GroupAnswer
    attempts: Mapping[str, Attempt]


class _GroupedPods(Struct):
    """The groups of pods as they are at a time (seconds) and at a revision of the objects, and the pods that were put into them."""

    read_at: tuple[float, int]
    index: GroupIndex
    known: dict[str, PodView] = msgspec.field(default_factory=dict)

    def with_pods(self, pods: Mapping[str, PodView]) -> GroupIndex:
        """The groups of these pods, by uid, which include all pods of the call before; only those that have changed are looked at."""
        for uid, pod in pods.items():
            if self.known.get(uid) is not pod and not pod.finished:
                self.index.put(pod)
        self.known = dict(pods)
        return self.index


class Scenario:
    """The cluster of a test, as far as its steps have been carried out."""

    def __init__(
        self,
        policy: typed.Policy,
        test: ast.Test,
        compiled: Compiling = compile_policy,
        chain_of: Callable[[CompiledPolicy], Chain] = lambda policy: assemble([policy]),
    ) -> None:
        """Compile the policy with the params that the test sets, by `compiled`, and make its chain, by `chain_of`.

        Both may return what they have made before.
        """
        given = {step.name: literal(step.value) for step in test.steps if isinstance(step, test_steps.Param)}
        self.policy: CompiledPolicy = compiled(policy, given)
        self.attempts: dict[str, Attempt] = {}
        self.last: Attempt | None = None
        self.groups: dict[str, GroupAttempt] = {}
        self._chain = chain_of(self.policy)
        self._state = ClusterState()
        self._now = test_steps.START
        self._fields: dict[tuple[test_steps.ObjectKind, str], Mapping[str, Any]] = {}
        self._pods: dict[str, PodView] = {}
        self._sized: frozenset[str] = frozenset()
        self._grouped: _GroupedPods | None = None

    def follow(self, step: ast.TestStep) -> None:
        """Carry out a step that declares or places something; an `expect` changes nothing."""
        if isinstance(step, test_steps.Object):
            self._declare(step)
        elif isinstance(step, test_steps.Running):
            self._run(step)
        elif isinstance(step, test_steps.Metric):
            self._measure(step)
        elif isinstance(step, test_steps.At):
            self._now = step.time or self._now
        elif isinstance(step, test_steps.Place):
            self._place(step.pod)
        elif isinstance(step, test_steps.PlaceGroup):
            self._place_group(step.group)

    def held(self, name: str) -> list[tuple[str, str]]:
        """The permits that the placed pod of that name waits for now, each with its message; empty for a pod without a node."""
        results = self.permits(name)
        if results is None:
            return []
        interpreter, row = results
        return [
            (permit.name, interpreter.message(clause, row))
            for permit in self.policy.policy.permits
            for clause, answer in interpreter.filter(permit, row)
            if not conditions.passes(clause, answer)
        ]

    def permits(self, name: str) -> tuple[Interpreter, int] | None:
        """The arguments of the policy's permits for the placed pod of that name: the interpreter, and the row of its node."""
        pod = self._pods.get(name)
        snapshot = self._state.snapshot(self._now.timestamp()).detach()
        placed = None if pod is None else snapshot.placed(pod.uid)
        if pod is None or placed is None or not self.policy.governs(pod, snapshot):
            return None
        return conditions.interpreter_of(self.policy, pod, snapshot, counted=True), placed[0]

    def _declare(self, step: test_steps.Object) -> None:
        fields = self._inherited(step.kind, step.like, step.fields)
        self._fields[step.kind, step.name] = fields
        if step.kind is test_steps.ObjectKind.NODE:
            self._state.add_node(decode.convert(node_manifest(step.name, fields, now=self._now), objects.Node))
            for manifest in slice_manifests(step.name, fields.get("devices", ())):
                self._state.put(decode.convert(manifest, objects.ResourceSlice))
        else:
            self._label_namespace(fields)
            self._claim(claim_manifests(step.name, fields))
            self._pods[step.name] = PodView(decode.convert(pod_manifest(step.name, fields, now=self._now), objects.Pod))

    def _run(self, step: test_steps.Running) -> None:
        fields = self._inherited(test_steps.ObjectKind.POD, step.like, step.fields)
        self._fields[test_steps.ObjectKind.POD, step.name] = fields
        self._label_namespace(fields)
        if "devices" in fields:
            self._claim(claim_manifests(step.name, fields, self._held(step.node, fields)))
        self._state.add_pod(decode.convert(pod_manifest(step.name, fields, node=step.node, now=self._now), objects.Pod))

    def _claim(self, manifests: Sequence[Manifest]) -> None:
        """Add claims and the classes that they name."""
        for manifest in manifests:
            plain_manifest = {key: value for key, value in manifest.items() if key != "kind"}
            if manifest["kind"] == "ResourceClaim":
                self._state.put(decode.convert(plain_manifest, objects.ResourceClaim))
            else:
                self._state.put(decode.convert(plain_manifest, objects.DeviceClass))

    def _held(self, node: str, fields: Fields) -> list[Device]:
        """The devices that a running pod has: those it names, or the first free ones of each driver."""
        snapshot = self._state.snapshot()
        row = snapshot.row(node)
        devices = () if row is None else snapshot.devices.on(row)
        found: list[Device] = []
        holds = frozenset(fields.get("holds", ()))
        for driver, count in fields["devices"].items():
            of_driver = [each for each in devices if each.driver == driver]
            named = [each for each in of_driver if each.name in holds]
            found += (named or [each for each in of_driver if not each.taken])[: int(count)]
        return found

    def _newly_allocated(self, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        """The names of the devices of a node that have less free than in an earlier snapshot."""
        before, now = snapshot.devices.on(row), self._state.snapshot().devices.on(row)
        return tuple(old.name for old, new in zip(before, now, strict=True) if old != new)

    def _label_namespace(self, fields: Fields) -> None:
        """Give the namespace of a pod the labels that the pod names."""
        if "namespace_labels" in fields:
            metadata = objects.ObjectMeta(name=fields.get("namespace", "default"), labels=fields["namespace_labels"])
            self._state.put(objects.Namespace(metadata=metadata))

    def _inherited(self, kind: test_steps.ObjectKind, like: str | None, own: tuple[ast.ObjectField, ...]) -> Mapping[str, Any]:
        base = self._fields[kind, like] if like is not None else {}
        return merged(base, plain(own))

    def _measure(self, step: test_steps.Metric) -> None:
        now = self._now.timestamp()
        ages = [0.0 if age is None else literal(age) for age in step.ages]
        samples = {node: (literal(value), now - age) for (node, _), value, age in zip(step.nodes, step.values, ages, strict=True)}
        self._state.set_metric(step.name, samples)

    def _place(self, name: str) -> None:
        pod = self._pods[name]
        if self._state.is_placed(pod.uid):
            raise UsageError(f"{name} is placed already")
        decision, snapshot = self._decide(pod)
        preempting = None if decision.node is not None else conditions.interpreter_of(self.policy, pod, snapshot)
        victims = decision.victims
        if victims:
            for victim in victims:
                self._state.remove_pod(victim)
            decision, snapshot = self._decide(pod)
        attempt = Attempt(
            decision=decision,
            evicted=tuple(victim.name for victim in victims),
            snapshot=snapshot,
            interpreter=conditions.interpreter_of(self.policy, pod, snapshot, decision.plugin_points),
            preempting=preempting,
            governed=self.policy.governs(pod, snapshot),
        )
        asks = snapshot.devices.demand(pod) is not None
        if decision.node is not None:
            self._state.assume(decision.assigned, decision.node)
            for each in decision.claims:
                if self._state.objects.get(objects.ResourceClaim, each.claim.metadata.name, each.claim.metadata.namespace):
                    self._state.put(with_allocation(each.claim, each.allocation))
            if asks and decision.row is not None:
                attempt = replace(attempt, devices=self._newly_allocated(snapshot, decision.row))
        self.attempts[name] = self.last = attempt

    def _place_group(self, name: str) -> None:
        index = self._index()
        found = [index.group(key) for key in index if name in (key, key.partition("/")[2])]
        groups = [group for group in found if group is not None]
        if not groups:
            raise UsageError(f"no pod of the test is in a group {name}")
        if len(groups) > 1:
            raise UsageError(f"{' and '.join(group.key for group in groups)} are different groups; name one of them with its namespace")
        group = groups[0]
        waiting = {pod.uid: pod for pod in group.waiting}
        answer = at_once(placing(Decider(self._chain), self._state, group, steps=MAX_STEPS))
        nodes = answer.nodes if isinstance(answer, Placed) else {}
        message = "" if isinstance(answer, Placed) else answer.message
        attempts = {}
        for uid in (*nodes, *(uid for uid in waiting if uid not in nodes)):
            attempts[waiting[uid].name] = self._member(waiting[uid], nodes.get(uid), message)
        self.attempts.update(attempts)
        self.groups[name] = GroupAttempt(group=group, answer=answer, attempts=attempts)

    def _member(self, pod: PodView, node: str | None, message: str) -> Attempt:
        """The attempt of a member of a group, which gets its node from the group's placement, or none."""
        decision, snapshot = self._decide(pod)
        decision = replace(decision, node=node, row=None if node is None else snapshot.row(node), message=message, victims=())
        self.last = Attempt(
            decision=decision,
            evicted=(),
            snapshot=snapshot,
            interpreter=conditions.interpreter_of(self.policy, pod, snapshot, decision.plugin_points if node is not None else NO_POINTS),
            preempting=None,
            governed=self.policy.governs(pod, snapshot),
        )
        if node is not None:
            self._state.assume(decision.chain.assigned_on(pod, snapshot, node), node)
        return self.last

    def _index(self) -> GroupIndex:
        """The groups of all pods so far, placed or not."""
        at = TimeAndObjects(self._now.timestamp(), self._state.objects)
        if self._grouped is None or self._grouped.read_at != (at.now, at.objects.revision):  # a group may depend on both
            rule = rule_of_policies([self.policy], lambda: at)
            self._grouped = _GroupedPods(read_at=(at.now, at.objects.revision), index=GroupIndex(at.objects, rule))
        placed = {pod.uid: pod for pod, _ in self._state.placements()}
        return self._grouped.with_pods({pod.uid: pod for pod in self._pods.values()} | placed)

    def _count_members(self) -> None:
        """Store the number of members of the groups in the state."""
        index = self._index()
        for key in self._sized - set(index):
            self._state.set_group_size(key, 0)
        for key in index:
            self._state.set_group_size(key, index.size(key))
        self._sized = frozenset(index)

    def _decide(self, pod: PodView) -> tuple[Decision, Snapshot]:
        self._count_members()
        snapshot = self._state.snapshot(self._now.timestamp()).detach()
        return decide(self._chain, snapshot, pod), snapshot


def literal(value: ast.Expr) -> Any:
    """A literal as a plain value in base units (millicores, bytes, fractions, seconds): what a param or a sample is."""
    if isinstance(value, ast.Number):
        return types.base_value(value.digits, value.unit)
    if isinstance(value, ast.Unary) and value.op is ast.UnaryOp.MINUS:
        return -literal(value.operand)
    if isinstance(value, ast.SetLiteral):
        return frozenset(literal(item) for item in value.items)
    if isinstance(value, ast.String | ast.Boolean):
        return value.value
    raise TypeError(f"{type(value).__name__} is not a literal")
