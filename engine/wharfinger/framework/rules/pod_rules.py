"""The rules that apply to one pod, in order: plugins of the chain, and the rules of the policies that govern the pod.

With `base kubernetes { … }` a policy may change the weights and arguments of built-in scores for its pods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from wharfinger.errors import UsageError
from wharfinger.framework import eviction, extension
from wharfinger.framework.arguments import BuiltInArguments
from wharfinger.framework.extension import FilterPlugin, Plugin
from wharfinger.framework.registry import Registry
from wharfinger.framework.rules.score_slot import ScoreTerm
from wharfinger.framework.rules.work import Work, work_of
from wharfinger.language.semantics.catalogue import Volatility

if TYPE_CHECKING:
    from wharfinger.compiler.program import CompiledPolicy
    from wharfinger.framework.eviction import Evictable
    from wharfinger.framework.rules.policy_rules import PolicyPermit, TieBreak
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.object_store import EvaluationContext

DEFAULT_QUANTUM = 1e-6
"""Totals are rounded to a multiple of this before they are compared: far below one point, far above the rounding errors of sums."""


class PodRules(Struct, frozen=True, kw_only=True, dict=True):
    """The filters, scores and tie breaks that apply to the pods governed by one set of policies.

    `notes` are sentences about contradictions between policies; they are part of every decision's report.
    """

    filters: tuple[FilterPlugin, ...]
    scores: tuple[ScoreTerm, ...]
    policies: tuple[str, ...] = ()
    quanta: Mapping[int, float] = field(default_factory=dict)
    tie_breaks: tuple[TieBreak, ...] = ()
    notes: tuple[str, ...] = ()
    governing: tuple[CompiledPolicy, ...] = ()
    permits: tuple[PolicyPermit, ...] = ()

    def evictable(self, pod: PodView, at: EvaluationContext) -> Evictable:
        """The pods that preemption may evict for a pod with these rules."""
        return eviction.evictable(self.governing, pod, at)

    @cached_property
    def operations(self) -> int:
        """The operations that rules of policies take for each node."""
        return sum(policy.operations for policy in self.governing)

    @cached_property
    def work(self) -> Work:
        """The work of evaluating the rules of policies."""
        return work_of(self._plugins, precomputed=False)

    @cached_property
    def work_left(self) -> Work:
        """The same where values of rules are computed in advance; those that read points of Kubernetes' scores cannot be."""
        return work_of(self._plugins, precomputed=True)

    @cached_property
    def tie_operations(self) -> int:
        """The operations for each node of all keys of tie breaks. Decisions compute them for the nodes with equal totals."""
        return sum(key.operations for key in self.tie_breaks)

    @property
    def _plugins(self) -> tuple[Plugin, ...]:
        return *self.filters, *(term.plugin for term in self.scores)

    @cached_property
    def longest_column(self) -> int:
        """The number of calls that compute the kept column of policies with the most of them."""
        plans = (plan for policy in self.governing for plan in policy.program.plans.values())
        return max((len(part.steps) for plan in plans for part in plan.static), default=0)

    @property
    def n_rules(self) -> int:
        """The number of its filters and scores."""
        return len(self.filters) + len(self.scores)

    @property
    def eviction_depends_on_time(self) -> bool:
        """True if preemption may be allowed later, by the passing of time alone, to evict pods that it may not evict now."""
        return any(policy.victims is not None and (policy.scope_reads_time or policy.victims.reads_time) for policy in self.governing)

    @property
    def eviction_depends_on_namespaces(self) -> bool:
        """True if preemption may be allowed, by other labels of a namespace alone, to evict pods that it may not evict now."""
        return any(
            policy.victims is not None and (policy.scope_reads_namespaces or policy.victims.reads_namespaces) for policy in self.governing
        )

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


def quanta(governing: Sequence[CompiledPolicy]) -> Mapping[int, float]:
    """The quantum of each tier that a policy names: the largest if several do, so that the order of policies does not matter."""
    found: dict[int, float] = {}
    for policy in governing:
        for tier, quantum in policy.quantum.items():
            found[tier] = max(found.get(tier, 0.0), quantum)
    return found


# ── what policies say of plugins ─────────────────────────────────────────────────────────────────────────────────────────────────────


class BaseOverrides(Struct, frozen=True):
    """Weights and arguments by plugin name, and a note for every contradiction."""

    weights: Mapping[str, float] = field(default_factory=dict)
    arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def base_overrides(governing: Sequence[CompiledPolicy]) -> BaseOverrides:
    """The weights and arguments of plugins for pods governed by these policies (sorted by name).

    Policies without a namespace come first; the first policy that gives a value decides.
    """
    weights: dict[str, tuple[float, str]] = {}
    chosen: dict[str, tuple[Mapping[str, Any], str]] = {}
    notes = []
    for policy in sorted(governing, key=lambda policy: policy.authority.namespace is not None):
        for override in policy.base:
            if override.weight is not None:
                weight, first = weights.setdefault(override.plugin, (override.weight, policy.name))
                notes += [_note(override.plugin, "weight", first, policy.name)] if weight != override.weight else []
            if override.arguments:
                values, first = chosen.setdefault(override.plugin, (override.arguments, policy.name))
                notes += [_note(override.plugin, "arguments", first, policy.name)] if values != override.arguments else []
    return BaseOverrides(
        {plugin: weight for plugin, (weight, _) in weights.items()},
        {plugin: values for plugin, (values, _) in chosen.items()},
        tuple(notes),
    )


def arguments(plugin: type[Plugin], values: Mapping[str, Any]) -> Any:
    """The arguments of a plugin from plain values; UsageError for values that do not fit."""
    if not values and issubclass(plugin.arguments_model, BuiltInArguments):
        return plugin.arguments_model()
    from wharfinger.framework import chain_settings  # noqa: PLC0415 — imports Pydantic, which most chains do not need

    return chain_settings.arguments(plugin, values)


def check(policies: Sequence[CompiledPolicy], registry: Registry) -> None:
    """Check overrides; raise for an unknown or scoreless plugin, for arguments it does not take, and for contradictions."""
    for policy in policies:
        for override in policy.base:
            plugin = registry[override.plugin]
            if not issubclass(plugin, extension.ScorePlugin):
                raise UsageError(f'policy "{policy.name}": plugin {override.plugin} does not score nodes; a policy reweighs scores only')
            if override.arguments:
                arguments(plugin, override.arguments)
    overriding = [policy for policy in policies if policy.base]
    for index, left in enumerate(overriding):
        for right in overriding[index + 1 :]:
            sentence = contradiction(left, right)
            if sentence is not None:
                raise UsageError(sentence)


def contradiction(left: CompiledPolicy, right: CompiledPolicy) -> str | None:
    """A sentence about the first contradiction of two policies over a base plugin; None if there is none or they may share no pods."""
    if not left.base or not right.base or not _share_pods(left, right):
        return None
    return next((f"{note}; both govern the same pods" for note in base_overrides([left, right]).notes), None)


def _share_pods(left: CompiledPolicy, right: CompiledPolicy) -> bool:
    if _governs_all(left) or _governs_all(right):
        return True
    if left.authority.namespace != right.authority.namespace:
        return False
    mine, other = left.policy.scope, right.policy.scope
    return mine is None or other is None or mine == other


def _governs_all(policy: CompiledPolicy) -> bool:
    return policy.policy.scope is None and policy.authority.namespace is None


def _note(plugin: str, what: str, first: str, second: str) -> str:
    return f'policies "{first}" and "{second}" give {plugin} different {what}'
