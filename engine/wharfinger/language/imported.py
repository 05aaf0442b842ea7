"""All that a file imports, wherever the texts come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from wharfinger.language import ast
from wharfinger.language.check import import_key
from wharfinger.language.codes import Code
from wharfinger.language.diagnostics import Diagnostics
from wharfinger.language.lexer import MOST_TOKENS
from wharfinger.language.source_file import MOST_BYTES

MOST_IMPORTS = 100
_SHARE_LESS = "split the libraries, so that each policy imports only what it uses"

Fetch = Callable[[str], "ast.File | str"]
"""The syntax tree of a file by its key; or why it cannot be imported, in words."""


class _Total:
    """How large a file is with its imports so far."""

    def __init__(self, file: ast.File) -> None:
        self.words = self.bytes = 0
        self.add(file)

    def add(self, file: ast.File) -> bool:
        """Counts one more file; whether all are still no larger than one file may be."""
        self.words += file.words
        self.bytes += len(file.span.source.text.encode())
        return self.words <= MOST_TOKENS and self.bytes <= MOST_BYTES

    def broken(self, file: ast.File) -> tuple[Code, str]:
        """The limit that is broken, and what to say of the file that imports too much."""
        name = file.span.source.name
        if self.words > MOST_TOKENS:
            return Code.P007, f"{name} and what it imports have more than {MOST_TOKENS:,} words and symbols"
        return Code.P004, f"{name} and what it imports are larger than {MOST_BYTES // 1024} KiB"


def imported(file: ast.File, fetch: Fetch, diagnostics: Diagnostics, help_: str) -> Iterator[tuple[str, ast.File | None]]:
    """Every file that is imported, directly or by another import, with its key, each once; None for what cannot be, when that is said.

    `help_` goes with what cannot be imported. A file and all that it imports are together no larger than one file may be: what is checked
    is all of it.
    """
    seen: set[str] = set()
    total = _Total(file)
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
            yield key, None
            continue
        if total.add(found):
            pending.extend(found.imports)
            yield key, found
            continue
        diagnostics.error(*total.broken(file), item.path.span, label="with this one it is too much", help=_SHARE_LESS)
        yield from ((import_key(other.span.source.name, other.path.value), None) for other in (item, *pending))
        return
