"""Aggregates over pods and calls of functions, as terms.

A call without a rule here (a function that reads the whole cluster, an average over pods) becomes an unknown: equal for the same text and
the same node, in the interval that its record gives, and otherwise open.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import z3
from msgspec.structs import replace

from wharfinger.language.semantics import typed
from wharfinger.language.semantics.catalogue import Subject
from wharfinger.language.semantics.types import NUMERIC, Kind, Shape
from wharfinger.prove import logic
from wharfinger.prove.encoder import Encoder, Place, Selection, Unmodelled
from wharfinger.prove.logic import Term, Value, as_bool, both, constant, real
from wharfinger.prove.world import EFFECTS, MAX_SUMMED, POD, TEXTS, World, node, of_node, of_pod

POD_COUNT = of_node("pod_count")
NODE_LABELS = of_node("labels", keyed=True)
COUNTED_BY_SCORES = ("cpu", "memory")
DEFAULTS = {"cpu": 100, "memory": 200 << 20}  # what a container without requests counts for in scores


# ── pods ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def aggregate(encoder: Encoder, expr: typed.Aggregate, place: Place) -> Value:
    """The value of an aggregate over placed pods, or of a count of devices; Unmodelled for other aggregates over devices."""
    if expr.selection.type.kind is Kind.DEVICES:
        return _of_devices(encoder, expr, place)
    found = encoder.selection(expr.selection)
    label = _domain_label(encoder, expr, place.node) if expr.per is typed.Per.DOMAIN else None
    present = True if label is None else label.present
    counts = expr.reduction is typed.Reduction.COUNT or expr.value is None
    if encoder.world.example and (counts or expr.reduction is typed.Reduction.SUM):
        return replace(_added(encoder, expr, found, place), present=present)
    of = "" if expr.value is None else f" {encoder.text_of(expr.value)}"
    name = f"{expr.reduction.value} of selection {found.number}{of} per {expr.per.value} {expr.topology_key or ''}"
    low, high = (0.0, logic.EXACT) if counts else _sum_ends(encoder, expr, place)
    if label is not None:
        term = z3.Function(name, z3.IntSort(), z3.IntSort() if counts else z3.RealSort())(label.term)
        if name not in encoder.world.opaque:
            encoder.world.opaque.append(name)
        encoder.world.facts.extend(term >= (int(low) if counts else real(low)) for _ in range(math.isfinite(low)))
        value = Value(z3.ToReal(term) if counts else term, True, low, high, counts)
    else:
        where = f" at {node(place.node)}" if expr.per is typed.Per.NODE else ""
        value = encoder.world.free(f"{name}{where}", Kind.NUMBER, low=low, high=high, whole=counts)
        if counts and expr.per is typed.Per.NODE:
            encoder.world.facts.append(value.term <= encoder.world.attribute(node(place.node), POD_COUNT).term)
    if expr.reduction in (typed.Reduction.COUNT, typed.Reduction.SUM):
        return replace(value, present=present)
    some = (
        z3.Bool(f"{name} is there at {place.node}")
        if label is None
        else z3.Function(f"{name} is there", z3.IntSort(), z3.BoolSort())(label.term)
    )
    return replace(value, present=both(present, some))


def _of_devices(encoder: Encoder, expr: typed.Aggregate, place: Place) -> Value:
    """An unknown for the number of selected devices of a node, the same for the same text and node."""
    if expr.reduction is not typed.Reduction.COUNT:
        raise Unmodelled(expr)
    return encoder.world.free(f"{encoder.text_of(expr)} at {node(place.node)}", Kind.NUMBER, low=0.0, high=logic.EXACT, whole=True)


def _sum_ends(encoder: Encoder, expr: typed.Aggregate, place: Place) -> tuple[float, float]:
    """The interval of a sum of any number of pods, or of one of their values."""
    if expr.value is None:
        return 0.0, logic.EXACT
    one = encoder.value(expr.value, Place(place.node, "any placed pod"))
    if expr.reduction is not typed.Reduction.SUM:
        # an average is rounded twice
        return (one.low - abs(one.low) * 1e-9, one.high + abs(one.high) * 1e-9) if one.largest < logic.MAX_SAFE else (-math.inf, math.inf)
    return (0.0 if one.low >= 0 else -math.inf), (0.0 if one.high <= 0 else math.inf)


def _domain_label(encoder: Encoder, expr: typed.Aggregate, index: int) -> Value:
    return encoder.world.attribute(node(index), NODE_LABELS, encoder.world.text(expr.topology_key or ""))


def _added(encoder: Encoder, expr: typed.Aggregate, found: Selection, place: Place) -> Value:
    """The count or sum over the pods of an example."""
    terms = []
    for slot in encoder.world.slots:
        over = True
        if expr.per is typed.Per.NODE:
            over = slot.node == place.node
        elif expr.per is typed.Per.DOMAIN and slot.node != place.node:
            here, there = _domain_label(encoder, expr, place.node), _domain_label(encoder, expr, slot.node)
            over = both(there.present, here.term == there.term)
        if over is False:
            continue
        one = constant(1.0) if expr.value is None else encoder.value(expr.value, Place(slot.node, slot.owner))
        total: Any = z3.ToReal(slot.number)
        if expr.value is not None:
            encoder.world.facts.append(slot.number <= MAX_SUMMED)
            total = z3.Sum(*(z3.If(slot.number >= number, one.term, real(0)) for number in range(1, MAX_SUMMED + 1)))
        terms.append(z3.If(as_bool(both(over, one.present, encoder.selected(found, slot))), total, real(0)))
    return Value(z3.Sum(*terms) if terms else real(0), True, 0.0 if expr.value is None else -math.inf, math.inf, whole=expr.value is None)


# ── functions ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def call(encoder: Encoder, expr: typed.Call, place: Place) -> Value:  # noqa: PLR0911 — one case per family of functions
    """The value of a call: by the rule of the function where there is one, otherwise an unknown."""
    name = expr.function.name
    if name in _CALLS:
        return _CALLS[name](encoder, *(encoder.value(a, place) for a in expr.arguments))
    if name in ("tolerates", "taints"):
        return _of_taints(encoder, expr, place)
    if name == "age":
        return encoder.numbers.difference(encoder.world.now, encoder.value(expr.arguments[0], place))
    if name.startswith("unseen_requests"):
        return _unseen(encoder, expr, place)
    if encoder.world.example and name in _OF_EXAMPLES:
        return _OF_EXAMPLES[name](encoder, expr, place)
    plain = all(a.type.kind in TEXTS for a in expr.arguments) and not expr.function.context and not expr.named
    if plain and expr.arguments:
        return _of_strings(encoder, expr, place)
    return _opaque(encoder, expr, place)


def _of_strings(encoder: Encoder, expr: typed.Call, place: Place) -> Value:
    values = [encoder.value(a, place) for a in expr.arguments]
    kind = expr.type.kind
    partial = expr.function.result(tuple(a.type.present() for a in expr.arguments)).optional
    found = encoder.world.applied(expr.function.name, expr.function.scalar, [value.term for value in values], kind, partial=partial)
    low, high = -math.inf, math.inf
    if expr.function.interval is not None and kind in NUMERIC:
        low, high = expr.function.interval(*((-math.inf, math.inf) for _ in expr.arguments))
    if math.isfinite(low) and z3.is_expr(found.term):
        encoder.world.facts.append(found.term >= real(low - abs(low) * 1e-9))
    if math.isfinite(high) and z3.is_expr(found.term):
        encoder.world.facts.append(found.term <= real(high + abs(high) * 1e-9))
    return Value(found.term, both(found.present, *(value.present for value in values)), found.low, found.high)


def _of_taints(encoder: Encoder, expr: typed.Call, place: Place) -> Value:
    """The number of a node's taints with an effect, and whether the pod tolerates a taint."""
    text = expr.arguments[1]
    value = text.value if isinstance(text, typed.Const) else ""
    if expr.function.name == "tolerates":
        return Value(z3.Bool(f"{encoder.owner(Subject.POD, place)} tolerates {value}"))
    each = [encoder.world.free(f"{node(place.node)} taints {effect}", Kind.COUNT, low=0.0, high=2.0**20, whole=True) for effect in EFFECTS]
    counts = [each[EFFECTS.index(value)]] if value in EFFECTS else each
    return Value(z3.Sum(*(count.term for count in counts)), True, 0.0, 3 * 2.0**20, whole=True)


