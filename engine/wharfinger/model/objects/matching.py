"""Label selectors and node selectors, compiled to values with a `matches` method; and tolerations of taints.

Source: apimachinery/pkg/labels and component-helpers/scheduling/corev1, Kubernetes 1.36.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from msgspec import Struct

from wharfinger.errors import InvalidObject
from wharfinger.language.semantics import selector as selectors
from wharfinger.model import objects

_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z")
_PREFIX = re.compile(r"(?=.{1,253}\Z)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*\Z")
_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
_LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_NODE_OPERATORS = (*_LABEL_OPERATORS, "Gt", "Lt")

NODE_NAME_FIELD = "metadata.name"
"""The one field of nodes that a node selector can name."""

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
KEEPING_AWAY = frozenset({NO_SCHEDULE, NO_EXECUTE})

COMPARED_TOLERATIONS = 8
"""Tolerations that are compared with a taint one by one; nearly all pods have fewer, and nothing is built for them."""

AnyTaint: TypeAlias = objects.Taint | objects.DeviceTaint
AnyToleration: TypeAlias = objects.Toleration | objects.DeviceToleration
"""Taints of nodes and of devices are tolerated by the same rules."""
TaintT = TypeVar("TaintT", objects.Taint, objects.DeviceTaint)


def valid_key(key: str) -> bool:
    """True for a label key: a name of up to 63 characters, with or without a DNS domain and a slash before it."""
    prefix, slash, name = key.rpartition("/")
    return _NAME.match(name) is not None and (not slash or _PREFIX.match(prefix) is not None)


def valid_value(value: str) -> bool:
    """True for a label value: empty, or a name of up to 63 characters."""
    return not value or _NAME.match(value) is not None


def parse_int64(text: str) -> int | None:
    """The number that Go's `strconv.ParseInt(text, 10, 64)` returns; None if it returns an error."""
    if len(text) > 4096 or _INTEGER.match(text) is None:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


class Requirement(Struct, frozen=True, order=True):
    """One condition on one label; `values` are sorted, each once."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """True if the labels satisfy the condition."""
        return self.matches_value(labels.get(self.key))

    def matches_value(self, value: str | None) -> bool:
        """True if the value of the label satisfies the condition; `value` is None if there is no such label."""
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        number = None if value is None else parse_int64(value)
        if number is None:
            return False
        return number > int(self.values[0]) if self.operator == "Gt" else number < int(self.values[0])

    def __str__(self) -> str:
        match self.operator:
            case "Exists":
                return self.key
            case "DoesNotExist":
                return f"!{self.key}"
            case "Gt" | "Lt":
                return f"{self.key}{'>' if self.operator == 'Gt' else '<'}{self.values[0]}"
        return f"{self.key} {self.operator.lower()} ({','.join(self.values)})"


class Selector(Struct, frozen=True):
    """Requirements that must all be satisfied, sorted; `nothing` selects no labels."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        """True if the labels are selected."""
        if self.nothing:
            return False
        for requirement in self.requirements:  # noqa: SIM110 — asked of every template of placed pods, and `all` takes twice as long
            if not requirement.matches_value(labels.get(requirement.key)):
                return False
        return True

    def and_labels(self, labels: Mapping[str, str]) -> Selector:
        """The selector with a requirement for each of these labels added, as for matchLabelKeys."""
        more = (Requirement(key, "In", (value,)) for key, value in labels.items())
        return Selector(_sorted([*self.requirements, *more]), self.nothing)

    def __str__(self) -> str:
        return "nothing" if self.nothing else ",".join(map(str, self.requirements)) or "everything"


EVERYTHING = Selector()
NOTHING = Selector(nothing=True)


def label_selector(selector: objects.LabelSelector | None) -> Selector:
    """A compiled label selector: NOTHING for None, EVERYTHING for an empty one. InvalidObject if Kubernetes would reject it."""
    if selector is None:
        return NOTHING
    equalities = (requirement(key, "In", (value,), _LABEL_OPERATORS) for key, value in selector.match_labels.items())
    expressions = (requirement(one.key, one.operator, one.values, _LABEL_OPERATORS) for one in selector.match_expressions)
    return Selector(_sorted([*equalities, *expressions]))


def parse_selector(text: str) -> Selector:
    """The selector that `kubectl -l` reads: `app=web,tier!=db,zone in (a,b),gpu,!spot`. InvalidObject if Kubernetes would reject it."""
    try:
        read = selectors.parse_selector(text)
    except selectors.SelectorError as error:
        raise InvalidObject(f"selector {text!r}: {error}") from error
    if not read:
        raise InvalidObject("selector: it is empty")
    return Selector(_sorted(requirement(each.key, each.op.value, each.values) for each in read))


def of_labels(labels: Mapping[str, str]) -> Selector:
    """A selector that requires each of these labels, unchecked; without labels it selects everything (labels.SelectorFromSet)."""
    return Selector(_sorted(Requirement(key, "In", (value,)) for key, value in labels.items()))


def requirement(key: str, operator: str, values: Iterable[str], operators: tuple[str, ...] = _NODE_OPERATORS) -> Requirement:
    """A checked requirement; InvalidObject if labels.NewRequirement would return an error."""
    values = tuple(values)
    if operator not in operators:
        raise InvalidObject(f"selector on {key!r}: operator {operator!r} is none of {', '.join(operators)}")
    if not valid_key(key):
        raise InvalidObject(f"selector: {key!r} is not a label key")
    wrong = next((value for value in values if not valid_value(value)), None)
    if wrong is not None:
        raise InvalidObject(f"selector on {key!r}: {wrong!r} is not a label value")
    _check_values(key, operator, values)
    return Requirement(key, operator, tuple(sorted(set(values))))


def _check_values(key: str, operator: str, values: tuple[str, ...]) -> None:
    if operator in {"In", "NotIn"} and not values:
        raise InvalidObject(f"selector on {key!r}: {operator} needs at least one value")
    if operator in {"Exists", "DoesNotExist"} and values:
        raise InvalidObject(f"selector on {key!r}: {operator} takes no values")
    if operator in {"Gt", "Lt"} and (len(values) != 1 or parse_int64(values[0]) is None):
        raise InvalidObject(f"selector on {key!r}: {operator} needs exactly one whole number")


def _sorted(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    return tuple(sorted(set(requirements)))


class NodeTerm(Struct, frozen=True):
    """One compiled term of a node selector: conditions on labels, and on the node's name (`fields`)."""

    labels: Selector
    fields: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """True if a node of that name and with these labels satisfies the term."""
        if not self.labels.matches(labels):
            return False
        # A node has one field, its name; any other reads as the empty string.
        found = ((name if one.key == NODE_NAME_FIELD else "") in one.values for one in self.fields)
        return all(inside == (one.operator == "In") for inside, one in zip(found, self.fields, strict=True))


