"""A folder, or a file, as a source of policies: watched, and looked at from time to time in case the watch has missed something."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing, suppress
from pathlib import Path

import watchfiles

from wharfinger.framework.policy_status import Mode, PolicySink, PolicyText
from wharfinger.language.partner import NONE_MEANT
from wharfinger.runtime.policy_store import folder
from wharfinger.runtime.policy_store.folder import Contents

POLL = 10.0
"""Seconds between two looks at a folder that no event was seen of."""
_QUIET = 0.05
_TRIES = 20
_FIRST_LOOK = 1.0


class FolderSource:
    """The policies in a folder and below, or in one file; other files of its folder can be imported from."""

    lasting = True
    imports = True

    def __init__(self, path: str, *, name: str = "", mode: Mode = Mode.ENFORCE, poll: float = POLL) -> None:
        self.path = path
        self.name = name or path
        self._mode = mode
        self._poll = poll
        self._told: Contents | None = None
        self._telling = asyncio.Lock()

    async def run(self, sink: PolicySink) -> None:
        """None, when cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch(sink), name=f"watch {self.name}")
            group.create_task(self._look(sink), name=f"look at {self.name}")

    async def tell(self, sink: PolicySink) -> None:
        """None, once the sink knows what is there now; it is told only what it does not know."""
        async with self._telling:
            found = await self._calm()
            if found == self._told:
                return
            self._told = found
            if found.lost:
                sink.lose(self.name, found.lost)
            else:
                sink.offer(self.name, self._texts(found.files), notes=found.notes)

    async def _calm(self) -> Contents:
        """What is there, when it was the same at two looks: nobody is in the middle of writing it."""
        before = await asyncio.to_thread(folder.read, self.path)
        for _ in range(_TRIES if self._told is not None else 0):
            if before == self._told:
                break
            await asyncio.sleep(_QUIET)
            found = await asyncio.to_thread(folder.read, self.path)
            if found == before:
                break
            before = found
        return before

    def _texts(self, files: Mapping[str, bytes | str]) -> dict[str, PolicyText]:
        root = folder.folder_of(self.path)
        return {key: self._text(str(Path(root, key)), content) for key, content in files.items()}

    def _text(self, name: str, content: bytes | str) -> PolicyText:
        alone = not folder.is_folder(self.path)
        wanted = Path(name).name != NONE_MEANT and (not alone or Path(name) == Path(self.path))
        if isinstance(content, str):
            return PolicyText(name=name, content=b"", mode=self._mode, trouble=content, wanted=wanted)
        return PolicyText(name=name, content=content, mode=self._mode, wanted=wanted)

    async def _look(self, sink: PolicySink) -> None:
        pause = min(_FIRST_LOOK, self._poll)  # the watch may begin a moment after the first look
        while True:
            await self.tell(sink)
            await asyncio.sleep(pause)
            pause = self._poll

    async def _watch(self, sink: PolicySink) -> None:
        while True:
            root = folder.folder_of(self.path)
            with suppress(OSError, RuntimeError):  # the folder is not there, or no more can be watched; the looks go on
                await self._watch_folder(root, sink)
            await asyncio.sleep(self._poll)

    async def _watch_folder(self, root: str, sink: PolicySink) -> None:
        """None, when the folder has been replaced by another, which this watch would never hear of."""
        watched = _identity(root)
        changes = watchfiles.awatch(
            root,
            watch_filter=None,
            debounce=200,
            step=20,
            rust_timeout=int(1000 * self._poll),
            yield_on_timeout=True,
            recursive=root == self.path,
        )
        async with aclosing(changes) as batches:
            async for _ in batches:
                await self.tell(sink)
                if _identity(root) != watched:
                    return


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
