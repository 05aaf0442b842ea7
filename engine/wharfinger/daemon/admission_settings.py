"""Settings of the validating webhook."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from pydantic import Field

from wharfinger.daemon.part import Part

PORT = 10262


class AdmissionSettings(Part):
    """Files of the certificate with which the webhook is served, and its key; the port, at the bind address."""

    certificate: str = Field(min_length=1)
    key: str = Field(min_length=1)
    port: int = Field(default=PORT, ge=0, le=65535)

    def with_paths(self, change: Callable[[str], str]) -> Self:
        """The same with every path changed."""
        return self.model_copy(update={"certificate": change(self.certificate), "key": change(self.key)})
