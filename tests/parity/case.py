"""Reading of vector files, and the cluster of a case as the scheduler would hold it.

A line is `{"case": …, "answer": …}`; docs/kubernetes-parity.md describes both. The cluster is built with the calls that the live scheduler
makes for watch events, one object at a time.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wharfinger.framework import chain as chains
from wharfinger.framework.chain_settings import ChainConfig
from wharfinger.framework.registry import Registry, default_registry
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.model.state.cluster_state import ClusterState

OTHERS: Mapping[str, type[objects.AnyObject]] = {
    "namespaces": objects.Namespace,
    "services": objects.Service,
    "replicationControllers": objects.ReplicationController,
    "replicaSets": objects.ReplicaSet,
    "statefulSets": objects.StatefulSet,
    "persistentVolumeClaims": objects.PersistentVolumeClaim,
    "persistentVolumes": objects.PersistentVolume,
    "storageClasses": objects.StorageClass,
    "csiNodes": objects.CSINode,
    "csiDrivers": objects.CSIDriver,
    "volumeAttachments": objects.VolumeAttachment,
    "csiStorageCapacities": objects.CSIStorageCapacity,
    "podDisruptionBudgets": objects.PodDisruptionBudget,
    "priorityClasses": objects.PriorityClass,
    "deviceClasses": objects.DeviceClass,
    "resourceSlices": objects.ResourceSlice,
    "resourceClaims": objects.ResourceClaim,
    "resourceClaimTemplates": objects.ResourceClaimTemplate,
}
SETTINGS = frozenset({"id", "pod", "nodes", "pods", "preempt", "scoring", "plugins"})
LATER = frozenset({"DynamicResources", "NodeDeclaredFeatures"})
"""Plugins of the default profile that cases are asked with only if their `plugins` name them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """One question with the answer of kube-scheduler's plugins."""

    case: Mapping[str, Any]
    answer: Mapping[str, Any]

    @property
    def id(self) -> str:
        """The name of the case: `spread-17`."""
        return str(self.case["id"])


def read(path: Path) -> Iterator[Vector]:
    """The vectors of one file, `.jsonl` or `.jsonl.gz`, in order."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    for line in content.splitlines():
        if line.strip():
            parts = json.loads(line)
            yield Vector(case=parts["case"], answer=parts["answer"])


def cluster(case: Mapping[str, Any]) -> ClusterState:
    """The cluster of a case; ValueError for a part that is not understood, rather than an answer that leaves it out."""
    unknown = case.keys() - SETTINGS - OTHERS.keys()
    if unknown:
        raise ValueError(f"case {case['id']} has parts that are not understood: {', '.join(sorted(unknown))}")
    state = ClusterState()
    for field, kind in OTHERS.items():
        for plain in case.get(field) or ():
            state.put(decode.convert(plain, kind))
    for plain in case["nodes"] or ():
        state.add_node(decode.convert(plain, objects.Node))
    for plain in case.get("pods") or ():
        state.add_pod(decode.convert(plain, objects.Pod))
    return state


def pending(case: Mapping[str, Any]) -> PodView:
    """The pod of the case."""
    return PodView(decode.convert(case["pod"], objects.Pod))


def chain(case: Mapping[str, Any]) -> chains.Chain:
    """The default chain, with the scoring strategy and the later plugins that the case names; preemption only if the case has it."""
    strategy = case.get("scoring")
    fit = {} if strategy is None else {"scoringStrategy": strategy if isinstance(strategy, dict) else {"type": strategy}}
    left_out = LATER - frozenset(case.get("plugins", ()))
    registry = Registry((name, plugin) for name, plugin in default_registry().items() if name not in left_out)
    disabled = frozenset() if case.get("preempt") else frozenset({"DefaultPreemption"})
    return chains.assemble(config=ChainConfig(arguments={"NodeResourcesFit": fit}, disabled=disabled), registry=registry)
