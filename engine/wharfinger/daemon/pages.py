"""Pages about the process: health checks, `/policies`, `/debug/cache`, and the playground on its cluster.

Ready means that the process does its work, or would if it led: a replica on standby is ready. It is not ready while the API server does
not answer, or while a kind may not be listed: pods are still placed then, but as if there were no objects of that kind.

The playground has a copy of the cluster, which follows the state in slices of the event loop; what is decided is decided in a thread. A
tried policy is added to the policies that decide, or replaces the one of the same name. It is discarded afterwards. Nothing is uploaded:
that would go to another machine than the author's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from wharfinger.compiler.cost import NAMESPACE_BUDGET
from wharfinger.compiler.program import CompiledPolicy
from wharfinger.errors import WharfingerError
from wharfinger.event_loop import BuildThread, in_slices
from wharfinger.framework.chain import Chain, with_policies
from wharfinger.framework.policy_status import MetricStatus, Mode, PolicyStatus
from wharfinger.kube import wire
from wharfinger.kube.connection import Connection
from wharfinger.kube.wire import NODES, PODS, Resource
from wharfinger.language.report import wording
from wharfinger.language.report.plain_values import plain
from wharfinger.model import objects
from wharfinger.model.objects.metadata import time_text
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.copies import FollowedCopy
from wharfinger.policies.shadow import ShadowReport
from wharfinger.policies.store import PolicyStore
from wharfinger.scheduler.live_answers import LiveExplanations, compare, contents_of
from wharfinger.web import policies
from wharfinger.web.app import Checks
from wharfinger.web.playground.clusters import Choice, Examples, OpenedCluster, Run
from wharfinger.web.playground.trial import MAX_PODS_OFFERED
from wharfinger.web.playground.workbench import Limits, Workbench
from wharfinger.web.policies import ExplainPolicy, Policies

if TYPE_CHECKING:
    from wharfinger.daemon.compose import Daemon
    from wharfinger.framework.ports import Clock
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.scheduler.scheduler import Scheduler


_PAGE = 1000
LIVE = "live"
IDLE_SECONDS = 300.0
"""Seconds without a question after which the copy is freed."""
LIMITS = Limits(rest=4.0, timeout=20.0, waiting=8, budget=NAMESPACE_BUDGET)
"""At most a fifth of the time, and with the cost limit of a policy of a namespace: a client need not have the right to write policies."""


class Health:
    """The checks; they fail until a daemon is `watch`ed."""

    def __init__(self) -> None:
        self.daemon: Daemon | None = None

    def watch(self, daemon: Daemon) -> None:
        """Check this daemon from now on: the API server has answered."""
        self.daemon = daemon

    @property
    def checks(self) -> Checks:
        """The checks by name, with Kubernetes' own names where it has one."""
        return Checks(ready={"api-server": self._api_server, "informer-sync": self._informers, "permissions": self._permissions})

    def _api_server(self) -> str | None:
        return "it has not answered yet" if self.daemon is None else self.daemon.contact.unreachable_reason

    def _informers(self) -> str | None:
        if self.daemon is None:
            return "not started"
        missing = self.daemon.scheduler.missing_kinds
        return f"not listed yet: {', '.join(sorted(missing))}" if missing else None

    def _permissions(self) -> str | None:
        refused = {} if self.daemon is None else self.daemon.server.informers.refused
        return "; ".join(f"{kind}: {said}" for kind, said in sorted(refused.items())) or None


def policy_pages(store: PolicyStore, health: Health, explanations: LiveExplanations | None = None, *, public: bool = False) -> Policies:
    """The data of the pages about policies; without `explanations` no page explains a policy."""

    def shadows() -> Mapping[str, Mapping[str, Any]]:
        daemon = health.daemon
        return {} if daemon is None else {name: _plain(report) for name, report in daemon.shadows.reports.items()}

    def metrics() -> Sequence[MetricStatus]:
        return () if health.daemon is None else health.daemon.signals.metrics

    return Policies(
        metrics=metrics,
        statuses=lambda: store.statuses,
        sources=lambda: store.sources,
        shadows=shadows,
        explain=None if explanations is None else _explain_policy(store, health, explanations),
        public=public,
    )


