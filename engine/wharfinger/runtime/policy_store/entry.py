"""One text of one source, with everything that is known about it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from wharfinger.framework.policy_status import Finding, FormerText, Mode, PolicyStatus, PolicyText, Result
from wharfinger.runtime.policy_store.candidate import Outcome, Version, digest
from wharfinger.runtime.policy_store.choosing import Choice
from wharfinger.runtime.policy_store.last_known_good import Record

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
