"""The authority of a policy: that of the cluster, or that of one namespace, which sees and decides about its own pods only.

The authority never comes from the text itself. Files, folders, the ConfigMap that the settings name and SchedulingPolicies are written by
those who run the cluster; the inline policy of a PolicyApp, and the policies in a PlacementPreview, by those who may write in one
namespace.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

import msgspec

Libraries: TypeAlias = tuple[tuple[str, str], ...]


class TenantPolicies(Enum):
    """The rights of policies of namespaces: none, those that harm no other namespace, or those of policies of the cluster."""

    OFF = "Off"
    RESTRICTED = "Restricted"
    TRUSTED = "Trusted"


class Authority(msgspec.Struct, frozen=True):
    """The owner of a policy; `namespace` is None for the cluster itself.

    `allowed`, `servers` (the names of allowed Prometheus servers) and `libraries` (what may be imported: names and texts) matter for
    policies of namespaces only.
    """

    namespace: str | None = None
    allowed: TenantPolicies = TenantPolicies.RESTRICTED
    servers: frozenset[str] = frozenset()
    libraries: Libraries = ()

    def __str__(self) -> str:
        return "cluster" if self.namespace is None else f"namespace {self.namespace}"

    @property
    def confined_to(self) -> str | None:
        """The only namespace whose pods the policy may read; None if it may read all."""
        return None if self.allowed is TenantPolicies.TRUSTED else self.namespace

    @property
    def restricted(self) -> bool:
        """True if the policy may read and cost less than those of the cluster."""
        return self.confined_to is not None

    def library(self, name: str) -> str | None:
        """The text of a library that may be imported, by the name of its file; None for any other."""
        return dict(self.libraries).get(name)

    def covers(self, namespace: str) -> bool:
        """True if the policy may decide about pods of a namespace."""
        return self.namespace is None or self.namespace == namespace


CLUSTER = Authority()


class TenantRights(msgspec.Struct, frozen=True):
    """The settings for policies of namespaces; the same for every namespace."""

    policies: TenantPolicies = TenantPolicies.RESTRICTED
    servers: frozenset[str] = frozenset()
    libraries: Libraries = ()

    @property
    def trusted(self) -> bool:
        """True if policies of namespaces may read and do the same as policies of the cluster."""
        return self.policies is TenantPolicies.TRUSTED

    def of(self, namespace: str | None) -> Authority:
        """The authority of a namespace; that of the cluster for None."""
        return CLUSTER if namespace is None else Authority(namespace, self.policies, self.servers, self.libraries)
