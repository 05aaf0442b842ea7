"""Passes over the graph, in the order in which they run.

Sharing is not among them: the graph is hash-consed, so equal subexpressions are one node before and after every pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from wharfinger.compiler import leaves, ops
from wharfinger.compiler.ir import CONST, Graph, Module, Node, Rep, Stage, ordered

Rule = Callable[[Graph, Node, tuple[Node, ...]], Node | None]
Pass = Callable[[Module, Mapping[str, Any]], Module]


def rewrite(module: Module, rule: Rule) -> Module:
    """The module with `rule(graph, node, new operands)` in place of each node, operands first; None keeps the node."""
    graph, done = Graph(), dict[int, Node]()
    for node in ordered(module.roots.values()):
        args = tuple(done[arg.number] for arg in node.args)
        done[node.number] = rule(graph, node, args) or again(graph, node, args)
    return Module(graph=graph, roots={name: done[node.number] for name, node in module.roots.items()})


def again(graph: Graph, node: Node, args: tuple[Node, ...]) -> Node:
    """The same operation on other operands."""
    if node.op is CONST:
        return graph.const(node.value, node.rep)
    if not args:
        return graph.leaf(node.op, node.stage, node.rep, volatility=node.volatility, value=node.value)
    # An operation that reads the cluster runs at RUN whatever its operands are.
    at = node.stage if node.op.scalar is None else None
    return graph.apply(node.op, args, node.rep, at=at, volatility=node.volatility)


def substitute_params(module: Module, params: Mapping[str, Any]) -> Module:
    """Params become constants."""

    def rule(graph: Graph, node: Node, _: tuple[Node, ...]) -> Node | None:
        return graph.const(params[node.value], node.rep) if node.op is leaves.PARAM else None

    return rewrite(module, rule)


def fold_constants(module: Module, _: Mapping[str, Any]) -> Module:
    """Operations on constants are carried out, and boolean operations with one constant operand disappear."""

    def rule(graph: Graph, node: Node, args: tuple[Node, ...]) -> Node | None:
        if node.op in _BOOLEAN:
            return _BOOLEAN[node.op](graph, args)
        if args and node.op.scalar is not None and all(arg.stage is Stage.CONST for arg in args):
            return graph.const(node.op.scalar(*(arg.value for arg in args)), node.rep)
        return None

    return rewrite(module, rule)


def _simple_and(_: Graph, args: tuple[Node, ...]) -> Node | None:
    for one, other in (args, args[::-1]):
        if one.op is CONST:
            return other if one.value else one
    return args[0] if args[0] is args[1] else None


def _simple_or(_: Graph, args: tuple[Node, ...]) -> Node | None:
    for one, other in (args, args[::-1]):
        if one.op is CONST:
            return one if one.value else other
    return args[0] if args[0] is args[1] else None


def _simple_not(graph: Graph, args: tuple[Node, ...]) -> Node | None:
    if args[0].op is CONST:
        return graph.const(not args[0].value, Rep.BOOL)
    return args[0].args[0] if args[0].op is ops.NOT else None


def _simple_where(_: Graph, args: tuple[Node, ...]) -> Node | None:
    condition, then, otherwise = args
    if condition.op is CONST:
        return then if condition.value else otherwise
    return then if then is otherwise else None


_BOOLEAN: dict[Any, Callable[[Graph, tuple[Node, ...]], Node | None]] = {
    ops.AND: _simple_and,
    ops.OR: _simple_or,
    ops.NOT: _simple_not,
    ops.WHERE: _simple_where,
}


def fix_curves(module: Module, _: Mapping[str, Any]) -> Module:
    """Curves whose points are known by now become one interpolation."""

    def rule(graph: Graph, node: Node, args: tuple[Node, ...]) -> Node | None:
        if node.op is not ops.CURVE or any(point.stage is not Stage.CONST for point in args[1:]):
            return None
        return graph.apply(ops.fixed_curve([point.value for point in args[1:]]), args[:1], Rep.FLOAT)

    return rewrite(module, rule)


PASSES: tuple[Pass, ...] = (
    substitute_params,  # first: what follows is about constants
    fold_constants,
    fix_curves,  # after folding, which may make a point constant
)


def optimized(module: Module, params: Mapping[str, Any]) -> Module:
    """The module after all passes."""
    for transform in PASSES:
        module = transform(module, params)
    return module
