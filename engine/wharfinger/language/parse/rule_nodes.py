"""Lark's trees of headers, declarations and rules to nodes of the syntax tree.

Parts of a rule can be in any order. They are sorted here, because "`weight` is given twice" helps more than "unexpected `weight`".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from wharfinger.language import ast
from wharfinger.language.parse.expression_nodes import (
    CLAUSE_MISSING,
    DISRUPTION,
    NORMALIZE,
    SCORE_MISSING,
    VICTIM_MISSING,
    Objects,
    choice_of,
    not_for_scores,
    production,
    repeated,
)
from wharfinger.language.parse.grammar import terminals
from wharfinger.language.parse.tokens import Token
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Span


class PolicyHeader(msgspec.Struct, frozen=True):
    """`policy "name" version "1.0"`."""

    span: Span
    name: ast.String
    version: ast.String | None


class Scope(msgspec.Struct, frozen=True):
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
    def function(  # one argument per part of the production
        self,
        keyword: Token,
        name: Token,
        _left: Token,
        parameters: list[ast.Parameter] | None,
        _right: Token,
        _assign: Token,
        value: ast.Expr,
    ) -> ast.Function:
        """`let name(x: memory) = value`."""
        span, at = self.at(keyword, value), self.at(name, name)
        return ast.Function(span=span, name=name.text, name_span=at, parameters=tuple(parameters or ()), value=value)

    @production
    def parameters(self, members: list[ast.Parameter], _comma: Token | None) -> list[ast.Parameter]:
        """`x: memory, y: count`."""
        return members

    @production
    def parameter(self, name: Token, _colon: Token, kind: ast.TypeName) -> ast.Parameter:
        """`x: memory`."""
        if name.text in terminals().reserved:
            message = f"`{name.text}` is a word of the language and cannot be a name"
            help_ = f"choose another name, such as `{name.text}_1`"
            self.diagnostics.error(Code.P115, message, self.at(name, name), help=help_)
        return ast.Parameter(span=self.at(name, kind), name=name.text, name_span=self.at(name, name), type=kind)

    @production
    def workload(self, keyword: Token, name: Token, _assign: Token, value: ast.Expr) -> ast.Workload:
        """`workload name = [ { cpu: 4cpu, gpu: 1, weight: 12% }, … ]`."""
        return ast.Workload(span=self.at(keyword, value), name=name.text, name_span=self.at(name, name), value=self.with_objects(value))

    @production
    def metric(self, keyword: Token, name: Token, _colon: Token, kind: ast.TypeName, _assign: Token, source: ast.Call) -> ast.Metric:
        """`metric name: type = source(…)`."""
        return ast.Metric(span=self.at(keyword, source), name=name.text, name_span=self.at(name, name), type=kind, source=source)


class HeadPart(msgspec.Struct, frozen=True):
    """`tier T`, `weight W` or `when condition` of a score."""

    word: str
    span: Span
    value: ast.Expr


class ElsePart(msgspec.Struct, frozen=True):
    """`else "message"`."""

    word: str
    span: Span
    message: ast.String


class NormalizePart(msgspec.Struct, frozen=True):
    """`normalize minmax(spread)`."""

    word: str
    span: Span
    method: ast.Normalize
    spread: ast.Expr | None


class MissingPart(msgspec.Struct, frozen=True):
    """`on missing …`, before it is assigned to a rule."""

    word: str
    span: Span
    value: ast.Expr | Token


Part = TypeVar("Part", HeadPart, ElsePart | MissingPart, NormalizePart | MissingPart)


class Rules(Declarations):
    """Builds rules."""

    def empty(self, left: Token, right: Token, message: str, help: str) -> None:  # noqa: A002  # the field of a diagnostic is called help
        """Report a block with nothing in it, unless something in it could not be read."""
        if not any(left.start <= found.span.start < right.end for found in self.diagnostics.found):
            self.diagnostics.error(Code.P117, message, self.at(left, right), help=help)

    def parts(self, parts: Sequence[Part]) -> dict[str, Part]:
        """Parts by their word; one that occurs twice is reported and the first is kept."""
        found: dict[str, Part] = {}
        for part in parts:
            if part.word in found:
                repeated(self.diagnostics, part.word, found[part.word].span, part.span)
            found.setdefault(part.word, part)
        return found

    # ── filters ──

    @production
    def filter(  # noqa: PLR0913, PLR0917  # one argument per part of the production
        self,
        keyword: Token,
        name: Token,
        _when: Token | None,
        when: ast.Expr | None,
        left: Token,
        clauses: tuple[ast.Clause, ...],
        right: Token,
    ) -> ast.Filter:
        """`filter name when guard { clauses }`."""
        if not clauses:
            self.empty(left, right, f"filter `{name.text}` demands nothing", 'say what a node must fulfil: `require … else "…"`')
        return ast.Filter(span=self.at(keyword, right), name=name.text, name_span=self.at(name, name), when=when, clauses=clauses)

    @production
    def clauses(self, clauses: list[ast.Clause]) -> tuple[ast.Clause, ...]:
        """The clauses of a filter."""
        return tuple(clauses)

    @production
    def else_message(self, keyword: Token, message: Token) -> ElsePart:
        """`else "message"`."""
        return ElsePart("else", self.at(keyword, message), self.string_at(message))

    @production
    def on_missing(self, keyword: Token, _missing: Token, value: Token | ast.Expr) -> MissingPart:
        """`on missing …`."""
        return MissingPart("on missing", self.at(keyword, value), value)

    @production
    def clause(self, keyword: Token, condition: ast.Expr, parts: list[ElsePart | MissingPart]) -> ast.Clause:
        """`require condition else "message" on missing …`."""
        found = self.parts(parts)
        message, missing = found.get("else"), found.get("on missing")
        return ast.Clause(
            span=Span(self.source, keyword.start, max((part.span.end for part in parts), default=condition.span.end)),
            is_require=keyword.type == "REQUIRE",
            condition=condition,
            message=message.message if isinstance(message, ElsePart) else None,
            on_missing=self._clause_missing(missing) if isinstance(missing, MissingPart) else None,
        )

    def _clause_missing(self, part: MissingPart) -> ast.OnMissing:
        span = self.at(part.value, part.value)
        action = choice_of(self.diagnostics, CLAUSE_MISSING, span.text, span, "after `on missing` of a `require` or `reject`")
        return ast.OnMissing(span=part.span, action=action)

    # ── scores ──

    @production
    def head_part(self, keyword: Token, value: ast.Expr) -> HeadPart:
        """`weight W`."""
        return HeadPart(keyword.text, self.at(keyword, value), value)

    @production
    def normalize(self, keyword: Token, method: Token, _left: Token | None, spread: ast.Expr | None, right: Token | None) -> NormalizePart:
        """`normalize minmax(5)`."""
        span = self.at(keyword, right or method)
        chosen = choice_of(self.diagnostics, NORMALIZE, method.text, self.at(method, method), "after `normalize`")
        if spread and chosen is not ast.Normalize.MINMAX:
            self.diagnostics.error(Code.P111, f"`normalize {method.text}` takes nothing in parentheses", spread.span, help="leave it out")
        return NormalizePart("normalize", span, chosen, spread)

    @production
    def score(  # one argument per part of the production
        self,
        keyword: Token,
        name: Token,
        head_parts: list[HeadPart],
        _assign: Token,
        value: ast.Expr,
        tail_parts: list[NormalizePart | MissingPart],
    ) -> ast.Score:
        """`score name tier T weight W when guard = value normalize … on missing …`."""
        head, tail = self.parts(head_parts), self.parts(tail_parts)
        normalize, missing = tail.get("normalize"), tail.get("on missing")
        end = max((part.span.end for part in tail_parts), default=value.span.end)
        return ast.Score(
            span=Span(self.source, keyword.start, end),
            form=ast.ScoreForm(keyword.text),
            name=name.text,
            name_span=self.at(name, name),
            tier=head["tier"].value if "tier" in head else None,
            weight=head["weight"].value if "weight" in head else None,
            when=head["when"].value if "when" in head else None,
            value=value,
            normalize=normalize.method if isinstance(normalize, NormalizePart) else None,
            spread=normalize.spread if isinstance(normalize, NormalizePart) else None,
            on_missing=self._score_missing(missing) if isinstance(missing, MissingPart) else None,
        )

    @production
    def device_preference(  # one argument per part of the production
        self, keyword: Token, _device: Token, name: Token, _when: Token | None, when: ast.Expr | None, _assign: Token, value: ast.Expr
    ) -> ast.DevicePreference:
        """`prefer device name when guard = value`."""
        span = Span(self.source, keyword.start, value.span.end)
        return ast.DevicePreference(span=span, name=name.text, name_span=self.at(name, name), when=when, value=value)

    def _score_missing(self, part: MissingPart) -> ast.OnMissing:
        value = part.value
        if isinstance(value, ast.Name) and value.name in SCORE_MISSING:
            return ast.OnMissing(span=part.span, action=SCORE_MISSING[value.name])
        if isinstance(value, Token) or (isinstance(value, ast.Name) and value.name in CLAUSE_MISSING):
            not_for_scores(self.diagnostics, self.at(value, value))
            return ast.OnMissing(span=part.span, action=ast.MissingAction.SKIP)
        return ast.OnMissing(span=part.span, action=ast.MissingAction.POINTS, points=value)

    # ── the rest ──

    @production
    def base(self, keyword: Token, _kubernetes: Token, left: Token, entries: tuple[ast.BaseEntry, ...], right: Token) -> ast.Base:
        """`base kubernetes { entries }`."""
        if not entries:
            self.empty(left, right, "`base kubernetes` changes nothing", "name a score plugin: `NodeResourcesFit weight 2`")
        return ast.Base(span=self.at(keyword, right), entries=entries)

    @production
    def base_entries(self, entries: list[ast.BaseEntry]) -> tuple[ast.BaseEntry, ...]:
        """The entries of `base`."""
        return tuple(entries)

    @production
    def base_entry(  # one argument per part of the production
        self,
        plugin: Token,
        _weight: Token | None,
        weight: ast.Expr | None,
        _with: Token | None,
        arguments: ast.Table | None,
        _comma: Token | None,
    ) -> ast.BaseEntry:
        """`PLUGIN weight W with { … }`."""
        last = arguments or weight or plugin
        return ast.BaseEntry(
            span=self.at(plugin, last),
            plugin=plugin.text,
            plugin_span=self.at(plugin, plugin),
            weight=weight,
            arguments=tuple(plugin_argument(field) for field in self.object_fields(arguments)),
        )

    @production
    def quantum(self, keyword: Token, value: ast.Expr, _tier: Token | None, tier: ast.Expr | None) -> ast.Quantum:
        """`quantum 1 tier 2`."""
        return ast.Quantum(span=self.at(keyword, tier or value), value=value, tier=tier)

    @production
    def tie_break(self, keyword: Token, keys: list[ast.TieKey]) -> ast.TieBreak:
        """`tie_break key, key`."""
        return ast.TieBreak(span=self.at(keyword, keys[-1]), keys=tuple(keys))

    @production
    def preemption(self, keyword: Token, left: Token, rules: tuple[ast.VictimRule, ...], right: Token) -> ast.Preemption:
        """`preemption { rules }`."""
        if not rules:
            self.empty(left, right, "`preemption` changes nothing", "say which pods may not be evicted: `never_evict when …`")
        return ast.Preemption(span=self.at(keyword, right), rules=rules)

    @production
    def victim_rules(self, rules: list[ast.VictimRule]) -> tuple[ast.VictimRule, ...]:
        """The rules about victims."""
        return tuple(rules)

    @production
    def victim_rule(self, keyword: Token, _when: Token, condition: ast.Expr, missing: MissingPart | None) -> ast.VictimRule:
        """`never_evict when condition on missing keep`."""
        end = (missing.span if missing else condition.span).end
        return ast.VictimRule(
            span=Span(self.source, keyword.start, end),
            is_only=keyword.type == "ONLY_EVICT",
            condition=condition,
            on_missing=self._victim_missing(missing) if missing else None,
        )

    def _victim_missing(self, part: MissingPart) -> ast.OnMissing:
        span = self.at(part.value, part.value)
        action = choice_of(self.diagnostics, VICTIM_MISSING, span.text, span, "after `on missing` in `preemption`")
        return ast.OnMissing(span=part.span, action=action)

    # ── groups ──

    @production
    def group(  # one argument per part of the production
        self,
        keyword: Token,
        _by: Token | None,
        by: ast.Expr | None,
        left: Token,
        lines: tuple[ast.GroupLine, ...],
        right: Token,
    ) -> ast.Group:
        """`group by key { lines }`."""
        if not lines:
            self.empty(left, right, "this `group` is empty", "say how many pods are placed at once: `min_count 4`")
        return ast.Group(span=self.at(keyword, right), by=by, lines=lines)

    @production
    def group_lines(self, lines: list[ast.GroupLine]) -> tuple[ast.GroupLine, ...]:
        """The lines of a `group`; of those that begin with the same word, the first is kept."""
        kept: dict[ast.GroupWord, ast.GroupLine] = {}
        for line in lines:
            if line.word in kept:
                repeated(self.diagnostics, line.word.value, kept[line.word].span, line.span)
            kept.setdefault(line.word, line)
        return tuple(kept.values())

    @production
    def group_number(self, keyword: Token, value: ast.Expr) -> ast.GroupLine:
        """`min_count 4`."""
        return ast.GroupLine(span=self.at(keyword, value), word=ast.GroupWord(keyword.text), value=value)

    @production
    def group_levels(self, keyword: Token, levels: list[ast.Level]) -> ast.GroupLine:
        """`within required "example.com/block", preferred "example.com/rack"`."""
        return ast.GroupLine(span=self.at(keyword, levels[-1]), word=ast.GroupWord.WITHIN, levels=tuple(levels))

    @production
    def level(self, keyword: Token, key: Token) -> ast.Level:
        """`required "example.com/rack"`."""
        return ast.Level(span=self.at(keyword, key), required=keyword.type == "REQUIRED", key=self.string_at(key))

    @production
    def group_spread(self, keyword: Token, keys: list[Token]) -> ast.GroupLine:
        """`spread_over "topology.kubernetes.io/zone"`."""
        texts = tuple(self.string_at(key) for key in keys)
        return ast.GroupLine(span=self.at(keyword, keys[-1]), word=ast.GroupWord.SPREAD_OVER, keys=texts)

    @production
    def group_disruption(self, keyword: Token, choice: Token) -> ast.GroupLine:
        """`disruption group`."""
        whole = choice_of(self.diagnostics, DISRUPTION, choice.text, self.at(choice, choice), "after `disruption`")
        return ast.GroupLine(span=self.at(keyword, choice), word=ast.GroupWord.DISRUPTION, whole=whole)

    @production
    def group_reserve(self, keyword: Token) -> ast.GroupLine:
        """`reserve`."""
        return ast.GroupLine(span=self.at(keyword, keyword), word=ast.GroupWord.RESERVE)

    @production
    def permit_part(self, keyword: Token, value: ast.Expr) -> HeadPart:
        """`timeout 5min`."""
        return HeadPart(keyword.text, self.at(keyword, value), value)

    @production
    def permit(  # noqa: PLR0913, PLR0917  # one argument per part of the production
        self, keyword: Token, name: Token, head_parts: list[HeadPart], left: Token, clauses: tuple[ast.Clause, ...], right: Token
    ) -> ast.Permit:
        """`permit name timeout 5min { clauses }`."""
        if not clauses:
            self.empty(left, right, f"permit `{name.text}` demands nothing", 'say what a placed pod waits for: `require … else "…"`')
        head = self.parts(head_parts)
        return ast.Permit(
            span=self.at(keyword, right),
            name=name.text,
            name_span=self.at(name, name),
            timeout=head["timeout"].value if "timeout" in head else None,
            when=head["when"].value if "when" in head else None,
            clauses=clauses,
        )

    # ── settings ──

    @production
    def tie_key(self, value: ast.Expr, direction: Token) -> ast.TieKey:
        """`expression asc|desc`."""
        return ast.TieKey(span=self.at(value, direction), value=value, descending=direction.type == "DESC")


def plugin_argument(field: ast.ObjectField) -> ast.PluginArgument:
    """The same field as an argument of a plugin."""
    value = field.value
    nested = value if isinstance(value, ast.Expr) else tuple(plugin_argument(inner) for inner in value)
    return ast.PluginArgument(span=field.span, name=field.name, value=nested)
