"""Types of the policy language, and literals with units.

A type has three independent parts, and each prevents one family of mistakes:

- `Kind` is the dimension: `cpu` cannot be added to `memory`, and `memory` cannot be compared with a bare number.
- `optional` means that the value can be missing. It reaches a verdict or a score only if the policy handles the missing case.
- `Shape` is the number of values: one for all (`CONST`), one per pod (`POD`), one per node (`NODE`), one per placed pod (`ITEM`,
  inside `pods where …`), one per device (`DEVICE`, inside `devices where …`). An operation has the larger shape of its operands.

Every numeric kind is a float64 when evaluated: cpu in millicores, memory in bytes, percent as a fraction (10% is 0.1), duration in
seconds, time in seconds since 1970, count as a whole number. Both evaluators use exactly these, so that they can be compared bit by bit.

Every unit is listed once, with its dimension and its exact factor; what is not listed is an error. Factors are exact fractions, so that
`10%` is the float nearest to 0.1 and not the product of two roundings.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction
from functools import cache
from math import isfinite

import msgspec
from msgspec.structs import replace

from wharfinger.language.report.wording import closest


class Kind(Enum):
    """The quantity that a value measures."""

    BOOL = "bool"
    STRING = "string"
    NUMBER = "number"
    COUNT = "count"
    PERCENT = "percent"
    CPU = "cpu"
    MEMORY = "memory"
    DURATION = "duration"
    TIME = "time"
    VERSION = "version"  # a text that is a version, in one spelling for each version
    SET = "set"
    TABLE = "table"
    WORKLOAD = "workload"  # a mix of typical requests: `fragmentation(workload)`
    LABELS = "labels"
    PODS = "pods"
    DEVICES = "devices"
    POD = "pod"  # a pod itself, as an argument: `tolerates(pod, …)`
    DEVICE = "device"  # a device itself, as an argument
    NODE = "node"  # the candidate node itself, as an argument: `taints(node, …)`
    UNKNOWN = "unknown"  # the type of an expression that already has an error: silences follow-up errors


NUMERIC = frozenset({Kind.NUMBER, Kind.COUNT, Kind.PERCENT, Kind.CPU, Kind.MEMORY, Kind.DURATION, Kind.TIME})
DIMENSIONLESS = frozenset({Kind.NUMBER, Kind.COUNT, Kind.PERCENT})
PLAIN = frozenset({Kind.NUMBER, Kind.COUNT})


def unified(a: Kind, b: Kind) -> Kind | None:
    """The one kind of two alternatives; None if they have nothing in common. `number` and `count` mix freely."""
    if a is b:
        return a
    if Kind.UNKNOWN in (a, b):
        return Kind.UNKNOWN
    return Kind.NUMBER if {a, b} <= PLAIN else None


class Shape(IntEnum):
    """The number of values, smallest first. NODE and ITEM are combined only by an aggregate."""

    CONST = 0
    POD = 1
    NODE = 2
    ITEM = 3
    DEVICE = 4


class Type(msgspec.Struct, frozen=True, gc=False):
    """Kind, optionality and shape of an expression; `element` is the kind of a set's members and of a table's values."""

    kind: Kind
    shape: Shape = Shape.CONST
    optional: bool = False
    element: Kind | None = None

    def __str__(self) -> str:
        base = f"set<{self.element.value}>" if self.kind is Kind.SET and self.element else self.kind.value
        return base + ("?" if self.optional else "")

    def present(self) -> Type:
        """The same type with absence ruled out."""
        return replace(self, optional=False)

    def maybe(self) -> Type:
        """The same type, possibly absent."""
        return replace(self, optional=True)

    def shaped(self, shape: Shape) -> Type:
        """The same type with another shape."""
        return replace(self, shape=shape)


# A literal beyond these is a typing error, and exact arithmetic on it would take long.
MAX_DIGITS = 60
MIN_NUMBER, MAX_NUMBER = 1e-30, 1e30


class Unit(msgspec.Struct, frozen=True):
    """A unit: its dimension and its size in base units."""

    kind: Kind
    factor: Fraction


def _table() -> dict[str, Unit]:
    units = {"%": Unit(Kind.PERCENT, Fraction(1, 100)), "m": Unit(Kind.CPU, Fraction(1)), "cpu": Unit(Kind.CPU, Fraction(1000))}
    units["B"] = Unit(Kind.MEMORY, Fraction(1))
    for power, letter in enumerate("kMGTPE", start=1):
        units[letter] = Unit(Kind.MEMORY, Fraction(1000**power))
        units[letter.upper() + "i"] = Unit(Kind.MEMORY, Fraction(1024**power))
    for name, seconds in (("ms", Fraction(1, 1000)), ("s", 1), ("min", 60), ("h", 3600), ("d", 86400)):
        units[name] = Unit(Kind.DURATION, Fraction(seconds))
    return units


UNITS = _table()
_BASE_UNITS = {Kind.CPU: "m", Kind.MEMORY: "B", Kind.DURATION: "s"}

ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}
"""The characters that a backslash and a letter stand for in a string, by the letter."""

# Units of other languages and configuration files, by their lower-case spelling.
_USUAL_SPELLINGS = {
    **{f"{letter}b": (f"{letter.upper()}i", letter if letter == "k" else letter.upper()) for letter in "kmgtpe"},
    **{f"{letter}ib": (f"{letter.upper()}i",) for letter in "kmgtpe"},
    **{f"{letter}i": (f"{letter.upper()}i",) for letter in "kmgtpe"},
    **{letter: (letter.upper(), f"{letter.upper()}i") for letter in "gtpe"},
    "k": ("k", "Ki"),
    "b": ("B",),
    **dict.fromkeys(("byte", "bytes"), ("B",)),
    **dict.fromkeys(("core", "cores", "c", "cpus", "vcpu", "vcpus"), ("cpu",)),
    **dict.fromkeys(("mcpu", "millicpu", "millicore", "millicores", "mc"), ("m",)),
    **dict.fromkeys(("sec", "secs", "second", "seconds"), ("s",)),
    **dict.fromkeys(("mins", "minute", "minutes"), ("min",)),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), ("h",)),
    **dict.fromkeys(("day", "days"), ("d",)),
    **dict.fromkeys(("msec", "millis", "milliseconds"), ("ms",)),
    **dict.fromkeys(("percent", "pct"), ("%",)),
}

# The unit in which a bare number of this kind is most likely meant, for help texts.
LIKELY = {Kind.CPU: ("cpu", "m"), Kind.MEMORY: ("Gi", "Mi"), Kind.PERCENT: ("%",), Kind.DURATION: ("s", "min")}


def well_formed(digits: str) -> bool:
    """True if the digits are a number."""
    try:
        float(digits)
    except ValueError:
        return False
    return True


def base_value(digits: str, unit: str) -> float | None:
    """The value of a literal in base units, or None when the unit is unknown or the number is absurdly long, large or small."""
    if unit and unit not in UNITS:
        return None
    nearest = float(digits)
    if len(digits) > MAX_DIGITS or not MIN_NUMBER < abs(nearest) < MAX_NUMBER:
        is_zero = not digits.lower().partition("e")[0].strip("0.")  # a number that is too small for a float is not 0
        return 0.0 if is_zero else None
    if not unit:
        return nearest
    numerator, denominator = Decimal(digits).as_integer_ratio()
    factor = UNITS[unit].factor
    return (numerator * factor.numerator) / (denominator * factor.denominator)  # rounded once


def literal_kind(digits: str, unit: str) -> Kind:
    """The kind of a literal: its unit's, or count for a bare whole number and number for any other; UNKNOWN for an unknown unit."""
    if unit:
        return UNITS[unit].kind if unit in UNITS else Kind.UNKNOWN
    return Kind.COUNT if digits.isdigit() else Kind.NUMBER


