"""The rules of a compiled policy as plugins of the chain, named `policy/rule`.

A policy is bound to a pod once per template: everything that depends on the pod alone is computed then. The rules of the policy share that
binding (`Attempt.shared`), and with it the subexpressions that they have in common.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from wharfinger.compiler import cost
from wharfinger.compiler.bound import BoundPolicy
from wharfinger.compiler.interpreter import Interpreter
from wharfinger.compiler.reads import reads_identity
from wharfinger.compiler.row_code import is_quick
from wharfinger.framework import cluster_event
from wharfinger.framework.cluster_event import Change
from wharfinger.framework.extension import FilterPlugin, Permission, Placement, Plugin, ScorePlugin
from wharfinger.framework.prepared import ALL, Attempt, Changes, Mask, PreparedFilter, PreparedScore, Reason, Rows, Shared, union
from wharfinger.framework.rules.points import ENCODED, PolicyScale
from wharfinger.framework.rules.score_slot import PluginPoints, ScoreTerm
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.language.semantics.types import Shape

if TYPE_CHECKING:
    from wharfinger.compiler.program import CompiledPolicy
    from wharfinger.compiler.rules import CompiledFilter, CompiledScore, Rule
    from wharfinger.framework.plugin_calls import CallTimer
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot


class _PreparedRule:
    """A rule of a policy that is bound to a pod; the rules of one policy share the binding."""

    def __init__(self, bound: BoundPolicy, rule: Rule, index: int, snapshot: Snapshot) -> None:
        self._bound = bound
        self._rule = rule
        self._index = index
        if rule.volatility >= Volatility.TIMED:
            bound.follow(rule, snapshot)

    def _affected(self, snapshot: Snapshot, changes: Changes) -> Rows | None:
        """The rows on which the result may have changed: all if something else than the pods of rows changed for the rule."""
        if self._bound.follow(self._rule, snapshot) or len(changes.node_rows):
            return ALL
        return None if self._rule.plan.domains is not None else changes.rows


class PreparedPolicyFilter(_PreparedRule, PreparedFilter):
    """A filter rule for one template. A clause that only node objects can change is unresolvable: moving pods away would not help."""

    def __init__(self, bound: BoundPolicy, rule: CompiledFilter, index: int, snapshot: Snapshot) -> None:
        super().__init__(bound, rule, index, snapshot)
        self.domains = rule.plan.domains
        texts = bound.reasons(index)
        self.reasons = tuple(Reason(text, bit.volatility is not Volatility.STATIC) for text, bit in zip(texts, rule.bits, strict=True))

    def bits(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.uint64]:
        """The verdicts, as the compiled policy numbers them: a clause that is false, a clause whose value is missing."""
        return self._bound.filter_bits(self._index, snapshot, rows)

    def affected(self, snapshot: Snapshot, changes: Changes) -> Rows | None:
        """The rows on which something changed; all rows if a change of other rows may matter to the rule."""
        return self._affected(snapshot, changes)


class QuickPolicyFilter(PreparedPolicyFilter):
    """A filter rule that can be evaluated on one node in plain Python."""

    def __init__(self, bound: BoundPolicy, rule: CompiledFilter, index: int, snapshot: Snapshot) -> None:
        super().__init__(bound, rule, index, snapshot)
        self._one_row = bound.one_row

    def bits_at(self, snapshot: Snapshot, row: int) -> int:
        """The verdict for one node."""
        left_out = self._rule.metrics and self._bound.left_out(self._rule, snapshot)
        return 0 if left_out else self._one_row.filter_bits(self._index, snapshot, row)


class PreparedPolicyScore(_PreparedRule, PreparedScore):
    """A score rule for one template. Raw scores are float64; NaN where the value is missing, +inf where the rule does not apply."""

    def __init__(self, bound: BoundPolicy, rule: CompiledScore, index: int, snapshot: Snapshot, points: PluginPoints | None = None) -> None:
        """`points` are those of Kubernetes' scores, if the rule reads some."""
        super().__init__(bound, rule, index, snapshot)
        self.domains = rule.plan.domains
        self._points = points

    def raw(self, snapshot: Snapshot, rows: Rows) -> NDArray[Any]:
        """The raw scores."""
        raw, state = self._bound.score(self._index, snapshot, rows)
        if not np.count_nonzero(state):
            return raw
        return ENCODED[state] + raw

    def affected(self, snapshot: Snapshot, changes: Changes, feasible: Mask, flipped: NDArray[np.intp]) -> Rows | None:
        """The rows on which something changed; all rows if a change of other rows may matter to the rule."""
        affected = self._affected(snapshot, changes)
        if self._points is None:
            return affected
        touched = self._points.follow(snapshot, changes, feasible, flipped)
        self._bound.use_points(self._points.columns)
        if affected is None:
            return touched
        return ALL if isinstance(affected, slice) or isinstance(touched, slice) else union(affected, touched)


