"""InterPodAffinity: pods that want to be near others, or apart from them, and placed pods that want the same of newcomers.

Every question here is "how many placed pods of some sort are in this domain": those that the newcomer's terms are about, and those whose
own terms are about the newcomer. The cluster's state keeps these counts up to date (`snapshot.selection`); which topology keys placed
pods' terms use is kept too (`snapshot.tally`). Kept per pod template is the answer per domain, so that after a placement only the nodes
of domains with another answer are looked at again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from wharfinger.errors import InvalidObject
from wharfinger.framework import pod_affinity_terms as affinity
from wharfinger.framework.arguments import Arguments
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.extension import FilterPlugin, ScorePlugin
from wharfinger.framework.pod_affinity_terms import Term
from wharfinger.framework.row_sets import union_of
from wharfinger.framework.verdict import SKIP, Mask, PreFilterAnswer, PreScoreAnswer, Reason, Rejected, Rows, Verdicts
from wharfinger.language.catalogue import Volatility
from wharfinger.model import objects

if TYPE_CHECKING:
    from wharfinger.framework.supposition import Supposition
    from wharfinger.model.pod import PodView
    from wharfinger.model.selection import Selection
    from wharfinger.model.snapshot import Snapshot

REASONS = (
    Reason("node(s) didn't match pod affinity rules", resolvable=False),
    Reason("node(s) didn't match pod anti-affinity rules"),
    Reason("node(s) didn't satisfy existing pods anti-affinity rules"),
)
UNMATCHED, REPELLED, UNWELCOME = 1, 2, 4  # the bits of the reasons
ALL = slice(None)
NAME = "InterPodAffinity"


class InterPodAffinityArguments(Arguments):
    """InterPodAffinityArgs: what a placed pod's required affinity to the newcomer is worth, and whether placed pods' preferences count."""

    hard_pod_affinity_weight: int = Field(default=1, ge=0, le=100)
    ignore_preferred_terms_of_existing_pods: bool = False


@dataclass(frozen=True, slots=True)
class MinMaxNormalize:
    """`NormalizeScore` of the plugin: the lowest raw score becomes 0, the highest 100; all 0 where they are equal."""

    least: float = -np.inf

    def points(self, scores: NDArray[Any], low: float, high: float) -> NDArray[np.int64]:
        """`100·(raw − low)/(high − low)`, truncated."""
        if high <= low:
            return np.zeros(len(scores), np.int64)
        return (100.0 * ((scores - low) / (high - low))).astype(np.int64)


class Encounter:
    """A newcomer of one template, with what it takes to tell which placed pods and it have to do with each other."""

    __slots__ = ("identity", "namespace_labels", "namespaces_seen", "pod", "terms")

    def __init__(self, pod: PodView, snapshot: Snapshot) -> None:
        self.pod = pod
        self.terms = affinity.terms_of(pod).resolved(snapshot.objects)
        self.namespace_labels = affinity.labels_of_namespace(pod.namespace, snapshot.objects)
        self.namespaces_seen = snapshot.objects.revision_of(objects.Namespace)
        self.identity = (pod.namespace, _items(pod.labels), _items(self.namespace_labels))

    def stands(self, snapshot: Snapshot) -> bool:
        """Whether namespaces are still what they were."""
        return snapshot.objects.revision_of(objects.Namespace) == self.namespaces_seen

    def is_meant(self, term: Term) -> bool:
        """Whether a placed pod's term is about the newcomer."""
        return term.matches(self.pod, self.namespace_labels)

    def wanted(self, snapshot: Snapshot) -> Selection:
        """The placed pods that all of the newcomer's required terms are about."""
        terms = self.terms.required
        return snapshot.selection((NAME, "wanted", terms), lambda placed: affinity.matches_all(terms, placed))

    def shunned(self, snapshot: Snapshot, topology_key: str) -> Selection:
        """The placed pods that a required anti-affinity term of the newcomer with that key is about."""
        terms = tuple(term for term in self.terms.required_anti if term.topology_key == topology_key)
        return snapshot.selection((NAME, "shunned", terms), lambda placed: any(term.matches(placed, {}) for term in terms))

    def shunning(self, snapshot: Snapshot, topology_key: str) -> Selection:
        """The placed pods of which a required anti-affinity term with that key is about the newcomer."""
        return snapshot.selection((NAME, "shunning", topology_key, self.identity), lambda placed: self.is_shunned_by(placed, topology_key))

    def is_shunned_by(self, placed: PodView, topology_key: str) -> bool:
        """Whether a required anti-affinity term of a placed pod with that key is about the newcomer."""
        return any(term.topology_key == topology_key and self.is_meant(term) for term in _anti_terms(placed))

    def liking(self, snapshot: Snapshot, topology_key: str, arguments: InterPodAffinityArguments) -> Selection:
        """The placed pods with a score about the newcomer within that key, each counting its score."""
        weights = self._weights(topology_key, arguments)
        return snapshot.selection(self._key("liking", topology_key, arguments), lambda _: True, value=weights)

    def minding(self, snapshot: Snapshot, topology_key: str, arguments: InterPodAffinityArguments) -> Selection:
        """The placed pods of `liking`, each counting 1, also where their scores cancel out."""
        weights = self._weights(topology_key, arguments)
        return snapshot.selection(self._key("minding", topology_key, arguments), lambda placed: weights(placed) is not None)

    def _key(self, what: str, topology_key: str, arguments: InterPodAffinityArguments) -> Hashable:
        return NAME, what, topology_key, self.terms.preferred, self.identity, arguments.hard_pod_affinity_weight

    def _weights(self, topology_key: str, arguments: InterPodAffinityArguments) -> Callable[[PodView], float | None]:
        """What a placed pod adds to its domain, or None if no term of either side is about the other."""
        own = tuple((weight, term) for weight, term in self.terms.preferred if term.topology_key == topology_key)

        def weigh(placed: PodView) -> float | None:
            theirs = affinity.terms_of_placed(placed)
            found = [weight for weight, term in own if term.matches(placed, {})]
            found += [weight for weight, term in theirs.preferred if term.topology_key == topology_key and self.is_meant(term)]
            if arguments.hard_pod_affinity_weight:
                meant = [term for term in theirs.required if term.topology_key == topology_key and self.is_meant(term)]
                found += [arguments.hard_pod_affinity_weight] * len(meant)
            return float(sum(found)) if found else None

        return weigh


