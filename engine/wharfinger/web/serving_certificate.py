"""The certificate of a TLS server, and whom it takes for a client, from files that are replaced while it serves.

The kubelet replaces them when a Secret or ConfigMap has changed. New connections get the new certificate, those that stand keep theirs.
Files that cannot be used just now leave what there was.
"""

from __future__ import annotations

import hashlib
import ssl
from pathlib import Path


class ServingCertificate:
    """A certificate and its key. `context` is for the server; without a certificate yet, no connection comes about.

    With `client_ca`, a file of certificates, a connection comes about only with those who prove to have a certificate that one of these has
    signed for clients. No session is resumed, so whoever was known once is asked again.
    """

    def __init__(self, certificate: str, key: str, client_ca: str | None = None) -> None:
        self._certificate = Path(certificate)
        self._key = Path(key)
        self._client_ca = None if client_ca is None else Path(client_ca)
        self._served = b""
        self._current = self.context = self._empty()
        self.context.sni_callback = self._choose  # called for every connection: a context that serves could be added to, never emptied

    def reload(self) -> bool:
        """Whether anything else is served from now on. OSError (ssl.SSLError is one) for files that are missing or do not fit."""
        authorities = None if self._client_ca is None else self._client_ca.read_bytes()
        parts = (self._certificate.read_bytes(), self._key.read_bytes(), authorities or b"")
        found = hashlib.sha256(b"\0".join(parts)).digest()
        if found == self._served:
            return False
        context = self._empty()
        context.load_cert_chain(self._certificate, self._key, password=_no_password)
        if self._client_ca is not None:
            context.load_verify_locations(self._client_ca)
        self._current, self._served = context, found
        return True

    def _empty(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self._client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.options |= ssl.OP_NO_TICKET
            context.num_tickets = 0
        return context

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._current


def _no_password() -> str:
    """Empty: an encrypted key is an error, not a question at the terminal."""
    return ""
