"""Productions for headers and declarations to syntax tree nodes.

Headers, annotations and items come out as a flat list of elements; `assembly` makes a file of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from wharfinger.language import ast
from wharfinger.language.lexer import Token
from wharfinger.language.source import Span
from wharfinger.language.syntax_expressions import Objects, production


@dataclass(frozen=True, slots=True)
class PolicyHeader:
    """`policy "name" version "1.0"`."""

    span: Span
    name: ast.String
    version: ast.String | None


@dataclass(frozen=True, slots=True)
class Scope:
    """`for pods where …`; None for all pods."""

    span: Span
    where: ast.Expr | None


Element = ast.Import | PolicyHeader | Scope | ast.Annotation | ast.Item


class Declarations(Objects):
    """Builds headers and declarations."""

    @production
    def start(self, elements: list[Element]) -> list[Element]:
        """A whole file."""
        return elements

    @production
    def import_file(self, keyword: Token, path: Token, _as: Token, name: Token) -> ast.Import:
        """`import "shared.policy" as shared`."""
        return ast.Import(span=self.at(keyword, name), path=self.string_at(path), name=name.text, name_span=self.at(name, name))

    @production
    def policy(self, keyword: Token, name: Token) -> PolicyHeader:
        """`policy "name"`."""
        return PolicyHeader(self.at(keyword, name), self.string_at(name), None)

    @production
    def policy_with_version(self, keyword: Token, name: Token, _version: Token, version: Token) -> PolicyHeader:
        """`policy "name" version "1.0"`."""
        return PolicyHeader(self.at(keyword, version), self.string_at(name), self.string_at(version))

    @production
    def scope(self, keyword: Token, pods: Token) -> Scope:
        """`for pods`."""
        return Scope(self.at(keyword, pods), None)

    @production
    def scope_where(self, keyword: Token, _pods: Token, _where: Token, where: ast.Expr) -> Scope:
        """`for pods where …`."""
        return Scope(self.at(keyword, where), where)

    @production
    def annotation(self, at: Token, name: Token, *argument: Token | ast.Expr) -> ast.Annotation:
        """`@owner("team")`."""
        value = next((part for part in argument if isinstance(part, ast.Expr)), None)
        last = argument[-1] if argument and argument[-1] else name
        return ast.Annotation(span=self.at(at, last), name=name.text, value=value)

    @production
    def type_name(self, name: Token) -> ast.TypeName:
        """`percent`."""
        return ast.TypeName(span=self.at(name, name), name=name.text)

    @production
    def set_type(self, name: Token, _left: Token, element: Token, right: Token) -> ast.TypeName:
        """`set<string>`."""
        return ast.TypeName(span=self.at(name, right), name=name.text, element=element.text)

    @production
    def param(  # noqa: PLR0913, PLR0917  # one argument per part of the production
        self,
        keyword: Token,
        name: Token,
        _colon: Token,
        kind: ast.TypeName,
        _assign: Token | None,
        default: ast.Expr | None,
        _range: Token | None,
        low: ast.Expr | None,
        _dots: Token | None,
        high: ast.Expr | None,
    ) -> ast.Param:
        """`param name: type = default range low..high`."""
        span = self.at(keyword, high or default or kind)
        return ast.Param(span=span, name=name.text, name_span=self.at(name, name), type=kind, default=default, low=low, high=high)

    @production
    def let(self, keyword: Token, name: Token, _assign: Token, value: ast.Expr) -> ast.Let:
        """`let name = value`."""
        return ast.Let(span=self.at(keyword, value), name=name.text, name_span=self.at(name, name), value=value)

    @production
    def metric(self, keyword: Token, name: Token, _colon: Token, kind: ast.TypeName, _assign: Token, source: ast.Call) -> ast.Metric:
        """`metric name: type = source(…)`."""
        return ast.Metric(span=self.at(keyword, source), name=name.text, name_span=self.at(name, name), type=kind, source=source)
