"""Fields of the pod, the node and placed pods: `pod.requests.cpu`, and what was meant by a field that is not there."""

from __future__ import annotations

from wharfinger.language import ast, typed
from wharfinger.language.catalogue import Attribute, Function, Subject
from wharfinger.language.check.context import Context, admitted, is_unknown, unknown
from wharfinger.language.codes import Code
from wharfinger.language.source import Span
from wharfinger.language.suggest import listed
from wharfinger.language.types import Kind, Shape, Type

SUBJECTS = {subject.value: subject for subject in Subject}
SHAPES = {Subject.POD: Shape.POD, Subject.NODE: Shape.NODE, Subject.ITEM: Shape.ITEM}
# Parts of Kubernetes' objects that the language leaves out.
_OBJECT_PARTS = ("metadata", "spec", "status")


def subject_at(context: Context, subject: Subject, span: Span) -> typed.Expr:
    """A subject itself, where it exists at this place."""
    if subject not in context.place.subjects and subject is Subject.ITEM:
        help_ = "`it` is the placed pod inside of `pods where …`; the pod that is being placed is `pod`"
        return context.error(Code.P219, f"`it` has no meaning in {context.place.name}", span, label="outside of a selection", help=help_)
    kind = Kind.NODE if subject is Subject.NODE else Kind.POD
    return admitted(context, typed.SubjectRef(span=span, type=Type(kind, SHAPES[subject]), subject=subject))


def path_of(expr: ast.Expr) -> tuple[ast.Expr, list[ast.Member]]:
    """The root of a chain of fields, and the fields in order."""
    fields: list[ast.Member] = []
    while isinstance(expr, ast.Member):
        fields.append(expr)
        expr = expr.base
    return expr, fields[::-1]


def attribute_of(context: Context, root: ast.Name, fields: list[ast.Member], span: Span) -> typed.Expr:
    """The attribute that a chain of fields behind a subject names."""
    subject = SUBJECTS[root.name]
    allowed = subject_at(context, subject, root.span if subject is Subject.ITEM else span)
    if is_unknown(allowed):
        return unknown(span)
    path = ".".join(f.field for f in fields)
    attribute = context.catalogue.attribute(subject, path)
    if attribute is None:
        return _unknown_field(context, subject, fields, span)
    if attribute.keyed and attribute.type.kind is not Kind.LABELS:
        message = f"`{subject.value}.{path}` needs a key"
        return context.error(
            Code.P310,
            message,
            span,
            label="which one?",
            help=f'name one: `{subject.value}.{path}["…"]`' + _group_help(context, subject, path),
        )
    return reference(context, attribute, span)


def reference(context: Context, attribute: Attribute, span: Span) -> typed.Expr:
    """An attribute as an expression, where the policy may read it."""
    name = f"{attribute.subject.value}.{attribute.path}"
    if not may_read(context, attribute, name, span):
        return unknown(span)
    return typed.AttributeRef(span=span, type=attribute.type.shaped(SHAPES[attribute.subject]), attribute=attribute)


def may_read(context: Context, what: Attribute | Function, name: str, span: Span) -> bool:
    """Whether the authority of the policy suffices; reports that it does not."""
    if not (what.of_cluster and context.authority.restricted):
        return True
    help_ = "whoever runs the cluster can share what is needed of it as a `let` of a library"
    context.error(Code.P801, f"`{name}` is not for policies of a namespace", span, label="for the cluster's only", help=help_)
    return False


def _group_help(context: Context, subject: Subject, path: str) -> str:
    members = _members(context, subject, path)
    return f", or one of {listed(f'{subject.value}.{path}.{m}' for m in members)}" if members else ""


def _members(context: Context, subject: Subject, prefix: str) -> list[str]:
    """The names that may follow a prefix of a path."""
    start = f"{prefix}." if prefix else ""
    rest = (a.path.removeprefix(start) for a in context.catalogue.attributes(subject) if a.path.startswith(start))
    return list(dict.fromkeys(r.split(".")[0] for r in rest))


def _unknown_field(context: Context, subject: Subject, fields: list[ast.Member], span: Span) -> typed.Expr:
    known = _known_fields(context, subject, fields)
    prefix = ".".join(f.field for f in fields[:known])
    whole = f"{subject.value}.{prefix}" if prefix else subject.value
    if known == len(fields):
        help_ = f"one of {listed(_members(context, subject, prefix))}"
        return context.error(Code.P302, f"`{whole}` is a group of fields", span, label="which one?", help=help_)
    owner = context.catalogue.attribute(subject, prefix) if prefix else None
    wrong = fields[known]
    if owner is not None and owner.keyed and not context.closest(wrong.field, _members(context, subject, prefix)):
        return label_field(context, whole, wrong)
    if owner is not None and not owner.keyed:
        return context.error(Code.P302, f"`{whole}` is {owner.type}, which has no fields", wrong.field_span, label="no such field")
    replacement, text = _nearest(context, subject, fields, known)
    help_ = f"did you mean `{text}`?" if text else f"its fields are {listed(_members(context, subject, prefix), most=12)}"
    return context.error(
        Code.P302, f"`{whole}` has no field `{wrong.field}`", wrong.field_span, label="unknown field", help=help_, suggestion=replacement
    )


def _known_fields(context: Context, subject: Subject, fields: list[ast.Member]) -> int:
    """How many of the fields, from the first, are part of some attribute's path."""
    for count in range(len(fields), 0, -1):
        prefix = ".".join(f.field for f in fields[:count])
        if _members(context, subject, prefix) or context.catalogue.attribute(subject, prefix):
            return count
    return 0


def _nearest(context: Context, subject: Subject, fields: list[ast.Member], known: int) -> tuple[str | None, str | None]:
    """The field most likely meant: as replacement of the wrong word (None when more than that word changes), and as whole text."""
    prefix = ".".join(f.field for f in fields[:known])
    near = context.closest(fields[known].field, _members(context, subject, prefix))
    if near:
        whole = f"{prefix}.{near}" if prefix else near
        return near, f"{subject.value}.{whole}"
    words = [f.field for f in fields if f.field not in _OBJECT_PARTS]
    paths = [a.path for a in context.catalogue.attributes(subject)]
    same = [p for p in paths if sorted(p.split(".")) == sorted(words) or p.split(".")[-1] == words[-1]] if words else []
    found = same[0] if same else context.closest(".".join(words), paths) if words else None
    other = {Subject.POD: Subject.NODE, Subject.NODE: Subject.POD, Subject.ITEM: Subject.NODE}[subject]
    if found is None and words and context.catalogue.attribute(other, ".".join(words)):
        return None, f"{other.value}.{'.'.join(words)}"
    return None, f"{subject.value}.{found}" if found else None


def label_field(context: Context, owner: str, field: ast.Member) -> typed.Expr:
    """Reports a key that is written as if it were a field."""
    return context.error(
        Code.P302,
        f"keys of `{owner}` are written in brackets",
        field.field_span,
        label="not a field",
        help=f'write `{owner}["{field.field}"]`',
    )
