"""The texts that all sources of policies have offered: which are in force, which are built again, and their record on disk."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from operator import is_
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from wharfinger.errors import WharfingerError
from wharfinger.framework.policy_status import Finding, FormerText, Mode, PolicySource, PolicyStatus, PolicyText, Result, SourceStatus
from wharfinger.language.files import NO_POLICIES_MARKER
from wharfinger.language.load import TextSet
from wharfinger.language.semantics.authority import TenantRights
from wharfinger.policies.active import Activation
from wharfinger.policies.candidate import Outcome, Version, digest
from wharfinger.policies.last_known_good import LastKnownGood, Record, latest

_NUMBER = re.compile(r"\d+")


class Entry(Struct, eq=False, kw_only=True):
    """The text that a source offers under a key, and the version in force.

    `candidate` is the last version that was accepted by itself; `in_force` the one that decides since `since`, or the one that was restored
    from `stored`. They differ while the candidate conflicts with other policies; `conflict` is the reason. `announced` are state and
    revision as they were last announced.
    """

    source: str
    key: str
    place: tuple[int, str]
    text: PolicyText
    outcome: Outcome | None = None
    candidate: Version | None = None
    in_force: Version | None = None
    since: float | None = None
    attempted: float = 0.0
    conflict: str = ""
    stored: Record | None = None
    has_new_outcome: bool = False
    now: tuple[Finding, ...] = ()
    announced: tuple[str, str | None] | None = None
    made: tuple[tuple[object, ...], PolicyStatus] | None = None
    """The last status, and the values that it was made of."""

    @property
    def mode(self) -> Mode:
        """The mode of the policy; set by the source, so it applies to former versions as well."""
        return self.text.mode

    def stale(self, texts: Mapping[str, bytes]) -> bool:
        """True if anything that the outcome depends on has another content now."""
        if self.outcome is None:
            return True
        return any(digest(texts.get(name)) != known for name, known in self.outcome.needs.items())

    def take_outcome(self, outcome: Outcome, now: float) -> None:
        """Set the outcome of building the text."""
        self.outcome = outcome
        self.attempted = now
        self.has_new_outcome = True
        self.now = outcome.now
        if outcome.version is not None:
            self.candidate = outcome.version
        else:
            self.candidate = None if outcome.without_policy or self._has_other_authority else self.in_force

    @property
    def _has_other_authority(self) -> bool:
        """True if the version in force was accepted under another authority, which may have had more rights."""
        return self.in_force is not None and self.in_force.policy.authority != self.text.authority

    def reviewed(self, findings: Sequence[Finding]) -> tuple[Finding, ...]:
        """The findings that are new since the last trial of what holds, as warnings. A finding that differs in numbers alone is not new.

        The policy holds nevertheless: without it there would be fewer rules.
        """
        known = {_NUMBER.sub("#", finding.message) for finding in self.now}
        self.now = tuple(replace(finding, severity="warning") for finding in findings)
        return tuple(finding for finding in self.now if _NUMBER.sub("#", finding.message) not in known)

    def has_changed_state(self) -> bool:
        """True if state or revision are not those of the last call."""
        status = self.status
        before, self.announced = self.announced, (status.state, status.revision)
        return before is not None and before != self.announced

    def put_in_force(self, choice: Activation, now: float) -> None:
        """Set the version in force; `stored` is not needed any more."""
        before = None if self.in_force is None else self.in_force.policy
        self.conflict = choice.conflict
        if self.mode is Mode.OFF or (self.candidate is not None and choice.policy is self.candidate.policy):
            self.in_force = self.candidate
        elif choice.policy is None:
            self.in_force = None
        policy = None if self.in_force is None else self.in_force.policy
        if policy is not None and (before is None or before.revision != policy.revision):
            self.since = self.stored.since if self.stored is not None and before is None else now
        self.stored = None if self.in_force is not None else self.stored

    @property
    def is_policy(self) -> bool:
        """True if the entry is shown as a policy."""
        return self.candidate is not None or self.in_force is not None or (self.outcome is not None and not self.outcome.without_policy)

    @property
    def has_version(self) -> bool:
        """True if some version is in force, may be, or is on disk."""
        return self.candidate is not None or self.in_force is not None or self.stored is not None

    @property
    def accepted(self) -> bool:
        """True if the last text holds, or would hold if its mode were not off."""
        return self.outcome is not None and self.outcome.version is not None and not self.conflict

    @property
    def name(self) -> str | None:
        """The name of the policy: of the version that holds, or else of the last text; None if none could be read."""
        in_force = None if self.mode is Mode.OFF else self.in_force
        version = in_force or self.candidate
        if version is not None:
            return version.policy.name
        return None if self.outcome is None else self.outcome.title

    @property
    def status(self) -> PolicyStatus:
        """The shown status of the entry; the same value as long as nothing has changed, as thousands are read at each reload."""
        values = (self.text, self.outcome, self.candidate, self.in_force, self.since, self.attempted, self.conflict, self.now)
        if self.made is None or not all(map(is_, values, self.made[0])):
            self.made = values, self._status()
        return self.made[1]

    def _status(self) -> PolicyStatus:
        in_force = None if self.mode is Mode.OFF else self.in_force
        outcome = self.outcome or Outcome(version=None)
        findings = outcome.findings
        report = outcome.report
        if self.conflict:
            clash = Finding(severity="error", code="set", message=self.conflict, file=self.text.name)
            findings = (clash, *findings)
            report = f"error: {clash}\n{report}"
        return PolicyStatus(
            name=self.name,
            source=self.source,
            key=self.key,
            mode=self.mode,
            result=Result.ACCEPTED if self.accepted else Result.REFUSED,
            revision=None if in_force is None else in_force.policy.revision,
            version=None if in_force is None else in_force.policy.version,
            since=None if in_force is None else self.since,
            attempted=self.attempted,
            generation=self.text.generation,
            generation_in_force=0 if in_force is None else in_force.text.generation,
            findings=findings,
            omitted=outcome.omitted,
            report=report,
            now=() if in_force is None else self.now,
            about=self.text.about,
            text_in_force=None if in_force is None else self._former(in_force),
            authority=self.text.authority,
        )

    def _former(self, in_force: Version) -> FormerText | None:
        if len(in_force.needed) > 1:
            return None
        text = in_force.text
        return FormerText(content=text.content, params=text.params, generation=text.generation, since=self.since or 0.0)


class ConfiguredSource(Struct, frozen=True, kw_only=True):
    """A source, the profiles that its policies decide in, and values for their params."""

    source: PolicySource
    profiles: frozenset[str]
    params: Mapping[str, Any] = field(default_factory=dict)


class Offer(Struct, frozen=True, kw_only=True):
    """The last offer of a source: its texts, or None and why it cannot be read."""

    texts: Mapping[str, PolicyText] | None
    notes: tuple[str, ...] = ()
    why: str = ""


class Job(Struct, frozen=True, kw_only=True):
    """A text to be built, among the others of its source."""

    entry: Entry
    text: PolicyText
    texts: TextSet
    params: Mapping[str, Any]


EMPTY = f"there are no policies; if that is intended, add {NO_POLICIES_MARKER}"
EMPTIED = f"all policies were removed; the last ones stay in force until {NO_POLICIES_MARKER} is added"
REPLACED = f"every new text is refused; the former policies stay in force until one is accepted, or {NO_POLICIES_MARKER} is added"


class Ledger:
    """The entries of all configured sources; `rights` are those of namespaces whose policies are made again from records."""

    def __init__(self, configured: Sequence[ConfiguredSource], records: Sequence[Record] = (), rights: TenantRights | None = None) -> None:
        self.configured = {each.source.name: each for each in configured}
        self.entries: dict[tuple[str, str], Entry] = {}
        self._in_order: list[Entry] | None = None  # None: to be sorted again
        self._order = {name: index for index, name in enumerate(self.configured)}
        self._sources: dict[str, SourceStatus] = {}
        self._rights = rights or TenantRights()
        self._stored = {(record.source, record.key): record for record in records}

    def __iter__(self) -> Iterator[Entry]:
        if self._in_order is None:
            self._in_order = sorted(self.entries.values(), key=lambda entry: entry.place)
        return iter(self._in_order)

    def _add(self, entry: Entry) -> None:
        self.entries[entry.source, entry.key] = entry
        self._in_order = None

    @property
    def unknown_sources(self) -> frozenset[str]:
        """The sources that have offered nothing yet and have no record on disk.

        A source that may be empty is also known once it is lost.
        """
        return frozenset(
            name
            for name, each in self.configured.items()
            if name not in self._sources or (self._sources[name].lost and each.source.empty_is_lost and not self._has(name))
        )

    @property
    def sources(self) -> tuple[SourceStatus, ...]:
        """The sources that have offered texts or are lost, in order."""
        return tuple(self._sources[name] for name in self.configured if name in self._sources)

    def take(self, source: str, offer: Offer) -> tuple[list[Job], list[Entry], str]:
        """(what to build, the entries that were removed, why the source is lost; "" if it is not)."""
        texts = offer.texts
        why = offer.why
        if (
            texts is not None
            and not _wanted_texts(texts)
            and NO_POLICIES_MARKER not in texts
            and self.configured[source].source.empty_is_lost
        ):
            texts, why = None, EMPTIED if self._has(source) or self._kept(source) else EMPTY
        if texts is None:
            return self._lost(source), [], why
        return self._changed(source, texts), self._removed(source, _wanted_texts(texts)), ""

    def keep_replaced(self, source: str, offer: Offer, removed: Sequence[Entry]) -> list[Entry]:
        """The entries of a source that stay although their texts were removed: each text that it has instead is refused.

        So a folder that is replaced by another one with broken policies leaves no scheduler without policies. To be called once the texts
        are built.
        """
        if not self.configured[source].source.empty_is_lost or NO_POLICIES_MARKER in (offer.texts or ()):
            return []
        present = [entry for entry in self.entries.values() if entry.source == source]
        if any(entry.has_version for entry in present) or not any(entry.is_policy for entry in present):
            return []
        kept = [entry for entry in removed if entry.source == source and entry.has_version]
        for entry in kept:
            self._add(entry)
        return kept

    def set_source_status(self, source: str, why: str, notes: tuple[str, ...]) -> SourceStatus | None:
        """The status of a source after an offer, if it is shown otherwise than before. `why` it is lost, "" if it is not."""
        count = sum(1 for entry in self.entries.values() if entry.source == source)
        status = SourceStatus(name=source, lost=why, notes=notes, texts=count)
        before, self._sources[source] = self._sources.get(source), status
        shown = (before.lost, before.notes) if before is not None else ("", ())
        return None if shown == (why, notes) else status

    def _lost(self, source: str) -> list[Job]:
        """The jobs to build the texts on disk of a source that could never be read."""
        found = [] if self._has(source) else self._kept(source)
        return [self._job(self._entry(record.source, record.key, text_of(record, self._rights)), record) for record in found]

    def to_build(self, source: str, texts: Mapping[str, PolicyText]) -> list[str]:
        """The keys of the texts of a source that are new or not as they were built."""
        by_name = {text.name: text.content for text in texts.values()}
        known = ((key, text, self.entries.get((source, key))) for key, text in _wanted_texts(texts).items())
        return [key for key, text, entry in known if entry is None or _differs(entry, text, by_name)]

    def _changed(self, source: str, texts: Mapping[str, PolicyText]) -> list[Job]:
        origin = self.configured[source]
        shared = TextSet(texts={text.name: text.content for text in texts.values()}, imports=origin.source.imports)
        build = frozenset(self.to_build(source, texts))
        jobs = []
        for key, text in _wanted_texts(texts).items():
            entry = self.entries.get((source, key)) or self._entry(source, key, text)
            entry.text = text  # another mode or generation alone needs no compilation
            if key in build:
                jobs.append(Job(entry=entry, text=text, texts=shared, params=origin.params))
        return jobs

    def _entry(self, source: str, key: str, text: PolicyText) -> Entry:
        stored = latest(self._stored.pop((source, key), None), _kept_by_source(source, key, text))
        entry = Entry(source=source, key=key, place=(self._order[source], key), text=text, stored=stored)
        self._add(entry)
        return entry

    def _job(self, entry: Entry, record: Record) -> Job:
        """The job to build the text on disk of an entry, under the authority that its source gives it."""
        origin = self.configured[entry.source]
        text = replace(text_of(record, self._rights), authority=entry.text.authority)
        return Job(entry=entry, text=text, texts=TextSet(texts=record.texts, imports=origin.source.imports), params=origin.params)

    def fallback(self, entry: Entry) -> Job | None:
        """The job to build the text on disk of an entry without a version in force; None if no text is on disk."""
        return None if entry.stored is None or entry.in_force is not None else self._job(entry, entry.stored)

    def _removed(self, source: str, texts: Mapping[str, PolicyText]) -> list[Entry]:
        removed = [entry for entry in self if entry.source == source and entry.key not in texts]
        for entry in removed:
            del self.entries[entry.source, entry.key]
            self._in_order = None
        for place in [place for place in self._stored if place[0] == source]:
            record = self._stored.pop(place)  # removed while no process was running
            text = text_of(record, self._rights)
            removed.append(Entry(source=source, key=record.key, place=(self._order[source], record.key), text=text, stored=record))
        return removed

    def _has(self, source: str) -> bool:
        return any(entry.source == source for entry in self.entries.values())

    def _kept(self, source: str) -> list[Record]:
        return [record for record in self._stored.values() if record.source == source]


def _kept_by_source(source: str, key: str, text: PolicyText) -> Record | None:
    """The record of the former version that a source itself keeps, as in the status of a custom resource."""
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


def _wanted_texts(texts: Mapping[str, PolicyText]) -> dict[str, PolicyText]:
    return {key: text for key, text in texts.items() if text.wanted}


def _differs(entry: Entry, text: PolicyText, by_name: Mapping[str, bytes]) -> bool:
    old = entry.text
    if text is old and entry.outcome is not None and len(entry.outcome.needs) == 1:  # it imports nothing
        return False
    offers = [(each.name, each.params, each.trouble, each.authority) for each in (old, text)]
    return offers[0] != offers[1] or entry.stale(by_name)


class RecordNotWritten(WharfingerError):
    """The record of a policy cannot be written to disk, or not be removed from it; the text says which and why."""


class Records:
    """The records of the versions in force, kept up to date; without a folder nothing survives a restart.

    `loaded` are the records of the process before, `unreadable` a sentence for each that cannot be read. `is_behind` is true if a record
    could not be written or removed.
    """

    def __init__(self, kept: LastKnownGood | None) -> None:
        self._kept = kept
        self.unreadable: list[str] = []
        self.loaded: list[Record] = []
        self._written: dict[tuple[str, str], Record] = {}
        self._to_drop: dict[tuple[str, str], None] = {}
        self.is_behind = False
        if kept is not None:
            self.loaded, self.unreadable = kept.load()

    def write(self, entries: Sequence[Entry], removed: Sequence[Entry]) -> list[RecordNotWritten]:
        """Write what holds now, and what could not be written before; the errors."""
        if self._kept is None:
            return []
        self._to_drop |= dict.fromkeys((entry.source, entry.key) for entry in removed)
        errors = [error for place in list(self._to_drop) for error in self._drop(self._kept, place)]
        for entry in entries:
            record = record_of(entry)
            if record is not None and record != self._written.get(
                (entry.source, entry.key)
            ):  # None: the record on disk is still the last one
                errors += self._keep(self._kept, record)
        self.is_behind = bool(errors)
        return errors

    def _keep(self, kept: LastKnownGood, record: Record) -> list[RecordNotWritten]:
        try:
            kept.keep(record)
        except OSError as error:
            return [RecordNotWritten(f"{record.source}: {record.key} cannot be kept for a restart: {_not_written(kept, error)}")]
        self._written[record.source, record.key] = record
        return []

    def _drop(self, kept: LastKnownGood, place: tuple[str, str]) -> list[RecordNotWritten]:
        source, key = place
        self._written.pop(place, None)  # so that the record of an entry that has come back is written again
        try:
            kept.drop(source, key)
        except OSError as error:
            return [RecordNotWritten(f"{source}: {key} cannot be forgotten: {_not_written(kept, error)}")]
        del self._to_drop[place]
        return []


def _not_written(kept: LastKnownGood, error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"{kept.folder}: {reason}; it is tried again until the folder has free space and may be written"


def record_of(entry: Entry) -> Record | None:
    """The record from which the version in effect of an entry can be built again; None if no version holds."""
    in_force = entry.in_force
    if in_force is None:
        return None
    return Record(
        source=entry.source,
        key=entry.key,
        name=in_force.text.name,
        texts=in_force.needed,
        mode=entry.mode.value,
        params=in_force.text.params,
        generation=in_force.text.generation,
        since=entry.since or 0.0,
        namespace=in_force.text.authority.namespace,
    )
