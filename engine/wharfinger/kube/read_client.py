"""A client for commands that read a cluster once and end. They need no watches; importing aiohttp would be a sixth of their CPU time.

The requests go over the connections of writes (`http_connections`). A list arrives in hundreds of pieces, which are joined once.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self
from urllib.parse import urlencode

from wharfinger.kube import api_errors
from wharfinger.kube.credentials import Credentials
from wharfinger.kube.http_connections import HttpConnections

JSON = "application/json"
CONNECT_TIMEOUT = 5.0


class ReadClient:
    """GET requests to one API server, one at a time, with the timeout `seconds` for each; not through a proxy."""

    def __init__(self, credentials: Credentials, seconds: float, *, user_agent: str) -> None:
        self.credentials = credentials
        self._seconds = seconds
        self._user_agent = user_agent
        self._exchanges: HttpConnections | None = None

    async def __aenter__(self) -> Self:
        given, head = self.credentials, f"Accept: {JSON}\r\nUser-Agent: {self._user_agent}\r\n"
        self._exchanges = HttpConnections(given.server, lambda: given.tls, given.server_name, CONNECT_TIMEOUT, head)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._exchanges is not None:
            await self._exchanges.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 — of the exchange with the server
    ) -> bytes:
        """The body of the answer; ApiError unless it is a success. After a 401 it is repeated once if the credentials have changed."""
        whole = f"{path}?{urlencode(params)}" if params else path
        refused = await self.credentials.authorization()
        try:
            return await self._ask(method, path, whole, refused, timeout or self._seconds)
        except api_errors.Unauthorized:
            if not await self.credentials.renew(refused):
                raise
        return await self._ask(method, path, whole, await self.credentials.authorization(), timeout or self._seconds)

    async def _ask(self, method: str, path: str, whole: str, authorization: str | None, seconds: float) -> bytes:
        if self._exchanges is None:
            raise RuntimeError("ReadClient is used inside `async with`")
        try:
            answer = await self._exchanges.ask(method, whole, authorization, b"", JSON, seconds)
        except OSError as error:
            what = str(error) or ("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)
            raise api_errors.Unreachable(f"{method} {path}: {what}") from error
        if not api_errors.is_success(answer.status):
            raise api_errors.of_answer(method, path, answer.status, answer.content, answer.retry_after)
        return answer.content
