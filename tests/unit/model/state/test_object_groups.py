"""Groups of objects follow what is put and dropped."""

from __future__ import annotations

import random

from wharfinger.model import objects
from wharfinger.model.state.object_store import ObjectStore


def service(name, app, namespace="default"):
    return objects.Service(metadata=objects.ObjectMeta(name=name, namespace=namespace), spec=objects.ServiceSpec(selector={"app": app}))


def by_app(found):
    return found.spec.selector["app"]


def test_groups_are_what_going_through_all_objects_gives():
    store, chance = ObjectStore(), random.Random(7)
    for step in range(300):
        name = f"s{chance.randrange(8)}"
        if chance.random() < 0.3:
            store.drop("Service", f"default/{name}")
        else:
            store.put(service(name, chance.choice("abc")))
        if step % 3 == 0:
            for app in "abcd":
                expected = tuple(found for found in store.all(objects.Service) if by_app(found) == app)
                assert store.group(objects.Service, by_app, app) == expected


def test_a_group_is_sorted_by_key_and_of_one_kind():
    store = ObjectStore()
    for obj in (service("z", "a"), service("b", "a"), service("m", "b"), objects.Namespace(metadata=objects.ObjectMeta(name="a"))):
        store.put(obj)
    assert [found.metadata.name for found in store.group(objects.Service, by_app, "a")] == ["b", "z"]
    assert store.group(objects.Service, by_app, "nothing") == ()