class Fences:
    """What the filter stands on: per topology key and domain `(n_domains,) bool`, whether pods wanted, shunned or shunning are there."""

    __slots__ = ("encounter", "first", "shunned", "shunning", "wanted")

    def __init__(self, encounter: Encounter, snapshot: Snapshot) -> None:
        self.encounter = encounter
        self.wanted: dict[str, Mask] = {}
        self.shunned: dict[str, Mask] = {}
        self.shunning: dict[str, Mask] = {}
        self.first = False  # whether the pod is the first of a group that wants to be near itself
        self.read(snapshot)

    def advance(self, snapshot: Snapshot) -> Rows | None:
        """Follow the counts; the rows whose domain has another answer now."""
        before = (self.wanted, self.shunned, self.shunning)
        first = self.first
        self.read(snapshot)
        after = (self.wanted, self.shunned, self.shunning)
        if first != self.first or any(old.keys() != new.keys() for old, new in zip(before, after, strict=True)):
            return ALL
        rows = [
            snapshot.topology(key).rows_of(domain)
            for old, new in zip(before, after, strict=True)
            for key in old
            for domain in _differing(old[key], new[key])
        ]
        return union_of(rows, snapshot.n_nodes)

    def bits(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.uint8]:
        """The verdicts of some rows: only the first reason of a node counts."""
        n_rows = len(snapshot.pod_count[rows])
        bits = np.zeros(n_rows, np.uint8)
        for flags, bit in ((self.shunning, UNWELCOME), (self.shunned, REPELLED)):
            for key, there in flags.items():
                bits[_at(there, snapshot.domain(key)[0][rows])] = bit
        if self.wanted:
            bits[~self._matched(snapshot, rows)] = UNMATCHED
        return bits

    def reasons_if(self, supposed: Supposition) -> tuple[Reason, ...]:
        """The first reason against a supposed node, if there is one."""
        if self.wanted and not self._matched_if(supposed):
            return REASONS[:1]
        if any(self._shunned_if(supposed, key) > 0 for key in self.shunned):
            return REASONS[1:2]
        keys = {*self.shunning, *(term.topology_key for placed in supposed.added.values() for term in _anti_terms(placed))}
        return REASONS[2:] if any(self._shunning_if(supposed, key) > 0 for key in keys) else ()

    def _matched_if(self, supposed: Supposition) -> bool:
        meeting, snapshot = self.encounter, supposed.snapshot
        terms = meeting.terms.required
        more = supposed.difference(lambda placed: affinity.matches_all(terms, placed))
        there = {key: _count_at(meeting.wanted(snapshot), key, supposed) for key in self.wanted}
        if any(count is None for count in there.values()):
            return False
        if all(count is not None and count + more > 0 for count in there.values()):
            return True
        totals = (meeting.wanted(snapshot).by_domain(key).sum() + more for key in self.wanted)
        return all(total <= 0 for total in totals) and affinity.matches_all(terms, meeting.pod)

    def _shunned_if(self, supposed: Supposition, key: str) -> float:
        count = _count_at(self.encounter.shunned(supposed.snapshot, key), key, supposed)
        terms = [term for term in self.encounter.terms.required_anti if term.topology_key == key]
        return 0 if count is None else count + supposed.difference(lambda placed: any(term.matches(placed, {}) for term in terms))

    def _shunning_if(self, supposed: Supposition, key: str) -> float:
        meeting = self.encounter
        count = _count_at(meeting.shunning(supposed.snapshot, key), key, supposed)
        return 0 if count is None else count + supposed.difference(lambda placed: meeting.is_shunned_by(placed, key))

    def _matched(self, snapshot: Snapshot, rows: Rows) -> Mask:
        found = []
        for key, there in self.wanted.items():
            ids = snapshot.domain(key)[0][rows]
            found.append(ids >= 0 if self.first else _at(there, ids))
        return np.asarray(np.logical_and.reduce(found))

    def read(self, snapshot: Snapshot) -> None:
        """Take over what the counts are now."""
        meeting = self.encounter
        terms = meeting.terms
        self.wanted = {term.topology_key: meeting.wanted(snapshot).by_domain(term.topology_key) > 0 for term in terms.required}
        self.shunned = {key: meeting.shunned(snapshot, key).by_domain(key) > 0 for key in _keys(terms.required_anti)}
        self.shunning = {key: meeting.shunning(snapshot, key).by_domain(key) > 0 for key in anti_affinity_keys(snapshot)}
        self.first = not any(there.any() for there in self.wanted.values()) and affinity.matches_all(terms.required, meeting.pod)


