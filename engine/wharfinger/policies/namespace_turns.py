"""Selects the texts of namespaces to build next. Namespaces take turns, so many changes of one namespace delay no other.

All changes of the cluster's policies are built together, because they may depend on each other. Some texts of namespaces are built with
them; the others keep their former versions until their turn. The namespace with the least text built so far comes first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from wharfinger.framework.policy_status import PolicyText
from wharfinger.language.semantics.authority import Libraries
from wharfinger.policies.ledger import Ledger, Offer
from wharfinger.signals.fair_queue import FairQueue, QueueLimits, Requester

MAX_TEXTS: Final = 20
"""Texts of namespaces that are built at a time."""
MAX_BYTES: Final = 2**16
"""The size of these texts with the libraries that they import, unless one alone is larger. The time of a check is in proportion to it."""

_ANY_NUMBER: Final = 2**31
_QUEUE_LIMITS: Final = QueueLimits(number=1, of_group=1, of_requester=1, waiting=_ANY_NUMBER, waiting_of_requester=_ANY_NUMBER)


class NamespaceTurns:
    """The turns of namespaces at having their policies built."""

    def __init__(self) -> None:
        self._queue: FairQueue[tuple[str, str]] = FairQueue(_QUEUE_LIMITS)

    def divided(self, pending: Mapping[str, Offer], ledger: Ledger) -> tuple[dict[str, Offer], dict[str, Offer]]:
        """(the offers with the texts to build now, the offers with the texts to build later), by source."""
        waiting = {
            (source, key): Requester(namespace)
            for source, offer in pending.items()
            for key in ledger.to_build(source, offer.texts or {})
            if (namespace := (offer.texts or {})[key].authority.namespace) is not None
        }
        later = waiting.keys() - self._chosen(waiting, pending)
        now = {
            source: _without(offer, source, {key for place, key in later if place == source}, ledger) for source, offer in pending.items()
        }
        return now, {source: pending[source] for source in pending if any(place == source for place, _ in later)}

    def _chosen(self, waiting: Mapping[tuple[str, str], Requester], pending: Mapping[str, Offer]) -> set[tuple[str, str]]:
        """The texts of `waiting`, by source and key, whose turn it is."""
        for place in sorted(waiting):
            self._queue.put(waiting[place], place)
        chosen: set[tuple[str, str]] = set()
        size = 0
        while len(chosen) < MAX_TEXTS and (found := self._queue.take()) is not None:
            requester, (source, key) = found
            length = _size((pending[source].texts or {})[key])
            fits = not chosen or size + length <= MAX_BYTES
            self._queue.release(requester, length + 1 if fits else 0)
            if not fits:
                break
            chosen.add((source, key))
            size += length
        for place in waiting.keys() - chosen:
            self._queue.withdraw(waiting[place], place)
        return chosen


def _size(text: PolicyText) -> int:
    """The bytes that are checked to build a text of a namespace: its own, and those of each library that it seems to import.

    A library is checked again for each text, because the name that it gets there may be another one.
    """
    content, libraries = text.content, text.authority.libraries
    if b"import" not in content:
        return len(content)
    found = _named(content.replace(b"\\", b""), libraries)  # a path may have escaped quotes
    while more := {name: each for known in found.values() for name, each in _named(known.encode(), libraries).items() if name not in found}:
        found |= more
    return len(content) + sum(len(each.encode()) for each in found.values())


def _named(content: bytes, libraries: Libraries) -> dict[str, str]:
    """The libraries whose names are in a text."""
    return {name: each for name, each in libraries if name.encode() in content}


def _without(offer: Offer, source: str, later: set[str], ledger: Ledger) -> Offer:
    """The offer with the former texts in place of those that are built later, and without new ones of these."""
    if offer.texts is None or not later:
        return offer
    former = {key: entry.text for key in later if (entry := ledger.entries.get((source, key))) is not None}
    return replace(offer, texts={key: former.get(key, text) for key, text in offer.texts.items() if key not in later or key in former})
