"""Recent decisions, in a bounded number of bytes, and from them the last hour as a few numbers every ten seconds.

Every attempt leaves a light record: what came of it, and how long its stages took. The best nodes with the parts of their scores are read
from the decision itself, while it is fresh, within a small share of time: for every decision at a low rate, for some decisions in a burst.
For the others `/explain` decides again, on the present cluster then.

The points of the last hour, for the live page, take some tens of kilobytes at most. Durations are read from the records, so nothing is
counted while a pod is placed. Where the records of an interval were dropped already, because very many pods were tried, the percentiles are
those of the newest ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import islice, takewhile
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wharfinger.emit import Handlers
from wharfinger.framework.ports import Clock
from wharfinger.scheduler.events import AttemptEnded, Decided

if TYPE_CHECKING:
    from wharfinger.framework.evaluation.decision import ScorePart

MAX_BYTES = 8 * 2**20
MAX_TIME_SHARE = 0.002
"""The part of all time that reading details may take."""
MAX_SAVED_SECONDS = 0.005
"""Seconds of it that are saved up while nothing is decided."""
TOP_NODES = 3
MAX_PENDING = 4096
"""Details that wait for the end of their attempts; those of attempts that never ended are forgotten first."""

_RECORD_BYTES = 600  # of the tuple, its numbers and stages, and the references to it in lists; measured by tracemalloc on 64 bits
_PART_BYTES = 130
_LETTER_BYTES = 2  # names of objects and reasons need no more
INTERVAL = 10.0
"""Seconds between two points."""
MAX_POINTS = 360
"""Points that are kept: an hour."""
MAX_DECISIONS = 5000
"""Decisions of an interval whose durations are looked at."""


class RankedNode(NamedTuple):
    """One of the best nodes: its total in each tier, and what each score adds to it."""

    node: str
    totals: tuple[float, ...]
    scores: tuple[ScorePart, ...]


class RecentDecision(NamedTuple):
    """One attempt at placing a pod. `at` is when it ended, in seconds since 1970; `seconds` are those of the stages that ran.

    `best` are the best nodes at the moment of the decision; None where there was no time to read them.
    """

    at: float
    pod: str
    uid: str
    profile: str
    result: str
    node: str | None
    message: str
    attempts: int
    policy_revision: str
    snapshot_revision: int
    feasible: int
    n_nodes: int
    plugins: tuple[str, ...]
    policies: tuple[str, ...]
    seconds: Mapping[str, float]
    best: tuple[RankedNode, ...] | None
    n_bytes: int


class RecentDecisions:
    """The records, newest last."""

    def __init__(self, now: Callable[[], float], timer: Callable[[], float], max_bytes: int = MAX_BYTES) -> None:
        self._now = now
        self._timer = timer
        self._max_bytes = max_bytes
        self._records: deque[RecentDecision] = deque()
        self._pending: dict[str, tuple[RankedNode, ...]] = {}
        self._saved = MAX_SAVED_SECONDS
        self._asked_at = timer()
        self.n_bytes = 0
        self.n_seen = 0
        self.handlers: Handlers = {Decided: self._decided, AttemptEnded: self._attempted}

    def __len__(self) -> int:
        return len(self._records)

    def _decided(self, event: Decided) -> None:
        """Keep the best nodes of a decision that was just made, if there is time for it."""
        decision = event.decision
        if decision.node is None:
            return
        began = self._timer()
        self._saved = min(MAX_SAVED_SECONDS, self._saved + MAX_TIME_SHARE * (began - self._asked_at))
        self._asked_at = began
        if self._saved <= 0:
            return
        best = tuple(RankedNode(ranked.node, ranked.totals, decision.scores_at(ranked.node)) for ranked in decision.ranking(TOP_NODES))
        if len(self._pending) >= MAX_PENDING:
            del self._pending[next(iter(self._pending))]
        self._pending[decision.pod.uid] = best
        self._saved -= self._timer() - began

    def _attempted(self, attempt: AttemptEnded) -> None:
        """Keep the record of an attempt that has ended, and drop the oldest ones."""
        pod, node, message = attempt.pod, attempt.node, attempt.message
        best = self._pending.pop(pod.uid, None) if self._pending else None
        n_bytes = _RECORD_BYTES + _LETTER_BYTES * (len(message) + len(pod.key) + len(pod.uid))
        if best is not None:
            n_bytes += sum(_PART_BYTES * (2 + len(ranked.scores)) for ranked in best)
        self._records.append(
            RecentDecision(
                self._now(),
                pod.key,
                pod.uid,
                attempt.profile,
                attempt.result,
                node,
                message,
                attempt.attempts,
                attempt.policy_revision,
                attempt.snapshot_revision,
                attempt.feasible,
                attempt.n_nodes,
                attempt.plugins,
                attempt.policies,
                attempt.stages,
                best,
                n_bytes,
            )
        )
        self.n_seen += 1
        self.n_bytes += n_bytes
        while self.n_bytes > self._max_bytes:
            self.n_bytes -= self._records.popleft().n_bytes

    def latest(
        self, *, namespace: str | None = None, result: str | None = None, policy: str | None = None, pod: str | None = None
    ) -> Iterator[RecentDecision]:
        """The records, newest first; of a namespace, a result, a policy that governs the pod, or a pod (`namespace/name`), if given."""
        prefix = "" if namespace is None else f"{namespace}/"
        for record in reversed(self._records):
            if not record.pod.startswith(prefix) or result not in (None, record.result) or pod not in (None, record.pod):
                continue
            if policy is None or policy in record.policies:
                yield record


class Reading(NamedTuple):
    """The load of a scheduler: how many pods wait, and the requested fraction of each resource by name."""

    pending: int
    used: Mapping[str, float]


class Point(NamedTuple):
    """The interval that ended at `at` (seconds since 1970).

    `rate` is attempts per second; `p50` and `p99` are the seconds of a decision, None where none was made.
    """

    at: float
    rate: float
    p50: float | None
    p99: float | None
    pending: int
    used: Mapping[str, float]


class SchedulingHistory:
    """The points of the last hour, newest last."""

    def __init__(self, recent: RecentDecisions, clock: Clock) -> None:
        self._recent = recent
        self._clock = clock
        self._seen = recent.n_seen
        self._since = clock.now()
        self._began = clock.monotonic()
        self.points: deque[Point] = deque(maxlen=MAX_POINTS)

    async def run(self, read: Callable[[], Reading]) -> None:
        """Add a point every `INTERVAL` seconds; never returns."""
        while True:
            await self._clock.sleep(INTERVAL)
            self.add(read())

    def add(self, reading: Reading) -> None:
        """Add the point of the interval that ends now."""
        now, monotonic, seen = self._clock.now(), self._clock.monotonic(), self._recent.n_seen
        latest = takewhile(lambda record: record.at >= self._since, self._recent.latest())
        spent = [record.seconds["decide"] for record in islice(latest, MAX_DECISIONS) if "decide" in record.seconds]
        p50, p99 = np.percentile(spent, (50, 99)).tolist() if spent else (None, None)
        rate = (seen - self._seen) / max(monotonic - self._began, 1e-9)
        self.points.append(Point(now, rate, p50, p99, reading.pending, reading.used))
        self._seen, self._since, self._began = seen, now, monotonic
