"""The content of the live page, read from the running scheduler: nodes, summary, policies, recent decisions, pending pods, groups.

Pending pods are grouped by queue and by what is missing, with a few pods of each cause, since there may be many thousands of them. Groups
that wait have what they wait for, those that are placed have where they are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Generator, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import wharfinger
from wharfinger.daemon.node_colors import NodeColorings
from wharfinger.daemon.pages import Health
from wharfinger.errors import UnknownObject, WharfingerError
from wharfinger.framework.evaluation.diagnosis import reasons_of
from wharfinger.groups.results import GroupState, missing_members
from wharfinger.language.report import wording
from wharfinger.language.report.plain_values import plain
from wharfinger.scheduler.queued_pods import Place, QueuedGroup, QueuedPod
from wharfinger.simulate.dry_run import utilisation
from wharfinger.telemetry.recent_decisions import Reading
from wharfinger.web import decisions, policies
from wharfinger.web.ui.page_content import NodeMap, PodQuery, flags_of, plain_node, tiles_of

if TYPE_CHECKING:
    from wharfinger.daemon.compose import Daemon
    from wharfinger.framework.ports import Clock
    from wharfinger.groups.membership import GroupIndex
    from wharfinger.groups.terms import GroupTerms
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot
    from wharfinger.scheduler.scheduler import Scheduler
    from wharfinger.telemetry.policies import ReloadHistory
    from wharfinger.telemetry.recent_decisions import RecentDecisions, SchedulingHistory
    from wharfinger.web.policies import Policies

PODS_PER_STEP = 1500
"""Pods that are grouped in one step; other tasks run between two steps."""
MAX_CAUSES = 40
"""Causes of pending pods that are listed."""
MAX_PODS_OF_CAUSE = 12
"""Most pods of a cause that are listed."""
MAX_NAMESPACES_OF_CAUSE = 8
"""Namespaces of a cause that are listed, those with most pods first."""
MAX_NAMESPACES = 200
"""Most namespaces that are offered to choose from."""
DECISIONS = 50
SHOWN_OF_DECISION = ("at", "pod", "uid", "result", "node", "message", "attempts", "feasible", "nodes", "milliseconds")
"""The fields of a decision that the page shows in its list; they are sent again with each decision."""
GROUPS_PER_STEP = 500
"""Groups that are looked at in one step; other tasks run between two steps."""
MAX_GROUPS = 60
"""Groups that are listed, those that wait first."""
WAITS_FOR_TURN = "waits for its turn"
BEING_PLACED = "being placed"


class Cause(NamedTuple):
    """The common cause of pending pods. `missing` is the reason that rejected most nodes last time, or the gate; "" if not known."""

    profile: str
    queue: str
    missing: str


class _Pods:
    """The pods of a cause: how many there are in each namespace, and the first of them."""

    def __init__(self) -> None:
        self.first: list[QueuedPod] = []
        self.namespaces: Counter[str] = Counter()

    def add(self, queued: QueuedPod) -> None:
        if len(self.first) < MAX_PODS_OF_CAUSE:
            self.first.append(queued)
        self.namespaces[queued.pod.namespace] += 1

    @property
    def count(self) -> int:
        return self.namespaces.total()


Steps: TypeAlias = Generator[None, None, Mapping[str, Any]]

_QUEUES = {Place.ERROR_BACKOFF: "backoff", Place.IN_FLIGHT: "in flight"}


class LivePageContent:
    """The `PageContent` of the running process; nearly empty until there is a connection."""

    def __init__(  # noqa: PLR0913, PLR0917 — its collaborators and settings
        self,
        health: Health,
        shown_policies: Policies,
        recent: RecentDecisions,
        reloads: ReloadHistory,
        history: SchedulingHistory,
        clock: Clock,
    ) -> None:
        self._health = health
        self._shown_policies = shown_policies
        self._recent = recent
        self._reloads = reloads
        self._history = history
        self._clock = clock
        self._colorings: NodeColorings | None = None

    def node_map(self, coloring: str, known: int) -> NodeMap:
        """The nodes in a colouring."""
        snapshot = self._snapshot(self._daemon())
        layout = snapshot.layout_revision
        return NodeMap(
            layout=layout,
            tiles=None if layout == known else tiles_of(snapshot),
            flags=flags_of(snapshot),
            coloring=self._colours().coloring(coloring, snapshot),
        )

    def precompute(self, coloring: str) -> Iterator[None]:
        """The work of `node_map` in steps."""
        daemon = self._health.daemon
        return iter(()) if daemon is None else self._colours().precompute(coloring, daemon.scheduler.snapshot)

    def parts(self) -> Iterator[tuple[str, Any] | None]:
        """The parts that all pages share, made in steps."""
        yield "summary", self._summary()
        yield "policies", self._policies()
        yield "history", [point._asdict() for point in self._history.points]
        yield "reloads", plain(list(reversed(self._reloads.reloads)))

    def pods(self, query: PodQuery) -> Iterator[tuple[str, Any] | None]:
        """Decisions and pending pods, in steps."""
        chosen = self._recent.latest(namespace=query.namespace or None, result=query.result or None, policy=query.policy or None)
        latest = [_listed(decisions.plain(record)) for record in islice(chosen, DECISIONS)]
        yield "decisions", {"seen": self._recent.n_seen, "latest": latest}
        if self._health.daemon is not None:
            waiting = yield from pending(self._health.daemon.scheduler, query, self._clock)
            yield "pending", waiting
            together = yield from groups(self._health.daemon.scheduler, query, self._clock)
            yield "groups", together

    def find(self, text: str) -> Iterator[list[str]]:
        """The pods that have a text in their names, in any case, in steps."""
        wanted, known = text.lower(), [pod.key for pod in self._daemon().scheduler.known_pods]
        for start in range(0, len(known), PODS_PER_STEP):
            yield [key for key in known[start : start + PODS_PER_STEP] if wanted in key.lower()]

    def node(self, name: str) -> Mapping[str, Any]:
        """One node."""
        snapshot = self._snapshot(self._daemon())
        row = snapshot.row(name)
        if row is None:
            raise UnknownObject(f"there is no node {name}")
        return plain_node(snapshot, row)

    def _daemon(self) -> Daemon:
        if self._health.daemon is None:
            raise WharfingerError("the API server has not answered yet")
        return self._health.daemon

    def _snapshot(self, daemon: Daemon) -> Snapshot:
        return daemon.scheduler.snapshot()

    def _colours(self) -> NodeColorings:
        if self._colorings is None:
            self._colorings = NodeColorings(self._daemon().scheduler)
        return self._colorings

    def _summary(self) -> Mapping[str, Any]:
        daemon = self._health.daemon
        common = {"now": round(self._clock.now()), "version": wharfinger.__version__, "connected": daemon is not None}
        if daemon is None:
            return common
        scheduler, snapshot = daemon.scheduler, self._snapshot(daemon)
        used = utilisation(snapshot)
        return {
            **common,
            "identity": daemon.identity,
            "leads": daemon.leads,
            "leader": daemon.leader,
            "trouble": daemon.contact.unreachable_reason,
            "silence": round(daemon.contact.seconds_since_answer),
            "missing": sorted(scheduler.missing_kinds),
            "nodes": used.nodes,
            "pods": used.pods,
            "queues": dict(scheduler.queue.depths),
            "binding": scheduler.n_binding,
            "revision": snapshot.revision,
            "profiles": [profile.name for profile in scheduler.profiles],
            "resources": [{"name": use.resource, "requested": use.requested, "allocatable": use.allocatable} for use in used.resources],
            "colorings": [{"key": key, "title": title} for key, title in self._colours().choices(snapshot)],
        }

    def _policies(self) -> Mapping[str, Any]:
        return {
            "policies": policies.all_of(self._shown_policies),
            "sources": plain(list(self._shown_policies.sources())),
            "shadows": [
                {name: report[name] for name in ("policy", "agreed", "disagreed", "errors", "unseen")}
                for report in self._shown_policies.shadows().values()
            ],
        }


def _listed(decision: Mapping[str, Any]) -> dict[str, Any]:
    return {name: decision[name] for name in SHOWN_OF_DECISION}


def reading(scheduler: Scheduler) -> Reading:
    """The present load of a scheduler for its history: pending pods, and the used part of each requested resource."""
    used = utilisation(scheduler.state.snapshot())
    fractions = {use.resource: round(use.fraction, 4) for use in used.resources if use.requested}
    return Reading(pending=len(scheduler.queue), used=fractions)


def pending(scheduler: Scheduler, query: PodQuery, clock: Clock) -> Steps:
    """A generator of steps of a few milliseconds that returns the pending pods by cause as plain values, most pods first."""
    by_cause: defaultdict[Cause, _Pods] = defaultdict(_Pods)
    namespaces: set[str] = set()
    waiting = list(scheduler.queue)
    for start in range(0, len(waiting), PODS_PER_STEP):
        _sort_by_cause(waiting[start : start + PODS_PER_STEP], query, by_cause, namespaces)
        yield
    largest = sorted(by_cause.items(), key=lambda item: (-item[1].count, *map(wording.natural, item[0])))
    since = clock.now() - clock.monotonic()
    return {
        "total": sum(pods.count for pods in by_cause.values()),
        "groups": [_plain_cause(cause, pods, since) for cause, pods in largest[:MAX_CAUSES]],
        "omitted": max(0, len(by_cause) - MAX_CAUSES),
        "namespaces": sorted(namespaces)[:MAX_NAMESPACES],
    }


def _sort_by_cause(pods: list[QueuedPod], query: PodQuery, by_cause: defaultdict[Cause, _Pods], namespaces: set[str]) -> None:
    for queued in pods:
        if queued.place is Place.GONE:
            continue
        namespaces.add(queued.pod.namespace)
        if query.namespace not in {"", queued.pod.namespace} or (query.policy and query.policy not in queued.policies):
            continue
        gate = queued.gate if queued.place is Place.GATED else None
        missing = next(iter(reasons_of(queued.message)), "") if gate is None else gate.text
        cause = Cause(queued.profile.name, _QUEUES.get(queued.place, queued.place.value), missing)
        by_cause[cause].add(queued)


def _plain_cause(cause: Cause, pods: _Pods, since: float) -> dict[str, Any]:
    return {
        "profile": cause.profile,
        "queue": cause.queue,
        "missing": cause.missing,
        "rejectors": sorted(plugin.name for plugin in pods.first[0].rejectors),
        "message": pods.first[0].message,
        "count": pods.count,
        "namespaces": [{"namespace": namespace, "count": n} for namespace, n in pods.namespaces.most_common(MAX_NAMESPACES_OF_CAUSE)],
        "moreNamespaces": max(0, len(pods.namespaces) - MAX_NAMESPACES_OF_CAUSE),
        "pods": [
            {
                "pod": queued.pod.key,
                "attempts": queued.attempts,
                "priority": queued.pod.priority,
                "since": round(since + queued.first_seen),
            }
            for queued in pods.first
        ],
    }


def groups(scheduler: Scheduler, query: PodQuery, clock: Clock) -> Generator[None, None, Mapping[str, Any]]:
    """A generator of steps that returns the groups as plain values: those that wait, the longest first, then those that are placed."""
    index, waiting = scheduler.queue.groups.index, [entry for entry in scheduler.queue.groups if _chosen(entry, query)]
    waiting.sort(key=lambda entry: entry.first_seen)
    entries = {entry.key: entry for entry in waiting}
    placed: list[str] = []
    keys = list(index)
    for start in range(0, len(keys), GROUPS_PER_STEP):
        yield
        placed += [key for key in keys[start : start + GROUPS_PER_STEP] if key not in entries and _is_placed(scheduler, index, key, query)]
    since = clock.now() - clock.monotonic()
    listed = [*(_waiting(entry, index, since) for entry in waiting[:MAX_GROUPS])]
    snapshot = scheduler.state.snapshot()
    listed += [_placed(index, key, snapshot) for key in placed[: max(0, MAX_GROUPS - len(listed))]]
    total = len(waiting) + len(placed)
    return {"total": total, "waiting": len(waiting), "groups": listed, "omitted": total - len(listed)}


def _chosen(entry: QueuedGroup, query: PodQuery) -> bool:
    if query.namespace not in {"", entry.pod.namespace}:
        return False
    members = (*entry.members.values(), *entry.trying.values())
    return not query.policy or any(query.policy in member.policies for member in members)


def _is_placed(scheduler: Scheduler, index: GroupIndex, key: str, query: PodQuery) -> bool:
    """True if a group that does not wait is of the choice, and of this scheduler."""
    if query.policy or (query.namespace and not key.startswith(f"{query.namespace}/")) or not index.n_placed(key):
        return False
    members = index.members(key)
    return bool(members) and scheduler.profiles.of(members[0]) is not None


def _waiting(entry: QueuedGroup, index: GroupIndex, since: float) -> dict[str, Any]:
    members = index.members(entry.key)
    own = [*entry.members.values(), *entry.trying.values()]
    terms, placed = index.terms(entry.key), index.n_placed(entry.key)
    held = len(members) - placed - len(own)
    reason = next((member.message for member in own if member.message), "").removeprefix(f"group {entry.key}: ")
    if entry.place is Place.GATED:
        state, message = GroupState.AWAITING.value, missing_members(index, entry.key, max(0, held)) or str(entry.gate or "")
    elif entry.place in {Place.ACTIVE, Place.IN_FLIGHT}:
        state, message = (WAITS_FOR_TURN if entry.place is Place.ACTIVE else BEING_PLACED), reason
    else:
        enough = terms is not None and placed and placed >= terms.min_count
        state, message = (GroupState.IN_PART if enough else GroupState.NO_ROOM).value, reason
    return {**_common(entry.key, terms, len(members), placed), "state": state, "message": message, "since": round(since + entry.first_seen)}


def _placed(index: GroupIndex, key: str, snapshot: Snapshot) -> dict[str, Any]:
    members, terms = index.members(key), index.terms(key)
    placed = [pod for pod in members if pod.node_name]
    state = GroupState.PLACED if len(placed) == len(members) else GroupState.IN_PART
    return {
        **_common(key, terms, len(members), len(placed)),
        "state": state.value,
        "domains": [{"key": level, "value": value} for level, value in _domains(terms, placed, snapshot)],
        "nodes": len({pod.node_name for pod in placed}),
    }


def _common(key: str, terms: GroupTerms | None, members: int, placed: int) -> dict[str, Any]:
    return {
        "group": key,
        "source": "" if terms is None else terms.source,
        "minCount": 0 if terms is None else terms.min_count,
        "members": members,
        "placed": placed,
        "message": "",
        "domains": [],
        "nodes": 0,
        "since": None,
    }


def _domains(terms: GroupTerms | None, placed: list[PodView], snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """The domains of each level in which all placed members are."""
    rows = [row for pod in placed if (row := snapshot.row(pod.node_name)) is not None]
    for level in () if terms is None or not rows else terms.levels:
        codes = {int(code) for code in snapshot.label(level.key)[rows]}
        text = snapshot.strings.text(codes.pop()) if len(codes) == 1 else None
        if text is not None:
            yield level.key, text
