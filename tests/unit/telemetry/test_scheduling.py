"""Each metric moves when what it counts happens, in a scheduler that runs in memory."""

import asyncio

import pytest

from tests.unit.compiler.texts import compiled
from tests.unit.scheduler.running import node, pod
from tests.unit.telemetry.scene import scheduling
from wharfinger.builtins import CATALOGUE
from wharfinger.compiler.program import compile_policy
from wharfinger.daemon.observation import rules_of
from wharfinger.errors import InvalidObject
from wharfinger.framework.chain import Chain, ChainEntry, assemble
from wharfinger.framework.extension import Permission, PermitPlugin, ReservePlugin
from wharfinger.framework.ports import BindFailed
from wharfinger.framework.prepared import Reason
from wharfinger.kube.connection import RequestAnswered
from wharfinger.language.load import TextSet
from wharfinger.language.report.diagnostics import Diagnostics
from wharfinger.language.semantics.authority import Authority
from wharfinger.scheduler.events import AttemptEnded
from wharfinger.telemetry import timing
from wharfinger.telemetry.metrics import request_handlers

PROFILE = {"profile": "wharfinger"}
ZONED = 'policy "zones"\nfilter zoned { require node.labels["zone"] == "east" else "is elsewhere" on missing reject }\n'
ROOMY = 'policy "roomy"\nfilter room { require node.free.cpu >= 1500m else "is half full" }\n'
SPARE = 'policy "spare"\nscore room weight 1 = least_allocated(cpu: 1)\n'


def run(story):
    asyncio.run(story())


def with_plugin(plugin):
    base = assemble()
    return {"wharfinger": Chain(entries=(*base.entries, ChainEntry(plugin=plugin, weight=None)))}


def test_subscribers_get_each_attempt(scene):
    seen = []
    scene.subscribers.subscribe({AttemptEnded: seen.append})

    async def story():
        async with scheduling(node("a"), pod("one"), pod("two"), scene=scene):
            pass

    run(story)
    assert sorted((attempt.pod.key, attempt.result) for attempt in seen) == [("default/one", "scheduled"), ("default/two", "scheduled")]


def test_pods_that_are_placed(scene):
    async def story():
        async with scheduling(node("a"), pod("one"), pod("two"), scene=scene) as world:
            assert len(world.cluster.bindings) == 2

    run(story)
    assert scene.value("scheduler_schedule_attempts_total", result="scheduled", **PROFILE) == 2
    assert scene.value("scheduler_scheduling_attempt_duration_seconds_count", result="scheduled", **PROFILE) == 2
    assert scene.value("scheduler_scheduling_algorithm_duration_seconds_count") == 2
    assert scene.value("scheduler_pod_scheduling_sli_duration_seconds_count", attempts="1") == 2
    assert scene.value("scheduler_pod_scheduling_attempts_bucket", le="1.0") == 2
    assert scene.value("scheduler_queue_incoming_pods_total", queue="active", event="PodAdd") == 2
    for point in ("Reserve", "Bind"):
        labels = {"extension_point": point, "status": "Success", **PROFILE}
        assert scene.value("scheduler_framework_extension_point_duration_seconds_count", **labels) == 2


def test_an_unschedulable_pod_that_fits_later(scene):
    async def story():
        async with scheduling(node("a", cpu="1"), pod("big", cpu="2"), scene=scene) as world:
            world.clock.move(100)
            world.cluster.put(node("b"))
            await world.pass_time(2)
            assert world.cluster.nodes_of_pods() == {"default/big": "b"}

    run(story)
    assert scene.value("scheduler_schedule_attempts_total", result="unschedulable", **PROFILE) == 1
    assert scene.value("scheduler_queue_incoming_pods_total", queue="unschedulable", event="ScheduleAttemptFailure") == 1
    assert scene.value("scheduler_queue_incoming_pods_total", queue="active", event="NodeAdd") == 1
    assert scene.value("scheduler_pod_scheduling_sli_duration_seconds_count", attempts="2") == 1
    assert scene.value("scheduler_pod_scheduling_sli_duration_seconds_sum", attempts="2") >= 100
    assert scene.value("scheduler_pod_scheduling_attempts_sum") == 2
    assert scene.value("scheduler_scheduling_attempt_duration_seconds_sum", result="scheduled", **PROFILE) < 100


