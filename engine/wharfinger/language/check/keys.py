"""Keyed attributes: `node.labels["zone"]`, `pod.requests["nvidia.com/gpu"]`."""

from __future__ import annotations

from wharfinger.language import ast, typed
from wharfinger.language.catalogue import Attribute
from wharfinger.language.check.attributes import SUBJECTS, path_of, reference, subject_at
from wharfinger.language.check.context import Context, is_unknown, type_text, unknown
from wharfinger.language.check.forms import form, infer
from wharfinger.language.codes import Code
from wharfinger.language.selector import key_fault
from wharfinger.language.source import Span
from wharfinger.language.types import Kind, Shape, Type


@form(ast.Index)
def index(context: Context, expr: ast.Index) -> typed.Expr:
    """A keyed attribute: `node.labels["zone"]`, `pod.requests["nvidia.com/gpu"]`."""
    key = infer(context, expr.key)
    base = _keyed(context, expr.base)
    if is_unknown(base):
        return unknown(expr.span)
    if not isinstance(base, typed.AttributeRef) or not base.attribute.keyed or base.key is not None:
        return context.error(Code.P310, f"{type_text(base.type)} has no keys", expr.key.span, label="no key is possible here")
    if is_unknown(key) or _key_fault(context, base, key):
        return unknown(expr.span)
    return _with_key(context, base, key, expr.span)


def _keyed(context: Context, base: ast.Expr) -> typed.Expr:
    """The attribute before a key; unlike elsewhere, one that needs its key is welcome."""
    root, fields = path_of(base)
    if fields and isinstance(root, ast.Name) and root.name in SUBJECTS:
        subject = SUBJECTS[root.name]
        attribute = context.catalogue.attribute(subject, ".".join(f.field for f in fields))
        if attribute and attribute.keyed:
            return unknown(base.span) if is_unknown(subject_at(context, subject, base.span)) else reference(context, attribute, base.span)
    return infer(context, base)


def _key_fault(context: Context, base: typed.AttributeRef, key: typed.Expr) -> bool:
    if key.type.kind is not Kind.STRING:
        help_ = f'write `"{key.span.text}"`' if isinstance(key, typed.Const) else None
        context.error(Code.P310, f"a key is a string, not {type_text(key.type)}", key.span, label=type_text(key.type), help=help_)
    elif key.type.shape > Shape.POD:
        context.error(Code.P310, "a key is the same for all nodes", key.span, label="differs between nodes")
    elif isinstance(key, typed.Const) and base.attribute.type.kind is Kind.LABELS and (fault := key_fault(key.value)):
        context.error(Code.P310, f"no object can have this key: {fault}", key.span, label="not a key")
    else:
        return False
    return True


def _with_key(context: Context, base: typed.AttributeRef, key: typed.Expr, span: Span) -> typed.Expr:
    own = _own_row(context, base.attribute, key)
    shape = max(base.type.shape, key.type.shape)
    if own:
        return typed.AttributeRef(span=span, type=own.type.shaped(shape), attribute=own)
    type_ = base.attribute.type
    if type_.kind is Kind.LABELS:
        type_ = Type(type_.element or Kind.STRING, optional=True)
    return typed.AttributeRef(
        span=span, type=type_.shaped(shape) if not key.type.optional else type_.shaped(shape).maybe(), attribute=base.attribute, key=key
    )


def _own_row(context: Context, attribute: Attribute, key: typed.Expr) -> Attribute | None:
    """The attribute that a literal key means by itself: `free["cpu"]` is `free.cpu`."""
    if not isinstance(key, typed.Const) or attribute.type.kind is Kind.LABELS:
        return None
    return context.catalogue.attribute(attribute.subject, f"{attribute.path}.{key.value.replace('-', '_')}")
