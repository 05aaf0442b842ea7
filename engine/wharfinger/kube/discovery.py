"""Which API server this is."""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from wharfinger.kube.connection import Connection

_STREAMED_LISTS_SINCE = (1, 34)  # the feature WatchList is on by default from here on


class _Version(msgspec.Struct):
    major: str = ""
    minor: str = ""
    git_version: str = msgspec.field(name="gitVersion", default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerVersion:
    """Version of an API server; (0, 0) when it does not say."""

    release: tuple[int, int]
    text: str

    @property
    def streams_lists(self) -> bool:
        """Whether lists may be asked for as streams."""
        return self.release >= _STREAMED_LISTS_SINCE


async def server_version(connection: Connection) -> ServerVersion:
    """The version of the API server; ApiError when it does not answer."""
    told = msgspec.json.decode(await connection.request("GET", "/version"), type=_Version)
    return ServerVersion(release=(_number(told.major), _number(told.minor)), text=told.git_version)


def _number(text: str) -> int:
    """`36+`, as some providers have it, is 36."""
    digits = re.match(r"\d+", text)
    return int(digits[0]) if digits else 0
