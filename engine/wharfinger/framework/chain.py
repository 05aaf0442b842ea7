"""The chain: the plugins and policies that make decisions, with their weights and arguments.

A chain is a value. It is assembled once, prints as a table, and has a revision that changes with anything that could change a decision.
The policies that govern a pod determine the pod's *pod_rules*; pods with the same governing policies share one.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from wharfinger.errors import UsageError
from wharfinger.framework import extension, plugin_calls
from wharfinger.framework.arguments import differing, shown
from wharfinger.framework.extension import (
    AnnotatingPlugin,
    DevicePlugin,
    FilterPlugin,
    PostFilterPlugin,
    PrecomputingPlugin,
    PreEnqueuePlugin,
    QueueSortPlugin,
    ScorePlugin,
)
from wharfinger.framework.pod_devices import shared_by
from wharfinger.framework.prepared import Attempt
from wharfinger.framework.registry import Registry, default_registry
from wharfinger.framework.rules import pod_rules, points
from wharfinger.framework.rules.pod_rules import PodRules, in_summing_order
from wharfinger.framework.rules.policy_rules import PolicyPermit, PolicyRules
from wharfinger.framework.rules.score_slot import ScoreTerm

if TYPE_CHECKING:
    from wharfinger.compiler.program import CompiledPolicy
    from wharfinger.framework.chain_settings import ChainConfig
    from wharfinger.framework.prepared import Reason
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.object_store import EvaluationContext
    from wharfinger.model.state.snapshot import Snapshot


class ChainEntry(Struct, frozen=True, kw_only=True):
    """A plugin as the chain uses it; `weight` is None if it does not score."""

    plugin: extension.Plugin
    weight: int | None

    def __post_init__(self) -> None:
        plugin_calls.with_faults_caught(self.plugin)

    @property
    def name(self) -> str:
        """The plugin's name."""
        return self.plugin.name


MAX_KEPT_POD_RULES = 1_000
"""Sets of rules that a chain keeps: pods with other labels may be governed by any part of many policies."""


class _PossiblePolicies(Struct, frozen=True, kw_only=True):
    """The policies that may govern the pods of a namespace: those of the cluster and its own, which are no cost for other namespaces.

    `rules` are (the index among the rules of the chain, the policy). `varying` are those for which two pods of one template, or one pod
    at two times or with other objects, may get different answers.
    """

    rules: tuple[tuple[int, CompiledPolicy], ...]
    varying: tuple[CompiledPolicy, ...]
    reads_group: bool


