"""A policy test made from a decision about a pod: the pod, its node and some others with the values that the policy reads, and the outcome.

A node has its allocatable resources, the labels that the policy reads, its taints, and one running pod with the sum of the requests on the
node. The test is run before it is offered; an expectation that does not hold there, because it depends on what the test leaves out, is left
out too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from wharfinger.authoring.document import Document
from wharfinger.authoring.known_cluster import KnownCluster
from wharfinger.compiler.program import CompiledPolicy, compile_policy
from wharfinger.errors import UsageError
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import decide
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.language.format import format_source
from wharfinger.language.report.diagnostics import Diagnostics, Source
from wharfinger.language.semantics.catalogue import Subject
from wharfinger.language.semantics.describe import quoted
from wharfinger.model.objects import quantity
from wharfinger.model.objects.matching import taint_text
from wharfinger.model.objects.node_view import NodeView
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.objects.requests import NATIVE_BY_FIELD
from wharfinger.policies import policy_tests

MAX_NODES = 3  # the chosen one and others
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FIELDS = {**{resource: field for field, resource in NATIVE_BY_FIELD.items()}, "pods": "pods"}  # of a node in a test


def decision_test(document: Document, cluster: KnownCluster) -> str:
    """The text of a test of the policy, from the decision about the first pod that waits and is governed.

    Raises UsageError if the policy has errors, governs no pod of the cluster, or decides by what a test cannot hold.
    """
    policy = document.checked.policy
    if policy is None:
        raise UsageError("a policy with errors decides nothing; fix them first")
    compiled = compile_policy(policy)
    pod = _pod(compiled, cluster)
    snapshot = cluster.snapshot
    decision = decide(assemble([compiled]), snapshot, pod)
    written = _DecisionTest(document, compiled, cluster, pod, decision)
    expectations = [line for line in written.expectations() if written.holds([line])]
    if not expectations:
        raise UsageError(f"nothing that happens to {pod.key} can be written as a test: it depends on values that tests do not have")
    return written.text(expectations)


def _pod(compiled: CompiledPolicy, cluster: KnownCluster) -> PodView:
    found = next((pod for pod in cluster.cluster.pending if compiled.governs(pod, cluster.snapshot)), None)
    if found is None:
        raise UsageError(f"{cluster.name} has no pod that waits and that the policy governs")
    return found


class _DecisionTest:
    """A decision written down as a test."""

    def __init__(self, document: Document, compiled: CompiledPolicy, cluster: KnownCluster, pod: PodView, decision: Decision) -> None:
        self.document = document
        self.compiled = compiled
        self.snapshot = cluster.snapshot
        self.cluster = cluster
        self.pod = pod
        self.decision = decision
        self.nodes = self._chosen()
        self.paths = {(subject, path) for subject, path, _ in compiled.reads}

    def _chosen(self) -> list[str]:
        """The node of the decision, then nodes that filters of the policy reject, then others that pass."""
        names = [self.decision.node] if self.decision.node is not None else []
        rejected = [node for rule in self.compiled.filters for node in self._rejected(rule.name)[:1]]
        return list(dict.fromkeys([*names, *rejected, *self.snapshot.names]))[:MAX_NODES]

    def _rejected(self, rule: str) -> list[str]:
        mask = self.decision.diagnosis.rejected_by(f"{self.compiled.name}/{rule}")
        return [name for name, out in zip(self.snapshot.names, mask, strict=True) if out]

    def expectations(self) -> Iterator[str]:
        """The outcome, as `expect` lines of a test."""
        pod = _name(self.pod.name)
        if self.decision.node is not None:
            yield f"expect {pod} on {_name(self.decision.node)}"
        elif len(self.nodes) == self.snapshot.n_nodes or self.compiled.filters:
            yield f"expect {pod} pending"
        for rule in self.compiled.filters:
            rejected = set(self._rejected(rule.name))
            for node in filter(rejected.__contains__, self.nodes):
                yield f"expect {_name(node)} rejected by {rule.name}"

    def holds(self, expectations: Sequence[str]) -> bool:
        """True if a test with these expectations is right and passes."""
        document = self.document.with_text(f"{self.document.text}\n\n{self.text(expectations)}")
        policy = document.checked.policy
        if policy is None:
            return False
        report = policy_tests.run([replace(policy, tests=policy.tests[-1:])])
        return all(result.passed for result in report.results)

    def text(self, expectations: Sequence[str]) -> str:
        """The test as text."""
        title = quoted(f"{self.pod.key} of {self.cluster.name}")
        lines = [line for name in self.nodes for line in self._node(name)]
        lines += [f"pod {_name(self.pod.name)}{_object(self._pod_fields())}", f"place {_name(self.pod.name)}", *expectations]
        written = "\n".join([f"test {title} {{", *(f"  {line}" for line in lines), "}", ""])
        return format_source(Source(name=self.document.name, text=written), Diagnostics()) or written

    def _node(self, name: str) -> Iterator[str]:
        row = self.snapshot.known_row(name)
        node = self.snapshot.node(row)
        yield f"node {_name(name)}{_object(self._node_fields(node))}"
        used = {key: amount for key, amount in node.requested.items() if amount and key != "pods"}
        if used:
            yield f"running {_name(f'on_{name}')} on {_name(name)}{_object({'requests': _amounts(used)})}"

    def _node_fields(self, node: NodeView) -> dict[str, str]:
        offered = node.allocatable
        fields = {field: quantity_text(key, offered[key]) for key, field in _FIELDS.items() if offered.get(key)}
        extended = {key: amount for key, amount in offered.items() if key not in _FIELDS}
        if extended:
            fields["resources"] = _amounts(extended)
        fields |= self._texts(Subject.NODE, {"labels": node.labels, "annotations": node.annotations, "conditions": node.conditions})
        if node.taints:
            fields["taints"] = _list([taint_text(taint) for taint in node.taints])
        if node.object.spec.unschedulable:
            fields["unschedulable"] = "true"
        return fields

    def _pod_fields(self) -> dict[str, str]:
        pod = self.pod
        fields = {} if pod.namespace == "default" else {"namespace": quoted(pod.namespace)}
        requests = {key: amount for key, amount in pod.requests.items() if amount and key != "pods"}
        if requests:
            fields["requests"] = _amounts(requests)
        if pod.priority:
            fields["priority"] = str(pod.priority)
        fields |= self._texts(Subject.POD, {"labels": pod.labels, "annotations": pod.annotations})
        if pod.object.spec.node_selector:
            fields["node_selector"] = _mapping(pod.object.spec.node_selector)
        tolerations = [text for each in pod.object.spec.tolerations if (text := _toleration(each))]
        if tolerations:
            fields["tolerations"] = _list(tolerations)
        if pod.controller is not None and any(path in {"owner_kind", "owner_name"} for _, path in self.paths):
            fields["owner"] = _mapping({"kind": pod.controller.kind, "name": pod.controller.name})
        if pod.object.spec.priority_class_name:
            fields["priority_class"] = quoted(pod.object.spec.priority_class_name)
        return fields

    def _texts(self, subject: Subject, held: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
        """The labels, annotations and conditions that the policy reads; all where a key is calculated."""
        found = {}
        for path, values in held.items():
            keys = {key for owner, read, key in self.compiled.reads if (owner, read) == (subject.value, path)}
            kept = {key: value for key, value in values.items() if None in keys or key in keys}
            if kept:
                found[path] = _mapping(kept)
        return found


def quantity_text(resource: str, amount: float) -> str:
    """An amount of a resource as tests write it."""
    return quantity.format_amount(resource, int(amount))


def _amounts(amounts: Mapping[str, float]) -> str:
    return "{ " + ", ".join(f"{_key(key)}: {quantity_text(key, amount)}" for key, amount in amounts.items()) + " }"


def _mapping(values: Mapping[str, str]) -> str:
    return "{ " + ", ".join(f"{_key(key)}: {quoted(value)}" for key, value in sorted(values.items())) + " }"


def _list(values: Sequence[str]) -> str:
    return f"[{', '.join(quoted(value) for value in values)}]"


def _object(fields: Mapping[str, str]) -> str:
    return " { " + ", ".join(f"{key}: {value}" for key, value in fields.items()) + " }" if fields else ""


def _key(key: str) -> str:
    plain = _FIELDS.get(key, key)
    return plain if _PLAIN.fullmatch(plain) else quoted(plain)


def _name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else quoted(name)


def _toleration(toleration: object) -> str:
    key, value, effect = (getattr(toleration, part, "") or "" for part in ("key", "value", "effect"))
    if not key:
        return ""
    text = f"{key}={value}" if value else key
    return f"{text}:{effect}" if effect else text
