"""Questions about pods that would wait for a suspended policy: they are told to wait, and no rule of the policy is evaluated."""

import asyncio
import re

import pytest

from tests.unit.policies.test_budget import SCOPE, scanning, slow_pod
from tests.unit.scheduler.running import node, pod, running
from tests.unit.what_if.test_live_evaluation import manifest
from wharfinger.crd.models import PlacementPreviewSpec
from wharfinger.framework.chain import assemble
from wharfinger.language.semantics.authority import TenantRights
from wharfinger.model.objects.metadata import ObjectMeta
from wharfinger.model.state.snapshot import Snapshot
from wharfinger.operator.policy_checks import PolicyChecks
from wharfinger.operator.preview_answer import answer_preview
from wharfinger.operator.preview_question import Questions
from wharfinger.policies import scans
from wharfinger.steps import at_once
from wharfinger.what_if.live_evaluation import EvaluationRequest, LiveEvaluations

WAITS = 'policy "wide" is suspended: it would look at every placed pod in each decision with '
WIDE = scanning("wide", SCOPE, selections=4)
FREE = {"team": "free"}
SLOW = {"team": "slow"}


def labelled(name, labels):
    found = manifest(name, cpu="10m")
    return {**found, "metadata": {**found["metadata"], "labels": labels}}


async def evaluate(world, labels, **more):
    found = await LiveEvaluations(world.clock).of(world.scheduler, EvaluationRequest(objects=[labelled("asked", labels)], **more))
    asked = next(each for each in found.pods if each.pod == "default/asked")
    return asked.node, asked.message


async def drain(world, labels):
    return await evaluate(world, labels, drain=["a"])


async def preview(world, labels, **more):
    spec = {"schedulerName": "wharfinger", "containers": [{"name": "main", "resources": {"requests": {"cpu": "10m"}}}]}
    asked = PlacementPreviewSpec.model_validate({"template": {"metadata": {"labels": labels}, "spec": spec}, "replicas": 1, **more})
    checks = PolicyChecks(world.scheduler, world.clock, TenantRights())
    found = await Questions(checks, None).of(ObjectMeta(name="asked", namespace="default"), asked)
    answer = at_once(answer_preview(found.chain, checks.snapshot(), found.pods, found.made, "default", found.what_if))
    return answer.nodes[0][1], "" if answer.miss is None else answer.miss.message


async def capacity(world, labels):
    return await preview(world, labels, capacity=True)


def ask(question, labels, policies=(WIDE,), before=None):
    """The node and the message of a pod with these labels, where 100 operations on placed pods are too many; and the suspended policies."""

    async def run():
        things = [each for name in "abcdef" for each in (node(name), pod(f"low-{name}", nodeName=name))]
        async with running(*things, chains={"wharfinger": assemble(policies)}) as world:
            if before is not None:
                world.cluster.put(before)
                await world.calm()
            asking = asyncio.ensure_future(question(world, labels))
            while not asking.done():
                await world.pass_time(0.5)
            return *asking.result(), [name for name, _ in world.scheduler.budget.suspended]

    return asyncio.run(run())


@pytest.fixture
def few_operations(monkeypatch):
    monkeypatch.setattr(scans, "MAX_SCANNED", 100)
    read = Snapshot.selection

    def selection(snapshot, *arguments, **named):
        assert not named.get("passing"), "all placed pods are looked at"
        return read(snapshot, *arguments, **named)

    monkeypatch.setattr(Snapshot, "selection", selection)


QUESTIONS = pytest.mark.parametrize("question", [evaluate, drain, preview, capacity])


@QUESTIONS
@pytest.mark.usefixtures("few_operations")
@pytest.mark.parametrize("before", [None, slow_pod("before")], ids=["not yet suspended", "suspended"])
def test_a_question_about_a_pod_of_a_policy_that_looks_at_too_many_pods_says_that_it_waits(question, before):
    chosen, message, suspended = ask(question, SLOW, before=before)
    assert chosen is None
    assert message.startswith(WAITS)
    assert suspended == ([] if before is None else ["wide"]), "a question suspends no policy"


@QUESTIONS
@pytest.mark.usefixtures("few_operations")
def test_a_pod_that_the_policy_does_not_govern_gets_its_node(question):
    chosen, message, _ = ask(question, FREE)
    assert chosen is not None
    assert not message


@pytest.mark.parametrize(("most", "waits_for"), [(66, ["wide"]), (65, ["once", "wide"]), (198, [])])
def test_policies_that_look_at_most_hold_the_pod_and_others_do_not(most, waits_for, monkeypatch):
    policies = [scanning("once"), scanning("wide", SCOPE, selections=2)]
    assert [6 * each.scanned for each in policies] == [66, 132]
    monkeypatch.setattr(scans, "MAX_SCANNED", most)
    chosen, message, _ = ask(evaluate, SLOW, policies)
    assert (chosen is None) == bool(waits_for)
    assert sorted(re.findall(r'policy "(\w+)" is suspended', message)) == waits_for


@pytest.mark.usefixtures("few_operations")
def test_a_placed_pod_is_not_compared_with_a_policy_that_looks_at_too_many():
    async def violation(world, labels):
        checks = PolicyChecks(world.scheduler, world.clock, TenantRights())
        return checks.placed_pod_violation(pod("before", cpu="10m", labels=labels, nodeName="a")), ""

    found, _, _ = ask(violation, SLOW, before=pod("before", cpu="10m", labels=SLOW, nodeName="a"))
    assert not found.reasons
