"""What `/livez` and `/readyz` ask of the process.

Ready means that it does its work, or would if it led: a replica that stands by is ready. One whose API server does not answer is not. A
kind that we may not read makes the process not ready, and the check names it: pods are placed nevertheless, but as if there were no objects
of that kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wharfinger.web.health import Checks

if TYPE_CHECKING:
    from wharfinger.daemon.compose import Daemon


class Health:
    """The checks; they know nothing but that there is no connection until a daemon is `watched`."""

    def __init__(self) -> None:
        self.daemon: Daemon | None = None

    def watch(self, daemon: Daemon) -> None:
        """None; the API server has answered, and this is what runs on the connection."""
        self.daemon = daemon

    @property
    def checks(self) -> Checks:
        """The checks by name, with Kubernetes' own names where it has one."""
        return Checks(ready={"api-server": self._api_server, "informer-sync": self._informers, "permissions": self._permissions})

    def _api_server(self) -> str | None:
        return "it has not answered yet" if self.daemon is None else self.daemon.contact.trouble

    def _informers(self) -> str | None:
        if self.daemon is None:
            return "not started"
        missing = self.daemon.scheduler.missing_kinds
        return f"not listed yet: {', '.join(sorted(missing))}" if missing else None

    def _permissions(self) -> str | None:
        refused = {} if self.daemon is None else self.daemon.server.informers.refused
        return "; ".join(f"{kind}: {said}" for kind, said in sorted(refused.items())) or None
