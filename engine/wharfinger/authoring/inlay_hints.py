"""What is inferred and not written: the types and ranges of lets, and the ranges of scores."""

from __future__ import annotations

from dataclasses import dataclass

from wharfinger.authoring.document import Document
from wharfinger.authoring.texts import range_text, type_with_unit
from wharfinger.authoring.words import Role
from wharfinger.language.semantics.types import Kind
from wharfinger.language.syntax import ast


@dataclass(frozen=True, slots=True)
class InlayHint:
    """A text that is shown behind an offset; `doc` says more."""

    offset: int
    text: str
    doc: str


def inlay_hints(document: Document, start: int = 0, end: int | None = None) -> list[InlayHint]:
    """The hints between two offsets: behind the name of a let its type and range, behind that of a score the range of its value."""
    end = len(document.text) if end is None else end
    document = document.inferring
    found: list[InlayHint] = []
    for word in document.words:
        if word.role is Role.LET and start <= word.start <= end:
            found += _of_let(document, word.name, word.end)
    file = document.checked.file
    items = file.policy.items if file is not None and file.policy is not None else ()
    for item in items:
        if isinstance(item, ast.Score) and start <= item.name_span.start <= end:
            found += _of_score(document, item)
    return sorted(found, key=lambda hint: hint.offset)


def _of_let(document: Document, name: str, at: int) -> list[InlayHint]:
    binding = document.checked.notes.names.get(name)
    if binding is None or binding.reference is None or binding.span.source.name != document.name or binding.span.end != at:
        return []
    expr = binding.reference(binding.span)
    if expr.type.kind is Kind.UNKNOWN:
        return []
    limits = range_text(document, expr)
    return [InlayHint(at, f": {expr.type}" + (f", {limits}" if limits else ""), type_with_unit(expr.type))]


def _of_score(document: Document, item: ast.Score) -> list[InlayHint]:
    expr = document.expressions.get((item.value.span.start, item.value.span.end))
    limits = range_text(document, expr) if expr is not None else ""
    return [InlayHint(item.name_span.end, f": {limits}", "the values of this score before `normalize`")] if limits else []
