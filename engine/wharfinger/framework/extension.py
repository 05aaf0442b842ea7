"""Extension points: the base classes of plugins.

They are Kubernetes' own extension points (`k8s.io/kube-scheduler/framework`, 1.36), in this order:

    PreEnqueue → QueueSort → PreFilter → Filter → (PostFilter when nothing is left) → PreScore → Score → Normalize
               → Reserve → Permit → PreBind → Bind → PostBind

with one main difference: Filter and Score evaluate many nodes in one call and return an array. `rows` are the nodes to evaluate: all of
them (`slice(None)`) or an index array. The answer for a row must be the same either way, so that the cycle can keep a template's result
and evaluate only the nodes that changed.

`filter_volatility` and `score_volatility` declare what the answer for a row depends on. STATIC: the row's node object only. ROW: also the
pods on that row. TIMED: also the time and metric samples. GLOBAL: any row, other object or metric; such a plugin is called again for all
rows after every change, unless its `…_changes` returns fewer rows or None.

A plugin is a class with a `name`, built once per set of arguments; one plugin may implement several points. It must be pure: its answer
depends on the pod, the snapshot, its arguments and its own `CycleState`. Of the pod it may use only what its template covers, and the value
that `identity` returns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from wharfinger.framework.cluster_event import ANY, Change, ClusterEvent
from wharfinger.framework.evaluation.question import CycleState
from wharfinger.framework.eviction import ANYONE, Evictable
from wharfinger.framework.verdict import Mask, PreFilterAnswer, PreScoreAnswer, Reason, Rows, Verdicts
from wharfinger.language.semantics.catalogue import Volatility

if TYPE_CHECKING:
    from wharfinger.framework.evaluation.supposition import Supposition, Trial
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot


class Arguments(BaseModel):
    """Arguments of a plugin that takes none; a plugin with arguments declares a subclass as its `Arguments`."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, defer_build=True)


