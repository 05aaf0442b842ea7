"""Where pods would go on a cluster with more nodes, one after the other in the order of the scheduling queue.

Pods that preemption would evict leave at once.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence

from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.model.objects.pod_view import PodView
from wharfinger.simulate.dry_run import PodResult, gated_result, pod_result, queue_order
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


def evaluated(decider: Decider, supposed: SupposedChanges, pods: Sequence[PodView]) -> Generator[None, None, tuple[PodResult, ...]]:
    """A generator of steps, one decision each, that returns the answers in the order of the queue.

    Pods with scheduling gates are not placed.
    """
    chain = decider.chain
    found: list[PodResult] = []
    for pod in queue_order(chain, pods):
        gate = chain.gate(pod)
        if gate is None:
            found.append(placed(decider, supposed, pod)[0])
        else:
            found.append(gated_result(pod, gate, supposed.state.snapshot().n_nodes))
        yield
    return tuple(found)


def placed(decider: Decider, supposed: SupposedChanges, pod: PodView) -> tuple[PodResult, tuple[PodView, ...]]:
    """(the decision about a pod, which is placed; the victims of preemption, which leave)."""
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
        supposed.place(decision.assigned, decision.node)
    return result, evicted
