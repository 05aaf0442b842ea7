"""YAML read as plain values.

Three points differ from the defaults of a YAML library. A date such as `2024-01-01` is text, as in Kubernetes. The fast parser in C builds
nested values by unlimited recursion, so a hundred thousand brackets would crash the process; text that may be nested so deeply is measured
first, event by event. With aliases a value can contain itself, or a few hundred bytes can expand to a billion values; both are rejected.

A command that reads JSON alone starts sooner without this module.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import yaml

from wharfinger.model.reading.decode import MAX_DEPTH, NotReadable

MAX_ALIASED = 1_000_000  # values of a document with aliases, each counted as often as it occurs after their expansion
MAX_ALIASED_TEXT = 2**24  # characters by which aliases may lengthen a document
MAX_SHOWN = 40  # characters of a value in a message
MAX_DIGITS = 1000  # of a whole number; Python writes none with more than 4,300 decimal digits
_TAG = "tag:yaml.org,2002:"
_MERGE = f"{_TAG}merge"
_COLLECTIONS = (dict, list, set, tuple)  # of a mapping, a sequence, `!!set`, and the pairs of `!!omap`
_NO_FILE = ' in "<unicode string>", line'  # the parser gets text; the caller adds the name of the file
_ALIAS = re.compile(rb"(?:^|[\s\[{,:])\*[^\s*]")
_NOT_A_SPACE = re.compile(r" *([\t\u00a0\u2000-\u200b\u202f\u3000])")
_DEEP_BLOCKS = re.compile(rb"(?:[-?:][ \t]+){64}|^ {256}", re.MULTILINE)


def parse_yaml(content: bytes, *, unique_keys: bool = False) -> Iterator[Any]:
    """The values of the documents in a YAML text, without empty ones; NotReadable if it is not YAML.

    Of equal keys in one mapping the last counts. With `unique_keys` they are rejected; that is slow for megabytes of text.
    """
    try:
        text = content.decode("utf-8")
        if _may_be_deep(content) and _depth(text) > MAX_DEPTH:
            raise NotReadable(f"values are nested more than {MAX_DEPTH} levels deep")
        has_aliases = _ALIAS.search(content) is not None
        for document in yaml.load_all(text, Loader=_UNIQUE_KEYS if unique_keys else _LOADER):
            if has_aliases:
                _measure(document, {})
                if _length(document, {}) > len(text) + MAX_ALIASED_TEXT:
                    raise NotReadable(f"its aliases expand to more than {MAX_ALIASED_TEXT:,} characters; write out what is meant")
            if document is not None:
                yield document
    except UnicodeDecodeError:
        raise NotReadable("neither JSON nor YAML: it is not UTF-8 text") from None
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        reason = f"not YAML: {' '.join(str(error).split())}".replace(_NO_FILE, " at line")
        raise NotReadable(reason + _advice(text, error)) from None


def _advice(text: str, error: Exception) -> str:
    """The usual cause of an error at its place, with the fix, to be put behind the error; "" if it is another."""
    mark = getattr(error, "problem_mark", None)
    lines = [] if mark is None else text.split("\n")[: mark.line + 1]
    for number in range(len(lines), max(0, len(lines) - 2), -1):  # the parser often fails one line later
        if found := _NOT_A_SPACE.match(lines[number - 1]):
            name = "a tab" if found[1] == "\t" else f"the character U+{ord(found[1]):04X}"
            return f"; line {number} is indented with {name}, write spaces"
    if lines and "{{" in lines[-1]:
        return "; `{{ … }}` is of a template, which has to be rendered first, as `helm template` does"
    return ""


def _may_be_deep(content: bytes) -> bool:
    """True if values may be nested too deeply: many open brackets (also those in text), dashes in a row, or spaces before a line."""
    letters = np.frombuffer(content, dtype=np.uint8)
    opening = np.isin(letters, np.frombuffer(b"[{", dtype=np.uint8)).astype(np.int32)
    closing = np.isin(letters, np.frombuffer(b"]}", dtype=np.uint8)).astype(np.int32)
    return bool(np.max(np.cumsum(opening - closing), initial=0) > MAX_DEPTH // 2) or _DEEP_BLOCKS.search(content) is not None


def _depth(text: str) -> int:
    depth = deepest = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            deepest = max(deepest, depth)
            if deepest > MAX_DEPTH:
                break
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    return deepest


def _measure(value: Any, known: dict[int, tuple[int, int]], level: int = 1) -> tuple[int, int]:
    """The number of values in a value and the number of its levels, with aliases expanded; `known` has earlier results by identity.

    NotReadable if a limit is exceeded.
    """
    if not isinstance(value, _COLLECTIONS):
        return 1, 0
    if id(value) not in known:
        if level > MAX_DEPTH:
            raise NotReadable(f"values are nested more than {MAX_DEPTH} levels deep, or an alias contains itself")
        parts = [_measure(part, known, level + 1) for part in (value.values() if isinstance(value, dict) else value)]
        known[id(value)] = 1 + sum(size for size, _ in parts), 1 + max((height for _, height in parts), default=0)
    size, height = known[id(value)]
    if size > MAX_ALIASED:
        raise NotReadable(f"its aliases expand to more than {MAX_ALIASED:,} values; write out what is meant")
    if level + height - 1 > MAX_DEPTH:
        raise NotReadable(f"values are nested more than {MAX_DEPTH} levels deep")
    return size, height


def _length(value: Any, known: dict[int, int]) -> int:
    """The number of characters of texts, keys and long numbers in a value, with aliases expanded; `known` as for `_measure`."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, int):
        return value.bit_length() // 4
    if not isinstance(value, _COLLECTIONS):
        return 0
    if id(value) not in known:
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        known[id(value)] = sum(_length(part, known) for part in parts)
    return known[id(value)]


