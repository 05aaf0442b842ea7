"""Expressions back to text, on one line where they fit and broken at their outermost operator where they do not.

Parentheses are written where the grammar needs them, and in two cases for readability: around what `not` negates, and around `a ?? b`
inside another operation. So the text of a tree is always the same, however it was written.
"""

from __future__ import annotations

from collections.abc import Sequence

from wharfinger.language import ast
from wharfinger.language.ast import BinaryOp
from wharfinger.language.parse import grammar
from wharfinger.language.parse.tokens import MAX_NAME_LENGTH
from wharfinger.language.semantics.describe import quoted

WIDTH = 120
INDENT = "  "
LOOSEST, OR, AND, NOT, COMPARE, COALESCE, SUM, PRODUCT, SIGN, TIGHTEST = range(10)
BINDING = {
    BinaryOp.OR: OR,
    BinaryOp.AND: AND,
    BinaryOp.COALESCE: COALESCE,
    BinaryOp.ADD: SUM,
    BinaryOp.SUB: SUM,
    BinaryOp.MUL: PRODUCT,
    BinaryOp.DIV: PRODUCT,
}


Field = ast.ObjectField | ast.PluginArgument


def one_line(expr: ast.Expr) -> str:
    """The expression on one line."""
    return _Layout().line(expr)


def pretty(expr: ast.Expr, before: int, indent: str, after: int = 0) -> str:
    """The expression, with `before` characters before it and `after` characters after it on its line.

    On several lines if it is too long.
    """
    return _Layout().pretty(expr, before, indent, after)


def pretty_object(fields: Sequence[Field], before: int, indent: str) -> str:
    """An object, with one field a line where it does not fit."""
    return _Layout().pretty_object(fields, before, indent)


class _Layout:
    """One expression as text. Each part is written on one line once, however often it is tried whether the parts around it fit."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: dict[int, str] = {}  # by the identity of the part

    def line(self, expr: ast.Expr) -> str:
        """The expression on one line."""
        match expr:
            case ast.Number():
                return expr.digits + expr.unit
            case ast.String():
                return string(expr)
            case ast.Boolean():
                return "true" if expr.value else "false"
            case ast.Name():
                return expr.name
        found = self._lines.get(id(expr))
        if found is None:
            found = self._lines[id(expr)] = self._joined(expr)
        return found

    def _joined(self, expr: ast.Expr) -> str:
        """An expression that has parts, on one line."""
        match expr:
            case ast.Member():
                return f"{self._inside(expr.base, TIGHTEST)}.{expr.field}"
            case ast.Index():
                return f"{self._inside(expr.base, TIGHTEST)}[{self.line(expr.key)}]"
            case ast.Call():
                return f"{_called(expr)}({', '.join(self._argument(a) for a in expr.arguments)})"
            case ast.SetLiteral() | ast.Table() | ast.ObjectLiteral():
                return self._bracketed(expr)
            case _:
                return self._operation(expr)

    def _bracketed(self, expr: ast.SetLiteral | ast.Table | ast.ObjectLiteral) -> str:
        if isinstance(expr, ast.ObjectLiteral):
            return self._object(expr.fields)
        if isinstance(expr, ast.SetLiteral):
            return f"[{', '.join(self.line(item) for item in expr.items)}]"
        return f"{{ {', '.join(self._entry(one) for one in expr.entries)} }}" if expr.entries else "{}"

    def _operation(self, expr: ast.Expr) -> str:
        match expr:
            case ast.Unary(op=ast.UnaryOp.NOT):
                return f"not {self._inside(expr.operand, SIGN)}"
            case ast.Unary():
                return f"-{self._inside(expr.operand, SIGN)}"
            case ast.Binary():
                return f"{self._side(expr.left, expr, left=True)} {expr.op.value} {self._side(expr.right, expr, left=False)}"
            case ast.If():
                return f"if {self.line(expr.condition)} then {self.line(expr.then)} else {self.line(expr.otherwise)}"
            case ast.Selection():
                return f"{expr.of} where {self.line(expr.where)}" if expr.where else expr.of
        raise TypeError(f"no expression of a policy: {expr!r}")

    def _inside(self, expr: ast.Expr, least: int) -> str:
        text = self.line(expr)
        return text if _binding(expr) >= least else f"({text})"

    def _side(self, operand: ast.Expr, outer: ast.Binary, *, left: bool) -> str:
        """An operand, parenthesised where it binds less tightly; `??` groups to the right and everything else to the left."""
        fallback = isinstance(operand, ast.Binary) and operand.op is BinaryOp.COALESCE and outer.op is not BinaryOp.COALESCE
        return self._inside(operand, TIGHTEST if fallback else _least(outer, left=left))

    def _argument(self, part: ast.Argument) -> str:
        """One argument of a call, on one line."""
        if part.to is not None:
            return f"{self.line(part.value)} -> {self.line(part.to)}"
        return f"{part.name}: {self.line(part.value)}" if part.name else self.line(part.value)

    def _entry(self, part: ast.TableEntry) -> str:
        """One entry of a table, on one line."""
        return f"{self.line(part.key)}: {self.line(part.value)}"

    def _object(self, fields: Sequence[Field]) -> str:
        """`{ a: 1, b: 2 }`."""
        found = self._lines.get(id(fields))
        if found is None:
            inner = ", ".join(f"{key(field.name)}: {self._value(field)}" for field in fields)
            found = self._lines[id(fields)] = f"{{ {inner} }}" if inner else "{}"
        return found

    def _value(self, field: Field) -> str:
        return self.line(field.value) if isinstance(field.value, ast.Expr) else self._object(field.value)

    # ── more than one line ──

    def pretty(self, expr: ast.Expr, before: int, indent: str, after: int = 0) -> str:
        """The expression on one line if it fits, else on several."""
        text = self.line(expr)
        return text if before + len(text) + after <= WIDTH else self._broken(expr, text, before, indent)

    def _broken(self, expr: ast.Expr, text: str, before: int, indent: str) -> str:  # noqa: PLR0911  # one case per kind
        """The expression with its further lines deeper than `indent`; `text` where there is nothing to break it at."""
        deeper = indent + INDENT
        match expr:
            case ast.Binary(op=BinaryOp.AND | BinaryOp.OR):
                parts = [self._part(part, expr, deeper) for part in _chain(expr)]
                return f"\n{deeper}{expr.op.value} ".join(parts)
            case ast.Call() if expr.arguments:
                return f"{_called(expr)}({''.join(self._argument_line(a, deeper) for a in expr.arguments)}\n{indent})"
            case ast.Table() if expr.entries:
                return f"{{{''.join(f'{chr(10)}{deeper}{self._entry(one)},' for one in expr.entries)}\n{indent}}}"
            case ast.Index(base=ast.Table() as table):
                return f"{self.pretty(table, before, indent, WIDTH)}[{self.line(expr.key)}]"
            case ast.SetLiteral() if any(isinstance(item, ast.ObjectLiteral) for item in expr.items):
                lines = (f"{deeper}{self.pretty(item, len(deeper), deeper, 1)}," for item in expr.items)
                return "[\n" + "\n".join(lines) + f"\n{indent}]"
            case ast.ObjectLiteral():
                return self.pretty_object(expr.fields, before, indent)
            case ast.SetLiteral() if expr.items:
                return f"[{_filled([self.line(item) for item in expr.items], deeper)}\n{indent}]"
            case ast.If():
                then, otherwise = self.pretty(expr.then, len(deeper) + 5, deeper), self.pretty(expr.otherwise, len(deeper) + 5, deeper)
                return f"if {self.line(expr.condition)}\n{deeper}then {then}\n{deeper}else {otherwise}"
            case ast.Selection(where=where) if where:
                return f"{expr.of} where {self.pretty(where, before + len(expr.of) + 7, indent)}"
        return text

    def pretty_object(self, fields: Sequence[Field], before: int, indent: str) -> str:
        """An object, with one field a line where it does not fit."""
        text = self._object(fields)
        if before + len(text) <= WIDTH or not fields:
            return text
        deeper = indent + INDENT
        lines = []
        for field in fields:
            head = f"{deeper}{key(field.name)}: "
            value = field.value
            shown = self.pretty(value, len(head), deeper) if isinstance(value, ast.Expr) else self.pretty_object(value, len(head), deeper)
            lines.append(f"{head}{shown},")
        return "{\n" + "\n".join(lines) + f"\n{indent}}}"

    def _part(self, part: ast.Expr, chain: ast.Binary, indent: str) -> str:
        if _binding(part) > BINDING[chain.op] and _binding(part) != COALESCE:
            return self.pretty(part, len(indent) + len(chain.op.value) + 1, indent)
        return f"({self.line(part)})"

    def _argument_line(self, part: ast.Argument, indent: str) -> str:
        head = f"{part.name}: " if part.name else ""
        value = self._argument(part) if part.to is not None else head + self.pretty(part.value, len(indent) + len(head), indent, 1)
        return f"\n{indent}{value},"


def _called(expr: ast.Call) -> str:
    return expr.function if expr.library is None else f"{expr.library}.{expr.function}"


def _binding(expr: ast.Expr) -> int:
    """The binding strength of an expression's operator."""
    match expr:
        case ast.Binary():
            return BINDING.get(expr.op, COMPARE)
        case ast.Unary(op=ast.UnaryOp.NOT):
            return NOT
        case ast.Unary():
            return SIGN
        case ast.If() | ast.Selection():
            return LOOSEST
    return TIGHTEST


