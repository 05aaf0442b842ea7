"""The maximum cost of an expression, estimated from its text before it is evaluated.

The runtime limits the iterations of an expression, but not its time or memory. Kubernetes estimates a cost and refuses expensive
expressions when they are written; no API server has checked expressions in files. This estimate follows that of Kubernetes
(`checker/cost.go` of cel-go): an operation costs 1 plus the size of what it reads and makes; a loop costs its body times the length of its
list or map. The estimate uses bounds of values instead of types. So it is higher where a value can have several types, and for functions of
Kubernetes, which are called in Python here.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from wharfinger.framework.plugins.devices.cel import syntax_tree as tree
from wharfinger.framework.plugins.devices.cel.library import MAX_RANGE_LENGTH
from wharfinger.framework.plugins.devices.cel.rewriting import MERGED, NAMED, OF_PAIRS, PLACES, SORTED, SUM, WRONG

MAX_COST: Final = 1_000_000
"""The limit of one expression, as in Kubernetes: at most about 0.04 s and 100 MB."""
MAX_MAP_ENTRIES: Final = 32
"""The most entries of a map of a device (validation of ResourceSlices)."""
MAX_LETTERS: Final = 64
"""The most characters of a key or value there."""

_PRECISION = 1_010  # characters of a formatted number
_INDEX = {"kubernetes_indexOf", "kubernetes_lastIndexOf"}
_SETS = {"sets.contains", "sets.equivalent", "sets.intersects"}
_TO_SCALAR = {"int", "uint", "double", "bool", "type"}
_LOOP_CONDITIONS = {"@not_strictly_false", "__not_strictly_false__"}

_SAME_SIZE = {
    *("substring", "trim", "lowerAscii", "upperAscii", "charAt", "reverse", "sort", "slice", "find", "cidr", "masked", "ip"),
    *("string", "bytes"),
    *(OF_PAIRS, MERGED, SORTED),
}
_PASSED_ON = {"optional.of", "optional.ofNonZeroValue", "value", "orValue", "or"}
SCALAR = {
    *("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "_&&_", "_||_", "!_", "-_", "_-_", "_*_", "_/_", "_%_", "@in", "in", "size", "matches"),
    *("startsWith", "endsWith", "contains", "hasValue", "isSorted"),
    *(_INDEX | _SETS | _TO_SCALAR | _LOOP_CONDITIONS),
    *("quantity", "isQuantity", "sign", "isInteger", "asInteger", "asApproximateFloat"),
    *("compareTo", "isGreaterThan", "isLessThan", "semver", "isSemver", "major", "minor", "patch", "sum", "isIP", "isCIDR", "family"),
    *("ip.isCanonical", "isGlobalUnicast", "isLinkLocalUnicast", "isLinkLocalMulticast", "includes"),
    *("isLoopback", "isUnspecified", "containsIP", "containsCIDR", "prefixLength", "isURL"),
    *(SUM, NAMED, *PLACES),
}
_NATIVE = {
    *("@in", "in", "size", "matches", "startsWith", "endsWith", "contains", "charAt", "substring", "trim"),
    *("lowerAscii", "upperAscii", "replace", "split", "join", "format", "quote", "string", "bytes", "hasValue", "first", "last"),
    *(_TO_SCALAR | _LOOP_CONDITIONS | _PASSED_ON),
}
"""Functions of the runtime itself besides operators and `optional.…`; all others are called in Python (`library`)."""
_CALLED: Final = 40
"""The additional cost of a function in Python: 4 µs, which are at most 40 operations of the runtime."""
_ESCAPED = {"url", "getScheme", "getHost", "getHostname", "getPort", "getEscapedPath"}
_ESCAPE = 3  # characters of an escaped one
_WRONG = 700  # characters of an error message, without the text that it quotes
_QUOTE = 10  # characters of a quoted one
_PAIRWISE = {*("matches", "find", "findAll", "contains"), *(_INDEX | _SETS)}
_COMPARED: Final = {"contains": 0.1}
"""The cost of comparing a character with one of another text, if that is less than 1; `matches` compiles the expression too."""
_UNKNOWN_ITEMS: Final = {OF_PAIRS, MERGED, SORTED, "string", "bytes"}
"""Functions whose result consists of something else than their argument."""


class _Value(Struct, frozen=True):
    """A bound of a value: its elements or characters, those of any value within it, and both of all together (`weight`).

    `inside` is a bound of each element, key or field, where more is known of it; that of an empty list is `_NOTHING`. `keys` is a bound of
    each key, of what is known to be a map.
    """

    length: float = 1
    within: float = 1
    weight: float = 1
    inside: _Value | None = None
    keys: _Value | None = None

    @property
    def part(self) -> _Value:
        """An element, key or field."""
        return self.inside or _Value(min(self.within, self.weight), self.within, self.weight)

    def __add__(self, other: _Value) -> _Value:
        inside = _known(self.inside, other.inside)
        return _Value(self.length + other.length, max(self.within, other.within), self.weight + other.weight, inside)

    def __or__(self, other: _Value) -> _Value:
        """A bound of both."""
        if self is _NOTHING or other is _NOTHING:
            return other if self is _NOTHING else self
        within, weight = max(self.within, other.within), max(self.weight, other.weight)
        inside, keys = _known(self.inside, other.inside), _known(self.keys, other.keys)
        return _Value(max(self.length, other.length), within, weight, inside, keys)


def _known(one: _Value | None, other: _Value | None) -> _Value | None:
    """A bound of two values; None if one is not known."""
    return None if one is None or other is None else one | other


_ONE = _Value()
_NOTHING: Final = _Value(0, 1, 0)
_Found = tuple[float, _Value]


def cost(serialized: bytes, entries: int = MAX_MAP_ENTRIES, letters: int = MAX_LETTERS) -> Generator[None, None, float]:
    """The steps of estimating the most that a compiled expression may cost, by its serialized form (`cel.expr.CheckedExpr` in an `Any`).

    It is that for a device with these largest numbers of entries in each map, and of characters in each key and value. There is one step
    for each expression within.
    """
    found, _ = yield from _expression(tree.expression(serialized), {"device": _device(entries, letters)})
    return found


def _device(entries: int, letters: int) -> _Value:
    text = _Value(letters, 1, letters)
    domain = _Value(entries, letters, entries * letters, text, text)
    return replace(domain, inside=replace(domain, inside=domain))


# ── forms of expressions ──

_Scope = Mapping[str, _Value]
_Steps = Generator[None, None, _Found]


def _expression(message: bytes, scope: _Scope) -> _Steps:
    yield
    for number, value in tree.fields(message).items():
        if number in _FORMS and isinstance(value[0], bytes):
            return (yield from _FORMS[number](tree.fields(value[0]), scope))
        if number in _LEAVES and isinstance(value[0], bytes):
            return _LEAVES[number](tree.fields(value[0]), scope)
    return 0, _ONE  # nothing, as the target of a function without one


def _each(messages: Iterable[bytes], scope: _Scope) -> Generator[None, None, list[_Found]]:
    found = []
    for message in messages:
        of_message = yield from _expression(message, scope)
        found.append(of_message)
    return found


def _constant(message: tree.Message, _scope: _Scope) -> _Found:
    if 3 in message and isinstance(message[3][0], int):
        return 0, _Value(1, 1, 1)
    size = max((len(value) for number in (6, 7) for value in tree.every(message, number)), default=1)
    return 0, _Value(size, 1, size)


def _name(message: tree.Message, scope: _Scope) -> _Found:
    return 1, scope.get(tree.text(message, 1), _ONE)


def _selected(message: tree.Message, scope: _Scope) -> _Steps:
    found, value = yield from _expression(tree.first(message, 1), scope)
    return found + 1, value.part


def _list(message: tree.Message, scope: _Scope) -> _Steps:
    return _together((yield from _each(tree.every(message, 1), scope)))


def _map(message: tree.Message, scope: _Scope) -> _Steps:
    parts = (part for each in tree.every(message, 2) for n in (3, 4) for part in tree.every(tree.fields(each), n))
    return _together((yield from _each(parts, scope)))


def _together(parts: Sequence[_Found]) -> _Found:
    values = [value for _, value in parts]
    within = max((max(value.length, value.within) for value in values), default=1)
    inside = functools.reduce(operator.or_, values, _NOTHING)
    weight = len(values) + sum(value.weight for value in values)
    return 1 + sum(found for found, _ in parts), _Value(len(values), within, weight, inside)


def _loop(message: tree.Message, scope: _Scope) -> _Steps:
    """A macro. What it collects grows by the same amount each time: its name, `@result`, cannot be written in an expression."""
    over_cost, over = yield from _expression(tree.first(message, 2), scope)
    begin_cost, begin = yield from _expression(tree.first(message, 4), scope)
    variables = {tree.text(message, 1): over.keys or over.part, tree.text(message, 8): over.part}
    inside = {**scope, **variables, tree.text(message, 3): begin}
    times = 0 if tree.is_empty_list(tree.first(message, 2)) else over.length
    again, _ = yield from _expression(tree.first(message, 5), inside)
    body, once = yield from _expression(tree.first(message, 6), inside)
    grown = _Value(
        begin.length + times * max(0, once.length - begin.length),
        max(begin.within, once.within, once.length),
        begin.weight + times * max(0, once.weight - begin.weight),
    )
    kept = _Value(max(grown.length, begin.length), grown.within, max(grown.weight, begin.weight), _known(begin.inside, once.inside))
    result, value = yield from _expression(tree.first(message, 7), {**scope, tree.text(message, 3): kept})
    return over_cost + begin_cost + times * (again + body) + result, value


def _call(message: tree.Message, scope: _Scope) -> _Steps:
    function = tree.text(message, 2)
    sources = [*tree.every(message, 1), *tree.every(message, 3)]
    parts = yield from _each(sources, scope)
    values = [value for _, value in parts]
    own, result = _work(function, values, sources)
    costs = [found for found, _ in parts]
    of_parts = costs[0] + max(costs[1:]) if function == "_?_:_" and len(costs) == 3 else sum(costs)
    return of_parts + own + (0 if is_native(function) else _CALLED), result


def is_native(function: str) -> bool:
    """True for a function of the runtime itself, False for one that is called in Python (`library`)."""
    return function.startswith(("_", "optional.")) or function.endswith("_") or function in _NATIVE


def _read(function: str, values: Sequence[_Value]) -> float:
    """The most that a call reads of its arguments."""
    if function in {"_==_", "_!=_"}:
        return min(value.weight for value in values)
    if function == "size" and values:
        return values[0].length
    read = sum(value.weight for value in values)
    if function in _PAIRWISE and len(values) > 1:
        compared = values[0].length * values[1].length * max(1, min(values[0].within, values[1].within))
        read += compared * _COMPARED.get(function, 1)
    return read


def _work(function: str, values: Sequence[_Value], sources: Sequence[bytes]) -> _Found:
    """The cost of one call, and a bound of its result."""
    read = _read(function, values)
    result = _ONE
    if function in {"_[_]", "_[?_]", "_?._"} and values:
        return 1, values[0].part
    if function == "_?_:_" and len(values) == 3:
        return 1, values[1] | values[2]
    if function in _PASSED_ON:
        return 1, _joined(values)
    if function == "distinct":
        result, read = values[0], read + values[0].length ** 2 * values[0].within
    elif function == "_+_" or function in _SAME_SIZE:
        result = _joined(values) if function not in _UNKNOWN_ITEMS else replace(_joined(values), inside=None)
    elif size := _length_of_text(function, values, read):
        result = _Value(size, 1, size)
    elif function == WRONG:
        size = _WRONG + _QUOTE * read
        result = _Value(2, size, 2 * size)
    elif function == "lists.range":
        size = min(MAX_RANGE_LENGTH, _integer(sources[-1]))
        result = _Value(size, 1, 2 * size, _ONE)
    elif function not in SCALAR:  # split, join, format, flatten, findAll, …: every part, with every separator or number between
        between = (
            max((value.length for value in values[1:]), default=0) if function == "join" else _PRECISION if function == "format" else 1
        )
        size = sum(value.weight for value in values) + between * sum(value.length for value in values)
        result = _Value(size, size, 2 * size)
    return 1 + read + (result.weight if result is not _ONE else 0), result


def _length_of_text(function: str, values: Sequence[_Value], read: float) -> float:
    """The most characters of a text that a function makes longer; 0 for other functions."""
    if function == "replace" and len(values) > 2:
        return values[0].length + (values[0].length + 1) * values[2].length
    return _ESCAPE * read if function in _ESCAPED else 0


def _joined(values: Sequence[_Value]) -> _Value:
    return functools.reduce(operator.add, values) if values else _ONE


def _integer(message: bytes) -> float:
    """The value of an integer literal; infinite for anything else."""
    for literal in tree.every(tree.fields(message), tree.CONSTANT):
        for value in tree.fields(literal).get(3, ()):
            if isinstance(value, int) and value < 1 << 63:
                return value
    return math.inf


_LEAVES: Mapping[int, Callable[[tree.Message, _Scope], _Found]] = {tree.CONSTANT: _constant, tree.IDENTIFIER: _name}
_FORMS: Mapping[int, Callable[[tree.Message, _Scope], _Steps]] = {
    tree.SELECT: _selected,
    tree.CALL: _call,
    tree.LIST: _list,
    tree.STRUCT: _map,
    tree.COMPREHENSION: _loop,
}
