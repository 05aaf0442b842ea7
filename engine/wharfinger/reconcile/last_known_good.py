"""The version of a policy that decides, repeated in the status of its resource.

A text that is good now may be broken when the next process starts, on a machine where no file of this one is. So the status says what held
last, whether or not the spec says the same at present: nobody may be running when it is edited.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from wharfinger.crd.policy import MOST_REMEMBERED, LastKnownGood
from wharfinger.framework.policy_status import FormerText, PolicyStatus
from wharfinger.model.timestamps import time_text

FIELD = "lastKnownGood"


def last_known_good(found: PolicyStatus, before: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the status is to say, None for nothing: of the version that holds, or while none does what it said `before`."""
    if not found.holds:
        known: dict[str, Any] | None = before.get(FIELD)
        return known
    held = found.held
    if held is None:
        return None
    source = held.content.decode("utf-8", "replace")
    if len(source) > MOST_REMEMBERED:
        return None
    said = {"source": source, "generation": held.generation, "since": time_text(held.since)}
    return {**said, "params": dict(held.params)} if held.params else said


def remembered(status: Mapping[str, Any]) -> FormerText | None:
    """What a status says of the version that held last; None if nothing, or nothing that can be read."""
    if status.get(FIELD) is None:
        return None
    try:
        good = LastKnownGood.model_validate(status[FIELD])
    except ValidationError:
        return None
    return FormerText(content=good.source.encode(), params=dict(good.params), generation=good.generation, since=good.since.timestamp())
