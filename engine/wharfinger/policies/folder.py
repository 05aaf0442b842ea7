"""A folder of policies, or one file, as a source: read in one consistent version, watched, and read again from time to time.

The kubelet writes a ConfigMap into a new folder (`..2026_01_01…`) and then moves the symlink `..data` to it. The visible names are symlinks
through `..data`. So everything is read from the target of `..data`, and once more if that target, or that of a link to the folder, has
changed meanwhile: keys of two versions are never mixed, and no key is seen twice. A file that is mounted by itself (`subPath`) never
changes; a note says so.

Logs and the status show lines of a file that does not parse. People who may write into the folder must not read other files of the machine
by linking to them, so a link that leaves the folder is refused.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import aclosing
from pathlib import Path

import watchfiles
from msgspec import Struct

from wharfinger.framework.policy_status import Mode, PolicySink, PolicyText
from wharfinger.language.files import MAX_BYTES, NO_POLICIES_MARKER, SUFFIX, open_regular
from wharfinger.language.report.wording import count

MAX_FILES = 2000
KUBELET = "..data"
MOUNTS = Path("/proc/self/mountinfo")
_ATTEMPTS = 5


class Contents(Struct, frozen=True, kw_only=True):
    """The files of a folder by their path in it: content, or why it cannot be read.

    `lost` is the reason why the folder cannot be read, "" if it can be read.
    """

    files: Mapping[str, bytes | str]
    notes: tuple[str, ...] = ()
    lost: str = ""


def read(path: str, mounts: Path = MOUNTS) -> Contents:
    """The policy files in a folder and below, or of one file and the other files of its folder."""
    try:
        for _ in range(_ATTEMPTS):
            targets = _link_targets(path)
            found = _read(path, mounts)
            if _link_targets(path) == targets:
                return found
    except OSError as error:
        return Contents(files={}, lost=f"{str(error.filename).removesuffix(f'/{KUBELET}')}: {_reason(error)}")
    return Contents(files={}, lost=f"{path} changes faster than it can be read")


def folder_of(path: str) -> str:
    """The folder to watch for a path: itself, or the folder of a file."""
    return path if is_folder(path) else str(Path(path).parent)


def is_folder(path: str) -> bool:
    """True if there is a folder of that name; False if it may not be read."""
    return os.path.isdir(path)  # noqa: PTH112 — Path.is_dir raises without permission


def _link_targets(path: str) -> tuple[str, str | None]:
    """The folder that is read, behind links, and the target of its `..data`."""
    folder = folder_of(path)
    link = Path(folder, KUBELET)
    return os.path.realpath(folder), str(link.readlink()) if link.is_symlink() else None


def _read(path: str, mounts: Path) -> Contents:
    folder = folder_of(path)
    data = Path(folder, KUBELET)
    root = data if data.is_symlink() else Path(folder)
    if _leaves(data, folder):
        return Contents(files={}, lost=f"{data} is a link that leaves {folder}")
    names = _names(root, deep=is_folder(path))
    if not is_folder(path) and not Path(path).exists():
        return Contents(files={}, lost=f"{path}: no such file")
    if not is_folder(path) and not path.endswith(SUFFIX):
        return Contents(files={}, lost=f"{path} is neither a folder nor a file that ends in {SUFFIX}; make it a folder with policies")
    dropped = names[MAX_FILES:]
    notes = [f"only the first {MAX_FILES:,} of {count(len(names), 'file')} are read"] if dropped else []
    named = None if is_folder(path) else root / Path(path).name
    files = dict(_contents(names[:MAX_FILES], root, folder, named))
    return Contents(files=files, notes=(*notes, *_frozen(folder, files, mounts)))


def _names(root: Path, *, deep: bool) -> list[str]:
    """The sorted paths of policy files in a folder, and below if `deep`, and of `NO-POLICIES`; hidden folders are left out."""

    def refuse(error: OSError) -> None:
        raise error

    def _is_read(parent: str, name: str) -> bool:
        return name.endswith(SUFFIX) or (name == NO_POLICIES_MARKER and Path(parent) == root)

    found: list[str] = []
    for parent, folders, names in os.walk(root, onerror=refuse):
        folders[:] = [name for name in folders if deep and not name.startswith(".")]
        found += [os.path.relpath(os.path.join(parent, name), root) for name in names if _is_read(parent, name)]  # noqa: PTH118 — thousands of paths
    return sorted(found)


def _contents(names: Iterable[str], root: Path, folder: str, named: Path | None) -> Iterator[tuple[str, bytes | str]]:
    """The names with the contents of the files, or why they cannot be read."""
    for name in names:
        shown = os.fsencode(name).decode("utf-8", "backslashreplace")
        if shown != name:
            yield shown, f"{shown} has a name that is not UTF-8; rename the file"
        elif (content := _inside(root / name, folder, named)) is not None:
            yield name, content


def _inside(path: Path, folder: str, named: Path | None) -> bytes | str | None:
    """The content of a file in the folder; the file that the settings name (`named`) may be a link to anywhere."""
    if path != named and _leaves(path, folder):
        return f"{path.name} is a link that leaves {folder}; put the file itself there"
    return _content(path)


def _leaves(path: Path, folder: str) -> bool:
    """True if a path is a link that leads out of a folder, to something that exists."""
    if not path.is_symlink():
        return False
    target = Path(os.path.realpath(path))  # Path.resolve raises for links in a circle
    return not target.is_relative_to(os.path.realpath(folder)) and os.path.exists(path)  # noqa: PTH110 — Path.exists raises without permission


def _content(path: Path) -> bytes | str | None:
    """A file's content, cut just above the limit of a policy, or why it cannot be read; None if the file was just removed."""
    try:
        with open_regular(path) as stream:
            return stream.read(MAX_BYTES + 4)
    except FileNotFoundError:
        return f"{path.name} points to nothing" if path.is_symlink() else None
    except OSError as error:
        return f"{path.name} cannot be read: {_reason(error)}"


