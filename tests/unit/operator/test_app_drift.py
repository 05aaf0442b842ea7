"""The eviction of drifted pods: which one, and when."""

import asyncio
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest

from tests.in_memory import ManualClock
from wharfinger.crd.models import DriftedPod, PolicyAppSpec
from wharfinger.framework.ports import Reference
from wharfinger.kube.custom_resources import PolicyApp
from wharfinger.model import objects
from wharfinger.model.objects.metadata import ObjectMeta, time_text
from wharfinger.model.reading import decode
from wharfinger.operator.app_status import AppDrift, Drift

NOW = 1_700_000_000.0


class Pods:
    def of(self, _app):
        return [
            decode.convert({"metadata": {"name": name, "namespace": "shop", "uid": name}, "spec": {"nodeName": "n"}}, objects.Pod)
            for name in ("a", "b")
        ]


def drift_of(*movable):
    return Drift(pods=tuple(DriftedPod(pod=name, node="n") for name in "ab"), movable=tuple(f"shop/{name}" for name in movable))


@pytest.mark.parametrize(
    ("policy", "movable", "last", "evicted"),
    [
        ("Evict", "ab", None, "a"),
        ("Evict", "b", None, "b"),
        ("Report", "ab", None, None),
        ("Evict", "", None, None),
        ("Evict", "ab", NOW - 59, None),
        ("Evict", "ab", NOW - 61, "a"),
        ("Evict", "ab", NOW + 3600, "a"),  # the clock was put back by an hour
        ("Evict", "z", None, None),
    ],
)
def test_one_pod_is_evicted_at_a_time_if_another_node_would_take_it(policy, movable, last, evicted):
    drift = AppDrift(None, Pods(), None, None, ManualClock(NOW))
    spec = PolicyAppSpec(image="web:1", drift_policy=policy, eviction_interval_seconds=60)

    found = drift.to_evict("shop/web", spec, drift_of(*movable), {"lastEviction": time_text(last)} if last else {})

    assert (found and found.metadata.name) == evicted


def test_a_clock_that_is_put_back_does_not_shorten_the_interval():
    clock = ManualClock(NOW)
    drift = AppDrift(None, Pods(), SimpleNamespace(evict=AsyncMock()), SimpleNamespace(record_about=lambda *_: None), clock)
    spec = PolicyAppSpec(image="web:1", drift_policy="Evict", eviction_interval_seconds=60)
    app = PolicyApp(metadata=ObjectMeta(name="web", namespace="shop", uid="u"))
    asyncio.run(drift.evict(app, Pods().of("shop/web")[0]))
    clock.jump(-3600)
    assert drift.to_evict("shop/web", spec, drift_of("b"), {"lastEviction": time_text(NOW)}) is None


def test_an_eviction_has_events_about_the_app_and_the_pod():
    reported = []
    recorder = SimpleNamespace(record_about=lambda about, event: reported.append((about, event.related)))
    writer = SimpleNamespace(evict=AsyncMock())
    app = PolicyApp(metadata=ObjectMeta(name="web", namespace="shop", uid="u"))

    asyncio.run(AppDrift(None, Pods(), writer, recorder, ManualClock(NOW)).evict(app, Pods().of("shop/web")[0]))

    version = "scheduling.wharfinger.dev/v1alpha1"
    about = Reference(kind="PolicyApp", name="web", namespace="shop", uid="u", api_version=version)
    assert reported == [(about, Reference(kind="Pod", name="a", namespace="shop", uid="a"))]


def test_pods_that_no_node_would_take_are_reported():
    assert drift_of("a", "b").note == "2 pods no longer satisfy the policy"
    assert drift_of("a").note == "2 pods no longer satisfy the policy; no other node would take 1 of them"
    assert Drift(pods=drift_of().pods[:1], movable=("shop/a",)).note == "1 pod no longer satisfies the policy"
    assert Drift(pods=()).note == Drift().note == ""
