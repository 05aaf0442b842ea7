"""SchedulingPolicies as a source of policies, in every replica: a new leader has them all.

While the definition is missing, the scheduler runs with the policies of other sources, reports it, and reads SchedulingPolicies as soon as
they appear. `status.lastKnownGood` repeats the version that decides, so that a process that starts while the spec is broken can go on with
it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from wharfinger.crd.fields import MANAGED_BY, MANAGER, NAMESPACE_LABEL
from wharfinger.crd.scheduling_policy import MOST_REMEMBERED, LastKnownGood, SchedulingPolicySpec
from wharfinger.event_loop import until
from wharfinger.framework.policy_status import FormerText, Mode, PolicySink, PolicyStatus, PolicyText
from wharfinger.framework.ports import Clock
from wharfinger.kube.custom_resources import SchedulingPolicy, reference_of
from wharfinger.language.semantics.authority import TenantRights
from wharfinger.model.objects.metadata import time_text
from wharfinger.operator.app_objects import app_key_of
from wharfinger.operator.object_cache import ObjectCache

FIELD = "lastKnownGood"


def last_known_good(found: PolicyStatus, before: Mapping[str, Any]) -> dict[str, Any] | None:
    """The value for the status: the version that is in effect, or what the status had `before` if none is; None for nothing."""
    if not found.holds:
        known: dict[str, Any] | None = before.get(FIELD)
        return known
    held = found.held
    if held is None:
        return None
    source = held.content.decode("utf-8", "replace")
    if len(source) > MOST_REMEMBERED:
        return None
    said = {"source": source, "generation": held.generation, "since": time_text(held.since)}
    return {**said, "params": dict(held.params)} if held.params else said


def remembered(status: Mapping[str, Any]) -> FormerText | None:
    """The last good version in a status; None if there is none that can be read."""
    if status.get(FIELD) is None:
        return None
    try:
        good = LastKnownGood.model_validate(status[FIELD])
    except ValidationError:
        return None
    return FormerText(content=good.source.encode(), params=dict(good.params), generation=good.generation, since=good.since.timestamp())


KIND = "SchedulingPolicy"
SOURCE = "schedulingpolicies"
_LOOK_AGAIN = 2.0  # seconds between two looks whether the kind can be read

NOT_INSTALLED = "the definition of SchedulingPolicies is not there any more; `wharf install --print | kubectl apply -f -` brings it back"


class SchedulingPolicySource:
    """A `PolicySource` over what the informers know. `refused` says why the kind cannot be listed, None if it can.

    `rights` are those of policies that belong to a namespace.

    A kind that is `absent` from the start has no policies; one that vanishes later leaves those that there were.
    """

    name = SOURCE
    lasting = False
    imports = False

    def __init__(
        self,
        cache: ObjectCache,
        clock: Clock,
        refused: Callable[[], str | None],
        absent: Callable[[], bool] = lambda: False,
        rights: TenantRights | None = None,
    ) -> None:
        self._cache = cache
        self._clock = clock
        self._refused = refused
        self._absent = absent
        self._rights = rights or TenantRights()
        self._changed = asyncio.Event()
        cache.watch(KIND, lambda _obj: self._changed.set())
        cache.when_synced(KIND, self._changed.set)

    async def run(self, sink: PolicySink) -> None:
        """Gives the sink all policies and then every change, until cancelled."""
        told: str | None = ""
        while True:
            self._changed.clear()
            if KIND in self._cache.synced_kinds:
                why = self._refused()
                if why is None or (told == "" and self._absent()):
                    sink.offer(SOURCE, {policy.metadata.name: self._text(policy) for policy in self._cache.all(KIND)})
                elif why != told:
                    sink.lose(SOURCE, NOT_INSTALLED if self._absent() else f"SchedulingPolicies cannot be read: {why}")
                told = why
            await self._news(told)

    def _text(self, policy: SchedulingPolicy) -> PolicyText:
        """The text of a resource; events about one that an app has brought along are about the app, and so in its namespace."""
        text = text_of(policy, self._rights)
        key = app_key_of(policy)
        if key is None:
            return text
        app = self._cache.get("PolicyApp", key)
        return replace(text, about=None if app is None else reference_of(app))

    async def _news(self, told: str | None) -> None:
        """Waits until a policy has changed, or whether policies can be read."""
        while not await until(self._changed, self._clock, _LOOK_AGAIN):
            if KIND in self._cache.synced_kinds and self._refused() != told:
                return


def text_of(policy: SchedulingPolicy, rights: TenantRights) -> PolicyText:
    """The text of a resource, an empty one if its spec cannot be read. Every field of the spec that decides is read here."""
    text = PolicyText(
        name=f"{SOURCE}/{policy.metadata.name}",
        content=b"",
        generation=policy.metadata.generation,
        about=reference_of(policy),
        former=remembered(policy.status),
        authority=rights.of(namespace_of(policy)),
    )
    try:
        spec = SchedulingPolicySpec.model_validate(policy.spec)
    except ValidationError:
        return text
    return replace(text, content=spec.source.encode(), mode=Mode(spec.mode.value), params=dict(spec.params))


def namespace_of(policy: SchedulingPolicy) -> str | None:
    """The namespace whose policy it is, None for the cluster's.

    What is made for a PolicyApp says so in `spec.namespace`, and also in a label: an API server whose definition of SchedulingPolicies is
    older drops the field in silence. Either can only be written by who may write policies of the cluster.
    """
    said = policy.spec.get("namespace")
    if isinstance(said, str) and said:
        return said
    labels = policy.metadata.labels
    return labels.get(NAMESPACE_LABEL) if labels.get(MANAGED_BY) == MANAGER else None
