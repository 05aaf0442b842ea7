"""Where pods would go on a cluster with more nodes, one after the other in the order of the scheduling queue.

Pods that preemption would evict leave at once.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import NamedTuple

from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.groups.results import GroupResult
from wharfinger.groups.turns import Turn, groups_in_steps, turns
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.snapshot import Snapshot
from wharfinger.simulate.dry_run import PodResult, gated_result, pod_result
from wharfinger.simulate.placing import place_group
from wharfinger.what_if.capacity.count import NodesLike
from wharfinger.what_if.new_nodes import nodes_like
from wharfinger.what_if.supposed_changes import SupposedChanges


def added(supposed: SupposedChanges, nodes: Iterable[NodesLike]) -> Generator[None, None, tuple[tuple[str, str], ...]]:
    """A generator of steps that adds nodes, and returns their names with those of their models.

    UnknownObject for a model that is not there.
    """
    new: list[tuple[str, str]] = []
    for wanted in nodes:
        for node in nodes_like(supposed.state.snapshot(), wanted.model, wanted.count):
            supposed.add(node)
            new.append((node.name, wanted.model))
            yield
    return tuple(new)


class Evaluated(NamedTuple):
    """The answers about pods, in the order of the queue, and about the groups that they belong to."""

    pods: tuple[PodResult, ...]
    groups: tuple[GroupResult, ...]


def evaluated(decider: Decider, supposed: SupposedChanges, pods: Sequence[PodView]) -> Generator[None, None, Evaluated]:
    """A generator of steps, one decision each, that returns the answers.

    Pods with scheduling gates are not placed. Members of a group are placed together.
    """
    chain = decider.chain
    found: list[PodResult] = []
    groups: list[GroupResult] = []
    index = yield from groups_in_steps(chain, supposed.state, pods)
    for turn in turns(chain, index, pods):
        gates = {pod.uid: gate for pod in turn.pods if (gate := chain.gate(pod)) is not None}
        n_nodes = supposed.state.snapshot().n_nodes
        found += [gated_result(pod, gates[pod.uid], n_nodes) for pod in turn.pods if pod.uid in gates]
        free = tuple(pod for pod in turn.pods if pod.uid not in gates)
        if turn.group is not None:
            steps = place_group(decider, supposed, index, Turn(pods=free, group=turn.group), watch=_result)
            outcomes, result = yield from steps
            found += [outcome.seen for outcome in outcomes]
            groups.append(result)
        elif free:
            found.append(placed(decider, supposed, free[0])[0])
        yield
    return Evaluated(tuple(found), tuple(groups))


def _result(decision: Decision, _snapshot: Snapshot, evicted: tuple[PodView, ...]) -> PodResult:
    return pod_result(decision, evicted)


def placed(decider: Decider, supposed: SupposedChanges, pod: PodView) -> tuple[PodResult, tuple[PodView, ...]]:
    """(the decision about a pod, which is placed; the victims of preemption, which leave)."""
    state = supposed.state
    pod = supposed.claimed(pod)
    decision = decider.decide(state.snapshot(), pod)
    evicted: tuple[PodView, ...] = ()
    if decision.nominated is not None:
        evicted = decision.victims
        for victim in evicted:
            supposed.leave(victim)
        decision = decider.decide(state.snapshot(), pod)
    result = pod_result(decision, evicted)
    if decision.node is not None:
        supposed.place(decision.assigned, decision.node, decision.claims)
    return result, evicted
