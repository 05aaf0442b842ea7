"""What the filters of Kubernetes say about one class of members, read from the chain's own prepared filters.

Read are the nodes that are open to a member, what it needs of each resource, its host ports, its terms of affinity and its hard spread. A
filter that is not known here (rules of policies, limits of volumes, plugins of others) is left out; `complete` is False then. What is left
out can only forbid more.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from wharfinger.errors import InvalidObject
from wharfinger.framework.plugins.pods import affinity_terms
from wharfinger.framework.plugins.pods.affinity_counts import PreparedAffinityFilter
from wharfinger.framework.plugins.pods.affinity_terms import Terms
from wharfinger.framework.plugins.pods.spread_counts import HardSpread
from wharfinger.framework.plugins.resources.node_resources_fit import Fit
from wharfinger.groups.exact import member_classes
from wharfinger.language.semantics.catalogue import Volatility

if TYPE_CHECKING:
    from wharfinger.framework.evaluation.cycle import Decider
    from wharfinger.framework.evaluation.filter_slot import FilterSlot
    from wharfinger.framework.prepared import Mask
    from wharfinger.groups.exact.member_classes import MemberClass
    from wharfinger.model.state.snapshot import Snapshot

KNOWN = frozenset({"NodeResourcesFit", "NodePorts", "InterPodAffinity", "PodTopologySpread"})


@dataclass(slots=True)
class Reading:
    """One class: its member's needs by resource (None: not known), the nodes open to it `(n_nodes,)`, and its terms.

    `complete` is False if a filter may forbid more than is read.
    """

    needs: Mapping[str, int] | None = None
    open_rows: Mask = field(default_factory=lambda: np.empty(0, np.bool_))
    terms: Terms = affinity_terms.NO_TERMS
    fences: PreparedAffinityFilter | None = None
    spread: HardSpread | None = None
    ports: bool = False
    affinity: bool = False
    complete: bool = True

    @property
    def has_rules(self) -> bool:
        """True if the class wishes to be near or apart from others, or evenly spread."""
        return self.terms != affinity_terms.NO_TERMS or self.spread is not None


def readings(decider: Decider, snapshot: Snapshot, classes: Sequence[MemberClass]) -> Generator[None, None, list[Reading]]:
    """A generator of steps that returns the readings of some classes; the state must not change between two steps."""
    found = []
    for each in classes:
        found.append(read(decider, snapshot, each))
        yield
    return found


def read(decider: Decider, snapshot: Snapshot, each: MemberClass) -> Reading:
    """The reading of a class on a snapshot."""
    filtering = decider.evaluation(snapshot, each.pod).filtering
    reading = Reading(open_rows=member_classes.open_rows(filtering, snapshot.n_nodes))
    if filtering.refusal is not None:
        reading.complete = False
        return reading
    for slot in filtering.slots:
        _read_slot(slot, reading, each, snapshot)
    if filtering.crowded:
        reading.complete = False
    return reading


def _read_slot(slot: FilterSlot, reading: Reading, each: MemberClass, snapshot: Snapshot) -> None:
    name = slot.plugin.name
    if name == "NodePorts":
        reading.ports = True
    elif name == "InterPodAffinity":
        try:
            reading.terms = affinity_terms.terms_of(each.pod).resolved(snapshot.objects)
        except InvalidObject:
            reading.complete = False
        reading.affinity = True
    if slot.skipped:
        return
    answer = slot.answer
    if isinstance(answer, Fit):
        reading.needs = answer.needs
    elif isinstance(answer, PreparedAffinityFilter):
        reading.fences = answer
        reading.open_rows &= ~answer.repelled(snapshot)
    elif isinstance(answer, HardSpread):
        reading.spread = answer
    elif slot.volatility is not Volatility.STATIC and name not in KNOWN:
        reading.complete = False


def least_of(left: Reading, right: Reading) -> Reading:
    """What is known of a member of either class; what both wish to be near is kept."""
    needs = None
    if left.needs is not None and right.needs is not None:
        needs = {name: min(left.needs.get(name, 0), right.needs.get(name, 0)) for name in left.needs.keys() & right.needs.keys()}
    found = Reading(needs=needs, open_rows=left.open_rows | right.open_rows, complete=False)
    if left.terms.required and left.terms.required == right.terms.required:
        found.terms, found.fences = Terms(required=left.terms.required), left.fences
    return found


def most_of(left: Reading, right: Reading) -> Reading:
    """What is enough for a member of either class."""
    needs = None
    if left.needs is not None and right.needs is not None:
        needs = {name: max(left.needs.get(name, 0), right.needs.get(name, 0)) for name in left.needs.keys() | right.needs.keys()}
    return Reading(needs=needs, open_rows=left.open_rows & right.open_rows, complete=False)
