"""The conditions of a SchedulingPolicy."""

import asyncio
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from tests.unit.scheduler.running import node, pod, running
from tests.unit.simulate.clusters import policy
from tests.work import calls
from wharfinger.framework.policy_status import Finding, MetricStatus, Mode, PolicyStatus, Result
from wharfinger.kube.custom_resources import SchedulingPolicy
from wharfinger.language.semantics.authority import TenantRights
from wharfinger.model.objects.metadata import ObjectMeta
from wharfinger.operator.controller import ObjectCache
from wharfinger.operator.policy_checks import PolicyChecks
from wharfinger.operator.scheduling_policy import KIND, PolicyStatusReconciler, conditions_of, ready_of


def status(*findings, mode=Mode.ENFORCE, revision="r", held=1):
    refused = any(each.severity == "error" for each in findings)
    return PolicyStatus(
        name="p",
        source="schedulingpolicies",
        key="p",
        mode=mode,
        result=Result.REFUSED if refused else Result.ACCEPTED,
        revision=revision,
        version=None,
        since=0.0,
        attempted=0.0,
        generation=2,
        generation_in_force=held,
        findings=findings,
    )


SYNTAX = Finding(severity="error", code="P101", message="what is this", file="p", line=3, column=1)
LINT = Finding(severity="warning", code="L201", message="hm", file="p", line=3, column=1)
TEST = Finding(severity="error", code="test", message="the test fails", file="p", line=9, column=1)
CLASH = Finding(severity="error", code="set", message="there are two")

LACKING = MetricStatus(policy="p", name="cpu5m", asked=True, fresh=3, nodes=69, wanted=0.5, suspended_since=1_700_000_000.0)
WAITING = MetricStatus(policy="p", name="cpu1h", asked=False)
FRESH = MetricStatus(policy="p", name="cpu1m", asked=True, fresh=69, nodes=69, wanted=0.5, youngest=1.0, oldest=9.0)
FAILING = replace(LACKING, failure="the last refresh failed: no answer in time")
TOO_FEW = "too few nodes have samples of cpu5m (since 2023-11-14T22:13:20Z); rules that use them are suspended"

CASES = [
    (status(), [], ("True", "True", "True", "True"), "Active"),
    (status(LINT), [], ("True", "True", "True", "True"), "Active"),
    (status(SYNTAX), [], ("False", "Unknown", "True", "True"), "FormerVersion"),
    (status(SYNTAX, revision=None, held=0), None, ("False", "Unknown", "False", None), "Refused"),
    (status(TEST), [], ("True", "False", "True", "True"), "FormerVersion"),
    (status(CLASH, revision=None), None, ("True", "True", "False", None), "Refused"),
    (status(mode=Mode.SHADOW), [], ("True", "True", "False", "True"), "Shadow"),
    (status(mode=Mode.OFF, revision=None), None, ("True", "True", "False", None), "Off"),
    (status(), [LACKING], ("True", "True", "True", "False"), "Active"),
    (status(), [FRESH], ("True", "True", "True", "True"), "Active"),
    (status(), [FRESH, WAITING], ("True", "True", "True", "Unknown"), "Active"),
    (status(), [FRESH, WAITING, LACKING], ("True", "True", "True", "False"), "Active"),
    (replace(status(), suspended="it took 50 ms"), [], ("True", "True", "False", "True"), "Suspended"),
    (replace(status(SYNTAX), suspended="it took 50 ms"), [], ("False", "Unknown", "False", "True"), "Suspended"),
]


@pytest.mark.parametrize(("found", "metrics", "reported", "reason"), CASES)
def test_the_conditions_show_the_state_of_the_policy(found, metrics, reported, reason):
    conditions = {each.type: each for each in conditions_of(found, metrics)}

    names = ("Compiled", "Tested", "Active", "MetricsAvailable")
    assert tuple(conditions[name].status if name in conditions else None for name in names) == reported
    assert conditions["Active"].reason == reason


