"""The evictions that the Eviction API allows, one after another."""

import pytest

from tests.unit.framework.kube import pod, state
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.what_if.leaving_pods import Evictions

READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
UNREADY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}
WEB = {"app": "web"}


def budget(name="web", *, allowed=0, selector=None, policy="", generation=0, **status):
    spec = {"selector": {"matchLabels": WEB} if selector is None else selector, "unhealthyPodEvictionPolicy": policy}
    metadata = {"name": name, "namespace": "default", "generation": generation}
    return {"metadata": metadata, "spec": spec, "status": {"disruptionsAllowed": allowed, **status}}


def view(name="p", status=READY, labels=WEB, **metadata):
    plain = pod(name, on="a", labels=labels, status=status)
    plain["metadata"].update(metadata)
    return PodView(decode.convert(plain, objects.Pod))


def evictions(*budgets):
    return Evictions(state([], podDisruptionBudgets=list(budgets)).objects)


@pytest.mark.parametrize(
    ("given", "asked", "message"),
    [
        ([], view(), None),
        ([budget(allowed=1)], view(), None),
        ([budget(desiredHealthy=2, currentHealthy=2)], view(), "default/web: needs 2 healthy pods and has 2"),
        ([budget(desiredHealthy=2, currentHealthy=2)], view(labels={"app": "other"}), None),
        ([budget(selector={})], view(), "default/web: needs 0 healthy pods and has 0"),
        ([budget(selector={})], view(labels={}), None),
        ([budget(allowed=5), budget("b", allowed=5)], view(), "more than one PodDisruptionBudget covers it: default/b, default/web"),
        ([budget(allowed=1, generation=2, observedGeneration=1)], view(), "default/web: the API server is still processing it"),
        ([budget(allowed=1, generation=2, observedGeneration=2)], view(), None),
        ([budget(allowed=-1)], view(), "until its controller has repaired it"),
        ([budget()], view(status={"phase": "Pending"}), None),
        ([budget()], view(deletionTimestamp="2026-01-01T00:00:00Z"), None),
        ([budget(desiredHealthy=2, currentHealthy=2)], view(status=UNREADY), None),
        ([budget(desiredHealthy=2, currentHealthy=1)], view(status=UNREADY), "needs 2 healthy pods and has 1"),
        ([budget(desiredHealthy=2, currentHealthy=1, policy="AlwaysAllow")], view(status=UNREADY), None),
        ([budget(policy="AlwaysAllow")], view(), "needs 0 healthy pods"),
    ],
)
def test_pods_that_may_be_evicted(given, asked, message):
    refusal = evictions(*given).refusal(asked)
    assert (refusal is None) == (message is None)
    assert refusal is None or message in refusal.message


def test_a_budget_is_counted_down_and_up_again():
    model = evictions(budget(allowed=1, desiredHealthy=2, currentHealthy=3))
    model.evict(view("one"))
    assert model.refusal(view("two")).message == "PodDisruptionBudget default/web: needs 2 healthy pods and has 2"
    model.replaced(view("one"))
    assert model.refusal(view("two")) is None


def test_a_manifest_without_counts_of_healthy_pods_is_counted_up_again_too():
    model = evictions(budget(allowed=1))
    model.evict(view())
    assert model.refusal(view()) is not None
    model.replaced(view())
    assert model.refusal(view()) is None


def test_the_replacement_of_an_unhealthy_pod_makes_up_for_a_missing_one_first():
    model = evictions(budget(desiredHealthy=2, currentHealthy=1, policy="AlwaysAllow"))
    for name in ("one", "two"):
        unhealthy = view(name, UNREADY)
        assert model.refusal(unhealthy) is None
        model.evict(unhealthy)
        model.replaced(unhealthy)
        assert (model.refusal(view("healthy")) is None) == (name == "two")


def test_an_unhealthy_pod_needs_a_disruption_and_leaves_it_to_the_next_one():
    model = evictions(budget(allowed=1, desiredHealthy=0, currentHealthy=1))
    for name in ("one", "two"):
        assert model.refusal(view(name, UNREADY)) is None
        model.evict(view(name, UNREADY))
    model.evict(view("healthy"))
    assert model.refusal(view("three", UNREADY)) is not None


def test_a_victim_of_preemption_is_not_asked_about_and_counts():
    model = evictions(budget(allowed=1, desiredHealthy=2, currentHealthy=3))
    model.count_lost(view("one"))
    assert model.refusal(view("two")) is not None
    model.count_lost(view("two"))
    model.replaced(view("one"))
    assert model.refusal(view("three")) is not None
    model.replaced(view("two"))
    assert model.refusal(view("three")) is None
