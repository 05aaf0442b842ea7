"""Every rule of a policy lowered into one graph, and the names under which its parts are asked for.

For rule number i: `filter i when`, `filter i k` (bit k), `score i value|present|when|weight|spread|points`, `tie i
value|present`, `base i`.
"""

from __future__ import annotations

from wharfinger.compiler.ir import Graph, Module, Node
from wharfinger.compiler.lower import Lowering
from wharfinger.language import typed

MOST_BITS = 64  # a filter's answer for one node is one uint64
BitMeaning = tuple[int | None, bool]


class PolicyRoots:
    """The roots of one policy.

    `groups` lists the names that are computed together, `bits` for each filter what its bits mean: (number of the clause,
    whether it is missing).
    """

    def __init__(self, policy: typed.Policy) -> None:
        self._graph = Graph()
        self._lower = Lowering(policy, self._graph)
        self._roots: dict[str, Node] = {}
        self.groups: dict[str, list[str]] = {}
        self.bits: list[list[BitMeaning]] = []
        for i, rule in enumerate(policy.filters):
            self._filter(f"filter {i}", rule)
        for i, score in enumerate(policy.scores):
            self._score(f"score {i}", score)
        for i, key in enumerate(policy.tie_break):
            self._value(f"tie {i}", key.value)
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

    def _filter(self, group: str, rule: typed.Filter) -> None:
        self.groups[group] = []
        fails: list[tuple[Node, int | None, bool]] = []
        for number, clause in enumerate(rule.clauses):
            fails += [(node, number, missing) for node, missing in self._fails(clause)]
        if len(fails) > MOST_BITS:
            rest = self._lower.disjunction(*(node for node, _, _ in fails[MOST_BITS - 1 :]))
            fails = [*fails[: MOST_BITS - 1], (rest, None, False)]
        for k, (node, _, _) in enumerate(fails):
            self._root(group, str(k), node)
        self.bits.append([(number, missing) for _, number, missing in fails])
        self._guard(group, rule.when)

    def _fails(self, clause: typed.Clause) -> list[tuple[Node, bool]]:
        """Where a clause is false (False) and, if missing rejects, where it is missing (True); in the order of the rule's bits."""
        condition = self._lower(clause.condition)
        false = self._lower.negated(condition.node)
        if condition.present is None:
            return [(false, False)]
        # A clause that says nothing of missing values has none, but for arithmetic that leaves the numbers.
        missing = [] if clause.missing_passes else [(self._lower.negated(condition.present), True)]
        return [(self._lower.conjunction(condition.present, false), False), *missing]

    def _guard(self, group: str, when: typed.Expr | None) -> None:
        if when is not None:
            self._root(group, "when", self._lower.certainly(self._lower(when)))

    def _score(self, group: str, rule: typed.Score) -> None:
        self._value(group, rule.value)
        self._guard(group, rule.when)
        self._constant(f"{group} weight", rule.weight)
        self._constant(f"{group} spread", rule.min_spread)
        self._constant(f"{group} points", rule.missing_points)

    def _value(self, group: str, expr: typed.Expr) -> None:
        value = self._lower(expr)
        self._root(group, "value", value.node)
        if value.present is not None:
            self._root(group, "present", value.present)
