"""An event and how often it has happened since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wharfinger.framework.ports import Event, Reference
from wharfinger.model.timestamps import micro_time

_LONGEST_NOTE = 1024


@dataclass(slots=True, kw_only=True)
class Series:
    """What is to be written; thousands may wait, so the object of the API is made only then."""

    namespace: str
    name: str
    event_time: float
    about: Reference
    event: Event
    queued_at: float = 0.0
    count: int = 1
    written_count: int = 0
    written_at: float = 0.0
    queued: bool = True

    def body(self, instance: str) -> dict[str, Any]:
        """The Event as it happened first."""
        body: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "eventTime": micro_time(self.event_time),
            "reportingInstance": instance[:128],
            "regarding": _reference(self.about),
            "reportingController": self.event.reporter,
            "type": self.event.type,
            "reason": self.event.reason,
            "action": self.event.action,
            "note": self.event.note,
        }
        if self.event.related is not None:
            body["related"] = _reference(self.event.related)
        return body


def cut(note: str) -> str:
    """A note of at most 1,024 bytes (truncateMessage, pkg/scheduler/schedule_one.go, Kubernetes 1.36)."""
    raw = note.encode()
    return note if len(raw) <= _LONGEST_NOTE else raw[: _LONGEST_NOTE - 4].decode(errors="ignore") + " ..."


def _reference(reference: Reference) -> dict[str, str]:
    fields = {
        "apiVersion": reference.api_version,
        "kind": reference.kind,
        "name": reference.name,
        "namespace": reference.namespace,
        "uid": reference.uid,
    }
    return {name: value for name, value in fields.items() if value}
