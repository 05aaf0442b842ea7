"""Calls of builtins to the graph.

A builtin that is missing by itself (`ratio` by zero) returns its value and presence together, as a pair that is taken apart here. Calls on
what is known of the pod alone use the scalar reference, calls on nodes the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from wharfinger.builtins import by_code
from wharfinger.builtins.context import AtMoment
from wharfinger.compiler import leaves, ops
from wharfinger.compiler.ir import Node, Op, Rep, Stage, Value
from wharfinger.language import typed
from wharfinger.language.catalogue import Function, Volatility
from wharfinger.model.strings import StringTable

if TYPE_CHECKING:
    from wharfinger.compiler.lower import Lowering


def lower_call(lowering: Lowering, expr: typed.Call) -> Value:
    """The value of a call."""
    function = expr.function
    arguments = [_argument(lowering, function, argument) for argument in (*expr.arguments, *expr.named.values())]
    present = lowering.both(*(argument.present for argument in arguments))
    nodes = [argument.node for argument in arguments]
    about_a_pod = lowering.given_time or any(node.stage is Stage.ITEM for node in nodes)
    if function.context and not about_a_pod:
        return _unpacked(lowering, expr, _framed(lowering, expr, nodes), present)
    if about_a_pod or not any(node.stage is Stage.RUN for node in nodes):
        return _unpacked(lowering, expr, _scalar(lowering, expr, nodes), present)
    if isinstance(function.vector, by_code.Kernel):
        return _textual(lowering, expr, nodes, present)
    return _unpacked(lowering, expr, _vector(lowering, expr, nodes), present)


def _argument(lowering: Lowering, function: Function, argument: typed.Expr) -> Value:
    if function.context and isinstance(argument, typed.MetricRef):
        return Value(lowering.graph.const(lowering.metrics[argument.name].key, Rep.OBJECT))
    return lowering(argument)


def _names(expr: typed.Call) -> tuple[str, ...]:
    return tuple(expr.named)


def _with_names(function: Any, expr: typed.Call) -> Any:
    """The function with its last arguments passed by name."""
    names = _names(expr)
    if not names:
        return function

    def call(*arguments: Any) -> Any:
        return function(*arguments[: -len(names)], **dict(zip(names, arguments[-len(names) :], strict=True)))

    return call


def can_be_absent(expr: typed.Call) -> bool:
    """Whether the function may be missing although all its arguments are present."""
    return expr.function.result(tuple(argument.type.present() for argument in expr.arguments)).optional


def _run_rep(expr: typed.Call) -> Rep:
    """What the kernel of a call returns: values, or a pair of values and presence."""
    return Rep.OBJECT if can_be_absent(expr) else leaves.rep_of(expr.type, Stage.RUN)


def _framed(lowering: Lowering, expr: typed.Call, nodes: list[Node]) -> Node:
    """A call that reads the cluster."""
    call = _with_names(expr.function.vector, expr)
    op = Op(
        name=f"call {expr.function.name}",
        vector=call,
        row=_at_row(expr, nodes),
        framed=True,
        of_pod=True,
        timed=expr.function.volatility is Volatility.TIMED,
        hazardous=True,
        key=_names(expr),
    )
    return lowering.graph.apply(op, nodes, _run_rep(expr), at=Stage.RUN, volatility=expr.function.volatility)


def _vector(lowering: Lowering, expr: typed.Call, nodes: list[Node]) -> Node:
    """A call on columns that reads nothing but them."""
    row = _at_row(expr, nodes)
    op = Op(name=f"call {expr.function.name}", vector=_with_names(expr.function.vector, expr), row=row, hazardous=True, key=_names(expr))
    return lowering.graph.apply(op, [lowering.code(node) for node in nodes], _run_rep(expr))


def _at_row(expr: typed.Call, nodes: list[Node]) -> Callable[..., Any] | None:
    """The form for one row: the function's own, or its scalar reference; None where that takes or gives selections, metrics or texts."""
    rep = _run_rep(expr)
    if expr.function.row is not None:
        call: Callable[..., Any] = _with_names(expr.function.row, expr)
    elif any(node.rep in {Rep.OBJECT, Rep.CODE} for node in nodes) or leaves.rep_of(expr.type, Stage.RUN) is Rep.CODE:
        return None
    else:
        call = _with_names(expr.function.scalar, expr)
    if rep is not Rep.OBJECT:
        return call

    def pair(*arguments: Any) -> tuple[Any, bool]:
        found = call(*arguments)
        return (0.0, False) if found is None else (found, True)

    return pair


def _scalar(lowering: Lowering, expr: typed.Call, nodes: list[Node]) -> Node:
    """A call on plain values; a builtin with a context is told the time."""
    call = _with_names(expr.function.scalar, expr)
    name = f"call {expr.function.name}"
    if not expr.function.context:
        return lowering.graph.apply(Op(name=name, scalar=call, key=("scalar", *_names(expr))), nodes, Rep.OBJECT)
    op = Op(name=name, scalar=lambda at, *arguments: call(AtMoment(at), *arguments), key=("moment", *_names(expr)))
    return lowering.graph.apply(op, [leaves.now(lowering.graph, given=lowering.given_time), *nodes], Rep.OBJECT)


def _unpacked(lowering: Lowering, expr: typed.Call, call: Node, present: Node | None) -> Value:
    """The value and presence of a finished call."""
    if call.rep is not Rep.OBJECT:
        return Value(call, present)
    rep = leaves.rep_of(expr.type, call.stage)
    own = lowering.graph.apply(ops.KNOWN, (call,), Rep.BOOL) if can_be_absent(expr) else None
    return Value(lowering.graph.apply(ops.given(rep), (call,), rep), lowering.both(present, own))


def _on_columns(kernel: by_code.Kernel, columns: list[int]) -> Callable[..., Any]:
    """The kernel, told which of its arguments are codes; one code for all rows is a column too."""

    def call(strings: StringTable, *arguments: Any) -> Any:
        return kernel(strings, *(np.asarray(argument) if index in columns else argument for index, argument in enumerate(arguments)))

    return call


def _textual(lowering: Lowering, expr: typed.Call, nodes: list[Node], present: Node | None) -> Value:
    """A function of texts: of one column, a lookup by code; of several, the kernel itself."""
    kernel = cast("by_code.Kernel", expr.function.vector)
    rep = leaves.rep_of(expr.type, Stage.RUN)
    table_of = leaves.strings(lowering.graph)
    columns = [index for index, node in enumerate(nodes) if node.stage is Stage.RUN]
    if len(columns) > 1 or nodes[columns[0]].rep is not Rep.CODE:
        op = Op(name=f"call {expr.function.name}", vector=_on_columns(kernel, columns), key=tuple(columns))
        pair = lowering.graph.apply(op, (table_of, *nodes), Rep.OBJECT)
        own = lowering.graph.apply(ops.KNOWN, (pair,), Rep.BOOL) if can_be_absent(expr) else None
        return Value(lowering.graph.apply(ops.given(rep), (pair,), rep), lowering.both(present, own))
    column = columns[0]
    make = Op(name=f"table {expr.function.name}", scalar=lambda strings, *rest: kernel.table(strings, column, *rest), key=column)
    table = lowering.graph.apply(make, (table_of, *(node for index, node in enumerate(nodes) if index != column)), Rep.OBJECT)
    own = lowering.graph.apply(ops.LOOKUP_PRESENT, (table, nodes[column]), Rep.BOOL) if can_be_absent(expr) else None
    return Value(lowering.graph.apply(ops.LOOKUP, (table, nodes[column]), rep), lowering.both(present, own))
