"""Lowers typed expressions to the graph: the parts that all kinds of expressions share.

An expression becomes a value and, if it can be missing, a second node that is true where it is present.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wharfinger.compiler.graph import leaves, operations
from wharfinger.compiler.graph.ir import Graph, Node, Op, Rep, Stage, Value
from wharfinger.language.report.diagnostics import Span
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.intervals import Magnitudes

Forms = Mapping[type[typed.Expr], Callable[..., Value]]
"""The function that lowers an expression of a type, called with the lowering and the expression."""


class Lowering:
    """Lowers the expressions of one policy into one graph; `places` are source positions of selections, by the number of their node.

    `forms` has the function for each kind of expression. `given` is for the scope and the like, which are
    evaluated for a pod without a snapshot: the caller passes the `EvaluationContext`.
    """

    def __init__(self, policy: typed.Policy, graph: Graph, forms: Forms, *, given: bool = False) -> None:
        self.graph = graph
        self._forms = forms
        self.given = given
        self.places: dict[int, Span] = {}
        self.authority = policy.authority
        self.metrics = {metric.name: metric for metric in policy.metrics}
        self._magnitudes = Magnitudes({let.name: let.value for let in policy.lets})
        self._lets: dict[str, Value] = {}
        for let in policy.lets:  # each uses only earlier ones, so a long chain of lets does not recurse
            self._lets[let.name] = self(let.value)

    def __call__(self, expr: typed.Expr) -> Value:
        """The value of an expression; NaN is missing."""
        value = self._forms[type(expr)](self, expr)
        if value.node.rep is not Rep.FLOAT or not self._magnitudes.may_be_no_number(expr):
            return value
        number = self.graph.apply(operations.EQ, (value.node, value.node), Rep.BOOL)  # NaN is not equal to itself
        return Value(value.node, self.both(value.present, number))

    def let(self, name: str) -> Value:
        """The value of a let."""
        return self._lets[name]

    # ── small words ──

    def apply(self, op: Op, *args: Node, rep: Rep) -> Node:
        """An operation; strings among its operands are brought to one representation first."""
        stage = max(arg.stage for arg in args)
        if stage.of_columns:
            args = tuple(self.code(arg) for arg in args)
        elif stage is Stage.ITEM:
            args, rep = tuple(self.text(arg) for arg in args), Rep.TEXT if rep is Rep.CODE else rep
        return self.graph.apply(op, args, Rep.CODE if rep is Rep.TEXT and any(arg.rep is Rep.CODE for arg in args) else rep)

    def code(self, node: Node) -> Node:
        """A string as its code in string columns; other values unchanged."""
        if node.rep is not Rep.TEXT:
            return node
        return self.graph.apply(operations.CODE, (leaves.strings(self.graph), node), Rep.CODE)

    def text(self, node: Node) -> Node:
        """A string that is the same for all rows as plain text; other values unchanged."""
        if node.rep is not Rep.CODE:
            return node
        return self.graph.apply(operations.TEXT, (leaves.strings(self.graph), node), Rep.TEXT)

    def both(self, *presences: Node | None) -> Node | None:
        """A node that is true where all of them are present."""
        return leaves.both(self.graph, *presences)

    def negated(self, node: Node) -> Node:
        """The boolean opposite."""
        return self.graph.apply(operations.NOT, (node,), Rep.BOOL)

    def conjunction(self, *nodes: Node) -> Node:
        """A node that is true where all of them are true."""
        found = nodes[0]
        for node in nodes[1:]:
            found = self.graph.apply(operations.AND, (found, node), Rep.BOOL)
        return found

    def disjunction(self, *nodes: Node) -> Node:
        """A node that is true where one of them is true."""
        found = nodes[0]
        for node in nodes[1:]:
            found = self.graph.apply(operations.OR, (found, node), Rep.BOOL)
        return found

    def certainly(self, value: Value) -> Node:
        """A node that is true where a condition is present and true."""
        return value.node if value.present is None else self.conjunction(value.present, value.node)
