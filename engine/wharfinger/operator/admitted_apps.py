"""Which PolicyApps are acted upon: the oldest of each namespace, as many as the settings allow.

Each app costs the scheduler a look every few seconds, and its policy memory. A ResourceQuota limits their number too, but no namespace has
one unless somebody makes it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable

from wharfinger.kube.custom_resources import PolicyApp
from wharfinger.model.objects.metadata import ObjectMeta

MOST_APPS = 100
"""The default limit for each namespace."""

TOO_MANY = "TooManyApps"

Age = tuple[float, str]
"""The time of creation and the name of an app: the order in which apps are admitted."""


class AdmittedApps:
    """The apps of each namespace by age. `admitted` is called with the key of an app for which there is room now."""

    def __init__(self, most: int, admitted: Callable[[str], None]) -> None:
        self._most = most
        self._admitted = admitted
        self._ages: dict[str, list[Age]] = defaultdict(list)

    def add(self, app: PolicyApp) -> None:
        """Counts an app; one that is counted already changes nothing."""
        ages, age = self._ages[app.metadata.namespace], _age(app.metadata)
        place = bisect_left(ages, age)
        if place == len(ages) or ages[place] != age:
            ages.insert(place, age)

    def discard(self, app: PolicyApp) -> None:
        """Counts an app no more, and admits the one that has waited longest."""
        meta = app.metadata
        ages, age = self._ages[meta.namespace], _age(meta)
        place = bisect_left(ages, age)
        if place == len(ages) or ages[place] != age:
            return
        del ages[place]
        if place < self._most <= len(ages):
            self._admitted(f"{meta.namespace}/{ages[self._most - 1][1]}")
        if not ages:
            del self._ages[meta.namespace]

    def refusal(self, app: PolicyApp) -> tuple[str, str] | None:
        """(reason, sentence) why an app is not acted upon; None if it is."""
        namespace = app.metadata.namespace
        ages = self._ages.get(namespace, [])
        if bisect_left(ages, _age(app.metadata)) < self._most:
            return None
        return TOO_MANY, (
            f"namespace {namespace} has {len(ages):,} PolicyApps, and the scheduler acts upon the {self._most:,} oldest of a namespace "
            "(limits.policyApps); it acts upon this one once others are deleted, or the limit is higher"
        )


def _age(meta: ObjectMeta) -> Age:
    return (0.0 if meta.creation_timestamp is None else meta.creation_timestamp.timestamp(), meta.name)
