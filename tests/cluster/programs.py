"""Programs that run for a test and end with it, also if the test fails.

Each is the leader of its own process group, killed as a group when it is stopped, when Python exits, and (Linux) by the kernel when Python
dies without exiting: a killed test run leaves no etcd behind. The kernel means the thread that started the program: use the main one.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import itertools
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests import tools
from tests.testbed import build

PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def built(name: str) -> Path:
    """The path of a program of the testbed.

    Where it is neither built nor can be, a test is skipped with a reason; with CI=true it fails.
    """
    try:
        return build.program(name)
    except build.Unavailable as missing:
        tools.unable(str(missing))


class NotReady(Exception):
    """A program did not become ready in time, or ended; the text has the end of its log."""


class Program:
    """A program that writes its log to `<folder>/<name>.log`; can be killed and started again with the same arguments."""

    def __init__(
        self,
        name: str,
        command: Sequence[object],
        folder: Path,
        *,
        ready: Callable[[], bool] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.command = [str(part) for part in command]
        self.folder = folder
        self.log = folder / f"{name}.log"
        self._ready = ready or (lambda: True)
        self._env = {**os.environ, **(env or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """True if the program is alive."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id; the program must have been started."""
        assert self._process is not None, f"{self.name} was not started"
        return self._process.pid

    def start(self) -> None:
        """Starts it without waiting until it is ready."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                cwd=self.folder,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 — one prctl of a library loaded before the fork takes no lock
            )
        atexit.register(self.stop)

    def wait_ready(self, within: float = 120.0) -> None:
        """Returns when the program answers; raises `NotReady`."""
        deadline = time.monotonic() + within
        while not self._ready():
            if not self.running or time.monotonic() > deadline:
                what = "is not ready" if self.running else "ended"
                raise NotReady(f"{self.name} {what} after {within:.0f} s; the end of {self.log}:\n{self.tail()}")
            time.sleep(0.05)

    def wait(self, within: float) -> int:
        """The exit code, once the program has ended by itself; AssertionError when it has not in time."""
        assert self._process is not None, f"{self.name} was not started"
        try:
            return self._process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} has not ended within {within:.0f} s; the end of {self.log}:\n{self.tail()}") from None

    def stop(self, sig: int = signal.SIGTERM, within: float = 5.0) -> None:
        """Ends the program with all that it started: politely first, killed when that takes too long. Doing it twice does no harm."""
        if self._process is None:
            return
        self._signal(sig)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(within)
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._process = None
        atexit.unregister(self.stop)

    def kill(self) -> None:
        """Ends the program at once, as a crash does."""
        self.stop(signal.SIGKILL)

    def tail(self, lines: int = 20, width: int = 300) -> str:
        """The last lines of the log, none longer than it can be read."""
        if not self.log.exists():
            return "(no log)"
        return "\n".join(line[:width] for line in self.log.read_text("utf-8", "replace").splitlines()[-lines:])

    def _signal(self, sig: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, sig)


def _die_with_parent() -> None:
    if _LIBC is not None:
        _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


PORTS = range(12_000, 30_000)
"""None that the kernel gives to connections: a program that is started again would find its port taken by one."""


def free_ports(count: int) -> list[int]:
    """TCP ports of 127.0.0.1 that nothing uses now, all different."""
    free = (port for port in random.sample(PORTS, len(PORTS)) if _is_free(port))
    return list(itertools.islice(free, count))


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
