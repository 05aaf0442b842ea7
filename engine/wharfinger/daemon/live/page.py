"""The live page of a process, put together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from wharfinger.daemon.live.board import LiveBoard
from wharfinger.telemetry.reload_history import ReloadHistory
from wharfinger.web.ui.feed import Feed
from wharfinger.web.ui.pages import LivePage

if TYPE_CHECKING:
    from wharfinger.daemon.health import Health
    from wharfinger.framework.ports import Clock
    from wharfinger.runtime.policy_store.store import PolicyStore
    from wharfinger.telemetry.recent_decisions import RecentDecisions
    from wharfinger.web.policies import Policies


def live_page(  # noqa: PLR0913 — what is shown, to whom, and who is told what goes wrong
    health: Health,
    told: Policies,
    recent: RecentDecisions,
    store: PolicyStore,
    *,
    clock: Clock,
    failed: Callable[[str, BaseException], None],
    to_anybody: bool,
) -> LivePage:
    """The page; its feed has to be closed before the server is, so that the server need not wait for those who watch."""
    history = ReloadHistory(clock.now)
    for status in store.statuses:
        history.policy_tried(status)
    store.observe(history)
    board = LiveBoard(health, told, recent, history, clock)
    return LivePage(board=board, feed=Feed(board, clock, failed), to_anybody=to_anybody)
