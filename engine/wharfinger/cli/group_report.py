"""What becomes of groups, for the reports of several verbs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from wharfinger.groups.results import GroupResult
from wharfinger.groups.terms import DomainFit
from wharfinger.language.report import wording


def lines(found: Sequence[GroupResult]) -> Iterator[str]:
    """A table for people: a line per group, and the domains that take most of one that has no place. Empty without groups."""
    if not found:
        return
    rows = [("GROUP", "STATE", "PLACED", "WHERE, OR WHY NOT")]
    for result in found:
        rows.append(
            (result.group, result.state.value, f"{result.placed} of {result.members}", (result.message or where(result)) + _evicts(result))
        )
        rows += [("", "", "", f"  {nearest(fit)}") for fit in result.nearest]
    yield from wording.columns(rows).splitlines()


def where(result: GroupResult) -> str:
    """The domains of a group that is placed: `rack r1`; "-" where its terms name none."""
    return ", ".join(f"{key} {value}" for key, value in result.domains.items()) or "-"


def _evicts(result: GroupResult) -> str:
    return f", evicts {', '.join(result.victims)}" if result.victims else ""


def nearest(fit: DomainFit) -> str:
    """The number of members that a domain takes, and the reasons against the rest: `rack r7 takes 6 of 8: 3 Insufficient cpu`."""
    place = f"{fit.key} {fit.value}" if fit.key else "the cluster"
    reasons = sorted(fit.reasons.items(), key=lambda item: (-item[1], item[0]))
    return f"{place} takes {fit.fits} of {fit.wanted}" + (f": {', '.join(f'{count} {text}' for text, count in reasons)}" if reasons else "")


def value(result: GroupResult) -> dict[str, Any]:
    """The result as plain values."""
    return {
        "group": result.group,
        "source": result.source,
        "min_count": result.min_count,
        "members": result.members,
        "placed": result.placed,
        "state": result.state.value,
        "message": result.message,
        "domains": dict(result.domains),
        "nearest": [fit_value(fit) for fit in result.nearest],
        "victims": list(result.victims),
    }


def fit_value(fit: DomainFit) -> dict[str, Any]:
    """The number of members that a domain takes, as plain values."""
    return {"key": fit.key, "value": fit.value, "fits": fit.fits, "wanted": fit.wanted, "reasons": dict(fit.reasons)}
