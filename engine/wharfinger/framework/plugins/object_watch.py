"""Changes of objects that are neither nodes nor pods, such as Services and claims."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wharfinger.model import objects
    from wharfinger.model.state.snapshot import Snapshot


class ObjectWatch:
    """The objects of some kinds as they are in a snapshot."""

    __slots__ = ("_kinds", "_revision", "_seen")

    def __init__(self, snapshot: Snapshot, *kinds: type[objects.AnyObject]) -> None:
        self._kinds = kinds
        self._seen = snapshot.objects.revision
        self._revision = snapshot.objects.revision_of(*kinds)

    def stands(self, snapshot: Snapshot) -> bool:
        """True if none of them has changed until a later snapshot."""
        store = snapshot.objects
        if store.revision != self._seen:
            if store.revision_of(*self._kinds) != self._revision:
                return False
            self._seen = store.revision
        return True
