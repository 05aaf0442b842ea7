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
_LONGEST_TAIL = 4096
_MOST_PIECES = 1000  # cuts in one item; more, and it is rather broken

_HEAD = re.compile(rb'\s*\{\s*"apiVersion"\s*:\s*"([^"\\]*)"\s*,\s*"items"\s*:\s*\[\s*(?=\{(\s*)"apiVersion"\s*:)')
_TAIL = re.compile(rb'\s*\]\s*,\s*"kind"\s*:\s*"([^"\\]*)"\s*(?:,\s*"metadata"\s*:\s*\{[^{}]*\}\s*)?\}\s*\Z')
_RAW = msgspec.json.Decoder(msgspec.Raw)


class BrokenItem(Exception):  # noqa: N818 - becomes InvalidObject where the file's name is known
    """An item is not JSON; says which one and where."""


class ItemStream:
    """The items of a List read from a stream; `api_version` and, once all items were read, `kind` are the List's own."""

    def __init__(self, stream: BinaryIO, head: re.Match[bytes], start: bytes) -> None:
        self.api_version = head[1].decode(errors="replace")
        self.kind = "List"
        self._stream = stream
        self._buffer = start[head.end() :]
        self._opening = b"{" + head[2] + b'"apiVersion"'
        self._read = 0
        self._offset = head.end()

    def __iter__(self) -> Iterator[msgspec.Raw]:
        pieces: list[bytes] = []
        reason = ""
        for piece in self._pieces():
            pieces.append(piece)
            try:
                item = _RAW.decode(b"".join(pieces).rstrip().removesuffix(b","))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
                reason = reason or decode.not_json(error)
                if len(pieces) > _MOST_PIECES:
                    break
                continue
            self._read += 1
            self._offset += sum(map(len, pieces))
            pieces, reason = [], ""
            yield item
        if pieces:
            raise BrokenItem(f"item {self._read}, which starts at byte {self._offset}, is {reason}")

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
                yield self._last()
                return

    def _last(self) -> bytes:
        """The last item, freed from what ends the List; left as it is (and so reported) when the List does not end as it should."""
        body, tail = self._buffer[:-_LONGEST_TAIL], self._buffer[-_LONGEST_TAIL:]
        end = _TAIL.search(tail)
        if end is None:
            return self._buffer
        self.kind = end[1].decode(errors="replace")
        return body + tail[: end.start()]


def open_stream(stream: BinaryIO) -> tuple[ItemStream | None, bytes]:
    """(the items of a List of regular shape or None, what was read of the stream to find out)."""
    start = stream.read(CHUNK)
    head = _HEAD.match(start)
    return (ItemStream(stream, head, start) if head is not None else None), start
