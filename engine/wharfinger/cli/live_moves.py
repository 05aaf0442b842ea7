"""Carries out a plan of moves on the cluster that a kubeconfig leads to."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from wharfinger.cli import live_cluster, streams

if TYPE_CHECKING:
    from wharfinger.framework.chain import Chain
    from wharfinger.what_if.rebalance.carry_out import CarriedOut, PlanExecution
    from wharfinger.what_if.rebalance.plan import Move, PlanOptions


def carry_out(  # noqa: PLR0913, PLR0917 — a plan, and where
    chain: Chain,
    plan_options: PlanOptions,
    moves: Sequence[Move],
    kubeconfig: str | None,
    context: str | None,
    patience: float,
    *,
    exact: bool = False,
) -> CarriedOut:
    """The moves that were carried out; each is printed on standard error. UsageError if the cluster cannot be read.

    With `exact` every pod must go where the plan says.
    """

    async def run() -> CarriedOut:
        async with _carrying(chain, plan_options, kubeconfig, context, patience, exact=exact) as carrying:
            return await carrying.run(moves)

    with live_cluster.sigterm_as_interrupt():
        return asyncio.run(run())


def undo_cordons(kubeconfig: str | None, context: str | None, patience: float) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Opens the nodes that rebalances have left cordoned; (those that are open now, those that could not be opened)."""
    from wharfinger.framework.chain import assemble  # noqa: PLC0415 — half a second of imports that plans from files do not need
    from wharfinger.what_if.rebalance.plan import PlanOptions  # noqa: PLC0415 — likewise

    async def run() -> tuple[tuple[str, ...], tuple[str, ...]]:
        async with _carrying(assemble(), PlanOptions(goals=()), kubeconfig, context, patience, exact=False) as carrying:
            return await carrying.undo()

    with live_cluster.sigterm_as_interrupt():
        return asyncio.run(run())


@contextlib.asynccontextmanager
async def _carrying(  # noqa: PLR0913 — a plan, and where
    chain: Chain, plan_options: PlanOptions, kubeconfig: str | None, context: str | None, patience: float, *, exact: bool
) -> AsyncIterator[PlanExecution]:
    """What carries out plans on the cluster, which is watched meanwhile."""
    from wharfinger.kube.writes import ApiEvictions  # noqa: PLC0415 — half a second of imports that plans from files do not need
    from wharfinger.what_if.rebalance.carry_out import PlanExecution  # noqa: PLC0415 — likewise

    by = f"wharf rebalance, process {os.getpid()} on {socket.gethostname()}, since {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    async with live_cluster.watched(kubeconfig, context, "wharf-rebalance") as (live, connection, clock):
        writes = ApiEvictions(connection)
        yield PlanExecution(chain, plan_options, live, writes, clock, by=by, exact=exact, patience=patience, report=streams.complain)
