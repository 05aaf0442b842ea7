"""What every source of policies has offered, entry by entry: what holds of it, what is built anew, and its record on disk."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wharfinger.framework.policy_status import Finding, FormerText, Mode, PolicySource, PolicyStatus, PolicyText, Result, SourceStatus
from wharfinger.language.authority import TenantRights
from wharfinger.language.partner import NONE_MEANT
from wharfinger.language.text_set import TextSet
from wharfinger.policies.active import Choice
from wharfinger.policies.candidate import Outcome, Version, digest
from wharfinger.policies.last_known_good import LastKnownGood, Record, latest

_NUMBER = re.compile(r"\d+")


@dataclass(slots=True, kw_only=True, eq=False)
class Entry:
    """What a source offers under a key, and the version that holds meanwhile.

    `candidate` is the last version that was accepted by itself; `held` the one that decides since `since`, or the one that was restored
    from `stored`. They differ while `objection` says why the candidate cannot hold beside other policies. `told` is how the policy fared,
    and with which revision, when that was last told.
    """

    source: str
    key: str
    place: tuple[int, str]
    text: PolicyText
    outcome: Outcome | None = None
    candidate: Version | None = None
    held: Version | None = None
    since: float | None = None
    attempted: float = 0.0
    objection: str = ""
    stored: Record | None = None
    newly: bool = False
    now: tuple[Finding, ...] = ()
    told: tuple[str, str | None] | None = None

    @property
    def mode(self) -> Mode:
        """What the policy may do; said by the source, so it holds for former versions as well."""
        return self.text.mode

    def stale(self, texts: Mapping[str, bytes]) -> bool:
        """Whether anything that the outcome depends on has another content now."""
        if self.outcome is None:
            return True
        return any(digest(texts.get(name)) != known for name, known in self.outcome.needs.items())

    def took(self, outcome: Outcome, now: float) -> None:
        """None; this has come of the text."""
        self.outcome = outcome
        self.attempted = now
        self.newly = True
        self.now = outcome.now
        if outcome.version is not None:
            self.candidate = outcome.version
        else:
            self.candidate = None if outcome.silent or self._has_changed_hands else self.held

    @property
    def _has_changed_hands(self) -> bool:
        """Whether what holds was accepted as another's policy, which may have been allowed more."""
        return self.held is not None and self.held.policy.authority != self.text.authority

    def reviewed(self, findings: Sequence[Finding]) -> tuple[Finding, ...]:
        """What is new of this, which was found when what holds was tried on the cluster just now.

        It holds nevertheless: without it there would be fewer rules. What only counts otherwise is not new.
        """
        known = {_NUMBER.sub("#", finding.message) for finding in self.now}
        self.now = tuple(replace(finding, severity="warning") for finding in findings)
        return tuple(finding for finding in self.now if _NUMBER.sub("#", finding.message) not in known)

    def fares_otherwise(self) -> bool:
        """Whether the policy is in another state than was told last, or holds with another revision; from now on it is told."""
        status = self.status
        before, self.told = self.told, (status.state, status.revision)
        return before is not None and before != self.told

    def hold(self, choice: Choice, now: float) -> None:
        """None; this holds from now on, and is what `stored` was kept for."""
        before = None if self.held is None else self.held.policy
        self.objection = choice.objection
        if self.mode is Mode.OFF or (self.candidate is not None and choice.policy is self.candidate.policy):
            self.held = self.candidate
        elif choice.policy is None:
            self.held = None
        now_held = None if self.held is None else self.held.policy
        if now_held is not None and (before is None or before.revision != now_held.revision):
            self.since = self.stored.since if self.stored is not None and before is None else now
        self.stored = None if self.held is not None else self.stored

    @property
    def is_policy(self) -> bool:
        """Whether anybody wants to know of it as a policy."""
        return self.candidate is not None or self.held is not None or (self.outcome is not None and not self.outcome.silent)

    @property
    def accepted(self) -> bool:
        """Whether the last text holds, or would if its mode let it."""
        return self.outcome is not None and self.outcome.version is not None and not self.objection

    @property
    def status(self) -> PolicyStatus:
        """The entry as people are to see it."""
        held = None if self.mode is Mode.OFF else self.held
        outcome = self.outcome or Outcome(version=None)
        findings = outcome.findings
        report = outcome.report
        if self.objection:
            clash = Finding(severity="error", code="set", message=self.objection, file=self.text.name)
            findings = (clash, *findings)
            report = f"error: {clash}\n{report}"
        return PolicyStatus(
            name=held.policy.name if held is not None else self.candidate.policy.name if self.candidate is not None else outcome.title,
            source=self.source,
            key=self.key,
            mode=self.mode,
            result=Result.ACCEPTED if self.accepted else Result.REFUSED,
            revision=None if held is None else held.policy.revision,
            version=None if held is None else held.policy.version,
            since=None if held is None else self.since,
            attempted=self.attempted,
            generation=self.text.generation,
            held_generation=0 if held is None else held.text.generation,
            findings=findings,
            omitted=outcome.omitted,
            report=report,
            now=() if held is None else self.now,
            about=self.text.about,
            held=None if held is None else self._remembered(held),
            authority=self.text.authority,
        )

    def _remembered(self, held: Version) -> FormerText | None:
        if len(held.needed) > 1:
            return None
        return FormerText(content=held.text.content, params=held.text.params, generation=held.text.generation, since=self.since or 0.0)


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
