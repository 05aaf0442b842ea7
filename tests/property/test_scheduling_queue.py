"""The queue under any order of events: no pod is lost, none is popped twice, none is forgotten."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from tests.in_memory import ManualClock
from tests.unit.scheduler.running import node, view
from wharfinger.framework.chain import assemble
from wharfinger.framework.cluster_event import Change, ClusterEvent, node_added
from wharfinger.framework.plugins.node_resources import NodeResourcesFit
from wharfinger.framework.plugins.pods.inter_pod_affinity import InterPodAffinity
from wharfinger.framework.plugins.taint_toleration import TaintToleration
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.scheduler.profiles import Profile
from wharfinger.scheduler.queue.scheduling_queue import SchedulingQueue
from wharfinger.scheduler.queued_pods import Place

PROFILE = Profile("wharfinger", assemble())
PLUGINS = (NodeResourcesFit(), TaintToleration(), InterPodAffinity())
NAMES = st.sampled_from("abcdefgh")
REJECTORS = st.frozensets(st.sampled_from(PLUGINS))
EVENTS = st.sampled_from([ClusterEvent.POD_REMOVED, ClusterEvent.POD_PLACED, ClusterEvent.NODE_TAINT, ClusterEvent.NODE_LABEL])


class Queue(RuleBasedStateMachine):
    popped = Bundle("popped")

    def __init__(self):
        super().__init__()
        self.clock = ManualClock()
        self.state = ClusterState()
        self.state.add_node(node("n"))
        self.queue = SchedulingQueue(self.clock, self.state.snapshot)
        self.pending = set()
        self.trying = {}

    @rule(name=NAMES, priority=st.integers(0, 3), cpu=st.sampled_from(["1", "9"]), gated=st.booleans())
    def add_or_update(self, name, priority, cpu, gated):
        gates = [{"name": "g"}] if gated else []
        self.queue.add(view(name, cpu=cpu, priority=priority, schedulingGates=gates), PROFILE)
        self.pending.add(name)

    @rule(name=NAMES)
    def delete(self, name):
        assert (self.queue.delete(f"uid-{name}") is not None) == (name in self.pending)
        self.pending.discard(name)
        self.trying.pop(name, None)

    @rule(target=popped)
    def pop(self):
        queued = self.queue.pop()
        if queued is None:
            assert self.queue.depths["active"] == 0
            return None
        name = queued.pod.name
        assert name in self.pending
        assert name not in self.trying
        self.trying[name] = queued
        return queued

    @rule(queued=consumes(popped), rejectors=REJECTORS)
    def reject(self, queued, rejectors):
        self.end(queued, lambda: self.queue.reject(queued, rejectors))

    @rule(queued=consumes(popped))
    def fail(self, queued):
        self.end(queued, lambda: self.queue.fail(queued))

    @rule(queued=consumes(popped))
    def put_back(self, queued):
        self.end(queued, lambda: self.queue.put_back(queued))

    @rule(queued=consumes(popped))
    def wait_for_event(self, queued):
        self.end(queued, lambda: self.queue.wait_for_event(queued))

    @rule(queued=consumes(popped))
    def done(self, queued):
        if queued is not None:
            name = queued.pod.name
            if self.trying.get(name) is queued:
                self.pending.discard(name)
            self.end(queued, lambda: self.queue.done(queued))

    def end(self, queued, how):
        if queued is not None:
            how()
            if self.trying.get(queued.pod.name) is queued:
                del self.trying[queued.pod.name]

    @rule(event=EVENTS)
    def happens(self, event):
        self.queue.notify(Change(events=event, label="Event", node="n"))

    @rule(name=NAMES)
    def activate(self, name):
        self.queue.activate(f"uid-{name}")

    @rule(seconds=st.sampled_from([0.3, 1.0, 15.0, 400.0]))
    def wait(self, seconds):
        self.clock.move(seconds)
        self.queue.flush()

    @invariant()
    def every_pod_is_in_one_place(self):
        assert {queued.pod.name for queued in self.queue} == self.pending
        depths = dict(self.queue.depths)
        assert sum(depths.values()) == len(self.pending)
        assert depths["in_flight"] == len(self.trying)
        for place, name in ((Place.ACTIVE, "active"), (Place.UNSCHEDULABLE, "unschedulable"), (Place.GATED, "gated")):
            assert sum(1 for queued in self.queue if queued.place is place) == depths[name]

    @invariant()
    def events_are_kept_only_for_pods_in_flight(self):
        assert self.trying or self.queue._in_flight.n_changes == 0

    def teardown(self):
        for queued in list(self.trying.values()):
            self.queue.fail(queued)
        for name in "abcdefgh":
            if name in self.pending:
                self.queue.add(view(name), PROFILE)  # without gates now
        for _ in range(3):
            self.clock.move(400)
            self.queue.flush()
        found = set()
        while (queued := self.queue.pop()) is not None:
            found.add(queued.pod.name)
        assert found == self.pending


Queue.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestQueue = Queue.TestCase


def test_new_nodes_wake_pods_without_known_rejectors():
    machine = Queue()
    machine.queue.add(view("a"), PROFILE)
    machine.queue.reject(machine.queue.pop(), frozenset())
    assert machine.queue.notify(node_added(node("n"))) == 1
