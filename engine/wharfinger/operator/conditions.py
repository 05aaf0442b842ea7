"""Conditions of a status, and statuses that are written only when they say something new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from wharfinger.crd.fields import Condition
from wharfinger.model.objects.metadata import time_text

_LONGEST = 4000
_LONGEST_SUMMARY = 160


def condition(kind: str, holds: bool | None, reason: str, message: str = "") -> Condition:
    """A statement without its times; `holds` None is unknown."""
    status = {True: "True", False: "False", None: "Unknown"}[holds]
    return Condition.model_validate({"type": kind, "status": status, "reason": reason, "message": cut(message, _LONGEST)})


def ready(holds: bool | None, reason: str, message: str = "") -> Condition:
    """The condition `Ready`, of which kubectl shows the reason and the message: the most important message, in one short line."""
    lines = message.splitlines()
    return condition("Ready", holds, reason, cut(lines[0], _LONGEST_SUMMARY) if lines else "")


def dated(wanted: Sequence[Condition], before: Mapping[str, Any], generation: int, now: float) -> list[dict[str, Any]]:
    """The conditions as they are written: each keeps the time of its last transition while its status stays the same."""
    known = {each.get("type"): each for each in before.get("conditions") or () if isinstance(each, Mapping)}
    written = []
    for each in wanted:
        old = known.get(each.type, {})
        since = old.get("lastTransitionTime") if old.get("status") == each.status else None
        written.append({**each.plain(), "observedGeneration": generation, "lastTransitionTime": since or time_text(now)})
    return written


def cut(text: str, most: int) -> str:
    """The text, cut to at most so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def seconds_of(text: Any) -> float | None:
    """Seconds since 1970 of such a time, None for what is none."""
    try:
        return datetime.fromisoformat(text).timestamp() if isinstance(text, str) else None
    except ValueError:
        return None
