"""The terms of one policy in one world: values at places, selections of pods, samples of metrics; each expression is encoded once."""

from __future__ import annotations

import hashlib
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import z3
from msgspec import Struct, field
from msgspec.structs import replace

from wharfinger.compiler import reads
from wharfinger.compiler.program import CompiledPolicy
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.catalogue import Subject
from wharfinger.language.semantics.describe import describe
from wharfinger.language.semantics.types import Kind
from wharfinger.prove import logic
from wharfinger.prove.logic import Condition, Value, as_bool, both, negated, real, same_truth
from wharfinger.prove.world import POD, Slot, World, node

MAX_SELECTION_PAIRS = 128
"""Pairs of selections with different texts that z3 compares in one question; further ones are different selections."""
MAX_WRITTEN_LENGTH = 10_000
"""Characters of a let in the text by which expressions are compared."""
MAX_TERMS = 5_000
"""The size of the terms of one question: each expression counts 1, a sum or product more, a set or table by its members."""
MAX_SHOWN = 80
"""Characters of an expression in a verdict."""


class Unmodelled(Exception):  # not a failure of the program but a verdict
    """Raised for an expression that has no meaning here."""

    def __init__(self, expr: typed.Expr) -> None:
        self.expr = expr
        super().__init__(describe(expr))

    @property
    def because(self) -> str:
        """What is not modelled, and where it is."""
        return f"`{shown(self.expr)}` ({self.expr.span})"


class TooManyTerms(Unmodelled):
    """Raised where a question has more terms than may be made for it."""

    @property
    def because(self) -> str:
        """Where the terms became too many."""
        return f"it takes more than {MAX_TERMS:,} terms; the limit was reached at `{shown(self.expr)}` ({self.expr.span})"


def shown(expr: typed.Expr) -> str:
    """The text of an expression, cut if it is long."""
    text = describe(expr)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


class Place(Struct, frozen=True):
    """The place of an expression: a node, and inside a selection the placed pod that is called `item`."""

    node: int
    item: str | None = None


class Selection(Struct):
    """Selections that select the same pods, with a number for them."""

    encoder: Encoder
    where: typed.Expr | None
    number: int


class EncodedExpression(Struct):
    """An expression that was given a term, for the comparison with the interpreter."""

    policy: CompiledPolicy
    expr: typed.Expr
    place: Place
    value: Value


class Shared(Struct):
    """The state that the encoders of several policies share in one world."""

    world: World
    selections: list[Selection] = field(default_factory=list)
    encoded: list[EncodedExpression] = field(default_factory=list)
    impossible: Callable[[World, list[Condition]], bool] = lambda _world, _facts: False
    """True if facts cannot hold together."""
    pairs: int = 0  # of MAX_SELECTION_PAIRS
    terms: int = 0  # of MAX_TERMS

    def count(self, terms: int, expr: typed.Expr) -> None:
        """Count the terms that an expression takes; raises `TooManyTerms`."""
        self.terms += terms
        if self.terms > MAX_TERMS:
            raise TooManyTerms(expr)


