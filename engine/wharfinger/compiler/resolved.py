"""From typed rules to compiled ones: every weight, spread and number of points worked out, every rule's volatility known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.compiler import reads
from wharfinger.compiler.ir import CONST, Stage
from wharfinger.compiler.normalize import default_spread
from wharfinger.compiler.roots import BitMeaning
from wharfinger.compiler.rules import BaseWeight, Bit, CompiledFilter, CompiledScore, CompiledTieKey
from wharfinger.compiler.schedule import Program
from wharfinger.errors import UsageError
from wharfinger.language import typed
from wharfinger.language.catalogue import Volatility
from wharfinger.language.source import Span

HEAVIEST = 1e9  # times 100 points, a float64 still tells millionths apart: the default quantum


class Resolved:
    """The compiled rules of one policy."""

    def __init__(self, policy: typed.Policy, program: Program, bits: list[list[BitMeaning]]) -> None:
        self._program = program
        self._lets: Mapping[str, typed.Expr] = {let.name: let.value for let in policy.lets}
        self.filters = tuple(self._filter(f"filter {i}", rule, bits[i]) for i, rule in enumerate(policy.filters))
        self.scores = tuple(self._score(f"score {i}", rule) for i, rule in enumerate(policy.scores))
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
        if not weight <= HEAVIEST:
            raise UsageError(f"{span}: the weight is {weight:g}; the heaviest is {HEAVIEST:g}, beyond which totals lose their last points")
        return weight

    def _common(self, group: str, name: str, span: Span, *exprs: typed.Expr | None) -> dict[str, Any]:
        parts, guard = self._program.groups[group], f"{group} when"
        metrics = frozenset(metric for expr in exprs if expr is not None for metric in reads.metrics_read(expr, self._lets))
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

    def _filter(self, group: str, rule: typed.Filter, bits: list[BitMeaning]) -> CompiledFilter:
        return CompiledFilter(
            **self._common(group, rule.name, rule.span, rule.when, *(clause.condition for clause in rule.clauses)),
            bits=tuple(Bit(clause, missing, self._volatility(f"{group} {k}")) for k, (clause, missing) in enumerate(bits)),
            clauses=rule.clauses,
        )

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
        )

    def _tie_key(self, group: str, key: typed.TieKey) -> CompiledTieKey:
        return CompiledTieKey(**self._common(group, group, key.value.span, key.value), descending=key.descending)

    def _base(self, name: str, entry: typed.BaseOverride) -> BaseWeight:
        weight = None if entry.weight is None else self._weight(name, entry.weight.span)
        return BaseWeight(plugin=entry.plugin, span=entry.span, weight=weight, arguments=entry.arguments)
