"""Assigns series to nodes, and reports series that cannot be assigned.

A series that names no node is left out, and so is one whose value is not a number. If two series name one node with different values, the
node has no sample. None of this fails a refresh: it is counted and reported with one example each.

No sample is newer than its answer. If a clock is ahead, or times are in milliseconds, a sample would stay fresh long after its server has
stopped, and pods would count as seen before they ran. Such a sample gets the time of the response.

This work runs in threads. A thread that computes holds the interpreter lock for milliseconds, and the event loop waits that long each
time; two such threads double the wait. So answers are mapped one at a time, with a short pause after each portion.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import NamedTuple, TypeVar

from msgspec import Struct, field

from wharfinger.builtins import texts
from wharfinger.errors import on_one_line
from wharfinger.language.semantics.catalogue import SOURCES
from wharfinger.language.semantics.types import Kind
from wharfinger.model.columns.metric_table import MetricColumn, Samples, column_of
from wharfinger.model.objects import Node
from wharfinger.model.objects.cluster import NodeAddress
from wharfinger.signals.query import Query

ITEMS_PER_STEP = 100
"""Things between two pauses: a quarter of a millisecond of work."""

STEP_PAUSE = 0.0005
"""Seconds of a pause."""

T = TypeVar("T")
_turn = threading.Lock()


@contextmanager
def in_turn() -> Iterator[None]:
    """A context that one thread enters at a time."""
    with _turn:
        yield


def in_portions(things: Iterable[T]) -> Iterator[T]:
    """The things, with a pause after every portion."""
    for count, thing in enumerate(things, 1):
        yield thing
        if count % ITEMS_PER_STEP == 0:
            time.sleep(STEP_PAUSE)


AMBIGUOUS = ""
"""The entry of an address that several nodes have."""

_MEANT = frozenset({"InternalIP", "Hostname", "InternalDNS", "ExternalIP"})

Addresses = Sequence[tuple[str, tuple[NodeAddress, ...]]]


class NodeNames:
    """The nodes of a cluster in row order, as they were in one `layout` of its rows.

    Indexes are built at first use, in the thread that needs them; those of `former` are reused where they still hold.
    """

    def __init__(self, layout: int, names: Sequence[str], nodes: Sequence[Node], former: NodeNames | None = None) -> None:
        self.layout = layout
        self.names = names
        self._nodes = nodes
        self._former = former

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def rows(self) -> Mapping[str, int]:
        """The row of each node."""
        return {name: row for row, name in enumerate(self.names)}

    def of(self, text: str) -> str | None:
        """The node with this name or address, with or without a port; None if no node or more than one matches."""
        if text in self.rows:
            return text
        host = _host(text)
        if host in self.rows:
            return host
        known = self._by_address[1]
        return known.get(text) or known.get(host) or None

    @cached_property
    def _by_address(self) -> tuple[Addresses, Mapping[str, str]]:
        """The addresses of nodes, and the node of each address."""
        addresses = [(name, node.status.addresses) for name, node in in_portions(zip(self.names, self._nodes, strict=True))]
        former, self._former = self._former, None
        known = None if former is None else vars(former).get("_by_address")
        if known is not None and known[0] == addresses:
            return known  # type: ignore[no-any-return]  # the cached property of the same name
        found: dict[str, str] = {}
        for name, own in in_portions(addresses):
            for address in {each.address for each in own if each.type in _MEANT}:
                found[address] = AMBIGUOUS if address in found else name
        return addresses, found


def _host(text: str) -> str:
    """The text without a port, and without the brackets of an IPv6 address."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    host, separator, port = text.rpartition(":")
    return host if separator and port.isdigit() and ":" not in host else text


MAX_CLOCK_SKEW = 5.0
"""Seconds that a clock may be ahead without a warning."""

_SHOWN = 200
_NEVER_NEGATIVE = frozenset({Kind.CPU, Kind.MEMORY, Kind.COUNT, Kind.DURATION})


class Series(NamedTuple):
    """One series of an answer: its labels, its value, and when that was measured (seconds since 1970)."""

    labels: Mapping[str, str]
    value: float
    time: float


class SeriesProblem(Struct, kw_only=True):
    """The number of series with a problem, and one example."""

    count: int = 0
    example: str = ""

    def found(self, example: str) -> None:
        """Count one more series; the first one is the example."""
        if not self.count:
            self.example = on_one_line(example, _SHOWN)
        self.count += 1


