"""Policies that look at every placed pod in one step: their operations are counted before a decision, and not measured.

Selections that read the time have no index. They look at all placed pods again in each new second.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wharfinger.compiler.program import CompiledPolicy
    from wharfinger.framework.chain import Chain
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.object_store import EvaluationContext
    from wharfinger.model.state.snapshot import Snapshot

NO_INDEX = "(selections that read the time have no index)"
MAX_SCANNED = 500_000
"""Operations on placed pods that the policies of a pod may take in one step, about 50 ms."""


def scanning_too_much(
    chain: Chain, pod: PodView, at: EvaluationContext, n_pods: int, suspended: Container[tuple[str, str]]
) -> Iterator[tuple[CompiledPolicy, int]]:
    """Yield the policies that must not decide about a pod with so many placed pods, each with its operations; those with the most first.

    The others take no more than `MAX_SCANNED` together. `suspended` policies, by name and revision, do not decide anyway.
    """
    governing = [policy for policy in chain.scanning if (policy.name, policy.revision) not in suspended and policy.governs(pod, at)]
    left = n_pods * sum(policy.scanned for policy in governing)
    for policy in sorted(governing, key=lambda policy: (-policy.scanned, policy.name)):
        if left <= MAX_SCANNED:
            return
        left -= n_pods * policy.scanned
        yield policy, n_pods * policy.scanned


def scans_too_much(policy: CompiledPolicy, snapshot: Snapshot) -> bool:
    """True if a policy alone would take more than `MAX_SCANNED` operations on placed pods in one step."""
    return too_many(policy.scanned * int(snapshot.pod_count.sum()))


def too_many(operations: int) -> bool:
    """True if operations on placed pods are more than `MAX_SCANNED`."""
    return operations > MAX_SCANNED