def meant(unit: str, kind: Kind | None = None) -> tuple[str, ...]:
    """The units that a misspelled unit may mean, the most likely first; only those of `kind` if there are any."""
    candidates = _USUAL_SPELLINGS.get(unit.lower()) or tuple(filter(None, [closest(unit, UNITS)]))
    fitting = tuple(u for u in candidates if kind is None or UNITS[u].kind is kind)
    return fitting or candidates


def spelled(digits: str, unit: str) -> str:
    """A literal with its value in base units where that helps: "`2Gi` (2147483648 bytes)"."""
    kind = UNITS[unit].kind
    if kind is not Kind.MEMORY or unit == "B":
        return f"`{digits}{unit}`"
    return f"`{digits}{unit}` ({float(Fraction(digits) * UNITS[unit].factor):.0f} bytes)"


def literal(value: float, kind: Kind) -> str:
    """A base value as a literal of the language in the largest unit that is exact: 4000 millicores is `4cpu`."""
    if kind is Kind.TIME or kind not in LIKELY or value != value or abs(value) == float("inf"):  # noqa: PLR0124  # NaN is the only value unequal to itself
        return _digits(value)
    if kind is Kind.PERCENT:
        return f"{_digits(round(value * 100, 9))}%"
    numerator, denominator = value.as_integer_ratio()
    for unit, times, divided in _exact_units(kind) if value else ():
        amount, rest = divmod(numerator * divided, denominator * times)
        if not rest:
            return f"{amount}{unit}"
    return f"{_digits(value)}{_BASE_UNITS[kind]}"


