"""Functions that Kubernetes adds to CEL: the declarations of all, and the code of those for quantities, versions, texts, lists and sets.

Source: `apiserver/pkg/cel/environment/base.go` and `apiserver/pkg/cel/library`, Kubernetes 1.36. Values of types that CEL does not have are
maps with one key that names the type (`{"quantity": nanos}`), because values of foreign types cannot be made in Python. Equal values have
equal maps. `compareTo` and its like exist for two such types, so each is one function that looks at its arguments.

A function raises ValueError with the text that the user sees. The runtime takes no second function of a name that its own extension for
strings has. So `indexOf` and `lastIndexOf`, which lists have too, get separate names here (`selector`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final

import re2

from wharfinger.errors import InvalidObject
from wharfinger.framework.plugins.devices.cel import addresses, formats, rewriting, urls
from wharfinger.framework.plugins.devices.cel.addresses import CIDR, IP, NO_OVERLOAD, Value
from wharfinger.model.objects import quantity

QUANTITY: Final = "quantity"
SEMVER: Final = "semver"
_FOREIGN: Final = frozenset({QUANTITY, SEMVER, IP, CIDR, urls.URL, formats.FORMAT})

_FORMAT_WRONG = r"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_NUMBER = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_WORD = re.compile(r"[0-9A-Za-z-]+", re.ASCII)
_MAX_ATTRIBUTE_VALUES = 48
"""ResourceSliceMaxAttributeValuesPerDevice."""
_INT64 = range(-(2**63), 2**63)
MAX_RANGE_LENGTH = 10_000


# ── quantities ──


def quantity_value(text: str) -> dict[str, str]:
    """The value of a Kubernetes quantity; ValueError for an invalid text."""
    try:
        return {QUANTITY: str(quantity.nano(text))}
    except InvalidObject:
        raise ValueError(_FORMAT_WRONG) from None


def _nanos(value: Value) -> int:
    if QUANTITY not in value:
        raise ValueError(NO_OVERLOAD)
    return int(value[QUANTITY])


def _of_nanos(nanos: int) -> dict[str, str]:
    return {QUANTITY: str(nanos)}


def _is_quantity(text: str) -> bool:
    try:
        quantity.nano(text)
    except InvalidObject:
        return False
    return True


def _is_integer(value: Value) -> bool:
    nanos = _nanos(value)
    return nanos % quantity.NANO == 0 and nanos // quantity.NANO in _INT64


def _as_integer(value: Value) -> int:
    if not _is_integer(value):
        raise ValueError("cannot convert value to integer")
    return _nanos(value) // quantity.NANO


def _sign(value: Value) -> int:
    nanos = _nanos(value)
    return (nanos > 0) - (nanos < 0)


# ── versions ──


def semver_value(text: str) -> dict[str, str]:
    """The value of a semantic version, without its build metadata; ValueError for an invalid text (`Parse` of blang/semver)."""
    _order(text)
    return {SEMVER: text.partition("+")[0]}


@lru_cache(maxsize=4096)
def _order(text: str) -> tuple[Any, ...]:
    """A tuple that orders as the version does."""
    if not text:
        raise ValueError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise ValueError("No Major.Minor.Patch elements found")
    core, _, build = parts[2].partition("+")
    patch, dash, pre = core.partition("-")
    numbers = [_version_number(name, part) for name, part in (("major", parts[0]), ("minor", parts[1]), ("patch", patch))]
    identifiers = tuple(_identifier(part) for part in pre.split(".")) if dash else ()
    if "+" in parts[2]:
        for part in build.split("."):
            if not part:
                raise ValueError("Build meta data is empty")
            if not _WORD.fullmatch(part):
                raise ValueError(f'Invalid character(s) found in build meta data "{part}"')
    return (*numbers, not dash, identifiers)


def _version_number(name: str, part: str) -> int:
    if not re.fullmatch("[0-9]*", part):
        raise ValueError(f'Invalid character(s) found in {name} number "{part}"')
    if not part:
        raise ValueError('strconv.ParseUint: parsing "": invalid syntax')
    if not _NUMBER.fullmatch(part):
        raise ValueError(f'{name.capitalize()} number must not contain leading zeroes "{part}"')
    if len(part) > 20 or int(part) >= 2**64:
        raise ValueError(f'strconv.ParseUint: parsing "{part}": value out of range')
    return int(part)


def _identifier(part: str) -> tuple[int, int, str]:
    if not part:
        raise ValueError("Prerelease is empty")
    if re.fullmatch("[0-9]+", part):
        if not _NUMBER.fullmatch(part):
            raise ValueError(f'Numeric PreRelease version must not contain leading zeroes "{part}"')
        return (0, int(part), "")
    if not _WORD.fullmatch(part):
        raise ValueError(f'Invalid character(s) found in prerelease "{part}"')
    return (1, 0, part)


def _normalized(text: str) -> str:
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[index] = stripped if stripped[:1].isdigit() else "0" + stripped
    if len(parts) < 3:
        if re.search("[+-]", parts[-1]):
            raise ValueError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _semver(text: str, normalize: bool = False) -> dict[str, str]:
    return semver_value(_normalized(text) if normalize else text)


def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        _semver(text, normalize)
    except ValueError:
        return False
    return True


def _version_part(index: int) -> Callable[[Value], int]:
    def part(value: Value) -> int:
        if SEMVER not in value:
            raise ValueError(NO_OVERLOAD)
        found: int = _order(value[SEMVER])[index]
        return found

    return part


def _compare(one: Value, other: Value) -> int:
    if SEMVER in one and SEMVER in other:
        left, right = _order(one[SEMVER]), _order(other[SEMVER])
        return (left > right) - (left < right)
    difference = _nanos(one) - _nanos(other)
    return (difference > 0) - (difference < 0)


# ── texts ──


@lru_cache(maxsize=256)
def _pattern(text: str) -> Any:
    try:
        return re2.compile(text)
    except re2.error as error:
        raise ValueError(f"illegal regex: {error}") from None


def _find(text: str, pattern: str) -> str:
    found = _pattern(pattern).search(text)
    return found.group(0) if found else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    if not limit:
        return []
    found: list[str] = []
    last = -1
    for match in _pattern(pattern).finditer(text):
        if match.end() > last or match.start() > last:  # Go finds no empty match right behind another
            found.append(match.group(0))
        last = match.end()
    return found if limit < 0 else found[:limit]


def _index_of(items: str | Sequence[Any], wanted: Any, offset: int = 0) -> int:
    if isinstance(items, str):
        return _text_index(items, wanted, offset, lambda: items.find(wanted, offset))
    return next((place for place, item in enumerate(items) if _same(item, wanted)), -1)


def _last_index_of(items: str | Sequence[Any], wanted: Any, offset: int | None = None) -> int:
    if not isinstance(items, str):
        return next((place for place in reversed(range(len(items))) if _same(items[place], wanted)), -1)
    if offset is None:
        return items.rfind(wanted)
    return _text_index(items, wanted, offset, lambda: items.rfind(wanted, 0, offset + len(wanted)))


def _text_index(text: str, wanted: str, offset: int, found: Callable[[], int]) -> int:
    if not wanted:
        return offset
    if offset < 0:
        raise ValueError(f"index out of range: {offset}")
    return found() if offset < len(text) else -1


# ── lists and sets ──


def _same_kind(items: Sequence[Any]) -> Sequence[Any]:
    try:
        sorted(items)
    except TypeError:
        raise ValueError(NO_OVERLOAD) from None
    return items


def _place_of(name: str, choose: Callable[..., int]) -> Callable[[Sequence[Any]], int]:
    """The function that finds the index of the smallest or largest item of a list: some kinds of items cannot be returned."""

    def place(items: Sequence[Any]) -> int:
        if not items:
            raise ValueError(f"{name} called on empty list")
        _same_kind(items)
        return choose(range(len(items)), key=items.__getitem__)

    return place


def _same(one: Any, other: Any) -> bool:
    """True if two values are equal as CEL sees it: true is not 1."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _contains(items: Sequence[Any], wanted: Sequence[Any]) -> bool:
    return all(any(_same(item, each) for item in items) for each in wanted)


