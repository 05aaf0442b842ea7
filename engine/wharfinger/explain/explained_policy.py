"""The effect of a policy on a cluster: the pods that it governs, the nodes that it rejects, changed decisions, and its cost.

For each governed pod there are two decisions, with the policy and without it, on the cluster without that pod. If there are many such pods,
a part of them is examined: pending pods first, then placed ones, one of each template before a second one of any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from msgspec import Struct

from wharfinger.compiler import cost
from wharfinger.compiler.cost import Cost
from wharfinger.compiler.program import CompiledPolicy
from wharfinger.explain import policy_warnings
from wharfinger.explain.conditions import PolicyExplainer
from wharfinger.explain.difference import WITHOUT_POLICY, Cause, causes
from wharfinger.explain.explained_pod import unbound
from wharfinger.framework.chain import Chain
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.framework.prepared import Mask
from wharfinger.language.report import wording
from wharfinger.language.report.plain_values import plain
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.object_store import EvaluationContext
from wharfinger.model.state.snapshot import Snapshot

MAX_PODS = 100
"""Pods that are decided about."""
MIN_PODS = 10
"""Pods that are decided about at least, however much the policy computes."""
MAX_STEPS = 200_000
"""Steps of the policy's rules for all these pods together; a policy of up to 2,000 steps gets `MAX_PODS`."""
RULE = 20
"""Steps that each rule takes besides its own."""
MAX_EXAMPLES = 5


class Governed(Struct, frozen=True, kw_only=True):
    """The pods that a policy governs, of all pods; `waiting` of them have no node. `examples` are some of them."""

    pods: int
    waiting: int
    of: int
    examples: tuple[str, ...]


class RejectingFilter(Struct, frozen=True, kw_only=True):
    """A filter of the policy: it rejects `nodes` nodes for `pods` of the examined pods.

    `example` is one of these as (pod, node), with the sentences for it; None if the filter rejects no node.
    """

    rule: str
    nodes: int
    pods: int
    example: tuple[str, str] | None
    sentences: tuple[str, ...]


class PodDifference(Struct, frozen=True, kw_only=True):
    """A pod for which the policy makes a difference: the nodes chosen without it and with it, and its rules that cause this."""

    pod: str
    without: str | None
    chosen: str | None
    causes: tuple[Cause, ...]


class ExplainedPolicy(Struct, frozen=True, kw_only=True):
    """The report. `scope` is the condition of `for pods where`, None for all pods. `suspended` are sentences about suspended metrics.

    `looked_at` is the number of pods that were decided about, on `nodes` nodes.
    """

    policy: str
    revision: str
    authority: str
    scope: str | None
    governed: Governed
    nodes: int
    looked_at: int
    filters: tuple[RejectingFilter, ...]
    differing: tuple[PodDifference, ...]
    suspended: tuple[str, ...]
    cost: Cost

    def __str__(self) -> str:
        return wording.lines(_lines(self))

    def plain(self) -> Mapping[str, Any]:
        """The report as plain values, for JSON."""
        return {
            "policy": self.policy,
            "revision": self.revision,
            "authority": self.authority,
            "scope": self.scope,
            "governed": plain(self.governed),
            "nodes": self.nodes,
            "lookedAt": self.looked_at,
            "filters": plain(self.filters),
            "differing": [_plain(found) for found in self.differing],
            "suspended": list(self.suspended),
            "cost": {**self.cost.amounts(), "evicting": self.cost.evicting, "grouping": self.cost.grouping},
        }


def _plain(found: PodDifference) -> dict[str, Any]:
    return {
        "pod": found.pod,
        "without": found.without,
        "chosen": found.chosen,
        "causes": [cause.sentence(WITHOUT_POLICY) for cause in found.causes],
    }


