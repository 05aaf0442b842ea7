"""Wharfinger: Kubernetes scheduling decided by `.policy` files.

    import wharfinger

    policies = wharfinger.load_policies("policies/bin-pack.policy", params={"reserve": "10%"})
    cluster = wharfinger.load_snapshot("snapshot.json")
    decision = wharfinger.decide(policies, cluster, cluster.pending[0])
    print(decision.node, decision.message)
    print(wharfinger.explain(policies, cluster, cluster.pending[0]))

Names are imported on first use (PEP 562): `import wharfinger` alone costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wharfinger.api import decide, explain, load_config, load_policies, load_snapshot, place
    from wharfinger.compiler.program import CompiledPolicy
    from wharfinger.errors import InvalidObject, UnknownObject, UsageError, WharfingerError
    from wharfinger.explain.explanation import Explanation
    from wharfinger.framework.configuration.chain_settings import ChainConfig
    from wharfinger.framework.evaluation.decision import Decision
    from wharfinger.language.report.diagnostics import PolicyError
    from wharfinger.simulate.cluster import Cluster

    __version__: str

__all__ = [
    "ChainConfig",
    "Cluster",
    "CompiledPolicy",
    "Decision",
    "Explanation",
    "InvalidObject",
    "PolicyError",
    "UnknownObject",
    "UsageError",
    "WharfingerError",
    "__version__",
    "decide",
    "explain",
    "load_config",
    "load_policies",
    "load_snapshot",
    "place",
]

_HOMES = {
    "ChainConfig": "framework.configuration.chain_settings",
    "Cluster": "simulate.cluster",
    "CompiledPolicy": "compiler.program",
    "Decision": "framework.evaluation.decision",
    "Explanation": "explain.explanation",
    "InvalidObject": "errors",
    "PolicyError": "language.report.diagnostics",
    "UnknownObject": "errors",
    "UsageError": "errors",
    "WharfingerError": "errors",
    "decide": "api",
    "explain": "api",
    "load_config": "api",
    "load_policies": "api",
    "load_snapshot": "api",
    "place": "api",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def _version() -> str:
    """The version of the installed distribution; from a source tree that is not installed, "unknown"."""
    metadata = importlib.import_module("importlib.metadata")
    try:
        return str(metadata.version(__name__))
    except metadata.PackageNotFoundError:
        return "unknown"


def __dir__() -> list[str]:
    return sorted(__all__)
