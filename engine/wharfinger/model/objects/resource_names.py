"""The kinds of resource names: `pkg/apis/core/v1/helper` and `pkg/scheduler/util`, Kubernetes 1.36."""

from __future__ import annotations

import re

_DOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
# An extended resource must still be a qualified name with "requests." before it, which a quota calls it by.
_QUALIFIED = re.compile(rf"(?=[^/]{{1,244}}/){_DOMAIN}/[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?\Z")


def is_extended(name: str) -> bool:
    """True if it is an extended resource, such as `nvidia.com/gpu`."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.") and _QUALIFIED.match(name) is not None


def is_scalar(name: str) -> bool:
    """True for Kubernetes' scalar resources: extended resources, huge pages and attachable volumes."""
    return is_extended(name) or name.startswith(("hugepages-", "attachable-volumes-")) or "kubernetes.io/" in name
