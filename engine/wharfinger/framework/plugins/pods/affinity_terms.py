"""Pod affinity terms, parsed: label selector, namespaces and topology key; and hints on which changes may help a rejected pod.

Rules of `pkg/scheduler/framework/types.go` (AffinityTerm) and `plugins/interpodaffinity`, Kubernetes 1.36. The API server merges
`matchLabelKeys` and `mismatchLabelKeys` into the label selector when a pod is created. The same happens here, for pods read from manifests.
Pods from the API server do not change, because keys that the selector has already are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wharfinger.errors import InvalidObject
from wharfinger.model import objects
from wharfinger.model.objects import matching

if TYPE_CHECKING:
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.object_store import ObjectStore

MAX_KEPT = 16384


class Term(Struct, frozen=True, kw_only=True):
    """One term. It matches pods of the listed namespaces, and of namespaces whose labels `namespace_selector` selects."""

    topology_key: str
    selector: matching.Selector
    namespaces: frozenset[str]
    namespace_selector: matching.Selector

    def matches(self, pod: PodView, namespace_labels: Mapping[str, str]) -> bool:
        """True if the term matches a pod; `namespace_labels` are the labels of the pod's namespace."""
        in_namespace = pod.namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        return in_namespace and self.selector.matches(pod.labels)

    def resolved(self, store: ObjectStore) -> Term:
        """The term with its namespace selector replaced by the namespaces it selects now; a selector for all namespaces stays."""
        if self.namespace_selector == matching.EVERYTHING or self.namespace_selector.nothing:
            return self
        selected = (each.metadata.name for each in store.all(objects.Namespace) if self.namespace_selector.matches(each.metadata.labels))
        return replace(self, namespaces=self.namespaces.union(selected), namespace_selector=matching.NOTHING)


class Terms(Struct, frozen=True, kw_only=True):
    """All terms of a pod; preferred ones with their weights, negative for anti-affinity."""

    required: tuple[Term, ...] = ()
    required_anti: tuple[Term, ...] = ()
    preferred: tuple[tuple[int, Term], ...] = ()

    @property
    def count(self) -> int:
        """The number of terms."""
        return len(self.required) + len(self.required_anti) + len(self.preferred)

    def resolved(self, store: ObjectStore) -> Terms:
        """The terms with their namespace selectors resolved."""
        return Terms(
            required=tuple(term.resolved(store) for term in self.required),
            required_anti=tuple(term.resolved(store) for term in self.required_anti),
            preferred=tuple((weight, term.resolved(store)) for weight, term in self.preferred),
        )


NO_TERMS = Terms()
_kept: dict[bytes, Terms] = {}


def terms_of(pod: PodView) -> Terms:
    """The terms of a pod, parsed once per template; InvalidObject if a selector cannot be read."""
    affinity = pod.object.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    terms = _kept.get(pod.template)
    if terms is None:
        if len(_kept) >= MAX_KEPT:  # templates come and go in a long-lived process; parsing again is cheap
            _kept.clear()
        terms = _kept[pod.template] = _parse(pod, affinity)
    return terms


def terms_key(pod: PodView) -> bytes:
    """The JSON of everything that the terms of a pod depend on; equal for pods with equal terms."""
    found = pod.object.spec.affinity
    terms = () if found is None else (found.pod_affinity, found.pod_anti_affinity)
    keys = {key for part in terms if part is not None for key in _label_keys(part)}
    return msgspec.json.encode([pod.namespace, terms, {key: pod.labels.get(key) for key in sorted(keys)}])


def _label_keys(affinity: objects.PodAffinity) -> Iterable[str]:
    for term in affinity.required_during_scheduling_ignored_during_execution:
        yield from (*term.match_label_keys, *term.mismatch_label_keys)


def terms_of_placed(pod: PodView) -> Terms:
    """The terms of a placed pod; no terms if they cannot be read, because a placed pod cannot be rejected any more."""
    try:
        return terms_of(pod)
    except InvalidObject:
        return NO_TERMS


def labels_of_namespace(name: str, store: ObjectStore) -> Mapping[str, str]:
    """The labels of a namespace; empty if it is not known."""
    namespace = store.get(objects.Namespace, name)
    return namespace.metadata.labels if namespace is not None else {}


