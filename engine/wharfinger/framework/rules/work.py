"""The work of evaluating the rules of policies, counted before it is done: what is too much for one step is done in steps.

Several policies may govern a pod, so the limits of each do not limit what all of them take together. Work is counted in operations on
numbers of nodes, as `compiler.cost` estimates them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec import Struct

from wharfinger.framework.extension import Plugin
from wharfinger.framework.plugin_calls import Slot
from wharfinger.framework.rules.policy_rules import PolicyFilter, PolicyScore, operations_of
from wharfinger.language.semantics.catalogue import Volatility

MAX_AT_ONCE = 30_000_000
"""Operations on numbers of nodes that an evaluation may take in one step, at most about 30 ms."""
IN_PORTION = 5_000_000
"""Operations after which an evaluation in steps pauses, about 5 ms."""
PRECOMPUTED = 20
"""Operations for each node of a rule whose values are known: they are copied, normalised and added up."""
ON_ONE_NODE = 25_000
"""Operations that computing a rule for one node takes as long as."""
TO_PREPARE = 100_000
"""The same for preparing a rule and evaluating it on few nodes, about 0.1 ms."""

S = TypeVar("S", bound=Slot)


class Work(Struct, frozen=True):
    """The work of evaluating some rules, in operations for each node.

    `on_all_nodes` is the part of rules that may change on all nodes at once: they read the time, metrics, pods of other nodes, or points of
    Kubernetes' scores.
    """

    whole: int
    on_all_nodes: int
    n_rules: int

    def is_long(self, n_nodes: int) -> bool:
        """True if one step should not evaluate all rules on all nodes."""
        return self.whole * n_nodes + self.n_rules * TO_PREPARE > MAX_AT_ONCE

    def follows_long(self, n_nodes: int) -> bool:
        """True if one step should not bring all rules up to date after something has changed."""
        return self.on_all_nodes * n_nodes + self.n_rules * ON_ONE_NODE > MAX_AT_ONCE


def work_of(plugins: Iterable[Plugin], *, precomputed: bool) -> Work:
    """The work of the rules of policies among these plugins; with `precomputed`, their values are known where they can be in advance."""
    whole = on_all_nodes = n_rules = 0
    for plugin in plugins:
        if not isinstance(plugin, PolicyFilter | PolicyScore):
            continue
        reads_points = isinstance(plugin, PolicyScore) and bool(plugin.plugins)
        volatility = plugin.filter_volatility if isinstance(plugin, PolicyFilter) else plugin.score_volatility
        operations = plugin.operations if reads_points or not precomputed else min(plugin.operations, PRECOMPUTED)
        n_rules += 1
        whole += operations
        if reads_points or volatility >= Volatility.TIMED:
            on_all_nodes += operations
    return Work(whole, on_all_nodes, n_rules)


def portions(slots: Sequence[S], n_nodes: int) -> Iterator[Sequence[S]]:
    """The slots in order, divided where those before took `IN_PORTION` operations."""
    first, operations = 0, 0
    for number, slot in enumerate(slots):
        if operations >= IN_PORTION:
            yield slots[first:number]
            first, operations = number, 0
        operations += TO_PREPARE + operations_of(slot.plugin) * n_nodes
    yield slots[first:]
