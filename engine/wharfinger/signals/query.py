"""The queries for a set of policies: each distinct signal once, as often as its most frequent user needs it.

Two metrics are one signal if their samples cannot differ: the same source, query and options. Their names do not matter, nor do the names
of their policies; how old samples may be and how many nodes must have one stays with each metric.

Authors of policies do not run the server that they query, so there are limits: a shortest interval, and a number of queries for each
requester and for all. A query beyond them has a `refused` text, or a `refresh` longer than what was `wanted`. No secret is in the settings
here: secrets are in files that are read for every request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from wharfinger.language.semantics import typed
from wharfinger.language.semantics.authority import CLUSTER, Authority
from wharfinger.language.semantics.catalogue import SOURCES
from wharfinger.language.semantics.types import Kind
from wharfinger.signals.fair_queue import Requester


class PrometheusServer(Struct, frozen=True, kw_only=True):
    """A server by name.

    At most one of `token_file` and (`username`, `password_file`) is used. `headers` are sent as they are, `header_files` with the content
    of files. `ca_file` has the trusted authorities, `cert_file` and `key_file` are the client's; with `verify` False any certificate is
    accepted. `timeout` is that of a whole answer in seconds, and `max_bytes` its largest length.
    """

    name: str
    url: str
    token_file: str | None = None
    username: str | None = None
    password_file: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    header_files: Mapping[str, str] = field(default_factory=dict)
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify: bool = True
    timeout: float = 10.0
    max_bytes: int = 64 * 2**20


class SignalLimits(Struct, frozen=True, kw_only=True):
    """Limits of queries: the shortest refresh in seconds, and the number of distinct queries, for one requester and for all.

    A requester is a policy of the cluster, or all policies of a namespace.
    Prometheus scrapes its targets every 15 s to a minute, so queries more often than every 5 s get the same samples again.
    """

    shortest_refresh: float = 5.0
    of_requester: int = 64
    of_all: int = 512


NO_REQUESTER = Requester("")


class Query(Struct, frozen=True, kw_only=True):
    """A signal to be read every `refresh` seconds; `wanted` is the interval that its metrics request.

    One that is `refused` is not read.

    `key` is where its samples are kept. `text` is the query for a Prometheus `server`, or the resource of the Metrics API. `node` is the
    label that names the node, after `relabel` if there is one; `times` is a query for the moments at which the values were measured.
    `users` are the metrics, as `policy.metric`; `requester` is the one of them in whose turn it is sent: the cluster before namespaces.
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
    wanted: float = 0.0
    refused: str = ""
    requester: Requester = NO_REQUESTER

    def __str__(self) -> str:
        where = f"{self.source} {self.server}" if self.server else self.place
        return f"{where}: {self.text}"

    @property
    def place(self) -> str:
        """The place that answers: the name of a server of the settings, or the address of the source."""
        return self.server or SOURCES[self.source].address


def queries_of(policies: Iterable[typed.Policy], limits: SignalLimits | None = None) -> Mapping[str, Query]:
    """The distinct signals of some policies, by key. Without limits each is read at its own interval."""
    metrics: dict[str, list[tuple[Requester, typed.Metric]]] = {}
    for policy in policies:
        for metric in policy.metrics:
            metrics.setdefault(metric.signal, []).append((_asker(policy.name, policy.authority), metric))
    queries = {key: _query(key, sharing) for key, sharing in metrics.items()}
    return queries if limits is None else _limited(queries, limits)


def _asker(policy: str, authority: Authority) -> Requester:
    if authority.namespace is None:
        return Requester(policy, group=str(CLUSTER), rank=0)
    return Requester(authority.namespace, group="namespaces", rank=1)


def _limited(queries: Mapping[str, Query], limits: SignalLimits) -> Mapping[str, Query]:
    """The queries, with those beyond the limits marked.

    The first ones of each requester are read; of all, those of the cluster first, then one of each namespace in turn.
    """
    before: Counter[Requester] = Counter()
    places: list[tuple[int, int, str]] = []
    for key, query in queries.items():
        places.append((query.requester.rank, before[query.requester] if query.requester.rank else 0, key))
        before[query.requester] += 1
    counts: Counter[Requester] = Counter()
    found = dict(queries)
    for _, _, key in sorted(places, key=lambda place: place[:2]):
        query = queries[key]
        refused = ""
        if counts[query.requester] >= limits.of_requester:
            whose = f"policy {query.requester.name}" if not query.requester.rank else f"namespace {query.requester.name}"
            refused = (
                f"not sent: {whose} has {before[query.requester]} distinct queries, "
                f"and {limits.of_requester} are allowed (signals.queriesOfAsker)"
            )
        elif counts.total() >= limits.of_all:
            refused = f"not sent: all policies have {len(queries)} distinct queries, and {limits.of_all} are allowed (signals.queries)"
        else:
            counts[query.requester] += 1
        found[key] = replace(query, refresh=max(query.refresh, limits.shortest_refresh), refused=refused)
    return found


def _query(key: str, sharing: list[tuple[Requester, typed.Metric]]) -> Query:
    first = sharing[0][1]
    refresh = min(metric.refresh for _, metric in sharing)
    return Query(
        key=key,
        kind=first.type.kind,
        source=first.source,
        text=first.query,
        refresh=refresh,
        wanted=refresh,
        server=first.options.get("server", ""),
        node=first.options.get("node", ""),
        relabel=first.options.get("relabel"),
        times=first.options.get("times"),
        users=tuple(sorted({f"{metric.policy}.{metric.name}" for _, metric in sharing})),
        requester=min((requester for requester, _ in sharing), key=lambda requester: requester.rank),
    )