def matches_all(terms: Iterable[Term], pod: PodView) -> bool:
    """True if all of these resolved terms match a pod; False without terms."""
    listed = tuple(terms)
    return bool(listed) and all(term.matches(pod, {}) for term in listed)


class Hints(Struct, frozen=True):
    """Hints for `incoming`, a pod that InterPodAffinity rejected: the changes of placed pods that may make it schedulable.

    As `isSchedulableAfterPodChange` of `plugins/interpodaffinity`, with one addition: the pod may also be schedulable after the last pod
    that matches its required affinity was removed, if it matches its own required terms.
    """

    incoming: PodView
    terms: Terms
    store: ObjectStore

    def added_helps(self, placed: PodView) -> bool:
        """True if all required affinity terms of the rejected pod match a pod that was placed."""
        return self._matches(placed)

    def removed_helps(self, placed: PodView) -> bool:
        """True if a removed pod was repelled or repelling; or was wanted, and the rejected pod matches its own required terms."""
        return self._repels(placed) or self._is_repelled_by(placed) or (self._matches(placed) and self._matches(self.incoming))

    def removal_may_help(self, placed: PodView) -> bool:
        """True if `removed_helps` may be true for some pod with these terms and any labels."""
        return self._repels(placed) or bool(terms_of_placed(placed).required_anti) or self._matches(placed)

    def changes(self, was: PodView, now: PodView) -> bool:
        """True if a placed pod changed so that it is wanted now, or is repelled or repelling no longer."""
        if self._matches(was) != self._matches(now) and (self._matches(now) or self._matches(self.incoming)):
            return True
        return (self._repels(was) and not self._repels(now)) or (self._is_repelled_by(was) and not self._is_repelled_by(now))

    def _matches(self, placed: PodView) -> bool:
        return bool(self.terms.required) and all(self._about(term, placed) for term in self.terms.required)

    def _repels(self, placed: PodView) -> bool:
        return any(self._about(term, placed) for term in self.terms.required_anti)

    def _is_repelled_by(self, placed: PodView) -> bool:
        return any(self._about(term, self.incoming) for term in terms_of_placed(placed).required_anti)

    def _about(self, term: Term, pod: PodView) -> bool:
        return term.matches(pod, labels_of_namespace(pod.namespace, self.store))


def _parse(pod: PodView, affinity: objects.Affinity) -> Terms:
    near, apart = affinity.pod_affinity or objects.PodAffinity(), affinity.pod_anti_affinity or objects.PodAffinity()
    attracted = near.preferred_during_scheduling_ignored_during_execution
    repelled = apart.preferred_during_scheduling_ignored_during_execution
    return Terms(
        required=tuple(_term(pod, term) for term in near.required_during_scheduling_ignored_during_execution),
        required_anti=tuple(_term(pod, term) for term in apart.required_during_scheduling_ignored_during_execution),
        preferred=(
            *((each.weight, _term(pod, each.pod_affinity_term)) for each in attracted),
            *((-each.weight, _term(pod, each.pod_affinity_term)) for each in repelled),
        ),
    )


def _term(pod: PodView, term: objects.PodAffinityTerm) -> Term:
    own = not term.namespaces and term.namespace_selector is None
    return Term(
        topology_key=term.topology_key,
        selector=_selector(pod, term),
        namespaces=frozenset({pod.namespace}) if own else frozenset(term.namespaces),
        namespace_selector=matching.label_selector(term.namespace_selector),
    )


def _selector(pod: PodView, term: objects.PodAffinityTerm) -> matching.Selector:
    selector = matching.label_selector(term.label_selector)
    spoken_of = {requirement.key for requirement in selector.requirements}
    more = [
        matching.Requirement(key, operator, (pod.labels[key],))
        for keys, operator in ((term.match_label_keys, "In"), (term.mismatch_label_keys, "NotIn"))
        for key in keys
        if key in pod.labels and key not in spoken_of
    ]
    if not more or selector.nothing:
        return selector
    return matching.Selector(tuple(sorted({*selector.requirements, *more})))
