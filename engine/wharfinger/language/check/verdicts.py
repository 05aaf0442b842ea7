"""What may be missing where a verdict or a score is formed, and whether the policy says what happens then."""

from __future__ import annotations

from wharfinger.language import typed
from wharfinger.language.catalogue import Subject
from wharfinger.language.check.context import Context
from wharfinger.language.check.missing import Causes
from wharfinger.language.codes import Code
from wharfinger.language.describe import describe
from wharfinger.language.diagnostics import Label
from wharfinger.language.types import Kind
from wharfinger.language.units import UNITS

CHOICES = {
    Code.P401: "`on missing pass` or `on missing reject`",
    Code.P402: "`on missing neutral`, `on missing skip` or `on missing <points>`",
}


def unhandled(context: Context, code: Code, rule: str, value: typed.Expr, causes: Causes) -> None:
    """Reports that the value of a rule may be missing, naming the innermost cause and the three ways out."""
    cause = causes[0]
    within = value.span.source is cause.span.source and value.span.start <= cause.span.start and cause.span.end <= value.span.end
    others = () if within else (Label(cause.span, why(cause)),)
    more = f" (and {len(causes) - 1} more)" if len(causes) > 1 else ""
    context.error(
        code,
        f"{rule} says nothing about nodes where {subject_of(cause)} is missing{more}",
        cause.span if within else value.span,
        label=why(cause) if within else "may be missing",
        others=others,
        help=f"{ways_out(cause)}; or end the rule with {CHOICES[code]}",
    )


def subject_of(cause: typed.Expr) -> str:
    """What is missing, for a sentence."""
    if isinstance(cause, typed.Aggregate):
        return f'`node.labels["{cause.topology_key}"]`' if cause.topology_key else f"`{describe(cause)}`"
    return f"`{describe(cause)}`"


def why(cause: typed.Expr) -> str:
    """Why a value may be missing, in a few words."""
    if isinstance(cause, typed.MetricRef):
        return "a sample may be absent or too old"
    if isinstance(cause, typed.AttributeRef):
        owner = {Subject.POD: "the pod", Subject.NODE: "a node", Subject.ITEM: "a placed pod"}[cause.attribute.subject]
        return f"{owner} may not have it"
    if isinstance(cause, typed.Aggregate):
        return "a node may not have the label" if cause.topology_key else "there may be no such pod"
    divides = (isinstance(cause, typed.Operation) and cause.op is typed.Op.DIV) or (
        isinstance(cause, typed.Call) and cause.function.name == "ratio"
    )
    return "missing where the divisor is 0" if divides else "may be missing"


def ways_out(cause: typed.Expr) -> str:
    """How to say what holds where a cause is missing. No time can be written as a default, and a node that is not measured is not idle."""
    default = "" if cause.type.kind is Kind.TIME or isinstance(cause, typed.MetricRef) else f"give a default, `{default_text(cause)}`; or "
    return f"{default}guard it, `{guard_text(cause)}`"


def default_text(cause: typed.Expr) -> str:
    """A cause with a default of its type."""
    return f"{describe(cause)} ?? {_default(cause.type.kind)}"


def _default(kind: Kind) -> str:
    if kind in (Kind.STRING, Kind.BOOL):
        return {Kind.STRING: '""', Kind.BOOL: "false"}[kind]
    unit = next((name for name, unit in UNITS.items() if unit.kind is kind and unit.factor >= 1), "%" if kind is Kind.PERCENT else "")
    return f"0{unit}"


def guard_text(cause: typed.Expr) -> str:
    """A guard that rules the absence of a cause out."""
    if isinstance(cause, typed.Aggregate) and cause.topology_key:
        return f'has(node.labels["{cause.topology_key}"])'
    return f"has({describe(cause)})"
