"""Refuses expressions that may return optional values to Python: the runtime would end the process.

Each value has a bound of how deep optional values are nested in it, in lists and maps too. Functions of the language take any value; those
that `library` implements take none with an optional value inside.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Final, NamedTuple

from wharfinger.framework.plugins.devices.cel import syntax_tree as tree
from wharfinger.framework.plugins.devices.cel.cost import SCALAR, is_native
from wharfinger.framework.plugins.devices.cel.rewriting import IS_FOREIGN, SAME_FOREIGN

_FIRST_OF: Final = frozenset({"optional.of", "optional.ofNonZeroValue", "first", "last"})
_OF_EQUALITY: Final = frozenset({IS_FOREIGN, SAME_FOREIGN})
_ENTRY_OF: Final = frozenset({"_[?_]", "_?._"})
_may_be_optional: Final = tree.calling(("optional.", *_FIRST_OF, *_ENTRY_OF))


class _Depth(NamedTuple):
    """The maximum nesting of optional values in a value; `sure` if it is one itself."""

    depth: int = 0
    sure: bool = False


_NONE = _Depth()
_Scope = Mapping[str, _Depth]
_Steps = Generator[None, None, _Depth]


class _Reached(Exception):
    pass


def refusal(serialized: bytes) -> Generator[None, None, str]:
    """The steps of finding the reason why a compiled expression, serialized, cannot be evaluated; "" if it can."""
    expression = tree.expression(serialized)
    if not _may_be_optional(expression):
        return ""
    try:
        result = yield from _of(expression, {})
    except _Reached as reached:
        return f"optional values in an argument of {reached}, which takes none here"
    return "must evaluate to bool or the unknown type, not optional_type" if result.depth else ""


def _of(message: bytes, scope: _Scope) -> _Steps:
    yield
    parts = tree.fields(message)
    if name := tree.text(tree.fields(tree.first(parts, tree.IDENTIFIER)), 1):
        return scope.get(name, _NONE)
    if select := tree.first(parts, tree.SELECT):
        selected = tree.fields(select)
        return _NONE if selected.get(3) else _Depth((yield from _of(tree.first(selected, 1), scope)).depth)
    if call := tree.first(parts, tree.CALL):
        return (yield from _call(tree.fields(call), scope))
    if loop := tree.first(parts, tree.COMPREHENSION):
        return (yield from _loop(tree.fields(loop), scope))
    depth = 0
    for part, unwrapped in _elements(parts):
        depth = max(depth, (yield from _of(part, scope)).depth - unwrapped)
    return _Depth(depth)


def _elements(parts: tree.Message) -> Iterator[tuple[bytes, bool]]:
    """The parts of a list or map, and if each is an optional value that is taken out."""
    items = tree.fields(tree.first(parts, tree.LIST))
    optional = set(tree.first(items, 2))  # a number of more than 127 is several bytes; then too few are known
    for place, item in enumerate(tree.every(items, 1)):
        yield item, place in optional and place < 128
    for entry in tree.every(tree.fields(tree.first(parts, tree.STRUCT)), 2):
        fields = tree.fields(entry)
        yield from ((part, False) for part in tree.every(fields, 3))
        yield from ((part, bool(fields.get(5))) for part in tree.every(fields, 4))


def _call(message: tree.Message, scope: _Scope) -> _Steps:
    function = tree.text(message, 2)
    values = []
    for part in (*tree.every(message, 1), *tree.every(message, 3)):
        value = yield from _of(part, scope)
        values.append(value)
    deepest = max((value.depth for value in values), default=0)
    if not is_native(function):
        as_map = function in _OF_EQUALITY  # which are used for maps only
        if any(value.depth and not (as_map and value.sure) for value in values):
            raise _Reached("==" if as_map else function)
        return _NONE
    if function == "optional.none":
        return _Depth(1, sure=True)
    if not deepest and function not in _FIRST_OF | _ENTRY_OF:
        return _NONE
    return _with_optional(function, values, deepest)


def _with_optional(function: str, values: list[_Depth], deepest: int) -> _Depth:
    if function in _FIRST_OF:
        return _Depth(deepest + 1, sure=True)
    if function in _ENTRY_OF:  # of an optional value: the entry of its content
        return _Depth(max(1, deepest + (not values[0].sure)), sure=True)
    if function in {"value", "orValue"}:
        others = [value.depth for value in values[1:]]
        return _Depth(max([0, values[0].depth - 1, *others]))
    if function in SCALAR:
        return _NONE
    if function == "_?_:_":
        values = values[1:]
        deepest = max(value.depth for value in values)
    return _Depth(deepest, sure=function in {"or", "_?_:_", "dyn"} and all(value.sure for value in values))


def _loop(message: tree.Message, scope: _Scope) -> _Steps:
    """The result of a loop. Each step adds the same to what is collected: its name, `@result`, cannot be written in an expression."""
    over = yield from _of(tree.first(message, 2), scope)
    begin = yield from _of(tree.first(message, 4), scope)
    collected = tree.text(message, 3)
    item = _Depth(over.depth)
    inside = {**scope, tree.text(message, 1): item, tree.text(message, 8): item, collected: begin}
    known = begin
    if not tree.is_empty_list(tree.first(message, 2)):
        yield from _of(tree.first(message, 5), inside)
        step = yield from _of(tree.first(message, 6), inside)
        known = _Depth(max(begin.depth, step.depth), begin.sure and step.sure)
    return (yield from _of(tree.first(message, 7), {**scope, collected: known}))
