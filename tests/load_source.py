"""The policy of a text, for tests."""

from wharfinger.language.check import check
from wharfinger.language.parse.parser import parse
from wharfinger.language.report.diagnostics import Diagnostics, Source
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.catalogue import Catalogue


def load_source(source: Source, catalogue: Catalogue, diagnostics: Diagnostics) -> typed.Policy | None:
    """The policy of a text without imports, or None with findings."""
    file = parse(source, diagnostics)
    return check(file, catalogue, diagnostics, {}) if file is not None else None
