"""Lists of objects in pages, as raw bytes.

All pages of a list are of one version: that of its first page. The server forgets old versions after some minutes; whoever reads that
slowly is refused with `Gone` in the middle and asks for everything at once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import msgspec

from wharfinger.kube import wire
from wharfinger.kube.connection import Connection

WHOLE_LIST = 120.0
"""Seconds that a list without pages may take."""


async def pages(connection: Connection, path: str, params: Mapping[str, str], size: int) -> AsyncIterator[tuple[list[msgspec.Raw], str]]:
    """(items, version of the list) for each page of up to `size` objects, 0 for all in one; ApiError, InvalidObject."""
    asked = {**params, **({"limit": str(size)} if size else {})}
    while True:
        content = await connection.request("GET", path, params=asked, timeout=None if size else WHOLE_LIST)
        items, version, token = wire.page(content)
        yield items, version
        if not token:
            return
        # The token carries the version; a server refuses to be told it twice.
        asked = {key: value for key, value in asked.items() if key not in {"resourceVersion", "resourceVersionMatch"}}
        asked["continue"] = token
