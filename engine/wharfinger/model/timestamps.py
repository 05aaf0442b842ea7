"""Times as Kubernetes writes them (apimachinery, meta/v1 time.go and micro_time.go, 1.36), from seconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

_MICRO = 1_000_000


def time_text(seconds: float) -> str:
    """A time as Kubernetes' Time: `2026-01-02T03:04:05Z`."""
    return f"{_to_the_second(round(seconds * _MICRO) // _MICRO)}Z"


def micro_time(seconds: float) -> str:
    """A time as Kubernetes' MicroTime: `2026-01-02T03:04:05.000006Z`."""
    whole, micro = divmod(round(seconds * _MICRO), _MICRO)
    return f"{_to_the_second(whole)}.{micro:06d}Z"


@lru_cache(maxsize=64)  # thousands of events happen in one second
def _to_the_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
