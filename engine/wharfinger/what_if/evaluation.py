"""Where pods would go on a cluster with more nodes, or after a drain.

The pods are placed in the order of the scheduling queue, together with those that a drain makes homeless. All nodes are drained at once:
what budgets forbid, and in which order pods leave, is the question of `drain`. Pods that preemption would evict leave at once.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from wharfinger.framework.chain import Chain
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.model.objects.pod_view import PodView
from wharfinger.simulate.dry_run import PodResult, gated_result, pod_result, queue_order
from wharfinger.what_if.capacity.count import NodesLike
from wharfinger.what_if.drain import cordoned, replaceable, staying
from wharfinger.what_if.new_nodes import nodes_like
from wharfinger.what_if.recreated import recreated
from wharfinger.what_if.supposed_changes import SupposedChanges


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """The answer about one pod; `source` is the drained node that it leaves, None for a pod that was asked about."""

    result: PodResult
    source: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedCluster:
    """What was changed before pods are placed: the names of new nodes with their models, and the pods that left, with their nodes."""

    new: tuple[tuple[str, str], ...]
    moved: tuple[tuple[PodView, str], ...]


def change(supposed: SupposedChanges, nodes: Iterable[NodesLike], drained: Iterable[str]) -> Generator[None, None, ChangedCluster]:
    """A generator of steps that adds new nodes, cordons the `drained` ones and lets their pods leave.

    UnknownObject for a node that is not there.
    Pods of DaemonSets and static pods stay; pods that no controller creates again are lost.
    """
    state = supposed.state
    new: list[tuple[str, str]] = []
    for wanted in nodes:
        for node in nodes_like(state.snapshot(), wanted.model, wanted.count):
            supposed.add(node)
            new.append((node.name, wanted.model))
            yield
    moved: list[tuple[PodView, str]] = []
    created = datetime.fromtimestamp(state.snapshot().now, UTC)
    for name in dict.fromkeys(drained):
        snapshot = state.snapshot()
        found = snapshot.node(snapshot.known_row(name))
        supposed.replace(cordoned(found.object))
        for pod in [pod for pod in found.pods if not staying(pod)]:
            supposed.leave(pod)
            moved += [(recreated(pod, created), name)] if replaceable(pod) else []
        yield
    return ChangedCluster(new=tuple(new), moved=tuple(moved))


def evaluated(
    chain: Chain, supposed: SupposedChanges, pods: Sequence[PodView], moved: Sequence[tuple[PodView, str]] = ()
) -> Generator[None, None, tuple[Evaluated, ...]]:
    """A generator of steps, about one decision each, that returns the answers in the order of the queue.

    `moved` are pods that leave the node named with them. Pods with scheduling gates are not placed.
    """
    state = supposed.state
    decider = Decider(chain)
    sources = {pod.uid: node for pod, node in moved}
    found: list[Evaluated] = []
    for pod in queue_order(chain, [*pods, *(pod for pod, _ in moved)]):
        gate = chain.gate(pod)
        result = _placed(decider, supposed, pod) if gate is None else gated_result(pod, gate, state.snapshot().n_nodes)
        found.append(Evaluated(result=result, source=sources.get(pod.uid)))
        yield
    return tuple(found)


def _placed(decider: Decider, supposed: SupposedChanges, pod: PodView) -> PodResult:
    """The decision about a pod, which is placed; victims of preemption leave."""
    state = supposed.state
    decision = decider.decide(state.snapshot(), pod)
    evicted: tuple[PodView, ...] = ()
    if decision.nominated is not None:
        evicted = decision.victims
        for victim in evicted:
            supposed.leave(victim)
        decision = decider.decide(state.snapshot(), pod)
    result = pod_result(decision, evicted)
    if decision.node is not None:
        supposed.place(pod, decision.node)
    return result
