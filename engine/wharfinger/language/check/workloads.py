"""Workloads: mixes of typical requests, written out in the policy or made by `wharf workload`.

Each entry has the requests of one kind of pod and how common such pods are. Weights are put in relation to their sum.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from wharfinger.language import ast
from wharfinger.language.check.context import Context, constant, infer, is_unknown, type_text
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Span
from wharfinger.language.report.wording import listed
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.types import DIMENSIONLESS, PLAIN, Kind

FIELDS: Final = {
    "cpu": "CPU: `cpu: 4cpu`",
    "memory": "memory: `memory: 16Gi`",
    "gpu": "how many devices: `gpu: 1`",
    "milli": "thousandths of each device: `milli: 500`; default: 1000",
    "model": 'models that will do: `model: "A100"` or `model: ["A100", "H100"]`; default: any',
    "weight": "how common such pods are: `weight: 12%`; default: 1",
}
"""The fields of an entry, with an example."""
MAX_REQUESTS: Final = 500
_KINDS: Final = {
    "cpu": {Kind.CPU},
    "memory": {Kind.MEMORY},
    "gpu": {Kind.COUNT},
    "milli": PLAIN,
    "model": {Kind.STRING, Kind.SET},
    "weight": DIMENSIONLESS,
}
_EXAMPLE: Final = "for example `workload typical = [{ cpu: 4cpu, gpu: 1, milli: 500, weight: 12% }, { cpu: 8cpu, weight: 88% }]`"


def workload_of(context: Context, item: ast.Workload, name: str) -> typed.Workload | None:
    """The workload that an item declares; None after reporting an error."""
    value = item.value
    if not isinstance(value, ast.SetLiteral):
        _fault(context, "a workload is a list of requests", value.span, "not a list", _EXAMPLE)
        return None
    if not value.items:
        _fault(context, "this workload is empty", value.span, "no requests", _EXAMPLE)
        return None
    if len(value.items) > MAX_REQUESTS:
        _fault(context, f"a workload has at most {MAX_REQUESTS} requests", value.span, f"{len(value.items):,} requests", None)
        return None
    requests = [_request(context, each) for each in value.items]
    known = [request for request in requests if request is not None]
    if len(known) < len(requests):
        return None
    total = sum(request.weight for request in known)
    if not total > 0:
        _fault(context, "the weights of a workload add up to more than 0", value.span, "no weight", None)
        return None
    return typed.Workload(name, tuple(replace(request, weight=request.weight / total) for request in known))


def _fault(context: Context, message: str, span: Span, label: str, help_: str | None) -> None:
    """Report a fault."""
    context.error(Code.P225, message, span, label=label, help=help_)


def _request(context: Context, item: ast.Expr) -> typed.Request | None:
    if not isinstance(item, ast.ObjectLiteral):
        _fault(context, "write each request of a workload in braces", item.span, "no braces", _EXAMPLE)
        return None
    values = [_value(context, field) for field in item.fields]
    if any(value is None for value in values):
        return None
    found = {field.name: value for field, value in zip(item.fields, values, strict=True)}
    milli, devices = found.get("milli", 1000.0), int(found.get("gpu", 1.0 if "milli" in found or "model" in found else 0.0))
    if not 0 < milli <= 1000:
        at = next(field for field in item.fields if field.name == "milli")
        _fault(context, "`milli` is more than 0 and at most 1000 thousandths", at.span, "no part of a device", None)
        return None
    return typed.Request(
        cpu=found.get("cpu", 0.0),
        memory=found.get("memory", 0.0),
        devices=devices,
        milli=milli,
        models=found.get("model", frozenset()),
        weight=found.get("weight", 1.0),
    )


def _value(context: Context, field: ast.ObjectField) -> Any:
    """The plain value of a field; None after reporting an error."""
    if field.name not in FIELDS:
        near = context.closest(field.name, FIELDS)
        help_ = f"did you mean `{near}`?" if near else f"it says {listed(FIELDS, limit=12)}"
        _fault(context, f"a request of a workload has no `{field.name}`", field.span, "unknown field", help_)
        return None
    if not isinstance(field.value, ast.Expr):
        _fault(context, f"`{field.name}` is a single value", field.span, "no value", FIELDS[field.name])
        return None
    found = infer(context.at(constant("a workload")), field.value)
    return None if is_unknown(found) else _plain(context, field, found)


def _plain(context: Context, field: ast.ObjectField, found: typed.Expr) -> Any:
    """The plain value of a field; None after reporting an error."""
    fitting = found.type.kind in _KINDS[field.name] and (found.type.element or Kind.STRING) is Kind.STRING
    if not isinstance(found, typed.Const) or not fitting:
        what = "a request of a workload is written out" if fitting else f"`{field.name}` is no {type_text(found.type)}"
        _fault(context, what, found.span, type_text(found.type), FIELDS[field.name])
    elif field.name == "model":
        return found.value if isinstance(found.value, frozenset) else frozenset({found.value})
    elif found.value < 0:
        _fault(context, f"`{field.name}` is 0 or more", found.span, "negative", FIELDS[field.name])
    else:
        return float(found.value)
    return None
