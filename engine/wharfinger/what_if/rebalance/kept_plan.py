"""Plans in a file, as `wharf rebalance --format json` prints them, which are read to carry them out later.

A plan holds for the policies that it was made with. Whether it holds for the cluster is found out before it is carried out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from wharfinger.errors import UsageError
from wharfinger.language.report.plain_values import plain
from wharfinger.model.reading.decode import NotReadable
from wharfinger.model.reading.yaml_text import parse_yaml
from wharfinger.what_if.rebalance.movable import Limits
from wharfinger.what_if.rebalance.plan import Goal, Move, PlanOptions

if TYPE_CHECKING:
    from wharfinger.framework.chain import Chain
    from wharfinger.model.state.cluster_state import ClusterState


class _Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    namespaces: list[str]
    min_age_seconds: Annotated[float, msgspec.Meta(ge=0)]
    most_priority: int
    scheduler: str | None


class _Goal(msgspec.Struct, frozen=True):
    goal: Goal


class _Revisions(msgspec.Struct, frozen=True):
    policies: str
    chain: str


class KeptPlan(msgspec.Struct, frozen=True):
    """The fields of a plan in a file that are read; other fields are for people."""

    goals: Annotated[list[_Goal], msgspec.Meta(min_length=1)]
    unit: dict[str, Annotated[int, msgspec.Meta(gt=0)]]
    limits: _Limits
    revisions: _Revisions
    moves: list[Move]
    cost: Annotated[float, msgspec.Meta(ge=0)] = 0.0

    @property
    def plan_options(self) -> PlanOptions:
        """The goals, the cost, the unit and the limits that the plan was made with."""
        limits = Limits(
            namespaces=frozenset(self.limits.namespaces),
            min_age_seconds=self.limits.min_age_seconds,
            most_priority=self.limits.most_priority,
            scheduler=self.limits.scheduler,
        )
        goals = tuple(dict.fromkeys(goal.goal for goal in self.goals))
        return PlanOptions(goals=goals, cost=self.cost, unit=self.unit, limits=limits)

    def staleness(self, chain: Chain, state: ClusterState) -> str | None:
        """The reason why the plan does not fit these policies, settings and nodes; None if it does. Each move checks its pods."""
        for name, own, given in (
            ("policies", self.revisions.policies, chain.policy_revision),
            ("settings", self.revisions.chain, chain.revision),
        ):
            if own != given:
                return (
                    f"it was made with {name} of revision {own[:12]}, and those given now are {given[:12]}; "
                    "give the same policies, params and settings, or make a new plan"
                )
        snapshot = state.snapshot()
        gone = sorted({name for move in self.moves for name in (move.source, move.target, *move.cordon) if snapshot.row(name) is None})
        return f"{', '.join(gone[:3])}: no such node any more" if gone else None


def plan_value(plan_options: PlanOptions, moves: Sequence[Move]) -> Mapping[str, Any]:
    """The fields of a plan that `KeptPlan` reads, besides goals and revisions."""
    limits = plain(plan_options.limits) | {"namespaces": sorted(plan_options.limits.namespaces)}
    return {"unit": dict(plan_options.unit), "limits": limits, "moves": plain(moves)}


def read_plan(text: bytes, where: str) -> KeptPlan:
    """The plan in a text, JSON or YAML. UsageError, with the place, for an invalid text."""
    try:
        documents = list(parse_yaml(text, unique_keys=True))
    except NotReadable as error:
        raise UsageError(f"{where}: {error}") from None
    if not documents:
        raise UsageError(f"{where}: not a plan of wharf rebalance --format json or yaml: it is empty")
    try:
        found = msgspec.convert(documents[0] if len(documents) == 1 else documents, KeptPlan)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: not a plan of wharf rebalance --format json or yaml: {error}") from None
    seen: set[str] = set()
    for place, move in enumerate(found.moves):
        if move.uid in seen:
            raise UsageError(f"{where}: moves[{place}]: pod {move.pod} moves twice, and a plan moves each pod once at most")
        if not math.isfinite(move.gain):
            raise UsageError(f"{where}: moves[{place}].gain: expected a number, not {move.gain}")
        seen.add(move.uid)
    return found
