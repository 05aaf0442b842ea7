"""A pod in the scheduling queue, and in which part of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from wharfinger.framework.extension import Plugin
from wharfinger.framework.verdict import Reason
from wharfinger.model.pod import PodView
from wharfinger.runtime.profiles import Profile


class Place(Enum):
    """Where a queued pod is; it is always in exactly one place.

                    ┌──────────── event that may help ─────────────┐
    new ──▶ gated   ▼                                              │
     │        │   backoff ◀── error ──┐                            │
     │        ▼     │                 │                            │
     └───▶ active ◀─┘ ──pop──▶ in flight ── no node fits ──▶ unschedulable
                                 │
                                 └── placed: no longer queued
    """

    ACTIVE = "active"
    BACKOFF = "backoff"
    ERROR_BACKOFF = "error backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in flight"
    GONE = "gone"


@dataclass(slots=True, kw_only=True, eq=False)
class QueuedPod:
    """A pod that waits to be placed or is being placed; times are monotonic seconds.

    `attempts` counts how often it was taken out to be tried, `rejections` and `errors` the failures of each kind in a row. `first_seen` is
    when it could first have been tried, `queued_at` when it entered its present place, `ready_at` when its backoff ends and `started` when
    it was last taken out. `rejectors` are the plugins that kept it off the nodes last time; empty means that nothing is known, so that
    anything may help. `gate` says why it must not be tried, `gate_faults` how often a plugin failed to say. `tried` is the
    template it was last tried with. `flushed`: only because it had waited for too long.
    """

    pod: PodView
    profile: Profile
    sort_key: Any
    first_seen: float
    queued_at: float
    place: Place = Place.ACTIVE
    attempts: int = 0
    rejections: int = 0
    errors: int = 0
    ready_at: float = 0.0
    rejectors: frozenset[Plugin] = frozenset()
    gate: Reason | None = None
    gate_faults: int = 0
    tried: bytes = b""
    flushed: bool = False
    started: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.pod.uid
