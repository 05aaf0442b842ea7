"""Typed expressions as terms: the meaning that the interpreter has, for unknown pods and nodes.

`ENCODE` holds the rule for each kind of expression. What has no rule of its own (a function that reads the whole cluster, an average over
pods) becomes an unknown: equal where the same text is asked about the same node, in the interval that its record gives, and otherwise open.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import z3

from wharfinger.builtins import texts
from wharfinger.compiler import reads
from wharfinger.compiler.interpreter import holds
from wharfinger.compiler.program import CompiledPolicy
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.catalogue import Subject
from wharfinger.language.semantics.describe import describe
from wharfinger.language.semantics.types import NUMERIC, Kind, Shape
from wharfinger.model.attributes import NODE_ATTRIBUTES
from wharfinger.prove import fullness, logic
from wharfinger.prove.logic import Condition, Value, as_bool, both, chosen, constant, either, negated, real, same_truth
from wharfinger.prove.world import EFFECTS, FEW, POD, TEXTS, Slot, World, node

POD_COUNT = next(each for each in NODE_ATTRIBUTES if each.path == "pod_count")
NODE_LABELS = next(each for each in NODE_ATTRIBUTES if each.path == "labels")


class Unmodelled(Exception):  # not a failure of the program but a verdict
    """Raised for an expression that has no meaning here."""

    def __init__(self, expr: typed.Expr) -> None:
        self.expr = expr
        super().__init__(describe(expr))


@dataclass(frozen=True, slots=True)
class Place:
    """Where an expression is read: at a node, and inside a selection for the placed pod that is called `item`."""

    node: int
    item: str | None = None


@dataclass(slots=True)
class Selection:
    """Selections that select the same pods, and the number that stands for them."""

    encoder: Encoder
    where: typed.Expr | None
    number: int


@dataclass(slots=True)
class EncodedExpression:
    """An expression that was given a term, for the comparison with what the interpreter says."""

    policy: CompiledPolicy
    expr: typed.Expr
    place: Place
    value: Value


@dataclass(slots=True)
class Shared:
    """What the encoders of several policies have in common in one world."""

    world: World
    selections: list[Selection] = field(default_factory=list)
    encoded: list[EncodedExpression] = field(default_factory=list)
    equal: Callable[[World, list[Condition]], bool] = lambda _world, _facts: False
    """Tells whether facts cannot hold together."""


class Encoder:
    """The expressions of one policy as terms of a world."""

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
        self._read_constants()

    def _read_constants(self) -> None:
        """Names the texts and numbers that the policy is written with."""
        exprs = [let.value for let in self.policy.lets] + list(rule_expressions(self.policy))
        for part in itertools.chain.from_iterable(map(typed.walk, exprs)):
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

    def value(self, expr: typed.Expr, place: Place) -> Value:
        """The value of an expression at a place."""
        key = (id(expr), place)
        if key not in self._known:
            rule = ENCODE.get(type(expr))
            if rule is None:
                raise Unmodelled(expr)
            found = rule(self, expr, place)
            self._known[key] = found
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
        """The text of an expression with its lets and params filled in: the same for expressions that mean the same anywhere."""
        if id(expr) not in self._texts:
            self._texts[id(expr)] = describe(self._filled(expr))
        return self._texts[id(expr)]

    def _filled(self, expr: typed.Expr) -> typed.Expr:
        if isinstance(expr, typed.LetRef):
            return self._filled(self.lets[expr.name])
        if isinstance(expr, typed.ParamRef):
            return typed.Const(span=expr.span, type=expr.type, value=self.compiled.params[expr.name])
        if isinstance(expr, typed.MetricRef):
            return replace(expr, name=self.sample_name(expr.name))
        changes: dict[str, Any] = {}
        for name in expr.__dataclass_fields__:
            part = getattr(expr, name)
            if isinstance(part, typed.Expr):
                changes[name] = self._filled(part)
            elif isinstance(part, tuple) and part and isinstance(part[0], typed.Expr):
                changes[name] = tuple(map(self._filled, part))
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
        """The name of the samples of a metric: what is measured, and what it is called."""
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
        names = sorted({name for expr in exprs if expr is not None for name in reads.metrics_read(expr, self.lets)})
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
        place = Place(0, "any placed pod")
        differ = negated(same_truth(known.encoder.true(known.where, place), self.true(where, place)))
        return self.shared.equal(self.world, [differ])

    def selected(self, found: Selection, slot: Slot) -> Condition:
        """The condition that the pods of a slot are selected."""
        return found.encoder.true(found.where, Place(slot.node, slot.owner))


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


# ── leaves ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _plain(encoder: Encoder, value: Any, type_: Any) -> Value:
    if type_.kind is Kind.SET:
        return Value(encoder.world.members(frozenset(value), type_.element))
    if isinstance(value, bool):
        return Value(value)
    return Value(encoder.world.text(value)) if isinstance(value, str) else constant(float(value))


def _const(self: Encoder, expr: typed.Const, _: Place) -> Value:
    return _plain(self, expr.value, expr.type)


def _param(self: Encoder, expr: typed.ParamRef, _: Place) -> Value:
    return _plain(self, self.compiled.params[expr.name], expr.type)


def _let(self: Encoder, expr: typed.LetRef, place: Place) -> Value:
    return self.value(self.lets[expr.name], place)


def _metric(self: Encoder, expr: typed.MetricRef, place: Place) -> Value:
    value, _ = self.sample(expr.name, place.node)
    return Value(value.term, self.fresh(expr.name, place.node), value.low, value.high)


def _attribute(self: Encoder, expr: typed.AttributeRef, place: Place) -> Value:
    owner = self.owner(expr.attribute.subject, place)
    if expr.key is None:
        return self.world.attribute(owner, expr.attribute)
    key = self.value(expr.key, place)
    found = self.world.attribute(owner, expr.attribute, key.term)
    return replace(found, present=both(key.present, found.present))


# ── operators ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _operation(self: Encoder, expr: typed.Operation, place: Place) -> Value:  # noqa: PLR0911 — one case per family of operators
    values = [self.value(operand, place) for operand in expr.operands]
    present = both(*(value.present for value in values))
    op = expr.op
    if op in _ARITHMETIC:
        return _ARITHMETIC[op](self, *values)
    if op is typed.Op.NOT:
        return Value(negated(values[0].term), present)
    a, b = values
    if op is typed.Op.AND:
        false = either(both(a.present, negated(a.term)), both(b.present, negated(b.term)))
        return Value(negated(false), either(false, present))
    if op is typed.Op.OR:
        true = either(both(a.present, a.term), both(b.present, b.term))
        return Value(true, either(true, present))
    if op is typed.Op.COALESCE:
        return _either_value(a.present, a, b, present=either(a.present, b.present))
    if expr.operands[0].type.kind is Kind.VERSION and op in _ORDER:
        newer = self.world.applied(f"version {op.value}", _by_version(op), [a.term, b.term], Kind.BOOL, partial=False)
        return Value(newer.term, present)
    return Value(_compared(op, expr, a, b), present)


def _compared(op: typed.Op, expr: typed.Operation, a: Value, b: Value) -> Condition:
    if op is typed.Op.IN:
        found: Condition = b.term(a.term)
        return found
    kind = expr.operands[0].type.kind
    if op is typed.Op.EQ:
        if kind is Kind.BOOL:
            return same_truth(a.term, b.term)
        if kind in NUMERIC or kind in TEXTS:
            return a.term == b.term
        raise Unmodelled(expr)
    if kind not in NUMERIC:
        raise Unmodelled(expr)
    if a.constant is not None and b.constant is not None:
        return _ORDER[op](a.constant, b.constant)
    return _ORDER[op](a.term, b.term)


def _by_version(op: typed.Op) -> Callable[[str, str], bool]:
    """The comparison of two texts that are versions; texts that are none do not occur."""

    def compare(a: str, b: str) -> bool:
        left, right = texts.ordered(a), texts.ordered(b)
        return left is not None and right is not None and bool(_ORDER[op](left, right))

    return compare


def _either_value(condition: Condition, a: Value, b: Value, *, present: Condition) -> Value:
    if callable(a.term) and not z3.is_expr(a.term):
        return Value(lambda member: chosen(condition, a.term(member), b.term(member)), present)
    if isinstance(condition, bool):
        return replace(a if condition else b, present=present)
    return Value(chosen(condition, a.term, b.term), present, min(a.low, b.low), max(a.high, b.high), a.whole and b.whole)


_ORDER: Mapping[typed.Op, Callable[[Any, Any], Condition]] = {
    typed.Op.LT: lambda a, b: a < b,
    typed.Op.LE: lambda a, b: a <= b,
    typed.Op.GT: lambda a, b: a > b,
    typed.Op.GE: lambda a, b: a >= b,
}
_ARITHMETIC: Mapping[typed.Op, Callable[..., Value]] = {
    typed.Op.NEG: lambda self, a: self.numbers.negative(a),
    typed.Op.ADD: lambda self, a, b: self.numbers.sum(a, b),
    typed.Op.SUB: lambda self, a, b: self.numbers.difference(a, b),
    typed.Op.MUL: lambda self, a, b: self.numbers.product(a, b),
    typed.Op.DIV: lambda self, a, b: self.numbers.quotient(a, b),
}


def _if(self: Encoder, expr: typed.If, place: Place) -> Value:
    condition, then, otherwise = (self.value(each, place) for each in (expr.condition, expr.then, expr.otherwise))
    present = both(condition.present, chosen(condition.term, then.present, otherwise.present))
    return _either_value(condition.term, then, otherwise, present=present)


def _has(self: Encoder, expr: typed.Has, place: Place) -> Value:
    return Value(self.value(expr.operand, place).present)


def _curve(self: Encoder, expr: typed.Curve, place: Place) -> Value:
    x = self.value(expr.x, place)
    points = [(self.number(at), self.number(y)) for at, y in expr.points]
    self.numbers.marks.update(at for at, _ in points)
    ys = [y for _, y in points]
    found = constant(points[-1][1])
    for (x0, y0), (x1, y1) in reversed(list(itertools.pairwise(points))):
        if x1 == x0:
            continue  # no x lies between
        slope = (y1 - y0) / (x1 - x0)
        line = self.numbers.sum(self.numbers.product(constant(slope), self.numbers.difference(x, constant(x0))), constant(y0))
        found = _either_value(x.term < real(x1), line, found, present=True)
    found = _either_value(x.term <= real(points[0][0]), constant(points[0][1]), found, present=True)
    edge = max(abs(y) for y in ys) * 1e-12
    if not math.isfinite(edge) or not all(
        math.isfinite((y1 - y0) / (x1 - x0)) for (x0, y0), (x1, y1) in itertools.pairwise(points) if x1 != x0
    ):
        return Value(found.term, both(x.present, z3.Bool(f"{self.text_of(expr)} is a number at {place}")))
    return Value(found.term, x.present, min(ys) - edge, max(ys) + edge)


def _lookup(self: Encoder, expr: typed.Lookup, place: Place) -> Value:
    key = self.value(expr.key, place)
    values = [_plain(self, value, expr.type) for value in expr.entries.values]
    here = [key.term == (self.world.text(known) if isinstance(known, str) else real(known)) for known in expr.entries.keys]
    found = values[-1]
    for condition, value in reversed(list(zip(here, values, strict=True))):
        found = _either_value(condition, value, found, present=True)
    return replace(found, present=both(key.present, either(*here)))


def _matches(self: Encoder, expr: typed.Matches, place: Place) -> Value:
    labels = expr.labels
    if not isinstance(labels, typed.AttributeRef):
        raise TypeError("a label selector is matched against labels")
    owner = self.owner(labels.attribute.subject, place)
    return Value(both(*(_requirement(self, requirement, owner, labels) for requirement in expr.requirements)))


def _requirement(self: Encoder, requirement: typed.Requirement, owner: str, labels: typed.AttributeRef) -> Condition:
    value = self.world.attribute(owner, labels.attribute, self.world.text(requirement.key))
    one_of = either(*(value.term == self.world.text(each) for each in requirement.values))
    match requirement.op:
        case typed.SelectorOp.EXISTS:
            return value.present
        case typed.SelectorOp.DOES_NOT_EXIST:
            return negated(value.present)
        case typed.SelectorOp.IN:
            return both(value.present, one_of)
        case typed.SelectorOp.NOT_IN:
            return negated(both(value.present, one_of))
    bound = requirement.values[0]
    for near in (-1, 0, 1):
        self.world.text(str(int(bound) + near))
    name = f"{requirement.op.value} {bound}"
    compared = self.world.applied(name, lambda text: holds(requirement, text), [value.term], Kind.BOOL, partial=False)
    return both(value.present, compared.term)


# ── pods ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _aggregate(self: Encoder, expr: typed.Aggregate, place: Place) -> Value:
    if expr.selection.type.kind is Kind.DEVICES:
        raise Unmodelled(expr)
    found = self.selection(expr.selection)
    label = _domain_label(self, expr, place.node) if expr.per is typed.Per.DOMAIN else None
    present = True if label is None else label.present
    counts = expr.reduction is typed.Reduction.COUNT or expr.value is None
    if self.world.example and (counts or expr.reduction is typed.Reduction.SUM):
        return replace(_added(self, expr, found, place), present=present)
    of = "" if expr.value is None else f" {self.text_of(expr.value)}"
    name = f"{expr.reduction.value} of selection {found.number}{of} per {expr.per.value} {expr.topology_key or ''}"
    low, high = (0.0, logic.EXACT) if counts else _sum_ends(self, expr, place)
    if label is not None:
        term = z3.Function(name, z3.IntSort(), z3.IntSort() if counts else z3.RealSort())(label.term)
        if name not in self.world.opaque:
            self.world.opaque.append(name)
        self.world.facts.extend(term >= (int(low) if counts else real(low)) for _ in range(math.isfinite(low)))
        value = Value(z3.ToReal(term) if counts else term, True, low, high, counts)
    else:
        where = f" at {node(place.node)}" if expr.per is typed.Per.NODE else ""
        value = self.world.free(f"{name}{where}", Kind.NUMBER, low=low, high=high, whole=counts)
        if counts and expr.per is typed.Per.NODE:
            self.world.facts.append(value.term <= self.world.attribute(node(place.node), POD_COUNT).term)
    if expr.reduction in (typed.Reduction.COUNT, typed.Reduction.SUM):
        return replace(value, present=present)
    some = (
        z3.Bool(f"{name} is there at {place.node}")
        if label is None
        else z3.Function(f"{name} is there", z3.IntSort(), z3.BoolSort())(label.term)
    )
    return replace(value, present=both(present, some))


def _sum_ends(self: Encoder, expr: typed.Aggregate, place: Place) -> tuple[float, float]:
    """The interval of a sum of any number of pods, or of one of their values."""
    if expr.value is None:
        return 0.0, logic.EXACT
    one = self.value(expr.value, Place(place.node, "any placed pod"))
    if expr.reduction is not typed.Reduction.SUM:
        # an average is rounded twice
        return (one.low - abs(one.low) * 1e-9, one.high + abs(one.high) * 1e-9) if one.largest < logic.SMALL else (-math.inf, math.inf)
    return (0.0 if one.low >= 0 else -math.inf), (0.0 if one.high <= 0 else math.inf)


def _domain_label(self: Encoder, expr: typed.Aggregate, index: int) -> Value:
    return self.world.attribute(node(index), NODE_LABELS, self.world.text(expr.topology_key or ""))


def _added(self: Encoder, expr: typed.Aggregate, found: Selection, place: Place) -> Value:
    """The count or sum over the pods of an example."""
    terms = []
    for slot in self.world.slots:
        over = True
        if expr.per is typed.Per.NODE:
            over = slot.node == place.node
        elif expr.per is typed.Per.DOMAIN and slot.node != place.node:
            here, there = _domain_label(self, expr, place.node), _domain_label(self, expr, slot.node)
            over = both(there.present, here.term == there.term)
        if over is False:
            continue
        one = constant(1.0) if expr.value is None else self.value(expr.value, Place(slot.node, slot.owner))
        total: Any = z3.ToReal(slot.number)
        if expr.value is not None:
            self.world.facts.append(slot.number <= FEW)
            total = z3.Sum(*(z3.If(slot.number >= number, one.term, real(0)) for number in range(1, FEW + 1)))
        terms.append(z3.If(as_bool(both(over, one.present, self.selected(found, slot))), total, real(0)))
    return Value(z3.Sum(*terms) if terms else real(0), True, 0.0 if expr.value is None else -math.inf, math.inf, whole=expr.value is None)


# ── functions ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _call(self: Encoder, expr: typed.Call, place: Place) -> Value:  # noqa: PLR0911 — one case per family of functions
    name = expr.function.name
    if name in _CALLS:
        return _CALLS[name](self, *(self.value(a, place) for a in expr.arguments))
    if name in ("tolerates", "taints"):
        return _of_taints(self, expr, place)
    if name == "age":
        return self.numbers.difference(self.world.now, self.value(expr.arguments[0], place))
    if name.startswith("unseen_requests"):
        return _unseen(self, expr, place)
    if self.world.example and name in _OF_EXAMPLES:
        return _OF_EXAMPLES[name](self, expr, place)
    plain = all(a.type.kind in TEXTS for a in expr.arguments) and not expr.function.context and not expr.named
    if plain and expr.arguments:
        return _of_strings(self, expr, place)
    return _opaque(self, expr, place)


def _of_strings(self: Encoder, expr: typed.Call, place: Place) -> Value:
    values = [self.value(a, place) for a in expr.arguments]
    kind = expr.type.kind
    partial = expr.function.result(tuple(a.type.present() for a in expr.arguments)).optional
    found = self.world.applied(expr.function.name, expr.function.scalar, [value.term for value in values], kind, partial=partial)
    low, high = -math.inf, math.inf
    if expr.function.interval is not None and kind in NUMERIC:
        low, high = expr.function.interval(*((-math.inf, math.inf) for _ in expr.arguments))
    if math.isfinite(low) and z3.is_expr(found.term):
        self.world.facts.append(found.term >= real(low - abs(low) * 1e-9))
    if math.isfinite(high) and z3.is_expr(found.term):
        self.world.facts.append(found.term <= real(high + abs(high) * 1e-9))
    return Value(found.term, both(found.present, *(value.present for value in values)), found.low, found.high)


def _of_taints(self: Encoder, expr: typed.Call, place: Place) -> Value:
    """How many taints of an effect a node has, and whether the pod tolerates a taint."""
    text = expr.arguments[1]
    value = text.value if isinstance(text, typed.Const) else ""
    if expr.function.name == "tolerates":
        return Value(z3.Bool(f"{self.owner(Subject.POD, place)} tolerates {value}"))
    each = [self.world.free(f"{node(place.node)} taints {effect}", Kind.COUNT, low=0.0, high=2.0**20, whole=True) for effect in EFFECTS]
    counts = [each[EFFECTS.index(value)]] if value in EFFECTS else each
    return Value(z3.Sum(*(count.term for count in counts)), True, 0.0, 3 * 2.0**20, whole=True)


def _unseen(self: Encoder, expr: typed.Call, place: Place) -> Value:
    metric = expr.arguments[0]
    if not isinstance(metric, typed.MetricRef):
        return _opaque(self, expr, place)
    sample, _ = self.sample(metric.name, place.node)
    window = self.metrics[metric.name].window
    name = f"{expr.function.name} {self.sample_name(metric.name)} {window!r} at {node(place.node)}"
    value = self.world.free(name, Kind.NUMBER, low=0.0, high=logic.EXACT, whole=True)
    if self.world.example:
        self.world.facts.append(value.term == 0)
    return replace(value, present=sample.present)


def _opaque(self: Encoder, expr: typed.Call, place: Place) -> Value:
    """An unknown for the value of a function, the same wherever the same text is asked about the same node."""
    values = [self.value(a, place) for a in (*expr.arguments, *expr.named.values()) if a.type.kind in NUMERIC or a.type.kind in _TERMS]
    selections = [self.selection(a).number for a in expr.arguments if a.type.kind is Kind.PODS]
    pure = (
        bool(expr.arguments)
        and expr.type.kind in NUMERIC
        and not expr.function.context
        and all(a.type.kind in NUMERIC for a in expr.arguments)
        and not expr.named
    )
    function = expr.function
    low, high = -math.inf, math.inf
    if function.interval is not None and not any(v.constant is not None and v.constant < 0 for v in values[len(expr.arguments) :]):
        low, high = function.interval(*((v.low, v.high) for v in values[: len(expr.arguments)]))
        low, high = low - abs(low) * 1e-9, high + abs(high) * 1e-9
    present = both(*(value.present for value in values))
    if pure:
        term = z3.Function(function.name, *[z3.RealSort()] * len(values), z3.RealSort())(*(value.term for value in values))
        there = z3.Function(f"{function.name} is there", *[z3.RealSort()] * len(values), z3.BoolSort())(*(value.term for value in values))
        found = Value(term, True, low, high)
        self.world.facts.extend(term >= real(low) for _ in range(math.isfinite(low)))
        self.world.facts.extend(term <= real(high) for _ in range(math.isfinite(high)))
    else:
        arguments = [self.text_of(a) for a in (*expr.arguments, *expr.named.values()) if a.type.kind is not Kind.PODS]
        where = f" at {place.item or node(place.node)}" if expr.type.shape > Shape.POD else ""
        text = f"{function.name}({arguments} {list(expr.named)}) over {selections}{where}"
        if expr.type.kind not in NUMERIC | TEXTS | {Kind.BOOL}:
            raise Unmodelled(expr)
        found = self.world.free(text, Kind.NUMBER if expr.type.kind in NUMERIC else expr.type.kind, low=low, high=high)
        there = z3.Bool(f"{text} is there")
    partial = function.result(tuple(a.type.present() for a in expr.arguments)).optional or (pure and not _never_missing(function, values))
    return replace(found, present=both(present, there if partial else True))


def _never_missing(function: Any, values: list[Value]) -> bool:
    return bool(function.never_nan) and all(math.isfinite(value.low) and math.isfinite(value.high) for value in values)


_TERMS = frozenset({Kind.STRING, Kind.BOOL})


def _least(_self: Encoder, *values: Value) -> Value:
    found = values[0]
    for value in values[1:]:
        term = z3.If(value.term < found.term, value.term, found.term)
        present = both(found.present, value.present)
        found = Value(term, present, min(found.low, value.low), min(found.high, value.high), found.whole and value.whole)
    return found


def _greatest(_self: Encoder, *values: Value) -> Value:
    found = values[0]
    for value in values[1:]:
        term = z3.If(value.term > found.term, value.term, found.term)
        present = both(found.present, value.present)
        found = Value(term, present, max(found.low, value.low), max(found.high, value.high), found.whole and value.whole)
    return found


def _clamp(self: Encoder, x: Value, low: Value, high: Value) -> Value:
    return _least(self, _greatest(self, x, low), high)


def _abs(self: Encoder, x: Value) -> Value:
    return _greatest(self, x, self.numbers.negative(x))


def _floor(_self: Encoder, x: Value) -> Value:
    if x.whole:
        return x
    low, high = (math.floor(end) if math.isfinite(end) else end for end in (x.low, x.high))
    return Value(z3.ToReal(z3.ToInt(x.term)), x.present, low, high, whole=True)


def _ceil(self: Encoder, x: Value) -> Value:
    return self.numbers.negative(_floor(self, self.numbers.negative(x)))


def _ratio(self: Encoder, a: Value, b: Value) -> Value:
    return self.numbers.quotient(a, b)


_CALLS: Mapping[str, Callable[..., Value]] = {
    "ratio": _ratio,
    "min": _least,
    "max": _greatest,
    "clamp": _clamp,
    "abs": _abs,
    "floor": _floor,
    "ceil": _ceil,
}


MODELLED = frozenset(_CALLS) | {"tolerates", "taints", "age"}
"""Functions of which everything is known."""


# ── functions in examples ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _allocated(self: Encoder, expr: typed.Call, place: Place) -> Value:
    """The points of `least_allocated` and `most_allocated` for cpu and memory, where what the node has is known."""
    weights = {name: self.number(weight) for name, weight in expr.named.items()}
    weights |= {str(a.value): 1.0 for a in expr.arguments if isinstance(a, typed.Const)}
    mean = fullness.most_allocated if expr.function.name == "most_allocated" else fullness.least_allocated
    term = mean(self.world, place.node, weights or dict.fromkeys(fullness.NATIVE, 1.0))
    return _opaque(self, expr, place) if term is None else Value(term, True, 0.0, 100.0)


def _has_taint(self: Encoder, expr: typed.Call, place: Place) -> Value:
    text = expr.arguments[-1]
    if not isinstance(text, typed.Const):
        return _opaque(self, expr, place)
    return Value(z3.Bool(f"{node(place.node)} has taint {text.value}"))


_OF_EXAMPLES: Mapping[str, Callable[[Encoder, typed.Call, Place], Value]] = {
    "has_taint": _has_taint,
    "least_allocated": _allocated,
    "most_allocated": _allocated,
}

ENCODE: Mapping[type[typed.Expr], Callable[[Encoder, Any, Place], Value]] = {
    typed.Const: _const,
    typed.ParamRef: _param,
    typed.LetRef: _let,
    typed.MetricRef: _metric,
    typed.AttributeRef: _attribute,
    typed.Operation: _operation,
    typed.If: _if,
    typed.Has: _has,
    typed.Curve: _curve,
    typed.Lookup: _lookup,
    typed.Matches: _matches,
    typed.Aggregate: _aggregate,
    typed.Call: _call,
}