class QuickPolicyScore(PreparedPolicyScore):
    """A score rule that can be evaluated on one node in plain Python."""

    def __init__(self, bound: BoundPolicy, rule: CompiledScore, index: int, snapshot: Snapshot) -> None:
        super().__init__(bound, rule, index, snapshot)
        self._one_row = bound.one_row

    def raw_at(self, snapshot: Snapshot, row: int) -> float:
        """The raw score of one node."""
        left_out = self._rule.metrics and self._bound.left_out(self._rule, snapshot)
        return math.inf if left_out else self._one_row.score(self._index, snapshot, row)


class PolicyFilter(FilterPlugin):
    """A filter rule as a plugin."""

    def __init__(self, policy: CompiledPolicy, index: int) -> None:
        super().__init__()
        self.policy = policy
        self._index = index
        self._rule = rule = policy.filters[index]
        self._kind = QuickPolicyFilter if is_quick(rule) else PreparedPolicyFilter
        self.name = f"{policy.name}/{rule.name}"
        self.origin = policy.name, rule.name
        self.filter_volatility = rule.volatility
        self._wakes = cluster_event.of_filter(policy, policy.policy.filters[index])
        self.wakes_on = self._wakes.events

    @property
    def operations(self) -> int:
        """The operations of the rule for each node, as estimated from its text."""
        return cost.of_compiled(self.policy).rules[self._index].operations

    def may_help(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:  # noqa: ARG002 — the extension point
        """True if the rule reads the changed objects or fields."""
        return self._wakes.concern(change)

    def prepare_filter(self, attempt: Attempt) -> PreparedFilter:
        """The rule, bound to the pod."""
        return self._kind(_bound(self.policy, attempt), self._rule, self._index, attempt.snapshot)


class PolicyScore(ScorePlugin):
    """A score rule as a plugin."""

    def __init__(self, policy: CompiledPolicy, index: int) -> None:
        super().__init__()
        self.policy = policy
        self._index = index
        self._rule = rule = policy.scores[index]
        self._kind = QuickPolicyScore if is_quick(rule) else PreparedPolicyScore
        self.name = f"{policy.name}/{rule.name}"
        self.origin = policy.name, rule.name
        self.score_volatility = rule.volatility
        self.plugins = rule.plugins
        self._sources: Mapping[str, ScoreTerm] = {}

    @property
    def operations(self) -> int:
        """The operations of the rule for each node, as estimated from its text."""
        return cost.of_compiled(self.policy).rules[len(self.policy.filters) + self._index].operations

    def reading(self, sources: Mapping[str, ScoreTerm]) -> PolicyScore:
        """The rule with Kubernetes' scores whose points it and other rules of a pod read, by name."""
        found = copy.copy(self)
        found._sources = sources  # noqa: SLF001 — its own copy
        return found

    def prepare_score(self, attempt: Attempt, feasible: Mask) -> PreparedScore:
        """The rule, bound to the pod."""
        bound = _bound(self.policy, attempt)
        if not self.plugins:
            return self._kind(bound, self._rule, self._index, attempt.snapshot)
        points = attempt.shared.once(PluginPoints, lambda: PluginPoints(self._sources))
        points.evaluate(attempt, feasible)
        bound.use_points(points.columns)
        return PreparedPolicyScore(bound, self._rule, self._index, attempt.snapshot, points)


class PolicyPermit(Plugin):
    """A `permit` as a plugin. It needs the cluster at the time of the call, not at the time when the pod was placed.

    `timed`: the answer may change with time alone. `common`: pods of one template get the same answer on all nodes.
    `revision`: that of the policy, and the number of the permit in it. `scanned`: the operations for each placed pod that an answer takes
    at once.
    """

    def __init__(self, policy: CompiledPolicy, index: int) -> None:
        super().__init__()
        self._policy = policy
        self._rule = rule = policy.permits[index]
        self._typed = permit = policy.policy.permits[index]
        self.revision = policy.revision, index
        self.name = f"{policy.name}/{rule.name}"
        self.origin = policy.name, rule.name
        self.timeout = rule.timeout
        self._wakes = cluster_event.of_filter(policy, permit)
        self.wakes_on = self._wakes.events
        conditions = [*([] if permit.when is None else [permit.when]), *(clause.condition for clause in permit.clauses)]
        lets = {let.name: let.value for let in policy.policy.lets}
        self.timed = bool(self._wakes.events & cluster_event.ClusterEvent.TIME)
        self.scanned = policy.scanned if self.timed else 0
        self.common = all(expr.type.shape <= Shape.POD for expr in conditions) and not reads_identity(conditions, lets)

    def may_help(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:  # noqa: ARG002 — the extension point
        """True if the rule reads the changed objects or fields."""
        return self._wakes.concern(change)

    def permission(self, placement: Placement, snapshot: Snapshot) -> Permission:
        """The permission to bind a placed pod; the pod itself counts among the placed ones.

        For a node that no longer exists, the bind reports the error.
        """
        row = snapshot.row(placement.node)
        if row is None:
            return Permission()
        bound = BoundPolicy(self._policy, placement.pod, snapshot, counted=True)
        refused = bool(bound.bits_of(self._rule, snapshot, np.array([row], dtype=np.intp))[0])
        return Permission(approved=not refused, wait_seconds=self.timeout if refused else 0.0)

    def message(self, placement: Placement, snapshot: Snapshot) -> str:
        """The reasons why a placed pod waits: the messages of the clauses that do not hold."""
        row = snapshot.row(placement.node)
        if row is None:
            return ""
        aggregates = BoundPolicy(self._policy, placement.pod, snapshot, counted=True).aggregates(self._rule, snapshot, row)
        interpreter = Interpreter(self._policy.policy, self._policy.params, placement.pod, snapshot, counted=True, aggregates=aggregates)
        answers = interpreter.filter(self._typed, row)
        refused = (clause for clause, answer in answers if answer is False or (answer is None and not clause.missing_passes))
        return "; ".join(interpreter.message(clause, row) for clause in refused)


class TieBreak:
    """One key of a policy's `tie_break`."""

    def __init__(self, policy: CompiledPolicy, index: int) -> None:
        self._policy = policy
        self._index = index
        self.policy = policy.name
        self._descending = policy.tie_break[index].descending

    @property
    def operations(self) -> int:
        """The operations of the key for each node, as estimated from its text."""
        before = self._policy.filters, self._policy.scores, self._policy.permits, self._policy.device_preferences
        return cost.of_compiled(self._policy).rules[sum(map(len, before)) + self._index].operations

    def best(self, attempt: Attempt, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """The rows of `rows` (not empty) with the best key, at least one; a missing key is the worst in either direction."""
        keys = _bound(self._policy, attempt).tie_key(self._index, attempt.snapshot, rows)
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
        self.filters = tuple(PolicyFilter(policy, index) for index in range(len(policy.filters)))
        self.scores = tuple(
            ScoreTerm(plugin=PolicyScore(policy, index), weight=rule.weight, tier=rule.tier, scale=PolicyScale(rule))
            for index, rule in enumerate(policy.scores)
            if rule.weight
        )
        self.permits = tuple(PolicyPermit(policy, index) for index in range(len(policy.permits)))
        self.tie_breaks = tuple(TieBreak(policy, index) for index in range(len(policy.tie_break)))

    @property
    def plugins(self) -> frozenset[str]:
        """The names of Kubernetes' scores whose points some rule reads."""
        return frozenset(plugin for term in self.scores if isinstance(term.plugin, PolicyScore) for plugin in term.plugin.plugins)

    def scores_reading(self, sources: Mapping[str, ScoreTerm]) -> list[ScoreTerm]:
        """The scores, those that read points of Kubernetes' scores with these."""
        return [
            replace(term, plugin=term.plugin.reading(sources)) if isinstance(term.plugin, PolicyScore) and term.plugin.plugins else term
            for term in self.scores
        ]

    def without(self, rule: str) -> PolicyRules:
        """The rules of the policy except for the filter of that name (`policy/rule`)."""
        rest = copy.copy(self)
        rest.filters = tuple(plugin for plugin in self.filters if plugin.name != rule)
        return rest

    def rows(self) -> list[tuple[str, str, str, str]]:
        """The policy's rows in the chain's table."""
        scored = [(term.plugin.name, "Score", f"{term.weight:g}", f"tier={term.tier}" if term.tier != 1 else "") for term in self.scores]
        evicting = [(f"{self.policy.name}/preemption", "PostFilter", "", "")] if self.policy.victims is not None else []
        permits = [(plugin.name, "Permit", "", f"timeout={plugin.timeout:g}s") for plugin in self.permits]
        return [*((plugin.name, "Filter", "", "") for plugin in self.filters), *scored, *evicting, *permits]


def operations_of(plugin: Plugin) -> int:
    """The operations of a rule of a policy for each node, as estimated from its text; 0 for plugins of other kinds."""
    return plugin.operations if isinstance(plugin, PolicyFilter | PolicyScore) else 0


def _bound(policy: CompiledPolicy, attempt: Attempt) -> BoundPolicy:
    """The policy bound to the pod, once per template."""
    return attempt.shared.once(policy, lambda: BoundPolicy(policy, attempt.pod, attempt.snapshot))


def read_in_steps(policies: Sequence[CompiledPolicy], pod: PodView, snapshot: Callable[[], Snapshot]) -> Generator[None]:
    """The steps of what the first decision about a pod reads for these policies: counts of placed pods, and columns that are kept."""
    for policy in policies:
        if policy.program.has_slow_reads:
            yield from BoundPolicy(policy, pod, snapshot()).read_in_steps(snapshot)


def compute_in_steps(  # noqa: PLR0913 — what it works on, and how
    policies: Sequence[CompiledPolicy],
    pod: PodView,
    shared: Shared,
    snapshot: Callable[[], Snapshot],
    call_timer: CallTimer,
    *,
    moved: bool,
) -> Generator[None, None, bool]:
    """The steps of computing what rules give for all nodes, with `moved` only those for which more than rows has changed.

    Those are rules that read the time, metrics, or counts of pods over domains. `call_timer` measures the steps.

    Returns True if the next decision has to compute only what has changed. Rules that read points of Kubernetes' scores are left out: these
    points depend on the feasible nodes.
    """
    complete = True
    for policy in policies:
        rules = [*policy.filters, *(score for score in policy.scores if score.weight and not score.plugins)]
        now = snapshot()  # another one than before the steps of the last policy
        bound = _bound(policy, Attempt(pod, now, shared))
        if moved:
            rules = [rule for rule in rules if rule.volatility >= Volatility.TIMED and bound.has_moved(rule, now)]
        if rules:
            yield from call_timer.of_steps(policy.name, bound.compute_in_steps(rules, snapshot))
            complete &= all(bound.is_precomputed(rule, snapshot()) or bound.left_out(rule, snapshot()) for rule in rules)
    return complete


def forget_columns(policies: Sequence[CompiledPolicy], shared: Shared) -> None:
    """Forget the intermediate columns of policy rules; they may be many times as large as the results."""
    for policy in policies:
        bound = shared.made_for(policy)
        if isinstance(bound, BoundPolicy):
            bound.forget_columns()
