"""Wharfinger: Kubernetes scheduling decided by `.policy` files.

    import wharfinger

    policies = wharfinger.load_policies("policies/bin-pack.policy", params={"reserve": "10%"})
    cluster = wharfinger.load_snapshot("snapshot.json")
    decision = wharfinger.decide(policies, cluster, cluster.pending[0])
    print(decision.node, decision.message)
    print(wharfinger.explain(policies, cluster, cluster.pending[0]))

`__init__.pyi` lists the public names with their modules, which are imported on first use (PEP 562): `import wharfinger` alone costs next to
nothing.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name == "__all__":
        return __dir__()
    if name not in _modules_of_names():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_modules_of_names()[name]), name)
    globals()[name] = value
    return value


@cache
def _modules_of_names() -> dict[str, str]:
    """The modules of the public names, as type checkers read them."""
    ast, pathlib = importlib.import_module("ast"), importlib.import_module("pathlib")  # not needed by most who import this package
    stub = ast.parse(pathlib.Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    return {name.name: found.module for found in stub.body if isinstance(found, ast.ImportFrom) for name in found.names}


def _version() -> str:
    """The version of the installed distribution; from a source tree that is not installed, "unknown"."""
    metadata = importlib.import_module("importlib.metadata")
    try:
        return str(metadata.version(__name__))
    except metadata.PackageNotFoundError:
        return "unknown"


def __dir__() -> list[str]:
    return sorted([*_modules_of_names(), "__version__"])
