"""`wharf demo`: a production GPU cluster's pods under Kubernetes' own rules and under a policy, side by side."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated

import typer
from msgspec import Struct

from wharfinger.cli import chosen_policies, options, streams
from wharfinger.explain.explanation import Explanation
from wharfinger.framework.chain import Chain, assemble
from wharfinger.language.files import shipped_policies
from wharfinger.language.report import wording
from wharfinger.model.objects.pod_view import PodView
from wharfinger.simulate import openb
from wharfinger.simulate.cluster import load_cluster
from wharfinger.simulate.dry_run import DryRun, Utilisation, dry_run

POLICY = "gpu-bin-pack.policy"
N_PODS = 8152


class DemoRun(Struct, frozen=True, kw_only=True):
    """The result of placing the trace under one chain."""

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
        """The explanation to show: of a pod with a margin over other nodes, else of a placed pod, else the first."""
        found = [result.explanation for result in self.run.results if result.explanation is not None]
        return max(found, key=lambda one: (one.node is not None and bool(one.margin), one.node is not None), default=None)


def wharf_demo(
    policy: options.Policies = None,
    param: options.Params = None,
    trace: Annotated[
        openb.Variant, typer.Option("--trace", help="The pods; a third of gpuspec33's name GPU models.")
    ] = openb.Variant.DEFAULT,
) -> int:
    """Place the OpenB trace twice and compare: with the rules of Kubernetes, and with a policy (--policy, or a shipped one).

    $ wharf demo --policy policies/bin-pack.policy
    """
    chosen = chosen_policies.compiled(policy or [str(shipped_policies() / POLICY)], param)
    streams.out(f"{_opening(trace)}\n\n")
    base = _show("Kubernetes", assemble(), trace)
    unplaced = {result.pod for result in base.run.results if result.node is None}
    own = _show(" + ".join(found.name for found in chosen), assemble(chosen), trace, lambda pod: pod.key in unplaced)
    streams.out(wording.columns(_rows(base, own), right=frozenset({1, 2})))
    streams.out(_explained(own))
    return 0


def _opening(trace: openb.Variant) -> str:
    pods = "8,152 pods" if trace is openb.Variant.DEFAULT else "8,152 pods, a third of which name GPU models"
    origin = "(alibaba/clusterdata, cluster-trace-gpu-v2023)"
    return f"OpenB, a production GPU cluster: 1,523 nodes, 6,212 GPUs; {pods}, in order of arrival\n{origin}"


def _show(title: str, chain: Chain, trace: openb.Variant, explained: Callable[[PodView], bool] = lambda _pod: False) -> DemoRun:
    """The trace placed from scratch under a chain."""
    cluster = load_cluster([f"openb:{trace.value}"])
    with streams.bar(sys.stderr, f"placing under {title}", N_PODS) as advance:
        started = time.perf_counter()
        run = dry_run(chain, cluster.state, cluster.pending, explained=explained, advance=advance)
        return DemoRun(title=title, run=run, seconds=time.perf_counter() - started)


def _rows(*runs: DemoRun) -> Iterator[Sequence[str]]:
    yield ("", *(f"{each.title}" for each in runs))
    yield ("pods placed", *(f"{each.run.placed:,}" for each in runs))
    yield ("pods unplaced", *(f"{each.run.unplaced:,}" for each in runs))
    yield ("GPU allocated", *(_share(each, openb.GPU_MILLI) for each in runs))
    yield ("CPU allocated", *(_share(each, "cpu") for each in runs))
    yield ("memory allocated", *(_share(each, "memory") for each in runs))
    yield ("nodes touched", *(f"{each.after.touched:,}" for each in runs))
    yield ("decisions/s", *(f"{each.decisions_per_second:,.0f}" for each in runs))


def _share(run: DemoRun, resource: str) -> str:
    return wording.percent(run.after.of(resource).fraction)


def _explained(run: DemoRun) -> str:
    found = run.explanation
    if found is None:
        return ""
    return f"\none decision: a pod that found no node under Kubernetes' rules alone\n\n{found}"
