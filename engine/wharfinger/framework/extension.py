"""Extension points: the base classes of plugins.

They are Kubernetes' own extension points (`k8s.io/kube-scheduler/framework`, 1.36), in this order:

    PreEnqueue → QueueSort → PreFilter → Filter → (PostFilter when nothing is left) → PreScore → Score → Normalize
               → Reserve → Permit → PreBind → Bind → PostBind

with one main difference: a plugin prepares its Filter and its Score for the pods of one template (`framework.prepared`), and the prepared
rule evaluates many nodes in one call and returns an array. PreFilter and PreScore are the methods that prepare.

`filter_volatility` and `score_volatility` declare what the answer for a row depends on. STATIC: the row's node object only. ROW: also the
pods on that row. TIMED: also the time and metric samples. GLOBAL: any row, other object or metric. The framework stores the answers of all
rows, and evaluates again the rows that a change concerns: those whose node or pods changed, for TIMED and GLOBAL rules those that
`affected` of the prepared rule returns.

A plugin is a class with a `name`, built once per set of arguments; one plugin may implement several points. It must be pure: its answer
depends on the pod, the snapshot and its arguments. Of the pod it may use only what its template covers, and the value that `identity`
returns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from wharfinger.framework.arguments import BuiltInArguments
from wharfinger.framework.cluster_event import ANY, Change, ClusterEvent
from wharfinger.framework.eviction import ALL_PODS, Evictable
from wharfinger.framework.pod_devices import PodDevice
from wharfinger.framework.prepared import Attempt, ClaimAllocation, Mask, PreparedFilter, PreparedScore, Reason, Rejected, Shared, Skip
from wharfinger.language.report import wording
from wharfinger.language.semantics.catalogue import Volatility

if TYPE_CHECKING:
    from wharfinger.framework.eviction import Supposition
    from wharfinger.model import objects
    from wharfinger.model.columns.pod_table import ReadInSteps
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.object_store import ObjectStore
    from wharfinger.model.state.snapshot import Snapshot


T = TypeVar("T")


def __getattr__(name: str) -> Any:
    """`Arguments`, the base class for arguments of plugins of other packages. It is imported only for them: Pydantic is large."""
    if name != "Arguments":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from wharfinger.framework.third_party_arguments import Arguments  # noqa: PLC0415 — see above

    return Arguments


class Plugin:
    """Base of every plugin: the name it is configured by, and its arguments.

    `arguments_model` is the class of its arguments: of a built-in plugin a struct, of another one a subclass of `Arguments`.
    `wakes_on` are the events that may help a pod which the plugin has rejected; by default all but TIME.
    """

    name: str
    arguments_model: ClassVar[Any] = BuiltInArguments
    wakes_on: ClusterEvent = ANY

    def __init__(self, arguments: Any = None) -> None:
        self.arguments: Any = self.arguments_model() if arguments is None else arguments

    def identity(self, pod: PodView) -> Hashable:
        """A value for everything that answers depend on and `pod.template` does not cover; None for nothing.

        Override it only if needed: pods with different values do not share results.
        """
        return None

    def object_identity(self, pod: PodView, store: ObjectStore) -> Hashable:
        """A value that changes with the objects of this pod alone that answers depend on, such as its claims; None for no such objects.

        As with `identity`, pods with different values do not share results, and while the value is the same, so is the answer. Called only
        for pods with claims for devices, or with resources that a DeviceClass can back.
        """
        return None

    def may_help(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:
        """True if a change of the kinds in `wakes_on` may help a pod that the plugin has rejected; `snapshot` is taken after the change.

        Return True if it is not known: a needless wake-up costs one attempt, a missing one makes the pod wait for minutes.
        """
        return True


class GroupedHints(Plugin):
    """A plugin whose hints depend on a small part of a waiting pod, so that a change is checked once for many templates.

    `same_hints`: `may_help` is the same for all pods of a group, and is called once for them.
    """

    same_hints: ClassVar[bool] = False

    def hint_group(self, pod: PodView) -> Hashable:
        """The group of a pod: a value for everything of the pod that `may_help_group` depends on."""
        return pod.template

    def may_help_group(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:
        """True if a change may help some pod of this pod's group. Must be true if `may_help` is true for one of them."""
        return self.may_help(pod, change, snapshot)


class FilterPlugin(Plugin, ABC):
    """A hard constraint: the nodes that can take the pod."""

    filter_volatility: Volatility = Volatility.GLOBAL

    @abstractmethod
    def prepare_filter(self, attempt: Attempt) -> PreparedFilter | Skip | Rejected:
        """The filter for the pods of this pod's template."""


