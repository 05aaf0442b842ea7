"""After any exception of a third-party plugin, no pod stays assumed, and all other pods continue.

The methods are those of the extension points, found as the fence finds them, so that a new one is tried as well.
"""

import asyncio

import pytest

from tests.in_memory import ManualClock
from tests.unit.scheduler.running import Watching, node, pod, running, view
from wharfinger.errors import PluginFault
from wharfinger.framework import extension, plugin_calls
from wharfinger.framework.chain import Chain, ChainEntry, assemble
from wharfinger.framework.cluster_event import node_added
from wharfinger.framework.prepared import PreparedFilter, PreparedScore, Reason
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.scheduler.profiles import Profile
from wharfinger.scheduler.queue.scheduling_queue import SchedulingQueue
from wharfinger.telemetry.scheduling import place_of


def unfit(pod):
    return "unfit" in pod.name


HARMLESS = {
    "identity": unfit,
    "may_help": lambda pod, change, snapshot: True,
    "bits": lambda pod, snapshot, rows: (snapshot.pod_count[rows] < 0) | unfit(pod),
    "bits_at": lambda pod, snapshot, row: int(unfit(pod)),
    "affected": lambda pod, snapshot, changes, *_: changes.rows,
    "supposing": lambda pod, supposed: (),
    "raw": lambda pod, snapshot, rows: snapshot.pod_count[rows] * 0,
    "raw_at": lambda pod, snapshot, row: 0,
    "sort_key": lambda pod: -pod.priority,
    "post_filter": lambda attempt, rejection: extension.PostFilterOutcome(message="no way out"),
    "permit": lambda placement, waiting: extension.Permission(),
    "annotations": lambda attempt, row: {},
    "pod_devices": lambda attempt, row, claims: (),
    "shortage": lambda attempt, rows: (),
}
"""What each method answers while nothing is wrong; None without an entry here. Those of prepared rules get the pod first."""
AWAITED = {"pre_bind", "bind", "post_bind"}


class Broken(Exception):
    """The exception that the plugin raises."""


PREPARED = {"prepare_filter": PreparedFilter, "prepare_score": PreparedScore}
METHODS = sorted(
    {
        *(name for name in plugin_calls.calls() if name not in {"pod_devices", "shortage"}),  # which explanations alone ask
        *plugin_calls.calls_of(PreparedFilter),
        *plugin_calls.calls_of(PreparedScore),
    }
    - {"is_local", "room"}  # which counting equal pods alone asks
)


def everything(failing):
    """A plugin at every extension point that does no harm, but that one method raises for pods called `victim…`, as long as `ill`."""

    def happens(plugin, name, pod):
        plugin.called.add(name)
        if name == failing and plugin.ill and pod.name.startswith("victim"):
            raise Broken("broken")

    def method(name):
        def call(self, *arguments):
            about = next(found for found in arguments if hasattr(found, "pod") or hasattr(found, "template"))
            pod = getattr(about, "pod", about)
            happens(self, name, pod)
            if name in PREPARED:
                return prepared(self, PREPARED[name], pod)
            return HARMLESS.get(name, lambda *_: False if name == "bind" else None)(*arguments)

        async def awaited(self, *arguments):
            return call(self, *arguments)

        return awaited if name in AWAITED else call

    def prepared(plugin, base, pod):
        def method(name):
            def call(_self, *arguments):
                happens(plugin, name, pod)
                return HARMLESS[name](pod, *arguments)

            return call

        return type("Rule", (base,), {"reasons": (Reason("unfit"),), **{name: method(name) for name in plugin_calls.calls_of(base)}})()

    methods = {name: method(name) for name in plugin_calls.calls()}
    bases = (*extension.POINTS.values(), extension.AnnotatingPlugin, extension.DevicePlugin)
    plugin = type("Everything", bases, {"name": "Everything", **methods})()
    plugin.ill, plugin.called = True, set()
    return plugin


