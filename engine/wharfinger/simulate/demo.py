"""The same pods on the same cluster under two chains, side by side."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from wharfinger.explain.explanation import Explanation
from wharfinger.framework.chain import Chain
from wharfinger.model.objects.node_view import NodeView
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.simulate import openb
from wharfinger.simulate.cluster import load_cluster
from wharfinger.simulate.dry_run import DryRun, Utilisation, dry_run


@dataclass(frozen=True, slots=True, kw_only=True)
class Showing:
    """One chain's result. `overflow` is the GPU-milli on nodes that no single device could hold (see `openb.device_overflow`)."""

    title: str
    run: DryRun
    seconds: float
    overflow: int

    @property
    def decisions_per_second(self) -> float:
        """Pods decided and placed per second."""
        return len(self.run.results) / self.seconds if self.seconds else 0.0

    @property
    def after(self) -> Utilisation:
        """The use of the cluster at the end."""
        return self.run.after or self.run.before

    @property
    def honoured(self) -> float:
        """The fraction of all GPUs that is allocated, without what no single device could hold."""
        use = self.after.of(openb.GPU_MILLI)
        return (use.requested - self.overflow) / use.allocatable

    @property
    def explanation(self) -> Explanation | None:
        """The explanation to show: of a pod whose node was ahead of the others, else of one that found a node, else the first."""
        found = [result.explanation for result in self.run.results if result.explanation is not None]
        return max(found, key=lambda one: (one.node is not None and bool(one.margin), one.node is not None), default=None)


def show(  # noqa: PLR0913 — the keywords are independent choices
    title: str,
    chain: Chain,
    variant: openb.Variant,
    *,
    explained: Callable[[PodView], bool] = lambda _pod: False,
    advance: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> Showing:
    """The trace placed from scratch under a chain."""
    cluster = load_cluster([f"openb:{variant.value}"])
    started = clock()
    run = dry_run(chain, cluster.state, cluster.pending, explained=explained, advance=advance)
    return Showing(title=title, run=run, seconds=clock() - started, overflow=_overflow(cluster.state))


def _overflow(state: ClusterState) -> int:
    snapshot = state.snapshot()
    return sum(_overflow_at(snapshot.node(row)) for row in range(snapshot.n_nodes))


def _overflow_at(node: NodeView) -> int:
    whole = sum(pod.requests.get(openb.GPU, 0) for pod in node.pods)
    shares = [pod.requests.get(openb.GPU_MILLI, 0) for pod in node.pods if not pod.requests.get(openb.GPU)]
    return openb.device_overflow(node.allocatable.get(openb.GPU, 0), whole, [share for share in shares if share])
