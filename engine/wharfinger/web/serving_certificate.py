"""The certificate of a TLS server, from files that are replaced while it serves: by the kubelet, when a Secret has changed.

New connections get the new certificate, those that stand keep theirs. Files that cannot be used just now leave what there was.
"""

from __future__ import annotations

import hashlib
import ssl
from pathlib import Path


class ServingCertificate:
    """A certificate and its key. `context` is for the server; without a certificate yet, no connection comes about."""

    def __init__(self, certificate: str, key: str) -> None:
        self._certificate = Path(certificate)
        self._key = Path(key)
        self._served = b""
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2

    def reload(self) -> bool:
        """Whether another certificate is served from now on. OSError (ssl.SSLError is one) for files that are missing or do not fit."""
        found = hashlib.sha256(self._certificate.read_bytes() + b"\0" + self._key.read_bytes()).digest()
        if found == self._served:
            return False
        self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))  # so that a pair that does not fit leaves no trace in the one that serves
        self._load(self.context)
        self._served = found
        return True

    def _load(self, context: ssl.SSLContext) -> None:
        context.load_cert_chain(self._certificate, self._key, password=_no_password)


def _no_password() -> str:
    """Empty: an encrypted key is an error, not a question at the terminal."""
    return ""