def _explain_policy(store: PolicyStore, health: Health, explanations: LiveExplanations) -> ExplainPolicy:
    async def explain(name: str) -> tuple[Mapping[str, Any], str]:
        daemon = health.daemon
        if daemon is None or daemon.scheduler.missing_kinds:
            raise WharfingerError("the cluster is not known yet")
        profile, found = await explanations.of_policy(daemon.scheduler, store.active, name)
        status = next((status for status in store.statuses if status.name == name and status.revision == found.revision), None)
        report = daemon.shadows.reports.get(name) if status is not None and status.mode is Mode.SHADOW else None
        metrics = daemon.signals.metrics_of(name)
        lines = [*_state_lines(profile, status, report), *(f"  {metric}" for metric in metrics)]
        plain = {
            "profile": profile,
            "status": None if status is None else policies.plain(status, metrics),
            "shadow": None if report is None else _plain(report),
            **found.plain(),
        }
        return plain, str(found) + wording.lines(lines)

    return explain


def _state_lines(profile: str, status: PolicyStatus | None, report: ShadowReport | None) -> Iterator[str]:
    """The state of a policy in sentences."""
    if status is not None:
        since = "" if status.since is None else f" since {time_text(status.since)}"
        yield f"  {status.state} in profile {profile}{since}, from {status.source}: {status.key}"
    if status is not None and status.suspended:
        yield f"  suspended: {status.suspended}"
    if report is not None:
        compared = report.agreed + report.disagreed
        otherwise = f"{report.disagreed:,} of {wording.count(compared, 'decision')} otherwise"
        yield f"  as a shadow it would have decided {otherwise}; {report.unseen:,} not compared"


def _plain(report: ShadowReport) -> Mapping[str, Any]:
    return {**plain(report), "lastError": report.last_error or None}


async def cache_report(connection: Connection, state: ClusterState, thread: BuildThread) -> Mapping[str, Any]:
    """The differences as plain values, `equal` first, found in the thread; ApiError or InvalidObject if the API server does not answer."""
    nodes = await _listed(connection, NODES, objects.Node)
    pods = await _listed(connection, PODS, objects.Pod)
    found = await thread.run_without_rest(compare, contents_of(state), nodes, pods)
    return {"equal": found.equal, **plain(found)}


async def _listed(connection: Connection, resource: Resource, kind: type[Any]) -> list[Any]:
    return [wire.struct_of(raw, kind) async for items, _ in wire.pages(connection, resource.path, resource.params, _PAGE) for raw in items]


class LiveClusters(Examples):
    """The cluster of the process, and the examples."""

    def __init__(self, health: Health, clock: Clock) -> None:
        super().__init__()
        self._health = health
        self._clock = clock
        self._copy = FollowedCopy()
        self._idle: asyncio.TimerHandle | None = None

    def choices(self) -> Sequence[Choice]:
        """The clusters in the order in which they are offered."""
        return [Choice(LIVE, "The cluster of this scheduler"), *super().choices()]

    async def opened(self, key: str, run: Run) -> OpenedCluster:
        """The cluster of a key; UnknownObject if there is none, WharfingerError before the cluster is known."""
        if key != LIVE:
            return await super().opened(key, run)
        daemon = self._health.daemon
        if daemon is None or daemon.scheduler.missing_kinds:
            raise WharfingerError("the cluster is not known yet")
        scheduler, snapshot = daemon.scheduler, daemon.scheduler.snapshot()
        waiting = tuple(islice((queued.pod for queued in scheduler.queue), MAX_PODS_OFFERED))
        state = await in_slices(self._copy.follow(snapshot), self._clock)
        self._free_later()
        return OpenedCluster(state=state, waiting=waiting, now=snapshot.now, chain=_chain_of(scheduler), find=scheduler.known_pod)

    def _free_later(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._copy.drop)


def _chain_of(scheduler: Scheduler) -> Callable[[CompiledPolicy | None, PodView], Chain]:
    chains = {profile.name: profile.chain for profile in scheduler.profiles}

    def chain(policy: CompiledPolicy | None, pod: PodView) -> Chain:
        own = chains.get(pod.object.spec.scheduler_name) or next(iter(chains.values()))
        if policy is None:
            return own
        return with_policies(own, [*(other for other in own.policies if other.name != policy.name), policy])

    return chain


def workbench_of(health: Health, clock: Clock) -> Workbench:
    """The workbench of a running scheduler."""
    return Workbench(LiveClusters(health, clock), clock, LIMITS)
