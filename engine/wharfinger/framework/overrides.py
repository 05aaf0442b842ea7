"""`base kubernetes { … }`: what policies say of built-in scores, for the pods they govern.

Several policies may govern one pod. Where two of them give one plugin different weights or arguments there is no right answer. If both
surely meet (they have the same scope, or one governs every pod), that is refused when the chain is assembled. Otherwise it may never
happen, and if it does the policy whose name sorts first is followed, the cluster's before that of a namespace, and the decision says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wharfinger.errors import UsageError
from wharfinger.framework import extension
from wharfinger.framework.configuration import arguments, known
from wharfinger.framework.registry import Registry

if TYPE_CHECKING:
    from wharfinger.compiler.program import CompiledPolicy


@dataclass(frozen=True, slots=True)
class Settled:
    """Weights and arguments by plugin name, and a note for every contradiction."""

    weights: Mapping[str, float] = field(default_factory=dict)
    arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def settle(governing: Sequence[CompiledPolicy]) -> Settled:
    """What holds for pods governed by these policies (sorted by name)."""
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
    return Settled(
        {plugin: weight for plugin, (weight, _) in weights.items()},
        {plugin: values for plugin, (values, _) in chosen.items()},
        tuple(notes),
    )


def quanta(governing: Sequence[CompiledPolicy]) -> Mapping[int, float]:
    """The quantum of each tier that a policy names: the coarsest, where several do, so that the order of policies cannot matter."""
    found: dict[int, float] = {}
    for policy in governing:
        for tier, quantum in policy.quantum.items():
            found[tier] = max(found.get(tier, 0.0), quantum)
    return found


def check(policies: Sequence[CompiledPolicy], registry: Registry) -> None:
    """None; an error names an override of a plugin that is not there or does not score, arguments it does not take, or a contradiction."""
    for policy in policies:
        for override in policy.base:
            known(override.plugin, registry)
            plugin = registry[override.plugin]
            if not issubclass(plugin, extension.ScorePlugin):
                raise UsageError(f'policy "{policy.name}": plugin {override.plugin} does not score nodes; a policy reweighs scores only')
            arguments(plugin, override.arguments)
    overriding = [policy for policy in policies if policy.base]
    for index, left in enumerate(overriding):
        for right in overriding[index + 1 :]:
            sentence = contradiction(left, right)
            if sentence is not None:
                raise UsageError(sentence)


def contradiction(left: CompiledPolicy, right: CompiledPolicy) -> str | None:
    """In what two policies contradict each other about a base plugin for pods that both surely govern; None if they do not."""
    if not left.base or not right.base or not _surely_meet(left, right):
        return None
    return next((f"{note}; both govern the same pods" for note in settle([left, right]).notes), None)


def _surely_meet(left: CompiledPolicy, right: CompiledPolicy) -> bool:
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
