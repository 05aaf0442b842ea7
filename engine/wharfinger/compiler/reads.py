"""The values that an expression reads, found by walking the typed tree and the lets that it uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from wharfinger.language.semantics import typed
from wharfinger.language.semantics.describe import describe
from wharfinger.language.semantics.types import Kind

Lets = Mapping[str, typed.Expr]
Exprs = typed.Expr | Iterable[typed.Expr]  # of several, what they have in common is gone through once
Read = tuple[str, str, str | None]  # subject, path and key (None: no key, or one that depends on the pod)


def walk(exprs: Exprs, lets: Lets) -> Iterator[typed.Expr]:
    """Yield one or more expressions and everything under them; a let is followed once, however often it is used."""
    pending = [exprs] if isinstance(exprs, typed.Expr) else list(exprs)[::-1]
    followed = set[str]()
    while pending:
        inner = pending.pop()
        yield inner
        if not isinstance(inner, typed.LetRef):
            pending.extend(reversed(typed.parts(inner)))
        elif inner.name not in followed:
            followed.add(inner.name)
            pending.append(lets[inner.name])


def attributes_read(exprs: Exprs, lets: Lets) -> frozenset[Read]:
    """All attributes that expressions read; a label selector counts for each of its keys."""
    found: set[Read] = set()
    for inner in walk(exprs, lets):
        if isinstance(inner, typed.Matches) and isinstance(inner.labels, typed.AttributeRef):
            attribute = inner.labels.attribute
            found |= {(attribute.subject.value, attribute.path, requirement.key) for requirement in inner.requirements}
        elif isinstance(inner, typed.AttributeRef) and not (inner.attribute.keyed and inner.key is None):
            key = inner.key.value if isinstance(inner.key, typed.Const) else None
            found.add((inner.attribute.subject.value, inner.attribute.path, key))
    return frozenset(found)


def metrics_read(exprs: Exprs, lets: Lets) -> frozenset[str]:
    """The names of the metrics that expressions use."""
    return frozenset(inner.name for inner in walk(exprs, lets) if isinstance(inner, typed.MetricRef))


def aggregates_of_pods(exprs: Exprs, lets: Lets) -> tuple[typed.Aggregate, ...]:
    """The aggregates over placed pods that expressions use, each once."""
    found = (inner for inner in walk(exprs, lets) if isinstance(inner, typed.Aggregate) and inner.selection.type.kind is Kind.PODS)
    return tuple({id(inner): inner for inner in found}.values())


def plugins_read(exprs: Exprs, lets: Lets) -> frozenset[str]:
    """The names of Kubernetes' scores whose points expressions read."""
    calls = (inner.function.plugin for inner in walk(exprs, lets) if isinstance(inner, typed.Call))
    return frozenset(plugin for plugin in calls if plugin is not None)


def reads_identity(exprs: Exprs, lets: Lets) -> bool:
    """True if a value may differ between pods of one template: it reads the name, uid or times of the pod to be placed."""
    pods = (inner.attribute for inner in walk(exprs, lets) if isinstance(inner, typed.AttributeRef))
    return any(attribute.identity and attribute.subject.value == "pod" for attribute in pods)


def reads_group(exprs: Exprs, lets: Lets) -> bool:
    """True if a value may differ between pods that differ in the PodGroup that they name."""
    return any(inner.attribute.by_group for inner in walk(exprs, lets) if isinstance(inner, typed.AttributeRef))


def possibly_absent(expr: typed.Expr, lets: Lets) -> tuple[typed.Expr, ...]:
    """The sub-expressions that can make an expression missing, each once, in the order in which they are written."""
    found: dict[str, typed.Expr] = {}
    pending, followed = [expr], set[str]()
    while pending:
        inner = pending.pop()
        if not inner.type.optional:
            continue
        if isinstance(inner, typed.LetRef):
            pending += [] if inner.name in followed else [lets[inner.name]]
            followed.add(inner.name)
        elif _is_absent_itself(inner):
            found.setdefault(describe(inner), inner)
        else:
            pending.extend(reversed(typed.parts(inner)))
    return tuple(found.values())


def _is_absent_itself(expr: typed.Expr) -> bool:
    """True if an expression can be missing although everything in it is present."""
    if isinstance(expr, typed.Call):
        return not any(argument.type.optional for argument in typed.parts(expr))
    return isinstance(expr, (typed.AttributeRef, typed.MetricRef, typed.Aggregate))
