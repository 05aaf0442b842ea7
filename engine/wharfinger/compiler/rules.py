"""Compiled rules: their records, their graph (`PolicyRoots`), and their compilation with all numbers resolved (`CompiledRules`).

The parts of rule number i are roots of the graph with these names: `filter i when`, `filter i k` (bit k), `score i
value|present|when|weight|spread|points`, `tie i value|present`, `base i`. The `plan` of a compiled rule computes its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from wharfinger.builtins.texts import TextOrder
from wharfinger.builtins.texts import ordered as ordered_version
from wharfinger.compiler import reads
from wharfinger.compiler.graph.ir import CONST, Graph, Module, Node, Stage
from wharfinger.compiler.graph.lower import lowering_of
from wharfinger.compiler.normalize import default_spread
from wharfinger.compiler.schedule import Plan, Program
from wharfinger.errors import UsageError
from wharfinger.language.ast import MissingAction, Normalize
from wharfinger.language.report.diagnostics import Span
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.language.semantics.types import Kind

MAX_BITS = 64  # a filter's answer for one node is one uint64
BitMeaning = tuple[int | None, bool]
DEFAULT_TIMEOUT = 300.0
"""Seconds that a placed pod, or a group, waits where a policy does not say."""
MAX_WEIGHT = 1e9  # times 100 points, float64 still distinguishes millionths, the default quantum


class Bit(Struct, frozen=True):
    """One way to fail a filter: a clause that is false, or (`missing`) one whose missing value rejects the node.

    A `clause` of None means all clauses beyond the 64 bits.
    """

    clause: int | None
    missing: bool
    volatility: Volatility


class Rule(Struct, frozen=True, kw_only=True):
    """The common base of filters, scores and tie keys; each of the `metrics` that it uses may suspend it.

    `plan` computes the rule's parts; if the rule is `guarded`, its last output is true where the rule applies. A guard that reads the pod
    alone is in the register `pod_guard` instead.
    """

    name: str
    span: Span
    plan: Plan
    volatility: Volatility
    metrics: frozenset[str]
    pod_guard: int | None
    guarded: bool
    optional: bool  # the second output is true where the first is present


class CompiledFilter(Rule, frozen=True, kw_only=True):
    """A filter; bit k of its result is `bits[k]`."""

    bits: tuple[Bit, ...]
    clauses: tuple[typed.Clause, ...]


class CompiledAggregate(Struct, frozen=True):
    """An aggregate over placed pods, and the registers of its value and of its presence; None if it is always present."""

    expr: typed.Aggregate
    value: int
    present: int | None


class CompiledPermit(CompiledFilter, frozen=True, kw_only=True):
    """A `permit`: a filter that is evaluated for the chosen node, for at most `timeout` seconds.

    `counts` computes its `aggregates` over placed pods, with those of its messages: the value of each, and whether it is present if that
    is not certain.
    """

    timeout: float
    counts: Plan
    aggregates: tuple[CompiledAggregate, ...]


class CompiledScore(Rule, frozen=True, kw_only=True):
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


class CompiledDevicePreference(Rule, frozen=True, kw_only=True):
    """A `prefer device`; its value has one entry per device."""


class CompiledTieKey(Rule, frozen=True, kw_only=True):
    """A key of the tie break; `texts` is the order of the values if they are texts or versions, and not numbers."""

    descending: bool
    texts: TextOrder | None


class BaseWeight(Struct, frozen=True, kw_only=True):
    """The settings of a policy for one score plugin of Kubernetes; a weight of None does not change the weight."""

    plugin: str
    span: Span
    weight: float | None
    arguments: Mapping[str, Any]


class PolicyRoots:
    """The roots of one policy.

    `groups` lists the roots that are computed together, `bits` for each filter the meaning of its bits: (number of the clause, whether it
    is missing).
    """

    def __init__(self, policy: typed.Policy) -> None:
        self._graph = Graph()
        self._lower = lowering_of(policy, self._graph)
        self._roots: dict[str, Node] = {}
        self.groups: dict[str, list[str]] = {}
        self.bits = [self._filter(f"filter {i}", rule) for i, rule in enumerate(policy.filters)]
        self.permit_bits = [self._filter(f"permit {i}", permit) for i, permit in enumerate(policy.permits)]
        for i, permit in enumerate(policy.permits):
            self._constant(f"permit {i} timeout", permit.timeout)
            self._counts(f"permit {i} counts", aggregates_of(policy, permit))
        for i, score in enumerate(policy.scores):
            self._score(f"score {i}", score)
        for i, preference in enumerate(policy.device_preferences):
            self._value(f"device {i}", preference.value)
            self._guard(f"device {i}", preference.when)
        for i, key in enumerate(policy.tie_break):
            self._tie_key(f"tie {i}", key.value)
        for i, entry in enumerate(policy.base):
            self._constant(f"base {i}", entry.weight)

    @property
    def module(self) -> Module:
        """The graph with its roots, not yet optimised."""
        return Module(graph=self._graph, roots=self._roots, places=self._lower.places)

    def _root(self, group: str, part: str, node: Node) -> None:
        self._roots[f"{group} {part}"] = node
        self.groups.setdefault(group, []).append(f"{group} {part}")

    def _constant(self, name: str, expr: typed.Expr | None) -> None:
        if expr is not None:
            self._roots[name] = self._lower(expr).node

    def _filter(self, group: str, rule: typed.Filter) -> list[BitMeaning]:
        self.groups[group] = []
        fails: list[tuple[Node, int | None, bool]] = []
        for number, clause in enumerate(rule.clauses):
            fails += [(node, number, missing) for node, missing in self._fails(clause)]
        if len(fails) > MAX_BITS:
            rest = self._lower.disjunction(*(node for node, _, _ in fails[MAX_BITS - 1 :]))
            fails = [*fails[: MAX_BITS - 1], (rest, None, False)]
        for k, (node, _, _) in enumerate(fails):
            self._root(group, str(k), node)
        self._guard(group, rule.when)
        return [(number, missing) for _, number, missing in fails]

    def _fails(self, clause: typed.Clause) -> list[tuple[Node, bool]]:
        """The masks of a clause that is false (False) and, if missing rejects, missing (True), in the order of the bits."""
        condition = self._lower(clause.condition)
        false = self._lower.negated(condition.node)
        if condition.present is None:
            return [(false, False)]
        # A clause without `on missing` has no missing values, except where arithmetic gives NaN.
        missing = [] if clause.missing_passes else [(self._lower.negated(condition.present), True)]
        return [(self._lower.conjunction(condition.present, false), False), *missing]

    def _counts(self, group: str, aggregates: Sequence[typed.Aggregate]) -> None:
        self.groups[group] = []
        for number, aggregate in enumerate(aggregates):
            value = self._lower(aggregate)
            self._root(group, f"{number} value", value.node)
            if value.present is not None:
                self._root(group, f"{number} present", value.present)

    def _guard(self, group: str, when: typed.Expr | None) -> None:
        if when is not None:
            self._root(group, "when", self._lower.certainly(self._lower(when)))

    def _score(self, group: str, rule: typed.Score) -> None:
        self._value(group, rule.value)
        self._guard(group, rule.when)
        self._constant(f"{group} weight", rule.weight)
        self._constant(f"{group} spread", rule.min_spread)
        self._constant(f"{group} points", rule.missing_points)

    def _tie_key(self, group: str, expr: typed.Expr) -> None:
        """A key that is a text becomes its code, also where it is the same for all nodes."""
        self._value(group, expr, self._lower.code)

    def _value(self, group: str, expr: typed.Expr, brought: Callable[[Node], Node] = lambda node: node) -> None:
        value = self._lower(expr)
        self._root(group, "value", brought(value.node))
        if value.present is not None:
            self._root(group, "present", value.present)


class CompiledRules:
    """The compiled rules of one policy, with all weights, spreads and points as numbers."""

    def __init__(self, policy: typed.Policy, program: Program, roots: PolicyRoots) -> None:
        self._program = program
        self._policy = policy
        self._lets: Mapping[str, typed.Expr] = {let.name: let.value for let in policy.lets}
        self.filters = tuple(CompiledFilter(**self._filter(f"filter {i}", rule, roots.bits[i])) for i, rule in enumerate(policy.filters))
        self.permits = tuple(self._permit(f"permit {i}", permit, roots.permit_bits[i]) for i, permit in enumerate(policy.permits))
        self.scores = tuple(self._score(f"score {i}", rule) for i, rule in enumerate(policy.scores))
        self.device_preferences = tuple(
            CompiledDevicePreference(**self._common(f"device {i}", rule.name, rule.span, rule.when, rule.value))
            for i, rule in enumerate(policy.device_preferences)
        )
        self.tie_break = tuple(self._tie_key(f"tie {i}", key) for i, key in enumerate(policy.tie_break))
        self.base = tuple(self._base(f"base {i}", entry) for i, entry in enumerate(policy.base))

    def _volatility(self, name: str) -> Volatility:
        return self._program.module.roots[name].volatility

    def _constant(self, name: str) -> float:
        node = self._program.module.roots[name]
        if node.op is not CONST:
            raise TypeError(f"{name} is not constant")
        return float(node.value)

    def _weight(self, name: str, span: Span) -> float:
        weight = self._constant(name)
        if not weight <= MAX_WEIGHT:
            raise UsageError(f"{span}: the weight is {weight:g}; the maximum is {MAX_WEIGHT:g}, beyond which totals lose their last points")
        return weight

    def _common(self, group: str, name: str, span: Span, *exprs: typed.Expr | None) -> dict[str, Any]:
        parts, guard = self._program.groups[group], f"{group} when"
        metrics = reads.metrics_read([expr for expr in exprs if expr is not None], self._lets)
        runs = guard in parts and self._program.module.roots[guard].stage is Stage.RUN
        return {
            "name": name,
            "span": span,
            "plan": self._program.plans[group],
            "volatility": max((*map(self._volatility, parts), Volatility.TIMED if metrics else Volatility.STATIC)),
            "metrics": metrics,
            "pod_guard": self._program.registers[guard] if guard in parts and not runs else None,
            "guarded": runs,
            "optional": f"{group} present" in parts,
        }

    def _filter(self, group: str, rule: typed.Filter, bits: list[BitMeaning]) -> dict[str, Any]:
        return {
            **self._common(group, rule.name, rule.span, rule.when, *(clause.condition for clause in rule.clauses)),
            "bits": tuple(Bit(clause, missing, self._volatility(f"{group} {k}")) for k, (clause, missing) in enumerate(bits)),
            "clauses": rule.clauses,
        }

    def _permit(self, group: str, rule: typed.Permit, bits: list[BitMeaning]) -> CompiledPermit:
        timeout = timeout_of(self._program.module.roots.get(f"{group} timeout"), rule.span)
        counts, registers = f"{group} counts", self._program.registers
        aggregates = tuple(
            CompiledAggregate(each, registers[f"{counts} {number} value"], registers.get(f"{counts} {number} present"))
            for number, each in enumerate(aggregates_of(self._policy, rule))
        )
        plan = self._program.plans[counts]
        return CompiledPermit(**self._filter(group, rule, bits), timeout=timeout, counts=plan, aggregates=aggregates)

    def _score(self, group: str, rule: typed.Score) -> CompiledScore:
        return CompiledScore(
            **self._common(group, rule.name, rule.span, rule.when, rule.value),
            tier=rule.tier,
            weight=self._weight(f"{group} weight", rule.weight.span),
            normalize=rule.normalize,
            min_spread=default_spread(rule.value.type.kind) if rule.min_spread is None else self._constant(f"{group} spread"),
            on_missing=rule.on_missing,
            missing_points=0.0 if rule.missing_points is None else min(max(self._constant(f"{group} points"), 0.0), 100.0),
            value=rule.value,
            plugins=reads.plugins_read([expr for expr in (rule.when, rule.value) if expr is not None], self._lets),
        )

    def _tie_key(self, group: str, key: typed.TieKey) -> CompiledTieKey:
        kind = key.value.type.kind
        order = TextOrder(ordered_version if kind is Kind.VERSION else None) if kind in {Kind.STRING, Kind.VERSION} else None
        return CompiledTieKey(**self._common(group, group, key.value.span, key.value), descending=key.descending, texts=order)

    def _base(self, name: str, entry: typed.BaseOverride) -> BaseWeight:
        weight = None if entry.weight is None else self._weight(name, entry.weight.span)
        return BaseWeight(plugin=entry.plugin, span=entry.span, weight=weight, arguments=entry.arguments)


def aggregates_of(policy: typed.Policy, rule: typed.Filter) -> tuple[typed.Aggregate, ...]:
    """The aggregates over placed pods in the conditions and messages of a rule."""
    exprs = [] if rule.when is None else [rule.when]
    for clause in rule.clauses:
        exprs += [clause.condition, *(part for part in clause.message.parts if isinstance(part, typed.Expr))]
    return reads.aggregates_of_pods(exprs, {let.name: let.value for let in policy.lets})


def timeout_of(found: Node | None, span: Span) -> float:
    """The seconds of a compiled timeout, or the default without one; UsageError if params made it one that no author may write."""
    if found is None:
        return DEFAULT_TIMEOUT
    seconds = float(found.value)
    if not 0 < seconds <= typed.MAX_TIMEOUT:
        raise UsageError(f"{span}: the timeout is {seconds:g} s; it is longer than 0 and at most {typed.MAX_TIMEOUT:g} s")
    return seconds
