"""The room for a group that does not fit now: how many members each domain takes, and where and when all of them can be placed later.

`domain_fits` assumes members in each domain in sequence, as the chain places them, until it refuses one of each kind, and then forgets
them. An exact search may fit more members into a domain, so each number is a lower bound.

`expected_placement` finds the nodes that are expected to be free first. A pod with `activeDeadlineSeconds` ends at most that many seconds
after its start. Pods are removed in the order in which they end until the group fits. If pods with deadlines are not enough, the pods that
have run longest are removed too, except those of DaemonSets; the time at which the group fits is not known then. The search removes pods
from the state: pass a copy of it.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Hashable
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from wharfinger.groups.domains import CHANGES_PER_STEP, Domain, TentativePlacement, Work, domains, of_rows
from wharfinger.groups.exact import member_classes
from wharfinger.groups.placing import MAX_STEPS, placing
from wharfinger.groups.terms import DomainFit, Group, Placed
from wharfinger.model.state.copies import put_back

if TYPE_CHECKING:
    from wharfinger.framework.evaluation.cycle import Decider
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.cluster_state import ClusterState


def domain_fits(
    decider: Decider, state: ClusterState, group: Group, *, steps: int = MAX_STEPS
) -> Generator[None, None, tuple[DomainFit, ...]]:
    """A generator of steps that returns what each domain takes of the waiting members, most first.

    The domains are those of the required levels; the whole cluster where there are none. If members are placed, only their domain is tried.
    After `steps` decisions about one member in one domain, the least promising domains are left out. `state` is as before in the end, or
    when it is closed.
    """
    tentative = TentativePlacement(decider, state, steps)
    keys = tuple(level.key for level in group.terms.levels if level.required)
    members = member_classes.ordered(group.waiting)
    candidates = _candidates(group, state, keys)
    promise = np.zeros(len(candidates), np.int64)
    for each in (yield from member_classes.classes(decider, members, tentative.snapshot)):
        room = member_classes.room(decider, tentative.snapshot, each.pod)
        most = [min(len(each.members), int(np.minimum(room[domain.rows], len(each.members)).sum())) for domain in candidates]
        promise += np.array(most, np.int64)
        yield
    found: list[DomainFit] = []
    for number in np.argsort(-promise, kind="stable").tolist():
        if steps <= 0:
            break
        steps -= len(members)
        found.append((yield from _fit(tentative, candidates[number], members)))
    return tuple(sorted(found, key=lambda fit: (-fit.fits, fit.value)))


def _candidates(group: Group, state: ClusterState, keys: tuple[str, ...]) -> list[Domain]:
    snapshot = state.snapshot()
    found = domains(keys, snapshot)
    rows = [row for pod in group.placed if (row := snapshot.row(pod.node_name)) is not None]
    own = of_rows(keys, rows, snapshot) if rows else {}
    return [] if own is None else [domain for domain in found if all(domain.labels[key] == value for key, value in own.items())]


def _fit(tentative: TentativePlacement, domain: Domain, members: list[PodView]) -> Generator[None, None, DomainFit]:
    rows = domain.rows if domain.labels else None
    refused: dict[Hashable, PodView] = {}
    try:
        for pod in members:
            key = tentative.decider.chain.key(pod, tentative.snapshot)
            if key in refused:
                continue
            choice = tentative.choose(pod, rows)
            if choice is None:
                refused[key] = pod
            else:
                tentative.assume(pod, choice)
            yield
        reasons = tentative.reasons(next(iter(refused.values())), domain) if refused else {}
        fits = len(tentative.assumed)
        return DomainFit(key=domain.key, value=domain.value, fits=fits, wanted=len(members), reasons=dict(reasons))
    finally:
        tentative.forget_all()


class ExpectedPlacement(Struct, frozen=True, kw_only=True):
    """A placement that is free once other pods have ended; `at` is the latest time of their end, or None if it is not known."""

    placement: Placed
    at: float | None


def ends_at(pod: PodView, now: float) -> float | None:
    """The time at which a pod ends at the latest, by its deadline; None without one. A pod that has not started yet starts `now`."""
    seconds = pod.object.spec.active_deadline_seconds
    return None if seconds is None else (pod.started or now) + seconds


def expected_placement(
    decider: Decider, state: ClusterState, group: Group, *, steps: int = MAX_STEPS, work: Work | None = None
) -> Generator[None, None, ExpectedPlacement | None]:
    """A generator of steps that returns where the group is expected to be placed; None if it would not fit even then.

    The state has the same pods on the same nodes when the generator ends or is closed. `steps` is the budget of each question if the group
    can be placed. Steps are added to `work`.
    """
    leaving = _leaving(state, group)
    removed = _RemovedPods(state, leaving)
    try:
        fits, known = len(leaving), sum(1 for each in leaving if each.end < math.inf)
        if known < fits:
            yield from removed.first(known)
            answer = yield from placing(decider, state, group, steps=steps, work=work)
            fits = known if isinstance(answer, Placed) else fits
        found: Placed | None = None
        low, high = -1, fits
        while high - low > 1 or found is None:
            number = high if found is None else (low + high) // 2
            yield from removed.first(number)
            answer = yield from placing(decider, state, group, steps=steps, work=work)
            if isinstance(answer, Placed) and answer.nodes:
                found, high = answer, number
            elif found is None:
                return None
            else:
                low = number
        at = max((each.end for each in leaving[:high]), default=state.snapshot().now)
        return ExpectedPlacement(placement=found, at=None if at == math.inf else at)
    finally:
        removed.put_all_back()


class _Leaving(Struct, frozen=True):
    """A pod that is expected to leave its node; `end` is its latest end, infinite if it is not known."""

    end: float
    start: float
    pod: PodView
    assumed: bool


def _leaving(state: ClusterState, group: Group) -> list[_Leaving]:
    """The pods that may leave, the first to end first."""
    own = {pod.uid for pod in (*group.waiting, *group.placed)}
    snapshot = state.snapshot()
    found = []
    for pod, assumed in state.placements():
        if pod.uid not in own and snapshot.row(pod.node_name) is not None and not _of_daemon_set(pod):
            end = snapshot.now if pod.terminating else ends_at(pod, snapshot.now)
            found.append(_Leaving(math.inf if end is None else end, pod.started or math.inf, pod, assumed))
    return sorted(found, key=lambda each: (each.end, each.start, each.pod.key))


def _of_daemon_set(pod: PodView) -> bool:
    return any(owner.controller and owner.kind == "DaemonSet" for owner in pod.object.metadata.owner_references)


class _RemovedPods:
    """The number of pods, in order, that are removed from the state."""

    def __init__(self, state: ClusterState, leaving: list[_Leaving]) -> None:
        self._state = state
        self._leaving = leaving
        self._count = 0

    def first(self, count: int) -> Generator[None, None, None]:
        """Remove exactly the first pods."""
        while self._count != count:
            self._step(count)
            if self._count % CHANGES_PER_STEP == 0:
                yield

    def put_all_back(self) -> None:
        """Put back all pods."""
        while self._count:
            self._step(0)

    def _step(self, count: int) -> None:
        if self._count < count:
            self._state.remove_pod(self._leaving[self._count].pod)
            self._count += 1
        else:
            self._count -= 1
            back = self._leaving[self._count]
            put_back(self._state, back.pod, back.pod.node_name, assumed=back.assumed)
