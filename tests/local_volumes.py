"""Manifests of local volumes, for the random clusters of tests."""

from __future__ import annotations

from typing import Any

CLASS = "local"
"""The class of these volumes: they are bound when a pod needs them."""


def specs(name: str, key: str, value: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the spec of a volume that can be used on nodes with this label, that of a claim for volumes with the label `volume`: `name`)."""
    here = {"key": key, "operator": "In", "values": [value]}
    volume = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": CLASS,
        "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
    }
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": CLASS,
        "resources": {"requests": {"storage": "1Gi"}},
        "selector": {"matchLabels": {"volume": name}},
    }
    return volume, claim
