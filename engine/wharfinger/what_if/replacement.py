"""Which running pods a question takes from their nodes and places anew: `all`, `namespace=…` or `selector=…`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wharfinger.errors import UsageError
from wharfinger.language.report import wording
from wharfinger.model.objects import matching
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.what_if.kubectl_drain import MIRROR

EXPECTED = "expected all, namespace=NAME or selector=LABELS"


def replaced_pods(state: ClusterState, words: Sequence[str]) -> tuple[PodView, ...]:
    """The running pods that any of the words names, in the order of their keys; pods being deleted and mirror pods are left out.

    Raises UsageError for a word of another form and for one that names no pod; InvalidObject for a selector that cannot be read.
    """
    running = sorted(
        (pod for pod, _ in state.placements() if not (pod.finished or pod.terminating or MIRROR in pod.annotations)),
        key=lambda pod: pod.key,
    )
    found: dict[str, PodView] = {}
    for word in words:
        chosen = _chosen(word)
        named = [pod for pod in running if chosen(pod)]
        if not named and word != "all":
            raise UsageError(f"{word}: there is no such running pod{_nearest(word, running)}")
        found |= {pod.uid: pod for pod in named}
    return tuple(sorted(found.values(), key=lambda pod: pod.key))


def _chosen(word: str) -> Callable[[PodView], bool]:
    """The test for pods that a word stands for."""
    kind, _, value = word.partition("=")
    if word == "all":
        return lambda _pod: True
    if kind == "namespace" and value:
        return lambda pod: pod.namespace == value
    if kind == "selector" and value.strip():
        wanted = matching.parse_selector(value)
        return lambda pod: wanted.matches(pod.labels)
    raise UsageError(f"{word}: {EXPECTED}")


def _nearest(word: str, running: Sequence[PodView]) -> str:
    """The end of an error: the namespace that may be meant."""
    kind, _, value = word.partition("=")
    meant = wording.closest(value, {pod.namespace for pod in running}) if kind == "namespace" else None
    return f"; did you mean namespace={meant}?" if meant else ""
