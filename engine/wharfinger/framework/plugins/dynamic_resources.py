"""DynamicResources: rejects pods with resource claims.

The allocation of devices of resource slices to claims is not supported. A pod whose claims were ignored could be placed on a node where it
cannot start, so the pod is rejected with a reason instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wharfinger.framework.cluster_event import NOTHING
from wharfinger.framework.evaluation.question import CycleState
from wharfinger.framework.extension import FilterPlugin
from wharfinger.framework.verdict import SKIP, PreFilterAnswer, Reason, Rejected, Rows, Verdicts
from wharfinger.language.semantics.catalogue import Volatility

if TYPE_CHECKING:
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot


class DynamicResources(FilterPlugin):
    """The part of `pkg/scheduler/framework/plugins/dynamicresources` for a scheduler that allocates no claims."""

    name = "DynamicResources"
    filter_volatility = Volatility.STATIC
    wakes_on = NOTHING

    def pre_filter(self, cycle: CycleState, pod: PodView, snapshot: Snapshot) -> PreFilterAnswer:  # noqa: ARG002 — the extension point
        """`Rejected` for a pod with resource claims, otherwise `Skip`."""
        names = ", ".join(claim.name for claim in pod.object.spec.resource_claims)
        if not names:
            return SKIP
        return Rejected((Reason(f"resource claims are not supported ({names})", resolvable=False),))

    def filter(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, rows: Rows) -> Verdicts:
        """Never called: PreFilter has decided already."""
        raise NotImplementedError