def _flatten_mapping(loader: Any, node: Any) -> None:
    """Put the entries of merged mappings (`<<`) into the mapping of a YAML node; NotReadable for too many, or for a merge into itself.

    Merges of merges can expand some lines to any number of entries, before there are values that could be measured.
    """
    if node in loader.merging:
        raise NotReadable(f"line {node.start_mark.line + 1}: a mapping is merged into itself")
    loader.merging.append(node)
    for key, value in node.value:
        if key.tag == _MERGE:
            for source in value.value if isinstance(value, yaml.SequenceNode) else (value,):
                if isinstance(source, yaml.MappingNode):
                    loader.flatten_mapping(source)
                    loader.merged += len(source.value)
                if loader.merged > MAX_ALIASED:
                    where = f"line {node.start_mark.line + 1}: its merges (`<<`)"
                    raise NotReadable(f"{where} expand to more than {MAX_ALIASED:,} entries; write out what is meant")
    loader.merging.pop()
    yaml.SafeLoader.flatten_mapping(loader, node)


def _flatten_unique(loader: Any, node: Any) -> None:
    """As `_flatten_mapping`; NotReadable if a key occurs twice in the mapping as it is written."""
    if not hasattr(node, "unique"):  # another mapping that merges it may have been first
        node.unique = True
        known: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in known:
                    raise NotReadable(f'line {key.start_mark.line + 1}: the key "{key.value}" is there twice')
                known.add(key.value)
    _flatten_mapping(loader, node)


def _construct_int(loader: Any, node: Any) -> int:
    """The whole number of a YAML node, also in hexadecimal and other notations; NotReadable if it has too many digits."""
    if len(node.value) > MAX_DIGITS:
        raise NotReadable(f"line {node.start_mark.line + 1}: a number with more than {MAX_DIGITS:,} digits")
    number: int = loader.construct_yaml_int(node)
    return number


def _fitting(construct: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A function that constructs values as `construct` does; NotReadable for a text that is no value of its tag."""

    def constructed(loader: Any, node: Any) -> Any:
        try:
            return construct(loader, node)
        except (ArithmeticError, AttributeError, LookupError, ValueError):
            text = node.value if len(node.value) <= MAX_SHOWN else f"{node.value[:MAX_SHOWN]}…"
            raise NotReadable(f"line {node.start_mark.line + 1}: `{text}` is no value of the tag !!{node.tag.rpartition(':')[2]}") from None

    return constructed


def _make_loader() -> type[Any]:
    """The fastest safe loader, without timestamps: Kubernetes reads `2024-01-01` in YAML as text."""
    base: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    resolvers = {
        first: [(tag, pattern) for tag, pattern in patterns if tag != f"{_TAG}timestamp"]
        for first, patterns in base.yaml_implicit_resolvers.items()
    }
    constructors = {**base.yaml_constructors, f"{_TAG}int": _construct_int}
    constructors |= {tag: _fitting(constructors[tag]) for tag in (f"{_TAG}int", f"{_TAG}float", f"{_TAG}bool", f"{_TAG}timestamp")}

    class Loader(base):  # type: ignore[misc]  # one of two classes
        yaml_implicit_resolvers = resolvers
        yaml_constructors = constructors
        flatten_mapping = _flatten_mapping

        def __init__(self, stream: Any) -> None:
            super().__init__(stream)
            self.merged = 0  # entries that merges have added
            self.merging: list[Any] = []  # mappings whose merges are being expanded

    return Loader


_LOADER = _make_loader()
_UNIQUE_KEYS: type[Any] = type("UniqueKeys", (_LOADER,), {"flatten_mapping": _flatten_unique})