@dataclass(frozen=True, kw_only=True)
class Chain:
    """Plugins in the order in which they run, and policies sorted by name."""

    entries: tuple[ChainEntry, ...]
    rules: tuple[PolicyRules, ...] = ()
    _own_gate: Callable[[PodView], Reason | None] | None = field(default=None, repr=False, compare=False)
    _pod_rules: dict[tuple[int, ...], PodRules] = field(default_factory=dict, repr=False, compare=False)

    @property
    def policies(self) -> tuple[CompiledPolicy, ...]:
        """The policies, sorted by name."""
        return tuple(rules.policy for rules in self.rules)

    @cached_property
    def policy_revision(self) -> str:
        """SHA-256 over the names and revisions of the policies, in hexadecimal; the same for no policies everywhere."""
        return _digest([[policy.name, policy.revision] for policy in self.policies])

    @cached_property
    def revision(self) -> str:
        """SHA-256 over everything that could change a decision, in hexadecimal."""
        return _digest([self._rows(), self.policy_revision])

    @cached_property
    def filters(self) -> tuple[FilterPlugin, ...]:
        """The plugins that filter, in order."""
        return tuple(entry.plugin for entry in self.entries if isinstance(entry.plugin, FilterPlugin))

    @cached_property
    def precomputing(self) -> tuple[PrecomputingPlugin, ...]:
        """The plugins with work that is done in steps before a decision, in order."""
        return tuple(entry.plugin for entry in self.entries if isinstance(entry.plugin, PrecomputingPlugin))

    @cached_property
    def post_filters(self) -> tuple[PostFilterPlugin, ...]:
        """The PostFilter plugins, in order."""
        return tuple(entry.plugin for entry in self.entries if isinstance(entry.plugin, PostFilterPlugin))

    @cached_property
    def pre_enqueues(self) -> tuple[PreEnqueuePlugin, ...]:
        """The PreEnqueue plugins, in order."""
        return tuple(entry.plugin for entry in self.entries if isinstance(entry.plugin, PreEnqueuePlugin))

    @cached_property
    def choosing_devices(self) -> tuple[DevicePlugin, ...]:
        """The plugins that choose devices of the node for the pod, in order."""
        return tuple(entry.plugin for entry in self.entries if isinstance(entry.plugin, DevicePlugin))

    @cached_property
    def annotating(self) -> tuple[AnnotatingPlugin, ...]:
        """The plugins that choose something of the node for the pod, in order."""
        return tuple(entry.plugin for entry in self.entries if isinstance(entry.plugin, AnnotatingPlugin))

    def assigned(self, attempt: Attempt, row: int) -> PodView:
        """The pod of the attempt as assumed on the node of a row, with the annotations that plugins choose for it."""
        pod = attempt.pod
        for plugin in self.annotating:
            if annotations := plugin.annotations(attempt, row):
                pod = pod.assigning(annotations)
        return pod

    def assigned_on(self, pod: PodView, snapshot: Snapshot, node: str) -> PodView:
        """A pod as assumed on a node, with the annotations that plugins choose; another chain may have decided about it."""
        return self.assigned(Attempt(pod, snapshot, shared_by(self.policies)), snapshot.known_row(node))

    @cached_property
    def has_permits(self) -> bool:
        """True if a policy has a `permit`."""
        return any(rules.permits for rules in self.rules)

    def permits(self, pod: PodView, at: EvaluationContext) -> tuple[PolicyPermit, ...]:
        """The permits of policies that a placed pod needs."""
        return self.pod_rules(pod, at).permits if self.has_permits else ()

    @cached_property
    def queue_sort(self) -> QueueSortPlugin | None:
        """The plugin that orders the queue, if the chain has one."""
        return next((entry.plugin for entry in self.entries if isinstance(entry.plugin, QueueSortPlugin)), None)

    def sort_key(self, pod: PodView) -> Any:
        """The sort key of a pod in the queue; the pod with the smallest key is tried first."""
        return -pod.priority if self.queue_sort is None else self.queue_sort.sort_key(pod)

    def gate(self, pod: PodView) -> Reason | None:
        """The reason why the pod must not enter the queue yet, or None."""
        reason = next((reason for plugin in self.pre_enqueues if (reason := plugin.pre_enqueue(pod)) is not None), None)
        return self._own_gate(pod) if reason is None and self._own_gate is not None else reason

    def with_gate(self, gate: Callable[[PodView], Reason | None]) -> Chain:
        """The same chain with one more reason why a pod must not enter the queue yet; it decides the same."""
        return replace(self, _own_gate=gate)

    def at(self, point: str) -> tuple[extension.Plugin, ...]:
        """The plugins at an extension point (`"Reserve"`, `"PreBind"`, … of `extension.POINTS`), in order."""
        return tuple(entry.plugin for entry in self.entries if isinstance(entry.plugin, extension.POINTS[point]))

    def plugin(self, name: str) -> extension.Plugin | None:
        """The plugin of that name, or None."""
        return next((entry.plugin for entry in self.entries if entry.name == name), None)

    def key(self, pod: PodView, at: EvaluationContext) -> Hashable:
        """A key of everything but nodes and other pods that a decision about the pod depends on.

        Pods with equal keys get equal answers, apart from ties. The key has the pod's template, without its PodGroup if nothing reads
        that; the values of `Plugin.identity` and `Plugin.object_identity`; the governing policies, where these differ between pods of one
        template; and the uid, if a governing policy reads the pod's identity.
        """
        own = tuple(plugin.identity(pod) for plugin in self._identities)
        if pod.demand.may_claim:
            own += tuple(plugin.object_identity(pod, at.objects) for plugin in self._with_object_identity)
        possible = self._possible(pod.namespace)
        template = pod.template if self._has_third_party_plugins or possible.reads_group else pod.apart_from_group
        if not possible.varying:
            return (template, own)
        governing = tuple(policy for policy in possible.varying if policy.governs(pod, at))
        alone = pod.uid if any(policy.rules_read_identity for policy in governing) else None
        return (template, own, governing, alone)

    @cached_property
    def _has_third_party_plugins(self) -> bool:
        """True if a plugin is not built in: its decisions may depend on the PodGroup that a pod names."""
        return any(plugin_calls.is_third_party(entry.plugin) for entry in self.entries)

    @cached_property
    def _identities(self) -> tuple[extension.Plugin, ...]:
        return tuple(entry.plugin for entry in self.entries if type(entry.plugin).identity is not extension.Plugin.identity)

    @cached_property
    def _with_object_identity(self) -> tuple[extension.Plugin, ...]:
        return tuple(entry.plugin for entry in self.entries if type(entry.plugin).object_identity is not extension.Plugin.object_identity)

    def _possible(self, namespace: str) -> _PossiblePolicies:
        """The policies that may govern pods of a namespace."""
        return self._by_namespace.get(namespace) or self._by_namespace[None]

    @cached_property
    def _by_namespace(self) -> Mapping[str | None, _PossiblePolicies]:
        """The policies that may govern pods of each namespace that has some of its own; for None, those of the cluster."""
        own: dict[str | None, list[int]] = {None: []}
        for index, rules in enumerate(self.rules):
            own.setdefault(rules.policy.authority.namespace, []).append(index)
        return {namespace: self._possible_of(sorted({*own[None], *found})) for namespace, found in own.items()}

    def _possible_of(self, indices: Sequence[int]) -> _PossiblePolicies:
        policies = [self.rules[index].policy for index in indices]
        return _PossiblePolicies(
            rules=tuple((index, self.rules[index].policy) for index in indices),
            varying=tuple(policy for policy in policies if policy.scope_varies or policy.rules_read_identity),
            reads_group=any(policy.reads_group for policy in policies),
        )

    @cached_property
    def scanning(self) -> tuple[CompiledPolicy, ...]:
        """The policies that look at all placed pods at once in each decision."""
        return tuple(policy for policy in self.policies if policy.scanned)

    def possible_policies(self, namespace: str) -> Iterator[CompiledPolicy]:
        """Yield the policies that may govern pods of a namespace, sorted by name."""
        return (policy for _, policy in self._possible(namespace).rules)

    def pod_rules(self, pod: PodView, at: EvaluationContext) -> PodRules:
        """The rules that apply to the pod at this time, with these objects."""
        rules = self._possible(pod.namespace).rules
        governing = tuple(index for index, policy in rules if policy.governs(pod, at)) if rules else ()
        found = self._pod_rules.get(governing)
        if found is None:
            if len(self._pod_rules) >= MAX_KEPT_POD_RULES:
                del self._pod_rules[next(iter(self._pod_rules))]
            found = self._pod_rules[governing] = self._assemble([self.rules[index] for index in governing])
        return found

    def _assemble(self, governing: Sequence[PolicyRules]) -> PodRules:
        overrides = pod_rules.base_overrides([rules.policy for rules in governing])
        scores = [term for entry in self.entries for term in _base_terms(entry, overrides)]
        read = sorted(frozenset[str]().union(*(rules.plugins for rules in governing)))
        sources = {name: _source(name, self.plugin(name), overrides) for name in read}
        return PodRules(
            filters=(*self.filters, *(plugin for rules in governing for plugin in rules.filters)),
            scores=in_summing_order([*scores, *(term for rules in governing for term in rules.scores_reading(sources))]),
            policies=tuple(rules.policy.name for rules in governing),
            quanta=pod_rules.quanta([rules.policy for rules in governing]),
            tie_breaks=tuple(rule for rules in governing for rule in rules.tie_breaks),
            notes=overrides.notes,
            governing=tuple(rules.policy for rules in governing),
            permits=tuple(permit for rules in governing for permit in rules.permits),
        )

    def __str__(self) -> str:
        rows = [("plugin", "points", "weight", "arguments"), *self._rows(), *(row for rules in self.rules for row in rules.rows())]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        return "\n".join(
            "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]).rstrip() for row in rows
        )

    def _rows(self) -> list[tuple[str, str, str, str]]:
        return [_row(entry) for entry in self.entries]


