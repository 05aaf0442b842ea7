"""The effect of a policy on the nodes of its tests, or of a cluster for one pod. The answers are plain values for a page.

Nothing is adopted: a policy is compiled, evaluated and discarded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wharfinger.authoring.protocol.positions import Positions
from wharfinger.compiler import cost
from wharfinger.compiler.cost import Budget
from wharfinger.compiler.program import CompiledPolicy
from wharfinger.errors import InvalidObject, UsageError
from wharfinger.explain.conditions import PolicyExplainer
from wharfinger.explain.difference import WITHOUT_POLICY, causes
from wharfinger.explain.explained_pod import explained_decision, unbound
from wharfinger.explain.explanation import explain_decision
from wharfinger.framework.evaluation.cycle import decide
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.language import ast
from wharfinger.language.report.plain_values import plain
from wharfinger.language.semantics import typed
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import files, workloads
from wharfinger.model.state.snapshot import Snapshot
from wharfinger.policies import policy_tests
from wharfinger.policies.coverage import Covered, covered_fraction
from wharfinger.policies.policy_tests import Failure
from wharfinger.policies.scenario import Attempt, Scenario
from wharfinger.web.playground.clusters import OpenedCluster
from wharfinger.web.ui import page_content
from wharfinger.web.ui.page_content import Coloring
from wharfinger.what_if.supposed_changes import SupposedChanges

MAX_NODES_SHOWN = 12
"""Nodes of a test whose values are shown."""
MAX_PLACED_SHOWN = 200
"""Pods of all tests together whose values are shown."""
MAX_PODS_OFFERED = 300
MAX_MANIFESTS = 100
"""Pods that a written workload may have; the first is looked at."""


def compiled(policy: typed.Policy, budget: Budget) -> CompiledPolicy:
    """The policy ready to decide. Raises UsageError if it costs more than the budget, PolicyError if it costs too much anywhere."""
    above = cost.excess(cost.of_policy(policy), budget)
    if above is not None:
        raise UsageError(f"the policy is too expensive to be tried here: {above}; `wharf playground` on your own machine can try it")
    return cost.affordable(policy_tests.CompileCache()(policy, {}))


def tested(policy: typed.Policy, positions: Positions) -> Mapping[str, Any]:
    """The results of the tests of a policy with the values that led to them."""
    placed: dict[int, list[Mapping[str, Any]]] = {}

    def observe(test: ast.Test, scenario: Scenario, attempt: Attempt) -> None:
        if sum(map(len, placed.values())) < MAX_PLACED_SHOWN:
            placed.setdefault(test.span.start, []).append(_attempt(scenario, attempt))

    report = policy_tests.run([policy], observe=observe)
    return {
        "tests": [
            {
                "title": result.title,
                "from": positions.to_units(result.at.start),
                "line": result.at.line,
                "passed": result.passed,
                "failures": [_failure(failure, positions) for failure in result.failures],
                "placed": placed.get(result.at.start, []),
            }
            for result in report.results
        ],
        "coverage": covered_fraction(report.coverage),
        "uncovered": [_uncovered(point, positions) for point in report.coverage if point.unseen],
    }


def _failure(failure: Failure, positions: Positions) -> Mapping[str, Any]:
    return {
        "from": positions.to_units(failure.at.start),
        "to": positions.to_units(failure.at.end),
        "line": failure.at.line,
        "message": failure.sentence,
        "details": list(failure.details),
    }


def _uncovered(point: Covered, positions: Positions) -> Mapping[str, Any]:
    never = " or ".join(truth.value for truth in point.unseen)
    return {"from": positions.to_units(point.at.start), "line": point.at.line, "text": f"{point.rule} was never {never}"}


def _attempt(scenario: Scenario, attempt: Attempt) -> Mapping[str, Any]:
    """The decision about a pod of a test, and each node's verdicts and scores, the best node first."""
    decision, snapshot = attempt.decision, attempt.snapshot
    shown = explain_decision(decision, snapshot, PolicyExplainer(decision.chain), snapshot.names[:MAX_NODES_SHOWN])
    reports = sorted(shown.asked, key=lambda report: (report.node != decision.node, not report.totals, [-total for total in report.totals]))
    return {
        "pod": decision.pod.name,
        "node": decision.node,
        "message": decision.message,
        "evicted": list(attempt.evicted),
        "devices": list(attempt.devices),
        "policy": scenario.policy.name,
        "nodes": [{**plain(report), "passes": not report.rejected_by} for report in reports],
        "omitted": max(0, snapshot.n_nodes - MAX_NODES_SHOWN),
    }


