"""Candidates inside quotes: keys and values of labels, resources, taints, and strings that a parameter accepts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

from wharfinger.authoring import vocabulary
from wharfinger.authoring.completion.place import Candidate
from wharfinger.authoring.document import Document
from wharfinger.authoring.known_cluster import KnownCluster
from wharfinger.authoring.words import Frame, Reading
from wharfinger.builtins.nodes import EFFECTS
from wharfinger.language.parse.tokens import Token
from wharfinger.language.report import wording
from wharfinger.language.semantics.catalogue import SOURCES, Subject
from wharfinger.model.objects.requests import NATIVE

SUBJECTS = {subject.word: subject for subject in (Subject.POD, Subject.NODE, Subject.ITEM)}
COMPARES = frozenset({"EQ", "NE"})
QOS = ("Guaranteed", "Burstable", "BestEffort")
STATUSES = ("True", "False", "Unknown")
SELECTED_VALUE = re.compile(r"([\w./-]+)\s*(?:==?|!=|\s(?:not)?in\s*\((?:[^)]*,)?)\s*([\w.-]*)$")
"""The end of a label selector where a value is being written: its key, and what there is of the value."""
SELECTED_KEY = re.compile(r"(?:^|,)\s*!?([\w./-]*)$")
"""The end of a label selector where a key is being written."""
MAX_SELECTED = 1_000
"""Letters at the end of a label selector that are read; a key has at most 317. What the patterns take grows with the square of it."""
OF_NATIVE = frozenset({"least_allocated", "most_allocated", "balanced_allocation", "share_after"})


class _Inside:
    """The quoted text at the cursor: the part before the cursor and the part after it, without the quotes."""

    def __init__(self, token: Token, offset: int) -> None:
        closed = len(token.text) > 1 and token.text[-1] == token.text[0]
        self.start = token.start + 1
        self.end = token.end - 1 if closed else offset


def text_candidates(
    document: Document, string: Token, offset: int, before: Sequence[Token], cluster: KnownCluster | None
) -> list[Candidate]:
    """Candidates for the quoted string at an offset; `before` are the tokens of the statement before it."""
    reading = Reading(document.source, [*before, Token("STRING", '"_"', string.start, string.start + 3)])
    words = list(reading.words())
    frame = words[-1].frame if words else None
    place = _Inside(string, offset)
    if before and before[-1].type == "MATCHES":
        return _of_selector(document.text[max(place.start, offset - MAX_SELECTED) : offset], offset, before, cluster)
    found = dict(_found(before, frame, reading, cluster))
    return [Candidate(label=text, kind="label", start=place.start, end=place.end, detail=detail) for text, detail in found.items()]


def _found(before: Sequence[Token], frame: Frame | None, reading: Reading, cluster: KnownCluster | None) -> Iterator[tuple[str, str]]:
    last = before[-1].type if before else ""
    if frame is not None and frame.holds == "index" and last == "LSQB":
        yield from _keys(_path(before[:-1]), cluster, item_of(before))
    elif last in COMPARES:
        yield from _values_of(before[:-1], cluster)
    elif frame is not None and frame.holds == "set" and frame.name == "in":
        opened = len(before) - 1 - next(at for at, token in enumerate(reversed(before)) if token.start == frame.at)
        yield from _values_of(before[: opened - 1], cluster)
    elif last in {"REQUIRED", "PREFERRED", "SPREAD_OVER"} or (last == "COMMA" and reading.item == "GROUP") or _is_after_together(before):
        yield from _keys(("node", "labels"), cluster)
    elif frame is not None and frame.holds == "call":
        yield from _arguments(before, frame, reading, cluster)
    elif frame is not None and frame.holds in {"object", "set"}:
        yield from _of_object(before, frame, cluster)


def _of_selector(written: str, offset: int, before: Sequence[Token], cluster: KnownCluster | None) -> list[Candidate]:
    """Candidates for the key or the value at the end of an unfinished label selector."""
    path, item = _path(before[:-1]), item_of(before)
    value, key = SELECTED_VALUE.search(written), SELECTED_KEY.search(written)
    if value is not None:
        begun, found = value[2], _of_key(path, item, value[1], cluster)
    elif key is not None:
        begun, found = key[1], _keys(path, cluster, item)
    else:
        return []
    return [Candidate(label=text, kind="label", start=offset - len(begun), end=offset, detail=detail) for text, detail in found]


def _of_key(path: tuple[str, ...], item: Subject, key: str, cluster: KnownCluster | None) -> Iterator[tuple[str, str]]:
    """The values of a key of a field in the cluster; `item` is the meaning of `it`."""
    if cluster is not None and len(path) == 2 and path[0] in SUBJECTS:
        subject = item if path[0] == Subject.ITEM.word else SUBJECTS[path[0]]
        yield from _shown(cluster.keys(subject, path[1]).get(key, {}), subject.value)


def _is_after_together(before: Sequence[Token]) -> bool:
    """True after `together in` of a test."""
    return len(before) > 1 and before[-1].type == "IN" and before[-2].type == "TOGETHER"


def _path(before: Sequence[Token]) -> tuple[str, ...]:
    """The names joined by dots at the end of some tokens: `node.labels`."""
    found: list[str] = []
    at = len(before) - 1
    while at >= 0 and before[at].text.isidentifier():
        found.insert(0, before[at].text)
        if at < 1 or before[at - 1].type != "DOT":
            break
        at -= 2
    return tuple(found)


def item_of(before: Sequence[Token]) -> Subject:
    """The item that `it` means after some tokens: a device after `devices` and `prefer device`, else a placed pod."""
    selected = next((token.type for token in reversed(before) if token.type in {"PODS", "DEVICES", "DEVICE"}), "PODS")
    return Subject.ITEM if selected == "PODS" else Subject.DEVICE


def _keys(path: tuple[str, ...], cluster: KnownCluster | None, item: Subject = Subject.ITEM) -> Iterator[tuple[str, str]]:
    """The keys of a field: of labels and annotations those that the cluster has, of resources their names; `item` is what `it` means."""
    if len(path) != 2 or path[0] not in SUBJECTS:
        return
    subject, group = item if path[0] == Subject.ITEM.word else SUBJECTS[path[0]], path[1]
    if cluster is not None:
        for key, values in sorted(cluster.keys(subject, group).items()):
            named = ", ".join(value for value, _ in values.most_common(3) if value)
            yield key, named or f"of {cluster.name}"
    elif subject is Subject.NODE and group == "labels":
        yield from vocabulary.KNOWN_LABELS.items()
    if group == "conditions":
        yield from ((name, "") for name in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"))


def _values_of(before: Sequence[Token], cluster: KnownCluster | None) -> Iterator[tuple[str, str]]:
    """The strings that the expression at the end of some tokens can be compared with."""
    tokens = _without_fallback(before)
    if len(tokens) > 3 and tokens[-1].type == "RSQB" and tokens[-2].type == "STRING":
        path, key = _path(tokens[:-3]), tokens[-2].text[1:-1]
        if len(path) == 2 and path[0] in SUBJECTS:
            if path[1] == "conditions":
                yield from ((status, "") for status in STATUSES)
            else:
                yield from _of_key(path, item_of(before), key, cluster)
        return
    path = _path(tokens)
    if len(path) == 2 and path[0] in {"pod", "it"}:
        if path[1] == "qos":
            yield from ((value, "") for value in QOS)
        elif cluster is not None:
            yield from _shown(cluster.fields.get(path[1], {}), "pod")
    elif path == ("node", "name") and cluster is not None:
        yield from ((name, "") for name in cluster.snapshot.names)


def _without_fallback(before: Sequence[Token]) -> Sequence[Token]:
    """Tokens that end with a value, without the `??` after it and the parentheses around it."""
    tokens = before[:-2] if len(before) > 2 and before[-2].type == "COALESCE" else before
    if len(tokens) > 3 and tokens[-1].type == "RPAR":
        return list(takewhile(lambda token: token.type != "COALESCE", tokens[_opening(tokens) + 1 : -1]))
    return tokens


def _opening(tokens: Sequence[Token]) -> int:
    """The index of the parenthesis that the last token closes; 0 if there is none."""
    depth = 0
    for at in range(len(tokens) - 1, -1, -1):
        depth += (tokens[at].type == "RPAR") - (tokens[at].type == "LPAR")
        if depth == 0:
            return at
    return 0


def _shown(values: Mapping[str, int], owner: str) -> Iterator[tuple[str, str]]:
    noun = owner if owner in {"node", "device"} else "pod"
    for value, number in sorted(values.items(), key=lambda found: (-found[1], found[0])):
        yield value, wording.count(number, noun)


def _arguments(before: Sequence[Token], frame: Frame, reading: Reading, cluster: KnownCluster | None) -> Iterator[tuple[str, str]]:
    """The texts that an argument of a call can be."""
    named = before[-2].text if len(before) > 1 and before[-1].type == "COLON" else ""
    if named in {"within", "by"}:
        yield from _keys(("node", "labels"), cluster)
    elif frame.name in {"tolerates", "has_taint"}:
        yield from _shown(cluster.taints if cluster is not None else {}, "node")
    elif frame.name in {"taints", "untolerated_taints"}:
        yield from ((effect, "") for effect in EFFECTS)
    elif frame.name in OF_NATIVE:
        names = cluster.snapshot.resource_names if cluster is not None else NATIVE
        yield from ((name, "") for name in names)
    elif reading.item == "METRIC" and frame.name in SOURCES and not named:
        yield from ((name, kind.value) for name, kind in (SOURCES[frame.name].resources or {}).items())


def _of_object(before: Sequence[Token], frame: Frame, cluster: KnownCluster | None) -> Iterator[tuple[str, str]]:
    """The keys and values of fields of a node or pod in a test."""
    path = frame.path()
    fields, _ = vocabulary.object_fields(path)
    if not fields:
        return
    subject = Subject.NODE if path[0] == "NODE" else Subject.POD
    last = before[-1].type if before else ""
    key = before[-2].text.strip("\"'") if last == "COLON" and len(before) > 1 else ""
    if len(path) == 2 and last in {"LBRACE", "COMMA"}:
        group = "allocatable" if path[1] == "resources" else path[1]
        yield from _keys((subject.value, group), cluster)
    elif len(path) == 2 and key and cluster is not None:
        yield from _shown(cluster.keys(subject, path[1]).get(key, {}), subject.value)
    elif len(path) == 1 and key in fields:
        yield from ((choice, "") for choice in sorted(fields[key].choices))
    elif frame.holds == "set" and cluster is not None and frame.name == ":":
        opened = next(at for at, token in enumerate(before) if token.start == frame.at)
        name = before[opened - 2].text if opened > 1 else ""
        if name in {"taints", "tolerations"} & fields.keys():
            yield from _shown(cluster.taints, "node")
