"""What has to be asked for a set of policies: each distinct signal once, as often as whoever uses it most often wants it.

Two metrics are one signal if their samples may not differ: the same kind, query and options. Their names do not matter, nor do the names of
their policies; how old samples may be and how many nodes must have one stays with each metric.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from wharfinger.language import typed
from wharfinger.language.types import Kind

PROMETHEUS = "prometheus"
METRICS_API = "metrics_api"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A signal to be asked for every `refresh` seconds.

    `key` is where its samples are kept. `text` is what a Prometheus `server` is asked, or the resource of the Metrics API. `node` is the
    label that names the node, after `relabel` if there is one; `times` is a query for the moments at which the values were measured.
    `users` are the metrics, as `policy.metric`.
    """

    key: str
    kind: Kind
    source: str
    text: str
    refresh: float
    server: str = ""
    node: str = ""
    relabel: str | None = None
    times: str | None = None
    users: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = f"prometheus {self.server}" if self.source == PROMETHEUS else "metrics.k8s.io"
        return f"{where}: {self.text}"


def queries_of(policies: Iterable[typed.Policy]) -> Mapping[str, Query]:
    """The distinct signals of some policies, by key."""
    metrics: dict[str, list[typed.Metric]] = {}
    for policy in policies:
        for metric in policy.metrics:
            metrics.setdefault(metric.signal, []).append(metric)
    return {key: _query(key, sharing) for key, sharing in metrics.items()}


def _query(key: str, sharing: list[typed.Metric]) -> Query:
    first = sharing[0]
    return Query(
        key=key,
        kind=first.type.kind,
        source=first.source,
        text=first.query,
        refresh=min(metric.refresh for metric in sharing),
        server=first.options.get("server", ""),
        node=first.options.get("node", ""),
        relabel=first.options.get("relabel"),
        times=first.options.get("times"),
        users=tuple(sorted({f"{metric.policy}.{metric.name}" for metric in sharing})),
    )
