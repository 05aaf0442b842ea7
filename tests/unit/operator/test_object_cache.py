"""The cache of the reconcilers, and its handlers."""

from itertools import pairwise

import pytest

from wharfinger.errors import InvalidObject
from wharfinger.kube.custom_resources import PolicyApp
from wharfinger.model import objects
from wharfinger.model.reading import decode
from wharfinger.operator.controller import OBJECTS_PER_STEP, AppPods, ObjectCache

APP = "scheduling.wharfinger.dev/app"


def app(name, version="1"):
    return decode.convert({"metadata": {"name": name, "namespace": "shop", "resourceVersion": version}}, PolicyApp)


def pod(name, of="web", **meta):
    labels = {APP: of} if of else {}
    return decode.convert({"metadata": {"name": name, "namespace": "shop", "labels": labels, **meta}}, objects.Pod)


@pytest.fixture
def reported():
    return []


def test_handlers_hear_of_changes_and_not_of_repeats(reported):
    cache = ObjectCache(["PolicyApp"])
    cache.watch("PolicyApp", lambda obj: reported.append((obj.metadata.name, obj.metadata.resource_version)))

    cache.replace("PolicyApp", [app("a"), app("b")])
    cache.replace("PolicyApp", [app("a"), app("b", "2"), app("c")])
    cache.upsert("PolicyApp", app("c"))
    cache.replace("PolicyApp", [app("b", "2")])
    cache.delete("PolicyApp", app("b", "3"))
    cache.delete("PolicyApp", app("b", "3"))
    cache.upsert("Pod", pod("of-another-kind"))

    assert reported == [("a", "1"), ("b", "1"), ("b", "2"), ("c", "1"), ("a", "1"), ("c", "1"), ("b", "2")]
    assert cache.all("PolicyApp") == []


def test_objects_that_cannot_be_read_any_more_stay_as_they_were(reported):
    cache = ObjectCache(["PolicyApp"])
    cache.replace("PolicyApp", [app("a"), app("b"), app("c")])
    cache.watch("PolicyApp", lambda obj: reported.append(obj.metadata.name))
    cache.unreadable("PolicyApp", app("a", "2"), InvalidObject("spec: expected an object"), listed=False)
    cache.unreadable("PolicyApp", app("b", "2"), InvalidObject("spec: expected an object"), listed=True)
    cache.replace("PolicyApp", [app("a")])
    assert ([each.metadata.name for each in cache.all("PolicyApp")], reported) == (["a", "b"], ["c"])
    cache.replace("PolicyApp", [app("a")])
    assert ([each.metadata.name for each in cache.all("PolicyApp")], reported) == (["a"], ["c", "b"])


def test_pods_are_known_by_their_app_alone(reported):
    pods = AppPods(reported.append)

    pods.replace("Pod", [pod("one"), pod("two", of="api"), pod("theirs", of=None)])
    pods.upsert("Pod", pod("gone", deletionTimestamp="2026-01-01T00:00:00Z"))
    pods.upsert("Node", pod("no pod"))

    assert [each.metadata.name for each in pods.of("shop/web")] == ["one"], "one that is about to go does not count"
    assert [each.metadata.name for each in pods.of("shop/api")] == ["two"]
    assert reported == ["shop/web", "shop/api", "shop/web"]


def test_a_pod_that_changes_its_label_changes_its_app(reported):
    pods = AppPods(reported.append)
    pods.upsert("Pod", pod("one"))
    pods.upsert("Pod", pod("one", of="api"))
    pods.upsert("Pod", pod("one", of=None))
    pods.replace("Pod", [])

    assert reported == ["shop/web", "shop/web", "shop/api", "shop/api"]
    assert pods.of("shop/web") == pods.of("shop/api") == []


def test_a_long_list_of_pods_is_applied_in_steps(reported):
    pods, listed = AppPods(reported.append), [pod(f"p{number}", of=f"app-{number % 7}") for number in range(2 * OBJECTS_PER_STEP)]
    at_each_step = [len(reported) for _ in pods.replacing("Pod", listed)]

    assert all(later - earlier <= OBJECTS_PER_STEP for earlier, later in pairwise([0, *at_each_step, len(reported)]))
    assert len(reported) == len(listed)
    pods.replace("Pod", listed[:3])
    assert [each.metadata.name for app in range(7) for each in pods.of(f"shop/app-{app}")] == ["p0", "p1", "p2"]
