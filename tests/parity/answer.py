"""Our answer to a case, in the words of the vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.framework.chain import Chain
from wharfinger.framework.evaluation.cycle import decide
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.framework.extension import FilterPlugin
from wharfinger.framework.prepared import Attempt, Rejected, Shared, Skip
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.snapshot import Snapshot

from . import case as cases

NOT_ASKED = frozenset({"DynamicResources", "NodeDeclaredFeatures"})
"""Plugins of the default profile that the vectors were made without."""


def answer(case: Mapping[str, Any]) -> dict[str, Any]:
    """What the vectors' `answer` holds, from our own chain."""
    chain, pod = cases.chain(case), cases.pending(case)
    snapshot = cases.cluster(case).snapshot()
    decision = decide(chain, snapshot, pod)
    found: dict[str, Any] = {"id": case["id"], "filters": filters(chain, snapshot, pod), "feasible": list(decision.feasible_nodes())}
    found |= {"message": decision.message} if decision.node is None else scores(decision)
    if decision.nominated is not None:
        found |= {"nominated": decision.nominated, "victims": sorted(victim.key for victim in decision.victims)}
    return found


def filters(chain: Chain, snapshot: Snapshot, pod: PodView) -> dict[str, dict[str, list[str]]]:
    """For every filter by itself: the nodes it rejects, each with its reasons sorted."""
    return {plugin.name: _alone(plugin, snapshot, pod) for plugin in chain.filters if plugin.name not in NOT_ASKED}


def scores(decision: Decision) -> dict[str, Any]:
    """The weighted points per plugin and feasible node, and their totals."""
    by_plugin: dict[str, dict[str, int]] = {}
    totals: dict[str, int] = {}
    for node in decision.feasible_nodes():
        parts = decision.scores_at(node)
        for part in parts:
            by_plugin.setdefault(part.name, {})[node] = int(part.weighted)
        totals[node] = int(sum(part.weighted for part in parts))
    return {"scores": by_plugin, "totals": totals}


def _alone(plugin: FilterPlugin, snapshot: Snapshot, pod: PodView) -> dict[str, list[str]]:
    rule = plugin.prepare_filter(Attempt(pod, snapshot, Shared()))
    if isinstance(rule, Skip):
        return {}
    if isinstance(rule, Rejected):
        return dict.fromkeys(snapshot.names, sorted({reason.text for reason in rule.reasons}))
    found = {}
    for node, bits in zip(snapshot.names, rule.bits(snapshot, slice(None)).tolist(), strict=True):
        if rule.nodes is not None and node not in rule.nodes:
            found[node] = ["prefilter"]
        elif bits:
            found[node] = sorted({reason.text for index, reason in enumerate(rule.reasons) if bits >> index & 1})
    return found
