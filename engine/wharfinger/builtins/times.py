"""Functions of time: ages, and the time of day and the weekday in a time zone.

Time is always the snapshot's own; a policy has no clock. The rules of time zones are those of the `tzdata` package, and not of the machine:
every machine with the same packages decides alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, tzinfo
from functools import cache, lru_cache
from importlib import resources
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from wharfinger.builtins.signature import AtMoment, AtNode, AtRows, always
from wharfinger.language.report.wording import closest
from wharfinger.language.semantics.bounds import UNBOUNDED
from wharfinger.language.semantics.catalogue import Function, Parameter, Volatility
from wharfinger.language.semantics.types import Kind, Shape

Context = AtNode | AtMoment | AtRows

DAY = 86_400.0
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
LATEST = 253_402_214_400.0  # 9999-12-31, the last whole day that a date can be
ZONE_STEPS = 20  # of a check: a file of a few hundred bytes is read


@cache
def zone_names() -> tuple[str, ...]:
    """The names of all time zones, such as "Europe/Berlin"."""
    return tuple(resources.files("tzdata").joinpath("zones").read_text(encoding="utf-8").split())


@lru_cache(maxsize=1024)
def zone(name: str) -> tzinfo:
    """The rules of a time zone; KeyError if there is none of that name."""
    if name not in zone_names():
        raise KeyError(name)
    with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def zone_fault(name: object, nearest: Callable[[str, Iterable[str]], str | None] = closest) -> str | None:
    """The error in the name of a time zone, or None; `nearest` finds the zone that was meant."""
    if name in zone_names():
        return None
    near = nearest(str(name), zone_names())
    hint = f"did you mean {near}?" if near else "use a name of the IANA database, such as Europe/Berlin or UTC"
    return f"there is no time zone {str(name)!r}; {hint}"


def local(context: Context, tz: str) -> datetime:
    """The snapshot's own time as a clock in the zone shows it; times beyond the years that dates have are moved to their ends."""
    return datetime.fromtimestamp(min(max(context.now, -LATEST / 10), LATEST), UTC).astimezone(zone(tz))


def _age(context: AtNode | AtMoment, time: float) -> float:
    return float(context.now - time)


def _age_kernel(context: AtRows, time: Any) -> Any:
    return context.now - time


def _time_of_day(context: Context, tz: str) -> float:
    shown = local(context, tz)
    return shown.hour * 3600.0 + shown.minute * 60.0 + shown.second + shown.microsecond / 1e6


def _weekday(context: Context, tz: str) -> str:
    return WEEKDAYS[local(context, tz).weekday()]


def _weekday_code(context: AtNode | AtRows, tz: str) -> Any:
    """The code of the weekday in the cluster's strings: one for all rows."""
    return np.int32(context.snapshot.strings.code(_weekday(context, tz)))


_TZ = Parameter(name="tz", kinds=frozenset({Kind.STRING}), literal=True, validate=zone_fault, steps=lambda _: ZONE_STEPS, suggests=True)

TIMES = (
    Function(
        name="age",
        parameters=(Parameter(name="time", kinds=frozenset({Kind.TIME})),),
        result=always(Kind.DURATION),
        doc="The time from that moment to the snapshot's own time; negative if the moment is later.",
        example="age(node.created) >= 1h",
        scalar=_age,
        vector=_age_kernel,
        never_nan=True,
        interval=lambda _: UNBOUNDED,
        context=True,
        volatility=Volatility.TIMED,
        clock=True,
    ),
    Function(
        name="time_of_day",
        parameters=(_TZ,),
        result=always(Kind.DURATION, shape=Shape.POD),
        doc="The time that a clock in the time zone shows at the snapshot's own time, since 0:00: 8h is eight in the morning, also on a "
        "day when the clocks change.",
        example='time_of_day(tz: "Europe/Berlin") >= 8h',
        scalar=_time_of_day,
        vector=_time_of_day,
        never_nan=True,
        interval=lambda *_: (0.0, DAY),
        context=True,
        volatility=Volatility.TIMED,
        own_shape=True,
        clock=True,
    ),
    Function(
        name="weekday",
        parameters=(_TZ,),
        result=always(Kind.STRING, shape=Shape.POD),
        doc="The day of the week in the time zone at the snapshot's own time: " + ", ".join(f'`"{day}"`' for day in WEEKDAYS) + ".",
        example='weekday(tz: "Europe/Berlin") in ["sat", "sun"]',
        scalar=_weekday,
        vector=_weekday_code,
        row=_weekday_code,
        context=True,
        volatility=Volatility.TIMED,
        own_shape=True,
        clock=True,
    ),
)
