"""Names: what `pod`, `here` and `shared.limit` refer to."""

from __future__ import annotations

from wharfinger.language import ast, typed
from wharfinger.language.catalogue import Subject
from wharfinger.language.check.attributes import SUBJECTS, attribute_of, label_field, path_of, subject_at
from wharfinger.language.check.context import Binding, Context, admitted, is_unknown, type_text, unknown
from wharfinger.language.check.forms import form, infer
from wharfinger.language.codes import Code
from wharfinger.language.diagnostics import Label
from wharfinger.language.source import Span
from wharfinger.language.suggest import listed
from wharfinger.language.types import Kind


@form(ast.Name)
def name(context: Context, expr: ast.Name) -> typed.Expr:
    """A bare name: a subject, or something the policy declares."""
    if expr.name in SUBJECTS:
        return subject_at(context, SUBJECTS[expr.name], expr.span)
    binding = context.names.get(expr.name)
    if binding is None:
        return _unknown_name(context, expr)
    binding.used = True
    if binding.reference is None:
        if binding.members is None:
            return unknown(expr.span)  # an import that failed, and said so
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
    known = (*context.names, *SUBJECTS)
    found = context.closest(expr.name, known)
    if found is None and context.catalogue.function(expr.name):
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