def assemble(policies: Sequence[CompiledPolicy] = (), config: ChainConfig | None = None, registry: Registry | None = None) -> Chain:
    """The chain of all plugins of the registry (by default: built-in and installed ones) and the given policies, in any order.

    Raises `UsageError` for settings that are not valid, for two policies of one name, and for policies that contradict each other about a
    base plugin; `UnknownObject` for a plugin that does not exist.
    """
    registry = default_registry() if registry is None else registry
    if config is not None:
        config.check(registry)
    ordered = _ordered(policies, registry)
    entries = tuple(_link(plugin, config) for name, plugin in registry.items() if config is None or name not in config.disabled)
    if len([entry for entry in entries if isinstance(entry.plugin, QueueSortPlugin)]) > 1:
        raise UsageError("a chain has one QueueSort plugin; disable the others")
    return Chain(entries=entries, rules=tuple(PolicyRules(policy) for policy in ordered))


def with_policies(chain: Chain, policies: Sequence[CompiledPolicy]) -> Chain:
    """The chain with these policies in place of its policies; the same object if they are equal. Raises as `assemble` does.

    The two chains share their plugins, with the state that plugins keep about pods being scheduled, and the rules of policies that stay.
    """
    ordered = _ordered(policies, default_registry())
    if [(policy.name, policy.revision) for policy in ordered] == [(policy.name, policy.revision) for policy in chain.policies]:
        return chain
    known = {rules.policy: rules for rules in chain.rules}
    return Chain(entries=chain.entries, rules=tuple(known.get(policy) or PolicyRules(policy) for policy in ordered))