def _least(expr: ast.Binary, *, left: bool) -> int:
    own = BINDING.get(expr.op, COMPARE)
    if own == COMPARE:
        return SUM
    if own == COALESCE:
        return SUM if left else COALESCE
    return own if left else own + 1


def _chain(expr: ast.Binary) -> list[ast.Expr]:
    """The operands of a chain of one operator, first to last."""
    parts: list[ast.Expr] = []
    left: ast.Expr = expr
    while isinstance(left, ast.Binary) and left.op is expr.op:
        parts.append(left.right)
        left = left.left
    return [left, *reversed(parts)]


def _filled(parts: Sequence[str], indent: str) -> str:
    """The parts, as many per line as fit."""
    found, width = list[str](), WIDTH
    for part in parts:
        width += len(part) + 2
        if width <= WIDTH:
            found.append(f" {part},")
        else:
            found.append(f"\n{indent}{part},")
            width = len(indent) + len(part) + 1
    return "".join(found)


def string(text: ast.String) -> str:
    """A string in double quotes, or in single quotes if that avoids escapes; a string with both kinds inside keeps its quotes.

    The quotes of a message matter: strings in its placeholders have the other kind, and placeholders have no escapes.
    """
    value = text.value
    quote = '"'
    if '"' in value:
        quote = text.span.text[:1] if "'" in value else "'"
    return quoted(value, quote)


def name(text: str) -> str:
    """A name of a test object, in quotes unless it is a plain word."""
    return text if _is_word(text) and text not in grammar.terminals().reserved else quoted(text)


def key(text: str) -> str:
    """A name before a colon, where every word is allowed."""
    return text if _is_word(text) else quoted(text)


def _is_word(text: str) -> bool:
    return text.isascii() and text.isidentifier() and len(text) <= MAX_NAME_LENGTH
