"""One answer of HTTP/1.1, put together from the bytes as they come (RFC 9112)."""

from __future__ import annotations

from dataclasses import dataclass

_LONGEST_HEAD = 64 * 1024
_LONGEST_BODY = 64 * 2**20
_BODILESS = (204, 304)


class NotHttp(ConnectionError):
    """What came is no answer of HTTP."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The status, the body, and what the headers say that matters. With `ends_connection` nothing more comes on it."""

    status: int
    content: bytes
    retry_after: str | None
    ends_connection: bool


class AnswerReader:
    """Reads one answer after the other; only one may be on its way at a time."""

    __slots__ = ("_headers", "_rest", "_status")

    def __init__(self) -> None:
        self._rest = b""
        self._status = 0  # of the answer whose head has been read
        self._headers: dict[bytes, bytes] = {}

    def feed(self, chunk: bytes) -> Answer | None:
        """The answer, once it is complete. Raises NotHttp."""
        self._rest = self._rest + chunk if self._rest else chunk
        while not self._status:
            if not self._read_head():
                return None
        return self._read_body()

    def end(self) -> Answer:
        """The answer that ends with the connection; ConnectionError when it is not complete."""
        if not self._status or b"content-length" in self._headers or b"transfer-encoding" in self._headers:
            raise ConnectionError("the connection broke off")
        return self._answer(self._rest, b"")

    def _read_head(self) -> bool:
        """Whether there was a head; that of an interim answer leaves the status at 0."""
        head, end, rest = self._rest.partition(b"\r\n\r\n")
        if not end:
            if len(head) > _LONGEST_HEAD:
                raise NotHttp("an answer whose headers do not end")
            return False
        first, *lines = head.split(b"\r\n")
        if not first.startswith(b"HTTP/1.") or not first[9:12].isdigit():
            raise NotHttp(f"an answer that is no HTTP/1.1: {first[:80].decode('latin-1')}")
        status = int(first[9:12])
        self._rest = rest
        if status >= 200:
            self._status = status
            self._headers = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
            if first.startswith(b"HTTP/1.0"):
                self._headers.setdefault(b"connection", b"close")
        return True

    def _read_body(self) -> Answer | None:
        if self._status in _BODILESS:
            return self._answer(b"", self._rest)
        if self._headers.get(b"transfer-encoding", b"").lower() == b"chunked":
            return self._read_chunks()
        told = self._headers.get(b"content-length")
        if told is None:
            return None  # it ends with the connection
        if not told.isdigit() or int(told) > _LONGEST_BODY:
            raise NotHttp(f"an answer of {told[:80].decode('latin-1')} bytes")
        length = int(told)
        if len(self._rest) < length:
            return None
        return self._answer(self._rest[:length], self._rest[length:])

    def _read_chunks(self) -> Answer | None:
        """The answer, if all chunks are there; answers that come in chunks are short, so they are read from the start each time."""
        rest, parts = self._rest, list[bytes]()
        while True:
            size, end, rest = rest.partition(b"\r\n")
            if not end:
                return None
            try:
                length = int(size.partition(b";")[0], 16)
            except ValueError:
                raise NotHttp("an answer in chunks without a size") from None
            if length == 0:
                _, end, rest = (b"\r\n" + rest).partition(b"\r\n\r\n")
                return self._answer(b"".join(parts), rest) if end else None
            if len(rest) < length + 2:
                return None
            parts.append(rest[:length])
            rest = rest[length + 2 :]

    def _answer(self, content: bytes, rest: bytes) -> Answer:
        headers, status = self._headers, self._status
        self._rest, self._status, self._headers = b"", 0, {}
        delimited = status in _BODILESS or b"content-length" in headers or b"transfer-encoding" in headers
        closing = headers.get(b"connection", b"").lower() == b"close"
        after = headers.get(b"retry-after")
        return Answer(
            status=status,
            content=content,
            retry_after=None if after is None else after.decode("latin-1"),
            ends_connection=bool(rest) or closing or not delimited,
        )
