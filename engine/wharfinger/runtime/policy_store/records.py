"""What outlasts a restart, kept in step with what holds; without a folder nothing does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wharfinger.runtime.policy_store.last_known_good import LastKnownGood, Record

if TYPE_CHECKING:
    from wharfinger.runtime.policy_store.entry import Entry

MOST_TROUBLES = 20


class Records:
    """The records of entries. `loaded` are those of the process before; `troubles` what went wrong, the latest last."""

    def __init__(self, kept: LastKnownGood | None) -> None:
        self._kept = kept
        self.troubles: list[str] = []
        self.loaded: list[Record] = []
        self._written: dict[tuple[str, str], Record] = {}
        if kept is not None:
            self.loaded, self.troubles = kept.load()

    def write(self, entries: Sequence[Entry], removed: Sequence[Entry]) -> None:
        """None; the records say what holds now. What cannot be written is a trouble, and nothing worse."""
        if self._kept is None:
            return
        for entry in removed:
            self._drop(self._kept, entry)
        for entry in entries:
            record = record_of(entry)
            if record is not None and record != self._written.get((entry.source, entry.key)):  # None: what is on disk is still the last
                self._keep(self._kept, record)

    def _keep(self, kept: LastKnownGood, record: Record) -> None:
        try:
            kept.keep(record)
            self._written[record.source, record.key] = record
        except OSError as error:
            self._trouble(f"{record.source}: {record.key} cannot be kept for a restart: {error}")

    def _drop(self, kept: LastKnownGood, entry: Entry) -> None:
        self._written.pop((entry.source, entry.key), None)
        try:
            kept.drop(entry.source, entry.key)
        except OSError as error:
            self._trouble(f"{entry.source}: {entry.key} cannot be forgotten: {error}")

    def _trouble(self, sentence: str) -> None:
        self.troubles = [*self.troubles, sentence][-MOST_TROUBLES:]


def record_of(entry: Entry) -> Record | None:
    """What makes the version that holds for an entry again; None if none does."""
    held = entry.held
    if held is None:
        return None
    return Record(
        source=entry.source,
        key=entry.key,
        name=held.text.name,
        texts=held.needed,
        mode=entry.mode.value,
        params=held.text.params,
        generation=held.text.generation,
        since=entry.since or 0.0,
        namespace=held.text.authority.namespace,
    )
