"""What became of policies lately, for people: the last so many reloads, removals and lost sources."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from wharfinger.framework.policy_status import Finding, PolicyStatus, Result, SourceStatus

MOST = 100
LONGEST_REPORT = 4000
"""Letters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reload:
    """One thing that happened to a policy, or to a source. `what`: accepted, refused, warned, removed, lost, or read again."""

    at: float
    what: str
    source: str
    policy: str = ""
    key: str = ""
    mode: str = ""
    revision: str = ""
    kept: bool = False
    report: str = ""


class ReloadHistory:
    """A PolicyObserver that remembers, the newest last."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.reloads: deque[Reload] = deque(maxlen=MOST)

    def policy_tried(self, status: PolicyStatus) -> None:
        """None; a text was accepted or refused."""
        self._add(status, status.result.value, status.attempted)

    def policy_changed(self, status: PolicyStatus) -> None:
        """Remembers how a text that is not new fares now."""
        self._add(status, status.result.value, self._now())

    def policy_reviewed(self, status: PolicyStatus, findings: Sequence[Finding]) -> None:
        """Remembers what was found on the cluster."""
        self._add(replace(status, report="\n".join(map(str, findings))), "warned", self._now())

    def policy_removed(self, status: PolicyStatus) -> None:
        """Remembers that the policy was taken away; what was wrong with its last text is nobody's business any more."""
        self._add(replace(status, result=Result.ACCEPTED, report=""), "removed", self._now())

    def policy_suspended(self, status: PolicyStatus) -> None:
        """None; the policy was suspended, or is tried again."""
        self._add(status, "suspended" if status.suspended else "resumed", self._now())

    def policies_hold(self, statuses: Sequence[PolicyStatus], seconds: float) -> None:
        """None; what is new in the set was told one by one."""

    def source_changed(self, status: SourceStatus) -> None:
        """None; a source was lost, or can be read again."""
        what = "lost" if status.lost else "read again"
        self.reloads.append(Reload(at=self._now(), what=what, source=status.name, report=status.lost or "\n".join(status.notes)))

    def _add(self, status: PolicyStatus, what: str, at: float) -> None:
        self.reloads.append(
            Reload(
                at=at,
                what=what,
                source=status.source,
                policy=status.name or "",
                key=status.key,
                mode=status.mode.value,
                revision=status.revision or "",
                kept=status.kept,
                report=status.told[:LONGEST_REPORT],
            )
        )
