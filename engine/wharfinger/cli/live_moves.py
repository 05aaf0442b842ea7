"""Carries out a plan of moves on the cluster that a kubeconfig leads to."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from wharfinger.cli import live_cluster, streams
from wharfinger.errors import UsageError

if TYPE_CHECKING:
    from wharfinger.framework.chain import Chain
    from wharfinger.what_if.rebalance.carry_out import CarriedOut
    from wharfinger.what_if.rebalance.plan import Move, Wishes

SYNC = 120.0
"""Seconds within which the cluster must have been read."""


def carry_out(  # noqa: PLR0913, PLR0917 — a plan, and where
    chain: Chain, wishes: Wishes, moves: Sequence[Move], kubeconfig: str | None, context: str | None, patience: float
) -> CarriedOut:
    """What was done of the moves; each is told on standard error. UsageError if the cluster cannot be read."""
    with live_cluster.ended_tidily():
        return asyncio.run(_carried_out(chain, wishes, moves, kubeconfig, context, patience))


async def _carried_out(  # noqa: PLR0913, PLR0917 — likewise
    chain: Chain, wishes: Wishes, moves: Sequence[Move], kubeconfig: str | None, context: str | None, patience: float
) -> CarriedOut:
    from wharfinger.event_loop import SystemClock  # noqa: PLC0415 — half a second of imports that plans from files do not need
    from wharfinger.kube.connection import Connection, Limits  # noqa: PLC0415 — likewise
    from wharfinger.kube.credentials import Credentials  # noqa: PLC0415 — likewise
    from wharfinger.kube.evictions import ApiEvictions  # noqa: PLC0415 — likewise
    from wharfinger.kube.reflector import Informers  # noqa: PLC0415 — likewise
    from wharfinger.what_if.rebalance.carry_out import Carrying, LiveCluster  # noqa: PLC0415 — likewise

    clock = SystemClock()
    credentials = Credentials(kubeconfig, context, clock.monotonic)
    async with Connection(credentials, Limits(request_timeout=10.0), user_agent="wharf-rebalance") as connection:
        live = LiveCluster()
        informers = Informers(connection, clock, lambda _event: None)
        watching = asyncio.create_task(informers.run(live))
        try:
            async with asyncio.timeout(SYNC):
                await informers.wait_synced()
            carrying = Carrying(chain, wishes, live, ApiEvictions(connection), clock, patience=patience, report=streams.complain)
            return await carrying.run(moves)
        except TimeoutError:
            raise UsageError(f"the cluster could not be read within {SYNC:g} s: {', '.join(sorted(informers.unsynced))}") from None
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
