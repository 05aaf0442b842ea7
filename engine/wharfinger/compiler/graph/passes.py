"""Passes over the graph before it is scheduled: simplification and folding.

Each rule looks at one node whose operands have been through all rules, and returns a node to put in its place. So one walk over the graph
is enough: a param is a constant by the time its sum is visited, and the sum is a constant by the time the curve is. Common subexpressions
need no pass: the graph is hash-consed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wharfinger.compiler.graph import leaves, operations
from wharfinger.compiler.graph.ir import CONST, Graph, Module, Node, Rep, Stage, ordered

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
    # An operation that reads the cluster runs at RUN, for any operands. One without a form for columns is evaluated for each placed
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
    """Two joined conditions, simplified if one is constant or both are the same; the constant `neutral` changes nothing."""
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
