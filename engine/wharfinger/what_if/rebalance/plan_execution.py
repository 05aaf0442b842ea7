"""Carries out a plan of moves on a running cluster, one move at a time.

Before the first move the whole plan is checked on the present cluster, and nothing is written if it does not hold. Then each bundle of
moves that belong together is made if it is still possible and worth it, as `move_check` says; otherwise it is left out with its reason, and
the plan goes on with the next. A move begins when the replacement of the pod before has a node, and that pod is gone. The plan stops if a
pod has no place, if the scheduler decides by other rules, if another rebalance is at work, if a pod does not end, and if the API server
refuses an eviction for too long.

Whatever happens, the nodes that were cordoned for the plan are uncordoned, also when the plan is cancelled. Only a process that is
killed, or cancelled a second time, leaves them cordoned; `undo` of a later one uncordons them. To mark these nodes, unlike those that an
administrator has cordoned, an annotation is written together with the cordon, with the owner and the time. The nodes of one step are
cordoned at the same time, a limited number at once.

The API server may be away for a while at any time: writes are repeated until there is a response, and the watch shows the changes in the
meantime.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Struct

from wharfinger.errors import WharfingerError
from wharfinger.event_loop import in_slices, until
from wharfinger.framework.ports import WriteFailed
from wharfinger.language.report import wording
from wharfinger.what_if.rebalance.move_check import (
    CORDONED_BY,
    MAX_NAMED,
    UNDO,
    MoveCheck,
    MoveNotPossible,
    Step,
    Stopped,
    bundles,
    cordon_hint,
    gone,
    left_cordons,
)

if TYPE_CHECKING:
    from wharfinger.framework.chain import Chain
    from wharfinger.framework.ports import Clock
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.what_if.rebalance.plan import Move, PlanOptions
    from wharfinger.what_if.rebalance.watched_cluster import WatchedCluster

LOOK_SECONDS = 1.0
"""Seconds after which a wait looks again at the cluster if no watch event has come."""
RETRY_SECONDS = 1.0
TIMEOUT = 300.0
"""Seconds to wait for a write to be accepted, and for a pod to be placed again."""
CONCURRENT_CORDONS = 16
"""Nodes that are cordoned or uncordoned at the same time."""
UNPLACED_SECONDS = 30.0
"""Seconds for which the scheduler may report that the replacement of an evicted pod finds no node, before the plan stops."""


class NodeWrites(Protocol):
    """The writes of a plan that is carried out. Both raise WriteFailed, which says if a retry may succeed."""

    async def evict(self, pod: PodView) -> None:
        """Evict the pod of this uid by the Eviction API; `gone` if it no longer exists."""

    async def set_cordon(self, node: str, annotations: Mapping[str, str | None], *, cordoned: bool) -> None:
        """Cordon the node, or uncordon it, and set these annotations (None: remove); `gone` if it no longer exists."""


class CompletedMove(Struct, frozen=True, kw_only=True):
    """A move that was carried out: the replacement of the evicted pod, and its node."""

    move: Move
    pod: str
    node: str


class SkippedMove(Struct, frozen=True, kw_only=True):
    """A move that was not made, because it was not possible any more or not worth it, and why."""

    move: Move
    why: str


class CarriedOut(Struct, frozen=True, kw_only=True):
    """The result of carrying out a plan; `stopped` is the reason why it ended early, None if it did not.

    `left_out` are moves that were not made while the plan went on, `left` are moves after the plan stopped. `evicted` is the number of
    evicted pods: more than `completed` if one has no replacement on a node. `still_cordoned` are nodes that could not be uncordoned.
    `cancelled` is True if the task was cancelled, which `stopped` then says; `refused` if the API server has refused a write for good.
    """

    completed: tuple[CompletedMove, ...]
    left: tuple[Move, ...]
    stopped: str | None
    still_cordoned: tuple[str, ...]
    left_out: tuple[SkippedMove, ...] = ()
    evicted: int = 0
    cancelled: bool = False
    refused: bool = False

    @property
    def changed(self) -> bool:
        """True if a pod was evicted, or a node is left cordoned."""
        return bool(self.evicted or self.still_cordoned)


class _Refused(Stopped):
    """The API server has refused a write for good."""


T = TypeVar("T")


class PlanExecution:
    """One plan on one cluster. `report` is called with a sentence for each step, `max_wait` is in seconds.

    `by` is the value of the annotation of a cordoned node. With `exact` the plan is one that was kept: every pod must still be movable, and
    get the node of the plan.
    """

    def __init__(  # noqa: PLR0913 — its collaborators and settings
        self,
        chain: Chain,
        plan_options: PlanOptions,
        live: WatchedCluster,
        writes: NodeWrites,
        clock: Clock,
        *,
        by: str = "wharf rebalance",
        exact: bool = False,
        max_wait: float = TIMEOUT,
        report: Callable[[str], None] = lambda _sentence: None,
    ) -> None:
        self._cost = plan_options.cost
        self._live = live
        self._writes = writes
        self._clock = clock
        self._by = by
        self._max_wait = max_wait
        self._report = report
        self._move_check = MoveCheck(chain, plan_options, live, clock, by, exact=exact)
        self._ours = self._move_check.ours
        self._completed: list[CompletedMove] = []
        self._left_out: list[SkippedMove] = []
        self._leaving: Move | None = None  # whose pod is being evicted, or has no replacement yet
        self._evictions = 0
        self._last_failures: dict[str, str] = {}  # reported reasons of the writes that are being repeated

    async def run(self, moves: Sequence[Move]) -> CarriedOut:
        """Carry out the moves in order.

        Nothing is written if the plan does not hold to begin with, or if another rebalance has left nodes cordoned. If the task is
        cancelled, the nodes are uncordoned and the result is returned as for any other stop; a second time it raises CancelledError.
        """
        left = left_cordons(self._live.state.snapshot())
        stopped = cordon_hint(left) if left else None
        cancelled = refused = False
        if stopped is not None:
            return CarriedOut(completed=(), left=tuple(moves), stopped=stopped, still_cordoned=())
        try:
            stopped = await self.reason_to_stop(moves)
            if stopped is None:
                for bundle in bundles(moves, self._cost):
                    await self._make(bundle)
        except (Stopped, WharfingerError) as error:
            stopped, refused = str(error), isinstance(error, _Refused)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
            cancelled, stopped = True, self._interrupted()
            if self._ours:
                self._report(f"uncordoning {wording.count(len(self._ours), 'cordoned node')}")
        finally:
            still_cordoned = await self._uncordon_all()
        past = len(self._completed) + len(self._left_out)
        return CarriedOut(
            completed=tuple(self._completed),
            left_out=tuple(self._left_out),
            left=tuple(moves[past:]),
            stopped=stopped,
            still_cordoned=still_cordoned,
            evicted=self._evictions,
            cancelled=cancelled,
            refused=refused,
        )

    async def reason_to_stop(self, moves: Sequence[Move]) -> str | None:
        """The reason why these moves, in order, are not the plan on the present cluster; None if they are."""
        return await self._checked(self._move_check.of_plan(bundles(moves, self._cost)))

    async def _checked(self, steps: Generator[None, None, T]) -> T:
        """The result of a check, during which watch events wait."""
        with self._live.held(), closing(steps):
            return await in_slices(steps, self._clock)

    async def _make(self, bundle: Sequence[Step]) -> None:
        """Make the moves of a bundle, as far as they are possible and worth it; the others are left out."""
        for place, step in enumerate(bundle):
            rest = bundle[place:]
            try:
                await self._all_gone()
                if not self._move_check.is_as_expected(step):
                    await self._checked(self._move_check.of_bundle(rest))
                await self._set_cordons(step.cordoned)
                if not self._move_check.still_holds():
                    await self._checked(self._move_check.of_bundle(rest))
                await self._move(step.move)
            except MoveNotPossible as lost:
                self._left_out += [SkippedMove(move=each.move, why=str(lost)) for each in rest]
                self._move_check.skip_bundle()
                self._report(f"left out {wording.capped([each.move.pod for each in rest], MAX_NAMED)}: {lost}")
                return

    def _interrupted(self) -> str:
        """The state in which a plan that is cancelled now leaves the cluster."""
        if self._leaving is None:
            return "no evicted pod is without a replacement"
        was = "was" if self._evictions > len(self._completed) else "may have been"
        return f"pod {self._leaving.pod} {was} evicted, and its replacement is not waited for"

    async def undo(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Uncordon the nodes that earlier rebalances have left cordoned; (those that are uncordoned now, those that could not be)."""
        self._ours.update(left_cordons(self._live.state.snapshot()))
        found = sorted(self._ours)
        still_cordoned = await self._uncordon_all()
        return tuple(name for name in found if name not in still_cordoned), still_cordoned

    # ── one move ──

    async def _all_gone(self) -> None:
        """Return when all evicted pods are gone: until then the scheduler counts them on their nodes, whose room the next move may need."""
        pod = self._move_check.ending()
        if pod is not None:
            await self._awaited(lambda: self._move_check.ending() is None or None, f"pod {pod.key} was evicted, and is still there")

    async def _set_cordons(self, wanted: frozenset[str]) -> None:
        """Uncordon the nodes that the next move does not need cordoned, and cordon those that it needs cordoned."""
        await self._at_once(sorted(self._ours - wanted), partial(self._cordon, cordoned=False))
        await self._at_once(sorted(wanted - self._ours), partial(self._cordon, cordoned=True))

    async def _move(self, move: Move) -> None:
        pod = self._live.pods.get(move.uid)
        if pod is None or pod.terminating:
            raise MoveNotPossible(gone(move))
        if (why := self._move_check.protection(move, pod)) is not None:
            raise MoveNotPossible(why)
        if why := self._live.why_no_replacement(pod):
            raise MoveNotPossible(f"pod {pod.key} would not be created again: {why}")
        known = frozenset(self._live.siblings(pod))
        self._move_check.evicting(pod)
        await self._evicted(move, pod)
        replacement = await self._replacement(pod, known)
        other_rules = self._move_check.replaced(move, pod, replacement)
        self._leaving = None
        self._completed.append(CompletedMove(move=move, pod=replacement.key, node=replacement.node_name))
        elsewhere = "" if replacement.node_name == move.target else f", planned was {move.target}"
        self._report(f"{move.pod}: {move.source} → {replacement.node_name} ({replacement.key}{elsewhere})")
        if other_rules is not None:
            raise Stopped(other_rules)

    async def _replacement(self, pod: PodView, known: frozenset[str]) -> PodView:
        """The replacement of an evicted pod, once it has a node.

        Raises Stopped if there is no node, and MoveNotPossible if the controller does not want another pod any more.
        """
        unplaced_since = math.inf

        def placed() -> PodView | None:
            nonlocal unplaced_since
            siblings = self._live.siblings(pod)
            new = [siblings[uid] for uid in siblings.keys() - known]
            if not new and (why := self._live.why_no_replacement(pod)):
                self._leaving = None
                raise MoveNotPossible(f"pod {pod.key} has left, and {why}")
            bound = next((other for other in new if other.node_name), None)
            why = "" if bound is not None else next((why for other in new if (why := other.object.status.unschedulable)), "")
            now = self._clock.monotonic()
            unplaced_since = min(unplaced_since, now) if why else math.inf
            if now - unplaced_since > UNPLACED_SECONDS:
                raise Stopped(f"pod {pod.key} was evicted, and its replacement finds no node: {why}")
            return bound

        found: PodView = await self._awaited(placed, f"pod {pod.key} was evicted, and no replacement has a node")
        return found

    async def _evicted(self, move: Move, pod: PodView) -> None:
        """Return when the pod is deleted or terminating. While the API server declines its eviction, `_leaving` is None."""

        def leaves() -> bool:
            now = self._live.pods.get(pod.uid)
            return now is None or now.terminating

        async def evict() -> None:
            self._leaving = move
            try:
                await self._writes.evict(pod)
            except WriteFailed as failed:
                if failed.declined:
                    self._leaving = None
                raise

        await self._written(evict, f"evicting {pod.key}", leaves, gone_is_done=True)
        self._leaving = move
        self._evictions += 1
        await self._awaited(lambda: leaves() or None, f"pod {pod.key} was evicted, and is still there")

    async def _cordon(self, name: str, *, cordoned: bool) -> None:
        if cordoned and (self._is_cordoned(name) or self._live.state.snapshot().row(name) is None):
            return  # by someone else, who will uncordon it; or it is gone
        if not cordoned and name not in self._ours:
            return
        if cordoned:
            self._ours.add(name)  # before it is written: an answer may be lost
        try:
            await self._written(partial(self._mark, name, cordoned=cordoned), f"{'cordoning' if cordoned else 'uncordoning'} node {name}")
        except _Refused:
            if cordoned and not self._is_cordoned(name):
                self._ours.discard(name)
            raise
        await self._awaited(
            lambda: self._is_cordoned(name) == cordoned or None, f"node {name} is not {'cordoned' if cordoned else 'uncordoned'}"
        )
        if not cordoned:
            self._ours.discard(name)

    async def _mark(self, name: str, *, cordoned: bool) -> None:
        await self._writes.set_cordon(name, {CORDONED_BY: self._by if cordoned else None}, cordoned=cordoned)

    @staticmethod
    async def _at_once(names: Iterable[str], change: Callable[[str], Awaitable[None]]) -> None:
        """Change all of these nodes, `CONCURRENT_CORDONS` at the same time; raise the first Stopped when every change has ended."""
        slots = asyncio.Semaphore(CONCURRENT_CORDONS)

        async def one(name: str) -> None:
            async with slots:
                await change(name)

        failures = [found for found in await asyncio.gather(*map(one, names), return_exceptions=True) if found is not None]
        if failures:
            raise failures[0]

    def _is_cordoned(self, name: str) -> bool:
        snapshot = self._live.state.snapshot()
        row = snapshot.row(name)
        return row is not None and bool(snapshot.unschedulable[row])

    async def _uncordon_all(self) -> tuple[str, ...]:
        """Uncordon every node that is cordoned for the plan; return those that could not be uncordoned."""
        still_cordoned: list[str] = []

        async def uncordon(name: str) -> None:
            try:
                await self._written(partial(self._mark, name, cordoned=False), f"uncordoning node {name}", gone_is_done=True)
                self._ours.discard(name)
            except Stopped as error:
                self._report(str(error))
                still_cordoned.append(name)

        try:
            await self._at_once(sorted(self._ours), uncordon)
        except asyncio.CancelledError:
            self._report(f"still cordoned: {wording.capped(sorted(self._ours), MAX_NAMED)}; uncordon them with {UNDO}")
            raise
        return tuple(sorted(still_cordoned))

    async def _written(
        self, write: Callable[[], Awaitable[None]], what: str, done: Callable[[], bool] = lambda: False, *, gone_is_done: bool = False
    ) -> None:
        """Repeat a write until it is accepted or turns out to be done; raise Stopped when it is refused or the timeout ends.

        With `gone_is_done` the absence of the object is no refusal: an earlier attempt without an answer may have been carried out.
        """
        until = self._clock.monotonic() + self._max_wait
        while not done():
            try:
                await write()
            except WriteFailed as failed:
                if failed.gone and gone_is_done:
                    return
                if failed.gone or not failed.retriable:
                    raise _Refused(f"{what}: {failed.reason}") from failed
                if self._clock.monotonic() > until:
                    raise Stopped(f"{what}: {failed.reason}") from failed
                if failed.reason != self._last_failures.get(what):
                    self._report(f"{what}: {failed.reason}; trying again for {self._max_wait:g} s")
                    self._last_failures[what] = failed.reason
                await self._clock.sleep(RETRY_SECONDS)
            else:
                self._last_failures.pop(what, None)
                return

    async def _awaited(self, look: Callable[[], Any], what: str) -> Any:
        """The first result of `look` that is not None; raises Stopped after the timeout."""
        ends_at = self._clock.monotonic() + self._max_wait
        while (found := look()) is None:
            if self._clock.monotonic() > ends_at:
                raise Stopped(f"{what} after {self._max_wait:g} s")
            self._live.changed.clear()
            await until(self._live.changed, self._clock, LOOK_SECONDS)
        return found
