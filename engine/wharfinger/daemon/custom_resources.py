"""Custom resources in the running scheduler: watched by every replica, reconciled by the one that leads."""

from __future__ import annotations

from wharfinger.daemon.background_tasks import Tasks
from wharfinger.emit import Emit
from wharfinger.framework.ports import Clock
from wharfinger.kube.api_server import ApiServer
from wharfinger.kube.connection import Connection
from wharfinger.language.semantics.authority import TenantRights
from wharfinger.operator.compose import CustomResources, Reconcilers
from wharfinger.operator.scheduling_policy import Policies
from wharfinger.scheduler.scheduler import Scheduler
from wharfinger.telemetry.logs import Log


class Operator:
    """The custom resources of one process."""

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        emit: Emit,
        rights: TenantRights | None = None,
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._emit = emit
        self.resources = CustomResources(connection, clock, emit, rights)
        self.reconcilers: Reconcilers | None = None

    def reconcile(self, scheduler: Scheduler, server: ApiServer, policies: Policies) -> None:
        """Makes the reconcilers, which run from `start` on. To be called before the informers run."""
        self.reconcilers = Reconcilers(
            self.resources,
            scheduler,
            self._connection,
            server.recorder,
            clock=self._clock,
            leadership=server.leadership,
            emit=self._emit,
            policies=policies,
        )
        server.informers.subscribe(self.reconcilers.pods)

    def depths(self) -> dict[tuple[str, ...], float]:
        """How many objects wait for each controller."""
        controllers = () if self.reconcilers is None else self.reconcilers.controllers
        return {(controller.name,): float(len(controller.queue)) for controller in controllers}

    def start(self, tasks: Tasks, log: Log) -> None:
        """Watches and reconciles from now on."""
        tasks.start(self.resources.run(), "custom resources")
        tasks.start(self._say(log), "definitions")
        if self.reconcilers is not None:
            tasks.start(self.reconcilers.run(), "reconcilers")

    async def stop(self) -> None:
        """Waits until what is being reconciled is done, within a limit."""
        if self.reconcilers is not None:
            await self.reconcilers.stop()

    def _say_missing(self, kinds: frozenset[str], log: Log) -> None:
        informers = self.resources.informers
        absent = kinds & informers.absent
        if absent:
            fix = "wharf install --print | kubectl apply -f -"
            log.warning("custom resources are not defined; going on without", kinds=sorted(absent), fix=fix)
        if kinds - absent:
            why = "; ".join(f"{kind}: {informers.refused[kind]}" for kind in sorted(kinds - absent) if kind in informers.refused)
            log.warning("objects may not be read; going on without", kinds=sorted(kinds - absent), why=why)

    async def _say(self, log: Log) -> None:
        """Logs which kinds are missing, and when they appear; never returns."""
        await self.resources.informers.wait_synced()
        missing: frozenset[str] = frozenset()
        while True:
            now = frozenset(self.resources.informers.refused)
            if now - missing:
                self._say_missing(now - missing, log)
            if missing - now:
                log.info("objects can be read now", kinds=sorted(missing - now))
            missing = now
            await self._clock.sleep(1.0)