def node_term(term: objects.NodeSelectorTerm) -> NodeTerm | None:
    """A compiled term; None for an empty term, which matches no node. InvalidObject if it is not valid."""
    if not term.match_expressions and not term.match_fields:
        return None
    labels = (requirement(one.key, one.operator, one.values) for one in term.match_expressions)
    return NodeTerm(Selector(_sorted(labels)), tuple(_field_requirement(one) for one in term.match_fields))


def _field_requirement(one: objects.NodeSelectorRequirement) -> Requirement:
    if one.operator not in {"In", "NotIn"} or len(one.values) != 1:
        raise InvalidObject(f"selector on field {one.key!r}: only In and NotIn with exactly one value")
    return Requirement(one.key, one.operator, one.values)


class NodeChoice(Struct, frozen=True):
    """A compiled node selector: one of its terms must match; without terms it selects no node."""

    terms: tuple[NodeTerm, ...]

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """True if a node of that name and with these labels is selected."""
        return any(term.matches(labels, name) for term in self.terms)


def node_selector(selector: objects.NodeSelector) -> NodeChoice:
    """A compiled node selector; terms that are empty or not valid match no node, as in nodeaffinity.NewLazyErrorNodeSelector."""
    terms = []
    for term in selector.node_selector_terms:
        try:
            compiled = node_term(term)
        except InvalidObject:
            continue
        if compiled is not None:
            terms.append(compiled)
    return NodeChoice(tuple(terms))


def tolerates(toleration: AnyToleration, taint: AnyTaint) -> bool:
    """True if a toleration tolerates a taint; an empty effect matches every effect, an empty key every key."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in {"", "Equal"}:
        return toleration.value == taint.value
    return toleration.operator == "Exists"


@dataclass(slots=True)
class Tolerations:
    """The tolerations of a pod or request. A few are compared with each taint; of more, those for a taint are looked up."""

    given: Sequence[AnyToleration]
    _known: frozenset[tuple[str, str, str | None]] | None = field(init=False, default=None, compare=False, repr=False)
    """(key, effect, value), None for any value; None if they are few."""

    def __post_init__(self) -> None:
        if len(self.given) > COMPARED_TOLERATIONS:
            valid = (each for each in self.given if each.operator in {"", "Equal", "Exists"})
            self._known = frozenset((each.key, each.effect, None if each.operator == "Exists" else each.value) for each in valid)

    def tolerate(self, taint: AnyTaint) -> bool:
        """True if one of them tolerates a taint."""
        if self._known is None:
            return any(tolerates(toleration, taint) for toleration in self.given)
        named = itertools.product((taint.key, ""), (taint.effect, ""), (taint.value, None))
        return any(each in self._known for each in named)

    def untolerated(self, taints: Iterable[TaintT], effects: Collection[str] = KEEPING_AWAY) -> list[TaintT]:
        """The taints of these effects that none of them tolerates."""
        return [taint for taint in taints if taint.effect in effects and not self.tolerate(taint)]


def untolerated(tolerations: Sequence[AnyToleration], taints: Iterable[TaintT], effects: Collection[str] = KEEPING_AWAY) -> list[TaintT]:
    """The taints of these effects that no toleration tolerates."""
    return Tolerations(tolerations).untolerated(taints, effects)


def taint_text(taint: AnyTaint) -> str:
    """A taint as kubectl writes it: `key=value:Effect`, or `key:Effect` without a value."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
