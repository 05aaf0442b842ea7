"""Names and attributes: `here`, `shared.limit`, `pod.requests.cpu`, `node.labels["zone"]`."""

from __future__ import annotations

from collections.abc import Sequence

from wharfinger.language import ast
from wharfinger.language.check.context import Binding, Context, admitted, form, infer, is_unknown, type_text, unknown
from wharfinger.language.check.expressions.aggregates import GROUP, group_attribute, placed_members
from wharfinger.language.check.expressions.values import looked_up
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Label, Span
from wharfinger.language.report.wording import listed
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.catalogue import Attribute, Function, Subject
from wharfinger.language.semantics.selector import key_fault
from wharfinger.language.semantics.types import Kind, Shape, Type

SUBJECTS = {subject.word: subject for subject in (Subject.POD, Subject.NODE, Subject.ITEM)}
KINDS = {Subject.POD: Kind.POD, Subject.NODE: Kind.NODE, Subject.ITEM: Kind.POD, Subject.DEVICE: Kind.DEVICE}
# Parts of Kubernetes' objects that the language leaves out.
_OBJECT_PARTS = ("metadata", "spec", "status")


def subject_named(context: Context, word: str, fields: Sequence[ast.Member] = ()) -> Subject:
    """The subject that a word means at this place: `it` is a device in a selection of devices.

    In a function, which can be called in either kind of selection, it is the one that has more of the fields behind it.
    """
    found, subjects = SUBJECTS[word], context.place.subjects
    if found is not Subject.ITEM or Subject.DEVICE not in subjects:
        return found
    pods = Subject.ITEM in subjects and _known_fields(context, Subject.ITEM, fields) > _known_fields(context, Subject.DEVICE, fields)
    return Subject.ITEM if pods else Subject.DEVICE


def subject_at(context: Context, subject: Subject, span: Span) -> typed.Expr:
    """A subject itself, where it exists at this place."""
    if subject not in context.place.subjects and subject is Subject.ITEM:
        help_ = "`it` is the placed pod inside of `pods where …`, or the device in `devices where …`; the pod that is being placed is `pod`"
        return context.error(Code.P219, f"`it` has no meaning in {context.place.name}", span, label="outside of a selection", help=help_)
    return admitted(context, typed.SubjectRef(span=span, type=Type(KINDS[subject], subject.shape), subject=subject))


def path_of(expr: ast.Expr) -> tuple[ast.Expr, list[ast.Member]]:
    """The root of a chain of fields, and the fields in order."""
    fields: list[ast.Member] = []
    while isinstance(expr, ast.Member):
        fields.append(expr)
        expr = expr.base
    return expr, fields[::-1]


def attribute_of(context: Context, root: ast.Name, fields: list[ast.Member], span: Span) -> typed.Expr:
    """The attribute that a chain of fields behind a subject names."""
    subject = subject_named(context, root.name, fields)
    allowed = subject_at(context, subject, root.span if subject is Subject.ITEM else span)
    if is_unknown(allowed):
        return unknown(span)
    path = ".".join(f.field for f in fields)
    attribute = context.catalogue.attribute(subject, path)
    if attribute is not None and attribute.by_group:
        return group_attribute(context, attribute, span)
    if attribute is None:
        return _unknown_field(context, subject, fields, span)
    if attribute.keyed and attribute.type.kind is not Kind.LABELS:
        message = f"`{subject.word}.{path}` needs a key"
        return context.error(
            Code.P310,
            message,
            span,
            label="which one?",
            help=f'name one: `{subject.word}.{path}["…"]`' + _group_help(context, subject, path),
        )
    return reference(context, attribute, span)


def reference(context: Context, attribute: Attribute, span: Span) -> typed.Expr:
    """An attribute as an expression, where the policy may read it."""
    name = f"{attribute.subject.word}.{attribute.path}"
    if not may_read(context, attribute, name, span):
        return unknown(span)
    return typed.AttributeRef(span=span, type=attribute.type.shaped(attribute.subject.shape), attribute=attribute)


def may_read(context: Context, what: Attribute | Function, name: str, span: Span) -> bool:
    """True if the authority of the policy suffices; otherwise reports that it does not."""
    if not (what.of_cluster and context.authority.restricted):
        return True
    help_ = "administrators of the cluster can share what is needed of it as a `let` of a library"
    context.error(Code.P801, f"`{name}` is not for policies of a namespace", span, label="for the cluster's only", help=help_)
    return False


def _group_help(context: Context, subject: Subject, path: str) -> str:
    members = _members(context, subject, path)
    return f", or one of {listed(f'{subject.word}.{path}.{m}' for m in members)}" if members else ""


