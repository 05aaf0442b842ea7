"""Checks `base`, `quantum`, `tie_break`, annotations, `preemption`, `group` and `permit`: all but declarations, filters, scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from wharfinger.language import ast
from wharfinger.language.ast import GroupWord, MissingAction
from wharfinger.language.check.context import MEMBER, VICTIM, Context, condition, constant, infer, is_unknown, type_text
from wharfinger.language.check.expressions.aggregates import group_name
from wharfinger.language.check.expressions.values import folded, literal_of, negated
from wharfinger.language.check.missing import unhandled
from wharfinger.language.check.rules import RuleContext, filter_of, tier_of, weight_of
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Label, Span
from wharfinger.language.report.wording import listed
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.catalogue import Subject
from wharfinger.language.semantics.selector import key_fault
from wharfinger.language.semantics.types import NUMERIC, PLAIN, Kind, Type

LEAST_QUANTUM = 1e-15

# ── base scores, quanta, the tie break and annotations ───────────────────────────────────────────────────────────────────────────────


def base_of(context: Context, items: Sequence[ast.Base]) -> tuple[typed.BaseOverride, ...]:
    """The overrides of built-in score plugins that are right."""
    found: dict[str, typed.BaseOverride] = {}
    seen: dict[str, Span] = {}
    for entry in (entry for item in items for entry in item.entries):
        if entry.plugin in seen:
            report_duplicate(context, f"`{entry.plugin}` is already reweighed", entry.plugin_span, seen[entry.plugin])
            continue
        seen[entry.plugin] = entry.plugin_span
        override = _override(context, entry)
        if override is not None:
            found[entry.plugin] = override
    return tuple(found.values())


def _override(context: Context, entry: ast.BaseEntry) -> typed.BaseOverride | None:
    weight = weight_of(context, entry.weight, entry) if entry.weight else None
    plugins = context.catalogue.score_plugins()
    if entry.plugin not in plugins:
        _no_plugin(context, entry, tuple(plugins))
        return None
    arguments = _plugin_arguments(context, entry, plugins[entry.plugin].arguments)
    if arguments is None or (weight is not None and is_unknown(weight)):
        return None
    return typed.BaseOverride(plugin=entry.plugin, span=entry.plugin_span, weight=weight, arguments=arguments)


def _no_plugin(context: Context, entry: ast.BaseEntry, plugins: tuple[str, ...]) -> None:
    if entry.plugin in context.catalogue.plugins():
        help_ = f"only scores can be reweighed: {listed(plugins)}"
        message = f"`{entry.plugin}` is a hard constraint, which always applies"
        context.error(Code.P312, message, entry.plugin_span, label="not a score", help=help_)
        return
    near = context.closest(entry.plugin, plugins)
    help_ = f"did you mean `{near}`?" if near else f"score plugins are {listed(plugins)}"
    message = f"there is no score plugin `{entry.plugin}`"
    context.error(Code.P304, message, entry.plugin_span, label="unknown plugin", help=help_, suggestion=near)


def _plugin_arguments(context: Context, entry: ast.BaseEntry, known: frozenset[str]) -> dict[str, Any] | None:
    """The arguments of a plugin as plain values, or None when one is wrong."""
    found: dict[str, Any] = {}
    whole = True
    for argument in entry.arguments:
        if argument.name not in known:
            near = context.closest(argument.name, known)
            help_ = f"did you mean `{near}`?" if near else f"it takes {listed(known)}" if known else "it takes none"
            message = f"`{entry.plugin}` has no argument `{argument.name}`"
            span = Span(argument.span.source, argument.span.start, argument.span.start + len(argument.name))
            context.error(Code.P305, message, span, label="unknown argument", help=help_, suggestion=near)
            whole = False
        else:
            value = _plain(context, argument.value)
            whole = whole and value is not None
            found[argument.name] = value
    return found if whole else None


def _plain(context: Context, value: ast.Expr | tuple[Any, ...]) -> Any:
    """A plugin argument as JSON has it; None after reporting what is wrong."""
    if isinstance(value, (tuple, ast.ObjectLiteral)):
        fields = value.fields if isinstance(value, ast.ObjectLiteral) else value
        return {field.name: _plain(context, field.value) for field in fields}
    if isinstance(value, ast.SetLiteral):
        return [_plain(context, item) for item in value.items]
    found = infer(context.at(constant("an argument of a plugin")), value)
    plain = folded(found)
    if plain is None and not is_unknown(found):
        context.error(Code.P215, "an argument of a plugin is written out", value.span, label="not a literal")
    if isinstance(plain, float) and plain == int(plain):
        return int(plain)
    return plain


def quantum_of(context: Context, items: Sequence[ast.Quantum]) -> dict[int, float]:
    """The quantum of each tier that has one."""
    found: dict[int, float] = {}
    seen: dict[int, Span] = {}
    for item in items:
        tier = tier_of(context, item.tier)
        value = literal_of(context, item.value, Type(Kind.NUMBER), "a quantum", Code.P505)
        if value is not None and value.value <= 0:
            context.error(Code.P505, "a quantum is larger than 0", value.span, label="not larger than 0")
        elif value is not None and value.value < LEAST_QUANTUM:
            context.error(Code.P505, f"a quantum is at least {LEAST_QUANTUM:g}, below which totals lose their last digits", value.span)
        elif tier is not None and tier in seen:
            report_duplicate(context, f"tier {tier} already has a quantum", item.span, seen[tier])
        elif tier is not None and value is not None:
            found[tier] = value.value
            seen[tier] = item.span
    return found


def tie_break_of(context: Context, items: Sequence[ast.TieBreak]) -> tuple[typed.TieKey, ...]:
    """The keys of the tie break."""
    for second in items[1:]:
        report_duplicate(context, "a policy has one `tie_break`", second.span, items[0].span, "join them: `tie_break a asc, b desc`")
    keys: list[typed.TieKey] = []
    for key in items[0].keys if items else ():
        value = infer(context, key.value)
        if value.type.kind in NUMERIC | {Kind.STRING, Kind.VERSION}:
            keys.append(typed.TieKey(value=value, descending=key.descending))
        elif not is_unknown(value):
            help_ = f"write `if {value.span.text} then 1 else 0`" if value.type.kind is Kind.BOOL else None
            context.error(
                Code.P206,
                f"ties are broken by a number, a text or a version, not by {type_text(value.type)}",
                value.span,
                label=type_text(value.type),
                help=help_,
            )
    return tuple(keys)


def annotations_of(context: Context, items: Sequence[ast.Annotation]) -> dict[str, Any]:
    """Annotations of the policy as plain values."""
    found: dict[str, Any] = {}
    for item in items:
        if item.value is None:
            found[item.name] = True
            continue
        value = infer(context.at(constant("an annotation")), item.value)
        plain = folded(value)
        if plain is None and not is_unknown(value):
            context.error(Code.P215, "an annotation is written out", item.value.span, label="not a literal")
        found[item.name] = sorted(plain) if isinstance(plain, frozenset) else plain
    return found


def report_duplicate(context: Context, message: str, span: Span, first: Span, help_: str = "keep one of the two") -> None:
    """Report a statement that a policy may have only once, and has again."""
    context.error(Code.P602, message, span, label="given again", others=(Label(first, "first given here"),), help=help_)


# ── preemption ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def victims_of(rules: RuleContext, items: Sequence[ast.Preemption]) -> tuple[typed.VictimRule, ...]:
    """The rules about victims that are right, in order; several blocks are one."""
    found = (_victim_rule(rules, rule) for item in items for rule in item.rules)
    return tuple(rule for rule in found if rule is not None)


def _victim_rule(rules: RuleContext, rule: ast.VictimRule) -> typed.VictimRule | None:
    context = rules.context.at(VICTIM)
    context.work.at = rule.span
    asked = condition(context, rule.condition, f"`{_word(rule)}`")
    if is_unknown(asked):
        return None
    causes = rules.presence.causes(asked, rules.known)
    if causes and rule.on_missing is None:
        unhandled(rules.context, Code.P404, f"`{_word(rule)}`", asked, causes)
        return None
    return typed.VictimRule(
        span=rule.span,
        condition=asked if rule.is_only else negated(asked, asked.span),
        missing_evicts=rule.on_missing.action is MissingAction.EVICT if rule.on_missing else None,
    )


def _word(rule: ast.VictimRule) -> str:
    return "only_evict" if rule.is_only else "never_evict"


# ── groups and `permit` ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def declare_group(context: Context, item: ast.Group) -> None:
    """Check how a `group` block names groups and how many members they need. Later expressions can then read the group."""
    context.work.at = item.span
    if item.by is not None:
        context.grouping.by = _name(context, item.by)
    line = item.line(GroupWord.MIN_COUNT)
    if line is not None and line.value is not None:
        context.grouping.min_count = _min_count(context, line.value)


def _name(context: Context, by: ast.Expr) -> typed.Expr:
    found = infer(context.at(replace(MEMBER, name="`group by`")), by)
    if is_unknown(found) or found.type.kind is Kind.STRING:
        return found
    message = f"groups are named by a text, not by {type_text(found.type)}"
    return context.error(
        Code.P206, message, found.span, label=type_text(found.type), help='for example by a label: `group by pod.labels["job-name"]`'
    )


def _min_count(context: Context, value: ast.Expr) -> typed.Expr:
    found = infer(context.at(replace(MEMBER, name="`min_count`")), value)
    if is_unknown(found):
        return found
    if found.type.kind not in PLAIN:
        return context.error(Code.P206, f"`min_count` is a number, not {type_text(found.type)}", found.span, label=type_text(found.type))
    if found.type.optional:
        help_ = f"say how many it is then: `{found.span.text} ?? 1`"
        return context.error(Code.P403, "this `min_count` may be missing", found.span, label="may be missing", help=help_)
    if isinstance(found, typed.Const) and (found.value < 0 or found.value != int(found.value)):
        return context.error(Code.P227, "`min_count` is a whole number, 0 or more", found.span, label="no number of pods")
    return found


def group_of(context: Context, items: Sequence[ast.Group]) -> typed.Group | None:
    """The typed `group` block, as far as it is right; None if there is none."""
    for second in items[1:]:
        report_duplicate(context, "a policy has one `group`", second.span, items[0].span, "write another policy for other groups")
    if not items:
        return None
    item = items[0]
    context.work.at = item.span
    within, spread, disruption = (item.line(word) for word in (GroupWord.WITHIN, GroupWord.SPREAD_OVER, GroupWord.DISRUPTION))
    levels = within.levels if within else ()
    reserve = item.line(GroupWord.RESERVE)
    if reserve is not None and context.authority.restricted:
        help_ = "nodes that are kept free are taken from every namespace; a policy of the cluster's administrators can do it"
        context.error(Code.P801, "`reserve` is not for policies of a namespace", reserve.span, label="for the cluster's only", help=help_)
    keys = _label_keys(context, [level.key for level in levels], "within")
    return typed.Group(
        span=item.span,
        by=context.grouping.by,
        name=group_name(context, Subject.POD, item.span),
        min_count=context.grouping.min_count,
        timeout=_timeout(context, timeout.value) if (timeout := item.line(GroupWord.TIMEOUT)) else None,
        levels=tuple(typed.Level(key=key, required=level.required) for key, level in zip(keys, levels, strict=True)),
        spread_over=_label_keys(context, spread.keys if spread else (), "spread_over"),
        whole=disruption is not None and disruption.whole,
        reserve=reserve is not None,
    )


def _label_keys(context: Context, keys: Sequence[ast.String], word: str) -> tuple[str, ...]:
    """The keys as texts, after reporting those that no node has and those that occur twice."""
    seen: set[str] = set()
    for key in keys:
        if fault := key_fault(key.value):
            context.error(Code.P310, f"no node can have this label key: {fault}", key.span, label="not a key")
        elif key.value in seen:
            context.error(Code.P227, f"`{key.span.text}` is behind `{word}` already", key.span, label="given again", help="leave it out")
        seen.add(key.value)
    return tuple(key.value for key in keys)


def _timeout(context: Context, value: ast.Expr | None) -> typed.Expr | None:
    if value is None:
        return None
    found = infer(context.at(constant("a timeout")), value)
    if is_unknown(found):
        return found
    if found.type.kind is not Kind.DURATION:
        help_ = (
            f"write a unit: `{found.span.text}s`" if found.type.kind in PLAIN and isinstance(found, typed.Const) else "for example `5min`"
        )
        return context.error(
            Code.P206, f"a timeout is a duration, not {type_text(found.type)}", found.span, label=type_text(found.type), help=help_
        )
    if isinstance(found, typed.Const) and found.value <= 0:
        return context.error(Code.P227, "a timeout is longer than 0", found.span, label="no time to wait")
    if isinstance(found, typed.Const) and found.value > typed.MAX_TIMEOUT:
        help_ = "pods that wait take room; given back, they are tried again, so a short timeout loses nothing"
        return context.error(Code.P227, "a timeout is one hour at most", found.span, label="longer than `1h`", help=help_)
    return found


def permit_of(rules: RuleContext, item: ast.Permit) -> typed.Permit | None:
    """The typed `permit`, or None when something in it is wrong."""
    asked = filter_of(rules, item)
    timeout = _timeout(rules.context, item.timeout)
    if asked is None or (timeout is not None and is_unknown(timeout)):
        return None
    return typed.Permit(name=asked.name, span=asked.span, timeout=timeout, when=asked.when, clauses=asked.clauses)
