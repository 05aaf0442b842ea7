"""Label selectors, ready to be asked which labels they match.

Parsed once, hashable and in a canonical order, so that a selector can name what is counted by it. Rules of
`apimachinery/pkg/apis/meta/v1.LabelSelectorAsSelector` and `apimachinery/pkg/labels`, Kubernetes 1.36: no selector at all matches nothing,
an empty one everything, and one with a malformed requirement is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from wharfinger.errors import InvalidObject
from wharfinger.model import objects

_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_DOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_VALUE = re.compile(rf"({_NAME})?\Z")
_KEY = re.compile(rf"(?:(?=[^/]{{1,253}}/){_DOMAIN}/)?{_NAME}\Z")


def valid_key(text: str) -> bool:
    """Whether a text may be a label's key: an optional DNS subdomain and a slash, then a name of up to 63 characters."""
    return _KEY.match(text) is not None


def valid_value(text: str) -> bool:
    """Whether a text may be a label's value: empty, or a name of up to 63 characters."""
    return _VALUE.match(text) is not None


@dataclass(frozen=True, slots=True, order=True)
class Requirement:
    """One condition on labels: In, NotIn, Exists or DoesNotExist; `values` ascending."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels meet it; NotIn is met by labels without the key."""
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "NotIn":
                return labels.get(self.key) not in self.values
            case "Exists":
                return self.key in labels
        return self.key not in labels


@dataclass(frozen=True, slots=True)
class Selector:
    """Requirements that must all be met, ascending and each once; `nothing` matches no labels whatever they are."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    @property
    def everything(self) -> bool:
        """Whether it matches any labels."""
        return not self.nothing and not self.requirements

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels are selected."""
        return not self.nothing and all(requirement.matches(labels) for requirement in self.requirements)

    def and_requirements(self, requirements: Iterable[Requirement]) -> Selector:
        """The selector with more requirements; one that matches nothing stays so."""
        return self if self.nothing else Selector(tuple(sorted({*self.requirements, *requirements})))

    def and_labels(self, labels: Mapping[str, str]) -> Selector:
        """The selector with the requirement that each of these labels has its value."""
        return self.and_requirements(equalities(labels))

    def keys(self) -> frozenset[str]:
        """The label keys that requirements are about."""
        return frozenset(requirement.key for requirement in self.requirements)


NOTHING = Selector(nothing=True)
EVERYTHING = Selector()


def equalities(labels: Mapping[str, str]) -> tuple[Requirement, ...]:
    """The requirement for each label that it has its value."""
    return tuple(Requirement(key, "In", (value,)) for key, value in labels.items())


def from_labels(labels: Mapping[str, str]) -> Selector:
    """The selector of a plain map, as in a Service: everything if it is empty."""
    return EVERYTHING.and_labels(labels)


def parse(selector: objects.LabelSelector | None) -> Selector:
    """The selector of a `labelSelector` field; InvalidObject says which requirement is malformed."""
    if selector is None:
        return NOTHING
    for key, value in selector.match_labels.items():
        if not valid_key(key) or not valid_value(value):
            raise InvalidObject(f"{key!r}: {value!r} cannot be a label")
    return EVERYTHING.and_requirements((*equalities(selector.match_labels), *map(_requirement, selector.match_expressions)))


def _requirement(expression: objects.LabelSelectorRequirement) -> Requirement:
    key, operator, values = expression.key, expression.operator, expression.values
    if operator not in {"In", "NotIn", "Exists", "DoesNotExist"}:
        raise InvalidObject(f"{operator!r} is not a valid label selector operator; there are In, NotIn, Exists and DoesNotExist")
    if not valid_key(key):
        raise InvalidObject(f"{key!r} cannot be the key of a label")
    if operator in {"In", "NotIn"} and not values:
        raise InvalidObject(f"the requirement {key} {operator} has no values")
    if operator in {"Exists", "DoesNotExist"} and values:
        raise InvalidObject(f"the requirement {key} {operator} must not have values")
    if not all(map(valid_value, values)):
        raise InvalidObject(f"the requirement {key} {operator} has a value that no label can have: {', '.join(values)}")
    return Requirement(key, operator, tuple(sorted(set(values))))
