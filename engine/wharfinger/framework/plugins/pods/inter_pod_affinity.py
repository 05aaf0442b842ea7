"""InterPodAffinity: affinity and anti-affinity of the incoming pod to placed pods, and of placed pods to the incoming pod.

Filter and score read counts of placed pods per topology domain, kept for one pod template. For an incoming pod of the template there are
four kinds of placed pods:

- wanted: all required affinity terms of the incoming pod match the placed pod;
- repelled: a required anti-affinity term of the incoming pod matches it;
- repelling: a required anti-affinity term of the placed pod matches the incoming pod;
- scored: a preferred term of either pod, or a required affinity term of the placed pod, matches the other.

Each kind is a selection that the cluster's state keeps up to date. A tally has the topology keys in the terms of placed pods.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from wharfinger.errors import InvalidObject
from wharfinger.framework.arguments import BuiltInArguments
from wharfinger.framework.cluster_event import Change, ClusterEvent
from wharfinger.framework.domains import DomainAnswers, renew_all
from wharfinger.framework.extension import CountingPlugin, FilterPlugin, GroupedHints, ScorePlugin
from wharfinger.framework.plugins.pods import affinity_terms as affinity
from wharfinger.framework.plugins.pods.affinity_terms import Term
from wharfinger.framework.prepared import (
    ALL,
    OUTDATED,
    SKIP_ALWAYS,
    Affected,
    Attempt,
    Changes,
    Mask,
    ObjectRevision,
    PreparedFilter,
    PreparedScore,
    Reason,
    Rejected,
    Rows,
    Skip,
)
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model import objects
from wharfinger.model.objects.requests import MAX_AMOUNT

if TYPE_CHECKING:
    from wharfinger.framework.eviction import Supposition
    from wharfinger.model.columns.domains import Topology
    from wharfinger.model.columns.pod_table import ReadInSteps, Tally
    from wharfinger.model.columns.selection import Selection
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot


NAME = "InterPodAffinity"
REASONS = (
    Reason("node(s) didn't match pod affinity rules", resolvable=False),
    Reason("node(s) didn't match pod anti-affinity rules"),
    Reason("node(s) didn't satisfy existing pods anti-affinity rules"),
)
UNMATCHED, REPELLED, UNWELCOME = 1, 2, 4  # the bits of the reasons
MAX_TERMS = 100
"""The maximum number of terms of a pod to be placed: each may be compared with all templates of placed pods."""
REQUIRED, REQUIRED_ANTI, PREFERRED = "required", "required anti", "preferred"

T = TypeVar("T")
AnswersByKey = dict[str, DomainAnswers]


class InterPodAffinityArguments(BuiltInArguments, frozen=True, kw_only=True):
    """InterPodAffinityArgs: the weight of placed pods' required affinity to the incoming pod, and whether to ignore their preferences."""

    hard_pod_affinity_weight: Annotated[int, Meta(ge=0, le=100)] = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class MinMaxNormalize(Struct, frozen=True):
    """`NormalizeScore` of the plugin: the lowest raw score becomes 0, the highest 100; all 0 where they are equal."""

    least: float = -np.inf

    def points(self, scores: NDArray[Any], low: float, high: float) -> NDArray[np.int64]:
        """`100·(raw − low)/(high − low)`, truncated."""
        if high <= low:
            return np.zeros(len(scores), np.int64)
        return (100.0 * ((scores - low) / (high - low))).astype(np.int64)


