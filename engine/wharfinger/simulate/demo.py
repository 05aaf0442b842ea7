"""The same pods on the same cluster under two chains, side by side."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from wharfinger.explain.explanation import Explanation
from wharfinger.framework.chain import Chain
from wharfinger.model.objects.pod_view import PodView
from wharfinger.simulate import openb
from wharfinger.simulate.cluster import load_cluster
from wharfinger.simulate.dry_run import DryRun, Utilisation, dry_run


@dataclass(frozen=True, slots=True, kw_only=True)
class Showing:
    """One chain's result."""

    title: str
    run: DryRun
    seconds: float

    @property
    def decisions_per_second(self) -> float:
        """Pods decided and placed per second."""
        return len(self.run.results) / self.seconds if self.seconds else 0.0

    @property
    def after(self) -> Utilisation:
        """The use of the cluster at the end."""
        return self.run.after or self.run.before

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
    return Showing(title=title, run=run, seconds=clock() - started)
