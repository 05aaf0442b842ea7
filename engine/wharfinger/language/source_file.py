"""Bytes to source text: what a file must be before anyone tries to parse it.

People point tools at the wrong file: an empty one, an image, a 10 MB log. Each of those gets one sentence instead of a thousand syntax
errors.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from wharfinger.errors import UsageError
from wharfinger.language.codes import Code
from wharfinger.language.diagnostics import Diagnostics
from wharfinger.language.source import Source, Span

MOST_BYTES = 256 * 1024
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
TEXT_CONTROLS = frozenset("\t\n\r\f")


def read_source(path: Path | str, diagnostics: Diagnostics, name: str | None = None) -> Source | None:
    """The source in a file, or None with a finding where the file holds no policy text; raises UsageError where it cannot be read."""
    try:
        with Path(path).open("rb") as stream:
            return read_stream(stream, name or str(path), diagnostics)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error


def read_stream(stream: BinaryIO, name: str, diagnostics: Diagnostics) -> Source | None:
    """The source that a stream holds, or None with a finding; never reads more than a little over the limit."""
    return decode(stream.read(MOST_BYTES + len(BYTE_ORDER_MARK) + 1), name, diagnostics)


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
    """Why some bytes are no policy text: a code, a sentence and a help; None where they are text."""
    if len(content) > MOST_BYTES:
        return Code.P004, f"{name} is larger than {MOST_BYTES // 1024} KiB", "is this a policy file?"
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
        return Code.P003, f"{name} is not UTF-8: line {line} holds the byte 0x{content[error.start]:02x}", "save the file in UTF-8"
    control = next((char for char in text if char < " " and char not in TEXT_CONTROLS), None)
    if control is None:
        return None
    return (Code.P002, f"{name} is not a text file: it holds the control character U+{ord(control):04X}", None)
