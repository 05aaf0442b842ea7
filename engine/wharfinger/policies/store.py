"""The policy store: what sources offer becomes the set of policies that decides.

Texts are built in a thread, only those that have changed; the finished set is handed over on the event loop in one step. While a set is
being built the former one decides, and what is offered meanwhile waits for its turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from operator import methodcaller
from typing import TYPE_CHECKING

from wharfinger.event_loop import BuildThread, free_one_by_one
from wharfinger.framework.policy_status import Finding, Mode, PolicyObserver, PolicyStatus, PolicyText, SilentPolicyObserver, SourceStatus
from wharfinger.policies.active import ActivePolicies, Choice, Claim, activated, choose
from wharfinger.policies.candidate import Outcome, build, tried
from wharfinger.policies.ledger import Job, Ledger, Offer, Records, Supply

if TYPE_CHECKING:
    from wharfinger.compiler.program import CompiledPolicy
    from wharfinger.framework.chain import Chain
    from wharfinger.framework.ports import Clock
    from wharfinger.language.authority import TenantRights
    from wharfinger.policies.candidate import Sample
    from wharfinger.policies.last_known_good import LastKnownGood
    from wharfinger.policies.ledger import Entry

SETTLE = 0.05
"""Seconds to wait after an offer for others, so that changes made together are adopted together."""

REVIEW = 15.0
"""Seconds between two looks at how policies fare on the cluster."""

MOST_REVIEWED = 20
"""Policies that are tried at each look: a tenth of a second in a thread."""


class PolicyStore:
    """A `PolicySink` for the sources of its supplies. `chains` are those without policies, by profile.

    `failed` is told of what should not have happened. `heard` is set once something is known of every source: before that nobody should
    decide. `adopt` is told of every new set, on the event loop; `sample` gives a part of the live cluster to try policies on, None as long
    as there is none. `beside` is where policies are built; `rights` are those of namespaces.
    """

    def __init__(  # noqa: PLR0913 — what policies are made of, and who is told
        self,
        supplies: Sequence[Supply],
        chains: Mapping[str, Chain],
        clock: Clock,
        *,
        observer: PolicyObserver | None = None,
        kept: LastKnownGood | None = None,
        rights: TenantRights | None = None,
    ) -> None:
        self._records = Records(kept)
        self._ledger = Ledger(supplies, self._records.loaded, rights)
        self._clock = clock
        self._observers = [observer or SilentPolicyObserver()]
        self._pending: dict[str, Offer] = {}
        self._offered = asyncio.Event()
        self._settled = asyncio.Lock()
        self._meanwhile: tuple[PolicyStatus, ...] | None = None
        self._unsaid: list[Callable[[PolicyObserver], None]] | None = None
        self.beside = BuildThread(clock)
        self.heard = asyncio.Event()
        self.active = ActivePolicies(chains=dict(chains), shadows={profile: {} for profile in chains})
        self.adopt: Callable[[ActivePolicies], None] = lambda _active: None
        self.sample: Callable[[], Sample | None] = lambda: None
        self.failed: Callable[[str, BaseException], None] = _raised
        self.suspended: Callable[[], Mapping[tuple[str, str], object]] = dict
        self.reloads = 0
        self._reviewed = 0
        if not self.unheard:
            self.heard.set()

    def observe(self, observer: PolicyObserver) -> None:
        """None; this observer is told too, from now on."""
        self._observers.append(observer)

    @contextmanager
    def untold(self) -> Iterator[None]:
        """Observers are told at the end what happens inside, and nothing if it ends in an error."""
        unsaid: list[Callable[[PolicyObserver], None]] = []
        self._unsaid = unsaid
        try:
            yield
        finally:
            self._unsaid = None
        for tell in unsaid:
            self._say(tell)

    def _say(self, tell: Callable[[PolicyObserver], None]) -> None:
        """Tells every observer something, now or when they may be told."""
        if self._unsaid is not None:
            self._unsaid.append(tell)
            return
        for observer in self._observers:
            tell(observer)

    # ── what sources say ──

    def offer(self, source: str, texts: Mapping[str, PolicyText], *, notes: tuple[str, ...] = ()) -> None:
        """None, at once; these are all the texts of a source, to be built soon."""
        self._pending[source] = Offer(texts=dict(texts), notes=notes)
        self._offered.set()

    def lose(self, source: str, why: str) -> None:
        """None, at once; the source cannot be read, and what it had stays."""
        self._pending[source] = Offer(texts=None, why=why)
        self._offered.set()

    async def run(self) -> None:
        """None, when cancelled: listens to all sources and keeps the set up to date."""
        async with asyncio.TaskGroup() as group:
            for supply in self._ledger.supplies.values():
                group.create_task(supply.source.run(self), name=f"policies of {supply.source.name}")
            while True:
                await self._offered.wait()
                await self._clock.sleep(SETTLE)
                await self._settle_safely()

    async def _settle_safely(self) -> None:
        """None; whatever goes wrong with new policies, those that hold go on, and so does everybody else."""
        try:
            await self.settle()
        except Exception as error:  # noqa: BLE001 — as it says
            self.failed("policies", error)

    # ── what there is ──

    @property
    def statuses(self) -> tuple[PolicyStatus, ...]:
        """Every policy, in the order of sources and keys; while texts are being built, as it was before them."""
        known = self._last_known() if self._meanwhile is None else self._meanwhile
        suspended = self.suspended()
        return tuple(_as_of_now(status, suspended) for status in known) if suspended else known

    def _last_known(self) -> tuple[PolicyStatus, ...]:
        return tuple(entry.status for entry in self._ledger if entry.is_policy)

    def suspension_changed(self, policy: str, revision: str) -> None:
        """None; the policy of that name and revision is suspended from now on, or is not any more."""
        for status in self.statuses:
            if (status.name, status.revision) == (policy, revision) and status.mode is Mode.ENFORCE:
                self._say(methodcaller("policy_suspended", status))

    @property
    def sources(self) -> tuple[SourceStatus, ...]:
        """The sources that have said something, in order."""
        return self._ledger.sources

    @property
    def unheard(self) -> frozenset[str]:
        """Sources of which nothing is known yet; nobody should decide without them."""
        return self._ledger.unheard

    @property
    def troubles(self) -> Sequence[str]:
        """What went wrong with the files that outlast a restart."""
        return self._records.troubles

    # ── building and adopting ──

    async def settle(self) -> None:
        """None, once everything offered so far has been built and what holds of it has been adopted."""
        async with self._settled:
            while self._pending:
                self._offered.clear()
                self._meanwhile = self._last_known()
                try:
                    await self._reload()
                finally:
                    self._meanwhile = None

    async def keep_reviewing(self) -> None:
        """Never returns: tries the policies that hold on the cluster as it is, every so often."""
        while True:
            await self._clock.sleep(REVIEW)
            try:
                await self.review(MOST_REVIEWED)
            except Exception as error:  # noqa: BLE001 — what policies are told about themselves must not end the process
                self.failed("policies", error)

    async def review(self, most: int | None = None) -> None:
        """None, once policies that hold have been tried on the cluster as it is: all, or of many the `most` whose turn it is."""
        async with self._settled:
            sample = self.sample()
            entries = [entry for entry in self._ledger if entry.held is not None]
            if sample is None or not entries:
                return
            if most is not None and len(entries) > most:
                first = self._reviewed % len(entries)
                entries = [*entries[first:], *entries[:first]][:most]
                self._reviewed = first + most
            found = await self.beside.run(_tried, [(entry.held.policy, entry.text.name) for entry in entries if entry.held], sample)
            for entry, findings in zip(entries, found, strict=True):
                warnings = entry.reviewed(findings)
                if warnings:
                    self._say(methodcaller("policy_reviewed", entry.status, warnings))

    async def _reload(self) -> None:
        began = self._clock.monotonic()
        pending, self._pending = self._pending, {}
        jobs: list[Job] = []
        removed: list[Entry] = []
        for source, offer in pending.items():
            more, gone, said = self._ledger.take(source, offer)
            jobs += more
            removed += gone
            if said is not None:
                self._say(methodcaller("source_changed", said))
        sample = self.sample() if jobs else None
        outcomes = await self.beside.run(_built, jobs, sample)
        self._take(zip(jobs, outcomes, strict=True), removed)
        await self._restore(job.entry for job in jobs)
        await self._choose(removed)
        self.reloads += 1
        if not self.unheard:
            self.heard.set()
        seconds = self._clock.monotonic() - began
        self._say(methodcaller("policies_hold", self.statuses, seconds))

    def _take(self, built: Iterable[tuple[Job, Outcome]], removed: Sequence[Entry]) -> None:
        now = self._clock.now()
        leaving = {entry.held.policy.name: entry for entry in removed if entry.held is not None}
        for job, outcome in built:
            entry = job.entry
            if entry.held is None and outcome.version is None and outcome.title in leaving:  # the file was renamed, and broken
                former = leaving.pop(outcome.title)
                entry.held, entry.since = former.held, former.since
            entry.took(outcome, now)

    async def _restore(self, entries: Iterable[Entry]) -> None:
        """Build from disk what was accepted before the process began, where nothing better is at hand."""
        jobs = [job for entry in entries if entry.candidate is None and (job := self._ledger.fallback(entry)) is not None]
        outcomes = await self.beside.run(_built, jobs, None)
        for job, outcome in zip(jobs, outcomes, strict=True):
            job.entry.candidate = outcome.version
            if job.entry.stored is not None:
                job.entry.since = job.entry.stored.since

    async def _choose(self, removed: Sequence[Entry]) -> None:
        entries = [entry for entry in self._ledger if entry.candidate is not None]
        claims = [self._claim(entry) for entry in entries]
        choices, active = await self.beside.run(_chosen, self.active, claims)
        former: list[object] = [*(claim.held for claim in claims), *(entry.held for entry in entries), self.active]
        del claims
        if active.revision != self.active.revision:
            self.active = active
            self.adopt(active)
        self._hold(entries, choices)
        self._tell(removed)
        await self.beside.unhurried(self._records.write, list(self._ledger), removed)
        await self.beside.unhurried(free_one_by_one, former)

    def _claim(self, entry: Entry) -> Claim:
        assert entry.candidate is not None  # noqa: S101 — asked by the caller
        return Claim(
            place=entry.place,
            mode=entry.mode,
            profiles=self._ledger.supplies[entry.source].profiles,
            candidate=entry.candidate.policy,
            held=None if entry.held is None else entry.held.policy,
            since=entry.stored.since if entry.stored is not None else entry.since or 0.0,
        )

    def _hold(self, entries: Sequence[Entry], choices: Sequence[Choice]) -> None:
        now = self._clock.now()
        for entry, choice in zip(entries, choices, strict=True):
            entry.hold(choice, now)
        for entry in self._ledger:
            if entry.candidate is None:
                entry.held = None
        self._meanwhile = None  # what was found in the texts and what holds belong together again

    def _tell(self, removed: Sequence[Entry]) -> None:
        tried = [entry for entry in self._ledger if entry.newly and entry.is_policy]
        changed = [entry for entry in self._ledger if entry.is_policy and entry.fares_otherwise() and not entry.newly]
        for entry in removed:
            self._say(methodcaller("policy_removed", entry.status))
        for entry in tried:
            self._say(methodcaller("policy_tried", entry.status))
        for entry in changed:
            self._say(methodcaller("policy_changed", entry.status))
        for entry in self._ledger:
            entry.newly = False


def _as_of_now(status: PolicyStatus, suspended: Mapping[tuple[str, str], object]) -> PolicyStatus:
    """The status of a policy, with a finding if it is suspended: by name and revision, why."""
    why = suspended.get((status.name or "", status.revision or ""))
    if why is None or status.mode is not Mode.ENFORCE:
        return status
    found = Finding(severity="warning", code="budget", message=str(why))
    return replace(status, suspended=str(why), findings=(*status.findings, found), report=f"{status.report}warning: {found}\n")


def _raised(_where: str, error: BaseException) -> None:
    raise error


def _built(jobs: Sequence[Job], sample: Sample | None) -> list[Outcome]:
    return [build(job.text, job.texts, job.params, sample) for job in jobs]


def _tried(policies: Sequence[tuple[CompiledPolicy, str]], sample: Sample) -> list[list[Finding]]:
    return [tried(policy, sample, name) for policy, name in policies]


def _chosen(before: ActivePolicies, claims: Sequence[Claim]) -> tuple[list[Choice], ActivePolicies]:
    choices = choose(claims)
    active = activated(before, claims, choices)
    _ = active.revision  # worked out here, where nobody waits for it
    return choices, active
