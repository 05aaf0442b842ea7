"""Quantities in texts: what `40Gi` and `500m` in a label or an annotation amount to, as Kubernetes reads them.

A quantity has no dimension of its own: `2` may be bytes, cores or devices. So there is a function for each, and the author says which one
is meant. Amounts are kept within int64, as Kubernetes keeps them.
"""

from __future__ import annotations

from collections.abc import Callable

from wharfinger.builtins.signature import always, text
from wharfinger.builtins.texts import Kernel
from wharfinger.errors import InvalidObject
from wharfinger.language.semantics.bounds import Magnitude
from wharfinger.language.semantics.catalogue import Function
from wharfinger.language.semantics.types import Kind
from wharfinger.model.objects import quantity

INT64 = Magnitude(-64.0, 64.0)


def _bytes(value: str) -> float | None:
    """Whole bytes, rounded up, as Kubernetes counts memory."""
    return _read(quantity.value, value)


def _millicores(value: str) -> float | None:
    return _read(quantity.milli, value)


def _plain(value: str) -> float | None:
    return _read(_units, value)


def _units(value: str) -> float:
    limit = quantity.INT64_MAX * quantity.NANO
    return min(max(quantity.nano(value), -limit), limit) / quantity.NANO


def _read(parse: Callable[[str], float], value: str) -> float | None:
    try:
        return float(parse(value))
    except InvalidObject:
        return None


def quantity_fault(value: object) -> str | None:
    """What is wrong with a quantity written in a policy, None if nothing."""
    return None if _bytes(str(value)) is not None else 'not a quantity; write it as Kubernetes does: "40Gi", "500m" or "1e3"'


def _function(name: str, kind: Kind, parse: Callable[[str], float | None], doc: str, example: str) -> Function:
    return Function(
        name=name,
        parameters=(text("text", validate=quantity_fault),),
        result=always(kind, optional=True),
        doc=doc,
        example=example,
        scalar=parse,
        vector=Kernel(parse, float),
        magnitude=lambda *_: INT64,
        never_nan=True,
        folded=True,
    )


QUANTITIES = (
    _function(
        "quantity",
        Kind.MEMORY,
        _bytes,
        "The amount of memory that `text` spells as Kubernetes does (`40Gi`, `500M`, `1e9`), in bytes; missing where it spells none.",
        'quantity(node.labels["gpu-memory"]) >= 40Gi',
    ),
    _function(
        "quantity.cpu",
        Kind.CPU,
        _millicores,
        "The amount of cpu that `text` spells (`2`, `500m`); missing where it spells none.",
        '(quantity(node.annotations["burst"]).cpu ?? 0cpu) >= 2cpu',
    ),
    _function(
        "quantity.number",
        Kind.NUMBER,
        _plain,
        "The number that `text` spells as a quantity (`1500m` is 1.5, `2k` is 2000); missing where it spells none.",
        '(quantity(node.labels["slots"]).number ?? 0) >= 4',
    ),
)
