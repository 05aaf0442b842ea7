"""Who is where, as far as pod affinity is concerned: the counts that filter and score stand on, as kept for one pod template.

When a newcomer of a template meets the placed pods there are four sorts of them: wanted (all of its required terms are about them),
shunned (a required anti-affinity term is), shunning (a required anti-affinity term of theirs is about the newcomer), and those with a
score about it. Each sort is a selection that the cluster's state keeps up to date; which topology keys the terms of placed pods use is a
tally.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.evaluation.question import ALL
from wharfinger.framework.plugins.pods import affinity_terms as affinity
from wharfinger.framework.plugins.pods import domain_watch
from wharfinger.framework.plugins.pods.affinity_terms import Term
from wharfinger.framework.plugins.pods.domain_watch import DomainWatch
from wharfinger.framework.verdict import Mask, Rows
from wharfinger.model import objects

if TYPE_CHECKING:
    from wharfinger.framework.evaluation.supposition import Supposition
    from wharfinger.model.columns.pod_table import Tally
    from wharfinger.model.columns.selection import Selection
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot

NAME = "InterPodAffinity"
UNMATCHED, REPELLED, UNWELCOME = 1, 2, 4  # the bits of the reasons
REQUIRED, REQUIRED_ANTI, PREFERRED = "required", "required anti", "preferred"

Watches = dict[str, DomainWatch]


class Encounter:
    """A newcomer of one template, with what it takes to tell which placed pods and it have to do with each other."""

    __slots__ = ("_namespaces_seen", "_seen", "_used", "identity", "keys_seen", "namespace_labels", "pod", "terms")

    def __init__(self, pod: PodView, snapshot: Snapshot) -> None:
        store = snapshot.objects
        self.pod = pod
        self.terms = affinity.terms_of(pod).resolved(store)
        self.namespace_labels = affinity.labels_of_namespace(pod.namespace, store)
        self.identity = (pod.namespace, _items(pod.labels), _items(self.namespace_labels))
        self._namespaces_seen = store.revision_of(objects.Namespace)
        self._seen = snapshot.revision
        self._used: Tally = snapshot.tally((NAME, "topology keys"), _keys_of)
        self.keys_seen = self._used.follow()

    def stands(self, snapshot: Snapshot) -> bool:
        """Whether nodes, namespaces and the topology keys of placed pods' terms are still what they were."""
        if snapshot.revision == self._seen:
            return True
        changed = snapshot.node_changes(self._seen)
        same_keys = self._used.follow() == self.keys_seen
        if changed is None or len(changed) or not same_keys or snapshot.objects.revision_of(objects.Namespace) != self._namespaces_seen:
            return False
        self._seen = snapshot.revision
        return True

    def keys(self, *kinds: str) -> list[str]:
        """The topology keys that placed pods' terms of these kinds use, sorted."""
        return sorted(_used_keys(self._used, *kinds))

    def is_meant(self, term: Term) -> bool:
        """Whether a placed pod's term is about the newcomer."""
        return term.matches(self.pod, self.namespace_labels)

    def is_wanted(self, placed: PodView) -> bool:
        """Whether all required terms of the newcomer are about a placed pod."""
        return affinity.matches_all(self.terms.required, placed)

    def is_shunned(self, topology_key: str, placed: PodView) -> bool:
        """Whether a required anti-affinity term of the newcomer with that key is about a placed pod."""
        return any(term.topology_key == topology_key and term.matches(placed, {}) for term in self.terms.required_anti)

    def is_shunning(self, topology_key: str, placed: PodView) -> bool:
        """Whether a required anti-affinity term of a placed pod with that key is about the newcomer."""
        return any(term.topology_key == topology_key and self.is_meant(term) for term in affinity.terms_of_placed(placed).required_anti)

    def score_of(self, topology_key: str, hard_weight: int, placed: PodView) -> float | None:
        """What a placed pod adds to its domain of a key, or None if no term of either side is about the other."""
        theirs = affinity.terms_of_placed(placed)
        own = ((weight, term.matches(placed, {})) for weight, term in self.terms.preferred if term.topology_key == topology_key)
        others = ((weight, self.is_meant(term)) for weight, term in theirs.preferred if term.topology_key == topology_key)
        hard = ((hard_weight, bool(hard_weight) and self.is_meant(term)) for term in theirs.required if term.topology_key == topology_key)
        found = [weight for weights in (own, others, hard) for weight, about in weights if about]
        return float(sum(found)) if found else None


