"""DynamicResources: devices for the claims of a pod.

PreFilter looks at the claims alone (`pod_claims`), Filter at the devices of each node (`device_rule`, by `search`). Claims that are
allocated already have their own nodes.

What Reserve would allocate on a node is `DeviceRule.allocations`; a decision carries it for the chosen node (`Decision.claims`). Source:
plugins/dynamicresources/dynamicresources.go, Kubernetes 1.36 with its default feature gates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from wharfinger.framework.arguments import BuiltInArguments
from wharfinger.framework.cluster_event import Change, ClusterEvent
from wharfinger.framework.extension import (
    DevicePlugin,
    FilterPlugin,
    PostFilterOutcome,
    PostFilterPlugin,
    PrecomputingPlugin,
    Rejection,
    ScorePlugin,
)
from wharfinger.framework.plugins.devices import allocations as api
from wharfinger.framework.plugins.devices import extended_resources
from wharfinger.framework.plugins.devices.device_rule import DeviceRule
from wharfinger.framework.plugins.devices.pod_claims import PodClaims, pod_claims
from wharfinger.framework.plugins.devices.requests import KnownDemands
from wharfinger.framework.pod_devices import PodDevice
from wharfinger.framework.prepared import (
    OUTDATED,
    SKIP_ALWAYS,
    Affected,
    Attempt,
    ClaimAllocation,
    DefaultNormalize,
    Mask,
    PreparedFilter,
    PreparedScore,
    Reason,
    Rejected,
    Rows,
    Shared,
    Skip,
)
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model import objects
from wharfinger.model.devices.allocated import claim_uid
from wharfinger.model.objects.devices import IN_MEMORY
from wharfinger.model.state.device_states import DeviceStates

if TYPE_CHECKING:
    from wharfinger.framework.prepared import Changes
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.object_store import ObjectStore
    from wharfinger.model.state.snapshot import Snapshot

NAME = "DynamicResources"

NOTHING_TO_FREE = "no new claims to deallocate"
STILL_NOT = "still not schedulable"
FREED = "deallocation of ResourceClaim completed"
DELETED = "deletion of ResourceClaim completed"
NO_STATE = "not found"


_PART = re.compile(r"([0-9]+(?:[.][0-9]*)?|[.][0-9]+)(ns|us|µs|ms|s|m|h)")
_DURATION = rf"^({_PART.pattern})+$"
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


class DynamicResourcesArguments(BuiltInArguments, frozen=True, kw_only=True):
    """DynamicResourcesArgs: the time after which a claim counts as failed whose devices are not ready to be bound.

    `filter_timeout` is accepted without effect: a search ends after a number of steps, so that its answer does not depend on the clock.
    """

    filter_timeout: Annotated[str, Meta(pattern=_DURATION)] = "10s"
    binding_timeout: Annotated[str, Meta(pattern=_DURATION)] = "10m"

    @property
    def binding_seconds(self) -> float:
        """`binding_timeout` in seconds."""
        return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(self.binding_timeout))


class DynamicResources(FilterPlugin, PostFilterPlugin, ScorePlugin, DevicePlugin, PrecomputingPlugin):
    """`pkg/scheduler/framework/plugins/dynamicresources`, Kubernetes 1.36."""

    name = NAME
    arguments_model = DynamicResourcesArguments
    filter_volatility = Volatility.GLOBAL
    score_volatility = Volatility.GLOBAL
    default_weight = 2
    normalization = DefaultNormalize()
    wakes_on = (
        ClusterEvent.NODE_ADD
        | ClusterEvent.NODE_LABEL
        | ClusterEvent.NODE_ALLOCATABLE
        | ClusterEvent.RESOURCE_CLAIM
        | ClusterEvent.RESOURCE_SLICE
        | ClusterEvent.DEVICE_CLASS
    )

    def object_identity(self, pod: PodView, store: ObjectStore) -> Hashable:
        """The state of the pod's claims, independent of their names; None for a pod without claims."""
        found = pod_claims(pod, store)
        return found.key if isinstance(found, PodClaims) else found

    def prepare_filter(self, attempt: Attempt) -> PreparedFilter | Skip | Rejected:
        """Skip without claims; `Rejected` if something about the claims themselves keeps the pod from every node."""
        attempt.shared.once(self, _Kept).rule = None
        found = pod_claims(attempt.pod, attempt.snapshot.objects)
        if found is None:
            return SKIP_ALWAYS
        if isinstance(found, str):
            return Rejected((Reason(found, resolvable=False),))
        rule = DeviceRule(attempt, found, self.arguments.binding_seconds)
        attempt.shared.once(self, _Kept).rule = rule
        return rule

    def follow(self, store: ObjectStore) -> None:
        """Follow slices, claims and classes."""
        store.following(DeviceStates)
        store.following(KnownDemands)
        store.following(extended_resources.BackingClasses)

    def precompute(self, pod: PodView, snapshot: Callable[[], Snapshot], *, kept: bool) -> Iterator[None]:
        """Look for devices on all nodes, in steps of a node, a search at most, or an expression that is compiled.

        For pods like one before, only if the devices of many nodes have changed, or a search takes several steps.
        """
        if not pod.demand.may_claim or not isinstance(pod_claims(pod, snapshot().objects), PodClaims):
            return
        changed = yield from DeviceStates.reading(snapshot)
        now = snapshot()
        found = pod_claims(pod, now.objects)
        if isinstance(found, PodClaims) and (changed or not kept or now.objects.following(KnownDemands).take_long):
            yield from DeviceRule(Attempt(pod, now, Shared()), found, self.arguments.binding_seconds).precompute(now, again=changed)

    def prepare_score(self, attempt: Attempt, feasible: Mask) -> PreparedScore | Skip:  # noqa: ARG002 — the extension point
        """Skip if no claim that is to be allocated, and no other, has alternatives."""
        kept = attempt.shared.once(self, _Kept)
        return SKIP_ALWAYS if kept.rule is None or not kept.rule.scores else Alternatives(kept, kept.rule)

    def pod_devices(self, attempt: Attempt, row: int, claims: Sequence[ClaimAllocation]) -> tuple[PodDevice, ...]:  # noqa: ARG002 — the extension point
        """The devices of the claims that the pod has, allocated already or now."""
        found = pod_claims(attempt.pod, attempt.snapshot.objects)
        if not isinstance(found, PodClaims):
            return ()
        now = {claim_uid(each.claim): each.allocation for each in claims}
        allocations = ((claim, claim.status.allocation or now.get(claim_uid(claim))) for claim in found.all)
        return tuple(device for claim, allocation in allocations if allocation is not None for device in api.pod_devices(claim, allocation))

    def shortage(self, attempt: Attempt, rows: NDArray[np.intp]) -> tuple[str, ...]:
        """Lines with the number of devices that meet each condition of each request, and the claims with devices on other nodes."""
        rule = attempt.shared.once(self, _Kept).rule
        return () if rule is None else rule.shortage(attempt, rows)

    def post_filter(self, attempt: Attempt, rejection: Rejection) -> PostFilterOutcome:
        """A claim to free or to delete so that the next attempt may choose again, and kube-scheduler's words about it."""
        reached = rejection.reached(self.name)
        if reached is None:
            return PostFilterOutcome(message=NO_STATE, failed=True)
        rule = attempt.shared.once(self, _Kept).rule
        found = pod_claims(attempt.pod, attempt.snapshot.objects)
        if rule is None or not isinstance(found, PodClaims):
            return PostFilterOutcome(message=NOTHING_TO_FREE)
        for index in rule.elsewhere(attempt.snapshot, reached):
            claim = found.all[index]
            if claim is not found.special and _is_only_for(claim, attempt.pod):
                return PostFilterOutcome(message=FREED, deallocate=claim)
        if found.special is not None and found.special.metadata.name != IN_MEMORY:
            return PostFilterOutcome(message=DELETED, delete=found.special)
        return PostFilterOutcome(message=STILL_NOT)

    def may_help(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:
        """True unless the change is that of a claim which is neither the pod's own nor one that gave devices back."""
        claim = change.claim
        if claim is None:
            return True
        if change.claim_was is not None and change.claim_was.status.allocation is not None and not change.frees_devices:
            return _uses(pod, claim) and claim.status != change.claim_was.status
        if change.frees_devices:
            return not isinstance(pod_claims(pod, snapshot.objects), str)
        return _uses(pod, claim) and not isinstance(pod_claims(pod, snapshot.objects), str)


class _Kept(Struct):
    """The rule of a template, which filter and score share."""

    rule: DeviceRule | None = None


class Alternatives(PreparedScore):
    """The score of the alternatives that are available on each node."""

    def __init__(self, kept: _Kept, rule: DeviceRule) -> None:
        self._kept = kept
        self._rule = rule
        self._at = rule.position

    def raw(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.int64]:
        """The raw scores."""
        return self._rule.raw(snapshot, rows)

    def affected(self, snapshot: Snapshot, changes: Changes, feasible: Mask, flipped: NDArray[np.intp]) -> Affected:  # noqa: ARG002 — the extension point
        """The rows whose devices changed, or everything with another rule."""
        if self._kept.rule is not self._rule:
            return OUTDATED
        found = self._rule.changed_rows(snapshot, self._at)
        self._at = self._rule.position
        return slice(None) if found is None else found


def _is_only_for(claim: objects.ResourceClaim, pod: PodView) -> bool:
    """True if a claim is reserved for no pod but this one."""
    reserved = claim.status.reserved_for
    return not reserved or (len(reserved) == 1 and reserved[0].uid == pod.object.metadata.uid)


def _uses(pod: PodView, claim: objects.ResourceClaim) -> bool:
    """True if a claim is one of the pod's."""
    if (claim.metadata.namespace or "default") != pod.namespace:
        return False
    if extended_resources.owner_uid(claim) == pod.object.metadata.uid:
        return True
    named = {use.resource_claim_name for use in pod.object.spec.resource_claims}
    named |= {status.resource_claim_name for status in pod.object.status.resource_claim_statuses}
    return claim.metadata.name in named
