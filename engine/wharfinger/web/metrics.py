"""`/metrics`: a prometheus-client registry as text, in whichever of its formats is asked for."""

from __future__ import annotations

import gzip

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder, gzip_accepted
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_SMALL = 1400  # bytes; what goes into one packet anyway is not worth compressing


def route(registry: CollectorRegistry) -> Route:
    """The route of `/metrics`; `?name[]=…` limits it to some series, as Prometheus' own federation does."""

    async def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        names = request.query_params.getlist("name[]")
        content = encode(registry.restricted_registry(names) if names else registry)
        headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
        if len(content) > _SMALL and gzip_accepted(request.headers.get("Accept-Encoding", "")):
            content, headers["Content-Encoding"] = gzip.compress(content, compresslevel=1), "gzip"
        return Response(content, headers=headers)

    return Route("/metrics", metrics)