class InterPodAffinity(GroupedHints, CountingPlugin, FilterPlugin, ScorePlugin):
    """`pkg/scheduler/framework/plugins/interpodaffinity`, Kubernetes 1.36."""

    name = NAME
    arguments_model = InterPodAffinityArguments
    filter_volatility = Volatility.GLOBAL
    wakes_on = (
        ClusterEvent.NODE_ADD
        | ClusterEvent.NODE_LABEL
        | ClusterEvent.POD_PLACED
        | ClusterEvent.POD_CHANGED
        | ClusterEvent.POD_REMOVED
        | ClusterEvent.NAMESPACE
    )
    score_volatility = Volatility.GLOBAL
    default_weight = 2
    normalization = MinMaxNormalize()

    def may_help(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:
        """True if a change of a placed pod, namespace or node may satisfy the terms between this pod and placed pods.

        As `isSchedulableAfterPodChange` and `isSchedulableAfterNodeChange` (plugins/interpodaffinity/plugin.go, 1.36).
        """
        try:
            terms = _terms_of_incoming(pod)
        except InvalidObject:
            return False  # no event makes them readable
        if change.pod is not None:
            return _may_fit_now(affinity.Hints(pod, terms, snapshot.objects), change, change.pod)
        if change.events & ClusterEvent.NAMESPACE:
            return True
        keys = {term.topology_key for term in terms.required}
        if change.events & ClusterEvent.NODE_ADD:
            return not keys or change.now is None or not keys.isdisjoint(change.now.metadata.labels)
        keys |= {term.topology_key for term in terms.required_anti}
        return not change.keys.isdisjoint(keys) or not change.keys.isdisjoint(anti_affinity_keys(snapshot))

    def hint_group(self, pod: PodView) -> Hashable:
        """Everything that the pod's terms depend on (`affinity_terms.terms_key`)."""
        return affinity.terms_key(pod)

    def may_help_group(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:
        """True if `may_help` may be true for some pod with these terms and any labels."""
        placed = change.pod
        if placed is None or change.events & ClusterEvent.POD_PLACED:
            return self.may_help(pod, change, snapshot)
        try:
            hints = affinity.Hints(pod, _terms_of_incoming(pod), snapshot.objects)
        except InvalidObject:
            return False
        if change.events & ClusterEvent.POD_REMOVED:
            return hints.removal_may_help(placed)
        return change.was is None or hints.removal_may_help(change.was) or hints.added_helps(placed)

    def counting(self, pod: PodView, snapshot: Callable[[], Snapshot]) -> Iterator[ReadInSteps]:
        """Yield the topology keys of placed pods, the pods that the filter reads, and those with a score."""
        yield snapshot().tally((NAME, "topology keys"), _keys_of)
        incoming = IncomingPod(pod, snapshot())
        terms = incoming.terms
        if terms.required:
            yield _wanted(snapshot(), incoming)
        for key in _on_nodes(_keys(terms.required_anti), snapshot()):
            yield _repelled(snapshot(), incoming, key)
        for key in _on_nodes(incoming.keys(REQUIRED_ANTI), snapshot()):
            yield _repelling(snapshot(), incoming, key)
        if self.arguments.ignore_preferred_terms_of_existing_pods and not terms.preferred:
            return
        keys = _scoring_keys(incoming, self.arguments.hard_pod_affinity_weight, snapshot())
        for select in (_scores, _scored):
            scored = False
            for key in keys:
                selection = select(snapshot(), incoming, key, self.arguments.hard_pod_affinity_weight)
                yield selection
                scored = scored or bool(selection.by_node.any())
            if scored:  # else the score asks if there are pods whose scores add up to 0
                return

    def prepare_filter(self, attempt: Attempt) -> PreparedFilter | Skip | Rejected:
        """Skip if neither the pod nor any placed pod has required terms that matter; `Rejected` if a selector cannot be read."""
        try:
            incoming_pod = _incoming_pod(attempt)
        except InvalidObject as error:
            return Rejected((Reason(f"pod affinity cannot be read: {error}", resolvable=False),))
        prepared = PreparedAffinityFilter(incoming_pod, attempt.snapshot)
        return prepared if prepared.matter else Skip(incoming_pod.is_valid)

    def prepare_score(self, attempt: Attempt, feasible: Mask) -> PreparedScore | Skip:  # noqa: ARG002 — the extension point
        """Skip if no term matches between this pod and a placed pod."""
        if self.arguments.ignore_preferred_terms_of_existing_pods and not affinity.terms_of(attempt.pod).preferred:
            return SKIP_ALWAYS
        incoming_pod = _incoming_pod(attempt)
        prepared = PreparedAffinityScore(incoming_pod, attempt.snapshot, self.arguments.hard_pod_affinity_weight)
        return prepared if prepared.any(attempt.snapshot) else Skip(prepared.is_valid if prepared.domains else incoming_pod.is_valid)


def _incoming_pod(attempt: Attempt) -> IncomingPod:
    return attempt.shared.once(SharedIncomingPod, SharedIncomingPod).latest(attempt)


def _terms_of_incoming(pod: PodView) -> affinity.Terms:
    """The terms of a pod to be placed; InvalidObject if a selector cannot be read, or for more than `MAX_TERMS` terms."""
    terms = affinity.terms_of(pod)
    if terms.count > MAX_TERMS:
        raise InvalidObject(f"there are {terms.count:,} terms; at most {MAX_TERMS} are supported")
    return terms


def _may_fit_now(hints: affinity.Hints, change: Change, placed: PodView) -> bool:
    if change.events & ClusterEvent.POD_PLACED:
        return hints.added_helps(placed)
    if change.events & ClusterEvent.POD_REMOVED:
        return hints.removed_helps(placed)
    return change.was is None or hints.changes(change.was, placed)


class IncomingPod:
    """An incoming pod of one template with its resolved terms; its methods match terms between it and placed pods.

    InvalidObject if a selector cannot be read, or for more than `MAX_TERMS` terms.
    """

    __slots__ = ("_anti", "_namespaces", "_preferred", "_seen", "_used", "identity", "keys_seen", "namespace_labels", "pod", "terms")

    def __init__(self, pod: PodView, snapshot: Snapshot) -> None:
        store = snapshot.objects
        self.pod = pod
        self.terms = _terms_of_incoming(pod).resolved(store)
        self._anti = _by_key((term, term) for term in self.terms.required_anti)
        self._preferred = _by_key((term, (weight, term)) for weight, term in self.terms.preferred)
        self.namespace_labels = affinity.labels_of_namespace(pod.namespace, store)
        self.identity = (pod.namespace, _items(pod.labels), _items(self.namespace_labels))
        self._namespaces = ObjectRevision(snapshot, objects.Namespace)
        self._seen = snapshot.revision
        self._used: Tally = snapshot.tally((NAME, "topology keys"), _keys_of)
        self.keys_seen = self._used.follow()

    def is_valid(self, snapshot: Snapshot) -> bool:
        """True if nodes, namespaces and the topology keys of placed pods' terms have not changed."""
        if snapshot.revision == self._seen:
            return True
        changed = snapshot.node_changes(self._seen)
        if changed is None or len(changed) or self._used.follow() != self.keys_seen or not self._namespaces.unchanged(snapshot):
            return False
        self._seen = snapshot.revision
        return True

    def keys(self, *kinds: str) -> list[str]:
        """The topology keys of placed pods' terms of these kinds, sorted."""
        return sorted(_used_keys(self._used, *kinds))

    def matches_incoming(self, term: Term) -> bool:
        """True if a placed pod's term matches the incoming pod."""
        return term.matches(self.pod, self.namespace_labels)

    def is_wanted(self, placed: PodView) -> bool:
        """True if the incoming pod has required affinity terms and all of them match a placed pod."""
        return affinity.matches_all(self.terms.required, placed)

    def repels(self, topology_key: str, placed: PodView) -> bool:
        """True if a required anti-affinity term of the incoming pod with that key matches a placed pod."""
        return any(term.matches(placed, {}) for term in self._anti[topology_key])

    def repelling_by(self, topology_key: str) -> tuple[Term, ...]:
        """The required anti-affinity terms of the incoming pod with that key."""
        return self._anti[topology_key]

    def is_repelled(self, topology_key: str, placed: PodView) -> bool:
        """True if a required anti-affinity term of a placed pod with that key matches the incoming pod."""
        return any(
            term.topology_key == topology_key and self.matches_incoming(term) for term in affinity.terms_of_placed(placed).required_anti
        )

    def score_of(self, topology_key: str, hard_weight: int, placed: PodView) -> float | None:
        """The weight that a placed pod adds to its domain of a key, in sum; None if no term of either pod matches the other."""
        theirs = affinity.terms_of_placed(placed)
        own = ((weight, term.matches(placed, {})) for weight, term in self._preferred.get(topology_key, ()))
        others = ((weight, self.matches_incoming(term)) for weight, term in theirs.preferred if term.topology_key == topology_key)
        hard = (
            (hard_weight, bool(hard_weight) and self.matches_incoming(term))
            for term in theirs.required
            if term.topology_key == topology_key
        )
        found = [weight for weights in (own, others, hard) for weight, about in weights if about]
        return float(sum(found)) if found else None


class SharedIncomingPod:
    """The incoming pod of a template, shared by filter and score, and renewed when it is outdated."""

    __slots__ = ("_latest",)

    def __init__(self) -> None:
        self._latest: IncomingPod | None = None

    def latest(self, attempt: Attempt) -> IncomingPod:
        """The incoming pod with its terms resolved for the cluster as it is."""
        if self._latest is None or not self._latest.is_valid(attempt.snapshot):
            self._latest = IncomingPod(attempt.pod, attempt.snapshot)
        return self._latest


def anti_affinity_keys(snapshot: Snapshot) -> set[str]:
    """The topology keys of the required anti-affinity terms of placed pods."""
    return _used_keys(snapshot.tally((NAME, "topology keys"), _keys_of), REQUIRED_ANTI)


def _used_keys(tally: Tally, *kinds: str) -> set[str]:
    used: Iterable[Any] = tally.found
    return {key for kind, key in used if kind in kinds}


class PreparedAffinityFilter(PreparedFilter):
    """The filter: per topology key and domain, True if it has wanted, repelled or repelling pods.

    Bit 0 for missing wanted pods, bit 1 for repelled pods, bit 2 for placed pods that repel this pod. `matter`: there is at least one term.
    """

    reasons = REASONS

    def __init__(self, incoming: IncomingPod, snapshot: Snapshot) -> None:
        self._incoming = incoming
        terms = incoming.terms
        wanted = _wanted(snapshot, incoming) if terms.required else None
        self._wanted = {} if wanted is None else _with_pods(snapshot, _keys(terms.required), lambda _: wanted)
        self._repelled = _with_pods(snapshot, _on_nodes(_keys(terms.required_anti), snapshot), partial(_repelled, snapshot, incoming))
        self._repelling = _with_pods(snapshot, _on_nodes(incoming.keys(REQUIRED_ANTI), snapshot), partial(_repelling, snapshot, incoming))
        self._answers = (*self._wanted.values(), *self._repelled.values(), *self._repelling.values())
        self.domains = tuple(sorted({*self._wanted, *self._repelled, *self._repelling}))
        self._first = self._is_first()
        self.matter = bool(self._answers)

    def affected(self, snapshot: Snapshot, changes: Changes) -> Affected:  # noqa: ARG002 — the extension point
        """The rows of domains that got their first, or lost their last, wanted, repelled or repelling pod."""
        if not self._incoming.is_valid(snapshot):
            return OUTDATED
        rows = renew_all(self._answers, snapshot.n_nodes)
        first, self._first = self._first, self._is_first()
        return rows if first == self._first else ALL

    def _is_first(self) -> bool:
        """True if no wanted pod exists and the pod matches its own required terms: the first pod of a group may go anywhere."""
        if any(answers.values.any() for answers in self._wanted.values()):
            return False
        return affinity.matches_all(self._incoming.terms.required, self._incoming.pod)

    def bits(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.uint8]:
        """The verdict bits of some rows, `(n_rows,) uint8`: at most one reason per node, the first that applies."""
        bits = np.zeros(len(snapshot.pod_count[rows]), np.uint8)
        for by_key, bit in ((self._repelling, UNWELCOME), (self._repelled, REPELLED)):
            for answers in by_key.values():
                bits[answers.at(rows)] = bit
        for key, answers in self._wanted.items():
            matched = snapshot.domain(key)[0][rows] >= 0 if self._first else answers.at(rows)
            bits[~matched] = UNMATCHED
        return bits

    def is_local(self, snapshot: Snapshot) -> bool:
        """True if the pod wants no pod like itself, and repels such pods, or is repelled by them, at most within domains of one node."""
        incoming = self._incoming
        if incoming.terms.required and incoming.is_wanted(incoming.pod):
            return False
        return all(_has_one_node_each(snapshot.topology(key)) for key in self._keys_apart())

    def room(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.int64] | None:
        """1 where the pod repels pods like itself, or is repelled by them, and else unlimited; None if that concerns other nodes too."""
        if not self.is_local(snapshot):
            return None
        room = np.full(len(snapshot.pod_count[rows]), MAX_AMOUNT)
        for key in self._keys_apart():
            room[snapshot.topology(key).ids[rows] >= 0] = 1
        return room

    def _keys_apart(self) -> Iterator[str]:
        """The topology keys by which the pod repels pods like itself, or is repelled by them."""
        incoming, own = self._incoming, self._incoming.pod
        return (key for key in _keys(incoming.terms.required_anti) if incoming.repels(key, own) or incoming.is_repelled(key, own))

    def repelled(self, snapshot: Snapshot) -> Mask:
        """`(n_nodes,) bool`: the nodes of domains with a repelled or repelling pod."""
        mask = np.zeros(snapshot.n_nodes, np.bool_)
        for answers in (*self._repelled.values(), *self._repelling.values()):
            mask |= answers.at(ALL)
        return mask

    def wanted_in(self, key: str) -> Mask:
        """True for each domain of a key with a pod that the required terms match, (n_domains + 1,) bool; False last, for no domain."""
        return self._wanted[key].values

    @property
    def has_wanted(self) -> bool:
        """True if a wanted pod is in some domain."""
        return any(answers.values.any() for answers in self._wanted.values())

    def supposing(self, supposed: Supposition) -> tuple[Reason, ...]:
        """The first reason that applies to the supposed node; empty if it passes."""
        return next(((REASONS[index],) for index in self._failures(supposed)), ())

    def _failures(self, supposed: Supposition) -> Iterator[int]:
        """The indexes of the reasons against a supposed node, in order."""
        incoming = self._incoming
        if self._wanted and not self._matched_if(supposed):
            yield 0
        if any(_count_if(answers, key, supposed, partial(incoming.repels, key)) > 0 for key, answers in self._repelled.items()):
            yield 1
        repelling = ((key, answers, partial(incoming.is_repelled, key)) for key, answers in self._repelling.items())
        if any(_count_if(answers, key, supposed, counts) > 0 for key, answers, counts in repelling) or self._repelled_by_added(supposed):
            yield 2

    def _matched_if(self, supposed: Supposition) -> bool:
        counts = self._incoming.is_wanted
        if any(answers.domain_of(supposed.row) < 0 for answers in self._wanted.values()):
            return False
        if all(_count_if(answers, key, supposed, counts) > 0 for key, answers in self._wanted.items()):
            return True
        more = supposed.difference(counts)
        nowhere = all(answers.selection.by_domain(key).sum() + more <= 0 for key, answers in self._wanted.items())
        return nowhere and affinity.matches_all(self._incoming.terms.required, self._incoming.pod)

    def _repelled_by_added(self, supposed: Supposition) -> bool:
        """True if an added pod repels the incoming pod by a topology key that no required anti-affinity term of a placed pod has."""
        incoming, labels = self._incoming, supposed.snapshot
        return any(
            term.topology_key not in self._repelling
            and incoming.matches_incoming(term)
            and labels.domain(term.topology_key)[0][supposed.row] >= 0
            for placed in supposed.added.values()
            for term in affinity.terms_of_placed(placed).required_anti
        )


class PreparedAffinityScore(PreparedScore):
    """The score: per topology key, the score of each domain. A raw score is the sum of the weights of all matching terms."""

    def __init__(self, incoming: IncomingPod, snapshot: Snapshot, hard_weight: int) -> None:
        self._incoming = incoming
        self._hard_weight = hard_weight
        self._answers = {key: self._answers_for(snapshot, key) for key in _scoring_keys(incoming, hard_weight, snapshot)}
        self.domains = tuple(self._answers)

    def _answers_for(self, snapshot: Snapshot, key: str) -> DomainAnswers:
        selection = _scores(snapshot, self._incoming, key, self._hard_weight)
        return DomainAnswers(selection, snapshot.topology(key), lambda scores: np.append(scores.by_domain(key), 0.0))

    def is_valid(self, snapshot: Snapshot) -> bool:
        """True if no score has changed."""
        return self._incoming.is_valid(snapshot) and renew_all(self._answers.values(), snapshot.n_nodes) is None

    def affected(self, snapshot: Snapshot, changes: Changes, feasible: Mask, flipped: NDArray[np.intp]) -> Affected:  # noqa: ARG002 — the extension point
        """The rows of the domains whose score changed; `OUTDATED` also if no term matches any more."""
        if not self._incoming.is_valid(snapshot):
            return OUTDATED
        rows = renew_all(self._answers.values(), snapshot.n_nodes)
        return rows if rows is None or self.any(snapshot) else OUTDATED

    def any(self, snapshot: Snapshot) -> bool:
        """True if a term matches between the incoming pod and a placed pod on a node with the term's topology key."""
        if any(answers.values.any() for answers in self._answers.values()):
            return True
        return any(_scored(snapshot, self._incoming, key, self._hard_weight).by_domain(key).any() for key in self._answers)

    def raw(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.int64]:
        """The raw scores of some rows, `(n_rows,) int64`: the sum of the weights of all matching terms in the node's domains."""
        total = np.zeros(len(snapshot.pod_count[rows]))
        for answers in self._answers.values():
            total += answers.at(rows)
        return total.astype(np.int64)


def _wanted(snapshot: Snapshot, incoming: IncomingPod) -> Selection:
    """The placed pods that all required affinity terms of the incoming pod match."""
    return snapshot.selection((NAME, "wanted", incoming.terms.required), incoming.is_wanted)


def _repelled(snapshot: Snapshot, incoming: IncomingPod, key: str) -> Selection:
    """The placed pods that the incoming pod repels within a topology key."""
    return snapshot.selection((NAME, "repelled", incoming.repelling_by(key)), partial(incoming.repels, key))


def _repelling(snapshot: Snapshot, incoming: IncomingPod, key: str) -> Selection:
    """The placed pods that repel the incoming pod within a topology key."""
    return snapshot.selection((NAME, "repelling", key, incoming.identity), partial(incoming.is_repelled, key))


def _scoring_keys(incoming: IncomingPod, hard_weight: int, snapshot: Snapshot) -> list[str]:
    """The topology keys of terms that may add to a score, sorted."""
    kinds = (PREFERRED, REQUIRED) if hard_weight else (PREFERRED,)
    return sorted(_on_nodes({*_keys(term for _, term in incoming.terms.preferred), *incoming.keys(*kinds)}, snapshot))


def _scores(snapshot: Snapshot, incoming: IncomingPod, key: str, hard_weight: int) -> Selection:
    """The scores of placed pods for a topology key, in sum."""
    identity = (NAME, "scores", key, incoming.terms.preferred, incoming.identity, hard_weight)
    return snapshot.selection(identity, lambda _: True, value=partial(incoming.score_of, key, hard_weight))


def _scored(snapshot: Snapshot, incoming: IncomingPod, key: str, hard_weight: int) -> Selection:
    """The placed pods that have a score for a topology key; the score may be 0."""
    identity = (NAME, "scored", key, incoming.terms.preferred, incoming.identity, hard_weight)
    return snapshot.selection(identity, lambda placed: incoming.score_of(key, hard_weight, placed) is not None)


def _on_nodes(keys: Iterable[str], snapshot: Snapshot) -> Iterator[str]:
    """The topology keys that a node may have: no pod repels another, or adds to its score, by a key that no node has."""
    return filter(snapshot.may_have_label, keys)


def _with_pods(snapshot: Snapshot, keys: Iterable[str], select: Callable[[str], Selection]) -> AnswersByKey:
    """The answers for each key, one bool per domain: True if it has selected pods; False for nodes in no domain."""
    return {key: DomainAnswers(select(key), snapshot.topology(key), partial(_domains_with_pods, key)) for key in keys}


def _has_one_node_each(topology: Topology) -> bool:
    return int(np.count_nonzero(topology.ids >= 0)) == topology.n_domains


def _domains_with_pods(key: str, selection: Selection) -> Mask:
    return np.append(selection.by_domain(key) > 0, False)


def _count_if(answers: DomainAnswers, key: str, supposed: Supposition, counts: Callable[[PodView], bool]) -> float:
    """The number of selected pods in the supposed node's domain; 0 if the node is in none."""
    domain = answers.domain_of(supposed.row)
    return 0 if domain < 0 else float(answers.selection.by_domain(key)[domain]) + supposed.difference(counts)


def _keys_of(placed: PodView) -> Iterator[tuple[str, str]]:
    if placed.object.spec.affinity is None:  # of most of the templates that the first decision reads
        return
    terms = affinity.terms_of_placed(placed)
    yield from ((REQUIRED, key) for key in _keys(terms.required))
    yield from ((REQUIRED_ANTI, key) for key in _keys(terms.required_anti))
    yield from ((PREFERRED, key) for key in _keys(term for _, term in terms.preferred))


def _by_key(terms: Iterable[tuple[Term, T]]) -> dict[str, tuple[T, ...]]:
    """The values that belong to terms, grouped by topology key."""
    found: dict[str, list[T]] = {}
    for term, of_term in terms:
        found.setdefault(term.topology_key, []).append(of_term)
    return {key: tuple(of_key) for key, of_key in found.items()}


def _keys(terms: Iterable[Term]) -> list[str]:
    return sorted({term.topology_key for term in terms})


def _items(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(labels.items()))
