"""Capacity: the number of further pods that fit, where, what stops the next one, and how far each single change would help.

First the given pods are placed, in the order of the scheduling queue. Then each workload gets further pods until one finds no node: the
workload with the highest priority first, the next one on what is left. A pod that would have to evict others does not fit.

The members of a group are placed whole, and further groups like it are counted instead of further pods.

Each change is tried by counting again with that change alone: one more node like an existing one, less of a resource that is short, one
rule of a policy less. All pods of the workload, or groups like the one, are counted then, so the gain is what the change adds to all that
fit.

Counting is what a dry run does, pod by pod. Where a placed pod changes the verdicts of filters on its own node alone, the order of equal
pods does not change their number: a node takes as many as it takes. That is so for filters that look at one node, and for affinity and
anti-affinity, unless pods of the workload want each other, or repel each other within domains of several nodes. Equal pods are then
counted in rounds, with a pod on each feasible node per round, and a new node is evaluated alone. Where no more than requests, affinity of
that kind and one topology spread constraint limit the pods, the number with a change is read from the free amounts and the domains. If the
limit ends a count, the order matters, because it defines which nodes have pods by then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from wharfinger.errors import UsageError
from wharfinger.framework.chain import Chain, without_rule
from wharfinger.groups.results import GroupResult
from wharfinger.groups.turns import groups_among
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.objects.quantity import format_amount
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.simulate.placing import queue_order
from wharfinger.what_if.further_pods import WorkloadPods, grouped, reductions, with_less
from wharfinger.what_if.room_count import Candidates, Count, Found, FoundGroup, Stop
from wharfinger.what_if.supposed_changes import NewNode, NodesLike, SupposedChanges, nodes_like

DEFAULT_LIMIT = 10_000
MAX_LIMIT = 10_000_000
MAX_NODES = 100_000
"""The default limit of further pods of a workload."""
MAX_DECISIONS = 8_000
"""Decisions after which no further change is tried."""


class LessOf(Struct, frozen=True, kw_only=True):
    """A change: each pod requests `amount` less of a resource, in the scheduler's units; `text` is the amount as Kubernetes writes it."""

    resource: str
    amount: int
    text: str

    def __str__(self) -> str:
        return f"at {self.text} less {self.resource}"


class WithoutRule(Struct, frozen=True, kw_only=True):
    """A change: without the filter of a policy that is named (`policy/rule`)."""

    rule: str

    def __str__(self) -> str:
        return f"without rule {self.rule}"


Change = NodesLike | LessOf | WithoutRule


class Gain(Struct, frozen=True, kw_only=True):
    """The number of pods or groups that a change adds; `at_least` if the limit of pods ended the count."""

    change: Change
    more: int
    at_least: bool


class Share(Struct, frozen=True, kw_only=True):
    """The number of pods on a node, or on the nodes with one value of a label (None: without it)."""

    place: str | None
    placed: int
    more: int


class Room(Struct, frozen=True, kw_only=True):
    """The room for one workload: `placed` of its `pods` fit, and `more` further ones; `at_least` if the limit ended the count.

    `by` has the shares by label key, `nodes` by node, most pods first. `stop` is None only if the limit ended the count. `gains` are the
    changes tried, `untried` those for which there was no time. `added` is what the extra nodes add; None without extra nodes.
    """

    workload: str
    pods: int
    placed: int
    more: int
    at_least: bool
    nodes: tuple[Share, ...]
    by: Mapping[str, tuple[Share, ...]]
    stop: Stop | None
    added: Gain | None = None
    gains: tuple[Gain, ...] = ()
    untried: tuple[Change, ...] = ()

    @property
    def total(self) -> int:
        """All that fit."""
        return self.placed + self.more


class DomainGroups(Struct, frozen=True, kw_only=True):
    """The number of groups in a domain, `value` of the topology key `key`; "" for groups without a level."""

    key: str
    value: str
    groups: int


class GroupRoom(Struct, frozen=True, kw_only=True):
    """The room for one group: `placed` of its `pods` fit, all that it needs or none, and `more` further groups like it.

    `at_least` if the limit ended the count. `domains` say where the groups are, most first, and `nodes` how many pods each node gets.
    `stop` is the reason why the group, or the next equal one, has no place; None if the limit ended the count. `gains` and `untried` as in
    `Room`; they count groups.
    """

    group: str
    source: str
    pods: int
    placed: int
    more: int
    at_least: bool
    nodes: tuple[Share, ...]
    domains: tuple[DomainGroups, ...]
    stop: GroupResult | None
    added: Gain | None = None
    gains: tuple[Gain, ...] = ()
    untried: tuple[Change, ...] = ()

    @property
    def total(self) -> int:
        """All groups that have a place."""
        return self.more + (self.placed == self.pods)


AnyRoom = TypeVar("AnyRoom", Room, GroupRoom)


