"""The cost of a policy's decisions, estimated before it decides: a pure function of its text, the same on every machine.

Four things are counted. *Operations per node*: how many numbers are computed for each node at each decision; columns that depend on node
objects and the pod's template alone are kept between decisions and not counted. *Operations per placed pod*: what is computed for every
placed pod because no index answers a selection. *Kept*: what is computed once and then kept, for each node (until its object changes) and
for each template of placed pods (while there are any). An operation on a column of nodes takes about 2 ns; one on a placed pod about 200
ns. *Instructions*: those of all regular expressions, each of which RE2 may run once for each different text, in about 4 ns for the name of
a node.

The limits are constants and not settings: a policy is accepted by every scheduler or by none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from msgspec import Struct, field

from wharfinger.builtins import texts
from wharfinger.compiler import pod_programs
from wharfinger.compiler import selections as selection_parts
from wharfinger.compiler.graph.ir import Module, Node, Stage, ordered
from wharfinger.compiler.graph.passes import optimized
from wharfinger.compiler.program import lowered_scope
from wharfinger.compiler.rules import PolicyRoots
from wharfinger.compiler.selections import Lookup
from wharfinger.compiler.weights import MATCHES_REGEX, TEXTS, item_operations, selection_weight, weight
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Diagnostics, PolicyError, Span
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.authority import Authority
from wharfinger.language.semantics.catalogue import Volatility

if TYPE_CHECKING:
    from wharfinger.compiler.program import CompiledPolicy

TYPICAL_PODS = 10_000  # in the example of messages


class Budget(Struct, frozen=True, kw_only=True):
    """The maximum cost of a policy.

    - `operations`, `kept`: for each node
    - `selections`: the number of different selections
    - `asked`: operations for each placed pod
    - `counted`: operations for each template of placed pods
    - `recounted`: the part of `counted` that is repeated for other templates of the pod to be placed
    - `evicting`: operations for each placed pod that may be evicted
    - `grouping`: operations for each pod that may be governed, or belong to a group
    - `instructions`: those of RE2 in all regular expressions
    """

    operations: int
    kept: int
    selections: int
    asked: int
    counted: int
    recounted: int
    evicting: int
    grouping: int
    instructions: int


# 10,000 operations are 100 ms at 5,000 nodes. Every placed pod may have another template, as those of StatefulSets and Jobs do: 10,000
# templates are 2 ms an operation. 10,000 instructions are 40 ms for 1,000 names that were not matched before.
CLUSTER_BUDGET = Budget(
    operations=10_000,
    kept=50_000,
    selections=500,
    asked=50,
    counted=2_500,
    recounted=250,
    evicting=500,
    grouping=1_000,
    instructions=10_000,
)
NAMESPACE_BUDGET = Budget(
    operations=2_000, kept=5_000, selections=50, asked=0, counted=1_000, recounted=100, evicting=100, grouping=200, instructions=5_000
)


def budget_of(authority: Authority) -> Budget:
    """The maximum cost of a policy with this authority."""
    return NAMESPACE_BUDGET if authority.restricted else CLUSTER_BUDGET


class Selected(Struct, frozen=True, kw_only=True):
    """One selection of placed pods: where it is written, how it is answered, and its operations for each pod.

    `captures`: it needs a value of the pod to be placed, so it is another selection for each such value.
    """

    span: Span
    lookup: Lookup
    operations: int
    captures: bool

    @property
    def asked(self) -> int:
        """The operations for each placed pod; 0 if counts are kept by template."""
        return self.operations if self.lookup in {Lookup.SCAN, Lookup.PODS} else 0

    @property
    def counted(self) -> int:
        """The operations for each template of placed pods; 0 if they are for each placed pod."""
        return 0 if self.asked else self.operations

    @property
    def recounted(self) -> int:
        """The operations for each template of placed pods that are repeated for other values of the pod to be placed."""
        return self.counted if self.captures else 0


class Pattern(Struct, frozen=True):
    """A regular expression: the rule that it is matched for, and its instructions of RE2."""

    span: Span
    instructions: int


class Amounts(Struct, frozen=True, kw_only=True):
    """The cost of some rules together.

    `operations` are per node at each decision, `kept` those computed only when a node object changes. `per_pod`: each pod is decided
    separately, and not once for all pods of its template.
    """

    operations: int
    kept: int
    selections: tuple[Selected, ...]
    per_pod: bool

    @property
    def asked(self) -> int:
        """The operations for each placed pod."""
        return sum(selection.asked for selection in self.selections)

    @property
    def counted(self) -> int:
        """The operations for each template of placed pods."""
        return sum(selection.counted for selection in self.selections)

    @property
    def recounted(self) -> int:
        """The part of `counted` that is repeated for other values of the pod to be placed."""
        return sum(selection.recounted for selection in self.selections)

    def amounts(self) -> dict[str, Any]:
        """The operations by purpose, under the keys of the JSON output."""
        return {
            "perNode": self.operations,
            "kept": self.kept,
            "perPlacedPod": self.asked,
            "perTemplate": self.counted,
            "decidedFor": "pod" if self.per_pod else "template",
        }


class RuleCost(Amounts, frozen=True, kw_only=True):
    """The cost of one rule, including operations that it shares with others."""

    rule: str
    span: Span


class Cost(Amounts, frozen=True, kw_only=True):
    """The cost of a policy: of each rule, and of all together, with shared operations counted once.

    - `evicting`: the operations of its `preemption`, for each placed pod that may be evicted
    - `grouping`: the operations of its scope and its `group`, for each pod whenever the pod changes
    - `scope`: the operations of its scope alone
    - `patterns`: the regular expressions of all of these and of its metrics; one that is matched with two different texts occurs twice
    """

    rules: tuple[RuleCost, ...]
    evicting: int
    grouping: int
    scope: int
    patterns: tuple[Pattern, ...]

    @property
    def instructions(self) -> int:
        """The instructions of all regular expressions."""
        return sum(pattern.instructions for pattern in self.patterns)


# ── the estimate ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def of_policy(policy: typed.Policy) -> Cost:
    """The cost of a policy for any values of its params."""
    roots = PolicyRoots(policy)
    return estimate(
        policy,
        optimized(roots.module, {}, selection_parts.split_selection),
        roots.groups,
        evicting=pod_programs.module_of_victims(policy, {}) if policy.victims else None,
        grouping=None if policy.group is None else pod_programs.module_of_group(policy, policy.group, {}),
        scope=lowered_scope(policy, {}),
    )


def of_compiled(policy: CompiledPolicy) -> Cost:
    """The cost of a compiled policy, with the values of its params; estimated once."""
    found = _ESTIMATES.get(policy)
    if found is None:
        found = _ESTIMATES[policy] = estimate(
            policy.policy,
            policy.program.module,
            policy.program.groups,
            evicting=None if policy.victims is None else policy.victims.module,
            grouping=None if policy.group is None else policy.group.module,
            scope=policy.scope,
        )
    return found


_ESTIMATES: WeakKeyDictionary[CompiledPolicy, Cost] = WeakKeyDictionary()


def estimate(  # noqa: PLR0913 — one parameter per kind of program
    policy: typed.Policy,
    module: Module,
    groups: Mapping[str, Sequence[str]],
    *,
    evicting: Module | None,
    grouping: Module | None,
    scope: Module | None,
) -> Cost:
    """The cost of a policy in its optimised form: its rules, `preemption`, `group` and scope. `groups` name the roots of each rule."""
    found = _Estimate(module)
    rules = [
        *((f"filter {i}", f"filter {rule.name}", rule.span, FILTER) for i, rule in enumerate(policy.filters)),
        *((f"score {i}", f"score {rule.name}", rule.span, SCORE) for i, rule in enumerate(policy.scores)),
        *((f"permit {i}", f"permit {rule.name}", rule.span, 0) for i, rule in enumerate(policy.permits)),
        *((f"device {i}", f"prefer device {rule.name}", rule.span, 0) for i, rule in enumerate(policy.device_preferences)),
        *((f"tie {i}", f"tie_break key {i + 1}", key.value.span, KEY) for i, key in enumerate(policy.tie_break)),
    ]
    costs = tuple(found.rule(title, span, [module.roots[name] for name in groups[group]], own) for group, title, span, own in rules)
    every = [module.roots[name] for group, _, _, _ in rules for name in groups[group]]
    own = sum(own for _, _, _, own in rules)
    whole = policy.filters[0].span if policy.filters else Span(policy.source, 0, 0)
    together = costs[0] if len(costs) == 1 else found.rule("", whole, every, own)
    plugins = tuple(_of_arguments(override) for override in policy.base if override.arguments)
    return Cost(
        rules=(*costs, *plugins),
        operations=together.operations + sum(plugin.operations for plugin in plugins),
        kept=together.kept,
        selections=together.selections,
        per_pod=together.per_pod,
        evicting=0 if evicting is None else item_operations(evicting.roots.values()),
        grouping=0 if grouping is None else _pod_operations(grouping.roots.values()),
        scope=0 if scope is None else _pod_operations(scope.roots.values()),
        patterns=(*found.patterns.values(), *_patterns_apart(policy, evicting, scope if grouping is None else grouping)),
    )


def _of_arguments(override: typed.BaseOverride) -> RuleCost:
    """The cost of a policy's arguments for a score of Kubernetes: each resource, constraint or term in them is computed for each node."""
    n_values, pending = 0, list[Any](override.arguments.values())
    while pending:
        value = pending.pop()
        n_values += not isinstance(value, dict | list)
        pending.extend(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())
    operations = ARGUMENT * n_values
    return RuleCost(rule=f"base {override.plugin}", span=override.span, operations=operations, kept=0, selections=(), per_pod=False)


