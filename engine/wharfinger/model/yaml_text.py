"""YAML as Kubernetes reads it, into plain Python values.

Three things differ from what a YAML library does by itself. A date such as `2024-01-01` is text to Kubernetes. The fast parser, which is
written in C, builds nested values by recursion without a limit, so that a hundred thousand brackets would end the process; text that might
be so deep is measured first, event by event, which needs no recursion. And an alias can stand for a value that contains it, or a few
hundred bytes of aliases of aliases for a thousand million values, so that whoever walks through them comes to no end: that is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import yaml

DEEPEST = 200  # Kubernetes objects are some fifteen levels deep
MOST_ALIASED = 1_000_000  # values of a document that uses aliases, each counted as often as it stands for something

_NO_FILE = ' in "<unicode string>", line'  # the parser was given text; whoever catches the error knows the file
_ALIAS = re.compile(rb"(?:^|[\s\[{,:])\*[^\s*]")
_DEEP_BLOCKS = re.compile(rb"(?:[-?:][ \t]+){64}|^ {256}", re.MULTILINE)


class NotReadable(Exception):
    """A file's content is not what its format demands."""


def parse(content: bytes, *, unique_keys: bool = False) -> Iterator[Any]:
    """The values of the documents in a YAML text, empty ones left out; NotReadable when it is not YAML.

    Of equal keys in one mapping the last counts, unless `unique_keys` has them refused, which takes a while for megabytes.
    """
    try:
        text = content.decode("utf-8")
        if _may_be_deep(content) and _depth(text) > DEEPEST:
            raise NotReadable(f"values are nested more than {DEEPEST} levels deep")
        has_aliases = _ALIAS.search(content) is not None
        for document in yaml.load_all(text, Loader=_UNIQUE_KEYS if unique_keys else _LOADER):
            if has_aliases:
                _measure(document, {})
            if document is not None:
                yield document
    except UnicodeDecodeError:
        raise NotReadable("neither JSON nor YAML: it is not UTF-8 text") from None
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        raise NotReadable(f"not YAML: {' '.join(str(error).split())}".replace(_NO_FILE, " at line")) from None


def _may_be_deep(content: bytes) -> bool:
    """Whether there are enough brackets open at once, dashes in a row or spaces before a line; brackets in text count too, hence `may`."""
    letters = np.frombuffer(content, dtype=np.uint8)
    opening = np.isin(letters, np.frombuffer(b"[{", dtype=np.uint8)).astype(np.int32)
    closing = np.isin(letters, np.frombuffer(b"]}", dtype=np.uint8)).astype(np.int32)
    return bool(np.max(np.cumsum(opening - closing), initial=0) > DEEPEST // 2) or _DEEP_BLOCKS.search(content) is not None


def _depth(text: str) -> int:
    depth = deepest = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            deepest = max(deepest, depth)
            if deepest > DEEPEST:
                break
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    return deepest


def _measure(value: Any, known: dict[int, tuple[int, int]], level: int = 1) -> tuple[int, int]:
    """How many values there are in a value, and on how many levels, aliases followed; `known` are those measured already, by identity."""
    if not isinstance(value, dict | list):
        return 1, 0
    if id(value) not in known:
        if level > DEEPEST:
            raise NotReadable(f"values are nested more than {DEEPEST} levels deep, or an alias stands for what contains it")
        parts = [_measure(part, known, level + 1) for part in (value.values() if isinstance(value, dict) else value)]
        known[id(value)] = 1 + sum(size for size, _ in parts), 1 + max((height for _, height in parts), default=0)
    size, height = known[id(value)]
    if size > MOST_ALIASED:
        raise NotReadable(f"its aliases stand for more than {MOST_ALIASED:,} values; write out what is meant")
    if level + height - 1 > DEEPEST:
        raise NotReadable(f"values are nested more than {DEEPEST} levels deep")
    return size, height


def _construct_mapping(loader: Any, node: Any, deep: bool = False) -> dict[Any, Any]:
    """The mapping of a node; NotReadable when a key is there twice."""
    known: set[str] = set()
    for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
        if isinstance(key, yaml.ScalarNode):
            if key.value in known:
                raise NotReadable(f'line {key.start_mark.line + 1}: the key "{key.value}" is there twice')
            known.add(key.value)
    mapping: dict[Any, Any] = super(_UNIQUE_KEYS, loader).construct_mapping(node, deep=deep)
    return mapping


def _make_loader() -> type[Any]:
    """The fastest safe loader, without timestamps: Kubernetes reads `2024-01-01` in YAML as text."""
    base: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    resolvers = {
        first: [(tag, pattern) for tag, pattern in patterns if tag != "tag:yaml.org,2002:timestamp"]
        for first, patterns in base.yaml_implicit_resolvers.items()
    }
    return type("Loader", (base,), {"yaml_implicit_resolvers": resolvers})


_LOADER = _make_loader()
_UNIQUE_KEYS: type[Any] = type("UniqueKeys", (_LOADER,), {"construct_mapping": _construct_mapping})
