"""Subscribers for tests, made in one line."""

from __future__ import annotations

from wharfinger.emit import Handlers, Subscribers


def subscribed(*handlers: Handlers) -> Subscribers:
    """The subscribers with all these handlers."""
    made = Subscribers()
    for each in handlers:
        made.subscribe(each)
    return made
