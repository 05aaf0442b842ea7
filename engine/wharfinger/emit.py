"""Events: what happens in the process as plain values, passed to the subscribers of their types.

Code that sees something happen makes a value of it (`PodQueued`, `PolicyTried`, …; each class is in the package where it happens) and calls
the `emit` that it was given. Metrics, log lines, traces, the decision log and the live page subscribe to the types that concern them:

    subscribers = Subscribers()
    subscribers.subscribe({PodQueued: lambda event: print(event.queue)})
    subscribers.emit(PodQueued("active", "PodAdd"))

Events of Kubernetes are something else: `framework.ports.Event`, written to the API server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

Emit = Callable[[object], None]
"""Passes an event on to its subscribers, at once. Never fails unless a handler does; handlers must be quick and must not fail."""

Handlers = Mapping[type[Any], Callable[[Any], object]]
"""The function to call with each event of a type."""


class Failed(Struct, frozen=True):
    """An error that does not stop the process: a failed write, a plugin, an object that cannot be read. `where` names the place."""

    where: str
    error: BaseException


def ignore(event: object) -> None:
    """Do nothing: the `emit` of code without subscribers."""


class Subscribers:
    """The handlers of events by type, called in the order in which they subscribed."""

    def __init__(self) -> None:
        self._handlers: dict[type[Any], tuple[Callable[[Any], object], ...]] = {}

    def subscribe(self, handlers: Handlers) -> None:
        """Call these handlers too, from now on."""
        for kind, handler in handlers.items():
            self._handlers[kind] = (*self._handlers.get(kind, ()), handler)

    def emit(self, event: object) -> None:
        """Call every handler of the event's type; a type without handlers is ignored."""
        for handler in self._handlers.get(type(event), ()):
            handler(event)
