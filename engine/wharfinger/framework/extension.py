"""Extension points: where a plugin may take part in placing a pod.

They are Kubernetes' own (`k8s.io/kube-scheduler/framework`, 1.36), in this order:

    PreEnqueue → QueueSort → PreFilter → Filter → (PostFilter when nothing is left) → PreScore → Score → Normalize
               → Reserve → Permit → PreBind → Bind → PostBind

with one difference that everything else follows from: Filter and Score are asked about many nodes in one call and answer with an array.
`rows` says which nodes: all of them (`slice(None)`) or an index array, and the answer must be the same for a row whichever way it was
asked. That is what lets the cycle keep a template's result and ask again only about the nodes that changed.

An answer changes as the plugin's `filter_volatility` and `score_volatility` say. STATIC: the row's node object alone. ROW: also the pods
on that row. GLOBAL: any row, other object or metric; such a plugin is asked again after every change, unless its `…_changes` knows better.

A plugin is a class with a `name`, built once per set of arguments; one plugin may implement several points. It must be pure: its answer
depends on the pod, the snapshot, its arguments and its own `CycleState`, and on nothing of the pod beyond its template except what
`identity` returns.
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

    `wakes_on` are the events that may help a pod which the plugin has rejected; without a word from the plugin it is any.
    """

    name: str
    arguments_model: ClassVar[type[Arguments]] = Arguments
    wakes_on: ClusterEvent = ANY

    def __init__(self, arguments: Arguments | None = None) -> None:
        self.arguments: Any = self.arguments_model() if arguments is None else arguments

    def identity(self, pod: PodView) -> Hashable:
        """What the answers depend on that `pod.template` leaves out; None for nothing. Override only where needed: it costs sharing."""
        return None

    def may_help(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:
        """True if a change of the kinds in `wakes_on` may help a pod that the plugin has rejected, as the cluster is after it.

        True when in doubt: a pod woken in vain costs one attempt, one that is not woken waits for minutes.
        """
        return True


class GroupedHints(Plugin):
    """A plugin that looks at little of a waiting pod, so that a change is looked at once for many templates."""

    def hint_group(self, pod: PodView) -> Hashable:
        """What `may_help_group` looks at of a pod; equal for pods that it answers alike about."""
        return pod.template

    def may_help_group(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:
        """True if a change may help some pod of the group of this one. True wherever `may_help` is for one of them."""
        return self.may_help(pod, change, snapshot)


class FilterPlugin(Plugin, ABC):
    """A hard constraint: which nodes can take the pod."""

    filter_volatility: Volatility = Volatility.GLOBAL

    def pre_filter(self, cycle: CycleState, pod: PodView, snapshot: Snapshot) -> PreFilterAnswer:
        """None to go on, `Skip`, `Rejected` for every node, or the `NodeSet` worth looking at.

        Called when a template is first seen and when rows were added, moved or removed; for TIMED plugins also when time has passed or
        samples have come, for GLOBAL ones whenever `filter_changes` finds changes.
        """
        return None

    @abstractmethod
    def filter(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, rows: Rows) -> Verdicts:
        """The verdicts for `rows`, in their order."""

    def filter_one(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, row: int) -> int:
        """The bits of one row, under the reasons that `filter` gave for this template.

        A short cut for what happens most, one pod placed on one node: override it where plain Python beats arrays of one.
        """
        return int(self.filter(cycle, pod, snapshot, np.array([row], np.intp)).bits.item())

    def filter_changes(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, since: int) -> Rows | None:
        """For GLOBAL plugins: the rows whose verdict may differ from what it was at revision `since`; None where there are none.

        The state has changed in some way since then. The default says all; a plugin that can tell that the change does not concern the pod
        saves a full evaluation.
        """
        return slice(None)

    def filter_if(self, cycle: CycleState, pod: PodView, supposed: Supposition) -> tuple[Reason, ...] | None:
        """The reasons against one node with other pods on it, empty if it could take the pod then; None if the answer is that of `filter`.

        The default is for filters that do not look at pods. One that does not override it is taken to say the same whatever pods leave, so
        that no pod is evicted in vain. Not called where PreFilter said `Skip`.
        """
        return None


class Normalization(Protocol):
    """How raw scores become points of 0..100, given the extremes over the feasible nodes; must work on any subset of the nodes."""

    @property
    def least(self) -> float:
        """Raw scores below this are not counted in `low` and `high` (a plugin's mark for nodes it ignores); −inf to count all."""

    def points(self, scores: NDArray[Any], low: float, high: float) -> NDArray[np.int64]:
        """The points `(n_rows,) int64` for raw `scores`; `low`, `high`: the extremes over all feasible nodes (0, 0 where none counts)."""


class ScorePlugin(Plugin, ABC):
    """A preference: how good each feasible node is."""

    score_volatility: Volatility = Volatility.GLOBAL
    default_weight: ClassVar[int] = 1
    normalization: Normalization | None = None

    def pre_score(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, feasible: Mask) -> PreScoreAnswer:
        """None to go on, or `Skip` to contribute nothing.

        Called when `pre_filter` would be, for GLOBAL plugins whenever `score_changes` finds changes or `feasible` `(n_nodes,) bool` is
        not what it was: only a GLOBAL plugin may let anything depend on `feasible`.
        """
        return None

    @abstractmethod
    def score(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, rows: Rows) -> NDArray[Any]:
        """Raw scores `(n_rows,)` int64 or float64, finite. Without a `normalization` they are the points: int64 in 0..100.

        Rows may include nodes that are not feasible; whatever is returned there is not used (it must still be finite).
        """

    def score_one(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, row: int) -> float:
        """The raw score of one row: to `score` what `filter_one` is to `filter`. An int where `score` returns int64."""
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
        """For GLOBAL plugins: the rows whose raw score may differ from what it was at revision `since`, as in `filter_changes`.

        `flipped` are the rows that became feasible since then or ceased to be.
        """
        return slice(None)

    def score_domains(self, cycle: CycleState, pod: PodView, snapshot: Snapshot) -> Sequence[str] | None:
        """For GLOBAL plugins: the topology keys that alone decide a row's raw score, None if anything else of the row does.

        Asked after `pre_score`. Rows that are in the same domains of all of these keys, or in none, must have the same raw score: one of
        them is asked about.
        """
        return None


class QueueSortPlugin(Plugin, ABC):
    """The order in which pending pods are tried; exactly one per chain."""

    @abstractmethod
    def sort_key(self, pod: PodView) -> Any:
        """A key that compares smaller for the pod to be tried first; pods with equal keys keep the order in which they were queued."""


class PreEnqueuePlugin(Plugin, ABC):
    """True if a pod may enter the queue at all."""

    @abstractmethod
    def pre_enqueue(self, pod: PodView) -> Reason | None:
        """Why the pod must wait outside the queue, or None to let it in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """The failed cycle that PostFilter is given: the rejected nodes. Arrays are `(n_nodes,) bool` in row order.

    `unresolvable`: where no removal of pods would help. `trial` asks the filters about one node with other pods on it. `evictable` says
    whom policies let be evicted; a plugin that evicts pods must not evict others.
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
    """A way out when no node is feasible, such as preemption. Points run in chain order until one nominates a node."""

    @abstractmethod
    def post_filter(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, rejection: Rejection) -> PostFilterOutcome:
        """The outcome; messages of all the points that ran are joined with ", "."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A pod and the node chosen for it, as the points after the decision see it."""

    pod: PodView
    node: str
    cycle: CycleState = field(default_factory=CycleState)


class ReservePlugin(Plugin, ABC):
    """Bookkeeping outside the columns for a placement that is assumed but not bound yet."""

    @abstractmethod
    def reserve(self, placement: Placement) -> Reason | None:
        """Why the placement must be given up, or None. On failure `unreserve` of every plugin runs, in reverse order."""

    @abstractmethod
    def unreserve(self, placement: Placement) -> None:
        """Undoes `reserve`. Must be idempotent and must not fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """Permit's answer: `approved`, denied with a reason, or (neither) to be asked again for at most `wait_seconds`."""

    approved: bool = True
    reason: Reason | None = None
    wait_seconds: float = 0.0


class PermitPlugin(Plugin, ABC):
    """True if a reserved placement may be bound now, later or not at all."""

    @abstractmethod
    def permit(self, placement: Placement, waiting: Sequence[Placement]) -> Permission:
        """The permission, given the other placements that wait."""


class PreBindPlugin(Plugin, ABC):
    """Work in the cluster that must be done before the bind. Runs outside the decision, concurrently for different pods."""

    @abstractmethod
    async def pre_bind(self, placement: Placement) -> Reason | None:
        """Why the placement must be given up, or None."""


class BindPlugin(Plugin, ABC):
    """Writes the binding. Plugins are tried in order until one takes the pod."""

    @abstractmethod
    async def bind(self, placement: Placement) -> Reason | bool:
        """True when bound, False to leave the pod to the next plugin, or why it failed."""


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
