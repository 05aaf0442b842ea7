"""Everything that a decision depends on, read from an API server at one resource version.

The first kind is listed as it is now, the others at the version of that list: all kinds share one numbering of changes. If the server
stores a kind elsewhere or has already forgotten that version, the current objects are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from wharfinger.errors import InvalidObject, UsageError
from wharfinger.framework.ports import Clock
from wharfinger.kube import refusals, wire
from wharfinger.kube.connection import Connection
from wharfinger.kube.refusals import Backoff
from wharfinger.kube.wire import SCHEDULING, Resource
from wharfinger.model.reading import snapshot_file

PAGE = 500
_ATTEMPTS = 4
_NOT_AT_THAT_VERSION = (refusals.Gone, refusals.BadRequest, refusals.Invalid, refusals.ServerError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """The encoded items of a snapshot, their number by kind, and how it was captured."""

    items: Sequence[bytes]
    counts: Mapping[str, int]
    word: snapshot_file.Capture

    @property
    def content(self) -> bytes:
        """The file."""
        return b"".join(snapshot_file.document(self.items, self.word))


async def captured(connection: Connection, clock: Clock, *, resources: Sequence[Resource] = SCHEDULING) -> Captured:
    """The objects of these kinds.

    UsageError if a required kind cannot be read; other kinds, and objects, that cannot be read are named in `word`.
    """
    reading = _Reading(connection, clock)
    taken_at = clock.now()
    for resource in resources:
        await reading.read(resource)
    return Captured(items=reading.items, counts=reading.counts, word=snapshot_file.capture_at(taken_at, reading.not_read))


@dataclass(slots=True)
class _Reading:
    connection: Connection
    clock: Clock
    version: str = ""
    items: list[bytes] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    not_read: list[str] = field(default_factory=list)

    async def read(self, resource: Resource) -> None:
        """Adds the objects of a kind to `items`, or the reason to `not_read`."""
        try:
            resource, found = await self._at_a_version(resource)
        except (refusals.Forbidden, refusals.NotFound) as error:
            if resource.optional and isinstance(error, refusals.NotFound):
                self.counts[resource.name] += 0
                return
            if resource.required:
                raise UsageError(f"cannot read {resource.plural}: {_remedy(resource, error)}") from error
            self.not_read.append(f"{resource.plural} are missing: {_remedy(resource, error)}")
        except refusals.Unauthorized as error:
            raise UsageError(f"the API server {self.connection.credentials.server} refuses the credentials: {error}") from error
        except (refusals.ApiError, InvalidObject) as error:
            raise UsageError(f"cannot read {resource.plural} from {self.connection.credentials.server}: {error}") from error
        else:
            encoded = [item for raw in found if (item := self._item(resource, raw)) is not None]
            self.items += encoded
            self.counts[resource.name] += len(encoded)

    def _item(self, resource: Resource, raw: msgspec.Raw) -> bytes | None:
        try:
            return snapshot_file.encoded(wire.struct_of(raw, resource.kind), resource.api_version)
        except InvalidObject as error:
            self.not_read.append(f"left out: {error}")
            return None

    async def _at_a_version(self, resource: Resource) -> tuple[Resource, list[msgspec.Raw]]:
        """The objects of a kind, with the first of its versions that the server has; NotFound if it has none."""
        for version in resource.versions[:-1]:
            try:
                return version, await self._patiently(version)
            except refusals.NotFound:
                continue
        last = resource.versions[-1]
        return last, await self._patiently(last)

    async def _patiently(self, resource: Resource) -> list[msgspec.Raw]:
        """The objects of a kind; repeated a few times while the server is busy."""
        waits = Backoff()
        for _ in range(_ATTEMPTS - 1):
            try:
                return await self._at_that_moment(resource)
            except refusals.TRANSIENT as error:
                await self.clock.sleep(waits.after(error))
        return await self._at_that_moment(resource)

    async def _at_that_moment(self, resource: Resource) -> list[msgspec.Raw]:
        """The objects of a kind at the version of the first list if possible, else the current ones."""
        if self.version:
            try:
                return await self._pages(resource, {"resourceVersion": self.version, "resourceVersionMatch": "Exact"}, PAGE)
            except _NOT_AT_THAT_VERSION:
                pass
        try:
            return await self._pages(resource, {}, PAGE)
        except refusals.Gone:
            return await self._pages(resource, {}, 0)

    async def _pages(self, resource: Resource, params: Mapping[str, str], size: int) -> list[msgspec.Raw]:
        found: list[msgspec.Raw] = []
        version = ""
        async for items, version in wire.pages(self.connection, resource.path, {**resource.params, **params}, size):  # noqa: B007 — the last
            found += items
        self.version = self.version or version
        return found


def _remedy(resource: Resource, error: refusals.ApiError) -> str:
    """The message of the server, and the permission that is missing."""
    if isinstance(error, refusals.NotFound):
        return f"the API server knows no {resource.plural} of {resource.api_version}"
    rule = f'apiGroups: ["{resource.group}"], resources: [{resource.plural}], verbs: [list]'
    return f"{error}; it takes a ClusterRole with the rule {{{rule}}}"