def _unseen(encoder: Encoder, expr: typed.Call, place: Place) -> Value:
    metric = expr.arguments[0]
    if not isinstance(metric, typed.MetricRef):
        return _opaque(encoder, expr, place)
    sample, _ = encoder.sample(metric.name, place.node)
    window = encoder.metrics[metric.name].window
    name = f"{expr.function.name} {encoder.sample_name(metric.name)} {window!r} at {node(place.node)}"
    value = encoder.world.free(name, Kind.NUMBER, low=0.0, high=logic.EXACT, whole=True)
    if encoder.world.example:
        encoder.world.facts.append(value.term == 0)
    return replace(value, present=sample.present)


def _opaque(encoder: Encoder, expr: typed.Call, place: Place) -> Value:
    """An unknown for the value of a function, the same for the same text and node."""
    values = [encoder.value(a, place) for a in (*expr.arguments, *expr.named.values()) if a.type.kind in NUMERIC or a.type.kind in _TERMS]
    selections = [encoder.selection(a).number for a in expr.arguments if a.type.kind is Kind.PODS]
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
        defined = z3.Function(f"{function.name} is there", *[z3.RealSort()] * len(values), z3.BoolSort())(*(value.term for value in values))
        found = Value(term, True, low, high)
        encoder.world.facts.extend(term >= real(low) for _ in range(math.isfinite(low)))
        encoder.world.facts.extend(term <= real(high) for _ in range(math.isfinite(high)))
    else:
        arguments = [encoder.text_of(a) for a in (*expr.arguments, *expr.named.values()) if a.type.kind is not Kind.PODS]
        where = f" at {place.item or node(place.node)}" if expr.type.shape > Shape.POD else ""
        text = f"{function.name}({arguments} {list(expr.named)}) over {selections}{where}"
        if expr.type.kind not in NUMERIC | TEXTS | {Kind.BOOL}:
            raise Unmodelled(expr)
        found = encoder.world.free(text, Kind.NUMBER if expr.type.kind in NUMERIC else expr.type.kind, low=low, high=high)
        defined = z3.Bool(f"{text} is there")
    partial = function.result(tuple(a.type.present() for a in expr.arguments)).optional or (pure and not _never_missing(function, values))
    return replace(found, present=both(present, defined if partial else True))


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


