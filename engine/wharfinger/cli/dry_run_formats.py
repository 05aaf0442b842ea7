"""A dry run as a table, as JSON and as YAML; the same input gives the same bytes on every machine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import yaml

from wharfinger.runtime import layout
from wharfinger.runtime.cluster import Cluster
from wharfinger.runtime.dry_run import DryRun, PodResult
from wharfinger.runtime.explanation import Explanation
from wharfinger.runtime.utilisation import Utilisation

MOST_WIDTH = 1_000_000  # never fold a line: folding would depend on nothing, but make diffs noisy


def table(run: DryRun, cluster: Cluster) -> str:
    """The report for people: a line per pod (or an explanation), then the summary."""
    return "\n".join(part for part in (_pods(run), _summary(run, cluster)) if part)


def _pods(run: DryRun) -> str:
    plain = [result for result in run.results if result.explanation is None]
    listed = layout.columns([("POD", "NODE", "TOTAL"), *map(_row, plain)]) if plain else ""
    explained = [f"{result.explanation}{_evicts(result)}" for result in run.results if result.explanation is not None]
    return "\n".join([*([listed] if listed else []), *explained])


def _row(result: PodResult) -> Sequence[str]:
    if result.node is None:
        room = f" Room on {result.nominated} if {_listed(result.victims)} left." if result.nominated else ""
        return result.pod, "-", result.message + room
    evicts = f", evicts {_listed(result.victims)}" if result.victims else ""
    return result.pod, result.node, " / ".join(map(layout.number, result.totals)) + evicts


def _evicts(result: PodResult) -> str:
    """The line about preemption under an explanation, "" where nobody has to leave."""
    if not result.victims:
        return ""
    return f"  evicts {_listed(result.victims)}\n" if result.node else f"  room on {result.nominated} if {_listed(result.victims)} left\n"


def _listed(victims: Sequence[str]) -> str:
    return ", ".join(victims)


def _summary(run: DryRun, cluster: Cluster) -> str:
    lines = [f"{run.placed:,} of {layout.count(len(run.results), 'pod')} placed, {run.unplaced:,} unschedulable ({run.mode.value})"]
    lines += [f"{layout.count(run.evicted, 'pod')} evicted by preemption"] if run.evicted else []
    lines += [f"  {line}" for line in _reasons(run)]
    lines += _usage(run.before, run.after)
    if cluster.ignored:
        lines.append("not needed and ignored: " + ", ".join(f"{count} {kind}" for kind, count in cluster.ignored.items()))
    return "\n".join(lines) + "\n"


def _reasons(run: DryRun) -> Iterator[str]:
    rows = [(f"{found.pods:,}", f"{found.only:,}", found.reason) for found in run.reasons]
    if rows:
        yield from layout.columns([("pods", "only this", "reason"), *rows], right=frozenset({0, 1})).splitlines()


def _usage(before: Utilisation, after: Utilisation | None) -> Iterator[str]:
    final = after or before
    rows = [("", "before", "after", "of"), ("nodes touched", f"{before.touched:,}", f"{final.touched:,}", f"{final.nodes:,}")]
    rows += [
        (
            use.resource,
            layout.percent(use.fraction),
            layout.percent(final.of(use.resource).fraction),
            layout.amount(use.resource, use.allocatable),
        )
        for use in before.resources
    ]
    shown = rows if after is not None else [(name, old, of) for name, old, _, of in rows]
    yield from layout.columns(shown, right=frozenset({1, 2, 3})).splitlines()


def as_json(run: DryRun, cluster: Cluster) -> str:
    """Everything, as JSON."""
    return json.dumps(_value(run, cluster), indent=2, ensure_ascii=False) + "\n"


def as_yaml(run: DryRun, cluster: Cluster) -> str:
    """Everything, as YAML."""
    return str(yaml.safe_dump(_value(run, cluster), sort_keys=False, allow_unicode=True, width=MOST_WIDTH))


def _value(run: DryRun, cluster: Cluster) -> dict[str, Any]:
    return {
        "mode": run.mode.value,
        "policies": [_policy(policy) for policy in run.chain.policies],
        "revisions": {"policies": run.chain.policy_revision, "chain": run.chain.revision},
        "pods": [_pod(result) for result in run.results],
        "summary": {
            "pods": len(run.results),
            "placed": run.placed,
            "unschedulable": run.unplaced,
            "evicted": run.evicted,
            "reasons": [asdict(found) for found in run.reasons],
            "before": _utilisation(run.before),
            "after": None if run.after is None else _utilisation(run.after),
        },
        "notes": list(run.notes),
        "ignored": dict(cluster.ignored),
        "skipped": list(cluster.skipped),
    }


def _policy(policy: Any) -> dict[str, Any]:
    return {"name": policy.name, "version": policy.version, "revision": policy.revision}


def _pod(result: PodResult) -> dict[str, Any]:
    value: dict[str, Any] = {"pod": result.pod, "node": result.node, "feasible": result.feasible}
    if result.node is None:
        value |= {"message": result.message, "reasons": dict(result.reasons)}
        value |= {"nominated": result.nominated} if result.nominated else {}
    else:
        value["totals"] = list(result.totals)
    if result.victims:
        value["victims"] = list(result.victims)
    if result.explanation is not None:
        value["explanation"] = _explanation(result.explanation)
    return value


def _explanation(found: Explanation) -> dict[str, Any]:
    value = asdict(found)
    for name in ("pod", "node", "message", "feasible"):
        del value[name]
    return _plain(value)  # type: ignore[no-any-return] # a dict stays a dict


def _plain(value: Any) -> Any:
    """The value with tuples as lists, which is what YAML can say."""
    if isinstance(value, dict):
        return {key: _plain(member) for key, member in value.items()}
    return [_plain(member) for member in value] if isinstance(value, list | tuple) else value


def _utilisation(found: Utilisation) -> dict[str, Any]:
    return {
        "nodes": found.nodes,
        "nodes_touched": found.touched,
        "pods": found.pods,
        "resources": {
            use.resource: {"requested": use.requested, "allocatable": use.allocatable, "fraction": round(use.fraction, 6)}
            for use in found.resources
        },
    }