def _patterns_apart(policy: typed.Policy, evicting: Module | None, pods: Module | None) -> Iterator[Pattern]:
    """The regular expressions of metrics, of `preemption`, and of `pods`: the scope, with the `group` if there is one."""
    for metric in policy.metrics:
        if metric.options.get("relabel") is not None:
            yield Pattern(metric.span, texts.instructions(metric.options["relabel"]))
    of_pods = next((part.span for part in (policy.group, policy.scope) if part is not None), None)
    for module, span in ((evicting, policy.victims[0].span if policy.victims else None), (pods, of_pods)):
        if module is not None and span is not None:
            yield from (Pattern(span, found) for node in ordered(module.roots.values()) if (found := _instructions(node)))


def _instructions(node: Node) -> int:
    """The instructions of the regular expression that a node matches texts with; 0 for any other node."""
    return texts.instructions(node.args[-1].value) if node.op.name in _MATCHING else 0


def _pod_operations(outputs: Iterable[Node]) -> int:
    """The number of operations of a program for one pod that is not placed."""
    return sum(_POD_TEXTS.get(node.op.name, 1) for node in ordered(outputs) if node.stage is Stage.POD)


class _Estimate(Struct):
    module: Module
    selections: dict[int, Selected] = field(default_factory=dict)
    patterns: dict[int, Pattern] = field(default_factory=dict)
    weights: dict[int, int] = field(default_factory=dict)

    def rule(self, title: str, span: Span, roots: Sequence[Node], own: int) -> RuleCost:
        """The cost of some roots, and `own` operations that the rule itself takes for each node."""
        needed = ordered(roots)
        nodes = [node for node in needed if node.stage.of_columns]
        operations = kept = 0
        for node in nodes:
            if node.number not in self.weights:
                self.weights[node.number] = weight(node)
            if _is_kept(node):
                kept += self.weights[node.number]
            else:
                operations += self.weights[node.number]
        keys = {node.op.topology for node in nodes if node.op.topology}
        of_pod = sum(_POD_TEXTS.get(node.op.name, 0) for node in needed if node.stage is Stage.POD)
        for node in needed:
            if node.number not in self.patterns and (instructions := _instructions(node)):
                self.patterns[node.number] = Pattern(span, instructions)
        return RuleCost(
            rule=title,
            span=span,
            operations=own + operations + of_pod,
            kept=kept + DOMAINS * len(keys),
            selections=tuple(self._selected(node) for node in nodes if selection_parts.is_selection(node)),
            per_pod=any(node.own for node in needed),
        )

    def _selected(self, node: Node) -> Selected:
        if node.number not in self.selections:
            self.selections[node.number] = Selected(
                span=self.module.places[node.number],
                lookup=selection_parts.lookup(node),
                operations=selection_weight(node),
                captures=any(capture.stage is Stage.POD for capture in selection_parts.captured_nodes(selection_parts.counted(node))),
            )
        return self.selections[node.number]