class Mapped(Struct, frozen=True, kw_only=True):
    """The samples of a signal by node and as a column, and the series that were left out.

    `unlabelled` series lack the label, `unmatched` ones name no node, `doubled` ones name a node that already has another value, and
    `invalid` values are impossible numbers, or have no time. Those `ahead` of the time of the answer count from then on. `warnings` are
    those of the server itself.
    """

    samples: Samples
    column: MetricColumn
    layout: int
    n_series: int
    unlabelled: SeriesProblem = field(default_factory=SeriesProblem)
    unmatched: SeriesProblem = field(default_factory=SeriesProblem)
    doubled: SeriesProblem = field(default_factory=SeriesProblem)
    invalid: SeriesProblem = field(default_factory=SeriesProblem)
    ahead: SeriesProblem = field(default_factory=SeriesProblem)
    warnings: Sequence[str] = ()

    @property
    def problems(self) -> Iterator[tuple[str, SeriesProblem]]:
        """The oddities that occurred, each with its description."""
        for said, oddity in (
            ("without the label", self.unlabelled),
            ("of no node", self.unmatched),
            ("of a node that has another value", self.doubled),
            ("without a possible value", self.invalid),
            ("with a time in the future", self.ahead),
        ):
            if oddity.count:
                yield said, oddity


def mapped(series: Iterable[Series], query: Query, nodes: NodeNames, *, came: float = math.inf, warnings: Sequence[str] = ()) -> Mapped:
    """The samples by node in an answer that came at a time (seconds since 1970)."""
    work = _Mapping(query, nodes, came)
    for each in in_portions(series):
        work.take(each)
    samples = {name: sample for name, sample in work.samples.items() if sample is not None}
    return Mapped(
        samples=samples,
        column=column_of(samples, nodes.rows, len(nodes)),
        layout=nodes.layout,
        n_series=work.n_series,
        unlabelled=work.unlabelled,
        unmatched=work.unmatched,
        doubled=work.doubled,
        invalid=work.invalid,
        ahead=work.ahead,
        warnings=warnings,
    )


class _Mapping:
    def __init__(self, query: Query, nodes: NodeNames, came: float) -> None:
        self._label = query.node
        self._came = came
        self._pattern = None if query.relabel is None else texts.compiled(query.relabel)
        self._nodes = nodes
        self._scale = SOURCES[query.source].units.get(query.kind, 1.0)
        self._never_negative = query.kind in _NEVER_NEGATIVE
        self.samples: dict[str, tuple[float, float] | None] = {}
        self.n_series = 0
        self.unlabelled, self.unmatched, self.doubled = SeriesProblem(), SeriesProblem(), SeriesProblem()
        self.invalid, self.ahead = SeriesProblem(), SeriesProblem()

    def take(self, series: Series) -> None:
        self.n_series += 1
        text = series.labels.get(self._label)
        if text is None:
            self.unlabelled.found(_shown(series.labels))
            return
        name = self._named(text)
        if name is None:
            self.unmatched.found(f'{self._label}="{text}"')
            return
        value = series.value * self._scale
        if not math.isfinite(value) or (self._never_negative and value < 0):
            self.invalid.found(f"{series.value:g} for {name}")
        elif not math.isfinite(series.time):
            self.invalid.found(f"{series.value:g} for {name}, whose time of measurement is not known")
        else:
            self._keep(name, value, series, self._past(name, series.time))

    def _past(self, name: str, time: float) -> float:
        if time > self._came + MAX_CLOCK_SKEW:
            self.ahead.found(f"{name}, {time - self._came:,.6g} s ahead: are the clocks not synchronised, or is the time in milliseconds?")
        return min(time, self._came)

    def _named(self, text: str) -> str | None:
        if self._pattern is not None:
            match = self._pattern.fullmatch(text)
            if match is None:
                return None
            text = match.group(1 if self._pattern.groups else 0) or ""
        return self._nodes.of(text)

    def _keep(self, name: str, value: float, series: Series, time: float) -> None:
        if name not in self.samples:
            self.samples[name] = (value, time)
            return
        known = self.samples[name]
        if known is None or known[0] != value:
            self.doubled.found(f"{name}: {_shown(series.labels)}")
            self.samples[name] = None
        elif time > known[1]:
            self.samples[name] = (value, time)


def _shown(labels: Mapping[str, str]) -> str:
    inner = ", ".join(f'{name}="{value}"' for name, value in sorted(labels.items())[:6])
    return f"{{{inner}}}"
