"""Where policies come from, as far as whoever compiles them needs to know: texts under keys, offered again whenever they change.

A source tells everything it has, every time; what has changed is found out by whoever listens. Folders, ConfigMaps and custom resources
implement this, and tests do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from wharfinger.language.authority import CLUSTER, Authority

if TYPE_CHECKING:
    from wharfinger.framework.ports import Reference


class Mode(Enum):
    """What a policy may do: decide, be evaluated beside those that decide without affecting them, or nothing."""

    ENFORCE = "Enforce"
    SHADOW = "Shadow"
    OFF = "Off"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerText:
    """What a place remembers of the last version of a policy that held: enough to make it again. `since` is seconds since 1970."""

    content: bytes
    params: Mapping[str, Any] = field(default_factory=dict)
    generation: int = 0
    since: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyText:
    """One file of a source, as bytes: it may be anything. `name` is what diagnostics call it; imports are relative to it.

    `params` are texts or plain values in base units, as in `compiler.params`. `generation` is that of a custom resource, 0 elsewhere.
    `about` is the object that holds the text and gets the events about it; None for a file. `trouble` says why there is no content.
    One that is not `wanted` is only there for others to import, or says under the key `NO-POLICIES` that having none is meant.
    `former` is for a process that has just begun, and knows no better.
    `authority` is whose policy it is: said by the source, never by the text, so it holds for former versions as well.
    """

    name: str
    content: bytes
    mode: Mode = Mode.ENFORCE
    params: Mapping[str, Any] = field(default_factory=dict)
    generation: int = 0
    about: Reference | None = None
    trouble: str = ""
    wanted: bool = True
    former: FormerText | None = None
    authority: Authority = CLUSTER


class PolicySink(Protocol):
    """Told what sources have."""

    def offer(self, source: str, texts: Mapping[str, PolicyText], *, notes: tuple[str, ...] = ()) -> None:
        """None, at once; these are all the texts of a source by key, and sentences about the source that people should know.

        What was offered before and is not among them has been removed, unless the source is `lasting` and has nothing left at all, not
        even the key `NO-POLICIES`.
        """

    def lose(self, source: str, why: str) -> None:
        """None, at once; the source cannot be read at present. What it offered last stays."""


class PolicySource(Protocol):
    """Watches one place that policies are kept in."""

    @property
    def name(self) -> str:
        """What people call the place: a path, `configmap team-a/policies`, `schedulingpolicies`."""

    @property
    def lasting(self) -> bool:
        """Whether having nothing at all means that the place has gone, rather than that its last policy was removed on purpose."""

    @property
    def imports(self) -> bool:
        """Whether its texts may import each other; nothing else can be imported."""

    async def run(self, sink: PolicySink) -> None:
        """None, when cancelled: tells the sink what there is and then every change, whatever breaks in between."""
