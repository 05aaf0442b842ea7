"""Items of a large List, one after another, without holding the file in memory.

`kubectl get … -o json` of a big cluster is hundreds of megabytes, most of it indentation and managed fields. Its shape is regular:
every item starts with `{"apiVersion"`, with the same white space in it. So the text is cut there, and every piece is checked to be
a whole JSON value; where the cut was in the middle of an item (an owner reference may look the same) the pieces are joined again. A
List of any other shape is not streamed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from wharfinger.model import decode

_BRACKET = ord("[")
CHUNK = 4 << 20
_MOST_PIECES = 1000  # cuts in one item; more, and it is rather broken

_HEAD = re.compile(rb'\s*\{\s*"apiVersion"\s*:\s*"([^"\\]*)"\s*,\s*"items"\s*:\s*\[\s*(?=\{(\s*)"apiVersion"\s*:)')
_NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError)
_RAW = msgspec.json.Decoder(msgspec.Raw)


class Outline(msgspec.Struct, rename="camel"):
    """A document whose items are not decoded yet."""

    kind: str | None = None
    api_version: str | None = None
    items: list[msgspec.Raw] | None = None
    metrics: msgspec.Raw = msgspec.Raw(b"")
    capture: msgspec.Raw = msgspec.Raw(b"")


OUTLINE = msgspec.json.Decoder(Outline)


class BrokenItem(Exception):
    """An item is not JSON; says which one and where."""


class ItemStream:
    """The items of a List read from a stream; `metrics` and `capture` are known once all items were read."""

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
            except _NOT_JSON as error:
                if len(pieces) > _MOST_PIECES:
                    raise self._broken(error) from None
                continue
            self._read += 1
            self._offset += sum(map(len, pieces))
            pieces = []
            yield item
        yield from self._last(b"".join(pieces) + self._buffer)

    def _pieces(self) -> Iterator[bytes]:
        """Candidates for items, each from one opening to the next; the first of a list inside an item does not count as one."""
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
        """The last item (or, had the cuts been wrong, the last few), with what else stands in the List after its items."""
        try:
            outline = OUTLINE.decode(b'{"items":[' + rest)
        except msgspec.ValidationError as error:
            raise BrokenItem(decode.explain(str(error))) from None
        except _NOT_JSON as error:
            raise self._broken(error) from None
        self.metrics, self.capture = outline.metrics, outline.capture
        return outline.items or []

    def _broken(self, error: Exception) -> BrokenItem:
        reason = decode.not_json(error).partition(" (byte")[0]  # counted from somewhere else
        return BrokenItem(f"item {self._read}, which starts at byte {self._offset}, is {reason}")


def open_stream(stream: BinaryIO) -> tuple[ItemStream | None, bytes]:
    """(the items of a List of regular shape or None, what was read of the stream to find out)."""
    start = stream.read(CHUNK)
    head = _HEAD.match(start)
    return (ItemStream(stream, head, start) if head is not None else None), start
