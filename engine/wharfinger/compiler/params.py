"""Values of params: the defaults of a policy, with what somebody set in their place.

Values come from a command line or a custom resource, so they are checked here as the defaults were checked by the compiler: the name, the
unit, the range.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from wharfinger.errors import UsageError
from wharfinger.language import typed, units
from wharfinger.language.describe import value_text
from wharfinger.language.suggest import closest
from wharfinger.language.types import DIMENSIONLESS, NUMERIC, Kind, Type

LITERAL = re.compile(r"\s*([+-]?)([0-9]+(?:\.[0-9]+)?)([A-Za-z%]*)\s*")


def resolve(policy: typed.Policy, given: Mapping[str, Any]) -> dict[str, Any]:
    """The value of each param of a policy, in base units.

    `given` holds texts as on a command line (`"10%"`, `"a,b"` for a set) or plain values in base units. Raises UsageError.
    """
    known = {param.name: param for param in policy.params}
    for name in given:
        if name not in known:
            near = closest(name, known)
            hint = f"; did you mean {near}?" if near else f"; it has {', '.join(known)}" if known else "; it has none"
            raise UsageError(f"policy {policy.name} has no param {name}{hint}")
    return {name: _value(policy, param, given) for name, param in known.items()}


def _value(policy: typed.Policy, param: typed.Param, given: Mapping[str, Any]) -> Any:
    if param.name not in given:
        if param.default is None:
            raise UsageError(f"param {param.name} of policy {policy.name} needs a value ({param.type})")
        return _plain(param.default, param.type)
    value = _read(given[param.name], param.type)
    where = f"param {param.name} of policy {policy.name}"
    if value is None:
        raise UsageError(f"{where} is {param.type}; {given[param.name]!r} is not")
    if isinstance(value, float) and not _within(value, param):
        raise UsageError(f"{where} is {value_text(value, param.type.kind)}, outside of its range {_range_text(param)}")
    return value


def _within(value: float, param: typed.Param) -> bool:
    low = -math.inf if param.low is None else param.low
    high = math.inf if param.high is None else param.high
    return low <= value <= high


def _range_text(param: typed.Param) -> str:
    ends = ("" if end is None else value_text(end, param.type.kind) for end in (param.low, param.high))
    return "..".join(ends)


def _plain(value: Any, type_: Type) -> Any:
    if type_.kind in NUMERIC:
        return float(value)
    return frozenset(value) if type_.kind is Kind.SET else value


def _read(value: Any, type_: Type) -> Any:
    """A value of that type, or None when it is none."""
    if type_.kind is Kind.SET:
        return _members(value, Type(type_.element or Kind.STRING))
    if type_.kind is Kind.BOOL:
        return value if isinstance(value, bool) else {"true": True, "false": False}.get(str(value))
    if type_.kind is Kind.STRING:
        return value if isinstance(value, str) else None
    if isinstance(value, str):
        return _number(value, type_.kind)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) else None


def _members(value: Any, element: Type) -> frozenset[Any] | None:
    items: Iterable[Any] = [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value
    if not isinstance(items, (list, tuple, set, frozenset)):
        return None
    members = [_read(item, element) for item in items]
    return None if any(member is None for member in members) else frozenset(members)


def _number(text: str, kind: Kind) -> float | None:
    """A literal of that kind in base units; a bare number is one only for kinds without a unit."""
    found = LITERAL.fullmatch(text)
    if found is None:
        return None
    sign, digits, unit = found.groups()
    value = units.base_value(digits, unit)
    fits = units.literal_kind(digits, unit) is kind or (kind in DIMENSIONLESS and units.literal_kind(digits, unit) in DIMENSIONLESS)
    if value is None or not fits or (kind is Kind.COUNT and not value.is_integer()):
        return None
    return -value if sign == "-" else value