def test_time_behind_a_gate_is_not_the_scheduler_s(scene):
    async def story():
        gated = pod("shy", schedulingGates=[{"name": "wait"}])
        async with scheduling(node("a"), gated, scene=scene) as world:
            world.clock.move(500)
            world.cluster.put(pod("shy"))
            await world.calm()
            assert world.cluster.bindings

    run(story)
    assert scene.value("scheduler_pod_scheduling_sli_duration_seconds_sum", attempts="1") == 0


def test_a_bind_that_fails(scene):
    def fail(pod, node):
        raise BindFailed("no")

    async def story():
        async with scheduling(node("a"), scene=scene) as world:
            world.cluster.before_bind = fail
            world.cluster.put(pod("one"))
            await world.calm()

    run(story)
    assert scene.value("scheduler_schedule_attempts_total", result="error", **PROFILE) == 1
    assert scene.value("wharfinger_errors_total", place="pod") == 1
    counts = scene.samples("scheduler_framework_extension_point_duration_seconds_count")
    statuses = {dict(labels)["extension_point"]: dict(labels)["status"] for labels in counts}
    assert (statuses["Reserve"], statuses["Bind"]) == ("Success", "Error")


def test_a_placement_that_a_reservation_refuses(scene):
    class Full(ReservePlugin):
        name = "Full"

        def reserve(self, placement):
            return Reason("full")

        def unreserve(self, placement):
            pass

    async def story():
        async with scheduling(node("a"), pod("one"), chains=with_plugin(Full()), scene=scene):
            pass

    run(story)
    labels = {"extension_point": "Reserve", "status": "Unschedulable", **PROFILE}
    assert scene.value("scheduler_framework_extension_point_duration_seconds_count", **labels) == 1


def test_a_placement_that_waits_for_a_permit(scene):
    class Later(PermitPlugin):
        name = "Later"

        def permit(self, placement, others):
            return Permission(approved=False, wait_seconds=3)

    async def story():
        async with scheduling(node("a"), pod("one"), chains=with_plugin(Later()), scene=scene) as world:
            await world.pass_time(4)

    run(story)
    assert scene.value("scheduler_permit_wait_duration_seconds_sum", result="Unschedulable") == pytest.approx(3, abs=0.5)


def test_pods_that_make_room(scene):
    async def story():
        async with scheduling(node("a", cpu="2"), pod("low-1"), pod("low-2"), scene=scene) as world:
            world.cluster.put(pod("high", cpu="2", priority=100))
            await world.pass_time(4)

    run(story)
    assert scene.value("scheduler_preemption_attempts_total") == 1
    assert scene.value("scheduler_preemption_victims_sum") == 2
    assert [(line["pod"], line["node"], line["victims"]) for line in scene.lines("preemption")] == [("default/high", "a", 2)]


def test_an_event_that_was_missed(scene):
    async def story():
        async with scheduling(node("a", cpu="1"), pod("big", cpu="2"), scene=scene) as world:
            world.scheduler.state.add_node(node("b"))  # the queue does not learn of it
            await world.pass_time(400, step=10)
            assert world.cluster.bindings

    run(story)
    assert scene.value("wharfinger_missed_hints_total") == 1
    assert scene.value("scheduler_pod_scheduled_after_flush_total") == 1


def test_a_pod_that_fitted_after_an_event_was_not_flushed(scene):
    async def story():
        async with scheduling(node("a", cpu="1"), pod("big", cpu="2"), scene=scene) as world:
            await world.pass_time(400, step=10)
            world.cluster.put(node("b"))
            await world.pass_time(20)
            assert world.cluster.bindings

    run(story)
    assert scene.value("wharfinger_missed_hints_total") == 1
    assert scene.value("scheduler_pod_scheduled_after_flush_total") == 0


