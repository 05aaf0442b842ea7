"""Carries out a plan of moves on the cluster that a kubeconfig leads to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from wharfinger.cli import live_cluster, streams

if TYPE_CHECKING:
    from wharfinger.framework.chain import Chain
    from wharfinger.what_if.rebalance.carry_out import CarriedOut
    from wharfinger.what_if.rebalance.plan import Move, Wishes


def carry_out(  # noqa: PLR0913, PLR0917 — a plan, and where
    chain: Chain, wishes: Wishes, moves: Sequence[Move], kubeconfig: str | None, context: str | None, patience: float
) -> CarriedOut:
    """What was done of the moves; each is told on standard error. UsageError if the cluster cannot be read."""
    with live_cluster.ended_tidily():
        return asyncio.run(_carried_out(chain, wishes, moves, kubeconfig, context, patience))


async def _carried_out(  # noqa: PLR0913, PLR0917 — likewise
    chain: Chain, wishes: Wishes, moves: Sequence[Move], kubeconfig: str | None, context: str | None, patience: float
) -> CarriedOut:
    from wharfinger.kube.evictions import ApiEvictions  # noqa: PLC0415 — half a second of imports that plans from files do not need
    from wharfinger.what_if.rebalance.carry_out import Carrying  # noqa: PLC0415 — likewise

    async with live_cluster.watched(kubeconfig, context, "wharf-rebalance") as (live, connection, clock):
        carrying = Carrying(chain, wishes, live, ApiEvictions(connection), clock, patience=patience, report=streams.complain)
        return await carrying.run(moves)