def _reason(error: OSError) -> str:
    """The reason of an error of reading; for missing permissions also who needs them."""
    needed = f"; user {os.geteuid()}, who runs this process, has to be able to read it" if isinstance(error, PermissionError) else ""
    return f"{error.strerror}{needed}"


def _frozen(folder: str, files: Mapping[str, bytes | str], mounts: Path) -> Iterator[str]:
    """A note for each file that is a separate mount."""
    mounted = _mount_points(mounts)
    for name in files if mounted else ():
        if os.path.realpath(Path(folder, name)) in mounted:
            yield (
                f"{name} is mounted by itself (subPath), so changes of its ConfigMap never arrive; mount the whole ConfigMap as a folder"
            )


def _mount_points(mounts: Path) -> frozenset[str]:
    """The mount points of this process (proc(5), the fifth field of mountinfo); empty if the system does not list them."""
    try:
        lines = mounts.read_text("utf-8", "replace").splitlines()
    except OSError:
        return frozenset()
    return frozenset(line.split(" ")[4].replace("\\040", " ") for line in lines if line.count(" ") > 4)


POLL_SECONDS = 10.0
"""Seconds between two readings of a folder without events."""
_SETTLE_SECONDS = 0.05
_MAX_SETTLES = 20
_FIRST_POLL_SECONDS = 1.0


class FolderSource:
    """The policies in a folder and below, or in one file; policies can import other files of the folder."""

    empty_is_lost = True
    imports = True

    def __init__(self, path: str, *, name: str = "", mode: Mode = Mode.ENFORCE, poll: float = POLL_SECONDS) -> None:
        self.path = path
        self.name = name or path
        self._mode = mode
        self._poll = poll
        self._offered: Contents | None = None
        self._offering = asyncio.Lock()

    async def run(self, sink: PolicySink) -> None:
        """Watch and read the folder until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch(sink), name=f"watch {self.name}")
            group.create_task(self._poll_folder(sink), name=f"poll {self.name}")

    async def offer(self, sink: PolicySink) -> None:
        """Offer the sink the present content of the folder, if it has changed since the last offer."""
        async with self._offering:
            found = await self._stable_contents()
            if found == self._offered:
                return
            self._offered = found
            if found.lost:
                sink.mark_unreadable(self.name, found.lost)
            else:
                sink.offer(self.name, self._texts(found.files), notes=found.notes)

    async def _stable_contents(self) -> Contents:
        """The contents, once two readings in a row agree: nothing is being written."""
        before = await asyncio.to_thread(read, self.path)
        for _ in range(_MAX_SETTLES if self._offered is not None else 0):
            if before == self._offered:
                break
            await asyncio.sleep(_SETTLE_SECONDS)
            found = await asyncio.to_thread(read, self.path)
            if found == before:
                break
            before = found
        return before

    def _texts(self, files: Mapping[str, bytes | str]) -> dict[str, PolicyText]:
        root = folder_of(self.path)
        return {key: self._text(str(Path(root, key)), content) for key, content in files.items()}

    def _text(self, name: str, content: bytes | str) -> PolicyText:
        alone = not is_folder(self.path)
        wanted = Path(name).name != NO_POLICIES_MARKER and (not alone or Path(name) == Path(self.path))
        if isinstance(content, str):
            return PolicyText(name=name, content=b"", mode=self._mode, trouble=content, wanted=wanted)
        return PolicyText(name=name, content=content, mode=self._mode, wanted=wanted)

    async def _poll_folder(self, sink: PolicySink) -> None:
        pause = min(_FIRST_POLL_SECONDS, self._poll)  # the watch may begin a moment after the first reading
        while True:
            await self.offer(sink)
            await asyncio.sleep(pause)
            pause = self._poll

    async def _watch(self, sink: PolicySink) -> None:
        while True:
            root = folder_of(self.path)
            try:
                await self._watch_folder(root, sink)
            except* (OSError, RuntimeError):
                # There is no folder, a name in it is not UTF-8, or no more watches are possible. It is still read from time to time.
                pass
            await asyncio.sleep(self._poll)

    async def _watch_folder(self, root: str, sink: PolicySink) -> None:
        """Offer every change, until the folder is replaced by another, whose changes this watch would not see."""
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
                await self.offer(sink)
                if _identity(root) != watched:
                    return


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
