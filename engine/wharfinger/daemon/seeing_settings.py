"""Settings about what the process shows of its decisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from pydantic import Field, field_validator

from wharfinger.daemon import urls
from wharfinger.daemon.part import Part

MEBIBYTE = 2**20


class DecisionLogSettings(Part):
    """A log of decisions that can be replayed: the file that is written, the size at which another is begun, and how many there are."""

    path: str = Field(min_length=1)
    max_mebibytes: int = Field(default=256, ge=1, le=1_000_000)
    max_files: int = Field(default=8, ge=1, le=10_000)

    def with_paths(self, change: Callable[[str], str]) -> Self:
        """The same with its path changed."""
        return self.model_copy(update={"path": change(self.path)})


class TracingSettings(Part):
    """Traces of pods: the collector that takes OTLP over HTTP, and which part of those is recorded that belong to no trace yet."""

    endpoint: str
    sampling_ratio: float = Field(default=0.01, ge=0, le=1, strict=True)

    @field_validator("endpoint")
    @classmethod
    def _reachable(cls, value: str) -> str:
        parts = urls.split(value)
        if parts is None or not urls.is_http(parts) or not urls.has_port(parts):
            raise ValueError("expected a URL such as http://collector:4318")
        if parts.username is not None or parts.password is not None:
            raise ValueError("the URL has a password in it; give it as a header, in the variable OTEL_EXPORTER_OTLP_HEADERS")
        if parts.query or parts.fragment:
            raise ValueError("expected the collector's URL, without a query")
        return value
