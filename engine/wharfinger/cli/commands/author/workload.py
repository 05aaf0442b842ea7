"""`wharf workload`: the typical pods of a cluster or trace, as a file for policies to import.

Pods that request the same are one request, and the most common requests that together are a given share of all pods are typical. Source:
the typical pods of FGD ("Beware of Fragmentation", USENIX ATC'23): the shapes of CPU, GPUs and GPU models, with CPU-only pods and without
memory, sorted by count, up to 95 % of the pods.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, NamedTuple

import typer

from wharfinger import user_input
from wharfinger.cli import options, streams
from wharfinger.errors import UsageError
from wharfinger.language.check.workloads import MAX_REQUESTS
from wharfinger.language.parse import grammar
from wharfinger.language.semantics import types
from wharfinger.language.semantics.describe import quoted, value_text
from wharfinger.language.semantics.types import Kind
from wharfinger.model import objects
from wharfinger.model.devices.device import MODELS, WHOLE
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.snapshot import Snapshot
from wharfinger.simulate.cluster import load_cluster


def wharf_workload(
    snapshot: Annotated[list[str], options.SNAPSHOT],
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="The name of the workload.")] = "typical",
    share: Annotated[
        str, typer.Option("--share", help="The share of the pods that must have one of the printed requests.", metavar="PERCENT")
    ] = "95%",
    memory: Annotated[bool, typer.Option("--memory", help="Distinguish pods by their memory requests too.")] = False,
) -> int:
    """Print what the pods of a cluster or trace typically request, as a library for `fragmentation`.

    $ wharf workload --snapshot cluster.json.gz > typical.policy
    """
    fraction = _fraction(share)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name in grammar.terminals().reserved:
        raise UsageError(f"--name {name}: not a name; names are made of letters, digits and _, and are no reserved words")
    cluster = load_cluster(snapshot)
    found = _shapes(map(cluster.objects.view, cluster.objects.pods), cluster.state.snapshot(), memory=memory)
    if not found:
        raise UsageError(f"{', '.join(snapshot)}: no pods, so nothing is typical of them")
    requests = _typical(found, fraction)
    if len(requests) > MAX_REQUESTS:
        instead = "take a smaller --share" + (", or leave --memory out" if memory else "")
        raise UsageError(
            f"{share} of the pods are {len(requests):,} different requests, and a workload has at most {MAX_REQUESTS}: {instead}"
        )
    of_all = f"{len(requests)} of {len(found):,} different requests are {share} of them"
    streams.out(f"# {found.total():,} pods of {', '.join(snapshot)}; {of_all}\n")
    streams.out(_declaration(name, requests))
    return 0


def _fraction(text: str) -> float:
    number = user_input.decimal_number(text.removesuffix("%"))
    found = None if number is None else number / (100 if text.endswith("%") else 1)
    if found is None or not 0 < found <= 1:
        raise UsageError(f"--share {text}: not a share; write one above 0% and up to 100%")
    return found


class Shape(NamedTuple):
    """The requests of pods of one kind: millicores, bytes, devices and thousandths of each, and the allowed models."""

    cpu: int
    memory: int
    devices: int
    milli: float
    models: tuple[str, ...]


def _shapes(pods: Iterable[PodView], snapshot: Snapshot, *, memory: bool = False) -> Counter[Shape]:
    """The number of pods by their requests; with `memory`, pods with different requests of memory are different."""
    return Counter(_shape(pod, snapshot, memory=memory) for pod in pods)


def _shape(pod: PodView, snapshot: Snapshot, *, memory: bool) -> Shape:
    demand = snapshot.devices.demand(pod)
    requests = pod.requests
    return Shape(
        requests.get("cpu", 0),
        requests.get("memory", 0) if memory else 0,
        0 if demand is None else demand.count,
        WHOLE if demand is None else demand.milli,
        () if demand is None else tuple(sorted(set(_models(pod)))),
    )


def _models(pod: PodView) -> Iterator[str]:
    """The models of devices that a pod's node selector and required node affinity name, by labels such as `nvidia.com/gpu.product`."""
    spec = pod.object.spec
    yield from (value for key, value in spec.node_selector.items() if _names_model(key))
    affinity = None if spec.affinity is None else spec.affinity.node_affinity
    required = None if affinity is None else affinity.required_during_scheduling_ignored_during_execution
    terms: Sequence[objects.NodeSelectorTerm] = () if required is None else required.node_selector_terms
    for term in terms:
        for requirement in term.match_expressions:
            if requirement.operator == "In" and _names_model(requirement.key):
                yield from requirement.values


def _names_model(key: str) -> bool:
    """True for a label that names the model of a node's devices: the resource, a dot, and what drivers call the model."""
    return "/" in key and key.rpartition(".")[2] in MODELS


def _typical(found: Counter[Shape], share: float) -> list[tuple[Shape, float]]:
    """The most common shapes that together are at least a share of the pods, each with its part of all pods."""
    total = found.total()
    chosen: list[tuple[Shape, float]] = []
    covered = 0
    for shape, count in sorted(found.items(), key=lambda pair: (-pair[1], pair[0])):
        if covered >= share * total:
            break
        covered += count
        chosen.append((shape, count / total))
    return chosen


def _declaration(name: str, requests: Sequence[tuple[Shape, float]]) -> str:
    """The declaration of a workload in the language; one request per line."""
    lines = "".join(f"  {{ {', '.join(_fields(shape, weight))} }},\n" for shape, weight in requests)
    return f"workload {name} = [\n{lines}]\n"


def _fields(shape: Shape, weight: float) -> Iterator[str]:
    if shape.cpu:
        yield f"cpu: {types.literal(float(shape.cpu), Kind.CPU)}"
    if shape.memory:
        yield f"memory: {types.literal(float(shape.memory), Kind.MEMORY)}"
    if shape.devices:
        yield f"gpu: {shape.devices}"
    if shape.devices and shape.milli < WHOLE:
        yield f"milli: {shape.milli:g}"
    if len(shape.models) == 1:
        yield f"model: {quoted(shape.models[0])}"
    elif shape.models:
        yield f"model: [{', '.join(quoted(model) for model in shape.models)}]"
    yield f"weight: {value_text(round(weight, 7), Kind.PERCENT)}"