def _members(context: Context, subject: Subject, prefix: str) -> list[str]:
    """The names that may follow a prefix of a path."""
    start = f"{prefix}." if prefix else ""
    rest = (a.path.removeprefix(start) for a in context.catalogue.attributes(subject) if a.path.startswith(start))
    return list(dict.fromkeys(r.split(".")[0] for r in rest))


def _unknown_field(context: Context, subject: Subject, fields: list[ast.Member], span: Span) -> typed.Expr:
    known = _known_fields(context, subject, fields)
    prefix = ".".join(f.field for f in fields[:known])
    whole = f"{subject.word}.{prefix}" if prefix else subject.word
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
    help_ = f"did you mean `{text}`?" if text else f"its fields are {listed(_members(context, subject, prefix), limit=12)}"
    return context.error(
        Code.P302, f"`{whole}` has no field `{wrong.field}`", wrong.field_span, label="unknown field", help=help_, suggestion=replacement
    )


def _known_fields(context: Context, subject: Subject, fields: Sequence[ast.Member]) -> int:
    """The number of leading fields that are part of some attribute's path."""
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
        return near, f"{subject.word}.{whole}"
    words = [f.field for f in fields if f.field not in _OBJECT_PARTS]
    paths = [a.path for a in context.catalogue.attributes(subject)]
    same = [p for p in paths if sorted(p.split(".")) == sorted(words) or p.split(".")[-1] == words[-1]] if words else []
    found = same[0] if same else context.closest(".".join(words), paths) if words else None
    other = Subject.POD if subject is Subject.NODE else Subject.NODE
    if found is None and words and context.catalogue.attribute(other, ".".join(words)):
        return None, f"{other.value}.{'.'.join(words)}"
    return None, f"{subject.word}.{found}" if found else None


def label_field(context: Context, owner: str, field: ast.Member) -> typed.Expr:
    """Report a key that is written as if it were a field."""
    return context.error(
        Code.P302,
        f"keys of `{owner}` are written in brackets",
        field.field_span,
        label="not a field",
        help=f'write `{owner}["{field.field}"]`',
    )


@form(ast.Index)
def index(context: Context, expr: ast.Index) -> typed.Expr:
    """A keyed attribute: `node.labels["zone"]`, `pod.requests["nvidia.com/gpu"]`."""
    key = infer(context, expr.key)
    base = _keyed(context, expr.base)
    if is_unknown(base):
        return unknown(expr.span)
    if isinstance(base, typed.Const) and isinstance(base.value, typed.Entries):
        return looked_up(context, base.value, key, expr.span)
    if not isinstance(base, typed.AttributeRef) or not base.attribute.keyed or base.key is not None:
        return context.error(Code.P310, f"{type_text(base.type)} has no keys", expr.key.span, label="no key is possible here")
    if is_unknown(key) or _key_fault(context, base, key):
        return unknown(expr.span)
    return _with_key(context, base, key, expr.span)


def _keyed(context: Context, base: ast.Expr) -> typed.Expr:
    """The attribute before a key; an attribute that needs its key is allowed here."""
    root, fields = path_of(base)
    if fields and isinstance(root, ast.Name) and root.name in SUBJECTS:
        subject = subject_named(context, root.name, fields)
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
    elif _changes_with_time(context, key):
        context.error(Code.P310, "a key is the same at all times", key.span, label="changes with time", help=_KEY_HELP)
    elif isinstance(key, typed.Const) and base.attribute.type.kind is Kind.LABELS and (fault := key_fault(key.value)):
        context.error(Code.P310, f"no object can have this key: {fault}", key.span, label="not a key")
    else:
        return False
    return True


_KEY_HELP = 'read each of the keys and choose between them: `if … then node.labels["a"] else node.labels["b"]`'


def _changes_with_time(context: Context, key: typed.Expr) -> bool:
    """True if a key may be another at another time."""
    pending, followed = [key], set[str]()
    while pending:
        inner = pending.pop()
        context.work.spend()
        if isinstance(inner, typed.Call) and inner.function.clock:
            return True
        if isinstance(inner, typed.LetRef) and inner.name in context.lets and inner.name not in followed:
            followed.add(inner.name)
            pending.append(context.lets[inner.name].value)
        pending.extend(typed.parts(inner))
    return False


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


