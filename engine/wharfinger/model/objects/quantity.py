"""Kubernetes quantities: `500m`, `1.5Gi`, `1e3`.

A quantity is a decimal number of arbitrary size that Kubernetes keeps exactly, down to nano, and reads as an int64 rounded away from 0:
`cpu` in thousandths, the rest in units. Sums have to be made before the rounding, so the exact value here is a whole number of nanos.
The grammar and its oddities (`.` and `Ki` alone are zero, `1.` is one, binary suffixes saturate at 2⁶³−1 while decimal ones do not) are
those of `apimachinery/pkg/api/resource/quantity.go`, Kubernetes 1.36.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from wharfinger.errors import InvalidObject

INT64_MAX = 2**63 - 1
NANO = 10**9  # nanos in one unit
_NANOS_PER_MILLI = 10**6
# Nothing that fits an int64 of units has more digits, even in nanos; a larger exponent only saturates, so it need not be computed.
_MAX_POWER = 40
_MAX_LENGTH = 512

_SHAPE = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)\Z")
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)\Z")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
# Without digits, `Ki` is read as zero by way of a shortcut that neither large binary suffixes nor anything below nano take.
_DIGITS_DEMANDED = re.compile(r"[PE]i|[eE]-0*([1-9][0-9]+)\Z")
_SUFFIXES = "one of n u m k M G T P E Ki Mi Gi Ti Pi Ei"
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


@lru_cache(maxsize=65536)
def nano(text: str) -> int:
    """The exact value of a quantity as a whole number of nanos, rounded away from zero; InvalidObject when it is not a quantity."""
    shape = _SHAPE.match(text.strip())
    if not text.strip() or shape is None or len(text) > _MAX_LENGTH:
        raise InvalidObject(f"{_shown(text)} is not a quantity: a number such as 2, 0.5 or 1e3, then {_SUFFIXES} or nothing")
    sign, whole, fraction, suffix = shape.groups()
    fraction = fraction or ""
    magnitude = _scaled(int(whole + fraction or "0"), -len(fraction), suffix, text)
    if not whole + fraction and _DIGITS_DEMANDED.match(suffix):
        raise InvalidObject(f"{_shown(text)} is not a quantity: it has no digits")
    return -magnitude if sign == "-" else magnitude


def nano_at(text: str, where: str, name: str) -> int:
    """`nano(text)`; InvalidObject with the name of the field if it is not a quantity."""
    try:
        return nano(text)
    except InvalidObject as error:
        raise InvalidObject(f"{where}[{name!r}]: {error}") from None


def _scaled(digits: int, power: int, suffix: str, text: str) -> int:
    if suffix in _BINARY:
        return min(_divide_up((digits << _BINARY[suffix]) * NANO, 10**-power), INT64_MAX * NANO)
    if suffix in _DECIMAL:
        power += _DECIMAL[suffix]
    elif exponent := _EXPONENT.match(suffix):
        power += int(exponent[1])
    else:
        raise InvalidObject(f"{_shown(text)} is not a quantity: {_shown(suffix)} is neither {_SUFFIXES} nor an exponent such as e3")
    return _shift(digits, power + 9)


def _shift(digits: int, power: int) -> int:
    """`digits · 10^power` rounded up; the power is bounded so that `1e999999999` costs nothing."""
    if power >= 0:
        power_of_ten: int = 10 ** min(power, _MAX_POWER)
        return digits * power_of_ten
    return _divide_up(digits, 10 ** min(-power, _MAX_LENGTH + _MAX_POWER))


def _divide_up(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)


def _shown(text: str) -> str:
    return repr(text) if len(text) <= 64 else repr(text[:61] + "…")


def parse_quantity(text: str) -> Fraction:
    """The exact value of a quantity in units; InvalidObject when it is not a quantity."""
    return Fraction(nano(text), NANO)


def nanos_to_milli(amount: int) -> int:
    """Nanos as whole thousandths, rounded away from zero and kept within int64 (Quantity.MilliValue)."""
    return _rounded(amount, _NANOS_PER_MILLI)


def nanos_to_value(amount: int) -> int:
    """Nanos as whole units, rounded away from zero and kept within int64 (Quantity.Value)."""
    return _rounded(amount, NANO)


def _rounded(amount: int, divisor: int) -> int:
    if amount >= 0:
        return min(-(-amount // divisor), INT64_MAX)
    return -min(-(amount // divisor), INT64_MAX)


@lru_cache(maxsize=65536)
def milli(text: str) -> int:
    """A quantity in thousandths, rounded up (Quantity.MilliValue): what `cpu` is counted in."""
    return nanos_to_milli(nano(text))


@lru_cache(maxsize=65536)
def value(text: str) -> int:
    """A quantity in units, rounded up (Quantity.Value): bytes of memory, counts of devices."""
    return nanos_to_value(nano(text))


def amount(resource: str, text: str) -> int:
    """A quantity in the scheduler's unit of that resource: cpu in millicores, everything else in whole units."""
    return milli(text) if resource == "cpu" else value(text)


def amount_at(resource: str, text: str) -> int:
    """`amount(resource, text)`; InvalidObject with the name of the resource if it is not a quantity."""
    try:
        return amount(resource, text)
    except InvalidObject as error:
        raise InvalidObject(f"{resource}: {error}") from None


def format_milli(thousandths: int) -> str:
    """Thousandths as Kubernetes writes them: `500m`, `4`."""
    return str(thousandths // 1000) if thousandths % 1000 == 0 else f"{thousandths}m"


def format_bytes(count: int) -> str:
    """Bytes with the largest binary suffix that loses nothing: `2Gi`, `1536Mi`, `1000`."""
    if count == 0 or count % 1024:
        return str(count)
    suffix, power = next((name, bits) for name, bits in reversed(_BINARY.items()) if count % (1 << bits) == 0)
    return f"{count >> power}{suffix}"


def format_amount(resource: str, count: int) -> str:
    """An amount in the scheduler's unit of that resource as Kubernetes would write it: cpu `500m`, memory `2Gi`, devices `8`."""
    if resource == "cpu":
        return format_milli(count)
    if resource in {"memory", "ephemeral-storage"} or resource.startswith("hugepages-"):
        return format_bytes(count)
    return str(count)