WORST = [
    (status(), [], "True Active"),
    (replace(status(), suspended="it took 50 ms"), [LACKING], "False Suspended it took 50 ms"),
    (replace(status(SYNTAX), suspended="it took 50 ms"), [], "False Suspended it took 50 ms"),
    (status(LINT), [], "True Active"),
    (status(SYNTAX), [], "False FormerVersion p:3:1: P101: what is this"),
    (status(LINT, TEST), [], "False FormerVersion p:9:1: test: the test fails"),
    (status(SYNTAX), [LACKING], "False FormerVersion p:3:1: P101: what is this"),
    (status(SYNTAX, revision=None, held=0), None, "False Refused p:3:1: P101: what is this"),
    (status(SYNTAX, mode=Mode.OFF, revision=None), None, "False Refused p:3:1: P101: what is this"),
    (status(SYNTAX, mode=Mode.SHADOW), [], "False FormerVersion p:3:1: P101: what is this"),
    (status(mode=Mode.SHADOW), [], "True Shadow it is compared with what is decided, and decides nothing"),
    (status(mode=Mode.OFF, revision=None), None, "True Off its mode is Off"),
    (status(revision=None), None, "False Pending"),
    (
        status(),
        [LACKING],
        f"True TooFewSamples {TOO_FEW}",
    ),
    (
        status(),
        [FAILING],
        f"True TooFewSamples {TOO_FEW}; the last refresh failed: no answer in time",
    ),
    (
        status(mode=Mode.SHADOW),
        [LACKING],
        f"True TooFewSamples {TOO_FEW}",
    ),
]


@pytest.mark.parametrize(("found", "metrics", "reported"), WORST)
def test_the_worst_news_comes_first(found, metrics, reported):
    ready = ready_of(found, conditions_of(found, metrics))

    assert f"{ready.status} {ready.reason} {ready.message}".strip() == reported


def test_the_first_finding_is_the_message():
    conditions = {each.type: each.message for each in conditions_of(status(SYNTAX), [])}

    assert conditions["Compiled"] == "p:3:1: P101: what is this"
    assert conditions["Active"] == "the version of generation 1 stays in force: p:3:1: P101: what is this"


def test_a_waiting_pod_is_counted_though_nothing_else_changes():
    compiled = policy('policy "p"\nfilter none { require false else "nowhere" }\n')
    reported = []

    async def apply_status(_, status):
        reported.append((status["matched"], {each["type"]: each["reason"] for each in status["conditions"]}["Active"]))

    async def story():
        async with running(node("a")) as world:
            cache = ObjectCache([KIND])
            cache.upsert(KIND, SchedulingPolicy(metadata=ObjectMeta(name="p", generation=2), spec={}))
            policies = SimpleNamespace(status=lambda _: status(), compiled=lambda _: compiled, metrics=lambda _: ())
            checks = PolicyChecks(world.scheduler, world.clock, TenantRights())
            statuses = PolicyStatusReconciler(
                cache, SimpleNamespace(apply_status=apply_status), checks, policies, world.scheduler, world.clock
            )
            await statuses.reconcile("p")
            before = world.scheduler.state.revision
            world.scheduler.sink.upsert("Pod", pod("x", scheduler="another"))
            assert world.scheduler.state.revision == before
            await statuses.reconcile("p")
            world.scheduler.sink.delete("Pod", pod("x", scheduler="another"))
            await statuses.reconcile("p")

    asyncio.run(story())
    assert reported == [(0, "Active"), (1, "NoNodeEligible"), (0, "Active")]


def test_the_work_for_one_status_does_not_grow_with_the_number_of_policies():
    compiled = policy('policy "p"\nfilter none { require false else "nowhere" }\n')

    async def ignore(*_):
        pass

    async def story(count):
        async with running(node("a")) as world:
            cache = ObjectCache([KIND])
            for number in range(count):
                cache.upsert(KIND, SchedulingPolicy(metadata=ObjectMeta(name=f"p{number}", generation=2), spec={}))
            policies = SimpleNamespace(status=lambda _: status(), compiled=lambda _: compiled, metrics=lambda _: ())
            checks = PolicyChecks(world.scheduler, world.clock, TenantRights())
            writer = SimpleNamespace(apply_status=ignore)
            statuses = PolicyStatusReconciler(cache, writer, checks, policies, world.scheduler, world.clock)
            for number in range(count):
                await statuses.reconcile(f"p{number}")
            again = statuses.reconcile("p1")

            def to_the_end():
                with pytest.raises(StopIteration):
                    again.send(None)

            return calls(to_the_end)

    few, many = asyncio.run(story(3)), asyncio.run(story(300))
    assert abs(many - few) < 20
