"""Changes of a node object reach the columns, the events and the attributes of policies alike."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from tests.property import clusters
from wharfinger.framework.cluster_event import EVENT_OF_PART, events_of_node_attribute, node_updated
from wharfinger.language.semantics.catalogue import Subject
from wharfinger.model import attributes, objects
from wharfinger.model.objects.node_view import NodePart, NodeView
from wharfinger.model.state.cluster_state import ClusterState

PARTS = {"spec": objects.NodeSpec, "status": objects.NodeStatus}
VALUES: dict[str, Any] = {
    "metadata.labels": {"zone": "b"},
    "metadata.annotations": {"team": "b"},
    "metadata.uid": "another",
    "metadata.creation_timestamp": datetime(2026, 1, 1, tzinfo=UTC),
    "spec.unschedulable": True,
    "spec.taints": (objects.Taint(key="k", effect="NoSchedule"),),
    "status.capacity": {"cpu": "3"},
    "status.allocatable": {"cpu": "3"},
    "status.images": (objects.ContainerImage(names=("a",), size_bytes=1),),
    "status.conditions": (objects.NodeCondition(type="Ready", status="True"),),
}
FIELDS = [*VALUES, *(path for part, kind in PARTS.items() for name in kind.__struct_fields__ if (path := f"{part}.{name}") not in VALUES)]
KEYS = (clusters.ZONE, "disk", "team", "app", "Ready", clusters.GPU)


def with_field(node: objects.Node, path: str) -> objects.Node:
    part, _, name = path.partition(".")
    value = VALUES.get(path, ("other",) if isinstance(getattr(getattr(node, part), name), tuple) else "other")
    return replace(node, **{part: replace(getattr(node, part), **{name: value})})


@pytest.mark.parametrize("path", FIELDS)
def test_every_field_of_a_node_is_a_change_of_its_row_and_an_event(path: str) -> None:
    old = objects.Node(metadata=objects.ObjectMeta(name="n"))
    new = with_field(old, path)
    state = ClusterState()
    state.add_node(old)
    before = state.revision
    state.update_node(new)

    assert state.snapshot().node_changes(before).tolist() == [0]
    assert node_updated(old, new) is not None


def test_a_heartbeat_is_neither() -> None:
    ready = objects.NodeCondition(type="Ready", status="True")
    old, new = (
        objects.Node(
            metadata=objects.ObjectMeta(name="n", resource_version=version),
            status=objects.NodeStatus(conditions=(replace(ready, last_heartbeat_time=datetime(2026, 1, 1, hour, tzinfo=UTC)),)),
        )
        for version, hour in (("1", 1), ("2", 2))
    )
    state = ClusterState()
    state.add_node(old)
    before = state.revision
    state.update_node(new)

    assert state.snapshot().node_changes(before).tolist() == []
    assert node_updated(old, new) is None


@settings(max_examples=60, deadline=None)
@given(old=clusters.nodes(), new=clusters.nodes())
def test_an_attribute_that_reads_otherwise_has_an_event(old: objects.Node, new: objects.Node) -> None:
    new = replace(new, metadata=replace(new.metadata, name=old.metadata.name))
    change = node_updated(old, new)
    for attribute in attributes.ATTRIBUTES:
        if attribute.subject is Subject.NODE:
            for key in [(key,) for key in KEYS] if attribute.keyed else [()]:
                if attribute.read(NodeView(0, old, ()), *key) != attribute.read(NodeView(0, new, ()), *key):
                    assert change is not None
                    assert change.events & events_of_node_attribute(attribute), (attribute.path, key, change.events)


def test_every_part_has_an_event_of_its_own() -> None:
    assert len(set(EVENT_OF_PART.values())) == len(NodePart)