class Plugin:
    """Base of every plugin: the name it is configured by, and its arguments.

    `wakes_on` are the events that may help a pod which the plugin has rejected; by default all but TIME.
    """

    name: str
    arguments_model: ClassVar[type[Arguments]] = Arguments
    wakes_on: ClusterEvent = ANY

    def __init__(self, arguments: Arguments | None = None) -> None:
        self.arguments: Any = self.arguments_model() if arguments is None else arguments

    def identity(self, pod: PodView) -> Hashable:
        """A value for everything that answers depend on and `pod.template` does not cover; None for nothing.

        Override it only if needed: pods with different values do not share results.
        """
        return None

    def may_help(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:
        """True if a change of the kinds in `wakes_on` may help a pod that the plugin has rejected; `snapshot` is taken after the change.

        Return True if it is not known: a needless wake-up costs one attempt, a missing one makes the pod wait for minutes.
        """
        return True


class GroupedHints(Plugin):
    """A plugin whose hints depend on a small part of a waiting pod, so that a change is checked once for many templates."""

    def hint_group(self, pod: PodView) -> Hashable:
        """The group of a pod: a value for everything of the pod that `may_help_group` depends on."""
        return pod.template

    def may_help_group(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:
        """True if a change may help some pod of this pod's group. Must be true if `may_help` is true for one of them."""
        return self.may_help(pod, change, snapshot)


class FilterPlugin(Plugin, ABC):
    """A hard constraint: the nodes that can take the pod."""

    filter_volatility: Volatility = Volatility.GLOBAL

    def pre_filter(self, cycle: CycleState, pod: PodView, snapshot: Snapshot) -> PreFilterAnswer:
        """The answer of PreFilter: `Skip`, `Rejected` for every node, the `NodeSet` of nodes to consider, or None to continue with Filter.

        Called when a template is first seen and when rows were added, moved or removed; for TIMED plugins also when time has passed or
        metric samples have arrived, for GLOBAL plugins whenever `filter_changes` returns rows.
        """
        return None

    @abstractmethod
    def filter(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, rows: Rows) -> Verdicts:
        """The verdicts for `rows`, in their order."""

    def filter_one(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, row: int) -> int:
        """The verdict bits of one row, for the reasons that `filter` returned for this template.

        A faster path for the most frequent change, one pod placed on one node. Override it if plain Python is faster than arrays of one
        element.
        """
        return int(self.filter(cycle, pod, snapshot, np.array([row], np.intp)).bits.item())

    def filter_changes(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, since: int) -> Rows | None:
        """For GLOBAL plugins: the rows whose verdict may differ from the one at revision `since`; None if there are none.

        The state has changed in some way since then. The default is all rows. A plugin that can tell that a change does not concern the pod
        saves a full evaluation.
        """
        return slice(None)

    def filter_if(self, cycle: CycleState, pod: PodView, supposed: Supposition) -> tuple[Reason, ...] | None:
        """The reasons against one node with supposed pods on it; empty if it could take the pod; None if the verdict of `filter` holds.

        The default is for filters that do not depend on pods: preemption assumes that their verdict stays the same whatever pods leave, so
        that no pod is evicted without use. Not called if PreFilter returned `Skip`.
        """
        return None


class Normalization(Protocol):
    """The conversion of raw scores to points of 0..100, given the extremes over the feasible nodes; must work on any subset of nodes."""

    @property
    def least(self) -> float:
        """Raw scores below this value are left out of `low` and `high` (a plugin's mark for nodes it ignores); −inf for none."""

    def points(self, scores: NDArray[Any], low: float, high: float) -> NDArray[np.int64]:
        """The points `(n_rows,) int64` for raw `scores`; `low`, `high`: the extremes over all feasible nodes (0, 0 if none counts)."""


class ScorePlugin(Plugin, ABC):
    """A preference: the score of each feasible node."""

    score_volatility: Volatility = Volatility.GLOBAL
    default_weight: ClassVar[int] = 1
    normalization: Normalization | None = None

    def pre_score(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, feasible: Mask) -> PreScoreAnswer:
        """The answer of PreScore: `Skip` to contribute no points, or None to continue with Score.

        Called in the same cases as `pre_filter`; for GLOBAL plugins whenever `score_changes` returns rows. Only a GLOBAL plugin may depend
        on `feasible` `(n_nodes,) bool`.
        """
        return None

    @abstractmethod
    def score(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, rows: Rows) -> NDArray[Any]:
        """Raw scores `(n_rows,)` int64 or float64, finite. Without a `normalization` they are the points: int64 in 0..100.

        Rows may include nodes that are not feasible; whatever is returned there is not used (it must still be finite).
        """

    def score_one(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, row: int) -> float:
        """The raw score of one row, as `filter_one` is the verdict of one row. An int if `score` returns int64."""
        raw: float = self.score(cycle, pod, snapshot, np.array([row], np.intp)).item()
        return raw

    def score_changes(
        self,
        cycle: CycleState,
        pod: PodView,
        snapshot: Snapshot,
        since: int,
        flipped: NDArray[np.intp],
    ) -> Rows | None:
        """For GLOBAL plugins: the rows whose raw score may differ from the one at revision `since`, as in `filter_changes`.

        `flipped` are the rows that became feasible or infeasible since then.
        """
        return slice(None)

    def score_domains(self, cycle: CycleState, pod: PodView, snapshot: Snapshot) -> Sequence[str] | None:
        """For GLOBAL plugins: the topology keys that alone decide a row's raw score; None if it depends on anything else of the row.

        Called after `pre_score`. Rows in the same domains (or in none) of all these keys must have the same raw score: `score` is called
        for one of them only.
        """
        return None


class QueueSortPlugin(Plugin, ABC):
    """The order in which pending pods are tried; exactly one per chain."""

    @abstractmethod
    def sort_key(self, pod: PodView) -> Any:
        """A key that compares smaller for the pod to be tried first; pods with equal keys keep the order in which they were queued."""


class PreEnqueuePlugin(Plugin, ABC):
    """Decides if a pod may enter the queue."""

    @abstractmethod
    def pre_enqueue(self, pod: PodView) -> Reason | None:
        """The reason why the pod must wait outside the queue, or None to let it in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """The rejected nodes of a failed cycle, for PostFilter. Arrays are `(n_nodes,) bool` in row order.

    `unresolvable`: nodes where no removal of pods would help. `trial` runs the filters on one node with supposed pods. `evictable` are the
    pods that policies allow to evict; a plugin that evicts pods must not evict others.
    """

    rejected: Mask
    unresolvable: Mask
    trial: Trial
    evictable: Evictable = ANYONE


@dataclass(frozen=True, slots=True, kw_only=True)
class PostFilterOutcome:
    """The answer of PostFilter: the node to be freed and the pods that must leave it, or a message why it cannot help."""

    message: str = ""
    nominated: str | None = None
    victims: tuple[PodView, ...] = ()


class PostFilterPlugin(Plugin, ABC):
    """Runs if no node is feasible; preemption is one. Plugins run in chain order until one nominates a node."""

    @abstractmethod
    def post_filter(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, rejection: Rejection) -> PostFilterOutcome:
        """The outcome; the messages of all plugins that ran are joined with ", "."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A pod and the node chosen for it, for the extension points after the decision."""

    pod: PodView
    node: str
    cycle: CycleState = field(default_factory=CycleState)


class ReservePlugin(Plugin, ABC):
    """Reserves resources outside the cluster's state for a placement that is assumed but not bound yet."""

    @abstractmethod
    def reserve(self, placement: Placement) -> Reason | None:
        """The reason why the placement must be given up, or None. On failure `unreserve` of every plugin runs, in reverse order."""

    @abstractmethod
    def unreserve(self, placement: Placement) -> None:
        """Undoes `reserve`. Must be idempotent and must not fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """Permit's answer: `approved`, denied with a reason, or (neither) to be called again for at most `wait_seconds`."""

    approved: bool = True
    reason: Reason | None = None
    wait_seconds: float = 0.0


class PermitPlugin(Plugin, ABC):
    """Decides if a reserved placement may be bound now, later or never."""

    @abstractmethod
    def permit(self, placement: Placement, waiting: Sequence[Placement]) -> Permission:
        """The permission, given the other placements that wait."""


class PreBindPlugin(Plugin, ABC):
    """Work in the cluster that must be done before the bind. Runs outside the decision, concurrently for different pods."""

    @abstractmethod
    async def pre_bind(self, placement: Placement) -> Reason | None:
        """The reason why the placement must be given up, or None."""


class BindPlugin(Plugin, ABC):
    """Writes the binding. Plugins are tried in order until one takes the pod."""

    @abstractmethod
    async def bind(self, placement: Placement) -> Reason | bool:
        """True if bound, False to leave the pod to the next plugin, or the reason of a failure."""


class PostBindPlugin(Plugin, ABC):
    """PostBind: called after a pod is bound."""

    @abstractmethod
    async def post_bind(self, placement: Placement) -> None:
        """Called after the pod is bound; failures are recorded and have no effect."""


POINTS: Mapping[str, type[Plugin]] = {
    "PreEnqueue": PreEnqueuePlugin,
    "QueueSort": QueueSortPlugin,
    "Filter": FilterPlugin,
    "PostFilter": PostFilterPlugin,
    "Score": ScorePlugin,
    "Reserve": ReservePlugin,
    "Permit": PermitPlugin,
    "PreBind": PreBindPlugin,
    "Bind": BindPlugin,
    "PostBind": PostBindPlugin,
}
"""Extension points in the order of a cycle, each with the base class whose methods it calls."""


def points(plugin: type[Plugin]) -> tuple[str, ...]:
    """The names of the extension points that a plugin class implements, in the order of a cycle."""
    return tuple(name for name, base in POINTS.items() if issubclass(plugin, base))
