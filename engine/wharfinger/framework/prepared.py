"""A filter or score prepared for the pods of one template: the result of a plugin, with the methods that the framework calls.

A plugin gets an `Attempt` (a pod and the cluster). It returns a prepared rule, `Skip` if it does not apply, or `Rejected` if no node can
take the pod. The prepared rule owns everything it needs and answers for any set of rows of any later snapshot of that cluster. The rule is
stored and used for all pods of the template. After a change, the framework evaluates only the rows concerned again.

`rows` are `slice(None)` for all nodes, or an index array. The answer for a row must be the same either way.

The framework prepares a rule again if rows were added, moved or removed, or if the strings of the cluster got other codes
(`Snapshot.strings`). So a prepared rule may keep rows and codes. It also prepares a TIMED or GLOBAL rule again if `affected` returns
`OUTDATED`, which is the default.

A filter evaluates many nodes at once, so its answer is one small integer per node: 0 lets the pod through, and each set bit is one reason.
The texts of reasons exist once per pod, not once per node; a diagnosis counts bits and builds no strings for nodes.

A score's points are 0..100. Kubernetes normalises in integer arithmetic as in Go (division truncates toward zero), because a total that
is off by one picks another node.

`Changes` say which rows changed, and the functions after it combine sets of rows. An `ObjectRevision` shows if objects changed that are
neither nodes nor pods.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from wharfinger.model.columns.arrays import distinct

if TYPE_CHECKING:
    from wharfinger.framework.eviction import Supposition
    from wharfinger.model import objects
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot

T = TypeVar("T")

Rows: TypeAlias = slice | NDArray[np.intp]
"""Rows of the columns: `slice(None)` for all nodes, or an index array `(n_rows,) intp`."""
NO_ROWS: NDArray[np.intp] = np.empty(0, np.intp)
NO_ROWS.setflags(write=False)
ALL = slice(None)

Mask: TypeAlias = NDArray[np.bool_]
Bits: TypeAlias = NDArray[np.unsignedinteger[Any]]

MAX_REASONS = 64
MAX_NODE_SCORE = 100


class Reason(Struct, frozen=True):
    """The reason why a node is rejected, in Kubernetes' words.

    `resolvable`: removing pods from the node could change the answer (Kubernetes' `Unschedulable`); otherwise preemption does not help
    there (`UnschedulableAndUnresolvable`).
    """

    text: str
    resolvable: bool = True

    def __str__(self) -> str:
        return self.text


def resolvable(reasons: Iterable[Reason]) -> bool:
    """True if removing pods could help against all of these reasons."""
    return all(reason.resolvable for reason in reasons)


class Shared:
    """Objects that the extension points of a plugin, or the rules of a policy, share for one pod template."""

    __slots__ = ("_made",)

    def __init__(self) -> None:
        self._made: dict[Hashable, object] = {}

    def once(self, owner: Hashable, make: Callable[[], T]) -> T:
        """The object of an owner, usually the plugin itself; `make` is called at its first use."""
        found = self._made.get(owner)
        if found is None:
            found = self._made[owner] = make()
        return cast("T", found)

    def take_over(self, owner: Hashable, former: Shared) -> None:
        """Continue with the object of an owner in another `Shared`, if it has one."""
        found = former.made_for(owner)
        if found is not None:
            self._made[owner] = found

    def made_for(self, owner: Hashable) -> object | None:
        """The object of an owner; None if none has been made."""
        return self._made.get(owner)

    def made(self, owner: type[T]) -> T | None:
        """The object of an owner that is its class; None if none has been made."""
        found: object = self._made.get(cast("Hashable", owner))
        return cast("T | None", found)


class Attempt(Struct, frozen=True):
    """An attempt to schedule a pod: the pod, the cluster, and the values that the extension points share for the pod's template."""

    pod: PodView
    snapshot: Snapshot
    shared: Shared


class Outdated(Enum):
    """Answer of `affected`: the prepared rule cannot follow the change, so it must be prepared again."""

    OUTDATED = "outdated"


OUTDATED = Outdated.OUTDATED
Affected = Rows | Outdated | None
"""Answer of `affected`: the rows that may differ, None for no rows, or `OUTDATED`."""


class Skip(Struct, frozen=True):
    """Answer of a plugin: it does not apply to the pod.

    A TIMED or GLOBAL plugin is called again after each change, unless `is_valid` is given and true for the changed cluster.
    """

    is_valid: Callable[[Snapshot], bool] | None = None

    def affected(self, snapshot: Snapshot, *_: object) -> Affected:
        """`OUTDATED`, or None if the answer is still valid."""
        return None if self.is_valid is not None and self.is_valid(snapshot) else OUTDATED


SKIP = Skip()
SKIP_ALWAYS = Skip(lambda _: True)
"""The plugin does not apply to the pods of this template, after any change of the cluster."""


class Rejected(Struct, frozen=True):
    """Answer of a filter plugin: no node can take the pod, for these reasons. An unresolvable reason ends the cycle at once."""

    reasons: tuple[Reason, ...]

    @property
    def resolvable(self) -> bool:
        """True if removing pods could help."""
        return resolvable(self.reasons)

    def affected(self, *_: object) -> Affected:
        """`OUTDATED`: any change may end the rejection."""
        return OUTDATED


class ClaimAllocation(Struct, frozen=True, kw_only=True):
    """An allocation for a claim of a pod on its node, neither counted nor written yet.

    A claim for extended resources is not written yet either, and `request_mappings` go to the status of the pod.
    """

    claim: objects.ResourceClaim
    allocation: objects.Allocation
    request_mappings: tuple[objects.ContainerExtendedResourceRequest, ...] = ()


class PreparedFilter(ABC):
    """A filter for the pods of one template.

    Bit i of a verdict is `reasons[i]`; 0 accepts the node. `nodes` are the names of the nodes to consider, None for all; names that do not
    exist are allowed. `domains` are the topology keys that alone decide a row's verdict, as in `PreparedScore`. All stay the same as long
    as the rule is prepared.
    """

    reasons: tuple[Reason, ...]
    nodes: frozenset[str] | None = None
    domains: tuple[str, ...] | None = None

    @abstractmethod
    def bits(self, snapshot: Snapshot, rows: Rows) -> Bits | Mask:
        """The verdicts for `rows`, `(n_rows,)`, unsigned integers (or bool if there is one reason), in the order of `rows`."""

    def bits_at(self, snapshot: Snapshot, row: int) -> int:
        """The verdict for one row: a faster path for the most frequent change, one pod placed on one node.

        Override it only if plain Python is faster than arrays of one element.
        """
        return int(self.bits(snapshot, np.array([row], np.intp)).item())

    def affected(self, snapshot: Snapshot, changes: Changes) -> Affected:  # noqa: ARG002 — the extension point
        """The rows whose verdict may differ after the changes that led to this snapshot; called for TIMED and GLOBAL filters only.

        GLOBAL filters are called after every change, TIMED ones when time has passed or samples have arrived. A filter that returns the
        rows that a change concerns avoids a full evaluation.
        """
        return OUTDATED

    def is_local(self, snapshot: Snapshot) -> bool:  # noqa: ARG002 — the extension point
        """True if a pod of this template, when it is placed, changes the verdict of its own node alone; called for GLOBAL filters only.

        Equal pods are then counted without a decision about each of them.
        """
        return False

    def room(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.int64] | None:  # noqa: ARG002 — the extension point
        """The number of pods of this template that each of these feasible rows takes by this filter, `(n_rows,)`; None if it is not known.

        Only for a filter whose verdict about a node no pod of this template on another node changes. If all filters know the number, equal
        pods are counted without being placed.
        """
        return None

    def supposing(self, supposed: Supposition) -> tuple[Reason, ...] | None:  # noqa: ARG002 — the extension point
        """The reasons against one node with supposed pods on it; empty if it could take the pod; None if the verdict of `bits` holds.

        The default is for filters that do not depend on pods: preemption assumes that their verdict stays the same whatever pods leave, so
        that no pod is evicted without use.
        """
        return None


class AllocatingFilter(PreparedFilter):
    """A built-in filter that reports the allocations of the claims of the pod on a node.

    It may fail: a bit of `fault_bits` is an error and no rejection.

    The cycle ends with an error if no earlier filter rejects the node.
    """

    fault_bits: int

    @abstractmethod
    def fault_at(self, attempt: Attempt, row: int) -> str:
        """The text of the error at a row whose verdict has a bit of `fault_bits`."""

    @abstractmethod
    def allocations(self, attempt: Attempt, row: int) -> tuple[ClaimAllocation, ...]:
        """The allocations for claims of the pod on the node of a feasible row."""


class PreparedScore(ABC):
    """A score for the pods of one template.

    `domains` are the topology keys that alone decide a row's raw score, sorted; None if it depends on anything else of the row. Rows in the
    same domains (or in none) of all these keys must have the same raw score: one of them is scored. Only GLOBAL rules have domains.
    """

    domains: tuple[str, ...] | None = None

    @abstractmethod
    def raw(self, snapshot: Snapshot, rows: Rows) -> NDArray[Any]:
        """Raw scores `(n_rows,)` int64 or float64, finite. Without a `normalization` of the plugin they are points: int64 in 0..100.

        Rows may include nodes that are not feasible. Their results are not used, but must be finite.
        """

    def raw_at(self, snapshot: Snapshot, row: int) -> float:
        """The raw score of one row, as `bits_at` is the verdict of one row. An int if `raw` returns int64."""
        found: float = self.raw(snapshot, np.array([row], np.intp)).item()
        return found

    def affected(self, snapshot: Snapshot, changes: Changes, feasible: Mask, flipped: NDArray[np.intp]) -> Affected:  # noqa: ARG002 — the extension point
        """The rows whose raw score may differ after the changes, as `PreparedFilter.affected`.

        `feasible` `(n_nodes,) bool` are the feasible nodes now; `flipped` are the rows that became feasible or infeasible by the changes.
        """
        return OUTDATED


class DefaultNormalize(Struct, frozen=True):
    """`DefaultNormalizeScore` (pkg/scheduler/framework/plugins/helper/normalize_score.go, 1.36): the highest raw score becomes 100.

    With `reverse` the lowest is best: 100 minus that. Raw scores are not negative.
    """

    reverse: bool = False
    least: float = -math.inf

    def points(self, scores: NDArray[Any], low: float, high: float) -> NDArray[np.int64]:  # noqa: ARG002 — `low` is part of the contract
        """The points `(n_rows,) int64`; where the highest raw score is 0, all 100 (reverse) or unchanged."""
        top = int(high)
        if top == 0:
            return np.full(len(scores), MAX_NODE_SCORE, np.int64) if self.reverse else scores.astype(np.int64)
        scaled = scores.astype(np.int64) * MAX_NODE_SCORE // top
        return MAX_NODE_SCORE - scaled if self.reverse else scaled


class Changes(Struct, frozen=True):
    """The rows that changed after the last update of a kept result. Rows have not been added, moved or removed.

    `node_rows` are the rows whose node object changed; `rows` are these and the rows whose pods changed. Both are `(n,) intp`, ascending.
    `row` is the changed row if the pods of one row changed and no node object did, as after each placement; otherwise it is -1. Shorter
    code paths exist for that one row.
    """

    node_rows: NDArray[np.intp]
    rows: NDArray[np.intp]
    row: int

    def only(self, rows: Rows) -> bool:
        """True if exactly one row changed (see `row`) and `rows` contains no other row."""
        if self.row < 0 or isinstance(rows, slice):
            return False
        return not len(rows) or (len(rows) == 1 and rows.item() == self.row)


def changes(node_rows: NDArray[np.intp], usage_rows: NDArray[np.intp]) -> Changes:
    """The changes, given the rows whose node object changed and the rows whose pods changed."""
    if len(node_rows):
        return Changes(node_rows, union(node_rows, usage_rows), -1)
    return Changes(node_rows, usage_rows, usage_rows.item() if len(usage_rows) == 1 else -1)


def union(left: NDArray[np.intp], right: NDArray[np.intp]) -> NDArray[np.intp]:
    """The rows in either, ascending; cheap where one is empty or has one row, or both are the same."""
    if right is left or not len(right):
        return left
    if len(left) <= 1:
        return right if not len(left) else _with(right, left)
    return _with(left, right) if len(right) == 1 else distinct(np.concatenate((left, right)))


def _with(rows: NDArray[np.intp], other: NDArray[np.intp]) -> NDArray[np.intp]:
    """Add one row to sorted rows. After a placement, these are the thousands of rows of a full domain and the row of the pod."""
    row = other.item()
    at = int(rows.searchsorted(row))
    if at < len(rows) and rows.item(at) == row:
        return rows
    return np.concatenate((rows[:at], other, rows[at:]))


def union_of(rows: Sequence[NDArray[np.intp]], n_nodes: int) -> Rows | None:
    """The rows of all lists, ascending and each once; None without lists, `ALL` if they hold more than `n_nodes / 2` rows."""
    if not rows:
        return None
    if sum(map(len, rows)) > n_nodes // 2:
        return ALL
    return rows[0] if len(rows) == 1 else distinct(np.concatenate(rows))


class ObjectRevision:
    """The revision of the objects of some kinds in a snapshot, such as Services or claims; neither nodes nor pods."""

    __slots__ = ("_kinds", "_revision", "_seen")

    def __init__(self, snapshot: Snapshot, *kinds: type[objects.AnyObject]) -> None:
        self._kinds = kinds
        self._seen = snapshot.objects.revision
        self._revision = snapshot.objects.revision_of(*kinds)

    def unchanged(self, snapshot: Snapshot) -> bool:
        """True if no object of these kinds has changed up to a later snapshot."""
        store = snapshot.objects
        if store.revision != self._seen:
            if store.revision_of(*self._kinds) != self._revision:
                return False
            self._seen = store.revision
        return True
