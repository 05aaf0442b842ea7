"""Which rows a Kubernetes node selector chooses, over columns.

Used wherever Kubernetes matches a `NodeSelector` against nodes: node affinity, the inclusion policies of topology spread, the node
affinity of persistent volumes. A term is parsed once per pod template; matching it is a few comparisons of label codes, and `Gt` and `Lt`
parse each distinct label value once.

The rules are those of `component-helpers/scheduling/corev1/nodeaffinity` (Kubernetes 1.36): terms are alternatives, requirements of a term
all have to hold, an empty term matches nothing, and a term that does not parse matches nothing either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.verdict import Mask, Rows
from wharfinger.model import objects, selectors, strings

if TYPE_CHECKING:
    from wharfinger.model.snapshot import Snapshot

NAME_FIELD = "metadata.name"
_INTEGER = re.compile(r"[+-]?[0-9]+\Z")


@dataclass(frozen=True, slots=True)
class Term:
    """The valid requirements of one term: on labels, and on fields."""

    labels: tuple[objects.NodeSelectorRequirement, ...]
    fields: tuple[objects.NodeSelectorRequirement, ...]


def go_int64(text: str) -> int | None:
    """The number as Go's `strconv.ParseInt(text, 10, 64)` reads it, or None where that fails."""
    if not _INTEGER.match(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def parse_terms(selector: objects.NodeSelector | None) -> tuple[Term, ...] | None:
    """The terms of a selector that can match a node at all; None where there is no selector, which then asks for nothing."""
    if selector is None:
        return None
    return tuple(parsed for term in selector.node_selector_terms if (parsed := parse_term(term)) is not None)


def parse_term(term: objects.NodeSelectorTerm) -> Term | None:
    """One term ready for matching, or None if it can match no node because it is empty or not valid."""
    if not term.match_expressions and not term.match_fields:
        return None
    if all(map(_valid_label, term.match_expressions)) and all(map(_valid_field, term.match_fields)):
        return Term(term.match_expressions, term.match_fields)
    return None


def equalities(labels: Mapping[str, str]) -> Term:
    """The term that asks for each of these labels with its value, as `nodeSelector` does; empty matches every node."""
    return Term(tuple(objects.NodeSelectorRequirement(key=key, operator="In", values=(value,)) for key, value in labels.items()), ())


def any_term(terms: Iterable[Term], snapshot: Snapshot, rows: Rows) -> Mask:
    """Which rows match one of the terms, `(n_rows,) bool`."""
    matched = np.zeros(row_count(snapshot, rows), np.bool_)
    for term in terms:
        matched |= matches(term, snapshot, rows)
    return matched


def matches(term: Term, snapshot: Snapshot, rows: Rows) -> Mask:
    """Which rows match all requirements of a term, `(n_rows,) bool`."""
    matched = np.ones(row_count(snapshot, rows), np.bool_)
    for requirement in term.labels:
        matched &= _LABEL_OPERATORS[requirement.operator](requirement, snapshot, rows)
    for requirement in term.fields:
        matched &= _field(requirement, snapshot, rows)
    return matched


def row_count(snapshot: Snapshot, rows: Rows) -> int:
    """How many rows `rows` stands for."""
    return len(range(*rows.indices(snapshot.n_nodes))) if isinstance(rows, slice) else len(rows)


def named(name: str, snapshot: Snapshot, rows: Rows) -> Mask:
    """Which rows are the node of that name, `(n_rows,) bool`."""
    row = snapshot.row(name)
    if row is None:
        return np.zeros(row_count(snapshot, rows), np.bool_)
    places: NDArray[np.intp] = np.arange(snapshot.n_nodes)[rows] if isinstance(rows, slice) else rows
    return places == row


def _valid_label(requirement: objects.NodeSelectorRequirement) -> bool:
    """Whether apimachinery's `labels.NewRequirement` accepts it."""
    values = requirement.values
    if not selectors.valid_key(requirement.key) or not all(map(selectors.valid_value, values)):
        return False
    match requirement.operator:
        case "In" | "NotIn":
            return bool(values)
        case "Exists" | "DoesNotExist":
            return not values
        case "Gt" | "Lt":
            return len(values) == 1 and go_int64(values[0]) is not None
    return False


def _valid_field(requirement: objects.NodeSelectorRequirement) -> bool:
    return requirement.operator in {"In", "NotIn"} and len(requirement.values) == 1


def _field(requirement: objects.NodeSelectorRequirement, snapshot: Snapshot, rows: Rows) -> Mask:
    wanted = requirement.values[0]
    known = requirement.key == NAME_FIELD  # a node has no other field, which reads as the empty string
    equal = named(wanted, snapshot, rows) if known else np.full(row_count(snapshot, rows), not wanted, np.bool_)
    return equal if requirement.operator == "In" else ~equal


def _one_of(requirement: objects.NodeSelectorRequirement, snapshot: Snapshot, rows: Rows) -> Mask:
    codes = snapshot.label(requirement.key)[rows]
    found = np.zeros(len(codes), np.bool_)
    for value in set(requirement.values):
        code = snapshot.strings.find(value)
        if code != strings.ABSENT:
            found |= codes == code
    return found


def _none_of(requirement: objects.NodeSelectorRequirement, snapshot: Snapshot, rows: Rows) -> Mask:
    return ~_one_of(requirement, snapshot, rows)


def _exists(requirement: objects.NodeSelectorRequirement, snapshot: Snapshot, rows: Rows) -> Mask:
    return snapshot.label(requirement.key)[rows] != strings.ABSENT


def _absent(requirement: objects.NodeSelectorRequirement, snapshot: Snapshot, rows: Rows) -> Mask:
    return snapshot.label(requirement.key)[rows] == strings.ABSENT


def _compared(requirement: objects.NodeSelectorRequirement, snapshot: Snapshot, rows: Rows) -> Mask:
    bound = int(requirement.values[0])
    greater = requirement.operator == "Gt"
    distinct, places = np.unique(snapshot.label(requirement.key)[rows], return_inverse=True)
    numbers = [go_int64(snapshot.strings.text(code) or "") for code in distinct.tolist()]
    verdict = [number is not None and (number > bound if greater else number < bound) for number in numbers]
    return np.array(verdict, np.bool_)[places]


_LABEL_OPERATORS: Mapping[str, Callable[[objects.NodeSelectorRequirement, Snapshot, Rows], Mask]] = {
    "In": _one_of,
    "NotIn": _none_of,
    "Exists": _exists,
    "DoesNotExist": _absent,
    "Gt": _compared,
    "Lt": _compared,
}
