"""Where an expression stands and what it may see there.

Checking goes from one expression to the next with a `Context`: the catalogue, the names that are declared, and the `Place`. The place is
what makes `node.free.cpu` right in a filter and wrong in `for pods where`, with a message that says why in the words of that place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from wharfinger.language import typed
from wharfinger.language.authority import CLUSTER, Authority
from wharfinger.language.catalogue import Catalogue, Subject
from wharfinger.language.check.work import Work
from wharfinger.language.codes import Code
from wharfinger.language.diagnostics import Diagnostics, Label
from wharfinger.language.intervals import Intervals
from wharfinger.language.source import Span
from wharfinger.language.suggest import Patience, closest
from wharfinger.language.types import Kind, Shape, Type


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A kind of position in a policy: what it may read, and what it is called in messages."""

    name: str
    subjects: frozenset[Subject]
    aggregates: bool = False

    def admits(self, shape: Shape) -> bool:
        """Whether values of this shape exist here."""
        needed = {Shape.POD: Subject.POD, Shape.NODE: Subject.NODE, Shape.ITEM: Subject.ITEM}.get(shape)
        return needed is None or needed in self.subjects


RULE = Place(name="a rule", subjects=frozenset({Subject.POD, Subject.NODE}), aggregates=True)
SCOPE = Place(name="`for pods where`", subjects=frozenset({Subject.POD}))
VICTIM = Place(name="`preemption`", subjects=frozenset({Subject.POD, Subject.ITEM}))
SELECTION = Place(name="a selection of pods", subjects=frozenset({Subject.POD, Subject.ITEM}))


def constant(name: str) -> Place:
    """The place of something that is known when the policy is compiled."""
    return Place(name=name, subjects=frozenset())


@dataclass(slots=True, kw_only=True)
class Binding:
    """What a name of the policy means. `reference` builds the typed reference; an import has `members` instead."""

    name: str
    what: str
    span: Span
    reference: Callable[[Span], typed.Expr] | None = None
    members: dict[str, Binding] | None = None
    used: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Everything that checking an expression needs.

    `lets`, `heights` and `intervals` hold what has been checked so far, by qualified name. `authority` is that of the text: what is
    imported has been shared by the cluster, and may read what the cluster may.
    """

    catalogue: Catalogue
    diagnostics: Diagnostics
    authority: Authority = CLUSTER
    place: Place = RULE
    names: dict[str, Binding] = field(default_factory=dict)
    lets: dict[str, typed.Let] = field(default_factory=dict)
    heights: dict[str, int] = field(default_factory=dict)
    intervals: Intervals = field(default_factory=Intervals)
    work: Work = field(default_factory=Work)
    patience: Patience = field(default_factory=Patience)

    def closest(self, word: str, candidates: Iterable[str]) -> str | None:
        """The candidate that an author most likely meant, as `suggest.closest`; None once looking for many names has taken long."""
        return closest(word, candidates, self.patience)

    def at(self, place: Place) -> Context:
        """The same context at another place."""
        return replace(self, place=place)

    def error(self, code: Code, message: str, span: Span, **more: object) -> typed.Expr:
        """Reports a finding; returns the expression that silences whatever would follow from it. Raises `EnoughFindings`."""
        self.work.found()
        self.diagnostics.error(code, message, span, **more)
        return unknown(span)


def unknown(span: Span) -> typed.Expr:
    """An expression that already has an error."""
    return typed.Const(span=span, type=Type(Kind.UNKNOWN), value=None)


def is_unknown(*exprs: typed.Expr) -> bool:
    """Whether any of these already has an error."""
    return any(e.type.kind is Kind.UNKNOWN for e in exprs)


def joined(*exprs: typed.Expr) -> tuple[Shape, bool]:
    """The shape and optionality of an operation on these operands."""
    return max((e.type.shape for e in exprs), default=Shape.CONST), any(e.type.optional for e in exprs)


def type_label(expr: typed.Expr, span: Span | None = None) -> Label:
    """A label that says what an expression is: "memory (bytes)"."""
    return Label(span or expr.span, type_text(expr.type))


def type_text(type_: Type) -> str:
    """A type for people: with its base unit where it has one."""
    base = {Kind.CPU: "cpu (millicores)", Kind.MEMORY: "memory (bytes)", Kind.DURATION: "duration (seconds)"}.get(type_.kind)
    plain = {Kind.PODS: "a selection of pods", Kind.POD: "a pod", Kind.NODE: "a node"}.get(type_.kind)
    return plain or (base + ("?" if type_.optional else "") if base else str(type_))


def admitted(context: Context, expr: typed.Expr) -> typed.Expr:
    """The expression if its shape exists at this place; otherwise reports why not."""
    place = context.place
    if place.admits(expr.type.shape):
        return expr
    whose = {Shape.POD: "the pod", Shape.NODE: "the candidate node", Shape.ITEM: "a placed pod"}[expr.type.shape]
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
    if place is VICTIM:
        return "`preemption` is about placed pods (`it`) and the pod that needs room, not the node; put conditions on nodes in a `filter`"
    return "`for` decides which pods are governed, before nodes are looked at; put conditions on nodes in a `filter` or behind `when`"