def explained_policy(chain: Chain, without: Chain, state: ClusterState, name: str, waiting: Iterable[PodView]) -> ExplainedPolicy:
    """The report about the policy of that name in `chain`; `without` is the chain without it, or with its replacement.

    `waiting` are the pods without a node. `state` is changed during the call; at the end it has the same pods as before.
    """
    policy = next(policy for policy in chain.policies if policy.name == name)
    every = [*waiting, *(pod for pod, _ in state.placements())]
    governed = _governed(policy, every, state.snapshot())
    looked_at = _sample(governed, min(MAX_PODS, max(MIN_PODS, MAX_STEPS // max(1, _steps(policy)))))
    found = _Found(chain, without, policy)
    for pod in looked_at:
        found.look_at(state, pod)
    snapshot = state.snapshot()
    return ExplainedPolicy(
        policy=name,
        revision=policy.revision,
        authority=str(policy.authority),
        scope=None if policy.policy.scope is None else " ".join(policy.policy.scope.span.text.split()),
        governed=Governed(
            pods=len(governed),
            waiting=sum(not pod.node_name for pod in governed),
            of=len(every),
            examples=tuple(pod.key for pod in looked_at[:MAX_EXAMPLES]),
        ),
        nodes=snapshot.n_nodes,
        looked_at=len(looked_at),
        filters=found.filters(),
        differing=tuple(found.differing),
        suspended=tuple(policy_warnings.suspensions(policy, snapshot)),
        cost=cost.of_compiled(policy),
    )


def _governed(policy: CompiledPolicy, pods: Iterable[PodView], at: EvaluationContext) -> list[PodView]:
    """The pods that a policy governs; decided once for each template where that is enough."""
    if policy.scope_varies:
        return [pod for pod in pods if policy.governs(pod, at)]
    known: dict[bytes, bool] = {}
    found = []
    for pod in pods:
        if pod.template not in known:
            known[pod.template] = policy.governs(pod, at)
        if known[pod.template]:
            found.append(pod)
    return found


def _steps(policy: CompiledPolicy) -> int:
    """The steps of all rules of a policy for one pod."""
    return sum(RULE + len(plan.steps) for plan in policy.program.plans.values())


def _sample(pods: Sequence[PodView], limit: int) -> list[PodView]:
    """At most `limit` of the pods: waiting ones first, then one of each template before a second one of any, then by key."""
    seen: Counter[bytes] = Counter()
    keyed = []
    for pod in sorted(pods, key=lambda pod: (bool(pod.node_name), pod.key)):
        keyed.append((bool(pod.node_name), seen[pod.template], pod.key, pod))
        seen[pod.template] += 1
    return [pod for *_, pod in sorted(keyed, key=lambda entry: entry[:3])[:limit]]


class _Rejections(Struct):
    """The rejections of one filter among the examined pods."""

    nodes: Mask
    pods: int = 0
    example: tuple[str, str] | None = None
    sentences: tuple[str, ...] = ()


@dataclass(slots=True)
class _Found:
    """Looks at one pod after the other."""

    chain: Chain
    without: Chain
    policy: CompiledPolicy
    differing: list[PodDifference] = field(default_factory=list)
    _rejections: dict[str, _Rejections] = field(default_factory=dict)
    _deciders: tuple[Decider, Decider] = field(init=False)
    _explainers: tuple[PolicyExplainer, PolicyExplainer] = field(init=False)

    def __post_init__(self) -> None:
        self._deciders = Decider(self.without), Decider(self.chain)
        self._explainers = PolicyExplainer(self.without), PolicyExplainer(self.chain)

    def look_at(self, state: ClusterState, pod: PodView) -> None:
        """Decide about a pod on both sides. A placed pod is removed from the state during the decisions."""
        placed, assumed = state.is_placed(pod.uid), state.is_assumed(pod.uid)
        if placed:
            state.remove_pod(pod)
        snapshot = state.snapshot()
        other, decision = (decider.decide(snapshot, unbound(pod)) for decider in self._deciders)
        self._count(decision, snapshot)
        because = causes(other, decision, snapshot, self._explainers)
        if because:
            self.differing.append(PodDifference(pod=pod.key, without=other.node, chosen=decision.node, causes=tuple(because)))
        if assumed:
            state.assume(unbound(pod), pod.node_name)
        elif placed:
            state.add_pod(pod)

    def _count(self, decision: Decision, snapshot: Snapshot) -> None:
        for rule in self.policy.policy.filters:
            name = f"{self.policy.name}/{rule.name}"
            rejected = decision.diagnosis.rejected_by(name)
            found = self._rejections.setdefault(name, _Rejections(nodes=np.zeros(snapshot.n_nodes, np.bool_)))
            rows = np.flatnonzero(rejected).tolist()
            if rows:
                found.nodes = found.nodes | rejected
                found.pods += 1
            if rows and found.example is None:
                row = min(rows, key=lambda row: snapshot.names[row])
                found.example = decision.pod.key, snapshot.names[row]
                found.sentences = self._explainers[1].sentences(decision.pod, snapshot, name, row) or ()

    def filters(self) -> tuple[RejectingFilter, ...]:
        """The rejections of each filter, in the order of the filters."""
        return tuple(
            RejectingFilter(rule=rule, nodes=int(each.nodes.sum()), pods=each.pods, example=each.example, sentences=each.sentences)
            for rule, each in self._rejections.items()
        )


def _lines(found: ExplainedPolicy) -> Iterator[str]:
    governed = found.governed
    yield f"{found.policy} (revision {found.revision[:12]}, {found.authority})"
    examples = f", e.g. {', '.join(governed.examples)}" if governed.examples else ""
    yield f"  governs {governed.pods:,} of {wording.count(governed.of, 'pod')}, {governed.waiting:,} of them waiting{examples}"
    yield f"    for pods where {found.scope}" if found.scope is not None else "    it governs all pods that it may"
    yield from (f"  suspended: {sentence}" for sentence in found.suspended)
    if found.looked_at:
        yield from _rejecting(found)
        yield from _differing(found)
    yield f"  each decision costs {found.cost.operations:,} numbers for each node{_per_pod(found.cost)}; `wharf check --cost` shows details"


def _rejecting(found: ExplainedPolicy) -> Iterator[str]:
    if not found.filters:
        return
    yield f"  nodes of {found.nodes:,} that its filters reject, for {wording.count(found.looked_at, 'pod')} looked at"
    rows = [("nodes", "pods", "filter"), *((f"{each.nodes:,}", f"{each.pods:,}", _filter(each)) for each in found.filters)]
    yield from wording.columns(rows, right=frozenset({0, 1}), indent="    ").splitlines()


def _filter(found: RejectingFilter) -> str:
    if found.example is None:
        return found.rule
    pod, node = found.example
    return f"{found.rule}, e.g. {node} for {pod}: {'; '.join(found.sentences)}"


def _differing(found: ExplainedPolicy) -> Iterator[str]:
    yield f"  it makes a difference for {len(found.differing):,} of {wording.count(found.looked_at, 'pod')} looked at"
    for each in found.differing[:MAX_EXAMPLES]:
        yield f"    {each.pod}: {each.chosen or 'no node'}, without it {each.without or 'no node'}"
        yield from (f"      {cause.sentence(WITHOUT_POLICY)}" for cause in each.causes)
    if len(found.differing) > MAX_EXAMPLES:
        yield f"    … and {wording.count(len(found.differing) - MAX_EXAMPLES, 'more pod')}"


def _per_pod(found: Cost) -> str:
    parts = [(found.asked, "operations for each placed pod"), (found.counted, "for each template of placed pods")]
    return "".join(f", {number:,} {of}" for number, of in parts if number)
