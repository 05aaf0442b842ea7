"""The policy store: makes the set of policies that decides from the texts that sources offer.

Texts that have changed are built in a thread. The finished set is adopted on the event loop in one step; until then, the former set
decides. Texts that are offered while a set is being built wait for the next one. Each namespace has its own turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct
from msgspec.structs import replace

from wharfinger.emit import Emit, Failed, ignore
from wharfinger.event_loop import BuildThread, free_one_by_one, until
from wharfinger.framework.policy_status import Finding, Mode, PolicyStatus, PolicyText, SourceStatus
from wharfinger.policies.active import Activation, ActivationRequest, ActivePolicies, activated, choose
from wharfinger.policies.candidate import Outcome, build, trial_findings
from wharfinger.policies.ledger import REPLACED, ConfiguredSource, Job, Ledger, Offer, Records
from wharfinger.policies.namespace_turns import NamespaceTurns

if TYPE_CHECKING:
    from wharfinger.compiler.program import CompiledPolicy
    from wharfinger.framework.chain import Chain
    from wharfinger.framework.ports import Clock
    from wharfinger.language.semantics.authority import TenantRights
    from wharfinger.policies.candidate import Sample
    from wharfinger.policies.last_known_good import LastKnownGood
    from wharfinger.policies.ledger import Entry

BATCH_SECONDS = 0.05
"""Seconds to wait after an offer for others, so that changes made together are adopted together."""

PAUSE_RATIO = 1.0
"""The pause after a reload when more was offered meanwhile, as a multiple of its duration: a reload looks at every policy, and an author
may write fifty times a second."""

MAX_PAUSE = 1.0
"""Seconds of such a pause, at most."""

RETRY_SECONDS = 15.0
"""Seconds after an unexpected error until what was offered is built again."""

REVIEW_SECONDS = 15.0
"""Seconds between two trials of the policies that hold, on the present cluster."""

MAX_REVIEWED = 20
"""Policies that are tried each time: a tenth of a second in a thread."""


class PolicyTried(Struct, frozen=True):
    """A new text was accepted or refused."""

    status: PolicyStatus


class PolicyChanged(Struct, frozen=True):
    """The state of an unchanged text changed: another policy was added or removed, or its mode changed."""

    status: PolicyStatus


class PolicyReviewed(Struct, frozen=True):
    """A policy in force was tried on the present cluster, with findings that are new."""

    status: PolicyStatus
    findings: Sequence[Finding]


class PolicyRemoved(Struct, frozen=True):
    """A policy was removed deliberately. `status` is its last one."""

    status: PolicyStatus


class PolicySuspended(Struct, frozen=True):
    """A policy was suspended because it takes too long to decide."""

    status: PolicyStatus


class PolicyResumed(Struct, frozen=True):
    """A policy that was suspended decides again."""

    status: PolicyStatus


class PoliciesReloaded(Struct, frozen=True):
    """A reload of policies has ended: `statuses` are all policies, `seconds` is its duration."""

    statuses: Sequence[PolicyStatus]
    seconds: float


class SourceChanged(Struct, frozen=True):
    """The state of a source changed: lost, back, or other warnings."""

    status: SourceStatus


class Scheduling(Protocol):
    """The interface of the scheduler that the store uses."""

    @property
    def suspended(self) -> Mapping[tuple[str, str], object]:
        """The policies that are suspended, and why, by name and revision."""

    def adopt(self, active: ActivePolicies) -> None:
        """Decide with these policies from now on; called on the event loop."""

    def sample(self) -> Sample | None:
        """A part of the live cluster to try policies on; None before the cluster is known."""


class _NoScheduling:
    """Used until a scheduler is connected: adopts nothing."""

    suspended: Mapping[tuple[str, str], object] = MappingProxyType({})

    def adopt(self, active: ActivePolicies) -> None:
        """Do nothing: `connect` passes on the set of that time."""

    def sample(self) -> Sample | None:
        """Return None: there is no cluster to try policies on."""


_NO_SCHEDULING = _NoScheduling()


class PolicyStore:
    """A `PolicySink` for the `configured` sources. `chains` are those without policies, by profile.

    `all_sources_known` is set once something is known of every source: nothing should be decided before. `build_thread` builds policies;
    `rights` are those of namespaces.
    """

    def __init__(  # noqa: PLR0913 — its collaborators and settings
        self,
        configured: Sequence[ConfiguredSource],
        chains: Mapping[str, Chain],
        clock: Clock,
        *,
        emit: Emit = ignore,
        kept: LastKnownGood | None = None,
        rights: TenantRights | None = None,
    ) -> None:
        self._records = Records(kept)
        self._ledger = Ledger(configured, self._records.loaded, rights)
        self._clock = clock
        self._emit_now = emit
        self._pending: dict[str, Offer] = {}
        self._offered = asyncio.Event()
        self._building = asyncio.Lock()
        self._statuses_before: dict[tuple[str, str], PolicyStatus] | None = None
        self._held_back: list[object] | None = None
        self._scheduling: Scheduling = _NO_SCHEDULING
        self._turns = NamespaceTurns()
        self.build_thread = BuildThread(clock)
        self.all_sources_known = asyncio.Event()
        self.active = ActivePolicies(chains=dict(chains), shadows={profile: {} for profile in chains})
        self.reloads = 0
        self._reviewed = 0
        if not self.unknown_sources:
            self.all_sources_known.set()

    def connect(self, scheduling: Scheduling) -> None:
        """Connect the scheduler that the policies decide in; called once, before `run`. It adopts the present set at once."""
        if self._scheduling is not _NO_SCHEDULING:
            raise RuntimeError("the policies of a store decide in one scheduler")
        self._scheduling = scheduling
        scheduling.adopt(self.active)

    @contextmanager
    def emit_later(self) -> Iterator[None]:
        """A context after which the events of what happened inside are emitted; they are not if it ends in an error."""
        held_back: list[object] = []
        self._held_back = held_back
        try:
            yield
        finally:
            self._held_back = None
        for event in held_back:
            self._emit(event)

    def _emit(self, event: object) -> None:
        """Emit an event, now or at the end of `emit_later`."""
        (self._emit_now if self._held_back is None else self._held_back.append)(event)

    # ── offers of sources ──

    def offer(self, source: str, texts: Mapping[str, PolicyText], *, notes: tuple[str, ...] = ()) -> None:
        """Take all the texts of a source, to be built soon; returns at once."""
        self._pending[source] = Offer(texts=dict(texts), notes=notes)
        self._offered.set()

    def mark_unreadable(self, source: str, why: str) -> None:
        """Mark a source as unreadable; its former texts stay. Returns at once."""
        self._pending[source] = Offer(texts=None, why=why)
        self._offered.set()

    async def run(self) -> None:
        """Run all sources and keep the set of policies up to date, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for each in self._ledger.configured.values():
                group.create_task(each.source.run(self), name=f"policies of {each.source.name}")
            while True:
                await self._offered.wait()
                await self._clock.sleep(BATCH_SECONDS)
                await self._build_safely()

    async def _build_safely(self) -> None:
        """Build the offered texts; an error is reported, and the policies in force stay.

        What was offered is built again with the next offer, or after a while: its source offers it only once.
        """
        try:
            await self.build_offers(PAUSE_RATIO)
        except Exception as error:  # noqa: BLE001 — whatever it is, it is reported
            self._emit(Failed("policies", error))
            await until(self._offered, self._clock, RETRY_SECONDS)
            self._offered.set()

    # ── status ──

    @property
    def statuses(self) -> tuple[PolicyStatus, ...]:
        """Every policy, in the order of sources and keys; while texts are being built, as it was before them."""
        known = self._statuses_now() if self._statuses_before is None else self._statuses_before
        suspended = self._scheduling.suspended
        return tuple(_as_of_now(status, suspended) for status in known.values())

    def status(self, source: str, key: str) -> PolicyStatus | None:
        """One of `statuses`, computed without the others; None if there is none."""
        if self._statuses_before is not None:
            known = self._statuses_before.get((source, key))
        else:
            entry = self._ledger.entries.get((source, key))
            known = entry.status if entry is not None and entry.is_policy else None
        return None if known is None else _as_of_now(known, self._scheduling.suspended)

    def named(self, name: str) -> list[PolicyStatus]:
        """The statuses of the policies with that name; reads no others."""
        if self._statuses_before is not None:
            known = [status for status in self._statuses_before.values() if status.name == name]
        else:
            known = [entry.status for entry in self._ledger if entry.name == name and entry.is_policy]
        return [_as_of_now(status, self._scheduling.suspended) for status in known]

    def _statuses_now(self) -> dict[tuple[str, str], PolicyStatus]:
        return {(entry.source, entry.key): entry.status for entry in self._ledger if entry.is_policy}

    def suspension_changed(self, policy: str, revision: str) -> None:
        """Emit that the policy of that name and revision is suspended, or is not any more."""
        for status in self.named(policy):
            if status.revision == revision and status.mode is Mode.ENFORCE:
                self._emit(PolicySuspended(status) if status.suspended else PolicyResumed(status))

    @property
    def sources(self) -> tuple[SourceStatus, ...]:
        """The sources that have offered texts or are lost, in order."""
        return self._ledger.sources

    @property
    def unknown_sources(self) -> frozenset[str]:
        """The sources that are not known yet; no pod should be placed without them."""
        return self._ledger.unknown_sources

    @property
    def record_errors(self) -> Sequence[str]:
        """A sentence for each file of a last known good version that could not be read at the start."""
        return self._records.unreadable

    # ── building and adopting ──

    async def build_offers(self, pause_ratio: float = 0.0) -> None:
        """Build everything offered so far, and adopt what holds of it.

        After each reload but the last, pause for `pause_ratio` times its duration, `MAX_PAUSE` at most.
        """
        async with self._building:
            while self._pending:
                began = self._clock.monotonic()
                await self._build_turn()
                if self._pending and pause_ratio:
                    await self._clock.sleep(min(MAX_PAUSE, pause_ratio * (self._clock.monotonic() - began)))

    async def _build_turn(self) -> None:
        self._offered.clear()
        self._statuses_before = self._statuses_now()
        pending, now = self._pending, self._pending
        self._pending = {}
        if self.all_sources_known.is_set():  # nothing is decided before, and everything is built together
            now, self._pending = self._turns.divided(pending, self._ledger)
        try:
            await self._reload(now)
        except Exception:
            self._pending = pending | self._pending
            raise
        finally:
            self._statuses_before = None

    async def keep_reviewing(self) -> None:
        """Try the policies that hold on the present cluster: all now, then some every `REVIEW_SECONDS`, until cancelled.

        Last known good versions that could not be written to disk are written again.
        """
        limit = None
        while True:
            try:
                await self.review(limit)
                if self._records.is_behind:
                    async with self._building:
                        await self._write_records()
            except Exception as error:  # noqa: BLE001 — warnings about policies must not end the process
                self._emit(Failed("policies", error))
            limit = MAX_REVIEWED
            await self._clock.sleep(REVIEW_SECONDS)

    async def review(self, limit: int | None = None) -> None:
        """Try policies that hold on the present cluster: all, or of many the next `limit` in turn."""
        async with self._building:
            sample = self._scheduling.sample()
            entries = [entry for entry in self._ledger if entry.in_force is not None]
            if sample is None or not entries:
                return
            if limit is not None and len(entries) > limit:
                first = self._reviewed % len(entries)
                entries = [*entries[first:], *entries[:first]][:limit]
                self._reviewed = first + limit
            found = await self.build_thread.run(
                _tried, [(entry.in_force.policy, entry.text.name) for entry in entries if entry.in_force], sample
            )
            for entry, findings in zip(entries, found, strict=True):
                warnings = entry.reviewed(findings)
                if warnings:
                    self._emit(PolicyReviewed(entry.status, warnings))

    async def _reload(self, pending: Mapping[str, Offer]) -> None:
        began = self._clock.monotonic()
        jobs: list[Job] = []
        removed: list[Entry] = []
        lost: dict[str, str] = {}
        for source, offer in pending.items():
            more, gone, lost[source] = self._ledger.take(source, offer)
            jobs += more
            removed += gone
        sample = self._scheduling.sample() if jobs else None
        outcomes = await self.build_thread.run(_built, jobs, sample)
        self._take(zip(jobs, outcomes, strict=True), removed)
        kept: set[Entry] = set()
        for source, offer in pending.items():
            stays = self._ledger.keep_replaced(source, offer, removed)
            kept.update(stays)
            status = self._ledger.set_source_status(source, REPLACED if stays else lost[source], offer.notes)
            if status is not None:
                self._emit(SourceChanged(status))
        await self._restore([*(job.entry for job in jobs), *kept])
        await self._choose([entry for entry in removed if entry not in kept])
        self.reloads += 1
        if not self.unknown_sources:
            self.all_sources_known.set()
        seconds = self._clock.monotonic() - began
        self._emit(PoliciesReloaded(self.statuses, seconds))

    def _take(self, built: Iterable[tuple[Job, Outcome]], removed: Sequence[Entry]) -> None:
        now = self._clock.now()
        leaving = {entry.in_force.policy.name: entry for entry in removed if entry.in_force is not None}
        for job, outcome in built:
            entry = job.entry
            if entry.in_force is None and outcome.version is None and outcome.title in leaving:  # the file was renamed, and broken
                former = leaving.pop(outcome.title)
                entry.in_force, entry.since = former.in_force, former.since
            entry.take_outcome(outcome, now)

    async def _restore(self, entries: Iterable[Entry]) -> None:
        """Build from disk what was accepted before the process began, where no other version is accepted."""
        jobs = [job for entry in entries if entry.candidate is None and (job := self._ledger.fallback(entry)) is not None]
        outcomes = await self.build_thread.run(_built, jobs, None)
        for job, outcome in zip(jobs, outcomes, strict=True):
            job.entry.candidate = outcome.version
            if job.entry.stored is not None:
                job.entry.since = job.entry.stored.since

    async def _choose(self, removed: Sequence[Entry]) -> None:
        entries = [entry for entry in self._ledger if entry.candidate is not None]
        claims = [self._claim(entry) for entry in entries]
        choices, active = await self.build_thread.run(_chosen, self.active, claims)
        former: list[object] = [*(claim.in_force for claim in claims), *(entry.in_force for entry in entries), self.active]
        del claims
        if active.revision != self.active.revision:
            self._scheduling.adopt(active)
            self.active = active
        self._adopt_choices(entries, choices)
        self._emit_changes(removed)
        await self._write_records(removed)
        await self.build_thread.run_without_rest(free_one_by_one, former)

    async def _write_records(self, removed: Sequence[Entry] = ()) -> None:
        for error in await self.build_thread.run_without_rest(self._records.write, list(self._ledger), removed):
            self._emit(Failed("policies", error))

    def _claim(self, entry: Entry) -> ActivationRequest:
        assert entry.candidate is not None  # noqa: S101 — asked by the caller
        return ActivationRequest(
            place=entry.place,
            mode=entry.mode,
            profiles=self._ledger.configured[entry.source].profiles,
            candidate=entry.candidate.policy,
            in_force=None if entry.in_force is None else entry.in_force.policy,
            since=entry.stored.since if entry.stored is not None else entry.since or 0.0,
        )

    def _adopt_choices(self, entries: Sequence[Entry], choices: Sequence[Activation]) -> None:
        now = self._clock.now()
        for entry, choice in zip(entries, choices, strict=True):
            entry.put_in_force(choice, now)
        for entry in self._ledger:
            if entry.candidate is None:
                entry.in_force = None
        self._statuses_before = None  # the findings and the versions in force agree again

    def _emit_changes(self, removed: Sequence[Entry]) -> None:
        tried = [entry for entry in self._ledger if entry.has_new_outcome and entry.is_policy]
        changed = [entry for entry in self._ledger if entry.is_policy and entry.has_changed_state() and not entry.has_new_outcome]
        for entry in removed:
            self._emit(PolicyRemoved(entry.status))
        for entry in tried:
            self._emit(PolicyTried(entry.status))
        for entry in changed:
            self._emit(PolicyChanged(entry.status))
        for entry in self._ledger:
            entry.has_new_outcome = False


def _as_of_now(status: PolicyStatus, suspended: Mapping[tuple[str, str], object]) -> PolicyStatus:
    """The status of a policy, with a finding if it is suspended: by name and revision, why."""
    why = suspended.get((status.name or "", status.revision or ""))
    if why is None or status.mode is not Mode.ENFORCE:
        return status
    found = Finding(severity="warning", code="budget", message=str(why))
    return replace(status, suspended=str(why), findings=(*status.findings, found), report=f"{status.report}warning: {found}\n")


def _built(jobs: Sequence[Job], sample: Sample | None) -> list[Outcome]:
    return [build(job.text, job.texts, job.params, sample) for job in jobs]


def _tried(policies: Sequence[tuple[CompiledPolicy, str]], sample: Sample) -> list[list[Finding]]:
    return [trial_findings(policy, sample, name) for policy, name in policies]


def _chosen(before: ActivePolicies, claims: Sequence[ActivationRequest]) -> tuple[list[Activation], ActivePolicies]:
    choices = choose(claims)
    active = activated(before, claims, choices)
    _ = active.revision  # computed here, in the thread
    return choices, active
