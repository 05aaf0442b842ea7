"""Which PodDisruptionBudgets cover a pod, and how many are looked at to find out."""

import msgspec
import pytest

from tests.unit.framework.kube import decide, node, pod, state
from wharfinger.framework.eviction import Budgets
from wharfinger.model import objects
from wharfinger.model.objects import matching
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.object_store import ObjectStore


def budget(name, selector, namespace="default", allowed=0):
    plain = {"metadata": {"name": name, "namespace": namespace}, "spec": {"selector": selector}, "status": {"disruptionsAllowed": allowed}}
    return msgspec.convert(plain, objects.PodDisruptionBudget)


def expression(key, operator, *values):
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def covering(store, labels):
    metadata = {"name": "p", "namespace": "default", "labels": labels}
    view = PodView(msgspec.convert({"metadata": metadata, "spec": {"containers": []}}, objects.Pod))
    return [found.metadata.name for found in store.following(Budgets).covering(view)]


def store_of(*budgets):
    store = ObjectStore()
    for each in budgets:
        store.put(each)
    return store


@pytest.mark.parametrize(
    ("selector", "covers"),
    [
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "db"}}, False),
        ({"matchLabels": {"app": "web", "tier": "front"}}, False),
        ({"matchLabels": {"app": "web"}, **expression("zone", "Exists")}, True),
        (expression("app", "In", "db", "web"), True),
        (expression("app", "NotIn", "db"), True),
        (expression("app", "NotIn", "web"), False),
        (expression("tier", "DoesNotExist"), True),
        (expression("app", "Near", "web"), False),
        ({}, True),
        (None, False),
    ],
    ids=str,
)
def test_a_budget_covers_the_pods_that_its_selector_selects(selector, covers):
    assert covering(store_of(budget("one", selector)), {"app": "web", "zone": "a"}) == (["one"] if covers else [])


def test_budgets_are_found_by_name_in_the_namespace_of_a_pod_with_labels():
    found = [budget("z", {}), budget("a", {"matchLabels": {"app": "web"}}), budget("m", expression("app", "Exists"))]
    store = store_of(*found, budget("other", {}, namespace="team"))
    assert covering(store, {"app": "web"}) == ["a", "m", "z"]
    assert covering(store, {}) == []


def test_a_budget_that_changes_is_found_as_it_is_now():
    store = store_of(budget("one", {"matchLabels": {"app": "web"}}))
    assert covering(store, {"app": "web"}) == ["one"]
    store.put(budget("one", expression("app", "In", "db", "cache")))
    assert [covering(store, {"app": app}) for app in ("web", "db", "cache")] == [[], ["one"], ["one"]]
    store.drop("PodDisruptionBudget", "default/one")
    assert covering(store, {"app": "db"}) == []


def test_preemption_compares_a_pod_with_the_budgets_of_its_labels_only(monkeypatch):
    asked = []
    matches = matching.Selector.matches
    monkeypatch.setattr(matching.Selector, "matches", lambda self, labels: asked.append(self) or matches(self, labels))
    budgets = [msgspec.to_builtins(budget(f"b-{number}", {"matchLabels": {"app": f"a-{number}"}}, allowed=1)) for number in range(100)]
    pods = [pod(f"low-{number}", on="a", requests={"cpu": "1"}, labels={"app": f"a-{number}"}) for number in range(4)]
    decision = decide(state([node("a")], pods, podDisruptionBudgets=budgets), pod("p", requests={"cpu": "1"}, priority=5), preempt=True)
    assert decision.nominated == "a"
    assert len(asked) <= 2 * len(pods)


def test_a_selector_is_read_once_while_only_the_status_of_its_budget_changes(monkeypatch):
    read = []
    label_selector = matching.label_selector
    monkeypatch.setattr(matching, "label_selector", lambda selector: read.append(selector) or label_selector(selector))
    store = store_of(budget("one", {"matchLabels": {"app": "web"}}))
    for allowed in range(5):
        store.put(budget("one", {"matchLabels": {"app": "web"}}, allowed=allowed))
        [found] = store.following(Budgets).covering(PodView(msgspec.convert(pod("p", labels={"app": "web"}), objects.Pod)))
        assert found.status.disruptions_allowed == allowed
    assert len(read) == 1
