"""Whom preemption may evict: what policies leave of the pods of lower priority.

Several policies may govern the pod that needs room; a placed pod is a victim only if all of them allow it. So a policy can protect pods
from the pods that it governs, and never expose any.

What a filter says once the victims have gone is not foreseen. One that lets full nodes pass, and no others, would have pods evicted from
one node after the other, and none of the nodes would be taken. So pods elsewhere are evicted for a pod under a policy of a namespace only
where all its filters read nothing but node objects, which evictions do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from wharfinger.language.catalogue import Volatility

if TYPE_CHECKING:
    from wharfinger.compiler.program import CompiledPolicy
    from wharfinger.model.pod import PodView


@dataclass(frozen=True, slots=True)
class Evictable:
    """Says of placed pods whether they may be evicted for one pod; `policies` are those that have a say, by name.

    `asked_at` is the time that the answers hold for; None where time does not matter.
    """

    policies: tuple[str, ...] = ()
    rules: tuple[Callable[[PodView], bool], ...] = ()
    asked_at: float | None = None

    def among(self, pods: Iterable[PodView]) -> list[PodView]:
        """Those of the pods that may be evicted, in order."""
        return [placed for placed in pods if all(rule(placed) for rule in self.rules)]


ANYONE = Evictable()


def evictable(policies: Sequence[CompiledPolicy], pod: PodView, now: float) -> Evictable:
    """Whom the policies that govern a pod let be evicted for it."""
    speaking = [policy for policy in policies if policy.victims is not None or _may_change_its_mind(policy)]
    if not speaking:
        return ANYONE
    timed = any(policy.victims is not None and policy.victims.timed for policy in speaking)
    return Evictable(
        tuple(policy.name for policy in speaking), tuple(_rule(policy, pod, now) for policy in speaking), now if timed else None
    )


def _rule(policy: CompiledPolicy, pod: PodView, now: float) -> Callable[[PodView], bool]:
    """The predicate that says of a placed pod whether a policy lets it be evicted."""
    return partial(_is_own, policy) if policy.victims is None else policy.victims.allowed(pod, now)


def _may_change_its_mind(policy: CompiledPolicy) -> bool:
    """Whether a policy of a namespace may reject a node because pods have left it, and has no rules about whom to evict."""
    return policy.authority.restricted and any(rule.volatility is not Volatility.STATIC for rule in policy.filters)


def _is_own(policy: CompiledPolicy, placed: PodView) -> bool:
    """Whether a placed pod is of the policy's namespace."""
    return policy.authority.confined_to == placed.namespace
