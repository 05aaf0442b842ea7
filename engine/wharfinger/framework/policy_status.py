"""Policies as their sources offer them and as people see them: policy texts, and the status of each policy.

The status of custom resources, web pages, events, metrics and logs all show the values below, so they never disagree.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field

from wharfinger.language.semantics.authority import CLUSTER, Authority
from wharfinger.model.objects.metadata import time_text

if TYPE_CHECKING:
    from wharfinger.framework.ports import Reference


class Mode(Enum):
    """The mode of a policy: it decides (Enforce), is evaluated without effect on decisions (Shadow), or is not evaluated (Off)."""

    ENFORCE = "Enforce"
    SHADOW = "Shadow"
    OFF = "Off"


class FormerText(Struct, frozen=True, kw_only=True):
    """The last version of a policy that was in force, as its source kept it; enough to compile it again.

    `since` is the time at which it came into force, in seconds since 1970.
    """

    content: bytes
    params: Mapping[str, Any] = field(default_factory=dict)
    generation: int = 0
    since: float = 0.0


class PolicyText(Struct, frozen=True, kw_only=True):
    """One file of a source, as unchecked bytes. `name` is its name in diagnostics; imports are relative to it.

    `params` are texts or plain values in base units, as for `compile_policy`. `generation` is that of a custom resource, 0 for other
    sources. `about` is the object that contains the text and gets the events about it; None for a file. `trouble` is the reason if there is
    no content. A text that is not `wanted` only serves imports of others, or states with the key `NO-POLICIES` that the source is empty on
    purpose. `former` is the last version in force, for a process that has just started. `authority` is the owner of the policy. The source
    sets it, never the text, so it applies to former versions too.
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
        """Replace the texts of a source: all of them by key, with warnings about the source. Returns at once.

        Texts that were offered before and are missing now have been removed. If `empty_is_lost` is true of the source and `texts` is empty
        (also without the key `NO-POLICIES`), the source counts as lost instead.
        """

    def mark_unreadable(self, source: str, why: str) -> None:
        """Record that the source cannot be read at present. Its last texts stay. Returns at once."""


class PolicySource(Protocol):
    """Watches one source of policies."""

    @property
    def name(self) -> str:
        """The name of the source in messages: a path, `configmap team-a/policies`, `schedulingpolicies`."""

    @property
    def empty_is_lost(self) -> bool:
        """True if an empty source counts as lost. Otherwise its last policy was removed deliberately."""

    @property
    def imports(self) -> bool:
        """True if its texts may import each other; nothing else can be imported."""

    async def run(self, sink: PolicySink) -> None:
        """Give the sink all texts and then every change, across failures, until cancelled."""


class Result(Enum):
    """The outcome of the last text of a policy.

    ACCEPTED: this text is in force. REFUSED: it has errors; the version accepted before it, if any, stays in force.
    """

    ACCEPTED = "accepted"
    REFUSED = "refused"


class Finding(Struct, frozen=True, kw_only=True):
    """An error or warning about a text: `code` is that of a diagnostic, or `test`, `params`, `trial`, `set`.

    `line` and `column` count from 1; 0 if it is not about one place.
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


class PolicyStatus(Struct, frozen=True, kw_only=True):
    """One policy: the version in force, and the outcome of its last text.

    `name` is None for a text that never compiled to a policy. `revision` is that of the version in force in its `mode`, None if there is
    none; `since` is when it came into force (seconds since 1970). `generation` and `attempted` belong to the last text,
    `generation_in_force` to the version in force: they differ while an older version is kept. `text_in_force` is enough to compile that
    version again, None if it imports something. `authority` is the owner of the policy. `suspended` is the reason why pods that it governs
    wait: the policy takes too long to decide; "" if it is not suspended.

    `findings` are about the text and stay as long as the text does; `omitted` is the number of findings that are not listed; `report` is
    the findings as text for people. `now` are findings about the policy on the present cluster, checked periodically.
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
    generation_in_force: int
    findings: tuple[Finding, ...] = ()
    omitted: int = 0
    report: str = ""
    about: Reference | None = None
    text_in_force: FormerText | None = None
    authority: Authority = CLUSTER
    suspended: str = ""
    now: tuple[Finding, ...] = ()

    @property
    def full_report(self) -> str:
        """The report with the findings about the present cluster."""
        return self.report + "".join(f"{finding.severity}: {finding}\n" for finding in self.now)

    @property
    def is_in_force(self) -> bool:
        """True if some version of the policy is in force, in mode Enforce or Shadow."""
        return self.revision is not None

    @property
    def kept(self) -> bool:
        """True if a former version is in force, because the last text was refused."""
        return self.is_in_force and self.result is Result.REFUSED

    @property
    def state(self) -> str:
        """One word: `active`, `shadow`, `kept` (a former version is in force), `refused` (none is), `off`; `suspended` wins over these."""
        if self.suspended:
            return "suspended"
        if self.mode is Mode.OFF:
            return "off"
        if self.result is Result.REFUSED:
            return "kept" if self.is_in_force else "refused"
        return "shadow" if self.mode is Mode.SHADOW else "active"


class MetricStatus(Struct, frozen=True, kw_only=True):
    """The present state of a metric of a policy.

    `fresh` of `nodes` nodes have a fresh sample; `wanted` is the required fraction of nodes. `youngest` and `oldest` are ages of samples in
    seconds, None without samples. `suspended_since` (seconds since 1970) is None while rules may use the metric. `asked` is False until the
    first response has arrived. `failure` is the reason if the last refresh failed. `note` is other information for people.
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
        return "; ".join(part for part in (self._state_text(), self.failure, self.note) if part)

    def _state_text(self) -> str:
        name = f"metric `{self.name}`"
        if not self.asked:
            return f"{name} waits for its first answer"
        sentence = f"{name} is fresh on {self.fresh} of {self.nodes} nodes{self._ages_text()}"
        if self.suspended_since is None:
            return sentence
        return f"{sentence}: fewer than {100 * self.wanted:g} %, so rules that use it are suspended since {time_text(self.suspended_since)}"

    def _ages_text(self) -> str:
        if self.youngest is None or self.oldest is None:
            return ""
        youngest, oldest = f"{self.youngest:.0f} s", f"{self.oldest:.0f} s"
        return f", samples are {youngest if youngest == oldest else f'{youngest} to {oldest}'} old"


class SourceStatus(Struct, frozen=True, kw_only=True):
    """One source of policies: why it cannot be read ("" if it can), and warnings about it."""

    name: str
    lost: str
    notes: tuple[str, ...]
    texts: int


def worst_first(
    statuses: Sequence[PolicyStatus], metrics: Sequence[MetricStatus] = (), failing_shadows: Collection[str] = ()
) -> list[PolicyStatus]:
    """The policies in the order of every list of them: refused texts, suspended policies, shadows with a problem, other problems, the rest.

    A shadow has a problem if it is in `failing_shadows` (names), or if what follows is true of it. Other problems are findings, and metrics
    that are suspended or whose refresh failed. Policies alike keep their order.
    """
    troubled = {metric.policy for metric in metrics if metric.suspended_since is not None or metric.failure}

    def rank(status: PolicyStatus) -> int:
        if status.mode is Mode.OFF:
            return 6
        if status.result is Result.REFUSED:
            return 1 if status.is_in_force else 0
        if status.suspended:
            return 2
        problem = bool(status.findings or status.now or status.omitted) or status.name in troubled
        if status.mode is Mode.SHADOW and (problem or status.name in failing_shadows):
            return 3
        return 4 if problem else 5

    return sorted(statuses, key=rank)
