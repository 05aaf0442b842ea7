"""Records of compiled rules: a plan for the values of each, and what else decides about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wharfinger.builtins.texts import TextOrder
from wharfinger.compiler.evaluation.schedule import Plan
from wharfinger.compiler.graph.ir import Node
from wharfinger.errors import UsageError
from wharfinger.language.ast import MissingAction, Normalize
from wharfinger.language.report.diagnostics import Span
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.catalogue import Volatility


@dataclass(frozen=True, slots=True)
class Bit:
    """One way to fail a filter: a clause that is false, or (`missing`) one whose missing value rejects the node.

    A `clause` of None stands for all clauses beyond the 64 bits.
    """

    clause: int | None
    missing: bool
    volatility: Volatility


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What filters, scores and tie keys have in common; `metrics` are those it uses, any of which may suspend it.

    `plan` computes the rule's parts; if the rule is `guarded`, its last output says where the rule applies. A guard that reads the pod
    alone is in the register `pod_guard` instead.
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
    """A filter; bit k of its result is `bits[k]`."""

    bits: tuple[Bit, ...]
    clauses: tuple[typed.Clause, ...]


DEFAULT_TIMEOUT = 300.0
"""Seconds that a placed pod, or a group, waits where a policy does not say."""


def timeout_of(found: Node | None, span: Span) -> float:
    """The seconds of a compiled timeout, or the default without one; UsageError if params made it one that no author may write."""
    if found is None:
        return DEFAULT_TIMEOUT
    seconds = float(found.value)
    if not 0 < seconds <= typed.MAX_TIMEOUT:
        raise UsageError(f"{span}: the timeout is {seconds:g} s; it is longer than 0 and at most {typed.MAX_TIMEOUT:g} s")
    return seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledPermit(CompiledFilter):
    """A `permit`: asked about the chosen node as a filter is, for `timeout` seconds at most."""

    timeout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledScore(Rule):
    """A score; `min_spread` is in the unit of the raw value, `missing_points` in points.

    `plugins` are the scores of Kubernetes whose points it reads.
    """

    tier: int
    weight: float
    normalize: Normalize
    min_spread: float
    on_missing: MissingAction | None
    missing_points: float
    value: typed.Expr
    plugins: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledDevicePreference(Rule):
    """A `prefer device`; its value has one entry per device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledTieKey(Rule):
    """A key of the tie break; `texts` is the order of the values if they are texts or versions, and not numbers."""

    descending: bool
    texts: TextOrder | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseWeight:
    """What a policy says of one of Kubernetes' score plugins; a weight of None does not change it."""

    plugin: str
    span: Span
    weight: float | None
    arguments: Mapping[str, Any]
