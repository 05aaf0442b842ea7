"""Drift: pods of PolicyApps that no longer satisfy their policy, and their eviction.

A pod is judged again when something has changed in the cluster or the policies, one pod at a time with the loop turning in between. One is
evicted only through the Eviction API, so that disruption budgets hold; only if another node would take it; and at most one of an app per
interval. The time of an eviction is written to the app's status before the eviction is requested, so that a new leader does not
evict a second pod too early.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wharfinger.crd.policy_app import DriftedPod, DriftPolicy, PolicyAppSpec
from wharfinger.framework.ports import NORMAL, WARNING, Clock, Event, Reference
from wharfinger.kube import refusals
from wharfinger.kube.custom_resources import ObjectWriter, PolicyApp, reference_of
from wharfinger.kube.events import EventRecorder
from wharfinger.language.report.wording import count
from wharfinger.model import objects
from wharfinger.model.objects.metadata import ObjectMeta
from wharfinger.model.reading import decode
from wharfinger.operator import app_objects
from wharfinger.operator.conditions import cut, seconds_of
from wharfinger.operator.judgement import Judge, Standing
from wharfinger.operator.object_cache import AppPods, key_of

LOOK_AGAIN = 3.0
"""Seconds between two looks at the pods of an app at least, while only the cluster changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The drifted pods of an app, None if it is not known; `movable` are the keys of those that another node would take."""

    pods: tuple[DriftedPod, ...] | None = None
    movable: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """A sentence about them, "" if there are none."""
        if not self.pods:
            return ""
        stuck = len(self.pods) - len(self.movable)
        told = f"{count(len(self.pods), 'pod')} no longer {'satisfies' if len(self.pods) == 1 else 'satisfy'} the policy"
        return f"{told}; no other node would take {stuck} of them" if stuck else told


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """The drift of an app, and the state that it was found in."""

    question: Any
    cluster: int
    at: float
    drift: Drift


class AppDrift:
    """Looks for drift, and evicts."""

    def __init__(self, judge: Judge, pods: AppPods, writer: ObjectWriter, events: EventRecorder, clock: Clock) -> None:
        self._judge = judge
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
        cluster, policies = self._judge.revision
        question = (policies, policy, spec.scheduler_name)
        known = self._known.get(app)
        now = self._clock.monotonic()
        if known is not None and known.question == question and (known.cluster == cluster or now - known.at < LOOK_AGAIN):
            return known.drift
        found = []
        for pod in self._pods.of(app):
            standing = self._judge.standing(pod, policy) if pod.spec.node_name else None
            if standing is not None and standing.reasons:
                found.append((pod, standing))
            await self._clock.sleep(0)
        drift = Drift(
            pods=tuple(_drifted(pod, standing) for pod, standing in found),
            movable=tuple(key_of(pod) for pod, standing in found if standing.better is not None),
        )
        self._known[app] = _Known(question=question, cluster=cluster, at=now, drift=drift)
        return drift

    def forget(self, app: str) -> None:
        """Forgets an app that is gone."""
        self._known.pop(app, None)
        self._evicted_at.pop(app, None)

    def governs(self, policy: str, app: ObjectMeta, spec: PolicyAppSpec) -> tuple[bool | None, str, str]:
        """(whether a policy decides about the pods of an app, a word and a sentence why)."""
        template = app_objects.deployment(app, spec)["spec"]["template"]
        metadata = {**template["metadata"], "name": app.name, "namespace": app.namespace}
        return self._judge.governs(policy, decode.convert({"metadata": metadata, "spec": template["spec"]}, objects.Pod))

    def to_evict(self, app: str, spec: PolicyAppSpec, drift: Drift, status: Mapping[str, Any]) -> Any | None:
        """The pod to evict now, or None."""
        if spec.drift_policy is not DriftPolicy.EVICT or not drift.movable:
            return None
        last = max(seconds_of(status.get("lastEviction")) or 0.0, self._evicted_at.get(app, 0.0))
        if self._clock.now() - last < spec.eviction_interval_seconds:
            return None
        pods = {key_of(pod): pod for pod in self._pods.of(app)}
        return next((pods[key] for key in drift.movable if key in pods), None)

    async def evict(self, app: PolicyApp, pod: Any) -> None:
        """Evicts the pod; an event says so, or why it is refused. The next try comes after the interval."""
        self._evicted_at[key_of(app)] = self._clock.now()
        meta = pod.metadata
        related = Reference(kind="Pod", name=meta.name, namespace=meta.namespace, uid=meta.uid)
        try:
            await self._writer.evict(meta.namespace, meta.name, meta.uid)
        except (refusals.NotFound, refusals.Conflict):
            return  # it has gone by itself
        except (refusals.TooManyRequests, refusals.Forbidden, refusals.ServerError) as error:
            kind, reason, note = WARNING, "EvictionRefused", f"pod {meta.name} cannot be evicted now: {error}"
        else:
            kind, reason, note = (
                NORMAL,
                "Evicted",
                f"evicted pod {meta.name} from node {pod.spec.node_name}: it no longer satisfies the policy",
            )
        self._events.record_about(reference_of(app), Event(type=kind, reason=reason, action="Evict", note=note, related=related))


def _drifted(pod: Any, standing: Standing) -> DriftedPod:
    reasons = tuple(cut(reason, 1024) for reason in standing.reasons[:16])
    return DriftedPod(pod=pod.metadata.name, node=pod.spec.node_name, reasons=reasons)
