"""Reads a cluster from files of manifests, from the OpenB trace, or from the examples of the package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from wharfinger.errors import InvalidObject, UnknownObject, UsageError
from wharfinger.language.report import wording
from wharfinger.model import objects
from wharfinger.model.objects import quantity, requests
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import files, workloads
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.simulate import device_claims, examples, openb

TRACE = "openb:"
EXAMPLE = "example:"


class Cluster(Struct, frozen=True, kw_only=True):
    """A cluster's state and the pods that wait for a node, with the objects that were left out while reading.

    `ignored` counts kinds that no decision needs; `skipped` are sentences about objects that were left out because they are invalid.
    """

    state: ClusterState
    pending: tuple[PodView, ...]
    objects: files.Objects
    ignored: Mapping[str, int]
    skipped: tuple[str, ...]

    def pod(self, name: str) -> PodView:
        """The pending pod of that name or `namespace/name`; raises UnknownObject when there is none, or more than one."""
        found = [pod for pod in self.pending if name in (pod.name, pod.key)]
        if len(found) != 1:
            raise UnknownObject(f"no pending pod is called {name}" if not found else f"{len(found)} pending pods are called {name}")
        return found[0]


def load_cluster(paths: Sequence[str | Path], *, skip_invalid: bool = False) -> Cluster:
    """The cluster that files, folders and `-` describe.

    `openb:default` and `openb:gpuspec33` are the trace in the package, `example:small` and `example:large` made-up clusters; `*.csv` files
    are read in the trace's own format. Raises UsageError for a file that cannot be read, InvalidObject for an object that cannot be (unless
    `skip_invalid`).
    """
    return cluster_of(read_paths(paths, skip_invalid=skip_invalid))


def with_nodes(found: Cluster, name: str) -> Cluster:
    """The cluster itself. InvalidObject if it has no nodes: the file is the wrong one, or its nodes could not be read."""
    if not found.state.snapshot().n_nodes:
        raise InvalidObject(f"{name}: it has no nodes; `wharf snapshot` writes a file that has them")
    return found


def load_pods(
    paths: Sequence[str | Path], cluster: Cluster, *, skip_invalid: bool = False, strict: bool = False
) -> tuple[tuple[PodView, ...], tuple[str, ...]]:
    """(the pods to place in the files, a warning for each object that was not found); workloads are expanded to their pods.

    What controllers would create with the pods (ReplicaSets, claims) is added to the cluster, because decisions read it. Fields that
    Kubernetes does not know are among the sentences; with `strict` they raise InvalidObject, a line each.
    """
    given = read_paths(paths, skip_invalid=skip_invalid, written=True)
    if strict and given.unknown_fields:
        raise InvalidObject("\n".join(given.unknown_fields))
    snapshot = cluster.state.snapshot()
    expansion = workloads.expand(given, cluster.objects, is_taken=lambda uid: snapshot.placed(uid) is not None)
    for obj in expansion.made:
        cluster.state.put(obj)
    pods = tuple(map(PodView, expansion.pods))
    missing = device_claims.missing_templates(cluster.state, pods)
    warnings = (*given.skipped, *given.unknown_fields, *workloads.left_out(given), *expansion.warnings, *_running(pods, cluster), *missing)
    return pods, warnings


def _running(pods: Sequence[PodView], cluster: Cluster) -> Iterator[str]:
    """A sentence about pods that have the name of a running one; none if there are none."""
    keys = {pod.key for pod in pods}
    found = [objects.key_of(pod) for pod in cluster.objects.pods if pod.spec.node_name and objects.key_of(pod) in keys]
    if found:
        yield f"pod {wording.capped(found, 1)}: the cluster has it on a node already; it is placed once more"


def oversized_amounts(found: files.Objects) -> list[str]:
    """A sentence for each amount of a node that is too large and counts as the largest possible one."""
    sentences = []
    for node in found.nodes:
        for field, offered in (("allocatable", node.status.allocatable), ("capacity", node.status.capacity)):
            for resource, text in offered.items():
                if quantity.amount(resource, text) > requests.MAX_AMOUNT:
                    limit = quantity.format_amount(resource, requests.MAX_AMOUNT)
                    sentences.append(
                        f"node {node.metadata.name}: status.{field}[{resource!r}] is {text} and counts as {limit}, the most that does"
                    )
    return sentences


def cluster_of(found: files.Objects) -> Cluster:
    """The cluster that these objects describe."""
    waiting = [found.view(pod) for pod in found.pods if not pod.spec.node_name]
    return Cluster(
        state=ClusterState.from_objects(found),
        pending=tuple(pod for pod in waiting if not pod.finished and not pod.terminating),
        objects=found,
        ignored=found.ignored,
        skipped=found.skipped,
    )


def read_paths(paths: Sequence[str | Path], *, skip_invalid: bool = False, written: bool = False) -> files.Objects:
    """Everything the paths hold, in one value; errors and `written` as of `files.read_objects`."""
    names = [str(path) for path in paths]
    plain = [name for name in names if not _is_made(name)]
    traced = [_objects(name, manifests) for name in names if _is_made(name) for manifests in [_manifests(name)]]
    return _joined([files.read_objects(plain, skip_invalid=skip_invalid, written=written), *traced]) if plain else _joined(traced)


def _is_made(name: str) -> bool:
    return name.startswith((TRACE, EXAMPLE)) or name.endswith(".csv")


def _manifests(name: str) -> list[dict[str, Any]]:
    if name.startswith(EXAMPLE):
        return examples.manifests(_example(name))
    if name.startswith(TRACE):
        return [*openb.node_manifests(), *openb.pod_manifests(_variant(name))]
    try:
        return openb.manifests_from_csv(name, Path(name).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidObject(f"{name}: not UTF-8 at byte {error.start}") from error


def _example(name: str) -> str:
    found = name.removeprefix(EXAMPLE)
    if found not in examples.SIZES:
        raise UsageError(f"{name}: no such example; there are {', '.join(EXAMPLE + known for known in examples.SIZES)}")
    return found


def _variant(name: str) -> openb.Variant:
    try:
        return openb.Variant(name.removeprefix(TRACE))
    except ValueError:
        known = ", ".join(TRACE + variant.value for variant in openb.Variant)
        raise UsageError(f"{name}: no such trace; there are {known}") from None


def _objects(name: str, manifests: Sequence[dict[str, Any]]) -> files.Objects:
    nodes = [manifest for manifest in manifests if manifest["kind"] == "Node"]
    pods = [manifest for manifest in manifests if manifest["kind"] == "Pod"]
    try:
        return files.Objects(
            by_kind={objects.Node: msgspec.convert(nodes, list[objects.Node]), objects.Pod: msgspec.convert(pods, list[objects.Pod])}
        )
    except msgspec.ValidationError as error:
        raise InvalidObject(f"{name}: {error}") from error


def _joined(parts: Sequence[files.Objects]) -> files.Objects:
    if len(parts) == 1:
        return parts[0]
    by_kind: dict[type[objects.AnyObject], list[objects.AnyObject]] = {}
    metrics: files.MetricTable = {}
    ignored: dict[str, int] = {}
    for part in parts:
        for kind, found in part.by_kind.items():
            by_kind.setdefault(kind, []).extend(found)
        for metric, samples in part.metrics.items():
            metrics.setdefault(metric, {}).update(samples)
        for kind_name, count in part.ignored.items():
            ignored[kind_name] = ignored.get(kind_name, 0) + count
    return files.Objects(
        by_kind=by_kind,
        metrics=metrics,
        ignored=ignored,
        skipped=tuple(sentence for part in parts for sentence in part.skipped),
        replaced=sum(part.replaced for part in parts),
        taken_at=max((part.taken_at for part in parts if part.taken_at is not None), default=None),
        unknown_fields=tuple(sentence for part in parts for sentence in part.unknown_fields),
    )
