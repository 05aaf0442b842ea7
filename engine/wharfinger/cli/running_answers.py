"""What a `wharf run` answers: as much of it as is shown, and in the shape that is counted on."""

from __future__ import annotations

from typing import Any, TypedDict, TypeVar

import msgspec

from wharfinger.errors import UsageError
from wharfinger.model.printable import printable

T = TypeVar("T")

POLICIES = "/policies?format=json"


class Source(TypedDict):
    """Where policies come from; `lost` says why it cannot be read."""

    name: str
    lost: str | None
    notes: list[str]


class PolicyState(TypedDict):
    """Which version of a policy holds."""

    name: str | None
    state: str
    revision: str | None


class Finding(TypedDict, total=False):
    """A diagnostic; without a line it is about the whole file."""

    file: str
    line: int
    column: int
    severity: str
    code: str
    message: str


class MetricState(TypedDict):
    """How a metric fares at present, as a sentence."""

    name: str
    said: str


class Policy(PolicyState):
    """All that is told of a policy."""

    authority: str
    source: str
    key: str
    activeSince: str | None
    diagnostics: list[Finding]
    omittedDiagnostics: int
    now: list[Finding]
    metrics: list[MetricState]


class PolicyStates(TypedDict):
    """`/policies`, in short."""

    sources: list[Source]
    policies: list[PolicyState]


class Policies(TypedDict):
    """`/policies`."""

    sources: list[Source]
    policies: list[Policy]


class Decision(TypedDict):
    """One attempt at a pod."""

    at: str
    pod: str
    node: str | None
    message: str
    result: str


class Decisions(TypedDict):
    """`/decisions`."""

    decisions: list[Decision]


def is_troubled(policy: PolicyState) -> bool:
    """Whether the last text of a policy was refused, or pods that it governs wait because it takes too long to decide."""
    return policy["state"] in {"kept", "refused", "suspended"}


def shaped(answer: Any, shape: type[T], place: str) -> T:
    """The answer, in one line wherever it is text, and without anything that moves a terminal's cursor; UsageError for another shape.

    Names and messages in it were written by whoever may write to the cluster.
    """
    try:
        return msgspec.convert(_printable(answer), shape)
    except msgspec.ValidationError as error:
        raise UsageError(f"{place}: this is not what a scheduler answers: {error}") from error


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [_printable(each) for each in value]
    return {key: _printable(each) for key, each in value.items()} if isinstance(value, dict) else value
