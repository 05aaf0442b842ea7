"""Whom preemption may evict: what policies leave of the pods of lower priority.

Several policies may govern the pod that needs room; a placed pod is a victim only if all of them allow it. So a policy can protect pods
from the pods that it governs, and never expose any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
    speaking = [(policy.name, policy.victims) for policy in policies if policy.victims is not None]
    if not speaking:
        return ANYONE
    return Evictable(
        tuple(name for name, _ in speaking),
        tuple(victims.allowed(pod, now) for _, victims in speaking),
        now if any(victims.timed for _, victims in speaking) else None,
    )
