"""Why a pod went where it went, or why nowhere: the report as a value, and as text.

The layout is HTCondor's `condor_q -better-analyze`: every rule with the nodes it would leave if it were alone and those left after it
and all before it. Then the nearest miss, the best nodes with the parts of their scores, and whatever single nodes were asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wharfinger.framework.decision import ScorePart


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One filter in the order in which they run.

    `alone` nodes pass it by itself, `so_far` pass it and every filter above. `reasons` counts the nodes it rejects by what it says of them.
    `example` is a node it rejects (None where there is none), `at` where the rule stands in a file (None for Kubernetes' own).
    """

    rule: str
    at: str | None
    skipped: bool
    alone: int
    so_far: int
    reasons: Mapping[str, int]
    example: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one filter says of one node: `sentences` are empty where it passes; `values` are lines that show the operands."""

    rule: str
    sentences: tuple[str, ...]
    values: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the filter lets the pod onto the node."""
        return not self.sentences


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """Everything the rules say of one node. `totals` by tier and `scores` are empty where the node is not feasible."""

    node: str
    verdicts: tuple[Verdict, ...]
    totals: tuple[float, ...]
    scores: tuple[ScorePart, ...]

    @property
    def rejected_by(self) -> tuple[Verdict, ...]:
        """The filters that reject the node."""
        return tuple(verdict for verdict in self.verdicts if not verdict.passed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The report about one decision.

    `nearest` are the rejected nodes that the fewest rules speak against; `top` the best feasible ones; `asked` those the caller named.
    """

    pod: str
    node: str | None
    message: str
    n_nodes: int
    feasible: int
    margin: float | None
    ties: int
    policies: tuple[str, ...]
    notes: tuple[str, ...]
    steps: tuple[Step, ...]
    nearest: tuple[NodeReport, ...]
    top: tuple[NodeReport, ...]
    asked: tuple[NodeReport, ...]

    def __str__(self) -> str:
        from wharfinger.runtime.explanation_text import text  # noqa: PLC0415 — the layout reads this class

        return text(self)
