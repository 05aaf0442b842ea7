"""The amounts behind rejections by Kubernetes' own filters, and the changes after which a node would accept the pod.

kube-scheduler's reasons name a resource or a taint at most; the amounts are what people look up next. A remedy is advice, not a promise:
each sentence is about one filter alone, and what it proposes may be unwise. A reason that is complete has no remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from wharfinger.compiler.interpreter import Interpreter
from wharfinger.compiler.program import CompiledPolicy
from wharfinger.explain.conditions import passes, printed, quick_interpreter_of
from wharfinger.framework.chain import Chain
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.typed import Op
from wharfinger.model.objects import matching
from wharfinger.model.objects.node_view import NodeView
from wharfinger.model.objects.pod_view import PodView, taken_ports
from wharfinger.model.objects.quantity import format_amount
from wharfinger.model.state.snapshot import Snapshot


def details(rule: str, pod: PodView, node: NodeView) -> tuple[str, ...]:
    """Lines with the amounts, taints or labels that caused a rejection by a built-in filter; none if the reason has them already."""
    return tuple(detail for detail, _ in _of_builtin(rule, pod, node) if detail)


MAX_REMEDIES = 8

_BOUNDS = {
    Op.LT: ("less than", "at least"),
    Op.LE: ("at most", "more than"),
    Op.GT: ("more than", "at most"),
    Op.GE: ("at least", "less than"),
    Op.EQ: ("equal to", "other than"),
}
"""The value of the left side that would make a comparison true, and the one that would make it false."""


class Remedies:
    """The changes that would satisfy the filters of a chain."""

    def __init__(self, chain: Chain) -> None:
        self._rules = {f"{policy.name}/{rule.name}": (policy, rule) for policy in chain.policies for rule in policy.policy.filters}

    def of(self, rule: str, pod: PodView, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        """Sentences about a filter that rejects the node of a row; none if the reason is complete."""
        found = self._rules.get(rule)
        if found is not None:
            sentences = _of_policy(*found, pod, snapshot, row)
        else:
            sentences = (remedy for _, remedy in _of_builtin(rule, pod, snapshot.node(row)))
        return tuple(dict.fromkeys(sentences))[:MAX_REMEDIES]


def _of_policy(policy: CompiledPolicy, rule: typed.Filter, pod: PodView, snapshot: Snapshot, row: int) -> Iterator[str]:
    interpreter = quick_interpreter_of(policy, pod, snapshot)
    for clause, answer in interpreter.filter(rule, row):
        if not passes(clause, answer):
            yield from _for(clause.condition, True, interpreter, row)


def _for(expression: typed.Expr, wanted: bool, interpreter: Interpreter, row: int) -> Iterator[str]:
    """The changes by which a condition would get the wanted value."""
    if interpreter.value(expression, row) is wanted:
        return
    if isinstance(expression, typed.Operation):
        if expression.op is Op.NOT:
            yield from _for(expression.operands[0], not wanted, interpreter, row)
            return
        if expression.op in {Op.AND, Op.OR}:
            parts = [tuple(_for(part, wanted, interpreter, row)) for part in expression.operands]
            yield from _joined(parts, either=(expression.op is Op.OR) is wanted)
            return
        if expression.op in _BOUNDS:
            yield _compared(expression, wanted, interpreter, row)
            return
    yield f"`{_text(expression)}` would have to be {'true' if wanted else 'false'}{_missing(expression, interpreter, row)}"


def _joined(parts: list[tuple[str, ...]], *, either: bool) -> Iterator[str]:
    """The sentences of several conditions: of all of them, or of one (`either`)."""
    if either:
        yield "; or ".join(" and ".join(part) for part in parts if part)
    else:
        yield from (sentence for part in parts for sentence in part)


def _compared(expression: typed.Operation, wanted: bool, interpreter: Interpreter, row: int) -> str:
    left, right = expression.operands
    if isinstance(left, typed.Const | typed.ParamRef) and expression.op in _MIRRORED:  # `0.8 >= usage` is about usage
        left, right = right, left
        op = _MIRRORED[expression.op]
    else:
        op = expression.op
    is_now, bound = interpreter.value(left, row), interpreter.value(right, row)
    if is_now is None:
        return f"`{_text(left)}` is not known of this node, and would have to be {_BOUNDS[op][not wanted]} {printed(bound, right)}"
    if bound is None:
        return f"`{_text(right)}` is not known of this node"
    return f"`{_text(left)}` is {printed(is_now, left)} and would have to be {_BOUNDS[op][not wanted]} {printed(bound, right)}"


_MIRRORED = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE, Op.EQ: Op.EQ}


def _text(expression: typed.Expr) -> str:
    """The author's text, on one line."""
    return " ".join(expression.span.text.split())


