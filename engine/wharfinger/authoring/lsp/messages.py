"""Messages of editors that cannot be understood: each gets an answer, or a complaint of one line, and takes no memory.

pygls reads as many bytes as a message claims to have, leaves a request unanswered that does not fit its type, so that the editor waits for
ever, and writes a traceback for each. Here such a request is answered with an error of JSON-RPC 2.0, and a message that is too long or cut
off ends the server.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from typing import Any, BinaryIO

from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams, JsonRpcInvalidRequest, JsonRpcMethodNotFound
from pygls.protocol import LanguageServerProtocol

from wharfinger.errors import UsageError

MAX_HEADER_BYTES = 2**12
"""Bytes of one line of a header."""
MAX_MESSAGE_BYTES = 64 * 2**20
"""Bytes of one message: it holds the whole text of a document, which is a policy or a small part of one."""


class MessageReader:
    """A stream that holds messages to their limits; pygls reads from it. UsageError for a message that is too long or cut off."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def readline(self) -> bytes:
        """A line of a header; empty at the end of the stream."""
        line = self._stream.readline(MAX_HEADER_BYTES + 1)
        if len(line) > MAX_HEADER_BYTES:
            raise UsageError(f"the editor sends a header of more than {MAX_HEADER_BYTES:,} bytes; does something else write to wharf lsp?")
        return line

    def read(self, size: int) -> bytes:
        """The `size` bytes of a message; empty at the end of the stream."""
        if size > MAX_MESSAGE_BYTES:
            raise UsageError(f"the editor announces a message of {size:,} bytes; at most {MAX_MESSAGE_BYTES:,} are read")
        body = self._stream.read(size)
        if 0 < len(body) < size:
            raise UsageError(f"the editor has left within a message, after {len(body):,} of {size:,} bytes")
        return body


@dataclass(frozen=True)
class Refused:
    """A request that cannot be understood, and the error that answers it."""

    id: str | int
    error: JsonRpcException


class Protocol(LanguageServerProtocol):
    """The protocol of pygls, with an answer to every request."""

    def structure_message(self, data: dict[str, Any]) -> Any:
        """The message that an object of JSON stands for; a Refused for a request that does not fit its type."""
        try:
            return super().structure_message(data)
        except JsonRpcException:
            asker, method = data.get("id"), data.get("method")
            if not isinstance(asker, str | int) or not isinstance(method, str):
                raise
            known = method in self.fm.builtin_features or method in self.fm.features
            return Refused(asker, JsonRpcInvalidParams.of(method) if known else JsonRpcMethodNotFound.of(method))

    def handle_message(self, message: Any) -> None:
        """Answers a message. JsonRpcInvalidRequest for one that is none of JSON-RPC, which has no sender to answer."""
        if isinstance(message, Refused):
            self._send_response(message.id, None, message.error.to_response_error())
        elif not hasattr(message, "jsonrpc"):
            raise JsonRpcInvalidRequest("not a message of JSON-RPC 2.0")
        else:
            super().handle_message(message)


class StderrHandler(logging.Handler):
    """What pygls complains of, on stderr: one line each, or with tracebacks."""

    def __init__(self, *, tracebacks: bool) -> None:
        super().__init__(logging.WARNING)
        self._tracebacks = tracebacks

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one complaint."""
        said = self.format(record)
        if not self._tracebacks:
            first, *others = record.getMessage().strip().split("\n")  # pygls writes some tracebacks as part of the message
            error = record.exc_info[1] if record.exc_info else others[-1].strip(" |") if others else ""
            said = first if str(error) in first else f"{first}: {error}"
        sys.stderr.write(f"wharf lsp: {said}\n")