def _is_kept(node: Node) -> bool:
    """True if a column is kept between decisions: only node objects change it, and it is the same for all pods of a template."""
    return node.volatility is Volatility.STATIC and not node.own


FILTER = 10  # to keep the nodes that pass
SCORE = 20  # to normalise points, weigh them, and add them up
KEY = 10  # of a tie_break, to compare nodes by it
DOMAINS = 150  # of a topology key, from the labels of nodes
ARGUMENT = 10  # of a plugin, such as the weight of a resource that it scores
_MATCHING = frozenset({MATCHES_REGEX, "table matches_regex"})  # the expression is their last operand
_POD_TEXTS = dict.fromkeys(TEXTS, 10) | {MATCHES_REGEX: 100}


# ── messages ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def report(policy: typed.Policy, diagnostics: Diagnostics, cost: Cost | None = None) -> None:
    """Warn of slow parts of a policy, and refuse a policy that costs more than its authority allows."""
    cost = of_policy(policy) if cost is None else cost
    restricted, budget = policy.authority.restricted, budget_of(policy.authority)
    for selection in cost.selections:
        if selection.asked and (restricted or not _is_allowed(policy, selection.span)):
            _report_operations_per_pod(selection, diagnostics, refused=restricted)
    if cost.asked > budget.asked and not restricted:
        first = next(selection for selection in cost.selections if selection.asked)
        _refuse(diagnostics, first.span, f"takes {cost.asked:,} operations for every placed pod; {budget.asked:,} are allowed", _ASKED_HELP)
    if len(cost.selections) > budget.selections:
        span = cost.selections[budget.selections].span
        counts = f"counts {len(cost.selections):,} selections of pods; {budget.selections:,} are allowed"
        _refuse(diagnostics, span, counts, "count one selection in several places: name it with `let`")
    if cost.operations > budget.operations:
        most_costly = max(cost.rules, key=lambda rule: rule.operations)
        sentence = f"computes {cost.operations:,} numbers for each node; {budget.operations:,} are allowed"
        _refuse(diagnostics, most_costly.span, sentence, f"the rule that computes most is this one: {most_costly.operations:,}")
    if cost.kept > budget.kept:
        sentence = f"keeps {cost.kept:,} numbers for each node; {budget.kept:,} are allowed"
        _refuse(diagnostics, max(cost.rules, key=lambda rule: rule.kept).span, sentence, "functions of texts count most")
    if cost.counted > budget.counted:
        most_costly_selection = max(cost.selections, key=lambda selection: selection.counted)
        sentence = f"takes {cost.counted:,} operations for each template of placed pods; {budget.counted:,} are allowed"
        _refuse(diagnostics, most_costly_selection.span, sentence, f"this selection alone takes {most_costly_selection.counted:,}")
    if cost.recounted > budget.recounted:
        again = max(cost.selections, key=lambda selection: selection.recounted)
        sentence = (
            f"takes {cost.recounted:,} operations for each template of placed pods again when the pod to be placed has other values; "
            f"{budget.recounted:,} are allowed"
        )
        _refuse(diagnostics, again.span, sentence, f"this selection alone takes {again.recounted:,}: it compares with values of `pod`")
    if cost.instructions > budget.instructions:
        largest = max(cost.patterns, key=lambda pattern: pattern.instructions)
        sentence = f"has {cost.instructions:,} instructions of RE2 in its regular expressions; {budget.instructions:,} are allowed"
        help_ = f"the largest expression is matched here: {largest.instructions:,}; repetitions such as `{{1,30}}` count as if written out"
        _refuse(diagnostics, largest.span, sentence, help_)
    _report_programs_of_pods(policy, diagnostics, cost, budget)