class Normalization(Protocol):
    """The conversion of raw scores to points of 0..100, given the extremes over the feasible nodes; must work on any subset of nodes."""

    @property
    def least(self) -> float:
        """Raw scores below this value are left out of `low` and `high` (a plugin's mark for nodes it ignores); −inf for none."""

    def points(self, scores: NDArray[Any], low: float, high: float) -> NDArray[np.int64]:
        """The points `(n_rows,) int64` for raw `scores`; `low`, `high`: the extremes over all feasible nodes (0, 0 if none counts)."""


class ScorePlugin(Plugin, ABC):
    """A preference: the score of each feasible node. With a `normalization` the raw scores become points by it."""

    score_volatility: Volatility = Volatility.GLOBAL
    default_weight: ClassVar[int] = 1
    normalization: Normalization | None = None

    @abstractmethod
    def prepare_score(self, attempt: Attempt, feasible: Mask) -> PreparedScore | Skip:
        """The score for the pods of this pod's template. Only a GLOBAL plugin may depend on the `feasible` nodes, `(n_nodes,) bool`."""


class QueueSortPlugin(Plugin, ABC):
    """The order in which pending pods are tried; exactly one per chain."""

    @abstractmethod
    def sort_key(self, pod: PodView) -> Any:
        """A key that compares smaller for the pod to be tried first; pods with equal keys keep the order in which they were queued."""


class PreEnqueuePlugin(Plugin, ABC):
    """Decides if a pod may enter the queue."""

    @abstractmethod
    def pre_enqueue(self, pod: PodView) -> Reason | None:
        """The reason why the pod must wait outside of the queue, or None."""


class Trial(Protocol):
    """The filters of an evaluation, run on one node with supposed pods; the argument of a PostFilter plugin."""

    @property
    def spans_nodes(self) -> bool:
        """True if the verdict of some filter on a node depends on more than that node and its pods."""

    def suppose(self, row: int) -> Supposition:
        """A supposition about a node, with no pods removed or added yet."""

    def reasons_with_nominees(self, supposed: Supposition) -> tuple[Reason, ...]:
        """The reasons against the supposed node, with its nominated pods added or without them; empty if it passes both ways."""

    def confirmed(self, row: int, victims: Sequence[PodView]) -> tuple[Reason, ...]:
        """The reasons of filters that do not answer for supposed pods against the node without its victims; empty if all let it pass.

        Such a filter runs on a cluster of that node alone, if its answer depends on the node and its pods only (ROW). Otherwise its verdict
        on the real node stays in force.
        """


class Rejection(Struct, frozen=True, kw_only=True):
    """The rejected nodes of a failed cycle, for PostFilter. Arrays are `(n_nodes,) bool` in row order.

    `unresolvable`: nodes where no removal of pods would help. `trial` runs the filters on one node with supposed pods. `evictable` are the
    pods that policies allow to evict; a plugin that evicts pods must not evict others. `reached` are the nodes that the filter of a name
    has looked at because no earlier filter rejects them; None if an earlier plugin's PreFilter ended the cycle.
    """

    rejected: Mask
    unresolvable: Mask
    trial: Trial
    reached: Callable[[str], Mask | None]
    evictable: Evictable = ALL_PODS


class PostFilterOutcome(Struct, frozen=True, kw_only=True):
    """The answer of PostFilter: the node to be freed and the pods that must leave it, or a message why it cannot help.

    `deallocate` is a claim to lose its allocation, `delete` one to be deleted, so that another attempt may succeed. If the plugin `failed`,
    only its message is reported, and no further plugin runs. With `while_changing`, the cluster changed during the search: a search on the
    cluster as it is may answer otherwise.
    """

    message: str = ""
    nominated: str | None = None
    victims: tuple[PodView, ...] = ()
    deallocate: objects.ResourceClaim | None = None
    delete: objects.ResourceClaim | None = None
    failed: bool = False
    while_changing: bool = False


class PostFilterPlugin(Plugin, ABC):
    """Runs if no node is feasible; preemption is one. Plugins run in chain order until one nominates a node."""

    @abstractmethod
    def post_filter(self, attempt: Attempt, rejection: Rejection) -> PostFilterOutcome:
        """The outcome; the messages of all plugins that ran are joined with ", "."""


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """A pod and the node chosen for it, for the extension points after the decision; `shared` is that of the attempt."""

    pod: PodView
    node: str
    shared: Shared = msgspec.field(default_factory=Shared)


