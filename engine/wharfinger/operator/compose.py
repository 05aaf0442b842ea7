"""The custom resources in the running scheduler: informers, and controllers built from them, the scheduler and the policy store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from wharfinger.compiler.program import CompiledPolicy
from wharfinger.emit import Emit, Failed, Handlers
from wharfinger.event_loop import Tasks
from wharfinger.framework.policy_status import MetricStatus, PolicyStatus
from wharfinger.framework.ports import Clock, Leadership
from wharfinger.kube.api_errors import NotFound
from wharfinger.kube.api_server import ApiServer
from wharfinger.kube.connection import Connection
from wharfinger.kube.custom_resources import CUSTOM, ObjectWriter, watching
from wharfinger.kube.events import EventRecorder
from wharfinger.kube.reflector import Informers
from wharfinger.language.semantics.authority import TenantRights
from wharfinger.operator.app_objects import app_key_of
from wharfinger.operator.app_status import AppDrift
from wharfinger.operator.controller import AppPods, Controller, ObjectCache, key_of, run_all
from wharfinger.operator.policy_app import MAX_APPS, AdmittedApps, PolicyAppReconciler
from wharfinger.operator.policy_checks import PolicyChecks
from wharfinger.operator.preview import PreviewReconciler
from wharfinger.operator.preview_question import Questions
from wharfinger.operator.scheduling_policy import KIND, SOURCE, Policies, PolicyStatusReconciler, SchedulingPolicySource
from wharfinger.policies.active import ActivePolicies
from wharfinger.policies.store import PolicyChanged, PolicyResumed, PolicyStore, PolicySuspended, PolicyTried
from wharfinger.scheduler.scheduler import Scheduler

DRAIN_SECONDS = 5.0
"""Seconds that a stop waits for what is being worked on."""
STATUSES_AT_ONCE = 8
"""Statuses of SchedulingPolicies that are written at a time; a write waits for the API server, for some milliseconds or much longer."""
POLL_SECONDS = 1.0
"""Seconds between two looks which kinds are missing."""


def _unless_absent(emit: Emit) -> Emit:
    """Emit all but errors for kinds that are not installed, which are logged once for all of them."""
    return lambda event: None if isinstance(event, Failed) and isinstance(event.error, NotFound) else emit(event)


class KindsLost(Struct, frozen=True):
    """Kinds of objects are not defined (`absent`), or may not be read (`refused`: the reasons)."""

    absent: Sequence[str]
    refused: Mapping[str, str]


class KindsRestored(Struct, frozen=True):
    """Kinds of objects that could not be read can be read now."""

    kinds: Sequence[str]


class StorePolicies:
    """A policy store as the controllers see it; `metrics` returns the state of the metrics of a policy by its name."""

    def __init__(self, store: PolicyStore, metrics: Callable[[str], Sequence[MetricStatus]] = lambda _policy: ()) -> None:
        self._store = store
        self.metrics = metrics
        self._held: tuple[ActivePolicies, dict[str, CompiledPolicy]] | None = None

    def status(self, key: str) -> PolicyStatus | None:
        """The status of the SchedulingPolicy of that name."""
        return self._store.status(SOURCE, key)

    def compiled(self, name: str) -> CompiledPolicy | None:
        """The policy of that name that is in force; one that decides comes before a shadow policy."""
        active = self._store.active
        if self._held is None or self._held[0] is not active:
            shadow_chains = [chain for shadows in active.shadows.values() for chain in shadows.values()]
            held = [policy for chain in (*active.chains.values(), *shadow_chains) for policy in chain.policies]
            self._held = active, {policy.name: policy for policy in reversed(held)}
        return self._held[1].get(name)


class Reconcilers:
    """The controllers. `pods` is a `ClusterSink` that has to subscribe to the informers of pods."""

    def __init__(  # noqa: PLR0913 — its collaborators and settings
        self,
        cache: ObjectCache,
        rights: TenantRights,
        scheduler: Scheduler,
        connection: Connection,
        events: EventRecorder,
        *,
        clock: Clock,
        leadership: Leadership,
        emit: Emit,
        policies: Policies,
        max_apps: int,
    ) -> None:
        """`max_apps` of each namespace are acted upon."""
        self._clock = clock
        self._leadership = leadership
        self.pods = AppPods(self._pods_of_app)
        writer = ObjectWriter(connection, lambda: leadership.is_leader)
        checks = PolicyChecks(scheduler, clock, rights)
        drift = AppDrift(checks, self.pods, writer, events, clock)
        common: dict[str, Any] = {"clock": clock, "leadership": leadership, "emit": emit}
        self._cache = cache
        self._admitted = AdmittedApps(max_apps, self._pods_of_app)
        apps = PolicyAppReconciler(cache, self.pods, writer, drift, events, clock, self._admitted)
        self.apps = Controller("policyapp", apps, _keys(cache, "PolicyApp"), **common)
        previews = PreviewReconciler(cache, writer, checks, Questions(checks, writer), clock)
        self.previews = Controller("placementpreview", previews, _keys(cache, "PlacementPreview"), **common)
        statuses = PolicyStatusReconciler(cache, writer, checks, policies, scheduler, clock)
        self.policies = Controller("schedulingpolicy", statuses, _keys(cache, KIND), workers=STATUSES_AT_ONCE, **common)
        self.controllers = (self.apps, self.previews, self.policies)
        cache.watch("PolicyApp", self._count_app)
        for kind, controller in (("PolicyApp", self.apps), ("PlacementPreview", self.previews), (KIND, self.policies)):
            cache.watch(kind, partial(_enqueue, controller))
        for kind in ("Deployment", "Service", KIND):
            cache.watch(kind, self._made_for_app)

    @property
    def handlers(self) -> Handlers:
        """The handlers of events about policies, after which their statuses are written soon."""
        return dict.fromkeys([PolicyTried, PolicyChanged, PolicySuspended, PolicyResumed], self._policy_changed)

    def _policy_changed(self, event: PolicyTried | PolicyChanged | PolicySuspended | PolicyResumed) -> None:
        if event.status.source == SOURCE:
            self.policies.queue.add(event.status.key)

    async def run(self) -> None:
        """Run until `stop`, or until cancelled."""
        await run_all(self.controllers, self._clock, self._leadership)

    async def stop(self) -> None:
        """Wait until work in progress has ended, within `DRAIN_SECONDS`."""
        for controller in self.controllers:
            controller.stop()
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                for controller in self.controllers:
                    await controller.queue.drained()
        except TimeoutError:
            pass

    def _count_app(self, app: Any) -> None:
        if self._cache.get("PolicyApp", key_of(app)) is None:
            self._admitted.discard(app)
        else:
            self._admitted.add(app)

    def _pods_of_app(self, app: str) -> None:
        self.apps.queue.add(app)

    def _made_for_app(self, obj: Any) -> None:
        key = app_key_of(obj)
        if key is not None:
            self.apps.queue.add(key)


class Operator:
    """The custom resources of one process: watched by every replica, reconciled by the one that leads; `source` is for the policy store."""

    def __init__(
        self, connection: Connection, clock: Clock, emit: Emit, rights: TenantRights | None = None, max_apps: int = MAX_APPS
    ) -> None:
        self._max_apps = max_apps
        self._connection = connection
        self._clock = clock
        self._emit = emit
        self._rights = rights or TenantRights()
        self._cache = ObjectCache([resource.name for resource in CUSTOM])
        self._informers = informers = Informers(connection, clock, _unless_absent(emit), resources=CUSTOM, settings=watching())
        self._reconcilers: Reconcilers | None = None
        self.source = SchedulingPolicySource(
            self._cache, clock, lambda: informers.refused.get(KIND), lambda: KIND in informers.absent, self._rights
        )

    def reconcile(self, scheduler: Scheduler, server: ApiServer, policies: Policies) -> Handlers:
        """Make the reconcilers, which run from `start` on; returns their handlers of events. To be called before the informers run."""
        self._reconcilers = Reconcilers(
            self._cache,
            self._rights,
            scheduler,
            self._connection,
            server.recorder,
            clock=self._clock,
            leadership=server.leadership,
            emit=self._emit,
            policies=policies,
            max_apps=self._max_apps,
        )
        server.informers.subscribe(self._reconcilers.pods)
        return self._reconcilers.handlers

    def depths(self) -> dict[tuple[str, ...], float]:
        """The number of objects that wait for each controller."""
        controllers = () if self._reconcilers is None else self._reconcilers.controllers
        return {(controller.name,): float(len(controller.queue)) for controller in controllers}

    def start(self, tasks: Tasks) -> None:
        """Watch and reconcile from now on."""
        tasks.start(self._informers.run(self._cache), "custom resources")
        tasks.start(self._emit_missing(), "definitions")
        if self._reconcilers is not None:
            tasks.start(self._reconcilers.run(), "reconcilers")

    async def stop(self) -> None:
        """Wait until running reconciles have ended, within a limit."""
        if self._reconcilers is not None:
            await self._reconcilers.stop()

    async def _emit_missing(self) -> None:
        """Emit which kinds are missing, and when they appear; never returns."""
        informers, missing = self._informers, frozenset[str]()
        await informers.wait_synced()
        while True:
            now = frozenset(informers.refused)
            if lost := now - missing:
                refused = {kind: informers.refused[kind] for kind in sorted(lost - informers.absent)}
                self._emit(KindsLost(sorted(lost & informers.absent), refused))
            if back := missing - now:
                self._emit(KindsRestored(sorted(back)))
            missing = now
            await self._clock.sleep(POLL_SECONDS)


def _enqueue(controller: Controller, obj: Any) -> None:
    controller.queue.add(key_of(obj))


def _keys(cache: ObjectCache, kind: str) -> Callable[[], list[str]]:
    return lambda: [key_of(obj) for obj in cache.all(kind)]
