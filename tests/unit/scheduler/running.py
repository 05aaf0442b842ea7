"""A scheduler on a cluster in memory, for the tests of this folder."""

import asyncio
from contextlib import asynccontextmanager

import msgspec

from tests.in_memory import InMemoryCluster, ManualClock
from tests.observed import subscribed
from wharfinger.emit import Failed
from wharfinger.framework.chain import assemble
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.scheduler.events import AttemptEnded, GroupAttemptEnded, PodQueued, PodsFlushed, Preempted
from wharfinger.scheduler.ports import Ports, not_measured
from wharfinger.scheduler.scheduler import Scheduler, SchedulerSettings


class Watching:
    """A subscriber that keeps everything."""

    def __init__(self):
        self.attempts = []
        self.groups = []
        self.queues = []
        self.preemptions = []
        self.flushes = 0
        self.failures = []
        self.handlers = {
            AttemptEnded: self.attempts.append,
            GroupAttemptEnded: self.groups.append,
            PodQueued: lambda event: self.queues.append((event.queue, event.cause)),
            Preempted: lambda event: self.preemptions.append((event.preemptor.key, event.node, event.victims)),
            PodsFlushed: self._flushed,
            Failed: lambda event: self.failures.append((event.where, event.error)),
        }
        self.emit = subscribed(self.handlers).emit

    def _flushed(self, event):
        self.flushes += event.pods


def ticking(seconds):
    """A timer of CPU time that shows so many seconds more each time."""
    reads = iter(range(10**9))
    return lambda: next(reads) * seconds


class Office:
    """A leadership that can be lost."""

    is_leader = True

    async def run(self, on_started, on_stopped):
        await on_started()


def node(name, cpu="4", labels=(), taints=(), unschedulable=False):
    manifest = {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **dict(labels)}},
        "spec": {"taints": list(taints), "unschedulable": unschedulable},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}},
    }
    return msgspec.convert(manifest, objects.Node)


def pod(name, cpu="1", uid="", priority=0, scheduler="wharfinger", **spec):
    manifest = {
        "metadata": {"name": name, "namespace": "default", "uid": uid or f"uid-{name}", "labels": spec.pop("labels", {})},
        "spec": {
            "schedulerName": scheduler,
            "priority": priority,
            "containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}],
            **spec,
        },
    }
    return msgspec.convert(manifest, objects.Pod)


def view(*arguments, **more):
    return PodView(pod(*arguments, **more))


class Running:
    """A running scheduler with everything around it."""

    def __init__(
        self,
        chains=None,
        settings=None,
        volumes=True,
        subscribers=None,
        *,
        claims=None,
        stopwatch=not_measured,
        state=None,
        rest=lambda: 0.0,
        cluster=InMemoryCluster,
        clock=ManualClock,
    ):
        self.cluster = cluster()
        self.clock = clock()
        self.seen = Watching()
        self.subscribers = subscribers or subscribed(self.seen.handlers)
        self.office = Office()
        self.suspensions = []
        self.claims = claims and claims(self.cluster)
        ports = Ports(
            binder=self.cluster,
            writer=self.cluster,
            events=self.cluster,
            clock=self.clock,
            leadership=self.office,
            emit=self.subscribers.emit,
            stopwatch=stopwatch,
            volumes=self.cluster if volumes else None,
            claims=self.claims,
            groups=self.cluster,
        )
        self.scheduler = Scheduler(
            chains or {"wharfinger": assemble()},
            ports,
            settings or SchedulerSettings(),
            state,
            rest=rest,
            suspension_changed=self._suspension_changed,
        )

    def _suspension_changed(self, policy, revision):
        self.suspensions.append((policy, revision))

    async def calm(self):
        """Let everything run that can without time passing."""
        for _ in range(60):
            await asyncio.sleep(0)

    async def pass_time(self, seconds, step=0.5):
        passed = 0.0
        while passed < seconds:
            self.clock.move(step)
            passed += step
            await self.calm()

    def reasons(self):
        return [(pod, event.reason) for pod, event in self.cluster.events]


@asynccontextmanager
async def running(*things, **more):
    world = Running(**more)
    for thing in things:
        world.cluster.put(thing)
    async with scheduling(world):
        yield world


@asynccontextmanager
async def scheduling(world):
    """The scheduler of a world runs until the context ends."""
    world.cluster.connect(world.scheduler.sink)
    task = asyncio.create_task(world.scheduler.run())
    try:
        await world.calm()
        yield
    finally:
        world.scheduler.stop()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


MOUNT = {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "claim"}}]}


def storage_class(provisioner):
    manifest = {"metadata": {"name": "late"}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    return msgspec.convert(manifest, objects.StorageClass)


def claim():
    spec = {"storageClassName": "late", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return msgspec.convert({"metadata": {"name": "claim", "namespace": "default", "uid": "c"}, "spec": spec}, objects.PersistentVolumeClaim)


def volume():
    spec = {"storageClassName": "late", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}}
    manifest = {"metadata": {"name": "disk"}, "spec": spec, "status": {"phase": "Available"}}
    return msgspec.convert(manifest, objects.PersistentVolume)
