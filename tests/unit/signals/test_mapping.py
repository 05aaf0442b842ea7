"""The mapping of series to nodes."""

import math

import pytest

from wharfinger.language.semantics.types import Kind
from wharfinger.model.objects import Node
from wharfinger.model.objects.cluster import NodeAddress, NodeStatus
from wharfinger.model.objects.metadata import ObjectMeta
from wharfinger.signals.mapping import NodeNames, Series, mapped
from wharfinger.signals.query import Query


def node(name, *addresses):
    found = tuple(NodeAddress(type=type_, address=address) for type_, address in addresses)
    return Node(metadata=ObjectMeta(name=name), status=NodeStatus(addresses=found))


def names(*nodes):
    return NodeNames(1, [each.metadata.name for each in nodes], nodes)


def query(kind=Kind.PERCENT, relabel=None, label="instance"):
    return Query(key="k", kind=kind, source="prometheus", text="q", refresh=15.0, server="default", node=label, relabel=relabel)


NODES = names(
    node("a", ("InternalIP", "10.0.0.1"), ("Hostname", "a")),
    node("b.example.com", ("InternalIP", "10.0.0.2"), ("InternalIP", "fd00::2")),
    node("c", ("InternalIP", "10.0.0.9")),
    node("d", ("InternalIP", "10.0.0.9")),
)


def found(*series, asked=None):
    rows = [Series({"instance": text} if isinstance(text, str) else text, value, 100.0) for text, value in series]
    return mapped(rows, asked or query(), NODES)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a", "a"),
        ("a:9100", "a"),
        ("10.0.0.1", "a"),
        ("10.0.0.1:9100", "a"),
        ("b.example.com:9100", "b.example.com"),
        ("[fd00::2]:9100", "b.example.com"),
        ("fd00::2", "b.example.com"),
        ("10.0.0.9:9100", None),  # two nodes have it
        ("nobody:9100", None),
        ("a:b", None),
        ("", None),
    ],
)
def test_a_text_means_a_node(text, name):
    assert NODES.of(text) == name


def test_a_sample_has_its_own_time_and_row():
    got = mapped([Series({"instance": "b.example.com"}, 0.5, 90.0), Series({"instance": "a"}, 0.25, 100.0)], query(), NODES)
    assert got.samples == {"a": (0.25, 100.0), "b.example.com": (0.5, 90.0)}
    assert got.column.present.tolist() == [True, True, False, False]
    assert got.column.values[:2].tolist() == [0.25, 0.5]
    assert got.column.times[:2].tolist() == [100.0, 90.0]


def test_relabel_takes_the_node_out_of_a_longer_text():
    got = found(("ip-a.internal:9100", 0.5), ("other", 0.1), asked=query(relabel=r"ip-(.*)\.internal:\d+"))
    assert got.samples == {"a": (0.5, 100.0)}
    assert (got.unmatched.count, got.unmatched.example) == (1, 'instance="other"')


def test_relabel_has_to_match_the_whole_text():
    assert not found(("xax", 0.5), asked=query(relabel="a")).samples


def test_series_without_a_node_are_counted_with_an_example():
    got = found(("x:1", 0.5), ("y:1", 0.5), ({"pod": "p"}, 0.5), ("a", 0.5))
    assert got.n_series == 4
    assert (got.unmatched.count, got.unmatched.example) == (2, 'instance="x:1"')
    assert (got.unlabelled.count, got.unlabelled.example) == (1, '{pod="p"}')
    assert list(got.samples) == ["a"]


def test_two_values_for_a_node_are_none():
    got = found(("a", 0.5), ("a:9100", 0.6), ("a:9101", 0.5))
    assert "a" not in got.samples
    assert got.doubled.count == 2


def test_the_same_value_twice_is_that_value_and_the_younger_counts():
    got = mapped([Series({"instance": "a"}, 0.5, 90.0), Series({"instance": "a:1"}, 0.5, 95.0)], query(), NODES)
    assert got.samples == {"a": (0.5, 95.0)}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_are_no_numbers_are_no_samples(value):
    got = found(("a", value))
    assert not got.samples
    assert got.invalid.count == 1


@pytest.mark.parametrize(("kind", "kept"), [(Kind.PERCENT, True), (Kind.NUMBER, True), (Kind.MEMORY, False), (Kind.CPU, False)])
def test_negative_values_are_dropped_for_kinds_without_them(kind, kept):
    assert bool(found(("a", -1.0), asked=query(kind)).samples) is kept


def test_cores_are_millicores():
    assert found(("a", 1.5), asked=query(Kind.CPU)).samples == {"a": (1500.0, 100.0)}