def described(opened: OpenedCluster) -> Mapping[str, Any]:
    """A cluster: its tiles, their states, its use as colours, and the pods that can be decided."""
    snapshot = opened.state.snapshot(opened.now)
    placed = [pod.key for pod, _ in zip((pod for pod, _ in opened.state.placements()), range(MAX_PODS_OFFERED), strict=False)]
    return {
        **_tiles(snapshot),
        **_coloring(_usage(snapshot)),
        "waiting": [{"pod": pod.key, "about": _about(pod)} for pod in opened.waiting[:MAX_PODS_OFFERED]],
        "nWaiting": len(opened.waiting),
        "placed": placed,
    }


def _about(pod: PodView) -> str:
    """The requests of a pod, as a short text."""
    requests = dict(pod.requests)
    cores = requests.get("cpu", 0) / 1000
    others = [name.rpartition("/")[2] for name, amount in requests.items() if amount and name not in {"cpu", "memory", "pods"}]
    return ", ".join([f"{cores:g} cpu", f"{requests.get('memory', 0) / 2**30:.3g}Gi", *others])


def _usage(snapshot: Snapshot) -> Coloring:
    index = snapshot.resource_index("cpu")
    none = np.zeros(snapshot.n_nodes, np.int64)
    used = (none, none) if index is None else (snapshot.requested[index], snapshot.allocatable[index])
    return page_content.share("cpu requested", *used)


def _tiles(snapshot: Snapshot) -> Mapping[str, Any]:
    found = page_content.tiles_of(snapshot)
    flags = page_content.flags_of(snapshot).tolist()
    digest = hashlib.sha256(repr((found.names, found.zones, flags)).encode()).hexdigest()[:16]
    return {
        "tiles": {"names": list(found.names), "zones": list(found.zones), "zoneNames": list(found.zone_names)},
        "flags": flags,
        "layout": digest,
    }


def _coloring(coloring: Coloring) -> Mapping[str, Any]:
    scale = {name: getattr(coloring, name) for name in ("title", "unit", "low", "high", "note")}
    return {"colors": {**scale, "steps": page_content.SCALE_STEPS, "values": page_content.steps(coloring).tolist()}}


def written(manifest: str, opened: OpenedCluster) -> tuple[PodView, workloads.Expansion]:
    """The first pod of a manifest and the objects that come with it; raises InvalidObject if there is no pod."""
    given = files.read_bytes(manifest.encode(), "the pod", written=True)
    found = opened.state.snapshot(opened.now).objects
    known = files.Objects(by_kind={kind: found.all(kind) for kind in workloads.LOOKED_UP})
    expansion = workloads.expand(given, known, limit=MAX_MANIFESTS)
    if not expansion.pods:
        raise InvalidObject("the pod: there is no pod or workload in it")
    return PodView(expansion.pods[0]), expansion


def decided(  # noqa: PLR0913, PLR0917 — one parameter per part of the question
    opened: OpenedCluster, policy: CompiledPolicy | None, key: str, manifest: str, nodes: Sequence[str], layout: str
) -> Mapping[str, Any]:
    """The decisions about a pod with a policy and without it: the map in the colours of its scores, and the reasons.

    The pod is the one of `key`, or the one of `manifest` where that is not empty; it is decided about as if it waited. `layout` is the one
    whose tiles the caller has. Raises UnknownObject for a pod or node that does not exist, InvalidObject for a manifest that is none.
    """
    with SupposedChanges(opened.state) as supposed:
        if manifest:
            pod, expansion = written(manifest, opened)
            for made in expansion.made:
                supposed.put(made)
        else:
            pod = opened.pod(key)
            placed = opened.state.snapshot(opened.now).placed(pod.uid)
            if placed is not None:
                supposed.leave(placed[1])
        snapshot = opened.state.snapshot(opened.now)
        waiting = unbound(pod)
        plain = decide(opened.chain(None, waiting), snapshot, waiting)
        decision = plain if policy is None else decide(opened.chain(policy, waiting), snapshot, waiting)
        found = _tiles(snapshot)
        return {
            **(found if found["layout"] != layout else {"layout": layout}),
            **_coloring(page_content.points(f"points for {pod.key}", decision.evaluation, snapshot)),
            **explained_decision(pod, decision, snapshot, nodes).plain(),
            "difference": None if policy is None else _difference(plain, decision, snapshot),
            "node": _node(snapshot, nodes),
        }


def _difference(plain: Decision, decision: Decision, snapshot: Snapshot) -> Mapping[str, Any]:
    found = causes(plain, decision, snapshot, (PolicyExplainer(plain.chain), PolicyExplainer(decision.chain)))
    return {"without": plain.node, "causes": [cause.sentence(WITHOUT_POLICY) for cause in found]}


def _node(snapshot: Snapshot, nodes: Sequence[str]) -> Mapping[str, Any] | None:
    return page_content.plain_node(snapshot, snapshot.known_row(nodes[0])) if nodes else None
