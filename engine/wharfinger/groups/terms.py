"""The terms of a group of pods, and the values that say where it can be placed.

The terms are the same from every source: a PodGroup (`scheduling.k8s.io/v1alpha2`), labels of the coscheduling plugin, or a policy.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from wharfinger.model.objects.pod_view import PodView

DEFAULT_TIMEOUT = 300.0
"""Seconds that placed members of a group wait for the others (Permit of the GangScheduling plugin, Kubernetes 1.36)."""


class Disruption(Enum):
    """The unit of preemption in a group: single pods, or the whole group."""

    POD = "Pod"
    GROUP = "PodGroup"


class Level(Struct, frozen=True):
    """A level of topology within which all members of a group must (or should) be: nodes with one value of the label `key`."""

    key: str
    required: bool = True


class GroupTerms(Struct, frozen=True, kw_only=True):
    """The requirements of a group.

    `min_count`: how many members must be placed before any of them is bound; 0 for a group without that condition (`basic`). `levels` are
    from the widest to the narrowest. `spread`: topology keys over which this group and others of its policy are spread. `timeout` in
    seconds. `priority`: that of the group, None for the highest of its pods. `preemption_policy`: that of the group (`Never` or
    `PreemptLowerPriority`), None for those of its pods. `reserve`: nodes may be kept free for it while it waits. `source`: the object that
    defines them, for messages (`PodGroup default/training`, `policy training`).
    """

    min_count: int
    source: str
    levels: tuple[Level, ...] = ()
    spread: tuple[str, ...] = ()
    timeout: float = DEFAULT_TIMEOUT
    disruption: Disruption = Disruption.POD
    priority: int | None = None
    preemption_policy: str | None = None
    reserve: bool = False


class Group(Struct, frozen=True, kw_only=True):
    """A group at one time: its key (`namespace/name`), its terms, and its members; `placed` are bound or assumed, with their nodes."""

    key: str
    terms: GroupTerms
    waiting: tuple[PodView, ...]
    placed: tuple[PodView, ...] = ()

    @property
    def needed(self) -> int:
        """The number of waiting members that must be placed at once."""
        return max(0, self.terms.min_count - len(self.placed))

    @property
    def kinds(self) -> Collection[PodView]:
        """One of the waiting members for each template."""
        return {pod.template: pod for pod in self.waiting}.values()


class DomainFit(Struct, frozen=True, kw_only=True):
    """The number of members that a domain takes at once (`fits` of `wanted`), and what stops the next one: message → number of nodes.

    `at_most`: it takes no more than `fits`, and perhaps fewer.
    """

    key: str
    value: str
    fits: int
    wanted: int
    reasons: Mapping[str, int] = field(default_factory=dict)
    at_most: bool = False


class Placed(Struct, frozen=True, kw_only=True):
    """A placement: node by uid, in the order in which the members were assumed; `left` are members beyond the minimum without a place."""

    nodes: Mapping[str, str]
    domains: Mapping[str, str] = field(default_factory=dict)
    left: tuple[PodView, ...] = ()


class Impossible(Struct, frozen=True, kw_only=True):
    """A proof that the group cannot be placed now; `nearest` are the domains that take most members, best first."""

    nearest: tuple[DomainFit, ...]
    message: str


class NotFound(Struct, frozen=True, kw_only=True):
    """No placement was found within the budget of the search (`steps` of work), and none was shown to be impossible."""

    nearest: tuple[DomainFit, ...]
    steps: int
    message: str


class Preemption(Struct, frozen=True, kw_only=True):
    """A placement that is free once the victims have left, the most important victim first; `violations`: those that break a budget."""

    placement: Placed
    victims: tuple[PodView, ...]
    violations: int


GroupAnswer = Placed | Impossible | NotFound