class Likings:
    """What the score stands on: per topology key the score of each domain, with a 0 for no domain at the end."""

    __slots__ = ("arguments", "by_key", "encounter")

    def __init__(self, encounter: Encounter, arguments: InterPodAffinityArguments, snapshot: Snapshot) -> None:
        self.encounter = encounter
        self.arguments = arguments
        self.by_key = self.read(snapshot)

    def advance(self, snapshot: Snapshot) -> Rows | None:
        """Follow the counts; the rows whose domain has another score now."""
        before, self.by_key = self.by_key, self.read(snapshot)
        if before.keys() != self.by_key.keys():
            return ALL
        rows = [snapshot.topology(key).rows_of(domain) for key, sums in self.by_key.items() for domain in _differing(before[key], sums)]
        return union_of(rows, snapshot.n_nodes)

    def any(self, snapshot: Snapshot) -> bool:
        """Whether any placed pod on a node with the right label has to do with the newcomer."""
        if any(sums.any() for sums in self.by_key.values()):
            return True
        counts = (self.encounter.minding(snapshot, key, self.arguments).by_domain(key) for key in self.by_key)
        return any(count.any() for count in counts)

    def raw(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.int64]:
        """The raw scores of some rows."""
        total = np.zeros(len(snapshot.pod_count[rows]))
        for key, sums in self.by_key.items():
            total += sums[snapshot.domain(key)[0][rows]]
        return total.astype(np.int64)

    def read(self, snapshot: Snapshot) -> dict[str, NDArray[np.float64]]:
        """The scores per topology key and domain as they are now."""
        keys = {term.topology_key for _, term in self.encounter.terms.preferred} | scoring_keys(snapshot, self.arguments)
        return {key: np.append(self.encounter.liking(snapshot, key, self.arguments).by_domain(key), 0.0) for key in sorted(keys)}


