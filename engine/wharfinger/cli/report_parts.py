"""Parts of reports that several verbs share: the use of a cluster before and after something, and what becomes of groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from wharfinger.groups.results import GroupResult
from wharfinger.groups.terms import DomainFit
from wharfinger.language.report import wording
from wharfinger.simulate.dry_run import Utilisation

# ── the use of a cluster ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def usage_lines(before: Utilisation, after: Utilisation | None) -> Iterator[str]:
    """A table for people: a line for the nodes and for each resource; without the column `after` if nothing happened."""
    every = [("", "before", "after", "of"), *usage_rows(before, after or before)]
    shown = every if after is not None else [(name, old, of) for name, old, _, of in every]
    yield from wording.columns(shown, right=frozenset({1, 2, 3})).splitlines()


def usage_rows(before: Utilisation, after: Utilisation) -> Iterator[tuple[str, str, str, str]]:
    """(name, before, after, of how much) for the nodes that hold pods and for each resource."""
    yield "nodes touched", f"{before.touched:,}", f"{after.touched:,}", _change(before.nodes, after.nodes)
    for use in before.resources:
        then = after.of(use.resource)
        offered = [wording.amount(use.resource, amount) for amount in (use.allocatable, then.allocatable)]
        yield use.resource, wording.percent(use.fraction), wording.percent(then.fraction), " → ".join(dict.fromkeys(offered))


def _change(before: int, after: int) -> str:
    return " → ".join(f"{number:,}" for number in dict.fromkeys((before, after)))


def usage_value(found: Utilisation) -> dict[str, Any]:
    """The use of a cluster as plain values."""
    return {
        "nodes": found.nodes,
        "nodesTouched": found.touched,
        "pods": found.pods,
        "resources": {
            use.resource: {"requested": use.requested, "allocatable": use.allocatable, "fraction": round(use.fraction, 6)}
            for use in found.resources
        },
    }


# ── groups ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def group_lines(found: Sequence[GroupResult]) -> Iterator[str]:
    """A table for people: a line per group, and the domains that take most of one that has no place. Empty without groups."""
    if not found:
        return
    rows = [("GROUP", "STATE", "PLACED", "WHERE, OR WHY NOT")]
    for result in found:
        rows.append(
            (result.group, result.state.value, f"{result.placed} of {result.members}", (result.message or _where(result)) + _evicts(result))
        )
        rows += [("", "", "", f"  {domain_fit(fit)}") for fit in result.nearest]
    yield from wording.columns(rows).splitlines()


def _where(result: GroupResult) -> str:
    """The domains of a group that is placed: `rack r1`; "-" where its terms name none."""
    return ", ".join(f"{key} {value}" for key, value in result.domains.items()) or "-"


def _evicts(result: GroupResult) -> str:
    return f", evicts {', '.join(result.victims)}" if result.victims else ""


def domain_fit(fit: DomainFit) -> str:
    """The number of members that a domain takes, and the reasons against the rest: `rack r7 takes 6 of 8: 3 Insufficient cpu`."""
    place = f"{fit.key} {fit.value}" if fit.key else "the cluster"
    reasons = sorted(fit.reasons.items(), key=lambda item: (-item[1], item[0]))
    return f"{place} takes {fit.fits} of {fit.wanted}" + (f": {', '.join(f'{count} {text}' for text, count in reasons)}" if reasons else "")