def fencing_keys(snapshot: Snapshot) -> set[str]:
    """The topology keys of the required anti-affinity terms of placed pods."""
    return _used_keys(snapshot.tally((NAME, "topology keys"), _keys_of), REQUIRED_ANTI)


def _used_keys(tally: Tally, *kinds: str) -> set[str]:
    used: Iterable[Any] = tally.found
    return {key for kind, key in used if kind in kinds}


class Fences:
    """What the filter stands on: per topology key and domain, whether pods wanted, shunned or shunning are there."""

    __slots__ = ("_encounter", "_first", "_shunned", "_shunning", "_wanted", "_watches", "matter")

    def __init__(self, pod: PodView, snapshot: Snapshot) -> None:
        meeting = self._encounter = Encounter(pod, snapshot)
        terms = meeting.terms
        wanted = lambda _: snapshot.selection((NAME, "wanted", terms.required), meeting.is_wanted)  # noqa: E731 — one of three of a kind
        self._wanted = _watched(snapshot, _keys(terms.required), wanted)
        self._shunned = _watched(snapshot, _keys(terms.required_anti), partial(_select, snapshot, meeting, "shunned"))
        self._shunning = _watched(snapshot, meeting.keys(REQUIRED_ANTI), partial(_select, snapshot, meeting, "shunning"))
        self._watches = (*self._wanted.values(), *self._shunned.values(), *self._shunning.values())
        self._first = self._is_first()
        self.matter = bool(self._watches)

    def stands(self, snapshot: Snapshot) -> bool:
        """Whether it can be brought up to date; otherwise it has to be made anew."""
        return self._encounter.stands(snapshot)

    def advance(self, snapshot: Snapshot) -> Rows | None:
        """Follow the counts; the rows with another answer, None for no rows."""
        if not self._watches:
            return None
        rows = domain_watch.renew(self._watches, snapshot.n_nodes)
        first, self._first = self._first, self._is_first()
        return rows if first == self._first else ALL

    def _is_first(self) -> bool:
        """Whether the pod is the first of a group that wants to be near itself."""
        if any(watch.answer.any() for watch in self._wanted.values()):
            return False
        return affinity.matches_all(self._encounter.terms.required, self._encounter.pod)

    def bits(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.uint8]:
        """The verdicts of some rows: only the first reason of a node counts."""
        bits = np.zeros(len(snapshot.pod_count[rows]), np.uint8)
        for watches, bit in ((self._shunning, UNWELCOME), (self._shunned, REPELLED)):
            for watch in watches.values():
                bits[watch.at(rows)] = bit
        for key, watch in self._wanted.items():
            matched = snapshot.domain(key)[0][rows] >= 0 if self._first else watch.at(rows)
            bits[~matched] = UNMATCHED
        return bits

    def failures(self, supposed: Supposition) -> Iterator[int]:
        """The numbers of the reasons against a supposed node, the first that applies first."""
        meeting = self._encounter
        if self._wanted and not self._matched_if(supposed):
            yield 0
        if any(_count_if(watch, key, supposed, partial(meeting.is_shunned, key)) > 0 for key, watch in self._shunned.items()):
            yield 1
        shunning = ((key, watch, partial(meeting.is_shunning, key)) for key, watch in self._shunning.items())
        if any(_count_if(watch, key, supposed, counts) > 0 for key, watch, counts in shunning) or self._shunned_by_added(supposed):
            yield 2

    def _matched_if(self, supposed: Supposition) -> bool:
        counts = self._encounter.is_wanted
        if any(watch.domain_of(supposed.row) < 0 for watch in self._wanted.values()):
            return False
        if all(_count_if(watch, key, supposed, counts) > 0 for key, watch in self._wanted.items()):
            return True
        more = supposed.difference(counts)
        nowhere = all(watch.selection.by_domain(key).sum() + more <= 0 for key, watch in self._wanted.items())
        return nowhere and affinity.matches_all(self._encounter.terms.required, self._encounter.pod)

    def _shunned_by_added(self, supposed: Supposition) -> bool:
        """Whether a pod supposed to come shuns the newcomer within a key that no placed pod's term uses."""
        meeting, labels = self._encounter, supposed.snapshot
        return any(
            term.topology_key not in self._shunning and meeting.is_meant(term) and labels.domain(term.topology_key)[0][supposed.row] >= 0
            for placed in supposed.added.values()
            for term in affinity.terms_of_placed(placed).required_anti
        )


