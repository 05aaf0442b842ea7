"""Wharfinger's answer to a case, in the format of the vectors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import structs

from wharfinger.framework.chain import Chain
from wharfinger.framework.evaluation.cycle import decide
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.framework.extension import FilterPlugin
from wharfinger.framework.prepared import AllocatingFilter, Attempt, ClaimAllocation, Rejected, Shared, Skip
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.snapshot import Snapshot

from . import case as cases

OWN = frozenset({"GpuShares"})
"""Plugins that Kubernetes does not have; they must change no answer."""
ALWAYS_SCORE = ("DynamicResources",)
"""Plugins without PreScore: kube-scheduler asks them about every pod, and they answer 0 where they have nothing to say."""


def answer(case: Mapping[str, Any]) -> dict[str, Any]:
    """The `answer` of a vector, by our own chain."""
    chain, pod = cases.chain(case), cases.pending(case)
    snapshot = cases.cluster(case).snapshot()
    decision = decide(chain, snapshot, pod)
    found: dict[str, Any] = {"id": case["id"], "filters": filters(chain, snapshot, pod), "feasible": list(decision.feasible_nodes())}
    errors = {plugin.name: nodes for plugin in chain.filters if (nodes := _errors(plugin, snapshot, pod))}
    found |= {"errors": errors} if errors else {}
    if decision.aborted:
        return found | {"aborted": dict(decision.aborted)}
    if decision.node is not None:
        found |= scores(decision, [name for name in ALWAYS_SCORE if chain.plugin(name) is not None])
    else:
        found |= {"message": decision.message if case.get("preempt") else decision.diagnosis.message}
        found |= _freed(decision) if case.get("preempt") else {}
    found |= {"allocations": allocations} if (allocations := _allocations(decision)) else {}
    if decision.nominated is not None:
        found |= {"nominated": decision.nominated, "victims": sorted(victim.key for victim in decision.victims)}
    return found


def filters(chain: Chain, snapshot: Snapshot, pod: PodView) -> dict[str, dict[str, list[str]]]:
    """The nodes that each filter by itself rejects, with the sorted reasons."""
    return {plugin.name: _alone(plugin, snapshot, pod) for plugin in chain.filters if plugin.name not in OWN}


def scores(decision: Decision, always: Sequence[str] = ()) -> dict[str, Any]:
    """The weighted points per plugin and feasible node, and their totals; plugins of `always` are there even where they skip."""
    by_plugin: dict[str, dict[str, int]] = {name: dict.fromkeys(decision.feasible_nodes(), 0) for name in always}
    totals: dict[str, int] = {}
    for node in decision.feasible_nodes():
        parts = decision.scores_at(node)
        for part in parts:
            by_plugin.setdefault(part.name, {})[node] = int(part.weighted)
        totals[node] = int(sum(part.weighted for part in parts))
    return {"scores": by_plugin, "totals": totals}


def _freed(decision: Decision) -> dict[str, list[str]]:
    found = {"deallocated": decision.deallocate, "deleted": decision.delete}
    return {word: [objects.key_of(claim)] for word, claim in found.items() if claim is not None}


def _allocations(decision: Decision) -> dict[str, list[dict[str, Any]]]:
    """The allocations of Reserve by feasible node."""
    found = {}
    for node in decision.feasible_nodes():
        claims = decision.claims_at(node)
        if claims:
            found[node] = [_allocation(each) for each in claims]
    return found


def _allocation(each: ClaimAllocation) -> dict[str, Any]:
    devices = each.allocation.devices
    name = each.claim.metadata.name
    found: dict[str, Any] = {
        "claim": name if name.startswith("<") else objects.key_of(each.claim),
        "results": [_plain(structs.replace(result, share_id=None)) for result in devices.results],
        "config": [_plain(config) for config in devices.config],
        "nodeSelector": None if each.allocation.node_selector is None else _plain(each.allocation.node_selector),
        "requestMappings": [_plain(mapping) for mapping in each.request_mappings],
    }
    return {key: value for key, value in found.items() if value or key == "results"}


def _plain(struct: Any) -> Any:
    return json.loads(msgspec.json.encode(struct))


def _errors(plugin: FilterPlugin, snapshot: Snapshot, pod: PodView) -> list[str]:
    """The nodes, sorted, where the plugin by itself answers with an error."""
    attempt = Attempt(pod, snapshot, Shared())
    rule = plugin.prepare_filter(attempt)
    if not isinstance(rule, AllocatingFilter):
        return []
    return sorted(snapshot.names[row] for row in np.flatnonzero(rule.bits(snapshot, slice(None)) & rule.fault_bits).tolist())


def _alone(plugin: FilterPlugin, snapshot: Snapshot, pod: PodView) -> dict[str, list[str]]:
    attempt = Attempt(pod, snapshot, Shared())
    rule = plugin.prepare_filter(attempt)
    if isinstance(rule, Skip):
        return {}
    if isinstance(rule, Rejected):
        return dict.fromkeys(snapshot.names, sorted({reason.text for reason in rule.reasons}))
    found = {}
    for row, (node, bits) in enumerate(zip(snapshot.names, rule.bits(snapshot, slice(None)).tolist(), strict=True)):
        if isinstance(rule, AllocatingFilter) and bits & rule.fault_bits:
            found[node] = [rule.fault_at(attempt, row)]
        elif rule.nodes is not None and node not in rule.nodes:
            found[node] = ["prefilter"]
        elif bits:
            found[node] = sorted({reason.text for index, reason in enumerate(rule.reasons) if bits >> index & 1})
    return found
