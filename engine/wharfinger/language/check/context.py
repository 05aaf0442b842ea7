"""The position of an expression, the values that it can read there, and how it is checked.

`infer` is the way from a node of the syntax tree to a typed expression, for every form of expression. The work of a check is counted,
so that a hostile text cannot take long.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from wharfinger.language import ast
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Diagnostics, Label, Span
from wharfinger.language.report.wording import LetterBudget, closest
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.authority import CLUSTER, Authority
from wharfinger.language.semantics.catalogue import Catalogue, Subject
from wharfinger.language.semantics.intervals import Intervals
from wharfinger.language.semantics.types import NUMERIC, Kind, Shape, Type

MAX_STEPS = 100_000  # usual policies take some hundred, one of 500 rules some ten thousand
MAX_FINDINGS = 500  # of one check; fewer are ever shown
ITEMS_PER_STEP = 16
"""The members of a set, or characters of a text, whose joining counts as one step."""


class TooMuchWork(Exception):
    """A check would take more steps than it may."""


class EnoughFindings(Exception):
    """A check has more findings than are ever shown."""


class WorkBudget(msgspec.Struct):
    """The steps and findings of one check so far; `at` is the part of the policy that is being looked at."""

    at: Span | None = None
    steps: int = 0
    findings: int = 0

    def spend(self, steps: int = 1) -> None:
        """Count steps; raise `TooMuchWork` when there are too many."""
        self.steps += steps
        if self.steps > MAX_STEPS:
            raise TooMuchWork

    def count_building(self, members: int) -> None:
        """Count the steps of building a set or a text of this size; raise `TooMuchWork`."""
        self.spend(1 + members // ITEMS_PER_STEP)

    def found(self) -> None:
        """Count a finding; raise `EnoughFindings` when there are too many."""
        self.findings += 1
        if self.findings > MAX_FINDINGS:
            raise EnoughFindings


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of position in a policy: the values that it can read, and its name in messages."""

    name: str
    subjects: frozenset[Subject]
    aggregates: bool = False

    def admits(self, shape: Shape) -> bool:
        """True if values of this shape exist here."""
        return shape is Shape.CONST or any(subject.shape is shape for subject in self.subjects)


RULE = Place(name="a rule", subjects=frozenset({Subject.POD, Subject.NODE}), aggregates=True)
SCOPE = Place(name="`for pods where`", subjects=frozenset({Subject.POD}))
MEMBER = Place(name="`group`", subjects=frozenset({Subject.POD}))
VICTIM = Place(name="`preemption`", subjects=frozenset({Subject.POD, Subject.ITEM}))
SELECTION = Place(name="a selection of pods", subjects=frozenset({Subject.POD, Subject.ITEM}))
DEVICE_PREFERENCE = Place(name="`prefer device`", subjects=frozenset({Subject.POD, Subject.NODE, Subject.DEVICE}), aggregates=True)
DEVICES = Place(name="a selection of devices", subjects=frozenset({Subject.POD, Subject.DEVICE}))


def constant(name: str) -> Place:
    """The place of something that is known when the policy is compiled."""
    return Place(name=name, subjects=frozenset())


class Binding(msgspec.Struct, kw_only=True):
    """The meaning of a name of the policy. `reference` builds the typed reference.

    An import has `members` instead, and a function a `function` (`check.expressions.functions.DeclaredFunction`).
    """

    name: str
    what: str
    span: Span
    reference: Callable[[Span], typed.Expr] | None = None
    members: dict[str, Binding] | None = None
    function: object = None
    used: bool = False


class Notes(msgspec.Struct):
    """The results of a check for editors: each expression with its typed form, the meaning of names, and the intervals.

    `policy` is the typed policy as far as it could be typed, also where it has errors.
    """

    expressions: list[tuple[ast.Expr, typed.Expr]] = msgspec.field(default_factory=list)
    names: dict[str, Binding] = msgspec.field(default_factory=dict)
    intervals: Intervals = msgspec.field(default_factory=Intervals)
    policy: typed.Policy | None = None


