"""A document in the one layout that policies have."""

from __future__ import annotations

from wharfinger.authoring.document import Document
from wharfinger.language.formatting.format import format_source
from wharfinger.language.report.diagnostics import Diagnostics


def formatted(document: Document) -> str | None:
    """The text of a document in its canonical layout, or None where it does not parse."""
    return format_source(document.source, Diagnostics())
