"""All that a file imports, wherever the texts come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from wharfinger.language import ast
from wharfinger.language.check import import_key
from wharfinger.language.codes import Code
from wharfinger.language.diagnostics import Diagnostics

MOST_IMPORTS = 100

Fetch = Callable[[str], "ast.File | str"]
"""The syntax tree of a file by its key; or why it cannot be imported, in words."""


def imported(file: ast.File, fetch: Fetch, diagnostics: Diagnostics, help_: str) -> Iterator[tuple[str, ast.File]]:
    """Every file that is imported, directly or by another import, with its key, each once; `help_` goes with what cannot be imported."""
    seen: set[str] = set()
    pending = list(file.imports)
    while pending:
        item = pending.pop(0)
        key = import_key(item.span.source.name, item.path.value)
        if key in seen:
            continue
        seen.add(key)
        found = fetch(key) if len(seen) <= MOST_IMPORTS else f"there are more than {MOST_IMPORTS} imports"
        if isinstance(found, str):
            message = f"cannot import `{item.path.value}`: {found}"
            diagnostics.error(Code.P308, message, item.path.span, label="not imported", help=help_)
            continue
        pending.extend(found.imports)
        yield key, found
