"""Permits that read many placed pods take bounded steps: their answers, and the message when their time is over."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.compiler.texts import compiled
from tests.unit.scheduler.running import node, pod, running
from wharfinger.compiler.interpreter import Interpreter
from wharfinger.framework.chain import assemble
from wharfinger.framework.rules.policy_rules import PolicyPermit
from wharfinger.policies import scans
from wharfinger.policies.budget import BudgetSettings
from wharfinger.scheduler.binding import permits
from wharfinger.scheduler.scheduler import SchedulerSettings

YOUNG = "count(pods where (age(it.created) ?? 1d) < 5min, on: node) > 99"
SCANNING = f"permit young timeout 1min {{ require {YOUNG} }}"
NODES = [node(name, cpu="200", labels={"zone": "z"} if name != "c" else {}) for name in "abc"]
PLACED = [pod(f"placed-{name}-{n}", nodeName=name, priority=n) for name in "abc" for n in range(3)]


def permit(*rules):
    return compiled("\n".join(['policy "p"', 'filter here { require node.name != "b" }', *rules]))


def held_by(policy, **more):
    return running(*NODES, *PLACED, chains={"wharfinger": assemble([policy])}, **more)


class Counting:
    """Counts the answers of permits in each turn of the event loop."""

    def __init__(self, monkeypatch):
        asked = PolicyPermit.permission
        self.steps = [0]

        def permission(*of):
            self.steps[-1] += 1
            return asked(*of)

        monkeypatch.setattr(PolicyPermit, "permission", permission)

    async def each_turn(self):
        while True:
            self.steps.append(0)
            await asyncio.sleep(0)


@pytest.mark.parametrize(("seconds", "is_asked"), [(0.02, False), (0, True)], ids=["a budget", "no budget"])
def test_a_held_pod_is_not_asked_about_while_its_permit_would_look_at_too_many_placed_pods(monkeypatch, seconds, is_asked):
    async def scenario():
        async with held_by(permit(SCANNING), settings=SchedulerSettings(budget=BudgetSettings(seconds=seconds))) as world:
            world.cluster.put(pod("held"))
            await world.pass_time(1)
            assert world.scheduler.state.is_assumed("uid-held")
            monkeypatch.setattr(scans, "MAX_SCANNED", 10)
            counting = Counting(monkeypatch)
            world.cluster.put(pod("another", nodeName="a"))
            await world.pass_time(58)
            assert bool(sum(counting.steps)) == is_asked
            await world.pass_time(5)
            [note] = [event.note for key, event in world.cluster.events if key == "default/held" and event.reason == "FailedScheduling"][:1]
            assert "rejected due to timeout" in note
            assert ("each answer would look at every placed pod, with " in note) != is_asked

    asyncio.run(scenario())


def test_answers_that_look_at_every_placed_pod_are_spread_over_steps(monkeypatch):
    async def scenario():
        policy = permit(SCANNING.replace("> 99", '> 99 or pod.name == "x"'))
        async with held_by(policy) as world:
            counting = Counting(monkeypatch)
            monkeypatch.setattr(scans, "MAX_SCANNED", 20 * policy.scanned * len(PLACED))
            ticks = asyncio.ensure_future(counting.each_turn())
            for number in range(20):
                world.cluster.put(pod(f"held-{number}", cpu="10m"))
            await world.pass_time(3, step=permits.STEP_PAUSE)
            ticks.cancel()
            assert sum(counting.steps) >= 20
            assert max(counting.steps) <= 2  # a tenth of what one step may take

    asyncio.run(scenario())


def test_such_a_permit_lets_the_pod_go_once_it_holds():
    async def scenario():
        policy = permit(SCANNING.replace("> 99", '> 99 or (node.labels["open"] ?? "no") == "yes"'))
        async with held_by(policy) as world:
            world.cluster.put(pod("held"))
            await world.pass_time(1)
            assert "default/held" not in world.cluster.nodes_of_pods()
            for name in "ac":
                world.cluster.put(node(name, cpu="200", labels={"open": "yes"}))
            await world.pass_time(1)
            assert "default/held" in world.cluster.nodes_of_pods()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("require", "says"),
    [
        ('count(pods, on: node) > 99 else "{count(pods, on: node)} here"', "4 here"),
        (
            'count(pods, within: "zone") > 99 on missing reject else "{count(pods where it.priority > 0, within: `zone`)} in zone"',
            "4 in zone",
        ),
        ('busy > 99 else "{if busy > 3 then node.name else `none`} has {busy} of {pod.name}"', "a has 4 of held"),
        ('max(pods, it.priority, on: node) > 99 on missing reject else "{max(pods, it.priority, on: node)}"', "2"),
        ('count(pods where it.uid == pod.uid, on: node) > 1 else "{count(pods where it.name == pod.name, on: node)}"', "1"),
        ('pod.priority > 99 else "{sum(pods where it.priority > 1, it.requests.cpu, on: node)}"', "1cpu"),
        ("avg(pods where it.priority > 99, it.priority, on: node) > 1 on missing reject", "is missing"),
    ],
)
def test_the_message_of_a_permit_reads_counts_that_are_kept(monkeypatch, require, says):
    def selected(*_):
        raise AssertionError("every placed pod is looked at")

    async def scenario():
        policy = permit("let busy = count(pods, on: node)", f"permit p timeout 10s {{ require {require.replace('`', QUOTE)} }}")
        async with held_by(policy) as world:
            world.cluster.put(pod("held", nodeSelector={"kubernetes.io/hostname": "a"}))
            await world.calm()
            monkeypatch.setattr(Interpreter, "selected", selected)
            await world.pass_time(11)
            [note] = [event.note for key, event in world.cluster.events if key == "default/held" and event.reason == "FailedScheduling"][:1]
            assert note.endswith(says) or (says in note and says == "is missing")

    asyncio.run(scenario())


QUOTE = "'"
