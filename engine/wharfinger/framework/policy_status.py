"""Policies as the outside sees them: where their texts come from, and how each one fares.

Status of resources, pages, events, metrics and logs all show the values below, so they never disagree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from wharfinger.language.semantics.authority import CLUSTER, Authority
from wharfinger.model.objects.metadata import time_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wharfinger.framework.ports import Reference


class Mode(Enum):
    """What a policy may do: decide, be evaluated beside those that decide without affecting them, or nothing."""

    ENFORCE = "Enforce"
    SHADOW = "Shadow"
    OFF = "Off"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerText:
    """What a place remembers of the last version of a policy that held: enough to make it again. `since` is seconds since 1970."""

    content: bytes
    params: Mapping[str, Any] = field(default_factory=dict)
    generation: int = 0
    since: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyText:
    """One file of a source, as unchecked bytes. `name` is its name in diagnostics; imports are relative to it.

    `params` are texts or plain values in base units, as in `compiler.params`. `generation` is that of a custom resource, 0 elsewhere.
    `about` is the object that holds the text and gets the events about it; None for a file. `trouble` says why there is no content.
    One that is not `wanted` is only there for others to import, or says under the key `NO-POLICIES` that having none is meant.
    `former` is for a process that has just begun, and knows no better.
    `authority` is whose policy it is: said by the source, never by the text, so it holds for former versions as well.
    """

    name: str
    content: bytes
    mode: Mode = Mode.ENFORCE
    params: Mapping[str, Any] = field(default_factory=dict)
    generation: int = 0
    about: Reference | None = None
    trouble: str = ""
    wanted: bool = True
    former: FormerText | None = None
    authority: Authority = CLUSTER


class PolicySink(Protocol):
    """Receives the texts of sources."""

    def offer(self, source: str, texts: Mapping[str, PolicyText], *, notes: tuple[str, ...] = ()) -> None:
        """Replaces the texts of a source: all of them by key, with warnings about the source. Returns at once.

        What was offered before and is not among them has been removed, unless the source is `lasting` and has nothing left at all, not
        even the key `NO-POLICIES`.
        """

    def lose(self, source: str, why: str) -> None:
        """Records that the source cannot be read at present. Its last texts stay. Returns at once."""


class PolicySource(Protocol):
    """Watches one place that policies are kept in."""

    @property
    def name(self) -> str:
        """What people call the place: a path, `configmap team-a/policies`, `schedulingpolicies`."""

    @property
    def lasting(self) -> bool:
        """True if having nothing at all means that the place has gone, rather than that its last policy was removed on purpose."""

    @property
    def imports(self) -> bool:
        """True if its texts may import each other; nothing else can be imported."""

    async def run(self, sink: PolicySink) -> None:
        """Gives the sink all texts and then every change, across failures, until cancelled."""


class Result(Enum):
    """The outcome of the last text of a policy.

    ACCEPTED: this very text holds. REFUSED: it has errors. Whatever was accepted before it goes on then.
    """

    ACCEPTED = "accepted"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """An error or warning about a text: `code` is that of a diagnostic, or `test`, `params`, `trial`, `set`.

    `line` and `column` count from 1; 0 where it is not about one place.
    """

    severity: str
    code: str
    message: str
    file: str = ""
    line: int = 0
    column: int = 0
    help: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{place}: {self.code}: {self.message}" if place else f"{self.code}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyStatus:
    """One policy: the version in force, and the outcome of its last text.

    `name` is None for a text that never was one. `revision` is that of the policy that holds in its `mode`, None if there is none; `since`
    is when it began to (seconds since 1970). `generation` and `attempted` belong to the last text, `held_generation` to the one that
    holds: they differ while an older one is kept; `held` makes it again, None if it imports something. `authority` is whose policy it is.
    `suspended` says why pods that it governs wait: it takes too long to decide; "" while it does not.

    `findings` are about the text and stand as long as it does: `omitted` are too many to list; `report` is them as text for people. `now`
    is what is remarkable about the policy on the cluster as it is at present, looked at again and again.
    """

    name: str | None
    source: str
    key: str
    mode: Mode
    result: Result
    revision: str | None
    version: str | None
    since: float | None
    attempted: float
    generation: int
    held_generation: int
    findings: tuple[Finding, ...] = ()
    omitted: int = 0
    report: str = ""
    about: Reference | None = None
    held: FormerText | None = None
    authority: Authority = CLUSTER
    suspended: str = ""
    now: tuple[Finding, ...] = ()

    @property
    def told(self) -> str:
        """The report, and what is remarkable at present."""
        return self.report + "".join(f"{finding.severity}: {finding}\n" for finding in self.now)

    @property
    def holds(self) -> bool:
        """True if some version of the policy decides, or is evaluated beside those that do."""
        return self.revision is not None

    @property
    def kept(self) -> bool:
        """True if what holds is a former version, because the last text was refused."""
        return self.holds and self.result is Result.REFUSED

    @property
    def state(self) -> str:
        """One word: `active`, `shadow`, `kept` (a former version holds), `refused` (none does) or `off`; before all of them `suspended`."""
        if self.suspended:
            return "suspended"
        if self.mode is Mode.OFF:
            return "off"
        if self.result is Result.REFUSED:
            return "kept" if self.holds else "refused"
        return "shadow" if self.mode is Mode.SHADOW else "active"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricStatus:
    """The present state of a metric of a policy.

    `fresh` of `nodes` nodes have a fresh sample, and `wanted` is the part of them that has to. `youngest` and `oldest` are ages of samples
    in seconds, None without one. `suspended_since` (seconds since 1970) is None for one that has its say. One that is not `asked` yet waits
    for its first answer. `failure` says why the last refresh brought nothing. `note` is what else people should know.
    """

    policy: str
    name: str
    asked: bool
    fresh: int = 0
    nodes: int = 0
    wanted: float = 0.0
    youngest: float | None = None
    oldest: float | None = None
    suspended_since: float | None = None
    failure: str = ""
    note: str = ""

    def __str__(self) -> str:
        return "; ".join(part for part in (self._fares(), self.failure, self.note) if part)

    def _fares(self) -> str:
        name = f"metric `{self.name}`"
        if not self.asked:
            return f"{name} waits for its first answer"
        ages = "" if self.youngest is None or self.oldest is None else f", samples are {self.youngest:.0f} s to {self.oldest:.0f} s old"
        said = f"{name} is fresh on {self.fresh} of {self.nodes} nodes{ages}"
        if self.suspended_since is None:
            return said
        return f"{said}: fewer than {100 * self.wanted:g} %, so rules that use it have no say since {time_text(self.suspended_since)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStatus:
    """One source of policies: why it cannot be read ("" if it can), and warnings about it."""

    name: str
    lost: str
    notes: tuple[str, ...]
    texts: int


class PolicyObserver:
    """Observer of policies, for metrics, logs and events; this one ignores everything. Must be quick and must not fail."""

    def policy_tried(self, status: PolicyStatus) -> None:
        """A new text was accepted or refused."""

    def policy_changed(self, status: PolicyStatus) -> None:
        """The state of an unchanged text changed: another policy was added or removed, or its mode changed."""

    def policy_reviewed(self, status: PolicyStatus, findings: Sequence[Finding]) -> None:
        """Takes in what was found when a policy that holds was tried on the cluster, and not before."""

    def policy_removed(self, status: PolicyStatus) -> None:
        """The policy was removed on purpose. `status` is its last one."""

    def policy_suspended(self, status: PolicyStatus) -> None:
        """The policy was suspended because it takes too long to decide, or is tried again."""

    def policies_hold(self, statuses: Sequence[PolicyStatus], seconds: float) -> None:
        """A reload has finished: these are all policies now, and the seconds it took."""

    def source_changed(self, status: SourceStatus) -> None:
        """The state of a source changed: lost, back, or other warnings."""
