"""`/metrics`: a prometheus-client registry as text, in whichever of its formats is asked for."""

from __future__ import annotations

import gzip

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder, gzip_accepted
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wharfinger.web.pace import Shared

_SMALL = 1400  # bytes; what goes into one packet anyway is not worth compressing


def route(registry: CollectorRegistry) -> Route:
    """The route of `/metrics`; `?name[]=…` limits it to some series, as Prometheus' own federation does."""
    shared: Shared[tuple[bytes, bool]] = Shared()

    async def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        names = tuple(request.query_params.getlist("name[]"))
        zips = bool(gzip_accepted(request.headers.get("Accept-Encoding", "")))

        def compute() -> tuple[bytes, bool]:
            content = encode(registry.restricted_registry(names) if names else registry)
            zipped = zips and len(content) > _SMALL
            return (gzip.compress(content, compresslevel=1) if zipped else content), zipped

        content, zipped = await shared.answer((content_type, names, zips), compute)
        headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
        if zipped:
            headers["Content-Encoding"] = "gzip"
        return Response(content, headers=headers)

    return Route("/metrics", metrics)
