"""What every source has offered, and what of it has to be built anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wharfinger.framework.policy_status import Mode, PolicySource, PolicyText, SourceStatus
from wharfinger.language.authority import TenantRights
from wharfinger.language.partner import NONE_MEANT
from wharfinger.language.text_set import TextSet
from wharfinger.runtime.policy_store.entry import Entry
from wharfinger.runtime.policy_store.last_known_good import Record, latest


@dataclass(frozen=True, slots=True, kw_only=True)
class Supply:
    """A source, the profiles that its policies decide in, and values for their params."""

    source: PolicySource
    profiles: frozenset[str]
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a source said last: its texts, or None and why it is lost."""

    texts: Mapping[str, PolicyText] | None
    notes: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A text to be built, among the others of its source."""

    entry: Entry
    text: PolicyText
    texts: TextSet
    params: Mapping[str, Any]


EMPTY = f"there are no policies; where none is meant, {NONE_MEANT} says so"
EMPTIED = f"nothing is left there; what was there last stays, until {NONE_MEANT} says that none is meant"


class Ledger:
    """The entries of all supplies; `rights` are those of namespaces whose policies are made again from records."""

    def __init__(self, supplies: Sequence[Supply], records: Sequence[Record] = (), rights: TenantRights | None = None) -> None:
        self.supplies = {supply.source.name: supply for supply in supplies}
        self.entries: dict[tuple[str, str], Entry] = {}
        self._order = {name: index for index, name in enumerate(self.supplies)}
        self._sources: dict[str, SourceStatus] = {}
        self._rights = rights or TenantRights()
        self._stored = {(record.source, record.key): record for record in records}

    def __iter__(self) -> Iterator[Entry]:
        return iter(sorted(self.entries.values(), key=lambda entry: entry.place))

    @property
    def unheard(self) -> frozenset[str]:
        """The sources of which nothing is known: they have offered nothing yet, and nothing is kept of them.

        One that may be empty may also not be there at all, if it says so.
        """
        return frozenset(
            name
            for name, supply in self.supplies.items()
            if name not in self._sources or (self._sources[name].lost and supply.source.lasting and not self._has(name))
        )

    @property
    def sources(self) -> tuple[SourceStatus, ...]:
        """The sources that have said something, in order."""
        return tuple(self._sources[name] for name in self.supplies if name in self._sources)

    def take(self, source: str, offer: Offer) -> tuple[list[Job], list[Entry], SourceStatus | None]:
        """(what to build, the entries that were removed, the source's status if it has changed)."""
        texts = offer.texts
        why = offer.why
        if texts is not None and not _wanted(texts) and NONE_MEANT not in texts and self.supplies[source].source.lasting:
            texts, why = None, EMPTIED if self._has(source) or self._kept(source) else EMPTY
        if texts is None:
            return self._lost(source), [], self._heard(source, why, offer.notes)
        return self._changed(source, texts), self._removed(source, _wanted(texts)), self._heard(source, "", offer.notes)

    def _heard(self, source: str, why: str, notes: tuple[str, ...]) -> SourceStatus | None:
        count = sum(1 for entry in self.entries.values() if entry.source == source)
        status = SourceStatus(name=source, lost=why, notes=notes, texts=count)
        before, self._sources[source] = self._sources.get(source), status
        said = (before.lost, before.notes) if before is not None else ("", ())
        return None if said == (why, notes) else status

    def _lost(self, source: str) -> list[Job]:
        """What is on disk of a source that cannot be read from the start."""
        found = [] if self._has(source) else self._kept(source)
        return [self._job(self._entry(record.source, record.key, text_of(record, self._rights)), record) for record in found]

    def _changed(self, source: str, texts: Mapping[str, PolicyText]) -> list[Job]:
        by_name = {text.name: text.content for text in texts.values()}
        shared = TextSet(texts=by_name, imports=self.supplies[source].source.imports)
        jobs = []
        for key, text in _wanted(texts).items():
            entry = self.entries.get((source, key))
            if entry is None:
                entry = self._entry(source, key, text)
            elif not _differs(entry, text, by_name):
                entry.text = text  # another mode or generation asks for no building
                continue
            entry.text = text
            jobs.append(Job(entry=entry, text=text, texts=shared, params=self.supplies[source].params))
        return jobs

    def _entry(self, source: str, key: str, text: PolicyText) -> Entry:
        stored = latest(self._stored.pop((source, key), None), _remembered(source, key, text))
        entry = self.entries[source, key] = Entry(source=source, key=key, place=(self._order[source], key), text=text, stored=stored)
        return entry

    def _job(self, entry: Entry, record: Record) -> Job:
        """The job to build what is on disk of an entry, as the policy of whom its source says it is."""
        supply = self.supplies[entry.source]
        text = replace(text_of(record, self._rights), authority=entry.text.authority)
        return Job(entry=entry, text=text, texts=TextSet(texts=record.texts, imports=supply.source.imports), params=supply.params)

    def fallback(self, entry: Entry) -> Job | None:
        """The job to build what is on disk of an entry of which nothing holds; None if nothing is."""
        return None if entry.stored is None or entry.held is not None else self._job(entry, entry.stored)

    def _removed(self, source: str, texts: Mapping[str, PolicyText]) -> list[Entry]:
        gone = [entry for entry in self if entry.source == source and entry.key not in texts]
        for entry in gone:
            del self.entries[entry.source, entry.key]
        for place in [place for place in self._stored if place[0] == source]:
            record = self._stored.pop(place)  # removed while nobody was running
            text = text_of(record, self._rights)
            gone.append(Entry(source=source, key=record.key, place=(self._order[source], record.key), text=text, stored=record))
        return gone

    def _has(self, source: str) -> bool:
        return any(entry.source == source for entry in self.entries.values())

    def _kept(self, source: str) -> list[Record]:
        return [record for record in self._stored.values() if record.source == source]


def _remembered(source: str, key: str, text: PolicyText) -> Record | None:
    """The record of what a place itself remembers of a policy."""
    former = text.former
    if former is None:
        return None
    return Record(
        source=source,
        key=key,
        name=text.name,
        texts={text.name: former.content},
        mode=text.mode.value,
        params=former.params,
        generation=former.generation,
        since=former.since,
        namespace=text.authority.namespace,
    )


def text_of(record: Record, rights: TenantRights) -> PolicyText:
    """The text that a record was made of, as its source would offer it."""
    return PolicyText(
        name=record.name,
        content=record.texts[record.name],
        mode=Mode(record.mode),
        params=record.params,
        generation=record.generation,
        authority=rights.of(record.namespace),
    )


def _wanted(texts: Mapping[str, PolicyText]) -> dict[str, PolicyText]:
    return {key: text for key, text in texts.items() if text.wanted}


def _differs(entry: Entry, text: PolicyText, by_name: Mapping[str, bytes]) -> bool:
    old = entry.text
    said = [(each.name, each.params, each.trouble, each.authority) for each in (old, text)]
    return said[0] != said[1] or entry.stale(by_name)