def _report_programs_of_pods(policy: typed.Policy, diagnostics: Diagnostics, cost: Cost, budget: Budget) -> None:
    if cost.evicting > budget.evicting:
        sentence = f"takes {cost.evicting:,} operations for a pod that may be evicted; {budget.evicting:,} are allowed"
        _refuse(diagnostics, policy.victims[0].span, sentence, "`wharf check --cost` shows the cost of each part")
    if policy.group is not None and cost.grouping > budget.grouping:
        sentence = f"takes {cost.grouping:,} operations for each pod to find its group; {budget.grouping:,} are allowed"
        _refuse(diagnostics, policy.group.span, sentence, "functions of texts count most, here and in `for pods where`")
    elif policy.scope is not None and cost.scope > budget.grouping:
        sentence = f"takes {cost.scope:,} operations for each pod to find out if the policy governs it; {budget.grouping:,} are allowed"
        _refuse(diagnostics, policy.scope.span, sentence, "functions of texts count most; test membership with `in […]`")


def excess(cost: Cost, budget: Budget) -> str | None:
    """A sentence about the first amount of a cost that is above a budget, or None."""
    amounts = {
        "numbers for each node": (cost.operations, budget.operations),
        "numbers kept for each node": (cost.kept, budget.kept),
        "selections of pods": (len(cost.selections), budget.selections),
        "operations for each placed pod": (cost.asked, budget.asked),
        "operations for each template of placed pods": (cost.counted, budget.counted),
        "operations again for each template of placed pods": (cost.recounted, budget.recounted),
        "operations for each pod that may be evicted": (cost.evicting, budget.evicting),
        "operations for each pod to find its group": (cost.grouping, budget.grouping),
        "operations for each pod to find whether it is governed": (cost.scope, budget.grouping),
        "instructions of RE2 in regular expressions": (cost.instructions, budget.instructions),
    }
    return next((f"{much:,} {what}, of which {limit:,} are allowed" for what, (much, limit) in amounts.items() if much > limit), None)


