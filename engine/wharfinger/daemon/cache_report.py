"""What `/debug/cache` answers: the scheduler's picture of the cluster compared with one that is listed at that moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from wharfinger.kube import lists, wire
from wharfinger.kube.connection import Connection
from wharfinger.kube.resources import NODES, PODS, Resource
from wharfinger.model import objects
from wharfinger.model.cluster_state import ClusterState
from wharfinger.runtime.cache_comparison import compare

_PAGE = 1000


async def cache_report(connection: Connection, state: ClusterState) -> Mapping[str, Any]:
    """The differences as plain values, `equal` first; ApiError or InvalidObject when the API server cannot be asked."""
    nodes = await _listed(connection, NODES, objects.Node)
    pods = await _listed(connection, PODS, objects.Pod)
    found = compare(state, nodes, pods)
    return {"equal": found.equal, **msgspec.to_builtins(found)}


async def _listed(connection: Connection, resource: Resource, kind: type[Any]) -> list[Any]:
    return [wire.struct_of(raw, kind) async for items, _ in lists.pages(connection, resource.path, resource.params, _PAGE) for raw in items]
