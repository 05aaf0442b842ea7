"""What the scheduler reports, as lines of the log."""

from __future__ import annotations

from typing import Any

from wharfinger.framework.ports import SilentObserver


class LoggedFailures(SilentObserver):
    """Logs what goes wrong."""

    def __init__(self, log: Any) -> None:
        self._log = log

    def failed(self, where: str, error: BaseException) -> None:
        """None; one line."""
        self._log.warning("failed", where=where, error=f"{type(error).__name__}: {error}")
