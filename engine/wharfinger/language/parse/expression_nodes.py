"""Lark's trees of expressions and objects to nodes of the syntax tree: one method per production of `grammar/policy.lark`.

A method gets the values of its parts in order: tokens, nodes, or None for an optional part that was left out. Words that the grammar
takes as plain names, so that a message can list the words there are (`minmax`, `neutral`), are looked up here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from lark.visitors import Transformer_NonRecursive
from msgspec.structs import replace

from wharfinger.language import ast
from wharfinger.language.parse.tokens import Token
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Diagnostics, Label, Source, Span
from wharfinger.language.report.wording import closest
from wharfinger.language.semantics.types import ESCAPES

Choice = TypeVar("Choice")

NORMALIZE = {method.value: method for method in ast.Normalize}
CLAUSE_MISSING = {"pass": ast.MissingAction.PASS, "reject": ast.MissingAction.REJECT}
VICTIM_MISSING = {"evict": ast.MissingAction.EVICT, "keep": ast.MissingAction.KEEP}
DISRUPTION = {"group": True, "pod": False}
SCORE_MISSING = {"neutral": ast.MissingAction.NEUTRAL, "skip": ast.MissingAction.SKIP}

NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+(?![A-Za-z0-9_%]))?)(.*)")
ESCAPE = re.compile(r"\\(.)")
Node = TypeVar("Node")
OPERATORS = {operator.value: operator for operator in ast.BinaryOp}


def choice_of(diagnostics: Diagnostics, choices: Mapping[str, Choice], word: str, span: Span, place: str) -> Choice:
    """The choice a word names; where it names none, the likeliest one with a finding. `place` reads like "after `normalize`"."""
    if word in choices:
        return choices[word]
    near = closest(word, choices)
    listed = ", ".join(f"`{choice}`" for choice in choices)
    help_ = f"did you mean `{near}`?" if near else f"there are {listed}"
    diagnostics.error(Code.P111, f"`{word}` is not allowed {place}", span, label=f"one of {listed}", help=help_, suggestion=near)
    return choices[near or list(choices)[-1]]


def repeated(diagnostics: Diagnostics, word: str, first: Span, second: Span) -> None:
    """Report a part that occurs twice."""
    others = (Label(first, "first given here"),)
    diagnostics.error(Code.P112, f"`{word}` is given twice", second, label="given again", others=others, help="keep one of the two")


def no_repeated_fields(diagnostics: Diagnostics, fields: Sequence[ast.ObjectField]) -> None:
    """Report each field of an object that was there before."""
    seen: dict[str, Span] = {}
    for field in fields:
        if field.name in seen:
            repeated(diagnostics, field.name, seen[field.name], field.span)
        seen.setdefault(field.name, field.span)


def underscore(diagnostics: Diagnostics, span: Span) -> None:
    """Report digits grouped with `_`."""
    plain = span.text.replace("_", "")
    diagnostics.error(Code.P109, "digits are not grouped with `_`", span, help=f"write `{plain}`", suggestion=plain)


def not_for_scores(diagnostics: Diagnostics, span: Span) -> None:
    """Report `pass` or `reject` in the `on missing` of a score."""
    help_ = "a score gives points where the value is missing, or `neutral` (the mean of the others) or `skip` (leave the rule out there)"
    diagnostics.error(Code.P111, f"`{span.text}` is not allowed after `on missing` of a score", span, help=help_)


def production(method: Callable[..., Node]) -> Callable[[Any, list[Any]], Node]:
    """A method that gets the parts of its production one by one; Lark hands them over as a list.

    What `lark.v_args(inline=True)` does, which wraps the method again on each call: a quarter of the time of a long text.
    """
    return lambda self, parts: method(self, *parts)


class Expressions(Transformer_NonRecursive[Token, Any]):
    """Builds expressions."""

    def __init__(self, source: Source, diagnostics: Diagnostics) -> None:
        super().__init__(visit_tokens=False)
        self.source = source
        self.diagnostics = diagnostics

    def at(self, first: Token | ast.Node, last: Token | ast.Node) -> Span:
        """The span from one part to another."""
        start = first.start if isinstance(first, Token) else first.span.start
        return Span(self.source, start, last.end if isinstance(last, Token) else last.span.end)

    def string_at(self, token: Token) -> ast.String:
        """The string value of a token."""
        raw = token.text[1:-1] if len(token.text) > 1 and token.text[-1] == token.text[0] else token.text[1:]
        if "\\" in raw:
            raw = ESCAPE.sub(lambda found: self._escape(token, found), raw)
        return ast.String(span=Span(self.source, token.start, token.end), value=raw)

    def _escape(self, token: Token, found: re.Match[str]) -> str:
        character = found.group(1)
        if character not in ESCAPES:
            start = token.start + 1 + found.start()
            help_ = "the escapes are `\\n`, `\\t`, `\\r`, `\\\\`, `\\\"` and `\\'`; a backslash itself is written `\\\\`"
            self.diagnostics.error(Code.P110, f"`\\{character}` is not an escape", Span(self.source, start, start + 2), help=help_)
        return ESCAPES.get(character, character)

    @production
    def number(self, token: Token) -> ast.Number:
        """`2Gi`."""
        found = NUMBER.fullmatch(token.text)
        digits, unit = found.groups() if found else (token.text, "")
        if unit.startswith("_"):
            underscore(self.diagnostics, self.at(token, token))
            digits, unit = token.text.replace("_", ""), ""
        return ast.Number(span=self.at(token, token), digits=digits, unit=unit)

    @production
    def string(self, token: Token) -> ast.String:
        """`"text"`."""
        return self.string_at(token)

    @production
    def boolean(self, token: Token) -> ast.Boolean:
        """`true`."""
        return ast.Boolean(span=self.at(token, token), value=token.type == "TRUE")

    @production
    def variable(self, token: Token) -> ast.Name:
        """`name`."""
        return ast.Name(span=self.at(token, token), name=token.text)

    @production
    def parenthesized(self, left: Token, inner: ast.Expr, right: Token) -> ast.Expr:
        """`(inner)`: the inner expression, underlined with its parentheses."""
        return replace(inner, span=self.at(left, right))

    @production
    def set_literal(self, left: Token, items: list[ast.Expr] | None, right: Token) -> ast.SetLiteral:
        """`["a", "b"]`."""
        return ast.SetLiteral(span=self.at(left, right), items=tuple(items or ()))

    @production
    def many(self, before: list[Any] | None = None, member: Any = None) -> list[Any]:
        """A sequence of members."""
        if before is None:
            return []
        before.append(member)
        return before

    @production
    def listed(self, first: Any, *more: Any) -> list[Any]:
        """Members with commas between them: the only one so far, or those before, the comma and the next one."""
        if not more:
            return [first]
        first.append(more[-1])
        return first  # type: ignore[no-any-return]

    @production
    def items(self, members: list[ast.Expr], _comma: Token | None) -> list[ast.Expr]:
        """`a, b`."""
        return members

    @production
    def member(self, base: ast.Expr, _dot: Token, field: Token) -> ast.Member:
        """`base.field`."""
        return ast.Member(span=self.at(base, field), base=base, field=field.text, field_span=self.at(field, field))

    @production
    def index(self, base: ast.Expr, _left: Token, key: ast.Expr, right: Token) -> ast.Index:
        """`base["key"]`."""
        return ast.Index(span=self.at(base, right), base=base, key=key)

    @production
    def call(self, name: Token, _left: Token, arguments: list[ast.Argument] | None, right: Token) -> ast.Call:
        """`function(arguments)`."""
        span = self.at(name, right)
        return ast.Call(span=span, function=name.text, function_span=self.at(name, name), arguments=tuple(arguments or ()))

    @production
    def library_call(
        self, base: ast.Expr, _dot: Token, name: Token, _left: Token, arguments: list[ast.Argument] | None, right: Token
    ) -> ast.Call:
        """`library.function(arguments)`."""
        span, at = self.at(base, right), self.at(base, name)
        if not isinstance(base, ast.Name):
            help_ = f"write `{name.text}(…)` with what it needs between the parentheses"
            self.diagnostics.error(Code.P124, "only functions of an import are called with a dot", at, help=help_)
        library = base.name if isinstance(base, ast.Name) else ""
        return ast.Call(span=span, function=name.text, function_span=at, arguments=tuple(arguments or ()), library=library)

    @production
    def arguments(self, members: list[ast.Argument], _comma: Token | None) -> list[ast.Argument]:
        """`x, name: y`."""
        return members

    @production
    def argument(self, value: ast.Expr) -> ast.Argument:
        """`x`."""
        return ast.Argument(span=value.span, name=None, value=value)

    @production
    def named_argument(self, name: Token, _colon: Token, value: ast.Expr) -> ast.Argument:
        """`name: x`."""
        return ast.Argument(span=self.at(name, value), name=name.text, value=value)

    @production
    def curve_point(self, value: ast.Expr, _arrow: Token, to: ast.Expr) -> ast.Argument:
        """`x -> y`."""
        return ast.Argument(span=self.at(value, to), name=None, value=value, to=to)

    @production
    def unary(self, operator: Token, operand: ast.Expr) -> ast.Unary:
        """`not x` or `-x`."""
        op = ast.UnaryOp.NOT if operator.type == "NOT" else ast.UnaryOp.MINUS
        return ast.Unary(span=self.at(operator, operand), op=op, operand=operand)

    @production
    def binary(self, left: ast.Expr, operator: Token, right: ast.Expr) -> ast.Binary:
        """`left op right`."""
        return ast.Binary(span=self.at(left, right), op=OPERATORS[operator.text], left=left, right=right)

    compare = binary

    @production
    def not_in(self, left: ast.Expr, _not: Token, _in: Token, right: ast.Expr) -> ast.Binary:
        """`left not in right`."""
        return ast.Binary(span=self.at(left, right), op=ast.BinaryOp.NOT_IN, left=left, right=right)

    @production
    def if_then_else(self, if_: Token, condition: ast.Expr, _then: Token, then: ast.Expr, _else: Token, otherwise: ast.Expr) -> ast.If:
        """`if condition then a else b`."""
        return ast.If(span=self.at(if_, otherwise), condition=condition, then=then, otherwise=otherwise)

    @production
    def all_pods(self, pods: Token) -> ast.Selection:
        """`pods`."""
        return ast.Selection(span=self.at(pods, pods), where=None, of=pods.text)

    @production
    def pods_where(self, pods: Token, _where: Token, predicate: ast.Expr) -> ast.Selection:
        """`pods where predicate`."""
        return ast.Selection(span=self.at(pods, predicate), where=predicate, of=pods.text)


class Objects(Expressions):
    """Builds a literal in braces: a table in an expression, an object in a test or after `with`."""

    @production
    def object(self, left: Token, entries: list[ast.TableEntry] | None, right: Token) -> ast.Table:
        """`{ fields }`."""
        return ast.Table(span=self.at(left, right), entries=tuple(entries or ()))

    @production
    def fields(self, members: list[ast.TableEntry], _comma: Token | None) -> list[ast.TableEntry]:
        """`a: 1, b: 2`."""
        return members

    @production
    def field(self, key: Token, _colon: Token, value: ast.Expr) -> ast.TableEntry:
        """`name: value`."""
        return ast.TableEntry(span=self.at(key, value), key=self._key(key), value=value)

    def _key(self, token: Token) -> ast.Expr:
        if token.type == "STRING":
            return self.string_at(token)
        span = self.at(token, token)
        if token.type != "NUMBER":
            return ast.Name(span=span, name=token.text)
        found = NUMBER.fullmatch(token.text)
        digits, unit = found.groups() if found else (token.text, "")
        return ast.Number(span=span, digits=digits, unit=unit)

    def object_fields(self, table: ast.Table | None) -> tuple[ast.ObjectField, ...]:
        """The content of braces as fields of an object; no fields without braces."""
        fields = tuple(self._object_field(entry) for entry in table.entries) if table else ()
        no_repeated_fields(self.diagnostics, fields)
        return fields

    def _object_field(self, entry: ast.TableEntry) -> ast.ObjectField:
        key, value = entry.key, entry.value
        if isinstance(key, ast.Number):
            help_ = f'put it in quotes: `"{key.span.text}"`'
            self.diagnostics.error(Code.P111, f"`{key.span.text}` cannot be the name of a field", key.span, help=help_)
        name = key.name if isinstance(key, ast.Name) else key.value if isinstance(key, ast.String) else key.span.text
        if isinstance(value, ast.Table):
            return ast.ObjectField(span=entry.span, name=name, value=self.object_fields(value))
        return ast.ObjectField(span=entry.span, name=name, value=self.with_objects(value))

    def with_objects(self, value: ast.Expr) -> ast.Expr:
        """A list with objects in place of tables; anything else as it is."""
        if isinstance(value, ast.SetLiteral) and any(isinstance(item, ast.Table) for item in value.items):
            return replace(value, items=tuple(self._object(item) if isinstance(item, ast.Table) else item for item in value.items))
        return value

    def _object(self, table: ast.Table) -> ast.ObjectLiteral:
        return ast.ObjectLiteral(span=table.span, fields=self.object_fields(table))

    def word(self, token: Token) -> str:
        """The text of a name that may be in quotes."""
        return self.string_at(token).value if token.type == "STRING" else token.text
