"""The lines of a decision log: one JSON object each, with its kind in `t`; and how entries become lines.

    log         the first line of each file: version, program, which run of the process, number of the file, decisions before it
    node, put   an object that was added or changed; `pod`: as the API server sent it, with its node where its object has none yet
    node gone, pod gone, drop, metric gone
    assume, forget, nominate, denominate       what the scheduler decided, and took back
    leaves, stays                              a pod that the scheduler evicts, and one that it does not evict any more
    take devices, give back devices            an allocation in flight: the claim with it; `assumed` where it is written now
    metric      all samples of a metric: node → [value, time]
    group size  how many members of a group are known, placed or not
    state       the end of a checkpoint, with the revision of the state
    policy      a policy by revision: its texts, and values of its params; written before it is first needed in a file
    chain       the policies and settings of a profile, from now on
    decision    the question and the answer
    search      a search for a group: its terms, its members (those that wait are written before, as `member`), and the time; for a place,
                or with `others` for the pods that must leave
    whole       a group of which preemption takes all pods at once, as `others` of the next searches mean it
    found       the answer of the search that was written last
    group       what came of an attempt to place a group; its members are assumed by lines of their own

A pod that was written in the same file already, in the very same state, is named by its uid alone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from wharfinger.compiler.program import CompiledPolicy
from wharfinger.framework.arguments import differing
from wharfinger.framework.chain import Chain
from wharfinger.framework.registry import default_registry
from wharfinger.groups.preempting import priority_of
from wharfinger.groups.terms import Group, GroupTerms
from wharfinger.model import objects
from wharfinger.model.columns.metric_table import Samples
from wharfinger.model.devices.allocated import with_allocation
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.copies import Checkpoint

VERSION = 1
MADE_BY = "wharfinger"
HEAD = b'{"t":"log"'
"""The beginning of every file."""


class LoggedQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a decision: the profile, the time and the revision of the state."""

    profile: str
    now: float
    revision: int


class LoggedAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a decision, as far as a replay compares it; `victims` by uid, `totals` of the chosen node by tier.

    `devices` are `driver/pool/device` in the order of claims and requests; None in the logs of programs that did not write them. With
    `while_changing`, the nomination was searched for while the cluster changed.
    """

    node: str | None
    feasible: int
    n_nodes: int
    ties: int
    message: str
    nominated: str | None
    victims: tuple[str, ...]
    totals: tuple[float, ...]
    devices: tuple[str, ...] | None = None
    while_changing: bool = False


class LoggedSearch(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a search for a group: the uids of `waiting` members, and `placed` members with their nodes.

    `others` are the keys of the groups that leave as a whole, in a search for the pods that must leave; None in one for a place.
    """

    profile: str
    now: float
    revision: int
    terms: GroupTerms
    waiting: tuple[str, ...]
    placed: dict[str, str]
    others: tuple[str, ...] | None = None


class LoggedDisruptedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group that leaves as a whole: its priority, and the uids of its placed members."""

    priority: int
    placed: tuple[str, ...]


class LoggedFound(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer of a search for a group: `placed` (node by uid; `left` have none), `freed`, `impossible` or `not found`.

    `freed`: placed once the `victims` (uids) have left, of which `violations` break a budget.
    """

    result: str
    nodes: dict[str, str] = {}
    domains: dict[str, str] = {}
    left: tuple[str, ...] = ()
    message: str = ""
    victims: tuple[str, ...] = ()
    violations: int = 0


class LoggedAttempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An attempt to place a group: its terms and result, the nodes of placed members by uid, and the uids of the other members."""

    source: str
    min_count: int
    result: str
    message: str = ""
    nodes: dict[str, str] = {}
    domains: dict[str, str] = {}
    left: tuple[str, ...] = ()


class ChainSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a chain, in addition to its policies, as in `framework.chain_settings.ChainConfig`."""

    weights: dict[str, int]
    arguments: dict[str, dict[str, Any]]
    disabled: tuple[str, ...]


