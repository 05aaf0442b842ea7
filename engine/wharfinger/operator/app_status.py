"""The status of a PolicyApp as a pure function of its spec and the objects that exist, and drift of its pods.

`AppPhase` has the diagram of the phases. A pod has drifted when it no longer satisfies its policy; it is checked again when something has
changed in the cluster or the policies, one pod at a time. It is evicted only through the Eviction API, so that disruption budgets hold;
only if another node would take it; and at most one pod of an app per interval. The time of an eviction is written to the status before
the eviction is requested, so a new leader cannot evict a second pod too early.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from wharfinger.crd.models import MAX_DRIFTED, AppPhase, Condition, DriftedPod, DriftPolicy, PolicyAppSpec
from wharfinger.event_loop import in_slices
from wharfinger.framework.ports import NORMAL, WARNING, Clock, Event, Reference
from wharfinger.kube import api_errors
from wharfinger.kube.custom_resources import ObjectWriter, PolicyApp, reference_of
from wharfinger.kube.events import EventRecorder
from wharfinger.language.report.wording import count
from wharfinger.model import objects
from wharfinger.model.objects.metadata import ObjectMeta
from wharfinger.model.reading import decode
from wharfinger.operator import app_objects
from wharfinger.operator.controller import AppPods, condition, conditions_in, cut, key_of, ready, seconds_of
from wharfinger.operator.policy_checks import PolicyChecks, PolicyViolation

DEADLINE = "ProgressDeadlineExceeded"

MIN_CHECK_SECONDS = 3.0
"""Fewest seconds between two checks of the pods of an app while only the cluster changes."""

PAUSE_RATIO = 4.0
"""After a check of a pod follows a pause that is this many times as long: a slow policy with many pods must not slow down the scheduler."""


class Governance(Struct, frozen=True, kw_only=True):
    """The policy of an app, and whether it governs the app's pods (None if unknown)."""

    policy: str | None = None
    governs: bool | None = None
    reason: str = "NoPolicy"
    message: str = "the spec has no policy"


class Observed(Struct, frozen=True, kw_only=True):
    """The observed state of an app.

    `problem` is why the spec cannot be carried out (reason, message). `deployment` is the Deployment's metadata.generation and status, None
    while there is none. `waiting` is the scheduler's message why a pod waits. `drift` is None where it is not known.
    """

    problem: tuple[str, str] | None = None
    generation: int = 0
    deployment: Mapping[str, Any] | None = None
    waiting: str = ""
    governance: Governance = Governance()
    drift: Sequence[DriftedPod] | None = None
    drift_note: str = ""


def phase_of(spec: PolicyAppSpec, observed: Observed, *, before: str | None, spec_is_new: bool) -> AppPhase:
    """The phase of the app, `before` being the last one; `spec_is_new`: the spec has changed since then."""
    if observed.problem is not None:
        return AppPhase.FAILED
    if observed.deployment is None:
        return AppPhase.PENDING
    status = observed.deployment
    if _count(status, "observedGeneration") < observed.generation:
        return AppPhase.PENDING if before is None else AppPhase.PROGRESSING
    if _complete(spec, status):
        return AppPhase.RUNNING
    lost = before in {AppPhase.RUNNING, AppPhase.DEGRADED} and not spec_is_new and _rolled_out(spec, status)
    return AppPhase.DEGRADED if lost or _deadline_exceeded(status) else AppPhase.PROGRESSING


def status_of(spec: PolicyAppSpec, observed: Observed, phase: AppPhase) -> dict[str, Any]:
    """The status without its conditions and times."""
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
        status["drift"] = [pod.plain() for pod in observed.drift[:MAX_DRIFTED]]
    return status


def message_of(spec: PolicyAppSpec, observed: Observed, phase: AppPhase) -> str:
    """The message for the phase of an app; "" for none."""
    if observed.problem is not None:
        return observed.problem[1]
    if phase is AppPhase.RUNNING:
        return observed.drift_note
    ready = _count(observed.deployment or {}, "readyReplicas")
    if observed.deployment is None:
        governance = observed.governance
        return f"waits for its policy: {governance.message}" if governance.governs is False else "nothing of it is there yet"
    sentence = f"{ready} of {count(spec.replicas, 'pod')} {'is' if spec.replicas == 1 else 'are'} ready"
    return f"{sentence}; {observed.waiting}" if observed.waiting else sentence


def conditions_of(spec: PolicyAppSpec, observed: Observed, phase: AppPhase) -> list[Condition]:
    """The conditions of the app."""
    problem = observed.problem
    governance = observed.governance
    found = [
        _ready(spec, observed, phase),
        condition("Applied", problem is None, *(problem or ("Applied", "the objects of the spec have been written"))),
        condition("Governed", governance.governs, governance.reason, governance.message),
    ]
    if observed.drift is not None:
        note = observed.drift_note or ("pods are on nodes that the policy would not choose" if observed.drift else "every pod satisfies it")
        found.append(condition("Drifted", bool(observed.drift), "PolicyViolated" if observed.drift else "PolicySatisfied", note))
    return found


def _ready(spec: PolicyAppSpec, observed: Observed, phase: AppPhase) -> Condition:
    """The condition `Ready`: true if the app runs. Its reason then shows that the policy does not govern the pods, or that pods drifted."""
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
    """True if no pods of an earlier spec are left and none are missing: pods that are not ready now were ready before."""
    return _count(status, "updatedReplicas") == _count(status, "replicas") == spec.replicas


