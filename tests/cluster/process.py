"""`wharf run` as a separate process, as in production.

    with WharfProcess(cluster, "--policy", path, name="first") as wharf:
        …; wharf.terminate() == 0

It always ends with the test; its output is in `wharf.log`.
"""

from __future__ import annotations

import http.client
import os
import signal
import sys
import time
from pathlib import Path
from typing import Self

from tests.cluster.control_plane import ControlPlane
from tests.cluster.programs import Program, free_ports
from tests.cluster.waiting import PATIENCE, eventually

TICKS = os.sysconf("SC_CLK_TCK")
STARTED = "scheduling"


class WharfProcess:
    """One replica. Without `elect` it needs no lease; `kubeconfig` may lead through a proxy."""

    def __init__(
        self,
        cluster: ControlPlane,
        *flags: object,
        name: str = "wharf",
        kubeconfig: Path | None = None,
        elect: bool = False,
        env: dict[str, str] | None = None,
    ) -> None:
        self.port = free_ports(1)[0]
        self.url = f"http://127.0.0.1:{self.port}"
        named = f"--kubeconfig={kubeconfig or cluster.kubeconfig}"
        election = "--leader-elect" if elect else "--no-leader-elect"
        command = [Path(sys.executable).with_name("wharf"), "run", named, election, f"--port={self.port}", *flags]
        self._program = Program(name, command, cluster.folder, ready=self._is_ready, env={"PYTHONUNBUFFERED": "1", **(env or {})})
        self.exit_code: int | None = None
        self._begins = len(self._whole_log())
        self._written_before = 0

    def __enter__(self) -> Self:
        self.start()
        self.wait_ready()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Starts it without waiting for anything."""
        self.exit_code = None
        self._written_before = len(self.log)
        self._program.start()

    def wait_ready(self, within: float = PATIENCE) -> None:
        """Returns when it has listed the cluster, and leads or waits for the lease; NotReady when it ends or takes too long."""
        self._program.wait_ready(within)

    @property
    def running(self) -> bool:
        """True if the process is alive."""
        return self._program.running

    @property
    def pid(self) -> int:
        """The process id."""
        return self._program.pid

    @property
    def log(self) -> str:
        """Everything that it has written, to stdout and stderr; nothing of others of its name."""
        return self._whole_log()[self._begins :]

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the process alone; returns at once."""
        os.kill(self.pid, number)

    def wait(self, within: float = PATIENCE) -> int:
        """The exit code (that of a signal is negative), once it has ended; AssertionError when it has not in time."""
        if self.exit_code is None:
            self.exit_code = self._program.wait(within)
        return self.exit_code

    def terminate(self, within: float = PATIENCE) -> int:
        """The exit code after a SIGTERM."""
        self.signal(signal.SIGTERM)
        return self.wait(within)

    def kill(self) -> None:
        """Ends the process at once, as a crash does. Doing it twice does no harm."""
        self._program.kill()

    @property
    def rss(self) -> int:
        """Bytes of memory that it has now."""
        return self._status("VmRSS")

    @property
    def peak_rss(self) -> int:
        """Bytes of memory that it had at most."""
        return self._status("VmHWM")

    @property
    def cpu_seconds(self) -> float:
        """Seconds of CPU that it has used, in its own code and in the kernel."""
        fields = Path(f"/proc/{self.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def _whole_log(self) -> str:
        """The written lines, without one that is being written."""
        if not self._program.log.exists():
            return ""
        lines, end, _ = self._program.log.read_bytes().rpartition(b"\n")
        return (lines + end).decode("utf-8", "replace")

    def _status(self, field: str) -> int:
        lines = Path(f"/proc/{self.pid}/status").read_text("ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))

    def wait_scheduling(self, within: float = PATIENCE) -> None:
        """Returns when it leads and schedules; a replica that waits for the lease is ready, but does not."""
        eventually(lambda: STARTED in self.log[self._written_before :], within=within)

    def get(self, path: str) -> tuple[int, str]:
        """(status, body) of what it serves under a path."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def _is_ready(self) -> bool:
        try:
            return self.get("/readyz")[0] == http.client.OK
        except (OSError, http.client.HTTPException):
            return False


def run_to_end(cluster: ControlPlane, *flags: object, within: float = PATIENCE, **how: object) -> tuple[int, str]:
    """(exit code, everything written) of a `wharf run` that ends by itself."""
    wharf = WharfProcess(cluster, *flags, name=f"wharf-{time.monotonic_ns()}", **how)
    wharf.start()
    try:
        return wharf.wait(within), wharf.log
    finally:
        wharf.kill()
