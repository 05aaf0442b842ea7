"""`python -m tests.league.small_games FOLDER`: snapshots on which `wharf tune` searches a policy for the league, and others for its check.

A snapshot is a twelfth of the nodes with GPUs, and random pods of one half of a trace, as many as ask for all of these GPUs. `search-…` are
of the first half and `check-…` of the second, so no pod is in both. Pods are created in the order in which they arrive, and nodes are named
in random order, by seeds that the league does not play.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tests.league.protocol import Half, machines, node_manifests, pod_manifests, shapes
from wharfinger.simulate import openb

PART = 12
SEEDS = (1, 2)


def nodes(rng: np.random.Generator) -> list[int]:
    """A twelfth of the nodes of each kind, in random order."""
    alike = sorted(range(len(machines())), key=lambda number: (machines()[number].model, machines()[number].gpus, machines()[number].cpu))
    return rng.permutation(alike[::PART]).tolist()


def arriving(variant: openb.Variant, half: Half, gpus: int, rng: np.random.Generator) -> Iterator[int]:
    """Random pods of a half that together ask for that many GPUs, or the last one for a little more."""
    asked, demand = shapes(variant), 0
    for number in rng.permutation(half.of(len(asked))).tolist():
        if demand >= 1000 * gpus:
            return
        demand += asked[number].demand
        yield number


def snapshot(variant: openb.Variant, half: Half, seed: int) -> dict[str, Any]:
    """The List of a game."""
    rng = np.random.default_rng(seed)
    chosen = nodes(rng)
    gpus = sum(machines()[number].gpus for number in chosen)
    items = [_renamed(node_manifests()[number], f"node-{place:04d}") for place, number in enumerate(chosen)]
    for place, number in enumerate(arriving(variant, half, gpus, rng)):
        created = (openb.EPOCH + timedelta(seconds=place)).strftime("%Y-%m-%dT%H:%M:%SZ")
        pod = pod_manifests(variant)[number]
        items.append(pod | {"metadata": pod["metadata"] | {"creationTimestamp": created}})
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _renamed(node: dict[str, Any], name: str) -> dict[str, Any]:
    labels = node["metadata"]["labels"] | {"kubernetes.io/hostname": name}
    return node | {"metadata": node["metadata"] | {"name": name, "labels": labels}}


def main(folder: Path) -> None:
    """Write the snapshots."""
    folder.mkdir(parents=True, exist_ok=True)
    for title, half in (("search", Half.FIRST), ("check", Half.SECOND)):
        for variant in openb.Variant:
            for seed in SEEDS:
                path = folder / f"{title}-{variant.value}-{seed}.json"
                path.write_bytes(msgspec.json.encode(snapshot(variant, half, seed)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
