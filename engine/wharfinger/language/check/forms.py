"""An expression of the syntax tree to a typed one: the door through which every form of expression is checked.

Each form has one function, registered for the class of its node by the module that knows about it (`literals`, `references`, `operators`,
`calls`, …), so that the modules need not know each other. A function reports what is wrong in its own form and answers with an expression
of unknown kind, so that one mistake is one finding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from wharfinger.language import ast, typed
from wharfinger.language.check.context import Context, type_text
from wharfinger.language.codes import Code
from wharfinger.language.types import Kind

Form = Callable[[Context, Any], typed.Expr]
_FORMS: dict[type[ast.Expr], Form] = {}
F = TypeVar("F", bound=Form)


def form(node: type[ast.Expr]) -> Callable[[F], F]:
    """A decorator that registers the function which types expressions of this class."""

    def register(function: F) -> F:
        _FORMS[node] = function
        return function

    return register


def infer(context: Context, expr: ast.Expr) -> typed.Expr:
    """The typed form of an expression at the context's place."""
    return _FORMS[type(expr)](context, expr)


def condition(context: Context, expr: ast.Expr, after: str) -> typed.Expr:
    """The typed form of an expression that must be a bool, because it stands after that word."""
    found = infer(context, expr)
    if found.type.kind in (Kind.BOOL, Kind.UNKNOWN):
        return found
    missing = found.type.optional
    help_ = (
        f"to ask whether it is there, write `has({expr.span.text})`"
        if missing
        else "compare it with something, for example with `==` or `>`"
    )
    message = f"{after} needs a condition, not {type_text(found.type)}"
    return context.error(Code.P205, message, expr.span, label=type_text(found.type), help=help_)
