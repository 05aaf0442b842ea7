"""Label keys that policies read and a cluster does not have.

A misspelled label key is not an error of the language: any key may exist. But on a real cluster a key that no node carries is nearly
always a mistake, and what was meant is usually there: `zone` for `topology.kubernetes.io/zone`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from wharfinger.compiler.program import CompiledPolicy
from wharfinger.language import suggest
from wharfinger.model.pod import PodView
from wharfinger.model.snapshot import Snapshot


def warnings(policies: Sequence[CompiledPolicy], snapshot: Snapshot, pods: Sequence[PodView]) -> list[str]:
    """One sentence for each label key that is read and not there, sorted: node labels in the snapshot, pod labels among `pods`."""
    read = {
        (policy.name, subject, key) for policy in policies for subject, path, key in policy.reads if path == "labels" and key is not None
    }
    nodes = sorted({(name, key) for name, subject, key in read if subject == "node"})
    asked = sorted({(name, key) for name, subject, key in read if subject == "pod"})
    found = [_absent(name, key, _node_labels(snapshot), snapshot.n_nodes, "node") for name, key in nodes if not _on_nodes(snapshot, key)]
    known = Counter(label for pod in pods for label in pod.labels)
    return found + [_absent(name, key, known, len(pods), "pod") for name, key in asked if pods and not known[key]]


def _on_nodes(snapshot: Snapshot, key: str) -> bool:
    return snapshot.n_nodes == 0 or bool((snapshot.label(key) >= 0).any())


def _node_labels(snapshot: Snapshot) -> Mapping[str, int]:
    return Counter(label for row in range(snapshot.n_nodes) for label in snapshot.node(row).labels)


def _absent(policy: str, key: str, known: Mapping[str, int], total: int, noun: str) -> str:
    sentence = f"{policy}: label `{key}` is on 0 of {total} {noun}{'' if total == 1 else 's'}"
    meant = nearest(key, known)
    return sentence if meant is None else f"{sentence}; did you mean `{meant}` ({known[meant]})?"


def nearest(key: str, known: Iterable[str]) -> str | None:
    """The known key that was most likely meant: one with the same last part, or one spelled almost the same; None when none is near."""
    last = key.rpartition("/")[2]
    same = sorted((name for name in known if name.rpartition("/")[2] == last), key=lambda name: (len(name), name))
    return same[0] if same else suggest.closest(key, known)