class Grouping(msgspec.Struct):
    """The typed `by` and `min_count` of the policy's `group` block, after they are checked.

    A library has none, and does not know that of the policy that imports it (`library`).
    """

    by: typed.Expr | None = None
    min_count: typed.Expr | None = None
    library: bool = False


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that checking an expression needs.

    `lets`, `heights` and `intervals` hold what has been checked so far, by qualified name; `calls` are the results of calls of functions
    that the policy declares, by function, place and arguments. `authority` is that of the text: what is
    imported has been shared by the cluster, and may read what the cluster may. `notes` keeps what is found out, where the caller wants it.
    """

    catalogue: Catalogue
    diagnostics: Diagnostics
    authority: Authority = CLUSTER
    place: Place = RULE
    names: dict[str, Binding] = msgspec.field(default_factory=dict)
    lets: dict[str, typed.Let] = msgspec.field(default_factory=dict)
    heights: dict[str, int] = msgspec.field(default_factory=dict)
    calls: dict[Hashable, typed.Expr] = msgspec.field(default_factory=dict)
    grouping: Grouping = msgspec.field(default_factory=Grouping)
    intervals: Intervals = msgspec.field(default_factory=Intervals)
    work: WorkBudget = msgspec.field(default_factory=WorkBudget)
    suggestions: LetterBudget = msgspec.field(default_factory=LetterBudget)
    notes: Notes | None = None

    def closest(self, word: str, candidates: Iterable[str]) -> str | None:
        """The candidate that an author most likely meant, as `wording.closest`; None once the search for many names has taken long."""
        return closest(word, candidates, self.suggestions)

    def at(self, place: Place) -> Context:
        """The same context at another place."""
        return replace(self, place=place)

    def error(self, code: Code, message: str, span: Span, **more: object) -> typed.Expr:
        """Report a finding; return the expression that suppresses findings caused by it. Raises `EnoughFindings`."""
        self.work.found()
        self.diagnostics.error(code, message, span, **more)
        return unknown(span)


def unknown(span: Span) -> typed.Expr:
    """An expression that already has an error."""
    return typed.Const(span=span, type=Type(Kind.UNKNOWN), value=None)


def is_unknown(*exprs: typed.Expr) -> bool:
    """True if any of these already has an error."""
    return any(e.type.kind is Kind.UNKNOWN for e in exprs)


def joined(*exprs: typed.Expr) -> tuple[Shape, bool]:
    """The shape and optionality of an operation on these operands."""
    return max((e.type.shape for e in exprs), default=Shape.CONST), any(e.type.optional for e in exprs)


def type_label(expr: typed.Expr) -> Label:
    """A label with the type of an expression: "memory (bytes)"."""
    return Label(expr.span, type_text(expr.type))


def type_text(type_: Type) -> str:
    """A type as messages show it: with its base unit if it has one."""
    base = {Kind.CPU: "cpu (millicores)", Kind.MEMORY: "memory (bytes)", Kind.DURATION: "duration (seconds)"}.get(type_.kind)
    plain = {
        Kind.PODS: "a selection of pods",
        Kind.DEVICES: "a selection of devices",
        Kind.DEVICE: "a device",
        Kind.POD: "a pod",
        Kind.NODE: "a node",
        Kind.TABLE: "a table",
        Kind.WORKLOAD: "a workload",
    }.get(type_.kind)
    return plain or (base + ("?" if type_.optional else "") if base else str(type_))


def admitted(context: Context, expr: typed.Expr) -> typed.Expr:
    """The expression if its shape exists at this place; otherwise reports why not."""
    place = context.place
    if place.admits(expr.type.shape):
        return expr
    whose = {Shape.POD: "the pod", Shape.NODE: "the candidate node", Shape.ITEM: "a placed pod", Shape.DEVICE: "a device"}[expr.type.shape]
    if not place.subjects:
        return context.error(
            Code.P215,
            f"{place.name} is the same for all pods and nodes",
            expr.span,
            label=f"reads {whose}",
            help="use literals and params here",
        )
    return context.error(Code.P214, f"{place.name} cannot read {whose}", expr.span, label=f"reads {whose}", help=_node_help(place))


def _node_help(place: Place) -> str:
    if place is SELECTION:
        return 'select pods without looking at the node, and restrict the count: `count(…, on: node)` or `count(…, within: "<label key>")`'
    if place is DEVICES:
        return "select devices by what they are and what the pod asks, and compare with the node outside: `count(…, on: node) > node.…`"
    if place is VICTIM:
        return "`preemption` is about placed pods (`it`) and the pod that needs room, not the node; put conditions on nodes in a `filter`"
    return "`for` decides which pods are governed, before nodes are looked at; put conditions on nodes in a `filter` or behind `when`"


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
    found = _FORMS[type(expr)](context, expr)
    if context.notes is not None:
        context.notes.expressions.append((expr, found))
    return found


def _points_help(after: str) -> str:
    return "; points for a number are given by `score`" if after in {"`prefer`", "`avoid`"} else ""


def condition(context: Context, expr: ast.Expr, after: str) -> typed.Expr:
    """The typed form of an expression that must be a bool, because it follows that word."""
    found = infer(context, expr)
    if found.type.kind in (Kind.BOOL, Kind.UNKNOWN):
        return found
    if isinstance(found, typed.AttributeRef):  # one of several types
        alike = next((each for each in found.attribute.alternatives if each.type.kind is Kind.BOOL), None)
        if alike is not None:
            return replace(found, type=replace(found.type, kind=Kind.BOOL), attribute=alike)
    if found.type.kind in NUMERIC:
        help_ = f"compare it with something: `{expr.span.text} > …`" + _points_help(after)
    elif found.type.optional:
        help_ = f"to check whether it is present, write `has({expr.span.text})`; to compare it, `{expr.span.text} == …`"
    else:
        help_ = "compare it with something, for example with `==`"
    message = f"{after} needs a condition, not {type_text(found.type)}"
    return context.error(Code.P205, message, expr.span, label=type_text(found.type), help=help_)