def _missing(expression: typed.Expr, interpreter: Interpreter, row: int) -> str:
    return "; something that it reads is missing" if interpreter.value(expression, row) is None else ""


# ── Kubernetes' own filters: (the details of the rejection, "" if the reason is complete; what would have to change) ──


Pair = tuple[str, str]


def _of_builtin(rule: str, pod: PodView, node: NodeView) -> Iterator[Pair]:
    builtin = _BUILTIN.get(rule)
    return iter(()) if builtin is None else builtin(pod, node)


def _resources(pod: PodView, node: NodeView) -> Iterator[Pair]:
    allocatable, free = node.allocatable, node.free
    for resource, wanted in pod.requests.items():
        has, whole = free.get(resource, 0), allocatable.get(resource, 0)
        if wanted <= has:
            continue
        amounts = (format_amount(resource, amount) for amount in (wanted, has, whole))
        detail = "{}: {} wanted, {} free of {}".format(resource, *amounts)
        if wanted > whole:
            yield detail, f"it would have to request at most {format_amount(resource, whole)} of {resource}, which is all that the node has"
        else:
            more, most = format_amount(resource, wanted - has), format_amount(resource, max(has, 0))
            yield detail, f"{more} of {resource} would have to become free, or the pod request at most {most}"
    if free.get("pods", 0) < 1:
        detail = f"pods: {len(node.pods)} on the node, which takes {allocatable.get('pods', 0)}"
        yield detail, "a pod would have to leave the node: it has as many as it takes"


def _taints(pod: PodView, node: NodeView) -> Iterator[Pair]:
    for taint in pod.tolerations.untolerated(node.taints):
        shown = matching.taint_text(taint)
        yield f"taint {shown}", f"the pod would have to tolerate {shown}, or the node lose that taint"


def _cordoned(_pod: PodView, node: NodeView) -> Iterator[Pair]:
    yield "", f"the node would have to be uncordoned (`kubectl uncordon {node.name}`)"


def _affinity(pod: PodView, node: NodeView) -> Iterator[Pair]:
    lacking = {key: value for key, value in pod.object.spec.node_selector.items() if node.labels.get(key) != value}
    for key, value in lacking.items():
        has = f"it has {key}={node.labels[key]}" if key in node.labels else "it has no such label"
        detail = f"nodeSelector {key}={value}, the node has {node.labels.get(key, 'no such label')}"
        yield detail, f"the node would have to have the label {key}={value}; {has}"
    if not lacking:
        yield "", "the node would have to match a term of the pod's required node affinity"


def _ports(pod: PodView, node: NodeView) -> Iterator[Pair]:
    for (_, protocol, port), other in taken_ports(pod, node.pods):
        user = other.key if other.namespace == pod.namespace else "a pod of another namespace"  # explanations are passed on
        yield f"{protocol} port {port} is used by {user}", f"{user} would have to leave {protocol} port {port}"


_BUILTIN: Mapping[str, Callable[[PodView, NodeView], Iterator[Pair]]] = {
    "NodeResourcesFit": _resources,
    "TaintToleration": _taints,
    "NodeUnschedulable": _cordoned,
    "NodeAffinity": _affinity,
    "NodePorts": _ports,
}
