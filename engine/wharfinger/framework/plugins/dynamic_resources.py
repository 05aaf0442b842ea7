"""DynamicResources: rejects pods with resource claims.

The allocation of devices of resource slices to claims is not supported. A pod whose claims were ignored could be placed on a node where it
cannot start, so the pod is rejected with a reason instead.
"""

from __future__ import annotations

from wharfinger.framework.cluster_event import NOTHING
from wharfinger.framework.extension import FilterPlugin
from wharfinger.framework.prepared import SKIP, Attempt, Rejected, Skip
from wharfinger.framework.verdict import Reason
from wharfinger.language.semantics.catalogue import Volatility


class DynamicResources(FilterPlugin):
    """The part of `pkg/scheduler/framework/plugins/dynamicresources` for a scheduler that allocates no claims."""

    name = "DynamicResources"
    filter_volatility = Volatility.STATIC
    wakes_on = NOTHING

    def prepare_filter(self, attempt: Attempt) -> Skip | Rejected:
        """`Rejected` for a pod with resource claims, otherwise `Skip`."""
        names = ", ".join(claim.name for claim in attempt.pod.object.spec.resource_claims)
        if not names:
            return SKIP
        return Rejected((Reason(f"resource claims are not supported ({names})", resolvable=False),))