class Capacity(Struct, frozen=True, kw_only=True):
    """The room for each workload, in the order in which they take it; and before that the room for each group."""

    chain: Chain
    rooms: tuple[Room, ...]
    extra: NodesLike | None = None
    groups: tuple[GroupRoom, ...] = ()

    @property
    def all_placed(self) -> bool:
        """True if all given pods fit."""
        return all(room.placed == room.pods for room in self.rooms) and all(room.placed == room.pods for room in self.groups)


def capacity(  # noqa: PLR0913 — the keywords are independent choices
    chain: Chain,
    state: ClusterState,
    pods: Sequence[PodView],
    *,
    by: Sequence[str] = (),
    extra: NodesLike | None = None,
    limit: int = DEFAULT_LIMIT,
    changes: bool = True,
    advance: Callable[[], None] = lambda: None,
) -> Capacity:
    """The room for the workloads of `pods`; `state` is as before afterwards, except for its revision.

    Shares are by each label of `by`. At most `limit` further pods are counted for each workload. Without `changes` none are tried.
    `advance` is called for each pod placed. Raises UsageError for no pods, and for pods of a DaemonSet; UnknownObject for a node, and for a
    label of nodes, that does not exist.
    """
    if not pods:
        raise UsageError("there are no pods to count room for; name a pod, or a workload with at least one pod")
    state.snapshot().require_labels(by)
    with SupposedChanges(state) as supposed:
        index = groups_among(chain, state, pods)
        members = [pod for pod in pods if index.key_of(pod.uid) is not None] if index else []
        groups = grouped(queue_order(chain, [pod for pod in pods if index.key_of(pod.uid) is None] if index else pods))
        new = () if extra is None else nodes_like(state.snapshot(), extra.model, extra.count)
        count = Count(chain, supposed, limit, advance, members)
        plain = count.count(groups, new, candidates=changes)
        nodes = [*state.nodes_listed()[2], *(each.node for each in new)]
        labels = {node.metadata.name: node.metadata.labels for node in nodes}
        rooms = [_room(found, labels, by) for found in plain]
        group_rooms = {key: _group_room(found) for key, found in count.groups.items()}
        tries = _ChangeTrials(chain, supposed, groups, new, limit, {key: found.pods for key, found in count.groups.items()})
        if extra is not None:
            rooms = [tries.added(room, number, extra) for number, room in enumerate(rooms)]
            group_rooms = {key: tries.added(room, key, extra) for key, room in group_rooms.items()}
        if changes:
            rooms = [tries.gains(room, number, plain[number].candidates) for number, room in enumerate(rooms)]
            group_rooms = {key: tries.gains(room, key, count.candidates.get(key, Candidates())) for key, room in group_rooms.items()}
    return Capacity(chain=chain, rooms=tuple(rooms), extra=extra, groups=tuple(group_rooms.values()))


# ── what is found ──


def _room(found: Found, labels: Mapping[str, Mapping[str, str]], by: Sequence[str]) -> Room:
    """The room for a workload; `labels` are those of every node, new ones included."""
    placed, more = Counter(found.placed), Counter(found.more)
    return Room(
        workload=found.group.name,
        pods=len(found.group.pods),
        placed=len(found.placed),
        more=len(found.more),
        at_least=found.at_least,
        nodes=_shares(placed, more),
        by={key: _by_label(placed, more, {node: own.get(key) for node, own in labels.items()}) for key in by},
        stop=found.stop,
    )


def _group_room(found: FoundGroup) -> GroupRoom:
    """The room for a group."""
    where = Counter((key, value) for each in found.domains for key, value in (list(each.items())[-1:] or [("", "")]))
    result = found.result
    return GroupRoom(
        group=found.key,
        source="" if result is None else result.source,
        pods=len(found.pods),
        placed=len(found.placed),
        more=len(found.more),
        at_least=found.at_least,
        nodes=_shares(Counter(found.placed), Counter(node for each in found.more for node in each)),
        domains=tuple(
            DomainGroups(key=key, value=value, groups=groups)
            for (key, value), groups in sorted(where.items(), key=lambda item: (-item[1], item[0]))
        ),
        stop=found.stop,
    )


def _shares(placed: Counter[str], more: Counter[str]) -> tuple[Share, ...]:
    """The shares of nodes, most pods first."""
    ordered = sorted(placed.keys() | more.keys(), key=lambda node: (-placed[node] - more[node], node))
    return tuple(Share(place=node, placed=placed[node], more=more[node]) for node in ordered)


def _by_label(placed: Counter[str], more: Counter[str], values: Mapping[str, str | None]) -> tuple[Share, ...]:
    """The shares of the values of a label, by value, for every value that a node has."""
    sums: dict[str | None, list[int]] = {value: [0, 0] for value in values.values()}
    for column, counted in enumerate((placed, more)):
        for node, pods in counted.items():
            sums[values[node]][column] += pods
    ordered = sorted(sums, key=lambda value: (value is None, value or ""))
    return tuple(Share(place=value, placed=sums[value][0], more=sums[value][1]) for value in ordered)