class Encoder(ABC):
    """The expressions of one policy as terms of a world; `encode` has the rule for each kind of expression."""

    def __init__(self, shared: Shared, compiled: CompiledPolicy, policy: typed.Policy) -> None:
        self.shared = shared
        self.world = shared.world
        self.numbers = shared.world.numbers
        self.compiled = compiled
        self.policy = policy
        self.lets: Mapping[str, typed.Expr] = {let.name: let.value for let in policy.lets}
        self.metrics = {metric.name: metric for metric in policy.metrics}
        self._known: dict[tuple[int, Place], Value] = {}
        self._texts: dict[int, str] = {}
        self._written: dict[str, typed.Expr] = {}
        self._read_constants()

    def _read_constants(self) -> None:
        """Name the texts and numbers that the policy is written with."""
        exprs = _every_expression(self.policy)
        for part in itertools.chain.from_iterable(map(typed.walk, exprs)):
            self.shared.count(_members(part, self.compiled.params), part)
            if isinstance(part, typed.Const):
                self._note(part.value, part.type.kind)
            elif isinstance(part, typed.Matches):
                for requirement in part.requirements:
                    for text in (requirement.key, *requirement.values):
                        self.world.text(text)
        for name, value in self.compiled.params.items():
            self._note(value, next(param.type.kind for param in self.policy.params if param.name == name))
        for part in itertools.chain.from_iterable(map(typed.walk, exprs)):
            if isinstance(part, typed.Call):
                for text in _samples(part):
                    self.world.text(text)

    def _note(self, value: Any, kind: Kind) -> None:
        if isinstance(value, str):
            self.world.text(value)
        elif isinstance(value, frozenset):
            for member in sorted(value):
                self._note(member, kind)
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            self.numbers.marks.add(float(value))

    # ── values ──

    @abstractmethod
    def encode(self, expr: typed.Expr, place: Place) -> Value:
        """The value of an expression whose value at that place is not known yet; Unmodelled if there is no rule for its kind."""

    def value(self, expr: typed.Expr, place: Place) -> Value:
        """The value of an expression at a place."""
        key = (id(expr), place)
        if key not in self._known:
            self.shared.count(_size(expr, self.compiled.params), expr)
            found = self._known[key] = self.encode(expr, place)
            if isinstance(expr, (typed.Call, typed.Aggregate, typed.Operation, typed.Curve, typed.MetricRef)) and place.item is None:
                self.shared.encoded.append(EncodedExpression(self.compiled, expr, place, found))
        return self._known[key]

    def true(self, expr: typed.Expr | None, place: Place) -> Condition:
        """The condition that an expression is true, and not missing; True without one."""
        if expr is None:
            return True
        value = self.value(expr, place)
        return both(value.present, value.term)

    def number(self, expr: typed.Expr) -> float:
        """The number that an expression over params is; raises Unmodelled where it is not finite."""
        found = self.value(expr, Place(0)).constant
        if found is None:
            raise Unmodelled(expr)
        return found

    def text_of(self, expr: typed.Expr) -> str:
        """The text of an expression with all names of the policy filled in: the same for expressions that mean the same anywhere."""
        if id(expr) not in self._texts:
            self._texts[id(expr)] = describe(self._filled(expr))
        return self._texts[id(expr)]

    def _let(self, expr: typed.LetRef) -> typed.Expr:
        """The value of a let, written out; a long one is replaced by a name made from its text, because lets can double many times."""
        if expr.name not in self._written:
            value = self._filled(self.lets[expr.name])
            text = describe(value)
            if len(text) > MAX_WRITTEN_LENGTH:
                value = replace(expr, name=hashlib.sha256(text.encode()).hexdigest())
            self._written[expr.name] = value
        return self._written[expr.name]

    def _filled(self, expr: typed.Expr) -> typed.Expr:
        if isinstance(expr, typed.LetRef):
            return self._let(expr)
        if isinstance(expr, typed.ParamRef):
            return typed.Const(span=expr.span, type=expr.type, value=self.compiled.params[expr.name])
        if isinstance(expr, typed.MetricRef):
            return replace(expr, name=self.sample_name(expr.name))
        changes: dict[str, Any] = {}
        for name in expr.__struct_fields__:
            part = getattr(expr, name)
            if isinstance(part, typed.Expr):
                changes[name] = self._filled(part)
            elif isinstance(part, tuple) and part and isinstance(part[0], typed.Expr):
                changes[name] = tuple(map(self._filled, part))
            elif isinstance(part, typed.Entries | typed.Workload):
                changes[name] = _named_by_content(part)
            elif isinstance(expr, typed.Curve) and name == "points":
                changes[name] = tuple((self._filled(x), self._filled(y)) for x, y in part)
            elif isinstance(expr, typed.Call) and name == "named":
                changes[name] = {key: self._filled(each) for key, each in part.items()}
        return replace(expr, **changes)

    def owner(self, subject: Subject, place: Place) -> str:
        """The owner of attributes of a subject."""
        if subject is Subject.NODE:
            return node(place.node)
        return POD if subject is Subject.POD or place.item is None else place.item

    # ── metrics ──

    def sample_name(self, metric: str) -> str:
        """The name of the samples of a metric: its signal, and its name in the policy."""
        found = self.metrics[metric]
        return f"{found.signal} as {found.name}"

    def sample(self, metric: str, index: int) -> tuple[Value, Any]:
        """The sample of a metric at a node, and its age in seconds."""
        name = f"{node(index)} {self.sample_name(metric)}"
        value = self.world.free(name, self.metrics[metric].type.kind)
        age = self.world.free(f"{name} age", Kind.DURATION, low=-logic.EXACT, high=logic.EXACT)
        if self.world.example:
            self.world.facts.extend((value.term >= 0, value.term <= real(1 << 40), z3.Or(age.term == 0, age.term == 86400)))
        return Value(value.term, z3.Bool(f"{name} is there"), value.low, value.high), age.term

    def fresh(self, metric: str, index: int) -> Condition:
        """The condition that a node has a sample that is fresh."""
        value, age = self.sample(metric, index)
        return both(value.present, age <= real(self.metrics[metric].max_age))

    def suspended(self, metric: str) -> Condition:
        """The condition that too few nodes have a fresh sample."""
        found = self.metrics[metric]
        if found.min_coverage <= 0:
            return False
        if not self.world.example:
            return z3.Bool(f"suspended {self.sample_name(metric)} {found.max_age!r} {found.min_coverage!r}")
        n = self.world.n_nodes
        fresh = z3.Sum(*(z3.If(as_bool(self.fresh(metric, i)), 1, 0) for i in range(n)))
        return z3.Or(*(fresh == k for k in range(n + 1) if k / n < found.min_coverage)) if n else False

    def in_force(self, *exprs: typed.Expr | None) -> Condition:
        """The condition that no metric that a rule reads is suspended."""
        names = sorted(reads.metrics_read([expr for expr in exprs if expr is not None], self.lets))
        return both(*(negated(self.suspended(name)) for name in names))

    # ── selections ──

    def selection(self, expr: typed.Expr) -> Selection:
        """The selection of pods that an expression is."""
        while isinstance(expr, typed.LetRef):
            expr = self.lets[expr.name]
        if not isinstance(expr, typed.Select):
            raise TypeError("an aggregate is over a selection")
        for known in self.shared.selections:
            if known.encoder is self and known.where is expr.where:
                return known
            if _where_text(known.encoder, known.where) == _where_text(self, expr.where) or self._selects_the_same(known, expr.where):
                return known
        found = Selection(self, expr.where, len(self.shared.selections))
        self.shared.selections.append(found)
        return found

    def _selects_the_same(self, known: Selection, where: typed.Expr | None) -> bool:
        if self.shared.pairs >= MAX_SELECTION_PAIRS:
            return False
        self.shared.pairs += 1
        place = Place(0, "any placed pod")
        differ = negated(same_truth(known.encoder.true(known.where, place), self.true(where, place)))
        return self.shared.impossible(self.world, [differ])

    def selected(self, found: Selection, slot: Slot) -> Condition:
        """The condition that the pods of a slot are selected."""
        return found.encoder.true(found.where, Place(slot.node, slot.owner))