class InterPodAffinity(FilterPlugin, ScorePlugin):
    """`pkg/scheduler/framework/plugins/interpodaffinity`, Kubernetes 1.36."""

    name = NAME
    arguments_model = InterPodAffinityArguments
    filter_volatility = Volatility.GLOBAL
    score_volatility = Volatility.GLOBAL
    default_weight = 2
    normalization = MinMaxNormalize()

    def pre_filter(self, cycle: CycleState, pod: PodView, snapshot: Snapshot) -> PreFilterAnswer:
        """Skip where neither the pod requires anything of others nor a placed pod might of it; rejected where a selector cannot be read."""
        try:
            affinity.terms_of(pod)
        except InvalidObject as error:
            return Rejected((Reason(f"pod affinity cannot be read: {error}", resolvable=False),))
        fences: Fences | None = cycle.get((NAME, "fences"))
        if fences is not None and fences.encounter.stands(snapshot):
            fences.read(snapshot)
        else:
            fences = cycle[NAME, "fences"] = Fences(Encounter(pod, snapshot), snapshot)
        return None if fences.wanted or fences.shunned or fences.shunning else SKIP

    def filter(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, rows: Rows) -> Verdicts:  # noqa: ARG002 — the extension point
        """The verdicts for `rows`: bit 0 wanted pods are missing, bit 1 shunned pods are there, bit 2 pods that shun this one are."""
        fences: Fences = cycle[NAME, "fences"]
        return Verdicts(REASONS, fences.bits(snapshot, rows))

    def filter_if(self, cycle: CycleState, pod: PodView, supposed: Supposition) -> tuple[Reason, ...]:  # noqa: ARG002 — the extension point
        """The reason against the supposed node: the first that applies."""
        fences: Fences = cycle[NAME, "fences"]
        return fences.reasons_if(supposed)

    def filter_changes(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, since: int) -> Rows | None:  # noqa: ARG002 — the extension point
        """The rows of the domains where wanted, shunned or shunning pods appeared or vanished."""
        fences: Fences | None = cycle.get((NAME, "fences"))
        if fences is None:
            return None
        if not fences.encounter.stands(snapshot) or _nodes_changed(snapshot, since):
            return ALL
        return fences.advance(snapshot)

    def pre_score(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, feasible: Mask) -> PreScoreAnswer:  # noqa: ARG002 — the extension point
        """Skip where no placed pod has to do with this one."""
        if self.arguments.ignore_preferred_terms_of_existing_pods and not affinity.terms_of(pod).preferred:
            return SKIP
        likings: Likings | None = cycle.get((NAME, "likings"))
        if likings is not None and likings.encounter.stands(snapshot):
            likings.by_key = likings.read(snapshot)
        else:
            likings = cycle[NAME, "likings"] = Likings(Encounter(pod, snapshot), self.arguments, snapshot)
        return None if likings.any(snapshot) else SKIP

    def score(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, rows: Rows) -> NDArray[np.int64]:  # noqa: ARG002 — the extension point
        """Raw scores for `rows`: the weights of all terms of either side that are met in the node's domains."""
        likings: Likings = cycle[NAME, "likings"]
        return likings.raw(snapshot, rows)

    def score_changes(
        self,
        cycle: CycleState,
        pod: PodView,  # noqa: ARG002 — the extension point
        snapshot: Snapshot,
        since: int,
        flipped: NDArray[np.intp],  # noqa: ARG002 — the extension point
    ) -> Rows | None:
        """The rows of the domains that have another score now."""
        likings: Likings | None = cycle.get((NAME, "likings"))
        if likings is None:
            return None
        if not likings.encounter.stands(snapshot) or _nodes_changed(snapshot, since):
            return ALL
        return likings.advance(snapshot)


def anti_affinity_keys(snapshot: Snapshot) -> list[str]:
    """The topology keys of placed pods' required anti-affinity terms, sorted."""
    return sorted(key for kind, key in _used_keys(snapshot) if kind == "required anti")


def scoring_keys(snapshot: Snapshot, arguments: InterPodAffinityArguments) -> set[str]:
    """The topology keys of the terms of placed pods that make scores."""
    kinds = {"preferred", "required"} if arguments.hard_pod_affinity_weight else {"preferred"}
    return {key for kind, key in _used_keys(snapshot) if kind in kinds}


def _used_keys(snapshot: Snapshot) -> Iterable[Any]:
    return snapshot.tally((NAME, "topology keys"), _keys_of).found


def _keys_of(placed: PodView) -> Iterator[tuple[str, str]]:
    terms = affinity.terms_of_placed(placed)
    yield from {("required", term.topology_key) for term in terms.required}
    yield from {("required anti", term.topology_key) for term in terms.required_anti}
    yield from {("preferred", term.topology_key) for _, term in terms.preferred}


def _anti_terms(placed: PodView) -> tuple[Term, ...]:
    return affinity.terms_of_placed(placed).required_anti


def _count_at(selection: Selection, key: str, supposed: Supposition) -> float | None:
    """The real count in the supposed node's domain, None where it is in none."""
    domain = int(supposed.snapshot.domain(key)[0][supposed.row])
    return None if domain < 0 else float(selection.by_domain(key)[domain])


def _keys(terms: Iterable[Term]) -> list[str]:
    return sorted({term.topology_key for term in terms})


def _items(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(labels.items()))


def _at(there: Mask, ids: NDArray[np.int32]) -> Mask:
    """What is said of each row's domain; False where it is in none."""
    return np.asarray(np.append(there, False)[ids])


def _differing(before: NDArray[Any], after: NDArray[Any]) -> list[int]:
    differing: list[int] = np.flatnonzero(before != after).tolist()
    return differing


def _nodes_changed(snapshot: Snapshot, since: int) -> bool:
    changed = snapshot.node_changes(since)
    return changed is None or len(changed) > 0
