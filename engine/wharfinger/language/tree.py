"""Questions about syntax trees that do not depend on what the nodes mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from wharfinger.language import ast
from wharfinger.language.source import Span

_FIELDS: dict[type[ast.Node], tuple[str, ...]] = {}  # of each kind of node, once asked for


def children(node: ast.Node) -> Iterator[ast.Node]:
    """The nodes directly below a node, in the order of its fields."""
    for field in _fields(node.__class__):
        value = getattr(node, field)
        if isinstance(value, ast.Node):
            yield value
        elif isinstance(value, tuple):
            yield from (member for member in value if isinstance(member, ast.Node))


def deepest(node: ast.Node, most: int) -> ast.Expr | None:
    """An expression that stands more than `most` deep in others, or None; does not recurse, so it may be asked about any tree."""
    waiting: list[tuple[ast.Node, int]] = [(node, 0)]
    while waiting:
        current, depth = waiting.pop()
        if isinstance(current, ast.Expr):
            depth += 1
            if depth > most:
                return current
            if depth + current.span.end - current.span.start <= most:
                continue  # n characters cannot hold more than n levels
        waiting.extend((child, depth) for child in children(current))
    return None


def without_places(value: Any) -> Any:
    """The tree as nested tuples without its spans: equal for two texts exactly if they say the same."""
    if isinstance(value, ast.Node):
        kept = (without_places(getattr(value, field)) for field in _fields(value.__class__))
        return (type(value).__name__, *kept)
    if isinstance(value, tuple):
        return tuple(without_places(member) for member in value if not isinstance(member, Span))
    return value


def _fields(kind: type[ast.Node]) -> tuple[str, ...]:
    if kind not in _FIELDS:
        said = (field.name for field in fields(kind) if field.compare)
        _FIELDS[kind] = tuple(name for name in said if name != "span" and not name.endswith("_span"))
    return _FIELDS[kind]
