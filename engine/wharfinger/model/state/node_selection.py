"""Kubernetes node selectors evaluated over columns.

Used for node affinity, the inclusion policies of topology spread, and the node affinity of persistent volumes. Terms are compiled once per
pod template (model/objects/matching.py). Matching a term is a few comparisons of label codes; `Gt` and `Lt` parse each distinct label value
once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from wharfinger.errors import InvalidObject
from wharfinger.model import objects
from wharfinger.model.columns import arrays
from wharfinger.model.objects import matching
from wharfinger.model.state.snapshot import Snapshot

COMPARED_VALUES = 8
"""Values that are compared with a column one by one, which is faster than one search for a few."""

Rows: TypeAlias = slice | NDArray[np.intp]
Mask: TypeAlias = NDArray[np.bool_]


def parse_terms(selector: objects.NodeSelector | None) -> tuple[matching.NodeTerm, ...] | None:
    """The terms of a selector that can match a node; None without a selector, which means no requirement."""
    return None if selector is None else matching.node_selector(selector).terms


class RequiredNodeAffinity(Struct, frozen=True):
    """The requirements of a pod on its node: all labels of `nodeSelector`, and one of the terms of its affinity (None: no affinity)."""

    selector: matching.NodeTerm
    terms: tuple[matching.NodeTerm, ...] | None

    def matches(self, snapshot: Snapshot, rows: Rows) -> Mask:
        """True for the rows that satisfy the requirements, `(n_rows,) bool`."""
        matched = matches(self.selector, snapshot, rows)
        return matched if self.terms is None else matched & any_term(self.terms, snapshot, rows)

    def matches_node(self, labels: Mapping[str, str], name: str) -> bool:
        """True if a node of that name and with these labels satisfies the requirements."""
        return self.selector.matches(labels, name) and (self.terms is None or any(term.matches(labels, name) for term in self.terms))


def required(pod: objects.Pod) -> RequiredNodeAffinity | None:
    """The requirements of a pod on its node (`nodeaffinity.GetRequiredNodeAffinity`); None if it has none."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    terms = parse_terms(affinity.required_during_scheduling_ignored_during_execution if affinity else None)
    if terms is None and not pod.spec.node_selector:
        return None
    return RequiredNodeAffinity(equalities(pod.spec.node_selector), terms)


def parse_term(term: objects.NodeSelectorTerm) -> matching.NodeTerm | None:
    """One term ready for matching, or None if it can match no node because it is empty or not valid."""
    try:
        return matching.node_term(term)
    except InvalidObject:
        return None


def equalities(labels: Mapping[str, str]) -> matching.NodeTerm:
    """The term that requires each of these labels with its value, as `nodeSelector` does; without labels it matches every node."""
    return matching.NodeTerm(matching.of_labels(labels))


def any_term(terms: Iterable[matching.NodeTerm], snapshot: Snapshot, rows: Rows) -> Mask:
    """True for rows that match one of the terms, `(n_rows,) bool`."""
    matched = np.zeros(row_count(snapshot, rows), np.bool_)
    for term in terms:
        matched |= matches(term, snapshot, rows)
    return matched


def matches(term: matching.NodeTerm, snapshot: Snapshot, rows: Rows) -> Mask:
    """True for rows that match all requirements of a term, `(n_rows,) bool`."""
    matched = matches_labels(term.labels, snapshot, rows)
    for requirement in term.fields:
        matched &= _field(requirement, snapshot, rows)
    return matched


def rows_with(terms: Sequence[matching.NodeTerm], snapshot: Snapshot) -> NDArray[np.intp]:
    """The rows that match one of the terms, `(n,) intp` ascending.

    The nodes with a value of a label are looked up, so that a term that requires one is not compared with every node.
    """
    found = [_rows_with(term, snapshot) for term in terms]
    return found[0] if len(found) == 1 else np.unique(np.concatenate([arrays.NONE, *found]))