def _deadline_exceeded(status: Mapping[str, Any]) -> bool:
    return any(each["type"] == "Progressing" and each.get("reason") == DEADLINE for each in conditions_in(status))


def _count(status: Mapping[str, Any], name: str) -> int:
    found = status.get(name)
    return found if isinstance(found, int) else 0


class Drift(Struct, frozen=True, kw_only=True):
    """The drifted pods of an app, None if it is not known; `movable` are the keys of those that another node would take."""

    pods: tuple[DriftedPod, ...] | None = None
    movable: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """A sentence about them, "" if there are none."""
        if not self.pods:
            return ""
        stuck = len(self.pods) - len(self.movable)
        sentence = f"{count(len(self.pods), 'pod')} no longer {'satisfies' if len(self.pods) == 1 else 'satisfy'} the policy"
        return f"{sentence}; no other node would take {stuck} of them" if stuck else sentence


class _Known(Struct, frozen=True, kw_only=True):
    """The drift of an app, and the state that it was found in."""

    question: Any
    cluster: int
    at: float
    drift: Drift


class AppDrift:
    """Finds the drifted pods of apps, and evicts them."""

    def __init__(self, checks: PolicyChecks, pods: AppPods, writer: ObjectWriter, events: EventRecorder, clock: Clock) -> None:
        self._checks = checks
        self._pods = pods
        self._writer = writer
        self._events = events
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._evicted_at: dict[str, float] = {}

    async def of(self, app: str, spec: PolicyAppSpec, policy: str | None) -> Drift:
        """The drift of an app's pods; nothing for an app without a policy."""
        if policy is None:
            return Drift()
        cluster, policies = self._checks.revision
        question = (policies, policy, spec.scheduler_name)
        known = self._known.get(app)
        now = self._clock.monotonic()
        if known is not None and known.question == question and (known.cluster == cluster or now - known.at < MIN_CHECK_SECONDS):
            return known.drift
        found = []
        for pod in self._pods.of(app):
            if pod.spec.node_name:
                await in_slices(self._checks.precompute(pod), self._clock)
            began = self._clock.monotonic()
            violation = self._checks.placed_pod_violation(pod, policy) if pod.spec.node_name else None
            if violation is not None and violation.reasons:
                found.append((pod, violation))
            await self._clock.sleep(PAUSE_RATIO * (self._clock.monotonic() - began))
        drift = Drift(
            pods=tuple(_drifted(pod, violation) for pod, violation in found),
            movable=tuple(key_of(pod) for pod, violation in found if violation.better is not None),
        )
        self._known[app] = _Known(question=question, cluster=cluster, at=now, drift=drift)
        return drift

    def forget(self, app: str) -> None:
        """Remove the entry of a deleted app."""
        self._known.pop(app, None)
        self._evicted_at.pop(app, None)

    def governs(self, policy: str, app: ObjectMeta, spec: PolicyAppSpec) -> tuple[bool | None, str, str]:
        """(whether a policy governs the pods of an app, reason, message), as in a condition."""
        template = app_objects.deployment(app, spec)["spec"]["template"]
        metadata = {**template["metadata"], "name": app.name, "namespace": app.namespace}
        return self._checks.governs(policy, decode.convert({"metadata": metadata, "spec": template["spec"]}, objects.Pod))

    def to_evict(self, app: str, spec: PolicyAppSpec, drift: Drift, status: Mapping[str, Any]) -> Any | None:
        """The pod to evict now, or None."""
        if spec.drift_policy is not DriftPolicy.EVICT or not drift.movable:
            return None
        since = self._clock.monotonic() - self._evicted_at.get(app, -math.inf)
        since_written = self._clock.now() - (seconds_of(status.get("lastEviction")) or 0.0)
        # A time in the future is ignored: the clock was set back.
        if since < spec.eviction_interval_seconds or 0 <= since_written < spec.eviction_interval_seconds:
            return None
        pods = {key_of(pod): pod for pod in self._pods.of(app)}
        return next((pods[key] for key in drift.movable if key in pods), None)

    async def evict(self, app: PolicyApp, pod: Any) -> None:
        """Evict the pod, and record an event about the eviction or its refusal. The next attempt comes after the interval."""
        self._evicted_at[key_of(app)] = self._clock.monotonic()
        meta = pod.metadata
        related = Reference(kind="Pod", name=meta.name, namespace=meta.namespace, uid=meta.uid)
        try:
            await self._writer.evict(meta.namespace, meta.name, meta.uid)
        except (api_errors.NotFound, api_errors.Conflict):
            return  # the pod is already deleted
        except (api_errors.TooManyRequests, api_errors.Forbidden, api_errors.ServerError) as error:
            kind, reason, note = WARNING, "EvictionRefused", f"pod {meta.name} cannot be evicted now: {error}"
        else:
            kind, reason, note = (
                NORMAL,
                "Evicted",
                f"evicted pod {meta.name} from node {pod.spec.node_name}: it no longer satisfies the policy",
            )
        self._events.record_about(reference_of(app), Event(type=kind, reason=reason, action="Evict", note=note, related=related))


def _drifted(pod: Any, violation: PolicyViolation) -> DriftedPod:
    reasons = tuple(cut(reason, 1024) for reason in violation.reasons[:16])
    return DriftedPod(pod=pod.metadata.name, node=pod.spec.node_name, reasons=reasons)