def test_an_object_that_cannot_be_read(scene):
    async def story():
        async with scheduling(node("a"), scene=scene) as world:

            def refuse(found):
                raise InvalidObject("no such thing")

            world.scheduler.state.add_node = refuse
            world.cluster.put(node("b"))

    run(story)
    assert scene.value("wharfinger_errors_total", place="object") == 1


def test_rules_of_policies_count_what_they_really_look_at(scene):
    chains = {"wharfinger": assemble([compiled(ZONED)])}
    nodes = [node(name, labels={"zone": zone}) for name, zone in (("a", "east"), ("b", "east"), ("c", "west"))]

    async def story():
        async with scheduling(*nodes, pod("one"), chains=chains, scene=scene) as world:
            rule = {"policy": "zones", "rule": "zoned"}
            assert scene.value("wharfinger_policy_rule_evaluations_total", **rule) == 3
            assert scene.value("wharfinger_policy_rule_rejections_total", **rule) == 1
            assert scene.value("wharfinger_policy_rule_seconds_total", **rule) > 0
            world.cluster.put(pod("two"))  # a label is as it was: nothing is evaluated again
            await world.calm()
            assert len(world.cluster.bindings) == 2
            assert scene.value("wharfinger_policy_rule_evaluations_total", **rule) == 3
            world.cluster.put(node("b", labels={"zone": "west"}))
            world.cluster.put(pod("three"))
            await world.calm()
            assert scene.value("wharfinger_policy_rule_evaluations_total", **rule) == 4
            assert scene.value("wharfinger_policy_rule_rejections_total", **rule) == 2

    run(story)


def test_rules_of_a_policy_of_a_namespace_have_one_series_together(scene):
    """Its author decides how many rules there are, and Prometheus keeps every series in memory."""
    rules = "".join(f'filter f{number} {{ require node.free.cpu > {number}m else "full" }}\n' for number in range(20))
    text = f'policy "many"\n{rules}score s = 1\n'
    policy = compile_policy(TextSet(texts={"p": text.encode()}).check("p", CATALOGUE, Diagnostics(), Authority("default")).policy)

    async def story():
        nodes = (node("a"), node("b", cpu="1m"))
        async with scheduling(*nodes, pod("one"), chains={"wharfinger": assemble([policy])}, scene=scene) as world:
            scene.scheduling.limit_rules_to(lambda: rules_of(world.scheduler))
            for name, least in (("evaluations", 2 + 19), ("rejections", 1), ("seconds", 0)):
                found = scene.samples(f"wharfinger_policy_rule_{name}_total")
                assert [dict(labels) for labels in found] == [{"policy": "many", "rule": "*"}]
                assert sum(found.values()) >= least
            world.scheduler.adopt({"wharfinger": assemble()})
            assert scene.samples("wharfinger_policy_rule_seconds_total") == {}

    run(story)


def test_rules_that_are_gone_have_no_series_any_more(scene):
    rule = {"policy": "zones", "rule": "zoned"}

    async def story():
        async with scheduling(node("a"), pod("one"), chains={"wharfinger": assemble([compiled(ZONED)])}, scene=scene) as world:
            scene.scheduling.limit_rules_to(lambda: rules_of(world.scheduler))
            assert scene.value("wharfinger_policy_rule_evaluations_total", **rule) == 1
            world.scheduler.adopt({"wharfinger": assemble([compiled(ZONED)])})
            assert scene.value("wharfinger_policy_rule_evaluations_total", **rule) == 1, "the same text once more"
            world.scheduler.adopt({"wharfinger": assemble()})
            for name in ("evaluations", "rejections", "seconds"):
                assert scene.value(f"wharfinger_policy_rule_{name}_total", **rule) is None

    run(story)


