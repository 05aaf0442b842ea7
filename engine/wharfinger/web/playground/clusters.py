"""The clusters that a policy can be tried on: examples of the package, OpenB, files of this machine, and what was uploaded.

`Clusters` is a port: `wharf playground` has the clusters of this module, a running scheduler has its own one
(`daemon/pages.py`).
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Protocol, TypeVar

from msgspec import Struct

from wharfinger.authoring.known_cluster import KnownCluster
from wharfinger.compiler.program import CompiledPolicy
from wharfinger.errors import InvalidObject, UnknownObject
from wharfinger.framework.chain import Chain, assemble, with_policies
from wharfinger.language.report.wording import count
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import files
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.simulate.cluster import EXAMPLE, TRACE, Cluster, cluster_of, load_cluster, with_nodes
from wharfinger.simulate.examples import SIZES

MAX_LOADED = 3
"""Clusters that are kept in memory; the one that was not used for longest is read again when it is wanted."""
MAX_UPLOADS = 4
MAX_UNPACKED_BYTES = 2**30
"""Bytes in a packed file."""
GZIP = b"\x1f\x8b"

T = TypeVar("T")


class Choice(Struct, frozen=True):
    """A cluster to choose, by its key."""

    key: str
    title: str


class OpenedCluster(Struct, frozen=True, kw_only=True):
    """A cluster as it is now. `state` may be changed for a question, and has to be put back.

    `waiting` are pods without a node. `chain` gives the chain that decides about a pod when a policy is added; None means no policy.
    `known` is what completion and hover may show of the cluster, None for nothing. `find` finds a pod that is not among `waiting`, by key.
    """

    state: ClusterState
    waiting: Sequence[PodView]
    now: float | None
    chain: Callable[[CompiledPolicy | None, PodView], Chain]
    known: KnownCluster | None = None
    find: Callable[[str], PodView | None] = lambda _key: None

    def pod(self, key: str) -> PodView:
        """The pod of that `namespace/name`; raises UnknownObject if there is none."""
        found = next((pod for pod in self.waiting if pod.key == key), None)
        found = found or self.find(key) or next((pod for pod, _ in self.state.placements() if pod.key == key), None)
        if found is None:
            raise UnknownObject(f"this cluster has no pod {key}")
        return found


class Run(Protocol):
    """Runs long work outside the event loop."""

    async def __call__(self, function: Callable[[], T], /) -> T:
        """The result of the function."""


class Clusters(Protocol):
    """The clusters of the playground. One question is answered at a time."""

    uploads: bool
    """True if clusters can be added."""

    def choices(self) -> Sequence[Choice]:
        """The clusters in the order in which they are offered."""

    async def opened(self, key: str, run: Run) -> OpenedCluster:
        """The cluster of a key; long work is done by `run`. Raises UnknownObject if there is none, another WharfingerError for later."""

    async def add(self, name: str, content: bytes, run: Run) -> Choice:
        """The choice for an uploaded file. Raises InvalidObject for one that cannot be read."""


class Examples:
    """The small clusters of the package, read when they are first wanted."""

    uploads = False

    def __init__(self) -> None:
        self._loaded: OrderedDict[str, OpenedCluster] = OrderedDict()
        self._sources: dict[str, tuple[str, Callable[[], Cluster]]] = {
            f"{EXAMPLE}{name}": (f"Example, {name}: {count(size, 'node')}", partial(load_cluster, [f"{EXAMPLE}{name}"]))
            for name, size in SIZES.items()
        }

    def choices(self) -> Sequence[Choice]:
        """The clusters in the order in which they are offered."""
        return [Choice(key, title) for key, (title, _) in self._sources.items()]

    async def opened(self, key: str, run: Run) -> OpenedCluster:
        """The cluster of a key; raises UnknownObject if there is none."""
        if key not in self._sources:
            raise UnknownObject(f"there is no cluster {key}; there are {', '.join(self._sources)}")
        if key not in self._loaded:
            load = self._sources[key][1]
            self._loaded[key] = await run(lambda: _opened(key, load()))
        self._loaded.move_to_end(key)
        while len(self._loaded) > MAX_LOADED:
            self._loaded.popitem(last=False)
        return self._loaded[key]

    async def add(self, name: str, content: bytes, run: Run) -> Choice:  # noqa: ARG002 — a port
        """Raise UnknownObject: nothing is uploaded to these."""
        raise UnknownObject("clusters cannot be uploaded here; run `wharf playground` on your own machine")


class OwnClusters(Examples):
    """All clusters to try policies on at the own machine of a user; `given` are further ones by title, which come first."""

    uploads = True

    def __init__(self, given: Mapping[str, Cluster] = MappingProxyType({})) -> None:
        super().__init__()
        trace = f"{TRACE}default"
        openb = {trace: ("OpenB, a production GPU cluster: 1,523 nodes", partial(load_cluster, [trace]))}
        own = {f"given:{title}": (title, partial(_same, cluster)) for title, cluster in given.items()}
        self._sources = {**own, **self._sources, **openb}
        self._uploads: list[str] = []
        self._n_uploaded = 0

    async def add(self, name: str, content: bytes, run: Run) -> Choice:
        """The choice of an uploaded file. It is kept in memory only, as long as it is among the last `MAX_UPLOADS`."""
        cluster, found = await run(lambda: _uploaded(name, content))
        self._n_uploaded += 1
        key = f"upload:{self._n_uploaded}"
        self._uploads.append(key)
        title = f"{name}: {count(cluster.state.snapshot().n_nodes, 'node')}"
        self._sources[key] = (title, partial(_same, cluster))
        self._loaded[key] = found
        while len(self._uploads) > MAX_UPLOADS:
            former = self._uploads.pop(0)
            del self._sources[former]
            self._loaded.pop(former, None)
        return Choice(key, title)


def _same(cluster: Cluster) -> Cluster:
    return cluster


def _uploaded(name: str, content: bytes) -> tuple[Cluster, OpenedCluster]:
    cluster = with_nodes(cluster_of(files.read_bytes(_unzipped(name, content), name, skip_invalid=True)), name)
    return cluster, _opened(name, cluster)


def _unzipped(name: str, content: bytes) -> bytes:
    """The content, unpacked if it is compressed by gzip."""
    if not content.startswith(GZIP):
        return content
    unpacking = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        found = unpacking.decompress(content, MAX_UNPACKED_BYTES)
    except zlib.error as error:
        raise InvalidObject(f"{name}: not a gzip file: {error}") from None
    if not unpacking.eof:
        raise InvalidObject(f"{name}: it is truncated, or contains more than {MAX_UNPACKED_BYTES:,} bytes")
    return found


def _opened(name: str, cluster: Cluster) -> OpenedCluster:
    plain = assemble()

    def chain(policy: CompiledPolicy | None, _pod: PodView) -> Chain:
        return plain if policy is None else with_policies(plain, [policy])

    return OpenedCluster(state=cluster.state, waiting=cluster.pending, now=None, chain=chain, known=KnownCluster(name, cluster))
