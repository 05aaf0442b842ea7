"""The local time in time zones, also on the days when clocks change."""

from __future__ import annotations

from datetime import datetime

import pytest

from wharfinger.builtins import CATALOGUE
from wharfinger.builtins.signature import AtMoment
from wharfinger.builtins.times import zone_fault, zone_names

HOUR = 3600.0
SHOWN = [
    ("2026-03-29T00:59:59.500Z", "Europe/Berlin", 2 * HOUR - 0.5, "sun"),
    ("2026-03-29T01:00:00Z", "Europe/Berlin", 3 * HOUR, "sun"),  # the clock goes from 2:00 to 3:00
    ("2026-10-25T00:30:00Z", "Europe/Berlin", 2.5 * HOUR, "sun"),
    ("2026-10-25T01:30:00Z", "Europe/Berlin", 2.5 * HOUR, "sun"),  # for the second time
    ("2026-10-25T23:00:00Z", "Europe/Berlin", 0.0, "mon"),
    ("2026-01-01T00:00:00Z", "UTC", 0.0, "thu"),
    ("2026-01-01T00:00:00Z", "America/New_York", 19 * HOUR, "wed"),
    ("2026-01-01T00:00:00Z", "Asia/Kathmandu", 5.75 * HOUR, "thu"),
    ("1970-01-01T00:00:00Z", "Pacific/Kiritimati", 13 * HOUR + 20 * 60, "wed"),
]


@pytest.mark.parametrize(("moment", "tz", "time_of_day", "weekday"), SHOWN)
def test_a_clock_shows(moment: str, tz: str, time_of_day: float, weekday: str) -> None:
    context = AtMoment(datetime.fromisoformat(moment).timestamp())
    assert [CATALOGUE.function(name).scalar(context, tz) for name in ("time_of_day", "weekday")] == [time_of_day, weekday]  # type: ignore[union-attr]  # both exist


@pytest.mark.parametrize("now", [-1e18, -1e11, 0.0, 1e11, 2.6e11, 1e18])
@pytest.mark.parametrize("tz", ["UTC", "Pacific/Kiritimati", "Pacific/Niue"])
def test_a_clock_shows_something_at_any_time(now: float, tz: str) -> None:
    assert 0 <= CATALOGUE.function("time_of_day").scalar(AtMoment(now), tz) < 86_400  # type: ignore[union-attr]  # it exists


UNKNOWN = [
    "",
    "Europe",
    "europe/berlin",
    "localtime",
    "posixrules",
    "../UTC",
    "/etc/localtime",
    "a\0b",
    "x" * 1000,
    "zones",
    "Europe/Berlin/",
]


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_time_zones_are_refused(name: str) -> None:
    assert (zone_fault(name) or "").startswith("there is no time zone")


def test_near_names_are_proposed() -> None:
    assert (zone_fault("Europe/Berln") or "").endswith("did you mean Europe/Berlin?")


def test_every_zone_can_be_read() -> None:
    assert len(zone_names()) > 500
    for name in zone_names()[::17]:
        assert zone_fault(name) is None
        CATALOGUE.function("weekday").scalar(AtMoment(0.0), name)  # type: ignore[union-attr]  # it exists
