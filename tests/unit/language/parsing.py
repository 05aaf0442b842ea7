"""Short ways to parse in tests."""

from wharfinger.language import ast
from wharfinger.language.format_expressions import one_line
from wharfinger.language.parse.parser import parse, parse_expression
from wharfinger.language.report.diagnostics import Diagnostics, Source


def source(text):
    return Source(name="example.policy", text=text)


def parsed(text):
    """The file and the findings of a text."""
    diagnostics = Diagnostics()
    return parse(source(text), diagnostics), diagnostics


def expression(text):
    """The expression in a text that has no mistakes."""
    diagnostics = Diagnostics()
    found = parse_expression(source(text), 0, len(text), diagnostics)
    assert not list(diagnostics)
    return found


def grouped(expr):  # noqa: PLR0911  # one case per kind
    """An expression with parentheses around every operation."""
    match expr:
        case ast.Binary():
            return f"({grouped(expr.left)} {expr.op.value} {grouped(expr.right)})"
        case ast.Unary(op=ast.UnaryOp.NOT):
            return f"(not {grouped(expr.operand)})"
        case ast.Unary():
            return f"(-{grouped(expr.operand)})"
        case ast.If():
            return f"(if {grouped(expr.condition)} then {grouped(expr.then)} else {grouped(expr.otherwise)})"
        case ast.Selection(where=where) if where:
            return f"(pods where {grouped(where)})"
        case ast.Call():
            arguments = [f"{part.name}: {grouped(part.value)}" if part.name else grouped(part.value) for part in expr.arguments]
            return f"{expr.function}({', '.join(arguments)})"
    return one_line(expr)


def codes(diagnostics):
    """The codes of findings in order."""
    return [diagnostic.code.name for diagnostic in diagnostics]
