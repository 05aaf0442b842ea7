"""The lines of a watch."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp

from wharfinger.kube import refusals

_LONGEST_LINE = 64 * 2**20  # bytes; no object in etcd comes near


async def whole_lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Whole lines, of any length; half a line at the end is a broken connection, not an event."""
    rest: list[bytes] = []
    length = 0
    async for chunk in content.iter_any():
        head, *more = chunk.split(b"\n")
        rest.append(head)
        length += len(head)
        if length > _LONGEST_LINE:
            raise refusals.Unreachable("a watch that sends no end of line")
        if not more:
            continue
        yield b"".join(rest)
        for line in more[:-1]:
            yield line
        rest, length = [more[-1]], len(more[-1])
    if length:
        raise refusals.Unreachable("a watch that ended in the middle of an event")