class Likings:
    """What the score stands on: per topology key the score of each domain."""

    __slots__ = ("_encounter", "_hard_weight", "_watches")

    def __init__(self, pod: PodView, snapshot: Snapshot, hard_weight: int) -> None:
        self._encounter = Encounter(pod, snapshot)
        self._hard_weight = hard_weight
        kinds = (PREFERRED, REQUIRED) if hard_weight else (PREFERRED,)
        keys = {*_keys(term for _, term in self._encounter.terms.preferred), *self._encounter.keys(*kinds)}
        self._watches = {key: self._watch(snapshot, key) for key in sorted(keys)}

    @property
    def topology_keys(self) -> tuple[str, ...]:
        """The topology keys of the terms, sorted."""
        return tuple(self._watches)

    def _watch(self, snapshot: Snapshot, key: str) -> DomainWatch:
        meeting = self._encounter
        value = partial(meeting.score_of, key, self._hard_weight)
        identity = (NAME, "liking", key, meeting.terms.preferred, meeting.identity, self._hard_weight)
        selection = snapshot.selection(identity, lambda _: True, value=value)
        return DomainWatch(selection, snapshot.topology(key), lambda liking: np.append(liking.by_domain(key), 0.0))

    def stands(self, snapshot: Snapshot) -> bool:
        """Whether it can be brought up to date; otherwise it has to be made anew."""
        return self._encounter.stands(snapshot)

    def advance(self, snapshot: Snapshot) -> Rows | None:
        """Follow the counts; the rows with another score, None for no rows."""
        return domain_watch.renew(self._watches.values(), snapshot.n_nodes)

    def any(self, snapshot: Snapshot) -> bool:
        """Whether any placed pod on a node with the right label has to do with the newcomer."""
        if any(watch.answer.any() for watch in self._watches.values()):
            return True
        return any(self._minded(snapshot, key).by_domain(key).any() for key in self._watches)

    def _minded(self, snapshot: Snapshot, key: str) -> Selection:
        """The placed pods with a score, also those whose score is 0."""
        meeting, weight = self._encounter, self._hard_weight
        identity = (NAME, "minded", key, meeting.terms.preferred, meeting.identity, weight)
        return snapshot.selection(identity, lambda placed: meeting.score_of(key, weight, placed) is not None)

    def raw(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.int64]:
        """The raw scores of some rows: the weights of all terms of either side that are met in the node's domains."""
        total = np.zeros(len(snapshot.pod_count[rows]))
        for watch in self._watches.values():
            total += watch.at(rows)
        return total.astype(np.int64)


def _select(snapshot: Snapshot, meeting: Encounter, sort: str, key: str) -> Selection:
    """The placed pods that are shunned, or shunning, within a topology key."""
    if sort == "shunned":
        terms = tuple(term for term in meeting.terms.required_anti if term.topology_key == key)
        return snapshot.selection((NAME, sort, terms), partial(meeting.is_shunned, key))
    return snapshot.selection((NAME, sort, key, meeting.identity), partial(meeting.is_shunning, key))


def _watched(snapshot: Snapshot, keys: Iterable[str], select: Callable[[str], Selection]) -> Watches:
    """For each key a watch on whether selected pods are in a domain; False for no domain."""
    return {key: DomainWatch(select(key), snapshot.topology(key), partial(_there, key)) for key in keys}


def _there(key: str, selection: Selection) -> Mask:
    return np.append(selection.by_domain(key) > 0, False)


def _count_if(watch: DomainWatch, key: str, supposed: Supposition, counts: Callable[[PodView], bool]) -> float:
    """How many selected pods are in the supposed node's domain; 0 where it is in none."""
    domain = watch.domain_of(supposed.row)
    return 0 if domain < 0 else float(watch.selection.by_domain(key)[domain]) + supposed.difference(counts)


def _keys_of(placed: PodView) -> Iterator[tuple[str, str]]:
    terms = affinity.terms_of_placed(placed)
    yield from ((REQUIRED, key) for key in _keys(terms.required))
    yield from ((REQUIRED_ANTI, key) for key in _keys(terms.required_anti))
    yield from ((PREFERRED, key) for key in _keys(term for _, term in terms.preferred))


def _keys(terms: Iterable[Term]) -> list[str]:
    return sorted({term.topology_key for term in terms})


def _items(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(labels.items()))
