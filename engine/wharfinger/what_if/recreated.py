"""Placed pods as pending ones: as their controllers create them again after they have been deleted."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView


def recreated(pod: PodView, created: datetime | None = None) -> PodView:
    """The pod as its controller would create it again: on no node, created at `created` (as before if None).

    Of its status only the names of claims stay that were made of templates: they stand for the claims that would be made for it.

    Name and uid stay, so that ties between nodes are decided as for the pod itself. A real controller gives the pod a new uid, and its
    pods of a Deployment new names: among equally good nodes another one may then be chosen.
    """
    own = pod.object
    metadata = replace(own.metadata, deletion_timestamp=None, creation_timestamp=created or own.metadata.creation_timestamp)
    status = objects.PodStatus(resource_claim_statuses=own.status.resource_claim_statuses)
    return PodView(replace(own, metadata=metadata, spec=replace(own.spec, node_name=""), status=status))
