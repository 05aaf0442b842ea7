"""Passes over the graph before it is scheduled: simplification, folding, and where arithmetic can leave the finite numbers.

Each rule looks at one node whose operands have been through all rules, and returns a node to put in its place. So one walk over the graph
is enough: a param is a constant by the time its sum is visited, and the sum is a constant by the time the curve is. Common subexpressions
need no pass: the graph is hash-consed.

The difference of two infinities, the product of 0 and infinity and the quotient of two infinities are NaN: such a value is missing. If the
operands are known to be finite, nothing needs to be checked, which is nearly always the case: what nodes offer and pods request is below
2^64, and a product of attributes needs a dozen factors to reach infinity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from wharfinger.compiler.graph import leaves, operations
from wharfinger.compiler.graph.ir import CONST, Graph, Module, Node, Rep, Stage, ordered
from wharfinger.language.semantics import bounds, typed
from wharfinger.language.semantics.bounds import CARRY, FINITE, LARGEST, UNKNOWN, Magnitude, either
from wharfinger.language.semantics.operators import OPERATORS
from wharfinger.language.semantics.types import NUMERIC

ATTRIBUTE: Final = Magnitude(-64.0, 64.0)  # int64 amounts, and times in seconds
COUNTED: Final = 40.0  # no cluster has 2 ** 40 pods

Rule = Callable[[Graph, Node, tuple[Node, ...]], Node | None]


def optimized(module: Module, params: Mapping[str, Any], *more: Rule) -> Module:
    """The module after all rules and `more`; the first rule that replaces a node counts."""

    def substitute(graph: Graph, node: Node, _: tuple[Node, ...]) -> Node | None:
        """Params with a value become constants."""
        return graph.const(params[node.value], node.rep) if node.op is leaves.PARAM and node.value in params else None

    return rewrite(module, (substitute, simplify, fold_constants, fix_curves, *more))


def rewrite(module: Module, rules: Sequence[Rule]) -> Module:
    """The module with the first replacement that `rules` return for (graph, node, new operands), operands first."""
    graph, done = Graph(), dict[int, Node]()
    for node in ordered(module.roots.values()):
        args = tuple([done[arg.number] for arg in node.args])
        for rule in rules:
            instead = rule(graph, node, args)
            if instead is not None:
                break
        done[node.number] = again(graph, node, args) if instead is None else instead
    places = {done[number].number: place for number, place in module.places.items() if number in done}
    return Module(graph=graph, roots={name: done[node.number] for name, node in module.roots.items()}, places=places)


def again(graph: Graph, node: Node, args: tuple[Node, ...]) -> Node:
    """The same operation on other operands."""
    if node.op is CONST:
        return graph.const(node.value, node.rep)
    if not args:
        return graph.leaf(node.op, node.stage, node.rep, volatility=node.volatility, value=node.value)
    # An operation that reads the cluster runs at RUN whatever its operands are. One without a form for columns is evaluated for each placed
    # pod where no operand depends on the pod any more.
    stays = node.op.scalar is None or (node.op.vector is None and any(arg.stage is Stage.RUN for arg in args))
    at = node.stage if stays else None
    return graph.apply(node.op, args, node.rep, at=at, volatility=node.volatility)


def simplify(graph: Graph, node: Node, args: tuple[Node, ...]) -> Node | None:
    """The replacement of a boolean operation with one constant operand."""
    simple = _BOOLEAN.get(node.op.name)
    return None if simple is None else simple(graph, args)


def fold_constants(graph: Graph, node: Node, args: tuple[Node, ...]) -> Node | None:
    """The result of an operation on constants."""
    if not args or node.op.scalar is None:
        return None
    for arg in args:
        if arg.op is not CONST:
            return None
    return graph.const(node.op.scalar(*[arg.value for arg in args]), node.rep)


def fix_curves(graph: Graph, node: Node, args: tuple[Node, ...]) -> Node | None:
    """A curve with known points in place of one whose points were params."""
    if node.op is not operations.CURVE or any(point.op is not CONST for point in args[1:]):
        return None
    return graph.apply(operations.curve([point.value for point in args[1:]]), args[:1], Rep.FLOAT)


def _simple_and(_: Graph, args: tuple[Node, ...]) -> Node | None:
    return _joined(args, neutral=True)


def _simple_or(_: Graph, args: tuple[Node, ...]) -> Node | None:
    return _joined(args, neutral=False)


def _joined(args: tuple[Node, ...], *, neutral: bool) -> Node | None:
    """What remains of two conditions if one is constant or both are the same; the constant `neutral` changes nothing."""
    for one, other in (args, args[::-1]):
        if one.op is CONST:
            return other if one.value is neutral else one
    return args[0] if args[0] is args[1] else None


def _simple_not(graph: Graph, args: tuple[Node, ...]) -> Node | None:
    if args[0].op is CONST:
        return graph.const(not args[0].value, Rep.BOOL)
    return args[0].args[0] if args[0].op is operations.NOT else None


def _simple_where(_: Graph, args: tuple[Node, ...]) -> Node | None:
    condition, then, otherwise = args
    if condition.op is CONST:
        return then if condition.value else otherwise
    return then if then is otherwise else None


_BOOLEAN: dict[str, Callable[[Graph, tuple[Node, ...]], Node | None]] = {
    operations.AND.name: _simple_and,
    operations.OR.name: _simple_or,
    operations.NOT.name: _simple_not,
    operations.WHERE.name: _simple_where,
}


# ── where arithmetic can leave the finite numbers ────────────────────────────────────────────────────────────────────────────────────


class Magnitudes:
    """The magnitudes of the expressions of one policy."""

    def __init__(self, lets: Mapping[str, typed.Expr]) -> None:
        self._lets = lets
        self._found: dict[int, Magnitude] = {}  # by the id of an expression, which the policy references
        self._by_let: dict[str, Magnitude] = {}

    def of(self, expr: typed.Expr) -> Magnitude:
        """The magnitude of an expression; UNKNOWN if it is not a number."""
        if expr.type.kind not in NUMERIC:
            return UNKNOWN
        found = self._found.get(id(expr))
        if found is None:
            found = self._found[id(expr)] = self._of(expr)
        return found

    def may_be_no_number(self, expr: typed.Expr) -> bool:
        """True if an operation, curve, call or aggregate can give NaN although all its operands are numbers."""
        match expr:
            case typed.Operation(op=typed.Op.ADD | typed.Op.SUB | typed.Op.DIV):
                return not any(self.of(operand).finite for operand in expr.operands)
            case typed.Operation(op=typed.Op.MUL):
                return not all(self.of(operand).finite for operand in expr.operands)
            case typed.Curve():
                return not self._slopes(expr).finite
            case typed.Call():
                arguments = [argument for argument in (*expr.arguments, *expr.named.values()) if argument.type.kind in NUMERIC]
                return not expr.function.never_nan and any(self.of(argument).most > LARGEST / 2 for argument in arguments)
            case typed.Aggregate(value=typed.Expr() as value):
                return not self.of(value).finite
        return False

    def _of(self, expr: typed.Expr) -> Magnitude:
        found = FINITE  # params and metrics
        match expr:
            case typed.Const():
                found = bounds.of_number(float(expr.value))
            case typed.LetRef():
                if expr.name not in self._by_let:
                    self._by_let[expr.name] = self.of(self._lets[expr.name])
                found = self._by_let[expr.name]
            case typed.AttributeRef():
                found = ATTRIBUTE
            case typed.Operation():
                rule = OPERATORS[expr.op].magnitude
                found = UNKNOWN if rule is None else rule(*map(self.of, expr.operands))
            case typed.If() | typed.Lookup():
                found = self._of_choice(expr)
            case typed.Curve():
                found = either(*(self.of(y) for _, y in expr.points)) if self._slopes(expr).finite else UNKNOWN
            case typed.Call():
                found = self._of_call(expr)
            case typed.Aggregate():
                found = self._of_aggregate(expr)
        return found

    def _of_choice(self, expr: typed.If | typed.Lookup) -> Magnitude:
        if isinstance(expr, typed.If):
            return either(self.of(expr.then), self.of(expr.otherwise))
        return either(*map(bounds.of_number, expr.entries.values))

    def _slopes(self, curve: typed.Curve) -> Magnitude:
        xs, ys = (either(*(self.of(point[place]) for point in curve.points)) for place in (0, 1))
        across = xs + either(xs, self.of(curve.x))
        return (ys + ys) / (xs + xs) * across

    def _of_call(self, call: typed.Call) -> Magnitude:
        arguments = [self.of(argument) for argument in (*call.arguments, *call.named.values()) if argument.type.kind in NUMERIC]
        if call.function.magnitude is not None:
            return call.function.magnitude(*arguments)
        return FINITE if all(argument.most <= LARGEST / 2 for argument in arguments) else UNKNOWN

    def _of_aggregate(self, expr: typed.Aggregate) -> Magnitude:
        if expr.value is None:
            return Magnitude(0.0, COUNTED)
        value = self.of(expr.value)
        if expr.reduction in {typed.Reduction.MIN, typed.Reduction.MAX}:
            return value
        total = bounds.bounded(value.least - CARRY, value.most + COUNTED)
        return total if expr.reduction is typed.Reduction.SUM else total / Magnitude(0.0, COUNTED)