def readable(value: float, kind: Kind) -> str:
    """A base value rounded for people: `3.7Gi`, `1.25cpu`, `36.1%`, `2024-05-01T12:00:00Z`."""
    if kind is Kind.TIME or not isfinite(value):
        return _instant(value) if isfinite(value) else _digits(value)
    if kind is Kind.PERCENT:
        return f"{_digits(round(value * 100, 1))}%"
    if kind is Kind.CPU:
        return f"{_digits(round(value))}m" if abs(value) < 1000 else f"{_digits(round(value / 1000, 2))}cpu"
    if kind is Kind.MEMORY:
        unit = next((u for u in ("Ti", "Gi", "Mi", "Ki") if abs(value) >= UNITS[u].factor), "B")
        return f"{_digits(round(float(Fraction(value) / UNITS[unit].factor), 1))}{unit}"
    if kind is Kind.DURATION:
        unit = next((u for u in ("d", "h", "min") if abs(value) >= 2 * UNITS[u].factor), "s")
        return f"{_digits(round(float(Fraction(value) / UNITS[unit].factor), 1))}{unit}"
    return _digits(round(value, 3))


@cache
def _exact_units(kind: Kind) -> tuple[tuple[str, int, int], ...]:
    """The units in which values of a kind are written, the largest first, with numerator and denominator; of memory powers of 1024."""
    units = {name: unit.factor for name, unit in UNITS.items() if unit.kind is kind}
    written = [name for name in units if kind is not Kind.MEMORY or name == "B" or name.endswith("i")]
    return tuple((name, *units[name].as_integer_ratio()) for name in sorted(written, key=lambda name: units[name], reverse=True))


def _instant(seconds: float) -> str:
    """A time as Kubernetes writes it; seconds since 1970 for years outside of the calendar."""
    try:
        return datetime.fromtimestamp(int(seconds), UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return f"{_digits(round(seconds))}s"


def _digits(value: float) -> str:
    if value != value or abs(value) == float("inf"):  # noqa: PLR0124  # NaN is the only value unequal to itself
        return {True: "∞", False: "−∞"}.get(value > 0, "NaN") if value == value else "NaN"  # noqa: PLR0124  # as above
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return repr(value)
