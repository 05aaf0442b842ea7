"""Rewrites compiled expressions to add features of Kubernetes: macros, some functions, and equality of its own types.

Macros that the parser of the runtime does not know are those with two variables, and `sortBy`. They are parsed as calls of functions that
exist for this alone, with the variables of the macros declared. Each call is replaced by its loop, as in cel-go (`ext/comprehensions.go`
and `ext/lists.go`); the runtime evaluates it. So are functions whose results Python cannot give back to the runtime: optional values,
durations and times, and numbers without a sign.

The runtime sees a version, quantity or address as a map. Equality of such a value with one of another type is an error in Kubernetes, and
false for the runtime. So `left == right` becomes a comparison for each answer to whether the left side is a value of a foreign type. In
Kubernetes too, `!=` is true, and `==` is false where only the right side is foreign.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from wharfinger.framework.plugins.devices.cel import syntax_tree as tree

_COUNTS: Final = {
    "all": (3,),
    "exists": (3,),
    "existsOne": (3,),
    "exists_one": (3,),
    "transformList": (3, 4),
    "transformMap": (3, 4),
    "transformMapEntry": (3, 4),
    "sortBy": (2,),
}
"""The arguments of each macro, variables included: two variables where there are more arguments than two."""
OF_PAIRS: Final = "kubernetes_map_of_pairs"
MERGED: Final = "kubernetes_merged_maps"
SORTED: Final = "kubernetes_sorted_pairs"

SUM: Final = "kubernetes_sum"
PLACES: Final[Mapping[str, Callable[..., int]]] = {"kubernetes_place_of_min": min, "kubernetes_place_of_max": max}
WRONG: Final = "kubernetes_wrong"
NAMED: Final = "kubernetes_named_format"

_OPTIONAL_ENTRIES: Final = frozenset({"_[?_]", "_?._"})
_RESULT: Final = "@result"
_ITEM: Final = "@item"
_ITEMS: Final = "@items"

_USES = re.compile(rf"\.\s*+(?:{'|'.join(_COUNTS)})\s*+\(\s*+([A-Za-z_]\w*+)\s*+,(?:\s*+([A-Za-z_]\w*+)\s*+,)?")


def variables(expression: str) -> frozenset[str]:
    """The names that an expression may use as variables of these macros."""
    return frozenset(name for match in _USES.finditer(expression) for name in match.groups() if name)


def declarations(cel: Any) -> list[Any]:
    """The functions that the macros are parsed as, for `cel.NewEnv`; they are never called."""
    kind = cel.Type
    lists = dict.fromkeys(("transformList", "sortBy"), kind.LIST)
    results = {**lists, "transformMap": kind.DYN, "transformMapEntry": kind.DYN}
    return [
        cel.FunctionDecl(
            name,
            [
                cel.Overload(
                    f"macro_{name}_{count}", return_type=results.get(name, kind.BOOL), parameters=[kind.DYN] * (1 + count), is_member=True
                )
                for count in counts
            ],
        )
        for name, counts in _COUNTS.items()
    ] + [
        cel.FunctionDecl(
            name, [cel.Overload(f"made_{name}", return_type=kind.DYN, parameters=[kind.DYN] * count, is_member="." not in name)]
        )
        for name, (count, _) in _MADE.items()
    ]


def expanded(call: tree.Message, make: tree.Maker) -> bytes | None:
    """The expansion of a call of a macro, or of a function that consists of others; None for other calls."""
    name = tree.text(call, 2)
    count, made_of = _MADE.get(name, (-1, None))
    arguments = [*tree.every(call, 1), *tree.every(call, 3)]
    if name in _OPTIONAL_ENTRIES and _is_by_domain(arguments[0]):
        return make.call("optional.of", make.call("_[_]", *arguments))  # every domain is there
    if name == "bool" and len(arguments) == 1:
        return _boolean(make, *arguments)
    return made_of(make, *arguments) if made_of is not None and len(arguments) == count else _loop(call, make)


def _is_by_domain(expression: bytes) -> bool:
    """True for `device.attributes` and `device.capacity`."""
    selected = tree.fields(tree.first(tree.fields(expression), tree.SELECT))
    return tree.text(selected, 2) in {"attributes", "capacity"} and _identifier(tree.first(selected, 1)) == "device"


def _loop(call: tree.Message, make: tree.Maker) -> bytes | None:
    """The loop for a call; None if it is no call of a macro."""
    name, arguments = tree.text(call, 2), list(tree.every(call, 3))
    if 1 not in call or len(arguments) not in _COUNTS.get(name, ()):
        return None
    over = tree.first(call, 1)
    names = [_identifier(each) for each in arguments[: 2 if len(arguments) > 2 else 1]]
    if not all(names):
        return None  # its replacement has no implementation: an error
    rest = arguments[len(names) :]
    if name in {"all", "exists"}:
        return make.loop(over, names, _RESULT, _every_or_any(rest[0], make, every=name == "all"))
    if name in {"existsOne", "exists_one"}:
        return make.loop(over, names, _RESULT, _only_one(rest[0], make))
    *filters, body = rest
    item = {"transformMap": [make.name(names[0]), body], "sortBy": [body, make.name(names[0])]}.get(name)
    step = make.call("_+_", make.name(_RESULT), make.items(body if item is None else make.items(*item)))
    for condition in filters:
        step = make.call("_?_:_", condition, step, make.name(_RESULT))
    collected = make.loop(over, names, _RESULT, [make.items(), make.truth(True), step, make.name(_RESULT)])
    last = {"transformMap": OF_PAIRS, "transformMapEntry": MERGED, "sortBy": SORTED}.get(name)
    return collected if last is None else make.call(last, collected)


def _identifier(expression: bytes) -> str:
    return tree.text(tree.fields(tree.first(tree.fields(expression), tree.IDENTIFIER)), 1)


def _every_or_any(condition: bytes, make: tree.Maker, *, every: bool) -> list[bytes]:
    undecided = make.name(_RESULT) if every else make.call("!_", make.name(_RESULT))
    step = make.call("_&&_" if every else "_||_", make.name(_RESULT), condition)
    return [make.truth(every), make.call("@not_strictly_false", undecided), step, make.name(_RESULT)]


def _only_one(condition: bytes, make: tree.Maker) -> list[bytes]:
    step = make.call("_?_:_", condition, make.call("_+_", make.name(_RESULT), make.integer(1)), make.name(_RESULT))
    return [make.integer(0), make.truth(True), step, make.call("_==_", make.name(_RESULT), make.integer(1))]


def _boolean(make: tree.Maker, value: bytes) -> bytes:
    """The result of `bool`, also for the two strings that the runtime does not read."""
    found = make.call("bool", make.name(_ITEM))
    for text, truth in (("F", False), ("T", True)):
        found = make.call("_?_:_", make.call("_==_", make.text(text), make.name(_ITEM)), make.truth(truth), found)
    return make.bound(_ITEM, value, found)


def _unwrapped(make: tree.Maker, over: bytes) -> bytes:
    """The values of those items that have one."""
    step = make.call("_+_", make.name(_RESULT), make.items(make.call("value", of=make.name(_ITEM))))
    step = make.call("_?_:_", make.call("hasValue", of=make.name(_ITEM)), step, make.name(_RESULT))
    return make.loop(over, [_ITEM], _RESULT, [make.items(), make.truth(True), step, make.name(_RESULT)])


def _added(make: tree.Maker, over: bytes) -> bytes:
    """The sum of a list: computed in a loop for items that Python functions cannot return."""
    first = make.call("_[_]", make.name(_ITEMS), make.integer(0))
    kinds = [make.call("_==_", make.call("type", first), make.name(kind)) for kind in ("uint", "google.protobuf.Duration")]
    is_not_empty = make.call("_>_", make.call("size", make.name(_ITEMS)), make.integer(0))
    in_loop = make.call("_&&_", is_not_empty, make.call("_||_", *kinds))
    step = make.call("_+_", make.name(_RESULT), make.name(_ITEM))
    zero = make.call("_-_", first, first)
    looped = make.loop(make.name(_ITEMS), [_ITEM], _RESULT, [zero, make.truth(True), step, make.name(_RESULT)])
    return make.bound(_ITEMS, over, make.call("_?_:_", in_loop, looped, make.call(SUM, make.name(_ITEMS))))


def _item_at(place: str) -> Callable[[tree.Maker, bytes], bytes]:
    def found(make: tree.Maker, over: bytes) -> bytes:
        return make.bound(_ITEMS, over, make.call("_[_]", make.name(_ITEMS), make.call(place, make.name(_ITEMS))))

    return found


def _unless_empty(function: str) -> Callable[..., bytes]:
    """An optional with the result of a function; empty if the result is empty."""

    def optional(make: tree.Maker, *arguments: bytes) -> bytes:
        return make.call("optional.ofNonZeroValue", make.call(function, *arguments))

    return optional


_MADE: Final[Mapping[str, tuple[int, Callable[..., bytes]]]] = {
    "unwrapOpt": (1, _unwrapped),
    "optional.unwrap": (1, _unwrapped),
    "sum": (1, _added),
    "min": (1, _item_at("kubernetes_place_of_min")),
    "max": (1, _item_at("kubernetes_place_of_max")),
    "validate": (2, _unless_empty(WRONG)),
    "format.named": (1, _unless_empty(NAMED)),
}
"""Functions that are made of others, with the number of their arguments, the target of a member function included."""

EXPANDED: Final = frozenset({*_COUNTS, *_OPTIONAL_ENTRIES, *_MADE, "bool"})
"""The functions whose calls `expanded` replaces, and macros."""


# ── equality and domains ──

GUARDED: Final = frozenset({"_==_", "_[_]"})
"""The operators whose calls `guarded` replaces."""
IS_FOREIGN: Final = "kubernetes_is_foreign"
SAME_FOREIGN: Final = "kubernetes_same_foreign"

_LEFT: Final = "@left"
_RIGHT: Final = "@right"
_DOMAIN: Final = "@domain"
_SCALAR: Final = frozenset({"type", "size", "int", "uint", "double", "bool", "matches", "startsWith", "endsWith", "contains"})
"""Functions whose result is never foreign, besides operators."""
_SHORT: Final = frozenset({tree.CONSTANT, tree.IDENTIFIER})
_NEVER_FOREIGN: Final = (tree.CONSTANT, tree.LIST, tree.STRUCT)
_ENTRIES: Final = frozenset({"_?_:_", "_[_]", "_[?_]"})
"""The operators whose result may be foreign."""


def guarded(call: tree.Message, make: tree.Maker) -> bytes | None:
    """The rewritten form of a comparison or of a look-up of a domain; None for other calls.

    A comparison has the same answer except with a foreign value on its left. Its right side is written twice only if it is short:
    comparisons within it would double with each level. A domain that the device does not have is an empty map.
    """
    sides = list(tree.every(call, 3))
    if tree.text(call, 2) == "_[_]" and _is_by_domain(sides[0]):
        known = tree.CONSTANT in tree.fields(sides[1])
        domain = sides[1] if known else make.name(_DOMAIN)
        found = make.call("_?_:_", make.call("@in", domain, sides[0]), make.call("_[_]", sides[0], domain), make.no_entries())
        return found if known else make.bound(_DOMAIN, sides[1], found)
    if tree.text(call, 2) != "_==_" or len(sides) != 2 or not _may_be_foreign(tree.fields(sides[0])):
        return None
    short = not _SHORT.isdisjoint(tree.fields(sides[1]))
    left, right = make.name(_LEFT), sides[1] if short else make.name(_RIGHT)
    foreign = make.call("_&&_", make.call("_==_", make.call("type", left), make.name("map")), make.call(IS_FOREIGN, left))
    same = make.call("_?_:_", foreign, make.call(SAME_FOREIGN, left, right), make.call("_==_", left, right))
    return make.bound(_LEFT, sides[0], same if short else make.bound(_RIGHT, sides[1], same))


def _may_be_foreign(left: tree.Message) -> bool:
    if any(form in left for form in _NEVER_FOREIGN):
        return False
    selected = tree.fields(tree.first(left, tree.SELECT))
    if tree.text(selected, 2) in {"driver", "allowMultipleAllocations"}:
        return not tree.first(tree.fields(tree.first(selected, 1)), tree.IDENTIFIER)  # a field of `device`
    function = tree.text(tree.fields(tree.first(left, tree.CALL)), 2)
    return function in _ENTRIES or not (function in _SCALAR or function.startswith(("_", "!", "-")))
