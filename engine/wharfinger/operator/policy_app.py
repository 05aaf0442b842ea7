"""The reconciler of PolicyApps: a Deployment, a Service and a policy for each app, and its status.

Each reconcile starts from what the informers know, writes what is missing or different, and ends with the status. It may be interrupted
anywhere: the next one finds existing objects by their names. Teardown removes the policy last, so that pods are governed as long as there
are any. Only the oldest apps of a namespace are acted upon, as many as the settings allow.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from wharfinger.crd import FINALIZER
from wharfinger.crd.models import AppPhase, PolicyAppSpec
from wharfinger.errors import WharfingerError
from wharfinger.event_loop import BuildThread
from wharfinger.framework.ports import NORMAL, WARNING, Clock, Event
from wharfinger.kube import api_errors
from wharfinger.kube.custom_resources import ObjectWriter, PlainObject, PolicyApp, reference_of
from wharfinger.kube.events import EventRecorder
from wharfinger.language.report.diagnostics import PolicyError
from wharfinger.language.report.wording import count
from wharfinger.model.objects.metadata import ObjectMeta, time_text
from wharfinger.operator import app_objects, app_status
from wharfinger.operator.app_objects import NoPolicy, NotOwned, apply_if_different, existing, is_app_of, remove
from wharfinger.operator.app_status import AppDrift, Drift
from wharfinger.operator.controller import AppPods, ObjectCache, conditions_in, invalid_field, key_of, with_transition_times

RESYNC_SECONDS = 5.0
"""Seconds between two reconciles of an app without changes: its pods may have drifted."""

RECHECK_SECONDS = 1.5
"""Seconds between two reconciles of an app that waits for a policy that is not its own."""

OWN_POLICY_RECHECK_SECONDS = 0.25
"""Seconds between two reconciles of an app that waits for its own policy to decide, or for its objects to be deleted."""

MAX_APPS = 100
"""The default number of apps of a namespace that are acted upon, the oldest ones. Each app costs the scheduler a reconcile every few
seconds, and its policy memory; a namespace need not have a ResourceQuota."""

TOO_MANY = "TooManyApps"

Age = tuple[float, str]
"""The time of creation and the name of an app: the order in which apps are admitted."""

_REFUSED = (api_errors.Invalid, api_errors.BadRequest)


class AdmittedApps:
    """The apps of each namespace by age. `admitted` is called with the key of an app that is admitted now."""

    def __init__(self, limit: int, admitted: Callable[[str], None]) -> None:
        self._limit = limit
        self._admitted = admitted
        self._ages: dict[str, list[Age]] = defaultdict(list)

    def add(self, app: PolicyApp) -> None:
        """Count an app; one that is counted already changes nothing."""
        ages, age = self._ages[app.metadata.namespace], _age(app.metadata)
        place = bisect_left(ages, age)
        if place == len(ages) or ages[place] != age:
            ages.insert(place, age)

    def discard(self, app: PolicyApp) -> None:
        """Stop counting an app, and admits the one that has waited longest."""
        meta = app.metadata
        ages, age = self._ages[meta.namespace], _age(meta)
        place = bisect_left(ages, age)
        if place == len(ages) or ages[place] != age:
            return
        del ages[place]
        if place < self._limit <= len(ages):
            self._admitted(f"{meta.namespace}/{ages[self._limit - 1][1]}")
        if not ages:
            del self._ages[meta.namespace]

    def refusal(self, app: PolicyApp) -> tuple[str, str] | None:
        """(reason, sentence) why an app is not acted upon; None if it is."""
        namespace = app.metadata.namespace
        ages = self._ages.get(namespace, [])
        if bisect_left(ages, _age(app.metadata)) < self._limit:
            return None
        return TOO_MANY, (
            f"namespace {namespace} has {len(ages):,} PolicyApps, and the scheduler acts upon the {self._limit:,} oldest of a namespace "
            "(limits.policyApps); it acts upon this one once others are deleted, or the limit is higher"
        )


def _age(meta: ObjectMeta) -> Age:
    return (0.0 if meta.creation_timestamp is None else meta.creation_timestamp.timestamp(), meta.name)


class InlinePolicies:
    """The SchedulingPolicies of inline policies of apps, made once for each generation of an app, because a long text takes long."""

    def __init__(self, clock: Clock) -> None:
        self._thread = BuildThread(clock)
        self._object_with_name: dict[str, tuple[tuple[str, int], dict[str, Any] | WharfingerError | None]] = {}

    async def of(self, app: ObjectMeta, spec: PolicyAppSpec) -> dict[str, Any] | None:
        """The SchedulingPolicy of an app, None without an inline policy; PolicyError or NoPolicy for an invalid text."""
        if spec.policy is None or spec.policy.inline is None:
            return None
        key, version = f"{app.namespace}/{app.name}", (app.uid, app.generation)
        if key not in self._object_with_name or self._object_with_name[key][0] != version:
            self._object_with_name[key] = version, await self._thread.run_without_rest(_policy_or_error, app, spec)
        found = self._object_with_name[key][1]
        if isinstance(found, WharfingerError):
            raise found.with_traceback(None)
        return found

    def forget(self, app: str) -> None:
        """Remove the entry of a deleted app."""
        self._object_with_name.pop(app, None)


def _policy_or_error(app: ObjectMeta, spec: PolicyAppSpec) -> dict[str, Any] | WharfingerError | None:
    try:
        return app_objects.inline_policy(app, spec)
    except (PolicyError, NoPolicy) as error:
        return error


class PolicyAppReconciler:
    """Reconciles PolicyApps."""

    def __init__(  # noqa: PLR0913, PLR0917 — its collaborators and settings
        self,
        cache: ObjectCache,
        pods: AppPods,
        writer: ObjectWriter,
        drift: AppDrift,
        events: EventRecorder,
        clock: Clock,
        admitted: AdmittedApps,
    ) -> None:
        self._admitted = admitted
        self._texts = InlinePolicies(clock)
        self._cache = cache
        self._pods = pods
        self._writer = writer
        self._drift = drift
        self._events = events
        self._clock = clock

    async def reconcile(self, key: str) -> float | None:
        """Seconds until the next reconcile; None if the app is deleted, or not acted upon."""
        app: PolicyApp | None = self._cache.get("PolicyApp", key)
        if app is None:
            self._drift.forget(key)
            self._texts.forget(key)
            await self._delete_orphaned_policy(key)
            return None
        if app.metadata.deletion_timestamp is not None:
            return await self._delete_objects(app)
        if (refusal := self._admitted.refusal(app)) is not None:
            await self._reconcile_spec(app, refusal)
            return None
        if FINALIZER not in app.metadata.finalizers:
            try:
                await self._writer.set_finalizers(app, (*app.metadata.finalizers, FINALIZER))
            except api_errors.Forbidden as error:  # without the finalizer nothing is made that would not be deleted
                return await self._reconcile_spec(app, _forbidden(error))
            return None
        return await self._reconcile_spec(app)

    # ── the requested objects ──

    async def _reconcile_spec(self, app: PolicyApp, problem: tuple[str, str] | None = None) -> float:
        """Seconds until the next reconcile. Writes the objects and the status of the app; with a `problem`, only the status."""
        spec, unreadable = _read(app)
        problem = problem or unreadable
        governance = self._governance(app.metadata, spec)
        waits = governance.governs is False and self._object_with_name("Deployment", app.metadata) is None
        if problem is None:
            problem = await self._make(app, spec, waits=waits)
        drift = await self._drift.of(key_of(app), spec, self._policy_of(app.metadata, spec)) if problem is None else Drift()
        observed = self._observed(app, problem, drift, governance)
        before = app.status.get("phase")
        phase = app_status.phase_of(
            spec, observed, before=before, spec_is_new=app.status.get("observedGeneration") != app.metadata.generation
        )
        status = app_status.status_of(spec, observed, phase)
        status |= {"selector": app_objects.selector(app.metadata), "observedGeneration": app.metadata.generation}
        status["conditions"] = with_transition_times(
            app_status.conditions_of(spec, observed, phase), app.status, app.metadata.generation, self._clock.now()
        )
        victim = self._drift.to_evict(key_of(app), spec, drift, app.status)
        last = time_text(self._clock.now()) if victim is not None else app.status.get("lastEviction")
        await self._write_status(app, {**status, **({"lastEviction": last} if last else {})}, before, phase)
        if victim is not None:
            await self._drift.evict(app, victim)
        if not waits or problem is not None:
            return RESYNC_SECONDS
        return OWN_POLICY_RECHECK_SECONDS if spec.policy is not None and spec.policy.inline is not None else RECHECK_SECONDS

    async def _make(self, app: PolicyApp, spec: PolicyAppSpec, *, waits: bool) -> tuple[str, str] | None:
        """Write the objects that are missing or different; (reason, message) if that fails.

        While the app `waits` for its policy, no Deployment is written: no pod may be placed without the policy.
        """
        try:
            for kind, wanted in (
                ("SchedulingPolicy", await self._texts.of(app.metadata, spec)),
                ("Deployment", app_objects.deployment(app.metadata, spec)),
                ("Service", app_objects.service(app.metadata, spec)),
            ):
                found = self._object_with_name(kind, app.metadata)
                if kind == "Deployment" and waits:
                    continue
                if wanted is not None:
                    await apply_if_different(self._writer, wanted, found, app.metadata)
                elif found is not None:
                    await remove(self._writer, found)
        except (PolicyError, NoPolicy) as error:
            return "InvalidPolicy", f"the inline policy does not compile: {error}"
        except NotOwned as error:
            return "NotOwned", str(error)
        except api_errors.Forbidden as error:
            return _forbidden(error)
        except _REFUSED as error:
            return error.reason or "Refused", str(error)
        return _refused(self._object_with_name("SchedulingPolicy", app.metadata))

    def _object_with_name(self, kind: str, app: ObjectMeta) -> PlainObject | None:
        """The object that has the name of the app's object of a kind."""
        if kind == "SchedulingPolicy":
            found: PlainObject | None = self._cache.get(kind, app_objects.policy_name(app))
            return found if found is None or is_app_of(found, app) else None
        return self._cache.get(kind, f"{app.namespace}/{app.name}")

    # ── what is there ──

    def _governance(self, app: ObjectMeta, spec: PolicyAppSpec) -> app_status.Governance:
        policy = self._policy_of(app, spec)
        if policy is None:
            return app_status.Governance()
        governs, reason, message = self._drift.governs(policy, app, spec)
        return app_status.Governance(policy=policy, governs=governs, reason=reason, message=message)

    def _observed(
        self, app: PolicyApp, problem: tuple[str, str] | None, drift: Drift, governance: app_status.Governance
    ) -> app_status.Observed:
        deployment = self._object_with_name("Deployment", app.metadata)
        return app_status.Observed(
            problem=problem,
            generation=0 if deployment is None else deployment.metadata.generation,
            deployment=None if deployment is None else deployment.status,
            waiting=_waiting(self._pods.of(key_of(app))),
            governance=governance,
            drift=drift.pods,
            drift_note=drift.note,
        )

    @staticmethod
    def _policy_of(app: ObjectMeta, spec: PolicyAppSpec) -> str | None:
        if spec.policy is None:
            return None
        return spec.policy.name or app_objects.policy_name(app)

    async def _write_status(self, app: PolicyApp, status: Mapping[str, Any], before: str | None, phase: AppPhase) -> None:
        """Write the status if it has changed, and an event if the phase has changed."""
        if dict(status) == app.status:
            return
        await self._writer.apply_status(app, status)
        if before != phase:
            kind = WARNING if phase in {AppPhase.DEGRADED, AppPhase.FAILED} else NORMAL
            ready = status["readyReplicas"]
            note = status.get("message") or f"{count(ready, 'pod')} {'is' if ready == 1 else 'are'} ready"
            self._events.record_about(reference_of(app), Event(type=kind, reason=phase.value, action="Reconcile", note=note))

    # ── the end ──

    async def _delete_objects(self, app: PolicyApp) -> float | None:
        """Seconds until the next reconcile; None if nothing is left. Deletes what was made, the policy last, then the finalizer.

        Reads from the API server: the informers may not have the latest writes yet. An app that is held by the finalizer of somebody else
        may have lost ours before its objects were deleted. They are deleted too, when the informers have them.
        """
        meta = app.metadata
        held = FINALIZER in meta.finalizers
        made = [await self._made(kind, meta, now=held) for kind in ("Deployment", "Service")]
        ours = [found for found in made if found is not None and is_app_of(found, meta)]
        left = [found for found in ours if found.metadata.deletion_timestamp is None]
        for found in left:
            await remove(self._writer, found)
        if ours:
            return OWN_POLICY_RECHECK_SECONDS if left else RESYNC_SECONDS
        policy = await self._made("SchedulingPolicy", meta, now=held)
        if policy is not None and is_app_of(policy, meta) and policy.metadata.deletion_timestamp is None:
            await remove(self._writer, policy)
        if held:
            await self._writer.set_finalizers(app, [each for each in meta.finalizers if each != FINALIZER])
        return None

    async def _made(self, kind: str, app: ObjectMeta, *, now: bool) -> PlainObject | None:
        """The object that has the name of the app's object of a kind: as it is `now`, or as the informers know it."""
        if not now:
            return self._object_with_name(kind, app)
        cluster = kind == "SchedulingPolicy"
        return await existing(self._writer, kind, "" if cluster else app.namespace, app_objects.policy_name(app) if cluster else app.name)

    async def _delete_orphaned_policy(self, key: str) -> None:
        """Remove the policy of a deleted app: an app that is deleted while it gets its finalizer has no `_delete_objects`."""
        namespace, _, name = key.partition("/")
        deleted = ObjectMeta(name=name, namespace=namespace)
        policy = self._object_with_name("SchedulingPolicy", deleted)
        if policy is not None and await existing(self._writer, "PolicyApp", namespace, name) is None:
            await remove(self._writer, policy)


