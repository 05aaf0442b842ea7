"""Text to syntax tree, with every mistake of the text reported and the rest of it kept.

A mistake is repaired where it is clear what was meant (`=` for `==`, a bracket left open, a misspelled keyword). Where it is not, the
parser goes on at the next line that begins with the keyword of something it can be in.
"""

from __future__ import annotations

from wharfinger.language import ast, grammar, holes
from wharfinger.language.assembly import Assembly
from wharfinger.language.diagnostics import Diagnostics
from wharfinger.language.lexer import Lexer, Token
from wharfinger.language.recovery import Recovery
from wharfinger.language.shift_reduce import ShiftReduce
from wharfinger.language.source import Source
from wharfinger.language.syntax_steps import SyntaxTree


def parse(source: Source, diagnostics: Diagnostics) -> ast.File | None:
    """The syntax tree of a file, without the items that could not be read; None where limits are broken or nothing is left.

    Never raises because of the text: whatever is wrong with it is in `diagnostics` afterwards.
    """
    lexer = Lexer(source, diagnostics)
    tokens = lexer.read()
    if lexer.over_limit:
        return None
    engine = ShiftReduce(SyntaxTree(source, diagnostics), "start")
    recovery = Recovery(engine, source, tokens, diagnostics)
    end = Token(grammar.END, "", len(source.text), len(source.text))
    recovery.run(end)
    return Assembly(source, diagnostics).file(engine.values[-1])


def parse_message(message: ast.String, diagnostics: Diagnostics) -> tuple[str | ast.Expr, ...]:
    """The parts of a message in order: plain text, and the expressions of its holes with their own places in the file.

    `{{` and `}}` stand for braces. A hole that cannot be read is reported and left out.
    """
    source, start, end = message.span.source, message.span.start + 1, message.span.end - 1
    parts: list[str | ast.Expr] = []
    for piece in holes.pieces(source, start, end, diagnostics):
        if isinstance(piece, str):
            parts.append(piece)
        elif (expression := parse_expression(source, piece.start, piece.end, diagnostics)) is not None:
            parts.append(expression)
    return tuple(parts)


def parse_expression(source: Source, start: int, end: int, diagnostics: Diagnostics) -> ast.Expr | None:
    """The expression that the characters `start` to `end` of a source hold, or None when they hold none."""
    before = len(diagnostics)
    lexer = Lexer(source, diagnostics, start, end)
    tokens = lexer.read()
    if lexer.over_limit:
        return None
    engine = ShiftReduce(SyntaxTree(source, diagnostics), "expression")
    Recovery(engine, source, tokens, diagnostics).run(Token(grammar.END, "", end, end))
    expression = engine.values[-1] if engine.values and len(diagnostics) == before else None
    return expression if isinstance(expression, ast.Expr) else None
