"""Finds where a group of pods goes: all members that must be placed, close together, by the chain that places single pods.

`placing` is a generator of short steps; `steps.at_once` runs it to its end. Members are assumed on the state in sequence and then
forgotten, so filters and scores see the members placed before. Domains are tried best first: those that may take the whole group come
first, among them those where members are placed already, then the one whose nodes score best. The first that takes every member is the
answer; if none does, the one that takes most, as kube-scheduler 1.36 chooses (schedule_one_podgroup.go, plugins/podgrouppodscount). Where
that leaves out members that would fit, the exact search looks for more.

Between two steps some members may be assumed on the state. Pass a copy (`FollowedCopy`) if others must not see that.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from wharfinger.framework.plugins.pods import affinity_terms
from wharfinger.groups import domains
from wharfinger.groups.domains import Domain, DomainPlacement, TentativePlacement, Work
from wharfinger.groups.exact import member_classes
from wharfinger.groups.exact.search import ExactSearch
from wharfinger.groups.membership import group_of_policy
from wharfinger.groups.terms import DomainFit, Group, GroupAnswer, Impossible, Level, NotFound, Placed
from wharfinger.language.report.wording import count, counted
from wharfinger.model.state.object_store import TimeAndObjects

if TYPE_CHECKING:
    from wharfinger.framework.chain import Chain
    from wharfinger.framework.evaluation.cycle import Decider
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.cluster_state import ClusterState
    from wharfinger.model.state.snapshot import Snapshot

MAX_STEPS = 20_000
"""The default budget: decisions about one member on the nodes of one domain."""
MAX_ONE_BY_ONE = 16
"""The members of a group without levels that are placed one by one before other searches."""
STEPS_FOR_MORE = 1_000
"""The most steps that are spent on members beyond the minimum that greedy placing leaves out."""
MAX_NEAREST = 3


def placing(  # noqa: PLR0913 — the keywords are limits of the search
    decider: Decider,
    state: ClusterState,
    group: Group,
    *,
    steps: int = MAX_STEPS,
    keep: bool = False,
    within: Mapping[str, str] | None = None,
    work: Work | None = None,
) -> Generator[None, None, GroupAnswer]:
    """A generator of steps that returns the nodes of the group, or why there are none.

    The state is as before when it ends or is closed, except with `keep`: then the members of a placement stay assumed. The search gives up
    after `steps` decisions about members. `within` are values of required levels: only their domain is looked at. Steps are
    added to `work`.
    """
    tentative = TentativePlacement(decider, state, steps, work)
    kept = False
    try:
        answer = yield from _Search(tentative, group, within or {}).run()
        kept = keep and isinstance(answer, Placed)
        if keep and isinstance(answer, Placed) and [pod.uid for pod in tentative.assumed] != list(answer.nodes):
            tentative.forget_all()
            tentative.assume_all(answer.nodes, {pod.uid: pod for pod in group.waiting})
        return answer
    finally:
        if not kept:
            tentative.forget_all()


def placing_with(tentative: TentativePlacement, group: Group, *, within: Mapping[str, str]) -> Generator[None, None, GroupAnswer]:
    """A generator of steps like `placing`, with the steps that `tentative` has left; several questions may share them."""
    try:
        return (yield from _Search(tentative, group, within).run())
    finally:
        tentative.forget_all()


class _Search:
    """The search for one group: its members, the assumed pods, and the work done so far."""

    def __init__(self, tentative: TentativePlacement, group: Group, within: Mapping[str, str]) -> None:
        self.tentative = tentative
        self._group = group
        self._within = within
        self._members = member_classes.ordered(group.waiting)
        self._wanted = max(1, group.needed)
        self._proven = True  # no domain of the last stage takes the group

    def run(self) -> Generator[None, None, GroupAnswer]:
        """The search itself."""
        group = self._group
        if not self._members:
            return Placed(nodes={})
        if self._wanted > len(self._members):
            there = len(self._members) + len(group.placed)
            return Impossible(nearest=(), message=f"{count(there, 'member')} of at least {group.terms.min_count} exist")
        required = tuple(level.key for level in group.terms.levels if level.required)
        pinned = self._pinned(required)
        if pinned is None:
            return Impossible(nearest=(), message=f"its placed members are not in one domain of {', '.join(required)}")
        if any(pinned.get(key, value) != value for key, value in self._within.items()):
            return Impossible(nearest=(), message="its placed members are in another domain")
        return (yield from self._in_stages(required, {**pinned, **self._within}))

    def _in_stages(self, required: Sequence[str], pinned: Mapping[str, str]) -> Generator[None, None, GroupAnswer]:
        """The answer with all levels, else without the narrowest preferred one, and so on."""
        group = self._group
        few = len(self._members) <= min(MAX_ONE_BY_ONE, self.tentative.steps_left)
        if few and not (pinned or group.terms.levels or group.terms.spread):
            nodes = yield from self._one_by_one()
            if nodes is not None:
                return Placed(nodes=nodes)
        found: list[DomainFit] = []
        known = {level.key for level in group.terms.levels}
        levels = (*group.terms.levels, *(Level(key, required=False) for key in group.terms.spread if key not in known))
        self._pods_of_others = pods_of_other_groups(self.tentative.decider.chain, self.tentative.snapshot, group)
        yield from self._classify()
        for keys in domains.stages(levels):
            exact = set(keys) == set(required)
            best, fits = yield from self._best_of(keys, pinned)
            if best is not None and (exact or not best.left or (group.needed and len(best.nodes) >= self._wanted)):
                return Placed(nodes=best.nodes, domains=best.domain.labels, left=tuple(best.left))
            found = sorted(fits, key=lambda fit: (-fit.fits, fit.value))[:MAX_NEAREST]
        return self._failure(found)

    def _classify(self) -> Generator[None, None, None]:
        """Find the members that get equal answers, which bounds and the exact search are about."""
        self._classes = yield from member_classes.classes(self.tentative.decider, self._members, self.tentative.snapshot)
        self._keys = {pod.uid: each.key for each in self._classes for pod in each.members}
        self._exact = ExactSearch(self.tentative, self._classes, self._wanted)

    def _one_by_one(self) -> Generator[None, None, Mapping[str, str] | None]:
        """The nodes of all members, which stay assumed, as the chain places them in order; None if it refuses one, with none assumed.

        It is what `_fill` finds in the whole cluster, without the bounds and the classes that only a group needs for which this fails.
        """
        nodes: dict[str, str] = {}
        for pod in self._members:
            choice = self.tentative.choose(pod, None)
            yield
            if choice is None:
                self.tentative.forget_all()
                return None
            nodes[pod.uid] = choice
            self.tentative.assume(pod, choice)
        return nodes

    def _pinned(self, required: Sequence[str]) -> Mapping[str, str] | None:
        """The values that the placed members give to the required levels; None if they disagree."""
        rows = self._placed_rows()
        return domains.of_rows(required, rows, self.tentative.snapshot) if rows else {}

    def _placed_rows(self) -> list[int]:
        """The nodes of the placed members, one entry for each; those that are gone are left out."""
        snapshot = self.tentative.snapshot
        rows = []
        for pod in self._group.placed:
            placed = snapshot.placed(pod.uid)
            row = snapshot.row(pod.node_name) if placed is None else placed[0]
            if row is not None:
                rows.append(row)
        return rows

    def _best_of(
        self, keys: Sequence[str], pinned: Mapping[str, str]
    ) -> Generator[None, None, tuple[DomainPlacement | None, list[DomainFit]]]:
        """The first domain of some topology keys that takes all members, else the one that takes most; and how many each domain takes."""
        candidates = [
            domain
            for domain in domains.domains(keys, self.tentative.snapshot)
            if all(domain.labels.get(key, value) == value for key, value in pinned.items())
        ]
        bounds = yield from self._bounds(candidates)
        self._proven = True
        order = self._most_promising_first(candidates, bounds)
        best: DomainPlacement | None = None
        failed = False
        excluded: set[int] = set()
        unsure = len(self._classes) > 1 or _has_rules(self._members[0])
        fits = [
            DomainFit(key=each.key, value=each.value, fits=bound, wanted=self._wanted, at_most=unsure)
            for each, bound in zip(candidates, bounds, strict=True)
        ]
        for number in order:
            least = self._wanted if best is None else len(best.nodes) + 1
            if bounds[number] < least:
                break
            if self.tentative.steps_left <= 0:
                self._proven = False
                break
            if failed:  # a bound often shows without placing its members that the next domain fails too
                most = yield from self._exact.at_most(candidates[number])
                if most < least:
                    fits[number] = replace(fits[number], fits=most, at_most=not self._exact.exact)
                    excluded.add(number)
                    continue
            tried = yield from self._fill(candidates[number])
            failed = failed or len(tried.nodes) < self._wanted
            fits[number] = self._fit(tried)
            yield from self.tentative.forgetting()
            if len(tried.nodes) >= least:
                best = tried
                if not tried.left:
                    break
        if best is None:
            promising = [number for number in order if bounds[number] >= self._wanted and number not in excluded]
            best = yield from self._exactly(candidates, promising, fits)
        elif best.left:
            best = yield from self._with_more(best, [candidates[number] for number in order if bounds[number] > len(best.nodes)])
        return best, fits

    def _most_promising_first(self, candidates: Sequence[Domain], bounds: Sequence[int]) -> list[int]:
        """The indexes of the domains in the order in which they are tried.

        First come those that may take most members. Among equal ones come those with most placed members of the group, then those with the
        fewest pods of other groups, then those with the best nodes.
        """
        placed_by_node = np.bincount(np.array(self._placed_rows(), np.intp), minlength=self.tentative.snapshot.n_nodes)
        n_placed = [int(placed_by_node[domain.rows].sum()) for domain in candidates]
        pods_of_others = [self._pods_of_others(domain) for domain in candidates]
        quality = self._quality(candidates)
        return sorted(
            range(len(candidates)),
            key=lambda number: (-bounds[number], -n_placed[number], pods_of_others[number], -quality[number], str(candidates[number])),
        )

    def _with_more(self, best: DomainPlacement, promising: Sequence[Domain]) -> Generator[None, None, DomainPlacement]:
        """A placement in which more members of highest priority have a node; `best` if the exact search soon finds none."""
        ends_at = self.tentative.steps_left - STEPS_FOR_MORE
        for domain in promising:
            steps = self.tentative.steps_left - max(0, ends_at)
            if steps <= 0 or not best.left:
                break
            found = yield from self._exact.place_more(domain, len(best.nodes), steps)
            if found is not None and self._priorities(found) > self._priorities(best):
                best = found
        return best

    def _priorities(self, tried: DomainPlacement) -> list[int]:
        """The priorities of the placed members, descending."""
        return [pod.priority for pod in self._members if pod.uid in tried.nodes]

    def _exactly(
        self, candidates: Sequence[Domain], promising: Sequence[int], fits: list[DomainFit]
    ) -> Generator[None, None, DomainPlacement | None]:
        """The first placement that the exact search finds in these domains; `fits` is updated with the most members of each."""
        for number in promising:
            found = yield from self._exact.place(candidates[number])
            if isinstance(found, DomainPlacement):
                return found
            if found is None:
                self._proven = False
            else:
                fits[number] = replace(fits[number], fits=max(found, fits[number].fits), at_most=not self._exact.exact)
        return None

    def _bounds(self, candidates: Sequence[Domain]) -> Generator[None, None, list[int]]:
        """The most members that each domain may take."""
        totals, snapshot = [0] * len(candidates), self.tentative.snapshot
        sums = member_classes.Sums(snapshot.n_nodes)
        for each in self._classes:
            self.tentative.spend()
            filtering = self.tentative.decider.filtering(snapshot, each.pod)
            room = member_classes.room_by(filtering, snapshot, each.pod)
            sums.add(each, filtering)
            for number, domain in enumerate(candidates):
                totals[number] += min(len(each.members), int(np.minimum(room[domain.rows], len(each.members)).sum()))
            yield
        if len(self._classes) > 1:
            enough = sums.enough(snapshot)
            totals = [min(total, enough(domain.rows)) for total, domain in zip(totals, candidates, strict=True)]
            yield
        return totals

    def _quality(self, candidates: Sequence[Domain]) -> list[float]:
        """The mean total of the best nodes of each domain for the class of most members, as many nodes as it has members."""
        if len(candidates) < 2:
            return [0.0] * len(candidates)
        each = max(self._classes, key=lambda found: len(found.members))
        evaluation = self.tentative.decider.evaluation(self.tentative.snapshot, each.pod)
        if not evaluation.filtering.count:
            return [0.0] * len(candidates)
        keys = np.where(evaluation.filtering.feasible, evaluation.scoring.tiers[0].key(slice(None)), -np.inf)
        return [_mean_of_best(keys[domain.rows], len(each.members)) for domain in candidates]

    def _fill(self, domain: Domain) -> Generator[None, None, DomainPlacement]:
        """Assume as many members as the chain places in a domain, in sequence. Refused members are tried again after others were placed."""
        tried = DomainPlacement(domain)
        rows = domain.rows if domain.labels else None
        waiting = self._members
        while True:
            refused: set[Hashable] = set()
            left: list[PodView] = []
            progress = False
            for pod in waiting:
                key = self._keys[pod.uid]
                if key in refused:
                    left.append(pod)
                    continue
                choice = self.tentative.choose(pod, rows)
                yield
                if choice is None:
                    refused.add(key)
                    left.append(pod)
                else:
                    tried.nodes[pod.uid] = choice
                    self.tentative.assume(pod, choice)
                    progress = True
            tried.left = left
            if not left or not progress:
                return tried
            waiting = left

    def _fit(self, tried: DomainPlacement) -> DomainFit:
        """The number of members that the domain takes, and what stops the next one; called while they are assumed."""
        reasons = self.tentative.reasons(tried.left[0], tried.domain) if tried.left else {}
        domain = tried.domain
        return DomainFit(key=domain.key, value=domain.value, fits=len(tried.nodes), wanted=self._wanted, reasons=reasons)

    def _failure(self, nearest: Sequence[DomainFit]) -> GroupAnswer:
        message = _message(nearest, self._wanted)
        if self._proven:
            return Impossible(nearest=tuple(nearest), message=message)
        return NotFound(nearest=tuple(nearest), steps=self.tentative.steps, message=message)


def _has_rules(pod: PodView) -> bool:
    """True if a member wishes to be near or apart from others, or evenly spread."""
    spec = pod.object.spec
    return bool(spec.topology_spread_constraints) or affinity_terms.terms_of_placed(pod) != affinity_terms.NO_TERMS


def _mean_of_best(keys: NDArray[np.float64], limit: int) -> float:
    """The mean of the highest finite keys, at most `limit` of them; −inf without any."""
    finite = keys[np.isfinite(keys)]
    if not len(finite):
        return -np.inf
    if len(finite) > limit:
        finite = np.partition(finite, len(finite) - limit)[-limit:]
    return float(np.sort(finite).mean())  # a sum of floats depends on their order


def _message(nearest: Sequence[DomainFit], wanted: int) -> str:
    members = count(wanted, "member")
    if not nearest:
        return f"no node has the labels of the group's levels, and {members} must be placed"
    best = nearest[0]
    takes = f"takes at most {best.fits}" if best.at_most else f"takes {best.fits}"
    where = f"{best.key} {best.value} {takes}" if best.key else f"the cluster {takes}"
    reasons = counted(best.reasons)
    return f"{members} must be placed at once; {where}" + (f": {reasons}" if reasons else "")


def pods_of_other_groups(chain: Chain, snapshot: Snapshot, group: Group) -> Callable[[Domain], float]:
    """Return a function that counts the placed pods of other groups in a domain, of the policies that spread this group.

    For each topology key of `spread_over`, the pods count that share a value of the key with a node of the domain.
    """
    keys = group.terms.spread
    if not keys or not group.waiting:
        return lambda _: 0.0
    pod, at = group.waiting[0], TimeAndObjects(snapshot.now, snapshot.objects)
    spreading = [
        policy for policy in chain.policies if policy.group is not None and policy.group.terms.spread_over and policy.governs(pod, snapshot)
    ]

    def is_other(placed: PodView) -> bool:
        found = (group_of_policy(policy, placed, at) for policy in spreading)
        return any(each is not None and f"{placed.namespace}/{each[0]}" != group.key for each in found)

    identity = ("groups", "spread over", tuple(policy.revision for policy in spreading), at.objects.namespace_labels, group.key)
    selection = snapshot.selection(identity, is_other, passing=True)
    selection.follow()
    counts = []
    for key in keys:
        ids, _ = snapshot.domain(key)
        by_domain = np.append(selection.by_domain(key), 0.0)
        counts.append((ids.copy(), by_domain.copy()))

    def pods_of_others(domain: Domain) -> float:
        return float(sum(by_domain[np.unique(ids[domain.rows])].sum() for ids, by_domain in counts))

    return pods_of_others