_ASKED_HELP = (
    "counts are kept where `it` is compared for equality with `pod.name` or `pod.uid`, or in any way with what all pods of a template "
    "share (`pod.labels`, `pod.priority`)"
)


def affordable(policy: CompiledPolicy) -> CompiledPolicy:
    """The policy itself; raises PolicyError if it costs more than its authority allows."""
    diagnostics = Diagnostics()
    report(policy.policy, diagnostics, of_compiled(policy))
    if diagnostics.has_errors:
        raise PolicyError(diagnostics)
    return policy


def _is_allowed(policy: typed.Policy, span: Span) -> bool:
    """True if `@allow` silences the warning about a selection."""
    return any(Code.L501.name in codes and (whole is None or _holds(whole, span)) for whole, codes in policy.allowed)


def _holds(whole: Span, span: Span) -> bool:
    return whole.source is span.source and whole.start <= span.start < whole.end


def _refuse(diagnostics: Diagnostics, span: Span, what: str, help_: str) -> None:
    diagnostics.error(Code.P610, f"this policy costs too much to decide: it {what}", span, help=help_)


def _report_operations_per_pod(selection: Selected, diagnostics: Diagnostics, *, refused: bool) -> None:
    each = "for each pod that is decided" if selection.lookup is Lookup.SCAN else "when it is first used"
    steps = "operation" if selection.operations == 1 else "operations"
    about = f"about {TYPICAL_PODS:,} pods × {selection.operations} {steps} on a cluster of {TYPICAL_PODS:,} pods"
    label = "no index answers this" if selection.lookup is Lookup.SCAN else "differs between pods of one template"
    code = Code.P610 if refused else Code.L501
    diagnostics.error(code, f"this reads every placed pod {each}: {about}", selection.span, label=label, help=_ASKED_HELP)
