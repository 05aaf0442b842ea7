"""Fields of manifests that Kubernetes does not know.

The structs of `model.objects` have the fields that decisions read and skip all others, because an API server may be newer. In a manifest
written by hand, an unknown field is most likely a spelling error, and the pod would be placed as if the field were absent. The names come
from the models of Kubernetes' official client; `make docs` writes them to `manifest_fields.json`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from wharfinger.language.report import wording

WRITTEN = frozenset(
    {
        ("", "Pod"),
        ("", "PodTemplate"),
        ("", "ReplicationController"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("apps", "Deployment"),
        ("apps", "DaemonSet"),
        ("batch", "Job"),
        ("batch", "CronJob"),
    }
)
"""(group, kind) of pods and of the objects with pod templates; only these are checked."""

MAX_NAMED = 50
"""The most unknown fields of one object that are listed; further ones are counted."""


def unknown_fields(manifest: Any, group: str, kind: str) -> tuple[str, ...]:
    """A sentence for each field of a manifest that Kubernetes does not know: `spec.nodeSelectr: unknown field; did you mean nodeSelector?`.

    `manifest` is plain Python values. Empty for a kind that is not in `WRITTEN`.
    """
    if (group, kind) not in WRITTEN:
        return ()
    return _sentences(_unknown(manifest, _table().kinds[f"{group}/{kind}" if group else kind], ""))


def unknown_template_fields(template: Any, where: str) -> tuple[str, ...]:
    """The same for a pod template at the path `where`."""
    return _sentences(_unknown(template, "PodTemplateSpec", where))


class _Table(msgspec.Struct, frozen=True):
    """`kinds` is group/kind → type; `types` is type → field → type of the field or of its list's entries, "" if anything is allowed."""

    kinds: dict[str, str]
    types: dict[str, dict[str, str]]


@cache
def _table() -> _Table:
    return msgspec.json.decode(resources.files(__package__).joinpath("manifest_fields.json").read_bytes(), type=_Table)


def _sentences(found: Iterator[tuple[str, str, Mapping[str, str]]]) -> tuple[str, ...]:
    sentences: list[str] = []
    more = 0
    budget = wording.LetterBudget()
    for where, name, known in found:
        if len(sentences) == MAX_NAMED:
            more += 1
            continue
        near = wording.closest(name, known, budget)
        sentences.append(f"{_join(where, name):.200}: unknown field" + (f"; did you mean {near}?" if near else ""))
    return (*sentences, f"{more} more unknown fields") if more else tuple(sentences)


def _unknown(value: Any, of: str, where: str) -> Iterator[tuple[str, str, Mapping[str, str]]]:
    """(path, name, known names at that path) of each unknown field; values of the wrong shape are left to decoding."""
    if isinstance(value, list):
        for index, entry in enumerate(value):
            if isinstance(entry, dict):
                yield from _unknown(entry, of, f"{where}[{index}]")
        return
    if not isinstance(value, dict):
        return
    known = _table().types[of]
    for key, entry in value.items():
        nested = known.get(key)
        if nested is None:
            yield where, str(key), known
        elif nested:
            yield from _unknown(entry, nested, _join(where, key))


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
