"""The feed of the live page: it reads the content about once a second and tells every open page what has changed.

Nothing is read while no page is open. Otherwise the content is read in slices, and once for all pages.

A page that reads slowly skips states: of what it has not been sent yet, only the names are kept, and it gets the newest state of each. So
all pages wait for the same bytes, however many they are. The bytes that are being sent to slow pages are limited too.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, TypeAlias

from wharfinger.emit import Emit, Failed
from wharfinger.errors import WharfingerError
from wharfinger.framework.ports import Clock
from wharfinger.web.ui.channel import Change, Channel, Part, message
from wharfinger.web.ui.page_content import PageContent, PodQuery

INTERVAL = 1.0
"""Fewest seconds between two updates."""
MAX_TIME_SHARE = 0.02
"""Largest share of the time that updates may take; a huge cluster is updated less often."""
MAX_WATCHERS = 64
MAX_CHANNELS = 6
"""Colourings at a time: each holds the names of all nodes."""
MAX_QUERIES = 32
"""Choices of pods at a time: with more of them, updates are less frequent."""
MAX_SENDING_BYTES = 2**26
"""Bytes of different messages that may be under way to all watchers together, each counted once."""
PIECE_BYTES = 2**16
"""Most bytes that are handed to a connection at a time: it copies what it cannot send at once."""

ALIVE_INTERVAL = 4.0
"""The maximum time without a message, in seconds: after ten, a page says that the scheduler does not answer."""
ALIVE = message("alive", {})
"""The message that says only that the scheduler still answers."""

ALL = PodQuery()

Named: TypeAlias = tuple[PodQuery | None, str]
"""A small part of the content: its name, and the pods that it is about; None for a part of all pages."""


class TooMany(WharfingerError):
    """Too many pages are open."""


class Watcher:
    """One open page: what it shows, what is being sent to it, and what it has not been sent yet."""

    def __init__(self, channel: Channel, query: PodQuery, newest: Callable[[Named], bytes]) -> None:
        self.channel = channel
        self.query = query
        self.gone = False
        self.behind = 0
        self._newest = newest
        self._waiting: dict[Part | Named, bytes | None] = {}  # None: the newest state of it
        self._sending: deque[bytes] = deque()
        self._sent = 0  # bytes of the first of them
        self._changed = asyncio.Event()
        self._ended = asyncio.Event()

    @property
    def under_way(self) -> Collection[bytes]:
        """The messages that are being sent. `behind` is the number of updates since the first of them was begun."""
        return self._sending

    def put(self, changed: Part | Named, difference: bytes | None = None) -> None:
        """Note a change, with the message for who knows everything before it."""
        if isinstance(changed, Part) and Part.MAP in self._waiting:
            changed, difference = Part.MAP, None
        elif changed is Part.MAP:
            waiting = [part for part in Part if part in self._waiting]
            for part in waiting:
                del self._waiting[part]
            difference = None if waiting else difference
        elif changed in self._waiting:
            difference = None
        self._waiting[changed] = difference
        self._changed.set()

    def send_alive(self) -> None:
        """Send `ALIVE`, unless another message is about to be sent."""
        if not self._waiting and not self._sending:
            self.put((None, "alive"), ALIVE)

    def disconnect(self) -> None:
        """Send nothing more."""
        self.gone = True
        self._waiting.clear()
        self._sending.clear()
        self._changed.set()
        self._ended.set()

    async def ended(self) -> None:
        """Wait until the watcher was disconnected, also while a send to it blocks."""
        await self._ended.wait()

    async def next(self) -> bytes:
        """The next bytes to send, PIECE_BYTES at most, b"" at the end."""
        while not self._sending and not self._waiting and not self.gone:
            self._changed.clear()
            await self._changed.wait()
        if self.gone:
            return b""
        if not self._sending:
            self._sending.extend(one for changed, difference in self._waiting.items() for one in self._messages(changed, difference))
            self._waiting.clear()
        return self._piece()

    def _messages(self, changed: Part | Named, difference: bytes | None) -> Iterable[bytes]:
        if difference is not None:
            return [difference]
        return self.channel.newest(changed) if isinstance(changed, Part) else [self._newest(changed)]

    def _piece(self) -> bytes:
        """The next bytes of the messages under way: several small ones, or a part of a large one."""
        piece = bytearray()
        while self._sending and len(piece) < PIECE_BYTES:
            first, end = self._sending[0], self._sent + PIECE_BYTES - len(piece)
            piece += first[self._sent : end]
            self._sent = end
            if end >= len(first):
                self._sending.popleft()
                self._sent = self.behind = 0
        return bytes(piece)


class Feed:
    """Sends the content of the page to all watchers."""

    def __init__(self, page_content: PageContent, clock: Clock, emit: Emit) -> None:
        self._page_content = page_content
        self._clock = clock
        self._emit = emit
        self._watchers: list[Watcher] = []
        self._channels: dict[str, Channel] = {}
        self._parts: dict[Named, bytes] = {}
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._watchers)

    def join(self, coloring: str, query: PodQuery = ALL) -> Watcher:
        """A new watcher of the nodes in a colouring and of some pods; TooMany if too many pages are open or show too many values."""
        if self._closed or len(self._watchers) >= MAX_WATCHERS:
            raise TooMany(f"{len(self._watchers)} pages are already open, which is the limit")
        queries = self._queries | {query}
        if len(queries) > MAX_QUERIES:
            raise TooMany(f"open pages already use {len(self._queries)} different filters, which is the limit")
        watcher = Watcher(self._channel(coloring), query, self._parts.__getitem__)
        self._watchers.append(watcher)
        for named in self._parts:
            if named[0] in {None, query}:
                watcher.put(named)
        if watcher.channel.is_known:
            watcher.put(Part.MAP)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="live page")
        return watcher

    @property
    def _queries(self) -> set[PodQuery]:
        return {watcher.query for watcher in self._watchers}

    def _channel(self, coloring: str) -> Channel:
        """The channel of a colouring. It is updated at least once, unless that takes several steps: then the next update is the first."""
        channel = self._channels.get(coloring)
        if channel is None:
            if len(self._channels) >= MAX_CHANNELS:
                raise TooMany(f"open pages already use {len(self._channels)} different colourings, which is the limit")
            channel = Channel(coloring)
            if not any(True for _ in self._page_content.precompute(coloring)):
                channel.update(self._page_content)
            self._channels[coloring] = channel
        return channel

    def leave(self, watcher: Watcher) -> None:
        """Remove a watcher."""
        watcher.disconnect()
        if watcher in self._watchers:
            self._watchers.remove(watcher)
        if all(other.channel is not watcher.channel for other in self._watchers):
            self._channels.pop(watcher.channel.key, None)
        queries = self._queries
        for named in [named for named in self._parts if not queries or named[0] not in {None, *queries}]:
            del self._parts[named]
        if not self._watchers and self._task is not None:
            self._task.cancel()
            self._task = None

    def close(self) -> None:
        """Disconnect every watcher and take no new one."""
        self._closed = True
        for watcher in list(self._watchers):
            self.leave(watcher)

    async def _run(self) -> None:
        while True:
            began = self._clock.monotonic()
            try:
                spent = await self._update_watchers()
            except Exception as error:  # noqa: BLE001 — the next update may succeed
                self._emit(Failed("live page", error))
                spent = self._clock.monotonic() - began
            await self._pause(max(INTERVAL, spent / MAX_TIME_SHARE))

    async def _pause(self, seconds: float) -> None:
        """Wait; `ALIVE` is sent to the pages meanwhile."""
        while seconds > ALIVE_INTERVAL:
            await self._clock.sleep(ALIVE_INTERVAL)
            for watcher in self._watchers:
                watcher.send_alive()
            seconds -= ALIVE_INTERVAL
        await self._clock.sleep(seconds)

    async def _update_watchers(self) -> float:
        """Send what has changed to all watchers; the seconds that it took, without those of other tasks."""
        began, spent = self._clock.monotonic(), 0.0
        for channel in list(self._channels.values()):
            for _ in self._page_content.precompute(channel.key):
                spent += self._clock.monotonic() - began
                await self._clock.sleep(0)
                began = self._clock.monotonic()
            self._pass_on(channel, channel.update(self._page_content))
            spent += self._clock.monotonic() - began
            await self._clock.sleep(0)
            began = self._clock.monotonic()
        for query, part in self._all_parts():
            if part is not None:
                self._part(query, *part)
            spent += self._clock.monotonic() - began
            await self._clock.sleep(0)
            began = self._clock.monotonic()
        self._limit_sending()
        return spent

    def _all_parts(self) -> Iterator[tuple[PodQuery | None, tuple[str, Any] | None]]:
        for part in self._page_content.parts():
            yield None, part
        for query in self._queries:
            for part in self._page_content.pods(query):
                yield query, part

    def _part(self, query: PodQuery | None, name: str, value: Any) -> None:
        encoded = message(name, value)
        if encoded == self._parts.get((query, name)):
            return
        self._parts[query, name] = encoded
        for watcher in self._watchers:
            if query in {None, watcher.query}:
                watcher.put((query, name))

    def _pass_on(self, channel: Channel, changes: Iterable[Change]) -> None:
        for change in changes:
            for watcher in self._watchers:
                if watcher.channel is channel:
                    watcher.put(change.part, change.difference)

    def _limit_sending(self) -> None:
        """Disconnect the slowest watchers while different messages of too many bytes are under way."""
        for watcher in self._watchers:
            watcher.behind += bool(watcher.under_way)
        while len(self._watchers) > 1:
            under_way = {id(one): len(one) for watcher in self._watchers for one in watcher.under_way}
            if sum(under_way.values()) <= MAX_SENDING_BYTES:
                return
            self.leave(max(self._watchers, key=lambda watcher: watcher.behind))