class Line(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Any line; which fields it has depends on `t`."""

    t: str
    version: int = 0
    made_by: str = ""
    run: str = ""
    file: int = 0
    decisions: int = 0
    lost: bool = False
    kind: str = ""
    key: str = ""
    name: str = ""
    uid: str = ""
    node: str = ""
    assumed: bool = False
    revision: int = 0
    size: int = 0
    object: msgspec.Raw = msgspec.Raw()
    samples: dict[str, tuple[float, float]] = {}
    policy: str = ""
    texts: dict[str, str] = {}
    source: str = ""
    params: dict[str, Any] = {}
    namespace: str | None = None
    allowed: str = ""
    servers: tuple[str, ...] = ()
    profile: str = ""
    chain: str = ""
    policies: tuple[str, ...] = ()
    settings: ChainSettings | None = None
    question: LoggedQuestion | None = None
    answer: LoggedAnswer | None = None
    attempt: LoggedAttempt | None = None
    search: LoggedSearch | None = None
    whole: LoggedDisruptedGroup | None = None
    found: LoggedFound | None = None


ENCODE = msgspec.json.Encoder().encode
DECODE = msgspec.json.Decoder(Line).decode


MAX_KNOWN = 20_000
"""Pods whose last written state is remembered: by far more than are decided about at a time."""


class Encoding:
    """Makes the lines of one file."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, objects.Pod] = OrderedDict()
        self._policies: set[str] = set()
        self._whole: Mapping[str, LoggedDisruptedGroup] = {}
        self._of: Mapping[str, Callable[..., Iterator[Line]]] = {
            "node": lambda node: _object("node", node),
            "node gone": lambda name: iter([Line(t="node gone", name=name)]),
            "pod": self._pod,
            "pod gone": lambda uid: iter([Line(t="pod gone", uid=uid)]),
            "assume": lambda pod, node: iter([self._about("assume", pod, node=node)]),
            "forget": lambda uid: iter([Line(t="forget", uid=uid)]),
            "nominate": lambda pod, node: iter([self._about("nominate", pod, node=node)]),
            "denominate": lambda uid: iter([Line(t="denominate", uid=uid)]),
            "leaves": lambda uid: iter([Line(t="leaves", uid=uid)]),
            "stays": lambda uid: iter([Line(t="stays", uid=uid)]),
            "put": lambda obj: _object("put", obj),
            "drop": lambda kind, key: iter([Line(t="drop", kind=kind, key=key)]),
            "take devices": lambda claim, allocation: _object("take devices", with_allocation(claim, allocation)),
            "give back devices": _released_devices,
            "metric": _metric,
            "metric gone": lambda name: iter([Line(t="metric gone", name=name)]),
            "group size": lambda key, size: iter([Line(t="group size", key=key, size=size)]),
            "chain": self._chain,
            "decision": self._decision,
            "search": self._search,
            "found": lambda key, found: iter([Line(t="found", key=key, found=found)]),
            "group": lambda profile, key, attempt: iter([Line(t="group", profile=profile, key=key, attempt=attempt)]),
            "checkpoint": self._checkpoint,
        }

    def lines(self, entry: tuple[Any, ...]) -> Iterator[bytes]:
        """The lines of an entry."""
        name, *parts = entry
        return (ENCODE(line) for line in self._of[name](*parts))

    def _pod(self, pod: PodView) -> Iterator[Line]:
        yield self._about("pod", pod, node="" if pod.node_name == pod.object.spec.node_name else pod.node_name)

    def _about(self, name: str, pod: PodView, **more: Any) -> Line:
        """A line about a pod, with its object unless this file has it already."""
        known = self._known
        if known.get(pod.uid) is pod.object:
            known.move_to_end(pod.uid)
            return Line(t=name, uid=pod.uid, **more)
        known[pod.uid] = pod.object
        known.move_to_end(pod.uid)
        if len(known) > MAX_KNOWN:
            known.popitem(last=False)
        return Line(t=name, uid=pod.uid, object=msgspec.Raw(ENCODE(pod.object)), **more)

    def _decision(self, pod: PodView, question: LoggedQuestion, answer: LoggedAnswer) -> Iterator[Line]:
        yield self._about("decision", pod, question=question, answer=answer)

    def _search(self, group: Group, profile: str, now: float, revision: int, others: Sequence[Group] | None) -> Iterator[Line]:
        for pod in group.waiting:
            if self._known.get(pod.uid) is not pod.object:
                yield self._about("member", pod)
        waiting, placed = tuple(pod.uid for pod in group.waiting), {pod.uid: pod.node_name for pod in group.placed}
        keys = None if others is None else tuple(other.key for other in others)
        search = LoggedSearch(profile=profile, now=now, revision=revision, terms=group.terms, waiting=waiting, placed=placed, others=keys)
        yield from () if others is None else self._leaving_whole(others)
        yield Line(t="search", key=group.key, search=search)

    def _leaving_whole(self, others: Sequence[Group]) -> Iterator[Line]:
        """Lines about groups that leave as a whole, unless the last search in this file was about the same."""
        before = self._whole
        self._whole = {
            other.key: LoggedDisruptedGroup(priority=priority_of(other), placed=tuple(pod.uid for pod in other.placed)) for other in others
        }
        for key, whole in self._whole.items():
            if before.get(key) != whole:
                yield Line(t="whole", key=key, whole=whole)

    def _checkpoint(self, found: Checkpoint) -> Iterator[Line]:
        for obj in found.nodes:
            yield from _object("node", obj)
        for other in found.others:
            yield from _object("put", other)
        for flight in found.in_flight:
            for _ in range(flight.sharers):
                yield from _object("take devices", with_allocation(flight.claim, flight.allocation))
        for pod, node, assumed in zip(found.pods, found.names, found.assumed, strict=True):
            yield self._about("pod", pod, node=node, assumed=assumed)
        for pod, node in found.nominations:
            yield self._about("nominate", pod, node=node)
        for uid in found.leaving:
            yield Line(t="leaves", uid=uid)
        for name, samples in found.metrics.items():
            yield from _metric(name, samples)
        for key, size in found.group_sizes.items():
            yield Line(t="group size", key=key, size=size)
        yield Line(t="state", revision=found.revision)

    def _chain(self, profile: str, chain: Chain) -> Iterator[Line]:
        for policy in chain.policies:
            if policy.revision not in self._policies:
                self._policies.add(policy.revision)
                yield _policy(policy)
        revisions = tuple(policy.revision for policy in chain.policies)
        yield Line(t="chain", profile=profile, chain=chain.revision, policies=revisions, settings=settings_of(chain))


def settings_of(chain: Chain) -> ChainSettings:
    """The settings that the built-in part of a chain is assembled from."""
    present = {entry.name for entry in chain.entries}
    return ChainSettings(
        weights={entry.name: entry.weight for entry in chain.entries if entry.weight is not None},
        arguments={entry.name: found for entry in chain.entries if (found := differing(entry.plugin.arguments))},
        disabled=tuple(sorted(set(default_registry()) - present)),
    )


def _policy(policy: CompiledPolicy) -> Line:
    found = policy.policy
    texts = {source.name: source.text for source in (found.source, *found.imports)}
    params = {name: sorted(value) if isinstance(value, frozenset) else value for name, value in policy.params.items()}
    line = Line(t="policy", policy=policy.revision, name=policy.name, source=found.source.name, texts=texts, params=params)
    whose = policy.authority
    if whose.namespace is not None:
        line.namespace, line.allowed, line.servers = whose.namespace, whose.allowed.value, tuple(sorted(whose.servers))
    return line


def _object(name: str, obj: objects.AnyObject) -> Iterator[Line]:
    kind = "" if name == "node" else objects.kind_of(obj)
    yield Line(t=name, kind=kind, object=msgspec.Raw(ENCODE(obj)))


def _released_devices(claim: objects.ResourceClaim, written: bool) -> Iterator[Line]:
    yield Line(t="give back devices", object=msgspec.Raw(ENCODE(claim)), assumed=written)


def _metric(name: str, samples: Samples) -> Iterator[Line]:
    yield Line(t="metric", name=name, samples={node: (value, time) for node, (value, time) in samples.items()})