def without_rule(chain: Chain, rule: str) -> Chain:
    """The chain without one filter of a policy (`policy/rule`), to find the effect of that filter."""
    return Chain(entries=chain.entries, rules=tuple(rules.without(rule) for rules in chain.rules))


def _ordered(policies: Sequence[CompiledPolicy], registry: Registry) -> list[CompiledPolicy]:
    """The policies sorted by name; `UsageError` for two of one name, or that contradict each other."""
    ordered = sorted(policies, key=lambda policy: policy.name)
    for left, right in itertools.pairwise(ordered):
        if left.name == right.name:
            raise UsageError(f'two policies are called "{left.name}": {left.policy.source.name} and {right.policy.source.name}')
    pod_rules.check(ordered, registry)
    return ordered


def _link(plugin: type[extension.Plugin], config: ChainConfig | None) -> ChainEntry:
    built = plugin(pod_rules.arguments(plugin, {} if config is None else config.arguments.get(plugin.name, {})))
    if not issubclass(plugin, ScorePlugin):
        return ChainEntry(plugin=built, weight=None)
    return ChainEntry(plugin=built, weight=plugin.default_weight if config is None else config.weight(plugin))


def _base_terms(entry: ChainEntry, overrides: pod_rules.BaseOverrides) -> list[ScoreTerm]:
    """The score term of a plugin for pods with these overrides; empty if its weight is 0."""
    if entry.weight is None:
        return []
    weight = overrides.weights.get(entry.name, float(entry.weight))
    if not weight:
        return []
    return [_term(entry.plugin, weight, overrides)]


def _source(name: str, plugin: extension.Plugin | None, overrides: pod_rules.BaseOverrides) -> ScoreTerm:
    """The score plugin whose points rules read: as configured, with any weight, or with default arguments if it is switched off."""
    return _term(plugin_calls.with_faults_caught(default_registry()[name]()) if plugin is None else plugin, 1.0, overrides)


def _term(plugin: extension.Plugin, weight: float, overrides: pod_rules.BaseOverrides) -> ScoreTerm:
    """The score of a plugin for pods with these overrides."""
    if plugin.name in overrides.arguments:  # for the score only: filters keep the arguments of the chain
        own = pod_rules.arguments(type(plugin), {**differing(plugin.arguments), **overrides.arguments[plugin.name]})
        plugin = plugin_calls.with_faults_caught(type(plugin)(own))
    assert isinstance(plugin, ScorePlugin)  # noqa: S101 — the callers ask for plugins that score
    return ScoreTerm(plugin=plugin, weight=weight, tier=1, scale=points.scale_of(plugin.name, plugin.normalization))


def _row(entry: ChainEntry) -> tuple[str, str, str, str]:
    return (
        entry.name,
        " ".join(extension.points(type(entry.plugin))),
        "" if entry.weight is None else str(entry.weight),
        " ".join(
            f"{name}={json.dumps(value, sort_keys=True, separators=(',', ':'))}"
            for name, value in sorted(shown(entry.plugin.arguments).items())
        ),
    )


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()