def test_a_filter_counts_the_node_that_got_full(scene):
    chains = {"wharfinger": assemble([compiled(ROOMY)])}

    async def story():
        async with scheduling(node("a", cpu="2"), node("b", cpu="2"), pod("one"), pod("two"), chains=chains, scene=scene):
            rule = {"policy": "roomy", "rule": "room"}
            assert scene.value("wharfinger_policy_rule_evaluations_total", **rule) == 2 + 1
            assert scene.value("wharfinger_policy_rule_rejections_total", **rule) == 1

    run(story)


def test_a_score_counts_the_nodes_whose_usage_changed(scene):
    chains = {"wharfinger": assemble([compiled(SPARE)])}

    async def story():
        async with scheduling(*(node(name) for name in "abcd"), pod("one"), pod("two"), chains=chains, scene=scene):
            rule = {"policy": "spare", "rule": "room"}
            assert scene.value("wharfinger_policy_rule_evaluations_total", **rule) == 4 + 1  # all, then the node that got the first
            assert scene.value("wharfinger_policy_rule_rejections_total", **rule) == 0

    run(story)


def test_counts_continue_when_policies_are_adopted_again(scene):
    rule = {"policy": "zones", "rule": "zoned"}

    async def story():
        async with scheduling(
            node("a", labels={"zone": "east"}), pod("one"), chains={"wharfinger": assemble([compiled(ZONED)])}, scene=scene
        ) as world:
            world.scheduler.adopt({"wharfinger": assemble([compiled(ZONED.replace("elsewhere", "not here"))])})
            world.cluster.put(pod("two"))
            await world.calm()

    run(story)
    assert scene.value("wharfinger_policy_rule_evaluations_total", **rule) == 2


@pytest.mark.parametrize(("chance", "shown"), [(0.0, 3), (0.99, 0)])
def test_extension_points_and_plugins_show_the_decisions_that_chance_picks(scene, monkeypatch, chance, shown):
    monkeypatch.setattr(timing.random, "random", lambda: chance)
    monkeypatch.setattr(
        scene.scheduling,
        "stopwatch",
        lambda profile: timing.DecisionStopwatch(scene.metrics, timing.StatisticsOfRules(scene.metrics), profile, chance=lambda: chance),
    )

    async def story():
        async with scheduling(node("a", cpu="2"), pod("one"), pod("two"), pod("three"), scene=scene):
            pass

    run(story)
    points = scene.samples("scheduler_framework_extension_point_duration_seconds_count")
    counts = {(dict(key)["extension_point"], dict(key)["status"]): value for key, value in points.items()}
    assert counts.get(("Filter", "Success"), 0) + counts.get(("Filter", "Unschedulable"), 0) == shown
    assert counts.get(("PostFilter", "Unschedulable"), 0) == (1 if shown else 0)
    assert counts.get(("PreFilter", "Success"), 0) == (1 if shown else 0)  # the first decision starts from scratch
    plugins = scene.samples("scheduler_plugin_execution_duration_seconds_count")
    found = {dict(key)["extension_point"] for key in plugins if dict(key)["plugin"] == "NodeResourcesFit"}
    assert found == ({"PreFilter", "Filter", "Score"} if shown else set())


def test_requests_by_code_and_method(scene):
    scene.subscribers.subscribe(request_handlers(scene.metrics, "https://user:word@[::1]:6443/base"))
    scene.emit(RequestAnswered("POST", 201, 0.003))
    scene.emit(RequestAnswered("POST", 0, 30.0))
    scene.emit(RequestAnswered("GET", 200, None))
    host = "[::1]:6443"
    assert scene.value("rest_client_requests_total", code="201", method="POST", host=host) == 1
    assert scene.value("rest_client_requests_total", code="<error>", method="POST", host=host) == 1
    assert scene.value("rest_client_requests_total", code="200", method="GET", host=host) == 1
    assert scene.value("rest_client_request_duration_seconds_count", verb="POST", host=host) == 2
    assert scene.value("rest_client_request_duration_seconds_count", verb="GET", host=host) is None
