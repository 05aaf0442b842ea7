"""TLS of a client as bytes in and bytes out, at a fraction of what asyncio's own costs.

asyncio's TLS is a transport for any protocol: it limits what is buffered, negotiates the end, and supports servers. A request and its
answer are two small records, for which it takes more time than OpenSSL does (docs/decisions/0007).
"""

from __future__ import annotations

import ssl

_RECORD = 2**14
"""The most bytes that a record has (RFC 8446, 5.1); one `read` returns at most one record."""


class ClientTls:
    """One connection. What is to be sent is had by `take`: at first the beginning of the handshake, later after each of the other calls.

    ssl.SSLError if the context allows no version or cipher.
    """

    __slots__ = ("_incoming", "_outgoing", "_tls", "is_closed", "is_ready")

    def __init__(self, context: ssl.SSLContext, server_name: str) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name)
        self.is_ready = False
        """True after the handshake: requests can be sent."""
        self.is_closed = False
        """True after the server has ended the connection."""
        self._shake_hands()

    def decrypt(self, received: bytes | memoryview) -> bytes:
        """What the server has said, empty during the handshake or while a record is not complete; ssl.SSLError."""
        self._incoming.write(received)
        if not self.is_ready:
            self._shake_hands()
        content = b""
        while self.is_ready and self._incoming.pending and not self.is_closed:
            try:
                part = self._tls.read(_RECORD)
            except ssl.SSLWantReadError:
                break
            self.is_closed = not part
            content = content + part if content else part
        return content

    def encrypt(self, content: bytes) -> None:
        """Encrypts what is to be sent; to be called after the handshake."""
        self._tls.write(content)

    def take(self) -> bytes:
        """The bytes to send now, often none."""
        return self._outgoing.read()

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return
        self.is_ready = True
