"""Which events may help a pod that a policy's filter has rejected: found in what the filter reads.

A filter that reads the label `zone` of nodes cares about changes of that label and of no other; one that counts pods cares about pods;
what a builtin reads inside is known by its volatility. Every filter cares about new nodes, and all filters of a policy whose scope reads
the time care about the time: when the policy no longer governs the pod, none of them has a say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wharfinger.compiler import reads
from wharfinger.framework.cluster_event import ANY, NODE, NOTHING, POD, Change, ClusterEvent
from wharfinger.language import typed
from wharfinger.language.catalogue import Attribute, Subject, Volatility

if TYPE_CHECKING:
    from wharfinger.compiler.program import CompiledPolicy

KEYED = ClusterEvent.NODE_LABEL | ClusterEvent.NODE_ANNOTATION

_OF_ATTRIBUTE = {
    "name": NOTHING,
    "created": NOTHING,
    "labels": ClusterEvent.NODE_LABEL,
    "annotations": ClusterEvent.NODE_ANNOTATION,
    "conditions": ClusterEvent.NODE_CONDITION,
    "unschedulable": ClusterEvent.NODE_TAINT,
    "taints": ClusterEvent.NODE_TAINT,
    "allocatable": ClusterEvent.NODE_ALLOCATABLE,
    "capacity": ClusterEvent.NODE_ALLOCATABLE,
    "requested": POD,
    "free": POD | ClusterEvent.NODE_ALLOCATABLE,
    "pod_count": POD,
}
"""By the first word of a node attribute; others are any change of a node or its pods."""

AGE = "age"
"""The builtin that reads the time; nothing that happens changes it."""

_OF_VOLATILITY = {Volatility.STATIC: NODE, Volatility.ROW: NODE | POD, Volatility.TIMED: ANY, Volatility.GLOBAL: ANY}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wakes:
    """`events` that may help; of labels and annotations only these `keys` (None: any)."""

    events: ClusterEvent
    keys: frozenset[str] | None

    def concern(self, change: Change) -> bool:
        """Whether a change is among the events and, if it is one of labels or annotations only, of a key that is read."""
        concerning = change.events & self.events
        if not concerning:
            return False
        return bool(concerning & ~KEYED) or self.keys is None or not self.keys.isdisjoint(change.keys)


def of_filter(policy: CompiledPolicy, index: int) -> Wakes:
    """The events that may help a pod which the filter of that index has rejected."""
    lets = {let.name: let.value for let in policy.policy.lets}
    rule = policy.policy.filters[index]
    roots = [*([] if rule.when is None else [rule.when]), *(clause.condition for clause in rule.clauses)]
    events = ClusterEvent.NODE_ADD | (ClusterEvent.TIME if policy.scope_timed else NOTHING)
    keys: set[str | None] = set()
    for root in roots:
        for part in reads.walk(root, lets):
            events |= _events(part)
            keys |= set(_keys(part))
    return Wakes(events=events, keys=None if None in keys else frozenset(key for key in keys if key is not None))


def _events(part: typed.Expr) -> ClusterEvent:  # noqa: PLR0911 — one case per kind of expression
    match part:
        case typed.AttributeRef(attribute=attribute) if attribute.subject.value == "node":
            return _OF_ATTRIBUTE.get(attribute.path.partition(".")[0], NODE | POD)
        case typed.AttributeRef(attribute=attribute) if attribute.subject.value == "it":
            return POD
        case typed.Aggregate(per=per):
            return POD | (ClusterEvent.NODE_DELETE | ClusterEvent.NODE_LABEL if per is typed.Per.DOMAIN else ClusterEvent.NODE_DELETE)
        case typed.MetricRef():
            return ClusterEvent.METRIC | ClusterEvent.TIME
        case typed.Call(function=function) if function.name == AGE:
            return ClusterEvent.TIME
        case typed.Call(function=function) if function.context:
            return _OF_VOLATILITY[function.volatility]
        case _:
            return NOTHING


def _keys(part: typed.Expr) -> Iterator[str | None]:
    """The keys of labels and annotations of nodes that an expression reads; None for any."""
    match part:
        case typed.Matches(labels=typed.AttributeRef(attribute=attribute), requirements=requirements) if _of_node(attribute):
            yield from (requirement.key for requirement in requirements)
        case typed.AttributeRef(attribute=attribute, key=typed.Const(value=str(key))) if _of_node(attribute):
            yield key
        case typed.AttributeRef(attribute=attribute, key=typed.Expr()) if _of_node(attribute):
            yield None
        case typed.Aggregate(topology_key=str(key)):
            yield key
        case typed.Call(function=function) if function.context and function.name != AGE:
            yield None
        case _:
            return


def _of_node(attribute: Attribute) -> bool:
    return attribute.subject is Subject.NODE and attribute.keyed
