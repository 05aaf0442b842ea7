"""How many members of a group each domain takes by itself, and what stops the next one there.

Members are assumed in each domain one after the other, as the chain places them, until it refuses one of each kind; then they are
forgotten. An exact search may fit more into a domain than this, so a number is what surely fits.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable
from typing import TYPE_CHECKING

import numpy as np

from wharfinger.framework.evaluation.diagnosis import Diagnosis
from wharfinger.groups.domains import Domain, domains, of_rows
from wharfinger.groups.exact import member_classes
from wharfinger.groups.terms import DomainFit, Group

if TYPE_CHECKING:
    from wharfinger.framework.evaluation.cycle import Decider
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.cluster_state import ClusterState

MAX_STEPS = 20_000
"""The default budget: decisions about one member in one domain."""


def domain_fits(
    decider: Decider, state: ClusterState, group: Group, *, steps: int = MAX_STEPS
) -> Generator[None, None, tuple[DomainFit, ...]]:
    """A generator of steps that returns what each domain takes of the waiting members, most first.

    The domains are those of the required levels; the whole cluster where there are none. With placed members only their own domain is
    asked. After `steps` decisions the least promising domains are left out. `state` is as before in the end, or when it is closed.
    """
    now = state.snapshot().now
    keys = tuple(level.key for level in group.terms.levels if level.required)
    members = member_classes.ordered(group.waiting)
    candidates = _candidates(group, state, keys)
    promise = np.zeros(len(candidates), np.int64)
    for each in (yield from member_classes.classes(decider, members, state.snapshot(now))):
        room = member_classes.room(decider, state.snapshot(now), each.pod)
        most = [min(len(each.members), int(np.minimum(room[domain.rows], len(each.members)).sum())) for domain in candidates]
        promise += np.array(most, np.int64)
        yield
    found: list[DomainFit] = []
    for number in np.argsort(-promise, kind="stable").tolist():
        if steps <= 0:
            break
        steps -= len(members)
        found.append((yield from _fit(decider, state, candidates[number], members, now)))
    return tuple(sorted(found, key=lambda fit: (-fit.fits, fit.value)))


def _candidates(group: Group, state: ClusterState, keys: tuple[str, ...]) -> list[Domain]:
    snapshot = state.snapshot()
    found = domains(keys, snapshot)
    rows = [row for pod in group.placed if (row := snapshot.row(pod.node_name)) is not None]
    own = of_rows(keys, rows, snapshot) if rows else {}
    return [] if own is None else [domain for domain in found if all(domain.labels[key] == value for key, value in own.items())]


def _fit(decider: Decider, state: ClusterState, domain: Domain, members: list[PodView], now: float) -> Generator[None, None, DomainFit]:
    rows = domain.rows if domain.labels else None
    assumed: list[PodView] = []
    refused: dict[Hashable, PodView] = {}
    try:
        for pod in members:
            snapshot = state.snapshot(now)
            key = decider.chain.key(pod, snapshot)
            if key in refused:
                continue
            choice = decider.choose(snapshot, pod, rows)
            if choice is None:
                refused[key] = pod
            else:
                node = snapshot.names[choice.row]
                state.assume(decider.chain.assigned_on(pod, snapshot, node), node)
                assumed.append(pod)
            yield
        reasons = {}
        if refused:
            snapshot = state.snapshot(now)
            evaluation = decider.evaluation(snapshot, next(iter(refused.values())))
            reasons = dict(Diagnosis(evaluation.filtering, snapshot.n_nodes).reasons_among(domain.rows))
        return DomainFit(key=domain.key, value=domain.value, fits=len(assumed), wanted=len(members), reasons=reasons)
    finally:
        while assumed:
            state.forget(assumed.pop())
