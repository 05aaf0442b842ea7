"""The rules of a compiled policy as plugins of the chain, named `policy/rule`.

A policy is bound to a pod once per template: everything that depends on the pod alone is computed then. The rules of the policy share that
binding through the cycle state, and with it the subexpressions that they have in common.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.compiler.evaluation.row_code import is_quick
from wharfinger.framework import cluster_event
from wharfinger.framework.cluster_event import Change
from wharfinger.framework.evaluation.lineup import ScoreTerm
from wharfinger.framework.evaluation.points import ENCODED, PolicyScale
from wharfinger.framework.evaluation.question import CycleState
from wharfinger.framework.extension import FilterPlugin, ScorePlugin
from wharfinger.framework.verdict import Mask, PreFilterAnswer, PreScoreAnswer, Reason, Rows, Verdicts
from wharfinger.language.semantics.catalogue import Volatility

if TYPE_CHECKING:
    from wharfinger.compiler.program import BoundPolicy, CompiledPolicy
    from wharfinger.compiler.rules import Rule
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot


_CHANGED = object()  # the key of the changed rows, which all rules of a template share


class PolicyFilter(FilterPlugin):
    """A filter rule. A clause that only node objects can change is unresolvable: moving pods away would not help.

    Bits and reasons are as the compiled policy numbers them: a clause that is false, a clause whose value is missing.
    """

    def __init__(self, policy: CompiledPolicy, index: int) -> None:
        super().__init__()
        self._policy = policy
        self._index = index
        self._rule = rule = policy.filters[index]
        self.name = f"{policy.name}/{rule.name}"
        self.origin = policy.name, rule.name
        self.filter_volatility = rule.volatility
        self._wakes = cluster_event.of_filter(policy, index)
        self.wakes_on = self._wakes.events

    def may_help(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:  # noqa: ARG002 — the extension point
        """True if the rule reads what has changed."""
        return self._wakes.concern(change)

    def pre_filter(self, cycle: CycleState, pod: PodView, snapshot: Snapshot) -> PreFilterAnswer:
        """Bind the policy to the pod, and keep the reasons of the rule."""
        bound = _bound(self._policy, cycle, pod, snapshot)
        _remember(self._policy, self._rule, cycle, pod, snapshot)
        texts = bound.reasons(self._index)
        known = cycle.get(self)
        if known is None or known[0] is not texts:
            reasons = (Reason(text, bit.volatility is not Volatility.STATIC) for text, bit in zip(texts, self._rule.bits, strict=True))
            cycle[self] = texts, tuple(reasons)
        return None

    def filter(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, rows: Rows) -> Verdicts:
        """The verdicts for `rows`."""
        bound = _bound(self._policy, cycle, pod, snapshot)
        return Verdicts(cycle[self][1], bound.filter_bits(self._index, snapshot, rows))

    def filter_changes(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, since: int) -> Rows | None:
        """The rows on which something changed; all rows if a change elsewhere may matter to the rule."""
        return _changes(self._policy, self._rule, cycle, pod, snapshot, since)


class QuickPolicyFilter(PolicyFilter):
    """A filter rule that can be evaluated on one node in plain Python."""

    def filter_one(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, row: int) -> int:
        """The verdict for one node."""
        bound = _bound(self._policy, cycle, pod, snapshot)
        return 0 if bound.left_out(self._rule, snapshot) else bound.one_row.filter_bits(self._index, pod, snapshot, row)


class PolicyScore(ScorePlugin):
    """A score rule. Raw scores are float64; NaN where the value is missing, +inf where the rule does not apply to the node."""

    def __init__(self, policy: CompiledPolicy, index: int) -> None:
        super().__init__()
        self._policy = policy
        self._index = index
        self._rule = rule = policy.scores[index]
        self.name = f"{policy.name}/{rule.name}"
        self.origin = policy.name, rule.name
        self.score_volatility = rule.volatility

    def pre_score(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, feasible: Mask) -> PreScoreAnswer:  # noqa: ARG002 — a rule is scored node by node
        """Keep what the answers of a GLOBAL rule depend on; never skips."""
        _remember(self._policy, self._rule, cycle, pod, snapshot)
        return None

    def score(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, rows: Rows) -> NDArray[Any]:
        """The raw scores."""
        raw, state = _bound(self._policy, cycle, pod, snapshot).score(self._index, snapshot, rows)
        if not (state.item() if len(state) == 1 else state.any()):
            return raw
        return ENCODED[state] + raw

    def score_changes(
        self,
        cycle: CycleState,
        pod: PodView,
        snapshot: Snapshot,
        since: int,
        flipped: NDArray[np.intp],  # noqa: ARG002 — a rule is scored node by node
    ) -> Rows | None:
        """The rows on which something changed; all rows if a change elsewhere may matter to the rule."""
        return _changes(self._policy, self._rule, cycle, pod, snapshot, since)

    def score_domains(self, cycle: CycleState, pod: PodView, snapshot: Snapshot) -> Sequence[str] | None:  # noqa: ARG002 — the extension point
        """The topology keys by which the rule counts pods; None if its score depends on more of a node than its domains."""
        return self._rule.plan.domains


class QuickPolicyScore(PolicyScore):
    """A score rule that can be evaluated on one node in plain Python."""

    def score_one(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, row: int) -> float:
        """The raw score of one node."""
        bound = _bound(self._policy, cycle, pod, snapshot)
        return math.inf if bound.left_out(self._rule, snapshot) else bound.one_row.score(self._index, pod, snapshot, row)


class TieBreak:
    """One key of a policy's `tie_break`."""

    def __init__(self, policy: CompiledPolicy, index: int) -> None:
        self._policy = policy
        self._index = index
        self.policy = policy.name
        self._descending = policy.tie_break[index].descending

    def best(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """The rows of `rows` (not empty) with the best key, at least one; a missing key is the worst in either direction."""
        keys = _bound(self._policy, cycle, pod, snapshot).tie_key(self._index, snapshot, rows)
        if self._descending:
            keys = -keys
        best = keys.min()
        if math.isnan(best):
            keys = np.where(np.isnan(keys), np.inf, keys)
            best = keys.min()
        first: NDArray[np.intp] = rows[keys == best]
        return first


class PolicyRules:
    """A policy and its rules as plugins."""

    def __init__(self, policy: CompiledPolicy) -> None:
        self.policy = policy
        self.filters = tuple(
            (QuickPolicyFilter if is_quick(rule) else PolicyFilter)(policy, index) for index, rule in enumerate(policy.filters)
        )
        self.scores = tuple(
            ScoreTerm(plugin=_score(policy, index), weight=rule.weight, tier=rule.tier, scale=PolicyScale(rule))
            for index, rule in enumerate(policy.scores)
            if rule.weight
        )
        self.tie_breaks = tuple(TieBreak(policy, index) for index in range(len(policy.tie_break)))

    def without(self, rule: str) -> PolicyRules:
        """The rules of the policy but for the filter of that name (`policy/rule`)."""
        rest = copy.copy(self)
        rest.filters = tuple(plugin for plugin in self.filters if plugin.name != rule)
        return rest

    @property
    def n_rules(self) -> int:
        """The number of filters and scores of the policy."""
        return len(self.filters) + len(self.scores)

    def rows(self) -> list[tuple[str, str, str, str]]:
        """The policy's rows in the chain's table."""
        scored = [(term.plugin.name, "Score", f"{term.weight:g}", f"tier={term.tier}" if term.tier != 1 else "") for term in self.scores]
        evicting = [(f"{self.policy.name}/preemption", "PostFilter", "", "")] if self.policy.victims is not None else []
        return [*((plugin.name, "Filter", "", "") for plugin in self.filters), *scored, *evicting]


def _score(policy: CompiledPolicy, index: int) -> PolicyScore:
    return (QuickPolicyScore if is_quick(policy.scores[index]) else PolicyScore)(policy, index)


def _remember(policy: CompiledPolicy, rule: Rule, cycle: CycleState, pod: PodView, snapshot: Snapshot) -> None:
    """Keep the token of a GLOBAL rule before its first evaluation; later, `_changes` runs before each evaluation and keeps it."""
    if rule.volatility is Volatility.GLOBAL and _seen(policy, rule) not in cycle:
        _changes(policy, rule, cycle, pod, snapshot, snapshot.revision)


def _changes(policy: CompiledPolicy, rule: Rule, cycle: CycleState, pod: PodView, snapshot: Snapshot, since: int) -> Rows | None:  # noqa: PLR0913, PLR0917 — the framework's arguments and the rule
    """The rows on which the result of a GLOBAL rule may have changed since a revision; None for no rows."""
    token, seen = _bound(policy, cycle, pod, snapshot).token(rule, snapshot), _seen(policy, rule)
    if cycle.get(seen) != token:
        cycle[seen] = token
        return slice(None)
    known = cycle.get(_CHANGED)
    if known is None or known[0] is not snapshot or known[1] != since:
        known = cycle[_CHANGED] = snapshot, since, _changed(snapshot, since)
    rows: Rows | None = known[2]
    return rows


def _changed(snapshot: Snapshot, since: int) -> Rows | None:
    """The rows on which something changed since a revision; None for no rows. The result is the same for all rules of a template."""
    nodes, pods = snapshot.node_changes(since), snapshot.usage_changes(since)
    if nodes is None or pods is None or len(nodes):
        return slice(None)
    return pods if len(pods) else None


def _seen(policy: CompiledPolicy, rule: Rule) -> Hashable:
    """The key of the token at a rule's last evaluation."""
    return policy, id(rule)


def _bound(policy: CompiledPolicy, cycle: CycleState, pod: PodView, snapshot: Snapshot) -> BoundPolicy:
    found: BoundPolicy | None = cycle.get(policy)
    if found is None or found.strings is not snapshot.strings:
        found = cycle[policy] = policy.bind(pod, snapshot)
    return found.of(pod)
