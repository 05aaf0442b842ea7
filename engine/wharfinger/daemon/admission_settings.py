"""Settings of the validating webhook."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from pydantic import Field, model_validator

from wharfinger.daemon.part import Part

PORT = 10262


class AdmissionSettings(Part):
    """Files of the certificate with which the webhook is served, and its key; the port, at the bind address; and who may ask.

    Who may ask proves it with a certificate that one of `client_ca_file` has signed, for one of `client_names` if there are any: the API
    server, which gets its certificate by `--admission-control-config-file`. Where that cannot be set, `any_caller` has to be said.
    """

    certificate: str = Field(min_length=1)
    key: str = Field(min_length=1)
    port: int = Field(default=PORT, ge=0, le=65535)
    client_ca_file: str | None = Field(default=None, min_length=1)
    client_names: tuple[str, ...] = ()
    any_caller: bool = False

    @model_validator(mode="after")
    def _callers_are_known(self) -> Self:
        if not self.any_caller and self.client_ca_file is None:
            raise ValueError(
                "who may ask? name with clientCaFile who signs the certificate of the API server; "
                "where it can have none, say anyCaller: true, and anybody who reaches the port may have texts judged"
            )
        if self.any_caller and (self.client_ca_file is not None or self.client_names):
            raise ValueError("anyCaller asks nobody for a certificate; leave it out, or clientCaFile and clientNames")
        return self

    def with_paths(self, change: Callable[[str], str]) -> Self:
        """The same with every path changed."""
        update = {"certificate": change(self.certificate), "key": change(self.key)}
        if self.client_ca_file is not None:
            update["client_ca_file"] = change(self.client_ca_file)
        return self.model_copy(update=update)
