"""Every attribute of a node reads the same from the columns as from the node itself, and every attribute has its declared type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.property import clusters
from wharfinger.language.semantics.catalogue import Attribute, Subject
from wharfinger.language.semantics.types import NUMERIC, Kind, Shape
from wharfinger.model import attributes
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.snapshot import KnownGroup, Snapshot

KEYS = (clusters.ZONE, "disk", "team", "app", "Ready", clusters.GPU, "example.com/fpga", "nowhere")
NODE_ATTRIBUTES = [attribute for attribute in attributes.ATTRIBUTES if attribute.subject is Subject.NODE]
POD_ATTRIBUTES = [
    attribute
    for attribute in attributes.ATTRIBUTES
    if attribute.subject in {Subject.POD, Subject.ITEM} and not (attribute.of_namespace or attribute.of_group)
]
SHAPES = {Subject.NODE: Shape.NODE, Subject.POD: Shape.POD, Subject.ITEM: Shape.ITEM, Subject.DEVICE: Shape.DEVICE}

placed_pods = st.lists(clusters.node_names.flatmap(lambda name: clusters.pods(node_name=name)), max_size=8)
assumed_pods = st.lists(clusters.pods(), max_size=3, unique_by=lambda pod: pod.metadata.uid)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    state = ClusterState()
    for node in draw(st.lists(clusters.nodes(), min_size=1, max_size=5)):
        state.add_node(node)
    for pod in draw(placed_pods):
        state.add_pod(pod)
    for pod in draw(assumed_pods):
        view = PodView(pod)
        if not state.is_placed(view.uid):
            state.assume(view, state.snapshot().names[0])
    return state.snapshot()


def identify(attribute: Attribute) -> str:
    return f"{attribute.subject.value}.{attribute.path}{'[]' if attribute.keyed else ''}"


def keys_of(attribute: Attribute) -> tuple[tuple[str, ...], ...]:
    return tuple((key,) for key in KEYS) if attribute.keyed else ((),)


def from_columns(attribute: Attribute, snapshot: Snapshot, rows: Any, key: tuple[str, ...]) -> list[Any]:
    assert attribute.column is not None
    values, present = attribute.column(snapshot, rows, *key)
    present = np.ones(len(values), dtype=np.bool_) if present is None else present
    if attribute.type.kind in NUMERIC:
        assert values.dtype == np.float64
        plain = values.tolist()
    elif attribute.type.kind is Kind.BOOL:
        assert values.dtype == np.bool_
        plain = values.tolist()
    else:
        assert values.dtype == np.int32
        plain = [snapshot.strings.text(code) for code in values.tolist()]
    return [value if there else None for value, there in zip(plain, present.tolist(), strict=True)]


@settings(max_examples=60, deadline=None)
@given(snapshot=snapshots(), data=st.data())
def test_columns_agree_with_readers(snapshot: Snapshot, data: st.DataObject) -> None:
    chosen = np.array(data.draw(st.lists(st.integers(0, snapshot.n_nodes - 1), max_size=4)), dtype=np.intp)
    for attribute in NODE_ATTRIBUTES:
        for key in keys_of(attribute):
            read = [attribute.read(snapshot.node(row), *key) for row in range(snapshot.n_nodes)]
            assert from_columns(attribute, snapshot, slice(None), key) == read, (identify(attribute), key)
            assert from_columns(attribute, snapshot, chosen, key) == [read[row] for row in chosen], (identify(attribute), key)


def is_of(value: Any, attribute: Attribute) -> bool:
    kind = attribute.type.kind
    if kind is Kind.SET:
        return isinstance(value, frozenset) and all(isinstance(member, str) for member in value)
    if kind is Kind.BOOL:
        return isinstance(value, bool)
    if kind in NUMERIC:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, str)


@settings(max_examples=60, deadline=None)
@given(snapshot=snapshots())
def test_values_have_their_type_and_are_absent_only_if_optional(snapshot: Snapshot) -> None:
    owners: dict[Subject, list[Any]] = {Subject.NODE: [snapshot.node(row) for row in range(snapshot.n_nodes)]}
    owners[Subject.POD] = owners[Subject.ITEM] = [pod for row in range(snapshot.n_nodes) for pod in snapshot.pods_on(row)]
    owners[Subject.DEVICE] = [device for row in range(snapshot.n_nodes) for device in snapshot.devices.on(row)]
    for attribute in attributes.ATTRIBUTES:
        for key in keys_of(attribute):
            for owner in owners[attribute.subject]:
                known: Any = {clusters.ZONE: "a"} if attribute.of_namespace else KnownGroup(2, None) if attribute.of_group else owner
                value = attribute.read(known, *key)
                optional = attribute.type.optional or attribute.type.kind is Kind.LABELS
                assert optional if value is None else is_of(value, attribute), (identify(attribute), key, value)


@settings(max_examples=60, deadline=None)
@given(pod=clusters.pods(), other=clusters.pods())
def test_attributes_outside_of_the_identity_are_equal_for_one_template(pod: Any, other: Any) -> None:
    names = {"name": "twin", "uid": "uid-of-twin", "creation_timestamp": other.metadata.creation_timestamp}
    one, two = PodView(pod), PodView(replace(pod, metadata=replace(pod.metadata, **names), status=other.status))
    assert one.template == two.template
    for attribute in POD_ATTRIBUTES:
        for key in keys_of(attribute):
            assert attribute.identity or attribute.read(one, *key) == attribute.read(two, *key), identify(attribute)


@pytest.mark.parametrize("attribute", attributes.ATTRIBUTES, ids=identify)
def test_rows_are_complete(attribute: Attribute) -> None:
    assert attribute.doc.endswith((".", "`.", "…."))
    assert attribute.type.shape is SHAPES[attribute.subject]
    assert (attribute.column is not None) == (attribute.subject is Subject.NODE)
    if attribute.low is not None and attribute.high is not None:
        assert attribute.low < attribute.high


def test_names_are_unique() -> None:
    names = [(attribute.subject, attribute.path) for attribute in attributes.ATTRIBUTES]
    assert len(names) == len(set(names))


@settings(max_examples=30, deadline=None)
@given(snapshot=snapshots())
def test_whole_labels_are_a_mapping(snapshot: Snapshot) -> None:
    node = snapshot.node(0)
    labels = next(attribute for attribute in NODE_ATTRIBUTES if attribute.path == "labels")
    assert labels.read(node) == node.object.metadata.labels
