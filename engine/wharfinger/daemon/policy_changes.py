"""The policy store and the scheduler, connected: new sets are adopted, and policies are tried on the cluster that is scheduled."""

from __future__ import annotations

from wharfinger.framework.ports import Clock, ClusterSink
from wharfinger.runtime.policy_store.active import ActivePolicies
from wharfinger.runtime.policy_store.sample import Sample, sample_of
from wharfinger.runtime.policy_store.shadow import Shadows
from wharfinger.runtime.policy_store.store import PolicyStore
from wharfinger.runtime.scheduler import Scheduler

POLICIES = "Policies"
"""What the scheduler waits for besides the kinds of objects, until every source of policies has spoken."""


def connect(store: PolicyStore, scheduler: Scheduler, clock: Clock) -> Shadows:
    """What shadow policies would have done: from now on the scheduler has the store's policies, and shows them its decisions."""
    shadows = Shadows(clock)
    scheduler.show_decisions(shadows.compare)

    def adopt(active: ActivePolicies) -> None:
        scheduler.adopt(active.chains)
        shadows.adopt(active)

    def sample() -> Sample | None:
        if scheduler.missing_kinds - {POLICIES}:
            return None
        return sample_of(scheduler.state.snapshot(), (queued.pod for queued in scheduler.queue))

    store.adopt = adopt
    store.sample = sample
    adopt(store.active)
    return shadows


async def announced(store: PolicyStore, sink: ClusterSink) -> None:
    """Never returns: tells the sink as soon as every source of policies has spoken."""
    await store.heard.wait()
    sink.synced(POLICIES)
