"""Taints and the tolerations that put up with them.

Rules of `component-helpers/scheduling/corev1` (Kubernetes 1.36); the operators `Lt` and `Gt` are an alpha feature that is off, so they
tolerate nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from wharfinger.model import objects

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
KEEPING_AWAY = frozenset({NO_SCHEDULE, NO_EXECUTE})


def tolerates(toleration: objects.Toleration, taint: objects.Taint) -> bool:
    """True if a toleration puts up with a taint: an empty effect stands for every effect, an empty key for every key."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in {"", "Equal"}:
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def tolerated(tolerations: Iterable[objects.Toleration], taint: objects.Taint) -> bool:
    """True if one of the tolerations puts up with a taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


def untolerated(
    tolerations: Sequence[objects.Toleration], taints: Iterable[objects.Taint], effects: Collection[str] = KEEPING_AWAY
) -> list[objects.Taint]:
    """The taints of these effects that no toleration puts up with."""
    return [taint for taint in taints if taint.effect in effects and not tolerated(tolerations, taint)]
