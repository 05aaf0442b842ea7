"""Groups like one that is there: the same members under other names, in a group of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from wharfinger.groups.membership import GroupIndex
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.model.state.cluster_state import ClusterState

_NUMBERED = re.compile(r"(?P<stem>.+)-(?P<number>[0-9]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class FurtherGroup:
    """A group like another one: its key, its members, and the PodGroup that it needs (None where labels or a policy make the group)."""

    key: str
    pods: tuple[PodView, ...]
    pod_group: objects.PodGroup | objects.CoschedulingPodGroup | None


def further_groups(index: GroupIndex, key: str, pods: Sequence[PodView], state: ClusterState) -> Iterator[FurtherGroup]:
    """Groups without end like the one of that key, which has these members; names that are there already are left out.

    Labels, annotations, affinity and spread constraints of a member that have the name of the group get the new name.
    """
    namespace, _, name = key.partition("/")
    found = _NUMBERED.fullmatch(name)
    stem, number = (name, 0) if found is None else (found["stem"], int(found["number"]))
    model = state.objects.get(objects.PodGroup, name, namespace) or state.objects.get(objects.CoschedulingPodGroup, name, namespace)
    while True:
        number += 1
        other = f"{stem}-{number}"
        own = f"{namespace}/{other}"
        if index.members(own):
            continue
        made = tuple(_renamed(pod, place, name, other) for place, pod in enumerate(pods))
        yield FurtherGroup(
            key=own, pods=made, pod_group=None if model is None else replace(model, metadata=replace(model.metadata, name=other))
        )


def _renamed(pod: PodView, place: int, name: str, other: str) -> PodView:
    """A member of another group; its uid is its own."""
    own = pod.object
    spec, metadata = own.spec, own.metadata
    changed = replace(
        spec,
        scheduling_group=None if spec.scheduling_group is None else replace(spec.scheduling_group, pod_group_name=other),
        affinity=_with_name(spec.affinity, name, other),
        topology_spread_constraints=tuple(_with_name(each, name, other) for each in spec.topology_spread_constraints),
    )
    texts = {
        field: {key: other if value == name else value for key, value in getattr(metadata, field).items()}
        for field in ("labels", "annotations")
    }
    identity = f"{other}-{place}"
    return PodView(replace(own, metadata=replace(metadata, name=identity, uid=f"{metadata.uid}/{identity}", **texts), spec=changed))


def _with_name(value: Any, name: str, other: str) -> Any:
    """A part of a pod in which each text that is the one name is the other."""
    if value is None:
        return None
    plain = msgspec.to_builtins(value)
    changed = _replaced(plain, name, other)
    return value if changed == plain else decode.convert(changed, type(value))


def _replaced(value: Any, name: str, other: str) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(member, name, other) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(member, name, other) for member in value]
    return other if value == name else value
