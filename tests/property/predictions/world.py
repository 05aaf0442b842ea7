"""A drawn cluster in memory with the scheduler and the controllers that act on what scheduling reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

from msgspec.structs import replace

from tests.in_memory import InMemoryCluster, ManualClock
from tests.property.predictions.drawn_cluster import BEGIN, BOUND, DrawnCluster
from tests.unit.scheduler.running import Running, scheduling
from wharfinger.compiler.program import CompiledPolicy
from wharfinger.event_loop import Backoff
from wharfinger.framework.chain import assemble
from wharfinger.model import objects
from wharfinger.model.devices.allocated import with_allocation, with_reservation
from wharfinger.model.objects import matching
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading.files import Objects
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.scheduler.queue.sub_queues import QueueSettings
from wharfinger.scheduler.scheduler import SchedulerSettings
from wharfinger.simulate.cluster import Cluster, cluster_of
from wharfinger.what_if.leaving_pods import Evictions, healthy, recreated

BACKOFF = 20.0
TICK = 1e-6
"""Seconds between two readings of the clock: all readings of a test together are much less than the windows that backoffs end in."""
MARKED = datetime.fromtimestamp(BEGIN, UTC)
CREATES_AT_THE_MARK = frozenset({"ReplicaSet"})
CREATES_WHEN_GONE = frozenset({"StatefulSet", "DaemonSet"})
CREATES_LATER = frozenset({"Job"})
"""Controllers that create the replacement of a pod as soon as it is marked as deleted, that wait until it is gone, and that wait longer."""


class TickingClock(ManualClock):
    """A clock that moves a little whenever it is read, as real time does: no two attempts of the scheduler end at the same time."""

    def monotonic(self):
        """Seconds since the clock was made."""
        self._elapsed += TICK
        return self._elapsed


class ControlledCluster(InMemoryCluster):
    """A cluster in memory whose volumes and claims are bound by their controllers at once."""

    async def reserve_volume(self, volume, claim):
        await super().reserve_volume(volume, claim)
        there = self._objects["PersistentVolumeClaim"][objects.key_of(claim)]
        own = self._objects["PersistentVolume"][volume.metadata.name]
        self.put(replace(own, status=replace(own.status, phase="Bound")))
        metadata = replace(there.metadata, annotations={**there.metadata.annotations, **BOUND})
        spec, status = replace(there.spec, volume_name=volume.metadata.name), replace(there.status, phase="Bound")
        self.put(replace(there, metadata=metadata, spec=spec, status=status))

    def of(self, kind: type) -> list:
        """The objects of a kind."""
        return list(self._objects.get(objects.kind_of(kind()), {}).values())

    def everything(self) -> dict:
        """The objects by kind."""
        return self._objects


class Claims:
    """The writer of claims for devices, and the controller that makes claims of templates and takes devices back."""

    def __init__(self, cluster):
        self._cluster = cluster

    def _claim(self, claim):
        return self._cluster.everything()["ResourceClaim"][objects.key_of(claim)]

    async def reserve(self, claim, pod, allocation):
        there = self._claim(claim)
        changed = there if allocation is None else with_allocation(there, allocation)
        self._cluster.put(with_reservation(changed, pod))
        return self._claim(claim)

    async def unreserve(self, claim, pod):
        self.released(self._claim(claim), pod.uid)

    def released(self, claim, uid):
        left = tuple(each for each in claim.status.reserved_for if each.uid != uid)
        allocation = claim.status.allocation if left else None
        self._cluster.put(replace(claim, status=replace(claim.status, allocation=allocation, reserved_for=left)))

    def make(self, pod):
        """The pod, with the claims made that it asks for."""
        made = []
        for use in pod.spec.resource_claims:
            template = self._cluster.of(objects.ResourceClaimTemplate)[0]
            name = f"{pod.metadata.name}-{use.name}-{pod.metadata.uid}"
            owner = objects.OwnerReference(api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid, controller=True)
            metadata = objects.ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", owner_references=(owner,))
            self._cluster.put(objects.ResourceClaim(metadata=metadata, spec=template.spec.spec))
            made.append(objects.PodResourceClaimStatus(name=use.name, resource_claim_name=name))
        return replace(pod, status=replace(pod.status, resource_claim_statuses=tuple(made))) if made else pod

    def remove(self, pod):
        """Remove the claims of a pod that is gone."""
        for status in pod.status.resource_claim_statuses:
            with suppress(KeyError):
                self._cluster.remove("ResourceClaim", f"default/{status.resource_claim_name}")


class World(Running):
    """The scheduler and the controllers on a drawn cluster. `pause`: the seconds that pass between two changes."""

    def __init__(self, drawn: DrawnCluster, policies: Iterable[CompiledPolicy], pause: float, named: dict | None = None) -> None:
        queue = QueueSettings(backoff=Backoff(initial=BACKOFF, maximum=BACKOFF), longest_wait=1e9)
        chains = named or {"wharfinger": assemble(list(policies))}
        super().__init__(chains, SchedulerSettings(queue=queue), claims=Claims, cluster=ControlledCluster, clock=TickingClock)
        self.cluster.graceful = True
        self.drawn = drawn
        self.pause = pause
        self.again = 0
        self.delayed: list[objects.Pod] = []  # pods that a controller creates again once nothing else happens
        self.original = {objects.key_of(pod): pod.metadata.uid for pod in drawn.pods}
        for obj in (*drawn.nodes, *drawn.others):
            self.cluster.put(obj)

    def create(self, pod: objects.Pod) -> None:
        """Create a pod and its claims."""
        pod = self.claims.make(pod)
        self.cluster.put(pod)

    async def settle(self) -> None:
        """Let everything happen that happens without others, and then time pass."""
        await self.controlled()
        self.clock.move(self.pause)
        self.measure()
        await self.controlled()

    def measure(self) -> None:
        """Take the samples of metrics again; those of some nodes are old."""
        for name, samples in self.samples().items():
            self.scheduler.state.set_metric(name, samples)

    async def controlled(self) -> None:
        """Let the scheduler and the controllers work until nothing changes; victims of preemption leave and are created again."""
        for _ in range(50):
            await self.calm()
            self.count_budgets()
            leaving = [pod for pod in self.cluster.pods() if pod.metadata.deletion_timestamp is not None and not self.is_kept(pod)]
            if leaving:
                await self.leave(leaving)
            elif self.delayed:
                delayed, self.delayed = self.delayed, []
                self.create_again(delayed)
            else:
                return

    def is_kept(self, pod: objects.Pod) -> bool:
        """True if a pod that is marked as deleted does not go yet."""
        return False

    async def leave(self, leaving: list[objects.Pod]) -> None:
        """The controllers create pods of these again, and these go."""
        await self.calm()
        early = [pod for pod in leaving if owner_of(pod) in CREATES_AT_THE_MARK]
        late = [pod for pod in leaving if owner_of(pod) in CREATES_WHEN_GONE]
        delayed = [pod for pod in leaving if owner_of(pod) in CREATES_LATER]
        self.create_again(early)
        await self.calm()
        for pod in leaving:
            self.gone(pod)
            await self.calm()
        self.create_again(late)
        self.delayed += delayed
        await self.calm()
        self.count_budgets()
        await self.calm()
        self.clock.move(2 * BACKOFF)  # pods that a rule about metrics rejects are tried again only then
        self.measure()
        await self.calm()

    def gone(self, pod: objects.Pod) -> None:
        """Remove a pod and its claims."""
        key = objects.key_of(pod)
        if key in self.cluster.everything()["Pod"]:
            there = self.cluster.pod(key)
            self.cluster.remove("Pod", key)
            self.claims.remove(there)

    def create_again(self, pods: list[objects.Pod]) -> None:
        """Create these pods again at the same time."""
        self.cluster.lagging = True
        for pod in pods:
            self.again += 1
            fresh = recreated(PodView(pod), datetime.fromtimestamp(int(self.clock.now()), UTC)).object
            name, owner = pod.metadata.name, owner_of(pod)
            name = name if owner in CREATES_WHEN_GONE else f"{name.partition('.')[0]}.{self.again}"
            uid = f"{self.original[f'default/{pod.metadata.name.partition(chr(46))[0]}']}-{self.again}"
            self.create(replace(fresh, metadata=replace(fresh.metadata, name=name, uid=uid), status=objects.PodStatus()))
        self.cluster.lagging = False
        self.cluster.catch_up()

    def count_budgets(self) -> None:
        """Write the status of each budget."""
        for budget in self.cluster.of(objects.PodDisruptionBudget):
            wanted = matching.label_selector(budget.spec.selector)
            placed = [view for view in map(PodView, self.cluster.pods()) if view.node_name and view.labels and not view.terminating]
            n_healthy = sum(wanted.matches(view.labels) and healthy(view) for view in placed)
            least = int(budget.spec.min_available)
            status = objects.PodDisruptionBudgetStatus(
                current_healthy=n_healthy, desired_healthy=least, disruptions_allowed=max(0, n_healthy - least)
            )
            if status != budget.status:
                self.cluster.put(replace(budget, status=status))

    def evictable(self, pod: objects.Pod) -> bool:
        """True if the Eviction API would let the pod go now."""
        state = ClusterState()
        for budget in self.cluster.of(objects.PodDisruptionBudget):
            state.put(budget)
        return Evictions(state.objects).refusal(PodView(pod)) is None

    # ── what is there ──

    def capture(self) -> Cluster:
        """The cluster as a snapshot of it would be read."""
        by_kind = {}
        for members in self.cluster.everything().values():
            for obj in members.values():
                by_kind.setdefault(type(obj), []).append(obj)
        cluster = cluster_of(Objects(by_kind=by_kind, taken_at=self.clock.now()))
        for name, samples in self.samples().items():
            cluster.state.set_metric(name, samples)
        return cluster

    def samples(self) -> dict:
        times = {node: (value, self.clock.now() - age) for node, (value, age) in self.drawn.load.items()}
        return {"load": times} if times else {}

    def places(self) -> dict[str, str | None]:
        """The node of each pod, by its first name."""
        return {pod.metadata.name.partition(".")[0]: pod.spec.node_name or None for pod in self.cluster.pods()}


def owner_of(pod: objects.Pod) -> str:
    """The kind of the controller of a pod, "" for none."""
    return next((owner.kind for owner in pod.metadata.owner_references if owner.controller), "")


@asynccontextmanager
async def at_work(world: World, *, waiting: bool = True) -> Iterator[World]:
    """The scheduler works on the cluster; pods of the cluster that have no node have been tried."""
    for pod in world.drawn.pods:
        if pod.spec.node_name:
            world.create(pod)
    world.count_budgets()
    async with scheduling(world):
        world.measure()
        if waiting:
            for pod in world.drawn.pods:
                if not pod.spec.node_name:
                    world.create(pod)
            await world.settle()
        yield world
    assert not world.seen.failures, world.seen.failures