def _rows_with(term: matching.NodeTerm, snapshot: Snapshot) -> NDArray[np.intp]:
    required = next((each for each in term.labels.requirements if each.operator == "In"), None)
    if required is None or term.labels.nothing:
        return np.flatnonzero(matches(term, snapshot, slice(None)))
    if not snapshot.may_have_label(required.key):
        return arrays.NONE
    topology = snapshot.topology(required.key)
    domains = (topology.domain_of(snapshot.strings.find(value)) for value in required.values)
    with_value = [topology.rows_of(domain) for domain in domains if domain != arrays.ABSENT]
    rows = with_value[0] if len(with_value) == 1 else np.sort(np.concatenate([arrays.NONE, *with_value]))
    alone = len(term.labels.requirements) == 1 and not term.fields
    return rows if alone else rows[matches(term, snapshot, rows)]


def matches_labels(selector: matching.Selector, snapshot: Snapshot, rows: Rows) -> Mask:
    """True for rows that a selector over node labels selects, `(n_rows,) bool`."""
    if selector.nothing:
        return np.zeros(row_count(snapshot, rows), np.bool_)
    matched = np.ones(row_count(snapshot, rows), np.bool_)
    for requirement in selector.requirements:
        matched &= _OPERATORS[requirement.operator](requirement, snapshot, rows)
    return matched


def row_count(snapshot: Snapshot, rows: Rows) -> int:
    """The number of rows in `rows`."""
    return len(range(*rows.indices(snapshot.n_nodes))) if isinstance(rows, slice) else len(rows)


def named(name: str, snapshot: Snapshot, rows: Rows) -> Mask:
    """True for the row of the node of that name, `(n_rows,) bool`."""
    row = snapshot.row(name)
    if row is None:
        return np.zeros(row_count(snapshot, rows), np.bool_)
    places: NDArray[np.intp] = np.arange(snapshot.n_nodes)[rows] if isinstance(rows, slice) else rows
    return np.asarray(places == row)


def _field(requirement: matching.Requirement, snapshot: Snapshot, rows: Rows) -> Mask:
    wanted = requirement.values[0]
    known = requirement.key == matching.NODE_NAME_FIELD  # any other field reads as the empty string
    equal = named(wanted, snapshot, rows) if known else np.full(row_count(snapshot, rows), not wanted, np.bool_)
    return equal if requirement.operator == "In" else ~equal


def _one_of(requirement: matching.Requirement, snapshot: Snapshot, rows: Rows) -> Mask:
    codes = snapshot.label(requirement.key)[rows]
    wanted = [code for value in requirement.values if (code := snapshot.strings.find(value)) != arrays.ABSENT]
    if len(wanted) > COMPARED_VALUES:
        return np.isin(codes, wanted)
    found = np.zeros(len(codes), np.bool_)
    for code in wanted:
        found |= codes == code
    return found


def _none_of(requirement: matching.Requirement, snapshot: Snapshot, rows: Rows) -> Mask:
    return ~_one_of(requirement, snapshot, rows)


def _exists(requirement: matching.Requirement, snapshot: Snapshot, rows: Rows) -> Mask:
    return np.asarray(snapshot.label(requirement.key)[rows] != arrays.ABSENT)


def _absent(requirement: matching.Requirement, snapshot: Snapshot, rows: Rows) -> Mask:
    return np.asarray(snapshot.label(requirement.key)[rows] == arrays.ABSENT)


def _compared(requirement: matching.Requirement, snapshot: Snapshot, rows: Rows) -> Mask:
    bound = int(requirement.values[0])
    numbers, spelled = snapshot.strings.int64s(snapshot.label(requirement.key)[rows])
    return spelled & (numbers > bound if requirement.operator == "Gt" else numbers < bound)


_OPERATORS: Mapping[str, Callable[[matching.Requirement, Snapshot, Rows], Mask]] = {
    "In": _one_of,
    "NotIn": _none_of,
    "Exists": _exists,
    "DoesNotExist": _absent,
    "Gt": _compared,
    "Lt": _compared,
}