def _clamp(encoder: Encoder, x: Value, low: Value, high: Value) -> Value:
    return _least(encoder, _greatest(encoder, x, low), high)


def _abs(encoder: Encoder, x: Value) -> Value:
    return _greatest(encoder, x, encoder.numbers.negative(x))


def _floor(_self: Encoder, x: Value) -> Value:
    if x.whole:
        return x
    low, high = (math.floor(end) if math.isfinite(end) else end for end in (x.low, x.high))
    return Value(z3.ToReal(z3.ToInt(x.term)), x.present, low, high, whole=True)


def _ceil(encoder: Encoder, x: Value) -> Value:
    return encoder.numbers.negative(_floor(encoder, encoder.numbers.negative(x)))


def _ratio(encoder: Encoder, a: Value, b: Value) -> Value:
    return encoder.numbers.quotient(a, b)


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
"""Functions that are encoded exactly."""


# ── functions in examples ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _fill(world: World, index: int, resource: str) -> tuple[Term, float] | None:
    """The used and the allocatable amount of a resource on a node of an example, as scores count it; None if it is not known."""
    if not world.fixed or f"allocatable.{resource}" not in world.fixed[index]:
        return None
    asks = of_pod(f"requests.{resource}", Subject.POD)
    placed = of_pod(f"requests.{resource}", Subject.ITEM)
    offered = world.attribute(node(index), of_node(f"allocatable.{resource}"))
    world.attribute(node(index), of_node(f"requested.{resource}"))
    amounts = [_counted(world.attribute(POD, asks).term, resource)]
    for slot in world.slots:
        if slot.node == index:
            one = _counted(world.attribute(slot.owner, placed).term, resource)
            crowd = z3.ToReal(slot.number) * real(DEFAULTS[resource])
            amounts.append(crowd if slot.owner.endswith("crowd") else z3.If(slot.number > 0, one, real(0)))
    return z3.Sum(*amounts), float(offered.low)


def _counted(requested: Term, resource: str) -> Term:
    return z3.If(requested > 0, requested, real(DEFAULTS[resource]))


def least_allocated(world: World, index: int, weights: Mapping[str, float]) -> Term | None:
    """The points of NodeResourcesFit for room, in an example; None where they are not known."""
    return _mean(world, index, weights, lambda used, offered: z3.If(used > real(offered), real(0), real(offered) - used))


def most_allocated(world: World, index: int, weights: Mapping[str, float]) -> Term | None:
    """The points of NodeResourcesFit for fullness, in an example; None where they are not known."""
    return _mean(world, index, weights, lambda used, offered: z3.If(used > real(offered), real(offered), used))


def _mean(world: World, index: int, weights: Mapping[str, float], part: Any) -> Term | None:
    fills = {resource: _fill(world, index, resource) for resource in weights if resource in COUNTED_BY_SCORES}
    if len(fills) < len(weights) or any(each is None for each in fills.values()) or not sum(weights.values()):
        return None
    terms = [part(*each) * real(100 * weights[resource] / each[1] / sum(weights.values())) for resource, each in fills.items() if each]
    return z3.Sum(*terms)


def _allocated(encoder: Encoder, expr: typed.Call, place: Place) -> Value:
    """The points of `least_allocated` and `most_allocated` for cpu and memory, where what the node has is known."""
    weights = {name: encoder.number(weight) for name, weight in expr.named.items()}
    weights |= {str(a.value): 1.0 for a in expr.arguments if isinstance(a, typed.Const)}
    mean = most_allocated if expr.function.name == "most_allocated" else least_allocated
    term = mean(encoder.world, place.node, weights or dict.fromkeys(COUNTED_BY_SCORES, 1.0))
    return _opaque(encoder, expr, place) if term is None else Value(term, True, 0.0, 100.0)


def _has_taint(encoder: Encoder, expr: typed.Call, place: Place) -> Value:
    text = expr.arguments[-1]
    if not isinstance(text, typed.Const):
        return _opaque(encoder, expr, place)
    return Value(z3.Bool(f"{node(place.node)} has taint {text.value}"))


_OF_EXAMPLES: Mapping[str, Callable[[Encoder, typed.Call, Place], Value]] = {
    "has_taint": _has_taint,
    "least_allocated": _allocated,
    "most_allocated": _allocated,
}
