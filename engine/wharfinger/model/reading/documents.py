"""Files split into documents and documents into items, before their kinds are known.

JSON items stay raw bytes, YAML items are plain Python values; both are an `Item`. `kubectl get … -o json` of a big cluster is hundreds of
megabytes, most of it indentation and managed fields, so a large List is not held in memory. Its shape is regular: every item starts with
`{"apiVersion"`, with the same white space. The text is cut there and every piece is checked to be a whole JSON value. If the cut was in the
middle of an item (an owner reference may look the same), the pieces are joined again. A List of any other shape is read as a whole.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast

import msgspec
from msgspec import Struct

from wharfinger.errors import UsageError
from wharfinger.model.reading import decode
from wharfinger.model.reading.decode import NotReadable
from wharfinger.user_input import standard_input

_BRACKET = ord("[")
CHUNK = 4 << 20
_MAX_PIECES = 1000  # cuts in one item; an item with more is taken as broken

_HEAD = re.compile(rb'\s*\{\s*"apiVersion"\s*:\s*"([^"\\]*)"\s*,\s*"items"\s*:\s*\[\s*(?=\{(\s*)"apiVersion"\s*:)')
_RAW = msgspec.json.Decoder(msgspec.Raw)
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])

Item: TypeAlias = msgspec.Raw | Any  # Raw for JSON, plain values for YAML

SUFFIXES = (".json", ".yaml", ".yml", ".jsonl", ".ndjson")
MAX_FILES = 50_000
"""Files of any name in a folder up to which it is searched. A home folder has more; a dump of a large cluster has fewer."""
_FLOW_YAML = re.compile(rb"\s*[\[{]\s*[A-Za-z]")  # `{apiVersion: v1, …}`: braces without the quotes of JSON
_GZIP_MAGIC = b"\x1f\x8b"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class Outline(msgspec.Struct, rename="camel"):
    """A document whose items are not decoded yet."""

    kind: str | None = None
    api_version: str | None = None
    items: list[msgspec.Raw] | None = None
    metrics: msgspec.Raw = msgspec.Raw(b"")
    capture: msgspec.Raw = msgspec.Raw(b"")


OUTLINE = msgspec.json.Decoder(Outline)


class BrokenItem(Exception):
    """An item is not JSON; the message has its number and place."""


class ItemStream:
    """The items of a List, read from a stream; `metrics` and `capture` are known after all items were read."""

    def __init__(self, stream: BinaryIO, head: re.Match[bytes], start: bytes) -> None:
        self.api_version = head[1].decode(errors="replace")
        self.metrics = msgspec.Raw(b"")
        self.capture = msgspec.Raw(b"")
        self._stream = stream
        self._buffer = start[head.end() :]
        self._opening = b"{" + head[2] + b'"apiVersion"'
        self._read = 0
        self._offset = head.end()

    def __iter__(self) -> Iterator[msgspec.Raw]:
        pieces: list[bytes] = []
        for piece in self._pieces():
            pieces.append(piece)
            try:
                item = _RAW.decode(b"".join(pieces).rstrip().removesuffix(b","))
            except decode.NOT_JSON as error:
                if len(pieces) > _MAX_PIECES:
                    raise self._broken(error) from None
                continue
            self._read += 1
            self._offset += sum(map(len, pieces))
            pieces = []
            yield item
        yield from self._last(b"".join(pieces) + self._buffer)

    def _pieces(self) -> Iterator[bytes]:
        """Candidates for items, each from one opening to the next; an opening right after a bracket starts a nested list and is no cut."""
        while True:
            start = opening = 0
            while (opening := self._buffer.find(self._opening, opening + 1)) >= 0:
                if self._buffer[opening - 1] != _BRACKET:
                    yield self._buffer[start:opening]
                    start = opening
            chunk = self._stream.read(CHUNK)
            self._buffer = self._buffer[start:] + chunk
            if not chunk:
                return

    def _last(self, rest: bytes) -> list[msgspec.Raw]:
        """The last item (or the last few, if the last cuts were wrong); reads the fields of the List that follow its items."""
        try:
            outline = OUTLINE.decode(b'{"items":[' + rest)
        except msgspec.ValidationError as error:
            raise BrokenItem(decode.explain(str(error))) from None
        except decode.NOT_JSON as error:
            raise self._broken(error) from None
        self.metrics, self.capture = outline.metrics, outline.capture
        return outline.items or []

    def _broken(self, error: Exception) -> BrokenItem:
        reason = decode.not_json(error).partition(" (byte")[0]  # a position in the piece, not in the file
        return BrokenItem(f"item {self._read}, which starts at byte {self._offset}, is {reason}")


def open_stream(stream: BinaryIO) -> tuple[ItemStream | None, bytes]:
    """(the items of a List of regular shape or None, the bytes that were read from the stream to check its shape)."""
    start = stream.read(CHUNK)
    head = _HEAD.match(start)
    return (ItemStream(stream, head, start) if head is not None else None), start


class Document(Struct, frozen=True, kw_only=True):
    """One JSON value or YAML document: a list of items, or a single one."""

    kind: str = ""
    api_version: str = ""
    items: Iterable[Item] | None = None
    is_list: bool = False
    metrics: Item | None = None
    capture: Item | None = None


def streams(path: str | Path) -> Iterator[tuple[str, BinaryIO]]:
    """(name for messages, unpacked content) of a file, of each file in a folder, or of standard input (`-`).

    From a folder, the files with one of `SUFFIXES` are read in sorted order. UsageError if there is nothing to read, or too much to search.
    """
    if str(path) == "-":
        yield "standard input", _unpacked(standard_input())
        return
    path = Path(path)
    found = _manifest_files(path) if path.is_dir() else [path]
    if not found:
        raise UsageError(f"{path}: no files that end in {', '.join(SUFFIXES)} (or one of these and .gz) in this folder")
    for file in found:
        with _opened(file) as stream:
            with reading(str(file)):
                content = _unpacked(stream)
            yield str(file), content


@contextmanager
def reading(label: str) -> Iterator[None]:
    """A context in which a file is read; an OSError becomes a UsageError with the file's name."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{label}: {error.strerror or error}") from error


