"""A ConfigMap as a source of policies, read through the API: no mount, no waiting for the kubelet.

Every key that ends with `.policy` is a text; they may import each other and nothing else. If the ConfigMap is deleted or may not be read,
the source is lost and its last texts stay. The key `NO-POLICIES` means that no policies are intended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec

from wharfinger.emit import Emit
from wharfinger.errors import UsageError
from wharfinger.framework.policy_status import PolicySink, PolicyText
from wharfinger.framework.ports import Clock, Reference
from wharfinger.kube.connection import Connection
from wharfinger.kube.reflector import Reflector, ReflectorSettings
from wharfinger.kube.wire import Resource
from wharfinger.language.files import NO_POLICIES_MARKER, SUFFIX
from wharfinger.model import objects
from wharfinger.model.objects.metadata import KubeStruct, ObjectMeta

_RETRY_SECONDS = 5.0  # seconds until a ConfigMap that may not be read is requested again


class ConfigMap(KubeStruct, frozen=True):
    """A ConfigMap, as far as policies need it."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = msgspec.field(default_factory=dict)
    binary_data: dict[str, str] = msgspec.field(default_factory=dict)


class ConfigMapSource:
    """The policies in one ConfigMap, `reference` being `namespace/name`; UsageError for anything else."""

    empty_is_lost = True
    imports = True

    def __init__(self, reference: str, connection: Connection, clock: Clock, emit: Emit) -> None:
        namespace, _, name = reference.partition("/")
        if not namespace or not name or "/" in name:
            raise UsageError(f"{reference}: a ConfigMap of policies is named as NAMESPACE/NAME")
        self.name = f"configmap {reference}"
        self._reference = reference
        self._connection = connection
        self._clock = clock
        self._emit = emit
        self._resource = Resource(
            kind=cast("type[objects.AnyObject]", ConfigMap),
            path=f"/api/v1/namespaces/{namespace}/configmaps",
            params={"fieldSelector": f"metadata.name={name}"},
        )

    async def run(self, sink: PolicySink) -> None:
        """Watch the ConfigMap until cancelled."""
        watched = _ConfigMapSink(self.name, self._reference, sink)
        settings = ReflectorSettings(unavailable_wait=_RETRY_SECONDS)
        reflector = Reflector(self._connection, self._resource, watched, self._clock, self._emit, settings)
        watched.refusal = lambda: reflector.refused
        await reflector.run()


class _ConfigMapSink:
    """The ClusterSink of the watch: offers the texts of the ConfigMap."""

    def __init__(self, source: str, reference: str, sink: PolicySink) -> None:
        self._source = source
        self._reference = reference
        self._sink = sink
        self.refusal: Callable[[], str | None] = lambda: None

    def upsert(self, kind: str, obj: Any) -> None:  # noqa: ARG002 — there is one kind
        """Offer the texts of the ConfigMap to the sink."""
        found: ConfigMap = obj
        keys = [key for key in found.data if key.endswith(SUFFIX) or key == NO_POLICIES_MARKER]
        self._sink.offer(self._source, {key: self._text(found, key) for key in keys}, notes=_notes(found, keys))

    def delete(self, kind: str, obj: Any) -> None:  # noqa: ARG002 — as above
        """Report the deletion of the ConfigMap as a loss."""
        self._sink.mark_unreadable(self._source, "the ConfigMap has been deleted")

    def replace(self, kind: str, objs: Sequence[Any]) -> None:
        """Offer the listed ConfigMap, or report that there is none."""
        for obj in objs:
            self.upsert(kind, obj)
        if not objs:
            self._sink.mark_unreadable(self._source, self.refusal() or "there is no such ConfigMap")

    def synced(self, kind: str) -> None:
        """Ignored: the list has been delivered by then."""

    def _text(self, found: ConfigMap, key: str) -> PolicyText:
        metadata = found.metadata
        about = Reference(kind="ConfigMap", name=metadata.name, namespace=metadata.namespace, uid=metadata.uid)
        return PolicyText(name=f"{self._reference}/{key}", content=found.data[key].encode(), about=about, wanted=key != NO_POLICIES_MARKER)


def _notes(found: ConfigMap, keys: Sequence[str]) -> tuple[str, ...]:
    others = sorted({*found.data, *found.binary_data} - set(keys))
    shown = ", ".join(others[:3]) + (", …" if len(others) > 3 else "")
    return (f"keys that are not read, because policies are text under keys that end with {SUFFIX}: {shown}",) if others else ()
