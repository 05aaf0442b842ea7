"""What a running process measures, read from its `/metrics`, and what that says about the time between two readings."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """The samples of a moment by name and labels; `at` in monotonic seconds."""

    at: float
    samples: Mapping[str, Mapping[Labels, float]]

    def by(self, name: str, label: str) -> dict[str, float]:
        """The sum of a metric's samples for each value of a label."""
        found: defaultdict[str, float] = defaultdict(float)
        for labels, value in self.samples.get(name, {}).items():
            found[dict(labels).get(label, "")] += value
        return dict(found)

    def total(self, name: str) -> float:
        """The sum of all samples of a metric; 0 where there are none."""
        return sum(self.samples.get(name, {}).values())


def readings(text: str, at: float) -> Readings:
    """What the text of `/metrics` says. ValueError where it is none."""
    found: defaultdict[str, dict[Labels, float]] = defaultdict(dict)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name][frozenset(sample.labels.items())] = sample.value
    return Readings(at=at, samples=found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """Two readings of one process; without a `before`, everything since the process began."""

    now: Readings
    before: Readings | None

    @property
    def seconds(self) -> float | None:
        """The time between the readings; None if there is only one."""
        return None if self.before is None else self.now.at - self.before.at

    def grown(self, name: str, label: str) -> dict[str, float]:
        """How much a counter has grown, for each value of a label; of a process that was started anew, all of it."""
        now = self.now.by(name, label)
        before = {} if self.before is None else self.before.by(name, label)
        if any(now.get(value, 0.0) < then for value, then in before.items()):
            before = {}
        return {value: count - before.get(value, 0.0) for value, count in now.items()}

    def rate(self, name: str, label: str, value: str) -> float | None:
        """By how much a counter has grown per second; None with only one reading."""
        return self.grown(name, label).get(value, 0.0) / self.seconds if self.seconds else None

    def quantile(self, name: str, fraction: float) -> float | None:
        """The value that this part of a histogram's observations are at most, as `histogram_quantile` has it; None without any."""
        grown = self.grown(f"{name}_bucket", "le")
        buckets = sorted((math.inf if bound == "+Inf" else float(bound), count) for bound, count in grown.items())
        if not buckets or not buckets[-1][1]:
            return None
        rank, low, below = fraction * buckets[-1][1], 0.0, 0.0
        for bound, count in buckets:
            if count >= rank:
                if math.isinf(bound):
                    return low
                return low + (bound - low) * (rank - below) / (count - below) if count > below else bound
            low, below = bound, count
        return low