def _manifest_files(root: Path) -> list[Path]:
    """The files below a folder that are read, in sorted order; hidden files and folders are left out."""

    def refuse(error: OSError) -> None:
        raise UsageError(f"{error.filename}: {error.strerror or error}")

    found: list[Path] = []
    seen = 0
    for parent, folders, names in os.walk(root, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        seen += len(names)
        if seen > MAX_FILES:
            raise UsageError(f"{root}: this folder has more than {MAX_FILES:,} files; name the folder or the files that have the objects")
        wanted = (name for name in names if not name.startswith(".") and name.removesuffix(".gz").endswith(SUFFIXES))
        found += (file for name in wanted if (file := Path(parent, name)).is_file())
    return sorted(found)


def _opened(file: Path) -> BinaryIO:
    try:
        return file.open("rb")
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror or error}") from None


def _unpacked(stream: BinaryIO) -> BinaryIO:
    buffered = io.BufferedReader(cast("io.RawIOBase", stream))
    return cast("BinaryIO", gzip.GzipFile(fileobj=buffered)) if buffered.peek(2)[:2] == _GZIP_MAGIC else buffered


def split(stream: BinaryIO, *, yaml_likely: bool = False, unique_keys: bool = False) -> Iterator[Document]:
    """The documents of one file; NotReadable if it is neither JSON nor YAML.

    With `unique_keys`, YAML with a key twice in one mapping is rejected, as by kubectl; that is slow for megabytes.
    """
    try:
        items, start = open_stream(stream)
        if items is None:
            if b"\0" in start:  # also a device without an end, such as /dev/zero
                if start.startswith(_UTF16):
                    raise NotReadable("it is UTF-16; write it as UTF-8, in PowerShell by `| Out-File -Encoding utf8 FILE`, not `> FILE`")
                raise NotReadable("neither JSON nor YAML: it is not UTF-8 text, as it has zero bytes")
            yield from _split_bytes(start + stream.read(), yaml_likely=yaml_likely, unique_keys=unique_keys)
        else:
            yield Document(kind="List", api_version=items.api_version, items=items, is_list=True)
            yield Document(metrics=_present_or_none(items.metrics), capture=_present_or_none(items.capture))
    except OSError as error:
        raise NotReadable(error.strerror or str(error)) from None
    except (EOFError, zlib.error) as error:
        raise NotReadable(f"broken gzip: {error}") from None


