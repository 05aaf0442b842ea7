"""Rules of a compiled policy, as the framework and reports see them. How to compute them is in the program, under `plan`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wharfinger.compiler.schedule import Plan
from wharfinger.language import typed
from wharfinger.language.ast import MissingAction, Normalize
from wharfinger.language.catalogue import Volatility
from wharfinger.language.source import Span


@dataclass(frozen=True, slots=True)
class Bit:
    """One way to fail a filter: a clause that is false, or (`missing`) one that is missing and rejects then.

    A `clause` of None stands for all clauses that found no place among the 64 bits.
    """

    clause: int | None
    missing: bool
    volatility: Volatility


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What filters, scores and tie keys have in common: `metrics` are those it uses, any of which may suspend it.

    `plan` computes the rule's parts; where it has one, its last output says whether the rule applies (`guarded`). A guard that
    only looks at the pod is in the register `pod_guard` instead.
    """

    name: str
    span: Span
    plan: Plan
    volatility: Volatility
    metrics: frozenset[str]
    pod_guard: int | None
    guarded: bool
    optional: bool  # the second output says where the first is present


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledFilter(Rule):
    """A filter. Bit k of its result is `bits[k]`."""

    bits: tuple[Bit, ...]
    clauses: tuple[typed.Clause, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledScore(Rule):
    """A score. `min_spread` is in the unit of the raw value, `missing_points` in points."""

    tier: int
    weight: float
    normalize: Normalize
    min_spread: float
    on_missing: MissingAction | None
    missing_points: float
    value: typed.Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledTieKey(Rule):
    """A key of the tie break."""

    descending: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseWeight:
    """What a policy says of one of Kubernetes' score plugins; a weight of None leaves it as it is."""

    plugin: str
    span: Span
    weight: float | None
    arguments: Mapping[str, Any]
