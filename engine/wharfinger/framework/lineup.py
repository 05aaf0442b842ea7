"""The rules that a pod meets: the chain's plugins and the rules of the policies that govern it, flattened and in order.

Pods governed by the same policies share one lineup. Filters run in Kubernetes' order, then the policies' by name; the order decides only
which reason a node is counted under. Scores are sorted by what can change them, so that sums over the unchanging ones can be kept; sums are
always formed in this one order, so that a kept sum and a fresh one are equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework import eviction
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.extension import FilterPlugin, ScorePlugin
from wharfinger.framework.scale import Scale
from wharfinger.language.catalogue import Volatility

if TYPE_CHECKING:
    from wharfinger.compiler.program import CompiledPolicy
    from wharfinger.framework.eviction import Evictable
    from wharfinger.model.pod import PodView
    from wharfinger.model.snapshot import Snapshot

DEFAULT_QUANTUM = 1e-6
"""Totals are rounded to a multiple of this before they are compared: far below a point, far above rounding errors of sums."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreTerm:
    """A score that counts: `weight` × points, added to the total of `tier`."""

    plugin: ScorePlugin
    weight: float
    tier: int
    scale: Scale


class TieBreak(Protocol):
    """A key by which equals are told apart; it belongs to a policy of that name."""

    @property
    def policy(self) -> str:
        """The policy's name."""

    def best(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Those of `rows` (at least one) that come first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineup:
    """What applies to the pods that one set of policies governs.

    `notes` are sentences about rules that got in each other's way; people see them with every decision.
    """

    filters: tuple[FilterPlugin, ...]
    scores: tuple[ScoreTerm, ...]
    policies: tuple[str, ...] = ()
    quanta: Mapping[int, float] = field(default_factory=dict)
    tie_breaks: tuple[TieBreak, ...] = ()
    notes: tuple[str, ...] = ()
    governing: tuple[CompiledPolicy, ...] = ()

    def evictable(self, pod: PodView, now: float) -> Evictable:
        """Whom preemption may evict for a pod that has this lineup."""
        return eviction.evictable(self.governing, pod, now)

    @property
    def spares_for_a_time(self) -> bool:
        """Whether mere time may let preemption evict pods that it may not evict now."""
        speaking = (policy for policy in self.governing if policy.victims is not None)
        return any(policy.scope_timed or (policy.victims is not None and policy.victims.timed) for policy in speaking)

    def quantum(self, tier: int) -> float:
        """The step to which totals of a tier are rounded."""
        return self.quanta.get(tier, DEFAULT_QUANTUM)

    @property
    def tiers(self) -> tuple[int, ...]:
        """The tiers in the order in which they are compared; tier 1 is always there."""
        return tuple(sorted({1, *(term.tier for term in self.scores)}))


def in_summing_order(terms: list[ScoreTerm]) -> tuple[ScoreTerm, ...]:
    """The terms sorted STATIC, ROW, GLOBAL; otherwise in the order given."""
    return tuple(sorted(terms, key=lambda term: Volatility(term.plugin.score_volatility).value))