def n_members(compiled: CompiledPolicy) -> int:
    """The number of members of all sets and selectors of a policy, which every question reads."""
    return sum(_members(part, compiled.params) for expr in _every_expression(compiled.policy) for part in typed.walk(expr))


def _every_expression(policy: typed.Policy) -> list[typed.Expr]:
    return [*(let.value for let in policy.lets), *rule_expressions(policy)]


def _members(expr: typed.Expr, params: Mapping[str, Any]) -> int:
    """The members of a set, or the values of a label selector; 0 for any other expression. `params` are the values of params by name."""
    if isinstance(expr, typed.Matches):
        return sum(len(requirement.values) for requirement in expr.requirements)
    value = expr.value if isinstance(expr, typed.Const) else params[expr.name] if isinstance(expr, typed.ParamRef) else None
    return len(value) if isinstance(value, frozenset) else 0


def _size(expr: typed.Expr, params: Mapping[str, Any]) -> int:
    """The terms that an expression takes by itself."""
    if isinstance(expr, typed.Operation):
        return SUM if expr.op in _ARITHMETIC else 1
    if isinstance(expr, typed.Lookup):
        return ENTRY * len(expr.entries.keys)
    if isinstance(expr, typed.Curve):
        return ENTRY * len(expr.points)
    return 1 + _members(expr, params)


SUM = 4
"""The terms of an operation whose result is rounded."""
ENTRY = 2
"""The terms of an entry of a table, or a point of a curve."""
_ARITHMETIC = frozenset({typed.Op.ADD, typed.Op.SUB, typed.Op.MUL, typed.Op.DIV})


def _where_text(encoder: Encoder, where: typed.Expr | None) -> str:
    return "" if where is None else encoder.text_of(where)


def rule_expressions(policy: typed.Policy) -> list[typed.Expr]:
    """The expressions of the rules of a policy."""
    found: list[typed.Expr | None] = [policy.scope]
    for rule in policy.filters:
        found += [rule.when, *(clause.condition for clause in rule.clauses)]
    for score in policy.scores:
        found += [score.when, score.value, score.weight, score.missing_points, score.min_spread]
    found += [key.value for key in policy.tie_break]
    found += [victim.condition for victim in policy.victims]
    return [expr for expr in found if expr is not None]


_VARIED = {
    "number": ("0", "1", "10", "1e9"),
    "semver": ("0.0.0", "1.2.3", "999999.0.0"),
    "hash": tuple(f"p{index}" for index in range(30)),
}


def _samples(call: typed.Call) -> list[str]:
    """Texts for which a function of strings differs, made from the texts that it is given."""
    given = [a.value for a in call.arguments if isinstance(a, typed.Const) and isinstance(a.value, str)]
    if call.function.name in _VARIED:
        return list(_VARIED[call.function.name])
    make: Callable[[str], list[str]] = {
        "starts_with": lambda text: [f"{text}x1"],
        "ends_with": lambda text: [f"x1{text}"],
        "contains": lambda text: [f"x1{text}x1"],
        "version_compare": lambda text: [text, "0.0.1", "999999.0.0"],
        "version_at_least": lambda text: [text, "0.0.1", "999999.0.0"],
        "matches_regex": lambda text: [
            text.strip("^$").replace("\\", ""),
            text.strip("^$").replace("[0-9]+", "1").replace(".*", "x").replace("\\", ""),
        ],
    }.get(call.function.name, lambda _: [])
    return [sample for text in given for sample in make(text)]


def _named_by_content(part: typed.Entries | typed.Workload) -> typed.Entries | typed.Workload:
    """A table without its name, or a workload with a name made from its content."""
    return part.named(None) if isinstance(part, typed.Entries) else replace(part, name=str(part.requests))
