"""Records that describe what a policy may name: attributes, functions, plugins of Kubernetes and sources of metrics.

The language layer uses only these records and the `Catalogue` that finds them. The attribute rows live in `model/attributes.py`, the
function records in `builtins/`; the checker, the compiler, the interpreter, the reference page and the suggestions all read the same
record. The sources of metrics are defined here. Each also needs a module in `signals` that reads it, and a line in `signals/sources.py`.
Its page is docs/writing/signals.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Any, Protocol

import msgspec

from wharfinger.language.semantics.bounds import Interval, Magnitude
from wharfinger.language.semantics.types import Kind, Shape, Type


class Subject(Enum):
    """The object that an attribute belongs to: the pod to be placed, the candidate node, or in a selection a placed pod or a device."""

    POD = "pod"
    NODE = "node"
    ITEM = "it"
    DEVICE = "device"

    @property
    def word(self) -> str:
        """The word in a policy: a device is `it`, like a placed pod."""
        return "it" if self is Subject.DEVICE else self.value

    @property
    def shape(self) -> Shape:
        """The shape of its attributes: one value for each such object."""
        return Shape[self.name]


class Volatility(IntEnum):
    """The kinds of change that can change a value of a pod template; the cycle evaluates again only what this requires.

    STATIC: only an update of the node object of that row. ROW: also pods added to or removed from that row. TIMED: also the time and the
    samples of metrics. GLOBAL: a change of any row (topology counts, cluster totals).
    """

    STATIC = 0
    ROW = 1
    TIMED = 2
    GLOBAL = 3


class Attribute(msgspec.Struct, frozen=True, kw_only=True):
    """One attribute of a pod or node as the language sees it.

    `path` is what a policy writes after the subject: `free.cpu`, `labels` (keyed: `labels["x"]`), `free` (keyed by an extended
    resource). `read` takes the object (a `model.objects` pod, or a `model` node view) and returns a plain Python value, or None
    when absent; keyed attributes take the key as second argument. It is the slow, obvious definition; the columns must agree
    with it.

    `column` (of node attributes) reads the same for many nodes: `column(snapshot, rows[, key])` returns `(values, present)`, arrays of one
    entry per row: float64 for numbers, bool, int32 string codes (-1 absent) for strings; `present` is a bool array, or None when
    every node has it. `rows` is `slice(None)` or an index array.

    A keyed attribute of kind LABELS may also be used whole (`node.labels matches "…"`); with a key its type is `string?` (or `element?`).
    Any other keyed attribute needs its key, and `type` is the type it has with one. A key with its own row (`free["cpu"]`,
    `free["ephemeral-storage"]`) means that row (`free.cpu`, `free.ephemeral_storage`).
    """

    subject: Subject
    path: str
    type: Type
    doc: str
    read: Callable[..., Any]
    keyed: bool = False
    identity: bool = False  # differs between pods of one template (name, uid, times)
    volatility: Volatility = Volatility.STATIC
    column: Callable[..., Any] | None = None
    of_cluster: bool = False  # not for policies of a namespace
    of_namespace: bool = False  # `read` takes the labels of the pod's namespace instead of the pod
    by_group: bool = False  # the key is not written: it is the group that the pod names itself, else the name by the policy's `group by`
    of_group: bool = False  # `read` gets the pod's group as the cluster knows it, instead of the pod
    alternatives: tuple[Attribute, ...] = ()  # the same under another type, for the value that is there if it is of that type
    low: float | None = None  # smallest possible value, for interval analysis
    high: float | None = None


class ArgumentMismatch(Exception):  # not a failure of the program but an answer of a `result` function
    """Raised by `Function.result` where arguments, each of an allowed kind, do not go together; `index` is the one to underline."""

    def __init__(self, index: int, message: str) -> None:
        self.index = index
        super().__init__(message)


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter of a builtin: its name and the kinds it takes (empty: any).

    A parameter named `metric` takes a metric of the policy, and the call is missing where its sample is.
    A `literal` parameter is written out in the policy (a topology key, a regular expression, a metric's name is not one);
    `validate` then returns what is wrong with that value, or None, so that the mistake is found when the policy is checked; that takes
    about as long as the number of steps of the check that `steps` gives for the value (None: one). One that `suggests` a near name among
    many takes, as a second argument, how to find it: `wording.closest` as a check has it, which gives up after that many letters.
    """

    name: str
    kinds: frozenset[Kind] = frozenset()
    optional_ok: bool = False  # takes a possibly missing value itself, instead of the call being missing
    default: Any = None
    required: bool = True
    literal: bool = False
    validate: Callable[..., str | None] | None = None
    steps: Callable[[str], int] | None = None
    suggests: bool = False


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """One builtin function: everything that the checker, compiler, docs and tests need to know of it.

    `result` computes the result type from the argument types (shape and optionality are then joined by the checker unless `own_shape`), or
    raises `ArgumentMismatch`. An optional result can be missing although all arguments are present. `interval` maps argument intervals to
    the result interval (low, high), for the proof that scores stay in 0..100. `magnitude` maps the magnitudes of numeric arguments to the
    result's, for the proof that arithmetic stays finite; one that is `never_nan` gives a number whatever numbers it is given, infinite ones
    included. `scalar` is the reference: plain Python values in, value or None (missing) out. `vector` is the kernel (see `compiler/`), and
    `row` the kernel for one node where the reference would be slow. `context` functions take an evaluation context first (they read the
    cluster, not only their arguments). A field of a call is a builtin with a dotted name: `unseen_requests(cpu5m).cpu` is the function
    `unseen_requests.cpu`. `named["*"]` takes arguments of any other name (`most_allocated("nvidia.com/gpu": 2)`). One that is `of_cluster`
    shows what pods of any namespace leave behind, and is not for policies of a namespace. The call of one that is `folded` is a constant if
    its arguments are: `semver("1.30.2")` is never missing. One that is a `clock` reads the time and nothing of the cluster. `plugin` is the
    score of Kubernetes whose points a function returns; such a function can be used in scores only. `slow_reads` yields what the kernel of
    a `context` function reads or computes for all nodes and takes long, to be done in steps before.
    """

    name: str
    parameters: tuple[Parameter, ...]
    result: Callable[[tuple[Type, ...]], Type]
    doc: str
    example: str
    scalar: Callable[..., Any]
    vector: Callable[..., Any]
    row: Callable[..., Any] | None = None
    variadic: Parameter | None = None
    named: Mapping[str, Parameter] = msgspec.field(default_factory=dict)
    interval: Callable[..., Interval] | None = None
    absent: Callable[..., bool] | None = None
    magnitude: Callable[..., Magnitude] | None = None
    never_nan: bool = False
    context: bool = False
    volatility: Volatility = Volatility.STATIC
    own_shape: bool = False
    of_cluster: bool = False
    clock: bool = False
    plugin: str | None = None
    folded: bool = False
    slow_reads: Callable[..., Any] | None = None


class PluginRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin that filters or scores nodes in every chain.

    `weight` is the default weight of its score, None if it does not score; `arguments` are the names of the arguments that `base
    kubernetes` may give it.
    """

    is_filter: bool = False
    weight: float | None = None
    arguments: frozenset[str] = frozenset()


class Catalogue(Protocol):
    """The names that the checker knows."""

    def attribute(self, subject: Subject, path: str) -> Attribute | None:
        """The attribute of that exact path, or None."""

    def attributes(self, subject: Subject) -> tuple[Attribute, ...]:
        """Every attribute of a subject, in the order of the reference page."""

    def function(self, name: str) -> Function | None:
        """The builtin of that name, or None."""

    def functions(self) -> tuple[Function, ...]:
        """Every builtin, in the order of the reference page."""

    def regex_fault(self, pattern: str) -> str | None:
        """The error in a regular expression, or None."""

    def regex_steps(self, pattern: str) -> int:
        """The steps of a check that it takes to find this error, or that there is none."""

    def plugins(self) -> Mapping[str, PluginRecord]:
        """The built-in plugins that filter or score nodes, by name."""

    def score_plugins(self) -> Mapping[str, PluginRecord]:
        """The score plugins, whose weights `base kubernetes` can set."""


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """An option of a source: its kind, its default, and its smallest and largest value."""

    kind: Kind
    default: Any
    low: float = 0.0
    high: float = float("inf")


class MetricSource(msgspec.Struct, frozen=True, kw_only=True):
    """A source, by the `name` that policies use.

    `argument` describes its first argument. `resources` are the texts that it may be, with the kind of their values; None if it is a query
    of any kind. `units` are the factors from the source's units to those of the language. `promql` is true if queries are PromQL and may
    look back. A source with the option `server` is read from servers of the settings. Any other has the name `address` in messages.
    `through_api_server` is true if it is read through the API server.
    """

    name: str
    argument: str
    options: Mapping[str, Option]
    resources: Mapping[str, Kind] | None = None
    units: Mapping[Kind, float] = msgspec.field(default_factory=dict)
    promql: bool = False
    address: str = ""
    through_api_server: bool = False

    @property
    def has_servers(self) -> bool:
        """True if the settings name the servers of this source."""
        return "server" in self.options


FRESHNESS: Mapping[str, Option] = {
    "refresh": Option(kind=Kind.DURATION, default=15.0, low=1.0),
    "max_age": Option(kind=Kind.DURATION, default=120.0, low=1.0),
    "min_coverage": Option(kind=Kind.PERCENT, default=0.8, high=1.0),
    "window": Option(kind=Kind.DURATION, default=0.0),
}
"""The options of every source: how old samples may be and how many nodes must have one."""

PROMETHEUS = MetricSource(
    name="prometheus",
    argument="a query in quotes",
    options={
        "node": Option(kind=Kind.STRING, default="node"),
        "relabel": Option(kind=Kind.STRING, default=None),
        "server": Option(kind=Kind.STRING, default="default"),
        "times": Option(kind=Kind.STRING, default=None),
        **FRESHNESS,
    },
    units={Kind.CPU: 1000.0},  # cores to millicores
    promql=True,
)
METRICS_API = MetricSource(
    name="metrics_api",
    argument='`"cpu"` or `"memory"`',
    options=FRESHNESS,
    resources={"cpu": Kind.CPU, "memory": Kind.MEMORY},
    address="metrics.k8s.io",
    through_api_server=True,
)

SOURCES: Mapping[str, MetricSource] = MappingProxyType({source.name: source for source in (PROMETHEUS, METRICS_API)})
"""Every source by name."""
