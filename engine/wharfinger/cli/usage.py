"""The use of a cluster before and after something, for the reports of several verbs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wharfinger.language.report import wording
from wharfinger.simulate.dry_run import Utilisation


def lines(before: Utilisation, after: Utilisation | None) -> Iterator[str]:
    """A table for people: a line for the nodes and for each resource; without the column `after` if nothing happened."""
    every = [("", "before", "after", "of"), *rows(before, after or before)]
    shown = every if after is not None else [(name, old, of) for name, old, _, of in every]
    yield from wording.columns(shown, right=frozenset({1, 2, 3})).splitlines()


def rows(before: Utilisation, after: Utilisation) -> Iterator[tuple[str, str, str, str]]:
    """(name, before, after, of how much) for the nodes that hold pods and for each resource."""
    yield "nodes touched", f"{before.touched:,}", f"{after.touched:,}", _change(before.nodes, after.nodes)
    for use in before.resources:
        then = after.of(use.resource)
        offered = [wording.amount(use.resource, amount) for amount in (use.allocatable, then.allocatable)]
        yield use.resource, wording.percent(use.fraction), wording.percent(then.fraction), " → ".join(dict.fromkeys(offered))


def _change(before: int, after: int) -> str:
    return " → ".join(f"{number:,}" for number in dict.fromkeys((before, after)))


def value(found: Utilisation) -> dict[str, Any]:
    """The use of a cluster as plain values."""
    return {
        "nodes": found.nodes,
        "nodes_touched": found.touched,
        "pods": found.pods,
        "resources": {
            use.resource: {"requested": use.requested, "allocatable": use.allocatable, "fraction": round(use.fraction, 6)}
            for use in found.resources
        },
    }
