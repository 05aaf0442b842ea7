"""A compiled policy on a part of the live cluster: whether it evaluates, and leaves any node for the pods it governs.

A policy that rejects every node is what its author may want, so it is not refused; but it is said, as long as it is so. How its metrics
fare is told by who asks for them: a sample of the cluster has none of their samples.
"""

from __future__ import annotations

import numpy as np

from wharfinger.compiler.program import CompiledPolicy
from wharfinger.framework.policy_status import Finding
from wharfinger.language.counts import count
from wharfinger.model.pod import PodView
from wharfinger.runtime import policy_warnings
from wharfinger.runtime.policy_store.sample import Sample

MOST_GOVERNED = 5
EVERYWHERE = slice(None)


def tried(policy: CompiledPolicy, sample: Sample, file: str) -> list[Finding]:
    """What is found; an error if the policy cannot be evaluated."""
    try:
        governed = [pod for pod in sample.probes if policy.governs(pod, sample.now)][:MOST_GOVERNED]
        passing = [_passing(policy, sample, pod) for pod in governed]
        warnings = policy_warnings.absent_labels(policy, sample.snapshot, sample.probes) if sample.whole else []
    except Exception as error:  # noqa: BLE001 — whatever a policy raises here it would raise in every cycle
        details = "" if policy.authority.restricted else f": {error}"  # which may quote what it met in the cluster
        sentence = f"it cannot be evaluated on this cluster: {type(error).__name__}{details}"
        return [Finding(severity="error", code="trial", message=sentence, file=file)]
    if governed and sample.nodes and not any(passing):
        warnings = [_rejects_all(policy, sample, governed[0]), *warnings]
    return [Finding(severity="warning", code="trial", message=warning, file=file) for warning in warnings]


def _passing(policy: CompiledPolicy, sample: Sample, pod: PodView) -> int:
    """How many nodes of the sample the policy leaves for a pod, after everything in it has been evaluated."""
    snapshot = sample.snapshot
    bound = policy.bind(pod, snapshot)
    left = np.ones(snapshot.n_nodes, np.bool_)
    for index in range(len(policy.filters)):
        left &= bound.filter_bits(index, snapshot, EVERYWHERE) == 0
    for index in range(len(policy.scores)):
        bound.score(index, snapshot, EVERYWHERE)
    for index in range(len(policy.tie_break)):
        bound.tie_key(index, snapshot, EVERYWHERE)
    return int(left.sum())


def _rejects_all(policy: CompiledPolicy, sample: Sample, pod: PodView) -> str:
    several = f"all {len(sample.nodes):,} nodes" if len(sample.nodes) > 1 else "the only node"
    nodes = several if sample.whole else f"each of {count(len(sample.nodes), 'node')} looked at"
    return f"{policy.name} rejects {nodes} for every pod it was tried with, such as {pod.key}"