def _forbidden(error: api_errors.Forbidden) -> tuple[str, str]:
    """(reason, sentence) where rights are missing, which is how deploy/ comes, or what an admission plugin forbids."""
    return "Forbidden", f"it is not allowed (PolicyApps take deploy/components/policy-apps): {error}"


def _read(app: PolicyApp) -> tuple[PolicyAppSpec, tuple[str, str] | None]:
    """(the spec, None), or (an empty spec, the reason why the spec cannot be read): the object is of another version of the definition."""
    try:
        return PolicyAppSpec.model_validate(app.spec), None
    except ValidationError as error:
        return PolicyAppSpec(image="none", replicas=0), ("InvalidSpec", invalid_field(error))


def _refused(policy: PlainObject | None) -> tuple[str, str] | None:
    """(reason, sentence) when the app's policy, as it is now, has been refused; its status says so."""
    if policy is None or policy.status.get("observedGeneration") != policy.metadata.generation:
        return None
    conditions = (each for each in conditions_in(policy.status) if each["type"] in {"Compiled", "Active"})
    wrong = next((each for each in conditions if each.get("status") == "False"), None)
    return None if wrong is None else ("InvalidPolicy", f"the inline policy is refused: {wrong.get('message')}")


def _waiting(pods: list[Any]) -> str:
    """The message of the first pod that waits for a node; "" if there is none."""
    return next((pod.status.unschedulable for pod in pods if not pod.spec.node_name and pod.status.unschedulable), "")