def chain_with(plugin):
    entries = [entry for entry in assemble().entries if not isinstance(entry.plugin, extension.QueueSortPlugin)]
    return Chain(entries=(*entries, ChainEntry(plugin=plugin, weight=1)))


async def everything_happens(world, prefix):
    """All that makes a scheduler call a plugin: placements, a rejection, an event, a binding that fails, a claim, a preemption."""
    world.cluster.put(pod(f"{prefix}-first", cpu="1"))
    await world.calm()
    world.cluster.put(pod(f"{prefix}-second", cpu="1"))
    await world.calm()
    world.cluster.put(pod(f"{prefix}-unfit", cpu="1"))
    await world.pass_time(1)
    world.cluster.put(pod(f"{prefix}-claiming", cpu="1", resourceClaims=[{"name": "gpu", "resourceClaimName": "nowhere"}]))
    await world.calm()
    world.cluster.put(node("spare", cpu="1", labels={"fresh": prefix}))
    await world.pass_time(1)
    world.cluster.put(pod(f"{prefix}-urgent", cpu="4", priority=100))
    await world.pass_time(1)


@pytest.mark.parametrize("failing", METHODS)
def test_a_plugin_that_raises_harms_only_the_pods_it_is_asked_about(failing):
    plugin = everything(failing)

    async def story():
        things = [node("a", cpu="4"), node("b", cpu="4"), pod("low", cpu="3", nodeName="a", priority=-5)]
        async with running(*things, chains={"wharfinger": chain_with(plugin)}) as world:
            refused = []

            def refuse_once(bound, _node):
                if bound.name.endswith("second") and bound.name not in refused:
                    refused.append(bound.name)
                    raise RuntimeError("refused once")

            world.cluster.before_bind = refuse_once
            await everything_happens(world, "victim")
            faults = [error for _, error in world.seen.failures if isinstance(error, PluginFault)]
            assert faults, f"{failing} was called for no pod, or its fault was not reported; called were {sorted(plugin.called)}"
            assert {(fault.plugin, fault.method) for fault in faults} == {("Everything", failing)}
            assert str(faults[0]) == f"plugin Everything failed in {failing}: Broken: broken"
            assert isinstance(faults[0].__cause__, Broken)

            if "default/low" in world.cluster.nodes_of_pods():
                world.cluster.remove("Pod", "default/low")
            world.cluster.put(pod("healthy", cpu="500m"))
            await world.pass_time(3)
            assert "default/healthy" in world.cluster.nodes_of_pods()

            plugin.ill = False
            for late in ("healthy-unfit", "victim-late"):
                world.cluster.put(pod(late, cpu="100m"))
            world.cluster.put(node("c", cpu="8"))
            await world.pass_time(40)
            bound = world.cluster.nodes_of_pods()
            names = {f"default/{name}" for name in ("victim-first", "victim-second", "victim-urgent", "victim-late", "healthy")}
            assert names <= bound.keys()
            snapshot = world.scheduler.state.snapshot()
            assumed = [uid for uid in (f"uid-{name.partition('/')[2]}" for name in names) if world.scheduler.state.is_assumed(uid)]
            assert (assumed, world.scheduler.n_binding) == ([], 0)
            assert int(snapshot.pod_count.sum()) == len(bound)

    asyncio.run(story())


TOLD = sorted(set(METHODS) - {"may_help", "sort_key", "unreserve", "post_bind"})
"""Where the pod concerned waits because of the fault, so that its status has to say why."""


@pytest.mark.parametrize("failing", TOLD)
def test_the_condition_of_a_waiting_pod_names_the_plugin_that_failed(failing):
    plugin = everything(failing)

    async def story():
        things = [node("a", cpu="4"), node("b", cpu="4"), pod("low", cpu="3", nodeName="a", priority=-5)]
        async with running(*things, chains={"wharfinger": chain_with(plugin)}) as world:
            await everything_happens(world, "victim")
            await world.pass_time(2)
            notes = [event.note for name, event in world.cluster.events if "victim" in name and event.reason == "FailedScheduling"]
            assert any(note == f"plugin Everything failed in {failing}: Broken: broken" for note in notes)

    asyncio.run(story())


