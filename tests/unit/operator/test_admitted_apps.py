"""The limit of PolicyApps of a namespace that are acted upon: the oldest ones."""

import random

import pytest

from wharfinger.kube.custom_resources import PolicyApp
from wharfinger.model.objects.metadata import ObjectMeta
from wharfinger.model.reading.decode import convert
from wharfinger.operator.policy_app import TOO_MANY, AdmittedApps


def app(name, second=0, namespace="shop"):
    meta = {"name": name, "namespace": namespace, "creationTimestamp": f"2026-01-01T00:00:{second:02}Z"}
    return PolicyApp(metadata=convert(meta, ObjectMeta))


def admitted(apps, limit=2):
    found = AdmittedApps(limit, lambda _key: None)
    for each in apps:
        found.add(each)
    return {each.metadata.name for each in apps if found.refusal(each) is None}


def test_the_oldest_are_acted_upon_and_of_equally_old_ones_the_first_by_name():
    assert admitted([app("a", 3), app("b", 2), app("c", 1)]) == {"b", "c"}
    assert admitted([app("c"), app("b"), app("a")]) == {"a", "b"}


def test_namespaces_do_not_count_for_each_other():
    found = AdmittedApps(1, lambda _key: None)
    for namespace in ("shop", "bank"):
        found.add(app("a", 0, namespace))
        found.add(app("b", 1, namespace))
    assert [found.refusal(app("a", 0, namespace)) for namespace in ("shop", "bank")] == [None, None]
    reason, sentence = found.refusal(app("b", 1, "bank"))
    assert reason == TOO_MANY
    assert sentence.startswith("namespace bank has 2 PolicyApps, and the scheduler acts upon the 1 oldest of a namespace (limits.")


@pytest.mark.parametrize(("gone", "woken"), [("a", ["shop/c"]), ("b", ["shop/c"]), ("c", []), ("d", [])])
def test_the_one_that_has_waited_longest_is_acted_upon_when_there_is_room(gone, woken):
    seen = []
    found = AdmittedApps(2, seen.append)
    apps = {name: app(name, second) for second, name in enumerate("abcd")}
    for each in [*apps.values(), *apps.values()]:  # the second time as an update
        found.add(each)
    found.discard(apps[gone])
    found.discard(apps[gone])
    assert seen == woken
    assert all(found.refusal(apps[key.removeprefix("shop/")]) is None for key in woken)


def test_the_oldest_apps_are_admitted_whatever_the_order_of_changes():
    draw = random.Random(7)
    apps = [app(f"{number}", draw.randrange(60)) for number in range(40)]
    found, there = AdmittedApps(5, lambda _key: None), set()
    for _ in range(400):
        each = draw.choice(apps)
        if each.metadata.name in there and draw.random() < 0.5:
            found.discard(each)
            there.discard(each.metadata.name)
        else:
            found.add(each)
            there.add(each.metadata.name)
        now = [one for one in apps if one.metadata.name in there]
        assert {one.metadata.name for one in now if found.refusal(one) is None} == admitted(now, 5)
