"""Policy files: where those that ship are, their bytes to text, a policy and the file of its tests, and all that a file imports.

A wrong file is a common mistake: an empty one, an image, a log of 10 MB. Each of those gets one sentence instead of a thousand
syntax errors. Files are written by `replacing`: they are complete at any moment.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from msgspec.structs import replace

from wharfinger.errors import UsageError
from wharfinger.language import ast
from wharfinger.language.check import import_key
from wharfinger.language.parse.tokens import MAX_TOKENS
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Diagnostics, Source, Span

MAX_BYTES = 256 * 1024
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
TEXT_CONTROLS = frozenset("\t\n\r\f")


def read_source(path: Path | str, diagnostics: Diagnostics) -> Source | None:
    """The source in a file, or None with a finding where the file holds no policy text; raises UsageError where it cannot be read.

    A path that ends in `.policy` may come from an import, so it must be a regular file. Any other path, such as that of a shell's `<(…)`,
    may be a pipe.
    """
    try:
        with open_regular(path) if str(path).endswith(SUFFIX) else Path(path).open("rb") as stream:
            return read_stream(stream, str(path), diagnostics)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error


def open_regular(path: Path | str) -> BinaryIO:
    """A regular file, open for reading. Raises OSError for anything else: opening a pipe would wait for its writer."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is not a regular file", str(path))


@contextmanager
def replacing(path: Path, *, durable: bool) -> Iterator[BinaryIO]:
    """A new file in the folder of a path, readable by its owner only; it takes the path when the context ends without an exception.

    Otherwise it is removed, and the old file stays. `durable`: the new file is synced to disk before it takes the path, then its folder.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    if durable:
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_stream(stream: BinaryIO, name: str, diagnostics: Diagnostics) -> Source | None:
    """The source that a stream holds, or None with a finding; never reads more than a little over the limit."""
    return decode(stream.read(MAX_BYTES + len(BYTE_ORDER_MARK) + 1), name, diagnostics)


def decode(content: bytes, name: str, diagnostics: Diagnostics) -> Source | None:
    """The source that some bytes hold, or None with a finding where they are too many, empty or no text."""
    content = content.removeprefix(BYTE_ORDER_MARK)
    refusal = _refusal(content, name)
    if refusal:
        code, message, help_ = refusal
        diagnostics.error(code, message, Span(Source(name=name, text=""), 0, 0), help=help_)
        return None
    return Source(name=name, text=content.decode("utf-8"))


def _refusal(content: bytes, name: str) -> tuple[Code, str, str | None] | None:
    """The reason why some bytes are no policy text (code, sentence, help), or None if they are."""
    if len(content) > MAX_BYTES:
        return Code.P004, f"{name} is larger than {MAX_BYTES // 1024} KiB", "is this a policy file?"
    if not content.strip():
        return Code.P001, f"{name} is empty", 'a policy begins with `policy "name"`'
    if b"\0" in content:
        utf16 = content.startswith((b"\xff\xfe", b"\xfe\xff"))
        return (
            Code.P002,
            f"{name} is not a text file: byte {content.index(0)} is zero",
            "the file is UTF-16; save it in UTF-8" if utf16 else None,
        )
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return Code.P003, f"{name} is not UTF-8: line {line} contains the byte 0x{content[error.start]:02x}", "save the file in UTF-8"
    control = next((char for char in text if char < " " and char not in TEXT_CONTROLS), None)
    if control is None:
        return None
    return (Code.P002, f"{name} is not a text file: it contains the control character U+{ord(control):04X}", None)


SUFFIX = ".policy"
TEST_SUFFIX = "_test.policy"
NO_POLICIES_MARKER = "NO-POLICIES"
"""A file of this name in a folder, or a key in a ConfigMap, means that no policies are intended. Its content is not read."""


def paired_file(name: str) -> str | None:
    """The file of the tests of a policy file, or the policy file of a file of tests."""
    if name.endswith(TEST_SUFFIX):
        return name.removesuffix(TEST_SUFFIX) + SUFFIX
    return name.removesuffix(SUFFIX) + TEST_SUFFIX if name.endswith(SUFFIX) else None


def only_tests(file: ast.File) -> bool:
    """True if a file holds tests and nothing that they could test."""
    return file.policy is None and not file.items and bool(file.tests)


def with_tests(file: ast.File, partner: ast.File | None) -> ast.File:
    """A file with the tests of `partner`, if that is a file of tests."""
    return replace(file, tests=file.tests + partner.tests) if partner is not None and only_tests(partner) else file


MAX_IMPORTS = 100
_SHARE_LESS = "split the libraries, so that each policy imports only what it uses"

Fetch = Callable[[str], "ast.File | str"]
"""The syntax tree of a file by its key; or why it cannot be imported, in words."""


class _Total:
    """The size of a file with its imports so far."""

    def __init__(self, file: ast.File) -> None:
        self.words = self.bytes = 0
        self.add(file)

    def add(self, file: ast.File) -> bool:
        """Count one more file. True if all together are no larger than one file may be."""
        self.words += file.words
        self.bytes += len(file.span.source.text.encode())
        return self.words <= MAX_TOKENS and self.bytes <= MAX_BYTES

    def broken(self, file: ast.File) -> tuple[Code, str]:
        """The limit that is exceeded, with the message about the file whose imports exceed it."""
        name = file.span.source.name
        if self.words > MAX_TOKENS:
            return Code.P007, f"{name} and what it imports have more than {MAX_TOKENS:,} words and symbols"
        return Code.P004, f"{name} and what it imports are larger than {MAX_BYTES // 1024} KiB"


def imported(file: ast.File, fetch: Fetch, diagnostics: Diagnostics, help_: str) -> Iterator[tuple[str, ast.File | None]]:
    """Every file that is imported, directly or by another import, with its key, each once. None for one that cannot be; that is reported.

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
        found = fetch(key) if len(seen) <= MAX_IMPORTS else f"there are more than {MAX_IMPORTS} imports"
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


def shipped_policies() -> Path:
    """The folder of the policies that ship with Wharfinger: inside the installed package, or at the top of a checkout."""
    package = Path(__file__).parents[1]
    installed = package / "shipped_policies"
    return installed if installed.is_dir() else package.parent.parent / "policies"


def shown_place(place: str) -> str:
    """A place in a file for messages: a shipped policy is `policies/…`, wherever the package is installed."""
    folder = f"{shipped_policies()}/"
    return f"policies/{place.removeprefix(folder)}" if place.startswith(folder) else place
