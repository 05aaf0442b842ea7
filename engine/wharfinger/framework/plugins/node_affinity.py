"""NodeName and NodeAffinity: the node that a pod names, and the nodes that it requires or prefers by label or name."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.arguments import BuiltInArguments, checked
from wharfinger.framework.cluster_event import Change, ClusterEvent
from wharfinger.framework.extension import FilterPlugin, GroupedHints, ScorePlugin, object_argument
from wharfinger.framework.prepared import SKIP, Attempt, DefaultNormalize, Mask, PreparedFilter, PreparedScore, Reason, Rejected, Rows, Skip
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model import objects
from wharfinger.model.objects import matching
from wharfinger.model.state import node_selection

if TYPE_CHECKING:
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot

CONFLICT = Reason("pod affinity terms conflict", resolvable=False)
MAX_REQUIREMENTS, MAX_LABELS, MAX_VALUES = 1_000, 50, 10_000
"""Of a pod: requirements on its node, each of which is evaluated on all nodes; labels that they name, whose values are read of all nodes
when a label is new; and values in them."""


class NodeName(FilterPlugin):
    """`pkg/scheduler/framework/plugins/nodename`, Kubernetes 1.36."""

    name = "NodeName"
    filter_volatility = Volatility.STATIC
    wakes_on = ClusterEvent.NODE_ADD

    def identity(self, pod: PodView) -> Hashable:
        """The pod's `nodeName`, which is not part of the template."""
        return pod.node_name or None

    def prepare_filter(self, attempt: Attempt) -> PreparedFilter | Skip:
        """Skip for a pod that names no node."""
        return OtherName(attempt.pod.node_name) if attempt.pod.node_name else SKIP


class OtherName(PreparedFilter):
    """Bit 0 for all nodes but the one named."""

    reasons = (Reason("node(s) didn't match the requested node name", resolvable=False),)

    def __init__(self, name: str) -> None:
        self._name = name

    def bits(self, snapshot: Snapshot, rows: Rows) -> Mask:
        """The verdicts."""
        return ~node_selection.named(self._name, snapshot, rows)


class NodeAffinityArguments(BuiltInArguments, frozen=True, kw_only=True):
    """`addedAffinity`: node affinity that every pod has besides its own, as in NodeAffinityArgs."""

    added_affinity: Annotated[dict[str, Any] | None, checked(_node_affinity)] = None