# ── changes ──


class _ChangeTrials:
    """Counts again with one change each: the workload of a number, or the group of a key. `members` are those of groups, by key."""

    def __init__(  # noqa: PLR0913, PLR0917 — its collaborators and settings
        self,
        chain: Chain,
        supposed: SupposedChanges,
        groups: Sequence[WorkloadPods],
        new: Sequence[NewNode],
        limit: int,
        members: Mapping[str, Sequence[PodView]],
    ) -> None:
        self._members = members
        self._chain = chain
        self._supposed = supposed
        self._groups = groups
        self._new = new
        self._limit = limit
        self._counts: list[Count] = []

    def added(self, room: AnyRoom, of: int | str, extra: NodesLike) -> AnyRoom:
        """The room with what the extra nodes, which it was counted with, add to it."""
        total, at_least = self._total(self._chain, self._groups, self._members, of, ())
        return replace(room, added=Gain(change=extra, more=room.total - total, at_least=room.at_least and not at_least))

    def gains(self, room: AnyRoom, of: int | str, candidates: Candidates) -> AnyRoom:
        """The room with the gains of its candidates."""
        gains: list[Gain] = []
        untried: list[Change] = []
        for alternatives in self._changes(of, candidates):
            if sum(count.decisions for count in self._counts) >= MAX_DECISIONS:
                untried.append(alternatives[0])
            else:
                gains += self._best(alternatives, room, of)
        gains.sort(key=lambda gain: -gain.more)
        return replace(room, gains=tuple(gains), untried=tuple(untried))

    def _changes(self, of: int | str, candidates: Candidates) -> Iterator[Sequence[Change]]:
        """The changes; of several alternatives the first that helps counts. What is taken from members, each of them has."""
        pods = self._groups[of].pods[:1] if isinstance(of, int) else self._members[of]
        for resource in candidates.resources:
            amounts = reductions(resource, min(amount for pod in pods if (amount := pod.requests.get(resource, 0))))
            if amounts:
                yield tuple(LessOf(resource=resource, amount=amount, text=format_amount(resource, amount)) for amount in amounts)
        for rule in candidates.rules:
            yield (WithoutRule(rule=rule),)
        for model in candidates.models:
            yield (NodesLike(model=model),)

    def _best(self, alternatives: Sequence[Change], room: AnyRoom, of: int | str) -> list[Gain]:
        """The gain of the first alternative that helps, or of the last one; empty if none can be made."""
        found: list[Gain] = []
        for change in alternatives:
            gain = self._gain(change, room, of)
            found = found if gain is None else [gain]
            if gain is not None and gain.more > 0:
                break
        return found

    def _gain(self, change: Change, room: AnyRoom, of: int | str) -> Gain | None:
        """The gain of a change; None if it cannot be made."""
        chain, groups, members, nodes = self._chain, list(self._groups), dict(self._members), tuple(self._new)
        if isinstance(change, NodesLike):
            taken = {new.name for new in nodes}
            more = nodes_like(self._supposed.state.snapshot(), change.model, change.count, taken)
            nodes += more
            if isinstance(of, int):
                left = len(groups[of].pods) + self._limit - room.total
                alone = self._count(chain, members).fit_on(groups, more, left)
                if alone is not None:
                    return Gain(change=change, more=alone, at_least=alone == left)
        elif isinstance(change, WithoutRule):
            chain = without_rule(chain, change.rule)
        else:
            asked = groups[of].pods if isinstance(of, int) else members[of]
            made = [with_less(pod, change.resource, change.amount) if pod.requests.get(change.resource) else pod for pod in asked]
            smaller = tuple(pod for pod in made if pod is not None)
            if len(smaller) < len(made):
                return None
            if isinstance(of, int):
                groups[of] = WorkloadPods(name=groups[of].name, pods=smaller)
            else:
                members[of] = smaller
        total, at_least = self._total(chain, groups, members, of, nodes)
        return Gain(change=change, more=total - room.total, at_least=at_least)

    def _total(
        self, chain: Chain, groups: Sequence[WorkloadPods], members: Mapping[str, Sequence[PodView]], of: int | str, new: Sequence[NewNode]
    ) -> tuple[int, bool]:
        count = self._count(chain, members)
        return count.total(groups, of, new) if isinstance(of, int) else count.groups_like(groups, of, new)

    def _count(self, chain: Chain, members: Mapping[str, Sequence[PodView]]) -> Count:
        """A new count, whose decisions are part of the work."""
        made = Count(chain, self._supposed, self._limit, members=[pod for each in members.values() for pod in each])
        self._counts.append(made)
        return made
