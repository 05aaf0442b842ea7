"""The policy store and the scheduler, connected: new sets are adopted, and policies are tried on the cluster that is scheduled."""

from __future__ import annotations

from wharfinger.framework.ports import Clock
from wharfinger.runtime.policy_budget import Suspension
from wharfinger.runtime.policy_store.active import ActivePolicies
from wharfinger.runtime.policy_store.sample import Sample, sample_of
from wharfinger.runtime.policy_store.shadow import Shadows
from wharfinger.runtime.policy_store.store import PolicyStore
from wharfinger.runtime.scheduler import Scheduler

POLICIES = "Policies"
"""What the scheduler waits for besides the kinds of objects, until every source of policies has spoken."""

_LOOK = 0.2  # seconds between two looks whether the cluster is known


def connect(store: PolicyStore, scheduler: Scheduler, clock: Clock) -> Shadows:
    """What shadow policies would have done: from now on the scheduler has the store's policies, and shows them its decisions."""
    shadows = Shadows(clock, budget=scheduler.settings.budget)
    scheduler.show_decisions(shadows.compare)

    def adopt(active: ActivePolicies) -> None:
        scheduler.adopt(active.chains)
        shadows.adopt(active)

    def sample() -> Sample | None:
        if scheduler.missing_kinds - {POLICIES}:
            return None
        return sample_of(scheduler.state.snapshot(), (queued.pod for queued in scheduler.queue))

    def suspended(suspension: Suspension, _suspended: bool) -> None:
        store.suspension_changed(*suspension.key)

    store.adopt = adopt
    store.suspended = lambda: scheduler.budget.suspended
    scheduler.budget.changed = suspended
    store.sample = sample
    scheduler.rest = store.beside.rest
    adopt(store.active)
    return shadows


async def announced(store: PolicyStore, scheduler: Scheduler, clock: Clock) -> None:
    """Never returns: tells the scheduler as soon as every source of policies has spoken, and tries them once the cluster is known."""
    await store.heard.wait()
    scheduler.sink.synced(POLICIES)
    while scheduler.missing_kinds:
        await clock.sleep(_LOOK)
    await store.review()
    await store.keep_reviewing()
