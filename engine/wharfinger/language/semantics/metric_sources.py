"""The sources of metrics: what a policy writes for each, and how its answers are read. One record per source.

A source needs a record here, a module in `signals` that reads it, and a line in `signals/sources.py`; its page is docs/writing/signals.md.
Nothing else knows sources by name: the checker, units, log lines and `wharf signals` read the record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from wharfinger.language.semantics.types import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option of a source: its kind, its default, and its smallest and largest value."""

    kind: Kind
    default: Any
    low: float = 0.0
    high: float = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSource:
    """A source, by the `name` that policies use.

    `argument` says in words what its first argument is. `resources` are the texts that it may be, with the kind of their values; None if it
    is a query of any kind. `units` are the factors from the source's units to those of the language. `promql` is true if queries are PromQL
    and may look back. A source with the option `server` is asked on servers of the settings; any other is named `address` in messages, and
    `through_api_server` if it is read through the API server.
    """

    name: str
    argument: str
    options: Mapping[str, Option]
    resources: Mapping[str, Kind] | None = None
    units: Mapping[Kind, float] = field(default_factory=dict)
    promql: bool = False
    address: str = ""
    through_api_server: bool = False

    @property
    def has_servers(self) -> bool:
        """True if the settings name the servers of this source."""
        return "server" in self.options


FRESHNESS: Mapping[str, Option] = {
    "refresh": Option(kind=Kind.DURATION, default=15.0, low=1.0),
    "max_age": Option(kind=Kind.DURATION, default=120.0, low=1.0),
    "min_coverage": Option(kind=Kind.PERCENT, default=0.8, high=1.0),
    "window": Option(kind=Kind.DURATION, default=0.0),
}
"""The options of every source: how old samples may be and how many nodes must have one."""

PROMETHEUS = MetricSource(
    name="prometheus",
    argument="a query in quotes",
    options={
        "node": Option(kind=Kind.STRING, default="node"),
        "relabel": Option(kind=Kind.STRING, default=None),
        "server": Option(kind=Kind.STRING, default="default"),
        "times": Option(kind=Kind.STRING, default=None),
        **FRESHNESS,
    },
    units={Kind.CPU: 1000.0},  # cores to millicores
    promql=True,
)
METRICS_API = MetricSource(
    name="metrics_api",
    argument='`"cpu"` or `"memory"`',
    options=FRESHNESS,
    resources={"cpu": Kind.CPU, "memory": Kind.MEMORY},
    address="metrics.k8s.io",
    through_api_server=True,
)

SOURCES: Mapping[str, MetricSource] = MappingProxyType({source.name: source for source in (PROMETHEUS, METRICS_API)})
"""Every source by name."""