class AnnotatingPlugin(Plugin, ABC):
    """Chooses something of the node for the pod, which is written on the pod: its annotations count as soon as the pod is assumed.

    Kubernetes has no such point. The annotations are written in the same request as the binding.
    """

    @abstractmethod
    def annotations(self, attempt: Attempt, row: int) -> Mapping[str, str]:
        """The annotations for the pod on the node of that row, which was chosen for it; empty for none."""


class DevicePlugin(Plugin, ABC):
    """Chooses devices of the node for the pod, and reports them. Kubernetes has no such point."""

    @abstractmethod
    def pod_devices(self, attempt: Attempt, row: int, claims: Sequence[ClaimAllocation]) -> tuple[PodDevice, ...]:
        """The devices that the pod gets on the node of that row, which was chosen for it with these allocations."""

    def shortage(self, attempt: Attempt, rows: NDArray[np.intp]) -> tuple[str, ...]:
        """Lines about how far the devices of these rows meet the pod's requests; empty if there is nothing to add."""
        return ()


class PrecomputingPlugin:
    """A built-in filter with expensive results that are kept with the cluster, so that a scheduler computes them in steps."""

    def follow(self, store: ObjectStore) -> None:
        """Begin to follow the objects of a cluster. A scheduler calls it before it has any objects, so that none are read at once."""

    def precompute(self, pod: PodView, snapshot: Callable[[], Snapshot], *, kept: bool) -> Iterator[None]:
        """Do the work of the prepared filter in steps, before it runs. The results are kept with the cluster.

        `snapshot` returns the cluster as it is at each step. `kept`: a filter for pods with claims for devices like this one is prepared
        already. Not all steps may be taken.
        """
        return iter(())


class CountingPlugin:
    """A plugin of Wharfinger itself that counts placed pods or devices, so that a scheduler counts them in steps."""

    def counting(self, pod: PodView, snapshot: Callable[[], Snapshot]) -> Iterator[ReadInSteps]:
        """Yield the counts that a decision about the pod reads; each is counted in steps before the next one is asked for.

        `snapshot` returns the cluster as it is then.
        """
        return iter(())


class StepwisePostFilter(PostFilterPlugin):
    """A PostFilter plugin of Wharfinger itself that looks at many nodes, so that a scheduler calls it in steps."""

    @abstractmethod
    def may_take_steps(self, pod: PodView, snapshot: Snapshot) -> bool:
        """True if `post_filter` takes long for a pod that fits no node; it is asked for every pod, so it must be quick."""

    @abstractmethod
    def post_filter_step(self, attempt: Attempt, rejection: Rejection) -> bool:
        """Do a part of what `post_filter` does; False if there is no more to do. The results are kept in `attempt.shared`."""


class ReservePlugin(Plugin, ABC):
    """Reserves resources outside the cluster's state for a placement that is assumed but not bound yet."""

    @abstractmethod
    def reserve(self, placement: Placement) -> Reason | None:
        """The reason why the placement must be undone, or None. On failure `unreserve` of every plugin runs, in reverse order."""

    @abstractmethod
    def unreserve(self, placement: Placement) -> None:
        """Undo `reserve`. Must be idempotent and must not fail."""


class Permission(Struct, frozen=True, kw_only=True):
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
        """The reason why the placement must be undone, or None. For a member of a group, it is cancelled after the group's timeout."""


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


def object_argument(value: Any, kind: type[T]) -> T:
    """An argument that is a part of a Kubernetes object, such as an affinity; ValueError names a field that does not exist or is wrong.

    Objects of a cluster may have fields that scheduling does not read. In a file written by hand, such a field is a spelling error.
    """
    try:
        found = msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    _known_fields(value, found)
    return found


def _known_fields(plain: Any, found: Any) -> None:
    if isinstance(found, tuple) and isinstance(plain, list | tuple):
        for each, read_from in zip(plain, found, strict=True):
            _known_fields(each, read_from)
    if not isinstance(found, msgspec.Struct) or not isinstance(plain, dict):
        return
    fields = {field.encode_name: getattr(found, field.name) for field in msgspec.structs.fields(found)}
    for name, inner in plain.items():
        if name not in fields:
            near = wording.closest(name, fields)
            hint = f"did you mean {near}?" if near else f"there are {', '.join(fields)}"
            raise ValueError(f"there is no field {name}; {hint}")
        _known_fields(inner, fields[name])