def _distinct(items: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for item in items:
        if not any(_same(item, each) for each in found):
            found.append(item)
    return found


def _slice(items: Sequence[Any], start: int, end: int) -> Sequence[Any]:
    if start < 0 or end < 0:
        raise ValueError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise ValueError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(items):
        raise ValueError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def _flatten(items: Sequence[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise ValueError("level must be non-negative")
    flat: list[Any] = []
    for item in items:
        if isinstance(item, list | tuple) and depth:
            flat += _flatten(item, depth - 1)
        else:
            flat.append(item)
    return flat


def _range(count: int) -> list[int]:
    if count > MAX_RANGE_LENGTH:
        raise ValueError(f"lists.range({count}) is longer than {MAX_RANGE_LENGTH}")
    return list(range(count))


# ── values ──


def _valid(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def valid(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return valid


def _text_of(value: Value) -> str:
    """The text of an address or a network."""
    found: str | None = value.get(IP) or value.get(CIDR)
    if found is None:
        raise ValueError(NO_OVERLOAD)
    return found


def _is_foreign(value: Value) -> bool:
    return len(value) == 1 and not value.keys().isdisjoint(_FOREIGN)


def _same_foreign(value: Value, other: Value) -> bool:
    """True if two values of foreign types are equal; ValueError if their types differ."""
    if value.keys() != other.keys():
        raise ValueError(NO_OVERLOAD)
    return value == other


def _includes(target: Any, value: Any) -> bool:
    if not isinstance(target, list | tuple):
        return _same(target, value)
    if len(target) > _MAX_ATTRIBUTE_VALUES and not any(_same(item, value) for item in target[:_MAX_ATTRIBUTE_VALUES]):
        raise ValueError(f"'includes' function cannot be applied to lists longer than {_MAX_ATTRIBUTE_VALUES} values")
    return any(_same(item, value) for item in target)


def _sum(items: Sequence[Any]) -> Any:
    kinds = {type(item) for item in items}
    if len(kinds) > 1 or not kinds <= {int, float}:
        raise ValueError(NO_OVERLOAD)
    found = sum(items[1:], items[0]) if items else 0
    if isinstance(found, int) and found not in _INT64:
        raise ValueError("integer overflow")
    return found


# ── ends of macros ──


def _map_of_pairs(pairs: Sequence[tuple[Any, Any]]) -> dict[Any, Any]:
    return dict(pairs)


def _merged(maps: Sequence[Mapping[Any, Any]]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for each in maps:
        for key, value in each.items():
            if key in found:
                raise ValueError(f"insert failed: key {key} already exists")
            found[key] = value
    return found


def _sorted_pairs(pairs: Sequence[Sequence[Any]]) -> list[Any]:
    """The items of (key, item) pairs in the order of the keys, which must be of one kind."""
    if len({type(key) for key, _ in pairs}) > 1:
        raise ValueError("list elements must have the same type")
    _same_kind([key for key, _ in pairs])
    return [item for _, item in sorted(pairs, key=lambda pair: pair[0])]


# ── all of it ──


def functions(cel: Any) -> list[Any]:
    """The declarations of all functions, for `cel.NewEnv`; `cel` is the module of cel-expr-python."""
    kind = cel.Type
    # Foreign values are maps: the only parametric kind of argument that the runtime finds a function by.
    foreign, items, texts = kind.Map(kind.STRING, kind.STRING), kind.LIST, kind.List(kind.STRING)
    text, integer, boolean, real, anything = kind.STRING, kind.INT, kind.BOOL, kind.DOUBLE, kind.DYN
    # The runtime finds no function by an argument of the kind `anything`.
    kinds = foreign, items, text, integer, boolean, real, kind.UINT, kind.BYTES, kind.DURATION, kind.TIMESTAMP, kind.NULL

    def declared(name: str, *overloads: tuple[Any, list[Any], Callable[..., Any]], member: bool = True) -> Any:
        return cel.FunctionDecl(
            name,
            [
                cel.Overload(f"{name}_{number}", return_type=result, parameters=takes, is_member=member, impl=impl)
                for number, (result, takes, impl) in enumerate(overloads)
            ],
        )

    return [
        declared("quantity", (foreign, [text], quantity_value), member=False),
        declared("isQuantity", (boolean, [text], _is_quantity), member=False),
        declared("sign", (integer, [foreign], _sign)),
        declared("isInteger", (boolean, [foreign], _is_integer)),
        declared("asInteger", (integer, [foreign], _as_integer)),
        declared("asApproximateFloat", (real, [foreign], lambda value: _nanos(value) / quantity.NANO)),
        declared(
            "add",
            (foreign, [foreign, foreign], lambda one, other: _of_nanos(_nanos(one) + _nanos(other))),
            (foreign, [foreign, integer], lambda one, other: _of_nanos(_nanos(one) + other * quantity.NANO)),
        ),
        declared(
            "sub",
            (foreign, [foreign, foreign], lambda one, other: _of_nanos(_nanos(one) - _nanos(other))),
            (foreign, [foreign, integer], lambda one, other: _of_nanos(_nanos(one) - other * quantity.NANO)),
        ),
        declared("compareTo", (integer, [foreign, foreign], _compare)),
        declared("isGreaterThan", (boolean, [foreign, foreign], lambda one, other: _compare(one, other) > 0)),
        declared("isLessThan", (boolean, [foreign, foreign], lambda one, other: _compare(one, other) < 0)),
        declared("semver", (foreign, [text], _semver), (foreign, [text, boolean], _semver), member=False),
        declared("isSemver", (boolean, [text], _is_semver), (boolean, [text, boolean], _is_semver), member=False),
        declared("major", (integer, [foreign], _version_part(0))),
        declared("minor", (integer, [foreign], _version_part(1))),
        declared("patch", (integer, [foreign], _version_part(2))),
        declared("find", (text, [text, text], _find)),
        declared("findAll", (texts, [text, text], _find_all), (texts, [text, text, integer], _find_all)),
        *(
            declared(
                f"kubernetes_{name}",
                (integer, [text, text], found),
                (integer, [text, text, integer], found),
                *((integer, [items, each], found) for each in kinds),
            )
            for name, found in (("indexOf", _index_of), ("lastIndexOf", _last_index_of))
        ),
        declared(rewriting.OF_PAIRS, (anything, [items], _map_of_pairs), member=False),
        declared(rewriting.MERGED, (anything, [items], _merged), member=False),
        declared(rewriting.SORTED, (items, [items], _sorted_pairs), member=False),
        declared("isSorted", (boolean, [items], lambda found: list(_same_kind(found)) == sorted(found))),
        declared(rewriting.SUM, (anything, [items], _sum), member=False),
        *(
            declared(name, (integer, [items], _place_of(name.rpartition("_")[2], choose)), member=False)
            for name, choose in rewriting.PLACES.items()
        ),
        declared("slice", (items, [items, integer, integer], _slice)),
        declared("flatten", (items, [items], _flatten), (items, [items, integer], _flatten)),
        declared("distinct", (items, [items], _distinct)),
        declared("sort", (items, [items], lambda found: sorted(_same_kind(found)))),
        declared("reverse", (items, [items], lambda found: list(reversed(found)))),
        declared("sets.contains", (boolean, [items, items], _contains), member=False),
        declared("sets.equivalent", (boolean, [items, items], lambda one, two: _contains(one, two) and _contains(two, one)), member=False),
        declared("sets.intersects", (boolean, [items, items], lambda one, two: any(_contains(one, [each]) for each in two)), member=False),
        declared("lists.range", (items, [integer], _range), member=False),
        cel.FunctionDecl(
            "ip",
            [
                cel.Overload("ip_of_text", return_type=foreign, parameters=[text], is_member=False, impl=addresses.ip),
                cel.Overload("ip_of_cidr", return_type=foreign, parameters=[foreign], is_member=True, impl=addresses.cidr_address),
            ],
        ),
        declared("isIP", (boolean, [text], _valid(addresses.ip)), member=False),
        declared("ip.isCanonical", (boolean, [text], addresses.is_canonical), member=False),
        declared("family", (integer, [foreign], lambda value: addresses.address_of(value).version)),
        declared("isLoopback", (boolean, [foreign], addresses.kind_of("is_loopback"))),
        declared("isUnspecified", (boolean, [foreign], addresses.kind_of("is_unspecified"))),
        declared("isGlobalUnicast", (boolean, [foreign], addresses.is_global_unicast)),
        declared("isLinkLocalUnicast", (boolean, [foreign], addresses.kind_of("is_link_local"))),
        declared("isLinkLocalMulticast", (boolean, [foreign], addresses.is_link_local_multicast)),
        declared("cidr", (foreign, [text], addresses.cidr), member=False),
        declared("isCIDR", (boolean, [text], _valid(addresses.cidr)), member=False),
        declared("containsIP", (boolean, [foreign, foreign], addresses.contains_ip), (boolean, [foreign, text], addresses.contains_ip)),
        declared(
            "containsCIDR", (boolean, [foreign, foreign], addresses.contains_cidr), (boolean, [foreign, text], addresses.contains_cidr)
        ),
        declared("masked", (foreign, [foreign], addresses.masked)),
        declared("prefixLength", (integer, [foreign], lambda value: addresses.network_of(value).prefixlen)),
        declared("url", (foreign, [text], urls.url), member=False),
        declared("isURL", (boolean, [text], urls.is_url), member=False),
        *(declared(name, (text, [foreign], part)) for name, part in urls.url_parts().items()),
        declared("getQuery", (kind.Map(text, texts), [foreign], urls.url_query)),
        *(declared(f"format.{name}", (foreign, [], partial(formats.named, name)), member=False) for name in formats.NAMES),
        declared(rewriting.NAMED, (foreign, [text], formats.named), member=False),
        declared(rewriting.WRONG, (texts, [foreign, text], formats.validate), member=False),
        declared("includes", *((boolean, [target, value], _includes) for target in kinds for value in kinds)),
        declared(rewriting.IS_FOREIGN, (boolean, [foreign], _is_foreign), member=False),
        declared(
            rewriting.SAME_FOREIGN,
            (boolean, [foreign, foreign], _same_foreign),
            (boolean, [foreign, kind.NULL], lambda *_: False),
            member=False,
        ),
        *_standard(cel, foreign),
    ]


EXCLUDED: Final = ("string", "_<_", "_<=_", "_>_", "_>=_")
"""Functions of the language that are declared here, with what the runtime can do and does not declare, or does not have."""


def _standard(cel: Any, foreign: Any) -> list[Any]:
    """The declarations of `EXCLUDED`: comparisons of numbers of different types, and the texts of addresses."""
    kind = cel.Type
    numbers = kind.INT, kind.UINT, kind.DOUBLE
    others = kind.STRING, kind.BOOL, kind.BYTES, kind.DURATION, kind.TIMESTAMP
    pairs = [*((one, other) for one in numbers for other in numbers), *((each, each) for each in others)]
    text, *comparisons = EXCLUDED
    texts = [
        cel.Overload(f"string_{number}", return_type=kind.STRING, parameters=[each]) for number, each in enumerate((*numbers, *others))
    ]
    texts.append(cel.Overload("string_of_address", return_type=kind.STRING, parameters=[foreign], impl=_text_of))
    return [
        cel.FunctionDecl(text, texts),
        *(
            cel.FunctionDecl(
                name,
                [cel.Overload(f"{name}_{number}", return_type=kind.BOOL, parameters=[*pair]) for number, pair in enumerate(pairs)],
            )
            for name in comparisons
        ),
    ]
