"""The `group` block of a policy, and `permit`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wharfinger.language.check.arrangement import given_twice
from wharfinger.language.check.context import MEMBER, Context, constant, infer, is_unknown, type_text
from wharfinger.language.check.expressions.group_members import named
from wharfinger.language.check.rules import RuleContext, filter_of
from wharfinger.language.report.codes import Code
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.catalogue import Subject
from wharfinger.language.semantics.selector import key_fault
from wharfinger.language.semantics.types import PLAIN, Kind
from wharfinger.language.syntax import ast
from wharfinger.language.syntax.ast import GroupWord


def declare_group(context: Context, item: ast.Group) -> None:
    """Checks how a `group` block names groups and how many members they need, so that expressions may speak of the group from here on."""
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
        given_twice(context, "a policy has one `group`", second.span, items[0].span, "write another policy for other groups")
    if not items:
        return None
    item = items[0]
    context.work.at = item.span
    within, spread, disruption = (item.line(word) for word in (GroupWord.WITHIN, GroupWord.SPREAD_OVER, GroupWord.DISRUPTION))
    levels = within.levels if within else ()
    reserve = item.line(GroupWord.RESERVE)
    if reserve is not None and context.authority.restricted:
        help_ = "nodes that are kept free are taken from every namespace; whoever runs the cluster can write a policy that does it"
        context.error(Code.P801, "`reserve` is not for policies of a namespace", reserve.span, label="for the cluster's only", help=help_)
    keys = _label_keys(context, [level.key for level in levels], "within")
    return typed.Group(
        span=item.span,
        by=context.grouping.by,
        name=named(context, Subject.POD, item.span),
        min_count=context.grouping.min_count,
        timeout=_timeout(context, timeout.value) if (timeout := item.line(GroupWord.TIMEOUT)) else None,
        levels=tuple(typed.Level(key=key, required=level.required) for key, level in zip(keys, levels, strict=True)),
        spread_over=_label_keys(context, spread.keys if spread else (), "spread_over"),
        whole=disruption is not None and disruption.whole,
        reserve=reserve is not None,
    )


def _label_keys(context: Context, keys: Sequence[ast.String], word: str) -> tuple[str, ...]:
    """The keys as texts, after reporting those that no node has and those that are there twice."""
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