def _split_bytes(content: bytes, *, yaml_likely: bool, unique_keys: bool) -> Iterator[Document]:
    content = content.removeprefix(b"\xef\xbb\xbf")
    if _FLOW_YAML.match(content) or content.lstrip()[:1] not in {b"{", b"["}:
        yield from _of_yaml(content, unique_keys=unique_keys)
        return
    try:
        documents = _split_json(content)
    except NotReadable:
        if not yaml_likely and b"\n---" not in content:
            raise
        documents = list(_of_yaml(content, unique_keys=unique_keys))
    yield from documents


def _of_yaml(content: bytes, *, unique_keys: bool) -> Iterator[Document]:
    from wharfinger.model.reading.yaml_text import parse_yaml  # noqa: PLC0415 — a parser that JSON does not need

    return map(_plain_document, parse_yaml(content, unique_keys=unique_keys))


def _split_json(content: bytes) -> list[Document]:
    try:
        return [_outlined(content)]
    except msgspec.ValidationError as error:
        raise NotReadable(decode.explain(str(error))) from None
    except decode.NOT_JSON as error:
        if lines := _json_lines(content):
            return lines
        raise NotReadable(decode.not_json(error)) from None


def _outlined(content: bytes) -> Document:
    if content.lstrip()[:1] == b"[":
        return Document(items=list(_ARRAY.decode(content)), is_list=True)
    outline = OUTLINE.decode(content)
    metrics, capture = _present_or_none(outline.metrics), _present_or_none(outline.capture)
    kind, api_version = outline.kind or "", outline.api_version or ""
    if outline.items is not None or kind.endswith("List"):
        items = outline.items or []
        return Document(kind=kind, api_version=api_version, items=items, is_list=True, metrics=metrics, capture=capture)
    if metrics is not None and kind in {"", "MetricSamples"}:
        return Document(kind=kind, api_version=api_version, metrics=metrics)
    return Document(kind=kind, api_version=api_version, items=[msgspec.Raw(content)])


def _present_or_none(raw: msgspec.Raw) -> msgspec.Raw | None:
    return None if bytes(raw) in {b"", b"null"} else raw


def _json_lines(content: bytes) -> list[Document]:
    """The documents of newline-delimited JSON; empty if it is something else."""
    lines = [line for line in content.splitlines() if line.strip()]
    try:
        return [_outlined(line) for line in lines] if len(lines) > 1 else []
    except decode.NOT_JSON:
        return []


def as_list(item: Item) -> Document | None:
    """The items of an item that is itself a List; None if it is not."""
    if isinstance(item, msgspec.Raw):
        try:
            document = _outlined(bytes(item))
        except msgspec.ValidationError:  # some kind whose name ends in List
            return None
        return document if document.is_list else None
    return _plain_document(item) if isinstance(item, dict) and isinstance(item.get("items"), list) else None


def _plain_document(document: Any) -> Document:
    if isinstance(document, list):
        return Document(items=document, is_list=True)
    if not isinstance(document, dict):
        raise NotReadable("neither JSON nor YAML objects: expected what `kubectl get … -o json` or `-o yaml` prints")
    kind, api_version = str(document.get("kind") or ""), str(document.get("apiVersion") or "")
    metrics, items = document.get("metrics"), document.get("items")
    if items is not None and not isinstance(items, list):
        raise NotReadable("items: expected a list")
    if items is not None or kind.endswith("List"):
        capture = document.get("capture")
        return Document(kind=kind, api_version=api_version, items=items or [], is_list=True, metrics=metrics, capture=capture)
    if metrics is not None and kind in {"", "MetricSamples"}:
        return Document(kind=kind, api_version=api_version, metrics=metrics)
    return Document(kind=kind, api_version=api_version, items=[document])