def test_a_plugin_that_cannot_say_whether_an_event_helps_is_taken_to_say_yes():
    """As in kube-scheduler: its pod would wait for five minutes otherwise."""

    def broken(self, *_):
        raise Broken("broken")

    methods = {"name": "Unsure", "prepare_filter": lambda self, _: None, "may_help": broken}
    plugin = plugin_calls.with_faults_caught(type("Unsure", (extension.FilterPlugin,), methods)())
    clock, state, seen = ManualClock(), ClusterState(), Watching()
    queue = SchedulingQueue(clock, state.snapshot, emit=seen.emit)
    queue.add(view("waiting"), Profile("p", assemble()))
    queue.reject(queue.pop(), frozenset({plugin}))
    assert queue.notify(node_added(node("new"))) == 1
    assert [(place_of(where), error.method) for where, error in seen.failures] == [("plugin", "may_help")]


@pytest.mark.parametrize("method", sorted(plugin_calls.ANSWERS))
def test_an_answer_of_the_wrong_type_is_a_fault_too(method):
    class Odd(Exception):
        pass

    plugin = everything("none")
    kind = type(plugin)
    odd = type("Everything", (kind,), {method: _odd(method)})()
    odd.ill, odd.called = False, set()
    call = getattr(plugin_calls.with_faults_caught(odd), method)

    async def asked():
        answer = call()
        return await answer if asyncio.iscoroutine(answer) else answer

    with pytest.raises(PluginFault, match=f"plugin Everything failed in {method}: PluginContractError: it returned Oddity, not "):
        asyncio.run(asked())


class Oddity:
    """A value that no method may return."""


def _odd(method):
    async def awaited(self):
        return Oddity()

    return awaited if method in AWAITED else lambda self: Oddity()


@pytest.mark.parametrize("method", ["annotations", "pod_devices", "shortage"])
def test_faults_at_extension_points_of_wharfinger_are_caught_too(method):
    def broken(self, *_):
        raise Broken("broken")

    harmless = dict.fromkeys(("annotations", "pod_devices", "shortage"), lambda self, *_: ())
    bases = (extension.FilterPlugin, extension.AnnotatingPlugin, extension.DevicePlugin)
    plugin = type("Choosing", bases, {"name": "Choosing", "prepare_filter": lambda self, _: None, **harmless, method: broken})()
    with pytest.raises(PluginFault, match=f"plugin Choosing failed in {method}: Broken: broken"):
        getattr(plugin_calls.with_faults_caught(plugin), method)(None, None)


def test_built_in_plugins_and_methods_that_are_not_overridden_stay_as_they_are():
    for entry in assemble().entries:
        assert not [name for name in plugin_calls.calls() if name in vars(entry.plugin)]
    plain = type("Plain", (extension.PreEnqueuePlugin,), {"name": "Plain", "pre_enqueue": lambda self, pod: None})()
    assert [name for name in plugin_calls.calls() if name in vars(plugin_calls.with_faults_caught(plain))] == ["pre_enqueue"]


def test_keys_that_cannot_be_compared_leave_the_order_of_priorities():
    keys = iter([object(), {"a": 1}, 3, None])
    plugin = type("Odd", (extension.QueueSortPlugin,), {"name": "Odd", "sort_key": lambda self, pod: next(keys)})()
    seen = Watching()
    profile = Profile("p", Chain(entries=(ChainEntry(plugin=plugin, weight=None),)), emit=seen.emit)
    pods = [view(f"pod-{priority}", priority=priority) for priority in (1, 4, 2, 3)]
    ordered = sorted(pods, key=profile.sort_key)
    assert [each.priority for each in ordered] == [4, 3, 2, 1]
    assert {(place_of(where), error.method) for where, error in seen.failures} == {("plugin", "sort_key")}
