"""The groups on the live page: those that wait with what they wait for, those that are placed with where they are."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from wharfinger.groups.results import GroupState, missing_members
from wharfinger.scheduler.queued_pods import Place, QueuedGroup

if TYPE_CHECKING:
    from wharfinger.framework.ports import Clock
    from wharfinger.groups.membership import GroupIndex
    from wharfinger.groups.terms import GroupTerms
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot
    from wharfinger.scheduler.scheduler import Scheduler
    from wharfinger.web.ui.board import PodQuery

GROUPS_PER_STEP = 500
"""Groups that are looked at in one step; other tasks run between two steps."""
MAX_GROUPS = 60
"""Groups that are listed, those that wait first."""
WAITS_FOR_TURN = "waits for its turn"
BEING_PLACED = "being placed"


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
    said = next((member.message for member in own if member.message), "").removeprefix(f"group {entry.key}: ")
    if entry.place is Place.GATED:
        state, message = GroupState.AWAITING.value, missing_members(index, entry.key, max(0, held)) or str(entry.gate or "")
    elif entry.place in {Place.ACTIVE, Place.IN_FLIGHT}:
        state, message = (WAITS_FOR_TURN if entry.place is Place.ACTIVE else BEING_PLACED), said
    else:
        enough = terms is not None and placed and placed >= terms.min_count
        state, message = (GroupState.IN_PART if enough else GroupState.NO_ROOM).value, said
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
