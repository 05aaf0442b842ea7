"""The status of a PolicyApp, as a pure function of what is asked for and what is there. `AppPhase` has the diagram of its phases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wharfinger.crd.fields import Condition
from wharfinger.crd.policy_app import MOST_DRIFTED, AppPhase, DriftedPod, PolicyAppSpec
from wharfinger.language.report.wording import count
from wharfinger.operator.conditions import condition, cut, ready

DEADLINE = "ProgressDeadlineExceeded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Governance:
    """True if the policy that an app asks for decides about its pods; None where it is not known."""

    policy: str | None = None
    governs: bool | None = None
    reason: str = "NoPolicy"
    message: str = "no policy is asked for"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The observed state of an app.

    `problem` is why what is asked for cannot be made (reason, sentence). `deployment` is the Deployment's metadata.generation and status,
    None while there is none. `waiting` says why a pod waits, as the scheduler put it. `drift` is None where it is not known.
    """

    problem: tuple[str, str] | None = None
    generation: int = 0
    deployment: Mapping[str, Any] | None = None
    waiting: str = ""
    governance: Governance = Governance()
    drift: Sequence[DriftedPod] | None = None
    drift_note: str = ""


def phase_of(spec: PolicyAppSpec, observed: Observed, *, before: str | None, spec_is_new: bool) -> AppPhase:
    """Where the app stands now, if it stood at `before`; `spec_is_new`: the spec has changed since."""
    if observed.problem is not None:
        return AppPhase.FAILED
    if observed.deployment is None:
        return AppPhase.PENDING
    status = observed.deployment
    if int(status.get("observedGeneration") or 0) < observed.generation:
        return AppPhase.PENDING if before is None else AppPhase.PROGRESSING
    if _complete(spec, status):
        return AppPhase.RUNNING
    lost = before in {AppPhase.RUNNING, AppPhase.DEGRADED} and not spec_is_new and _rolled_out(spec, status)
    return AppPhase.DEGRADED if lost or _stuck(status) else AppPhase.PROGRESSING


def status_of(spec: PolicyAppSpec, observed: Observed, phase: AppPhase) -> dict[str, Any]:
    """The status but for its conditions and times."""
    counts = observed.deployment or {}
    status: dict[str, Any] = {
        "phase": phase.value,
        "replicas": _count(counts, "replicas"),
        "readyReplicas": _count(counts, "readyReplicas"),
        "updatedReplicas": _count(counts, "updatedReplicas"),
    }
    if message := message_of(spec, observed, phase):
        status["message"] = cut(message, 4000)
    if observed.governance.policy:
        status["policy"] = observed.governance.policy
    if observed.drift is not None:
        status["drifted"] = len(observed.drift)
        status["drift"] = [pod.plain() for pod in observed.drift[:MOST_DRIFTED]]
    return status


def message_of(spec: PolicyAppSpec, observed: Observed, phase: AppPhase) -> str:
    """Why it stands there, for people; "" where there is nothing to say."""
    if observed.problem is not None:
        return observed.problem[1]
    if phase is AppPhase.RUNNING:
        return observed.drift_note
    ready = _count(observed.deployment or {}, "readyReplicas")
    if observed.deployment is None:
        governance = observed.governance
        return f"waits for its policy: {governance.message}" if governance.governs is False else "nothing of it is there yet"
    told = f"{ready} of {count(spec.replicas, 'pod')} {'is' if spec.replicas == 1 else 'are'} ready"
    return f"{told}; {observed.waiting}" if observed.waiting else told


def conditions_of(spec: PolicyAppSpec, observed: Observed, phase: AppPhase) -> list[Condition]:
    """The conditions of the app."""
    problem = observed.problem
    governance = observed.governance
    found = [
        _ready(spec, observed, phase),
        condition("Applied", problem is None, *(problem or ("Applied", "what is asked for has been written"))),
        condition("Governed", governance.governs, governance.reason, governance.message),
    ]
    if observed.drift is not None:
        note = observed.drift_note or ("pods stand where the policy would not put them" if observed.drift else "every pod satisfies it")
        found.append(condition("Drifted", bool(observed.drift), "PolicyViolated" if observed.drift else "PolicySatisfied", note))
    return found


def _ready(spec: PolicyAppSpec, observed: Observed, phase: AppPhase) -> Condition:
    """True if it runs; of one that does, the reason is what is wrong with where it runs."""
    governance = observed.governance
    if phase is AppPhase.RUNNING and governance.governs is False:
        return ready(True, governance.reason, governance.message)
    if phase is AppPhase.RUNNING and observed.drift:
        return ready(True, "Drifted", observed.drift_note)
    return ready(phase is AppPhase.RUNNING, phase.value, message_of(spec, observed, phase))


def _complete(spec: PolicyAppSpec, status: Mapping[str, Any]) -> bool:
    counts = [_count(status, name) for name in ("replicas", "readyReplicas", "updatedReplicas")]
    return all(count == spec.replicas for count in counts)


def _rolled_out(spec: PolicyAppSpec, status: Mapping[str, Any]) -> bool:
    """True if no pods of an earlier spec are left and none are missing: what is not ready has been."""
    return _count(status, "updatedReplicas") == _count(status, "replicas") == spec.replicas


def _stuck(status: Mapping[str, Any]) -> bool:
    return any(each.get("type") == "Progressing" and each.get("reason") == DEADLINE for each in status.get("conditions") or ())


def _count(status: Mapping[str, Any], name: str) -> int:
    return int(status.get(name) or 0)
