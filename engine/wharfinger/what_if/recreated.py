"""Placed pods as pending ones: as their controllers create them again after they have been deleted."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView


def recreated(pod: PodView, created: datetime | None = None) -> PodView:
    """The pod as its controller would create it again: on no node, without a status, created at `created` (as before if None).

    Name and uid stay, so that ties between nodes are decided as for the pod itself. A real controller gives the pod a new uid, and its
    pods of a Deployment new names: among equally good nodes another one may then be chosen.
    """
    own = pod.object
    metadata = replace(own.metadata, deletion_timestamp=None, creation_timestamp=created or own.metadata.creation_timestamp)
    return PodView(replace(own, metadata=metadata, spec=replace(own.spec, node_name=""), status=objects.PodStatus()))