class NodeAffinity(GroupedHints, FilterPlugin, ScorePlugin):
    """`pkg/scheduler/framework/plugins/nodeaffinity`, Kubernetes 1.36."""

    name = "NodeAffinity"
    arguments_model = NodeAffinityArguments
    filter_volatility = Volatility.STATIC
    wakes_on = ClusterEvent.NODE_ADD | ClusterEvent.NODE_LABEL
    score_volatility = Volatility.STATIC
    default_weight = 2
    normalization = DefaultNormalize()
    same_hints = True

    def __init__(self, arguments: NodeAffinityArguments | None = None) -> None:
        super().__init__(arguments)
        added = _node_affinity(self.arguments.added_affinity)
        self.enforced = node_selection.parse_terms(_required_selector(added))
        self.added_preferences = _preferences(added)

    def prepare_filter(self, attempt: Attempt) -> PreparedFilter | Skip | Rejected:
        """Skip without requirements; `Rejected` if there are too many, or if the names of nodes in the terms contradict each other."""
        too_many = _too_many(attempt.pod.object)
        if too_many:
            return Rejected((Reason(too_many, resolvable=False),))
        needed = node_selection.required(attempt.pod.object)
        if needed is None and self.enforced is None:
            return SKIP
        names = _names(_required_selector(_own(attempt.pod.object)))
        return Rejected((CONFLICT,)) if names is not None and not names else AffinityFilter(needed, self.enforced, names)

    def hint_group(self, pod: PodView) -> Hashable:
        """The pod's node selector and node affinity."""
        return msgspec.json.encode([pod.object.spec.node_selector, _own(pod.object)], order="deterministic")

    def may_help(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:
        """True if the node of the change meets the requirements of the pod now."""
        if _too_many(pod.object):
            return False  # no event makes them fewer
        row = None if change.node is None else snapshot.row(change.node)
        needed = node_selection.required(pod.object)
        return row is None or needed is None or bool(needed.matches(snapshot, np.array([row], np.intp))[0])

    def prepare_score(self, attempt: Attempt, feasible: Mask) -> PreparedScore | Skip:  # noqa: ARG002 — the extension point
        """Skip without preferences."""
        preferences = (*_preferences(_own(attempt.pod.object)), *self.added_preferences)
        return AffinityScore(preferences) if preferences else SKIP


class AffinityFilter(PreparedFilter):
    """Bit 0 where the pod's own affinity does not match, bit 1 where the enforced one does not; `nodes` if every term names nodes."""

    reasons = (
        Reason("node(s) didn't match Pod's node affinity/selector", resolvable=False),
        Reason("node(s) didn't match scheduler-enforced node affinity", resolvable=False),
    )

    def __init__(
        self,
        needed: node_selection.RequiredNodeAffinity | None,
        enforced: tuple[matching.NodeTerm, ...] | None,
        names: frozenset[str] | None,
    ) -> None:
        self._needed = needed
        self._enforced = enforced
        self.nodes = names

    def bits(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.uint8]:
        """The verdicts."""
        bits = np.zeros(node_selection.row_count(snapshot, rows), np.uint8)
        if self._needed is not None:
            bits[~self._needed.matches(snapshot, rows)] = 1
        if self._enforced is not None:  # looked at first, and the first failure is the one reported
            bits[~node_selection.any_term(self._enforced, snapshot, rows)] = 2
        return bits


Preferences = tuple[tuple[int, matching.NodeTerm | None], ...]


class AffinityScore(PreparedScore):
    """The sum of the weights of the preferences that match."""

    def __init__(self, preferences: Preferences) -> None:
        self._preferences = preferences

    def raw(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.int64]:
        """The raw scores."""
        raw = np.zeros(node_selection.row_count(snapshot, rows), np.int64)
        for weight, term in self._preferences:
            if term is not None:
                raw += weight * node_selection.matches(term, snapshot, rows)
        return raw


def _node_affinity(raw: dict[str, Any] | None) -> objects.NodeAffinity | None:
    return None if raw is None else object_argument(raw, objects.NodeAffinity)


def _own(pod: objects.Pod) -> objects.NodeAffinity | None:
    return pod.spec.affinity.node_affinity if pod.spec.affinity else None


def _required_selector(affinity: objects.NodeAffinity | None) -> objects.NodeSelector | None:
    return affinity.required_during_scheduling_ignored_during_execution if affinity else None


def _preferences(affinity: objects.NodeAffinity | None) -> Preferences:
    """(weight, term) for each preference; a preference that can match no node still counts as one."""
    preferred = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
    return tuple((preference.weight, node_selection.parse_term(preference.preference)) for preference in preferred)


def _too_many(pod: objects.Pod) -> str:
    """An error if the node affinity of a pod has more requirements than can be evaluated; "" otherwise."""
    own = _own(pod)
    if own is None and len(pod.spec.node_selector) <= MAX_LABELS:
        return ""
    labels, n_requirements, n_values = set(pod.spec.node_selector), len(pod.spec.node_selector), len(pod.spec.node_selector)
    for term in _terms(own):
        labels.update(one.key for one in term.match_expressions)
        n_requirements += len(term.match_expressions) + len(term.match_fields)
        n_values += sum(len(one.values) for one in (*term.match_expressions, *term.match_fields))
    counted = (
        (n_requirements, MAX_REQUIREMENTS, "requirements on its node"),
        (len(labels), MAX_LABELS, "different labels in its requirements on its node"),
        (n_values, MAX_VALUES, "values in its requirements on its node"),
    )
    return next((f"the pod has {n:,} {what}; at most {limit:,} are supported" for n, limit, what in counted if n > limit), "")


def _terms(affinity: objects.NodeAffinity | None) -> Iterator[objects.NodeSelectorTerm]:
    """All terms, required and preferred."""
    selector = _required_selector(affinity)
    yield from () if selector is None else selector.node_selector_terms
    preferred = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
    yield from (each.preference for each in preferred)


def _names(selector: objects.NodeSelector | None) -> frozenset[str] | None:
    """The only node names that any term can match, or None if a term names no nodes."""
    if selector is None or not selector.node_selector_terms:
        return None
    names: frozenset[str] = frozenset()
    for term in selector.node_selector_terms:
        lists = [frozenset(field.values) for field in term.match_fields if field.key == matching.NODE_NAME_FIELD and field.operator == "In"]
        if not lists:
            return None
        names |= frozenset.intersection(*lists)
    return names
