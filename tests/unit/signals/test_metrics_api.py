"""The node metrics of `metrics.k8s.io`."""

import asyncio
import json
import time

import pytest

from wharfinger.language.semantics.types import Kind as Measured
from wharfinger.model.objects import Node
from wharfinger.model.objects.metadata import ObjectMeta
from wharfinger.signals.mapping import NodeNames
from wharfinger.signals.query import Query
from wharfinger.signals.refreshing import Kind, SignalFailed
from wharfinger.signals.sources import sources_of

NODES = NodeNames(1, ["a", "b"], [Node(metadata=ObjectMeta(name=name)) for name in "ab"])


def metrics(**usage):
    items = [
        {"metadata": {"name": name}, "timestamp": "1970-01-01T00:01:40Z", "window": "20s", "usage": used} for name, used in usage.items()
    ]
    return json.dumps({"kind": "NodeMetricsList", "items": items}).encode()


def measured(content, resource="cpu", kind=Measured.CPU):
    async def read():
        if isinstance(content, Exception):
            raise content
        return content

    query = Query(key="k", kind=kind, source="metrics_api", text=resource, refresh=15.0)
    return asyncio.run(sources_of([], read)["metrics_api"].measured(query, NODES))


def test_use_is_in_millicores_and_bytes_with_its_own_time():
    content = metrics(a={"cpu": "156250000n", "memory": "1Ki"}, b={"cpu": "2", "memory": "3M"}, gone={"cpu": "1"})
    found = measured(content)
    assert found.samples == {"a": (156.25, 100.0), "b": (2000.0, 100.0)}
    assert (found.unmatched.count, found.n_series) == (1, 3)
    assert measured(content, "memory", Measured.MEMORY).samples == {"a": (1024.0, 100.0), "b": (3e6, 100.0)}


def test_a_clock_that_is_ahead_keeps_no_sample_young():
    found = measured(metrics(a={"cpu": "1"}).replace(b"1970-", b"2970-"))
    assert found.samples["a"][1] <= time.time()
    assert found.ahead.count == 1


def test_a_node_without_that_resource_has_no_sample():
    assert list(measured(metrics(a={"memory": "1Ki"}, b={"cpu": "1"})).samples) == ["b"]


@pytest.mark.parametrize(
    "broken",
    [
        {"usage": {"cpu": "much"}},
        {"timestamp": "yesterday"},
        {"timestamp": None},
        {"usage": 3},
        {"usage": {"cpu": 5}},
    ],
    ids=str,
)
def test_a_node_that_cannot_be_read_is_named_and_the_others_count(broken):
    document = json.loads(metrics(a={"cpu": "1"}, b={"cpu": "2"}))
    document["items"][1] |= broken
    found = measured(json.dumps(document).encode())
    assert list(found.samples) == ["a"]
    assert (found.invalid.count, found.n_series) == (1, 2)
    assert "b" in found.invalid.example


@pytest.mark.parametrize("item", [5, "text", {"metadata": []}, {}])
def test_an_entry_without_a_node_name_gives_no_sample(item):
    document = json.loads(metrics(a={"cpu": "1"}))
    document["items"].append(item)
    found = measured(json.dumps(document).encode())
    assert list(found.samples) == ["a"]
    assert found.n_series == 2


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        metrics(a={"cpu": "much"}),
        b'{"items": [{"timestamp": "yesterday"}]}',
        b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        metrics(a={"cpu": "1"}).replace(b"a", b"\xff"),
    ],
)
def test_unreadable_answers_fail(content):
    with pytest.raises(SignalFailed) as caught:
        measured(content)
    assert caught.value.kind is Kind.ANSWER


def test_messages_of_the_cluster_are_passed_on():
    with pytest.raises(SignalFailed, match="metrics-server"):
        measured(SignalFailed(Kind.SETTINGS, "the cluster has no Metrics API; it takes a metrics-server"))