@form(ast.Name)
def name(context: Context, expr: ast.Name) -> typed.Expr:  # noqa: PLR0911 — one case per meaning
    """A bare name: a subject, or something the policy declares."""
    if expr.name in SUBJECTS:
        return subject_at(context, subject_named(context, expr.name), expr.span)
    if expr.name == GROUP:
        return admitted(context, placed_members(context, expr.span))
    binding = context.names.get(expr.name)
    if binding is None:
        return _unknown_name(context, expr)
    binding.used = True
    if binding.function is not None:
        message = f"`{expr.name}` is a function, not a value"
        return context.error(Code.P301, message, expr.span, label="a function", help=f"write `{expr.name}(…)`")
    if binding.reference is None:
        if binding.members is None:
            return unknown(expr.span)  # an import that failed with a finding
        members = listed(binding.members or ())
        return context.error(
            Code.P309,
            f"`{expr.name}` is an import, not a value",
            expr.span,
            label="import",
            help=f"take one of {members} from it" if members else None,
        )
    return admitted(context, binding.reference(expr.span))


def _unknown_name(context: Context, expr: ast.Name) -> typed.Expr:
    known = (*context.names, *SUBJECTS, GROUP)
    found = None if expr.name == "nodes" else context.closest(expr.name, known)
    if expr.name == "nodes":
        help_ = "nodes are not counted or summed up; `node` is the candidate, and `pods where …` are the pods that are placed"
    elif found is None and context.catalogue.function(expr.name):
        help_ = f"`{expr.name}` is a function: write `{expr.name}(…)`"
    elif found is None:
        paths = [f"{s.value}.{expr.name}" for s in (Subject.POD, Subject.NODE) if context.catalogue.attribute(s, expr.name)]
        help_ = f"did you mean `{paths[0]}`?" if paths else f'if it is meant as text, put it in quotes: `"{expr.name}"`'
    else:
        help_ = f"did you mean `{found}`?"
    return context.error(Code.P301, f"there is no `{expr.name}`", expr.span, label="unknown name", help=help_, suggestion=found)


@form(ast.Member)
def member(context: Context, expr: ast.Member) -> typed.Expr:
    """A field: an attribute of a subject, a name of an import, or a result of a builtin (`unseen_requests(m).cpu`)."""
    root, fields = path_of(expr)
    if isinstance(root, ast.Name) and root.name in SUBJECTS:
        return attribute_of(context, root, fields, expr.span)
    if isinstance(root, ast.Name):
        binding = context.names.get(root.name)
        if binding is not None and binding.what == "import":
            return _imported(context, binding, fields, expr.span)
    if isinstance(root, ast.Call) and len(fields) == 1:
        dotted = f"{root.function}.{fields[0].field}"
        if context.catalogue.function(dotted):
            call = ast.Call(span=expr.span, function=dotted, function_span=root.function_span, arguments=root.arguments)
            return infer(context, call)
        return _no_result(context, root, fields[0])
    return _no_fields(context, root, fields[0])


def _imported(context: Context, binding: Binding, fields: list[ast.Member], span: Span) -> typed.Expr:
    binding.used = True
    if binding.members is None:
        return unknown(span)
    members = binding.members
    found = members.get(fields[0].field)
    if found is not None and found.function is not None:
        whole = f"{binding.name}.{fields[0].field}"
        return context.error(Code.P309, f"`{whole}` is a function, not a value", span, label="a function", help=f"write `{whole}(…)`")
    if found is None or found.reference is None:
        wanted = fields[0].field
        near = context.closest(wanted, members)
        help_ = f"did you mean `{near}`?" if near else f"it has {listed(members)}" if members else "it declares nothing"
        message = f"`{binding.name}` has no `{wanted}`"
        return context.error(
            Code.P309,
            message,
            fields[0].field_span,
            label="not in the import",
            others=(Label(binding.span, "imported here"),),
            help=help_,
            suggestion=near,
        )
    found.used = True
    value = admitted(context, found.reference(span))
    return _no_fields(context, fields[0], fields[1], value) if len(fields) > 1 else value


def _no_fields(context: Context, root: ast.Expr, field: ast.Member, value: typed.Expr | None = None) -> typed.Expr:
    value = value or infer(context, root)
    if is_unknown(value):
        return unknown(field.span)
    if value.type.kind is Kind.LABELS:
        return label_field(context, value.span.text, field)
    return context.error(Code.P302, f"{type_text(value.type)} has no fields", field.field_span, label="no such field")


def _no_result(context: Context, call: ast.Call, field: ast.Member) -> typed.Expr:
    prefix = f"{call.function}."
    results = [f.name.removeprefix(prefix) for f in context.catalogue.functions() if f.name.startswith(prefix)]
    if not results:
        return _no_fields(context, call, field)
    near = context.closest(field.field, results)
    help_ = f"did you mean `{near}`?" if near else f"it has {listed(results)}"
    return context.error(
        Code.P302, f"`{call.function}(…)` has no `{field.field}`", field.field_span, label="no such field", help=help_, suggestion=near
    )
