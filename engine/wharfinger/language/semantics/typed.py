"""The typed policy: names resolved, types known, shorthand expanded. The compiler and the interpreter read nothing else.

At the end of the module: walking through typed expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, cached_property
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import msgspec

from wharfinger.language.ast import MissingAction, Normalize, Test
from wharfinger.language.report.diagnostics import Source, Span
from wharfinger.language.semantics.authority import CLUSTER, Authority
from wharfinger.language.semantics.catalogue import Attribute, Function, Subject
from wharfinger.language.semantics.types import Kind, Type

T = TypeVar("T")


class Expr(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A typed expression. Two are equal if they mean the same, at any place of a file."""

    span: Span
    type: Type

    def __eq__(self, other: object) -> bool:
        return other.__class__ is self.__class__ and _values_of_fields(self) == _values_of_fields(other)

    def __hash__(self) -> int:
        return hash(_values_of_fields(self))


def _values_of_fields(expr: Expr) -> Any:
    """The values of the fields of an expression, without its place."""
    return _meaning(expr.__class__)(expr)


@cache
def _meaning(kind: type[Expr]) -> attrgetter[Any]:
    return attrgetter(*(name for name in kind.__struct_fields__ if name != "span"))


class Const(Expr, frozen=True, kw_only=True):
    """A literal in base units: bool, str, float, frozenset of str/float, or the `Entries` of a table."""

    value: Any


class ParamRef(Expr, frozen=True, kw_only=True):
    """The value of a param; its value is known when the policy is compiled."""

    name: str


class LetRef(Expr, frozen=True, kw_only=True):
    """A let of this policy or of an import (`shared.name`); lets form a DAG, in order in `Policy.lets`."""

    name: str


class MetricRef(Expr, frozen=True, kw_only=True):
    """The fresh value of a metric on the candidate node; missing when absent, too old or suspended."""

    name: str


class AttributeRef(Expr, frozen=True, kw_only=True):
    """An attribute of the pod, the node or `it`; `key` for keyed attributes.

    A key is the same for all nodes: `node.labels[pod.labels["x"]]` is possible, `node.labels[node.labels["x"]]` is not.
    """

    attribute: Attribute
    key: Expr | None = None


class SubjectRef(Expr, frozen=True, kw_only=True):
    """`pod`, `node` or `it` itself as an argument of a builtin; its kind is POD or NODE."""

    subject: Subject


class Op(Enum):
    """Operators that remain after desugaring.

    AND, OR and NOT are Kleene's; comparisons and arithmetic with a missing operand are missing; DIV by zero is missing; COALESCE takes the
    right where the left is missing; IN tests set membership.
    """

    NOT = "not"
    NEG = "neg"
    AND = "and"
    OR = "or"
    EQ = "=="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    IN = "in"
    COALESCE = "??"
    ADD = "+"
    SUB = "-"
    MUL = "*"
    DIV = "/"


class Operation(Expr, frozen=True, kw_only=True):
    """An operator applied to one or two operands."""

    op: Op
    operands: tuple[Expr, ...]


class If(Expr, frozen=True, kw_only=True):
    """`if condition then a else b`; missing when the condition is missing."""

    condition: Expr
    then: Expr
    otherwise: Expr


class Has(Expr, frozen=True, kw_only=True):
    """`has(x)`: true unless x is missing; never missing itself."""

    operand: Expr


class Curve(Expr, frozen=True, kw_only=True):
    """`curve(x, x0 -> y0, …)`: piecewise linear, flat outside; xs are CONST (params allowed) and increasing."""

    x: Expr
    points: tuple[tuple[Expr, Expr], ...]


@dataclass(frozen=True, slots=True)
class Entries:
    """The keys and values of a table as plain values, in the order of the policy; `kind` is that of the values.

    `name` is that of the let that the table belongs to.
    """

    keys: tuple[str | float, ...]
    values: tuple[Any, ...]
    kind: Kind
    name: str | None = None
    _made: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        return hash((self.kind, self.name, len(self.keys), self.keys[:1]))  # not of all: each look into a large table asks for it

    def named(self, name: str | None) -> Entries:
        """The same entries as the table of a let of this name."""
        return Entries(self.keys, self.values, self.kind, name)

    def once(self, what: str, make: Callable[[Entries], T]) -> T:
        """A value derived from the table, by its name; made once, because each lookup in a large table needs it."""
        if what not in self._made:
            self._made[what] = make(self)
        found: T = self._made[what]
        return found


class Lookup(Expr, frozen=True, kw_only=True):
    """`{ "gold": 3 }[key]`: the value under a key; missing where there is none, or the key is missing."""

    entries: Entries
    key: Expr


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of one kind of pod of a workload.

    `cpu` in millicores, `memory` in bytes, `devices` with `milli` thousandths of each, of one of `models` if there are any. `weight` is its
    share of the workload; the shares of a workload add up to 1.
    """

    cpu: float = 0.0
    memory: float = 0.0
    devices: int = 0
    milli: float = 1000.0
    models: frozenset[str] = frozenset()
    weight: float = 1.0


class Workload(msgspec.Struct, frozen=True):
    """A mix of typical requests, in the order of the policy."""

    name: str
    requests: tuple[Request, ...]

    def __hash__(self) -> int:
        return hash(self.name)  # read at every decision; hashing all requests takes as long as evaluating a node


class SelectorOp(Enum):
    """Operators of a label selector requirement (apimachinery `labels.Requirement`)."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


class Requirement(msgspec.Struct, frozen=True):
    """One requirement of a label selector."""

    key: str
    op: SelectorOp
    values: tuple[str, ...] = ()


class Matches(Expr, frozen=True, kw_only=True):
    """`labels matches "selector"`: never missing. `labels` is an AttributeRef of kind LABELS."""

    labels: Expr
    requirements: tuple[Requirement, ...]


class Select(Expr, frozen=True, kw_only=True):
    """`pods where predicate`: pods placed (or assumed) in the cluster, the pod being decided excluded.

    Where the predicate is missing the pod is not selected. The predicate has shape ITEM (or less) and may also read POD and CONST values;
    it may not read the node.
    """

    where: Expr | None


class Reduction(Enum):
    """Aggregates over pods; pods whose value is missing are left out.

    COUNT and SUM of nothing are 0; AVG, MIN and MAX of nothing are missing.
    """

    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"


class Per(Enum):
    """The pods of an aggregate: those on the candidate node, in its topology domain, or in the whole cluster."""

    NODE = "node"
    DOMAIN = "domain"
    CLUSTER = "cluster"


class Aggregate(Expr, frozen=True, kw_only=True):
    """`count(sel, on: node)`, `sum(sel, it.requests.cpu, within: "zone")`.

    With DOMAIN the result is missing on nodes without the label `topology_key`.
    """

    reduction: Reduction
    selection: Expr  # Select, or LetRef of kind PODS
    value: Expr | None
    per: Per
    topology_key: str | None = None


class Call(Expr, frozen=True, kw_only=True):
    """A builtin applied to arguments in parameter order (variadic ones follow; named ones, e.g. resource weights, are in `named`).

    Positional parameters that the author left out are filled with `Const` of the parameter's default, so `arguments` always has at least
    `len(function.parameters)` entries. A metric is passed as `MetricRef`, a selection as `Select` or `LetRef`, a pod or node as
    `SubjectRef`.
    """

    function: Function
    arguments: tuple[Expr, ...]
    named: Mapping[str, Expr] = msgspec.field(default_factory=dict)


# ── rules ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message with placeholders: strings and expressions alternate. A placeholder of shape NODE prints as `…` in a summary of nodes."""

    parts: tuple[str | Expr, ...]


class Clause(msgspec.Struct, frozen=True, kw_only=True):
    """A node passes where `condition` is true (`reject` has become `require not`); where it is missing, `missing_passes` decides.

    None: it cannot be missing on nodes that passed the filter's earlier clauses and its `when`. So a missing condition adds no reason where
    an earlier clause of the same filter already rejects the node; if it is missing for another reason (a node without memory), the node is
    rejected.
    """

    span: Span
    condition: Expr
    message: Message
    missing_passes: bool | None


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """A named filter; where `when` is not true (false or handled missing) every node passes. `when` may have shape NODE."""

    name: str
    span: Span
    when: Expr | None
    clauses: tuple[Clause, ...]


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """A named score. `value` gives raw points; after `normalize` they are in 0..100. `weight` and `points` are CONST (params allowed).

    Where `when` is not true the rule is left out of that node's sum (as `skip`).
    """

    name: str
    span: Span
    tier: int
    weight: Expr
    when: Expr | None
    value: Expr
    normalize: Normalize
    min_spread: Expr | None
    on_missing: MissingAction | None
    missing_points: Expr | None


class DevicePreference(msgspec.Struct, frozen=True, kw_only=True):
    """The order in which suitable devices of a node are chosen: larger `value` first, missing values last.

    Preferences are applied in order, each to the devices that are equal so far. A preference does not apply if its `when` is not true.
    """

    name: str
    span: Span
    when: Expr | None
    value: Expr


class Param(msgspec.Struct, frozen=True, kw_only=True):
    """A declared param; `default` None means that a value must be given. Values are in base units."""

    name: str
    span: Span
    type: Type
    default: Any
    low: float | None
    high: float | None


class Let(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A shared expression, evaluated at most once per cycle.

    `written`: False for the result of a call of a function that the policy declares, for an argument of one, and for what is known of
    groups (`of_group`), which has no text but where it is read. `missing_with`: an expression that is missing exactly where the value is,
    with a better explanation.
    """

    name: str
    span: Span
    value: Expr
    written: bool = True
    of_group: bool = False
    missing_with: Expr | None = None

    @cached_property
    def contents(self) -> Contents:
        """The contents of the value: found once, although many policies may import the let."""
        return contents([self.value])


class MetricKey(NamedTuple):
    """The key of the samples of a metric: the first of `names` that has any.

    `window`: the seconds before a sample that it is an average of, so that what began within them shows in part only.
    """

    names: tuple[str, ...]
    window: float = 0.0


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """A metric with its declared freshness. Times in seconds, coverage a fraction."""

    name: str
    policy: str
    span: Span
    type: Type
    source: str  # a name of language.semantics.catalogue.SOURCES
    query: str
    options: Mapping[str, Any]  # node label, relabel …, for the signals layer
    refresh: float
    max_age: float
    min_coverage: float
    window: float = 0.0

    @property
    def signal(self) -> str:
        """The measured signal as text that differs if its values may differ: the kind, and the query with its relevant options.

        Metrics of one signal share its samples, whatever policy declares them and under whatever name.
        """
        options = "".join(f", {name}: {value!r}" for name, value in sorted(self.options.items()))
        return f"{self.type.kind.value} = {self.source}({self.query!r}{options})"

    @property
    def key(self) -> MetricKey:
        """The names under which its samples may be: the signal, or, if people write them down, policy and name, or the name alone."""
        return MetricKey((self.signal, f"{self.policy}.{self.name}", self.name), self.window)


class BaseOverride(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of `base kubernetes` for one built-in plugin. `arguments` are plain JSON values; weight None leaves it as it is."""

    plugin: str
    span: Span
    weight: Expr | None
    arguments: Mapping[str, Any]


class VictimRule(msgspec.Struct, frozen=True, kw_only=True):
    """A placed pod may be evicted for the pod where `condition` is true (`never_evict` has become `not`); it reads `it` and the pod.

    Where the condition is missing, `missing_evicts` decides. None means that it cannot be missing; if it still is, the pod stays.
    """

    span: Span
    condition: Expr
    missing_evicts: bool | None


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """A level of topology within which members of a group must (or should) be."""

    key: str
    required: bool


MAX_TIMEOUT = 3600.0
"""Seconds that a placed pod may wait for its permits, or for its group, at most: it takes room that nothing runs in."""


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """The terms of groups of governed pods.

    `by` is the name of a pod's group within its namespace; None, or missing for a pod: only the pod itself may name a group. `name` is both
    together. `min_count` reads the pod and is never missing; `timeout` is constant. `levels` are from the widest to the narrowest. `whole`:
    preemption takes all members or none.
    """

    span: Span
    by: Expr | None
    name: Expr
    min_count: Expr | None
    timeout: Expr | None
    levels: tuple[Level, ...]
    spread_over: tuple[str, ...]
    whole: bool
    reserve: bool


class Permit(Filter, frozen=True, kw_only=True):
    """The condition for binding a placed pod: a filter that is evaluated for the chosen node, for at most `timeout` seconds.

    Selections count the pod itself, which has its node by then.
    """

    timeout: Expr | None


class TieKey(msgspec.Struct, frozen=True, kw_only=True):
    """One key of the tie break."""

    value: Expr
    descending: bool


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """A whole typed policy. `revision` (sha256 of its formatted source and its imports') is `compiler`'s business, not stored here."""

    name: str
    version: str | None
    source: Source
    imports: tuple[Source, ...]
    annotations: Mapping[str, Any]
    scope: Expr | None  # bool over the pod; governs the pod where it is true, so not where it is missing
    params: tuple[Param, ...]
    lets: tuple[Let, ...]
    metrics: tuple[Metric, ...]
    filters: tuple[Filter, ...]
    scores: tuple[Score, ...]
    base: tuple[BaseOverride, ...]
    quantum: Mapping[int, float]  # by tier; tiers not named have 0.000001
    tie_break: tuple[TieKey, ...]
    tests: tuple[Test, ...]
    victims: tuple[VictimRule, ...] = ()  # every one must allow it before a placed pod is evicted for a governed one
    workloads: tuple[Workload, ...] = ()
    device_preferences: tuple[DevicePreference, ...] = ()
    group: Group | None = None
    permits: tuple[Permit, ...] = ()
    authority: Authority = CLUSTER
    allowed: tuple[tuple[Span | None, frozenset[str]], ...] = ()  # codes that `@allow` keeps away, by the text it is about; None: all


_PARTS: Mapping[type[Expr], Callable[[Any], tuple[Expr, ...]]] = {
    Operation: lambda expr: expr.operands,
    If: lambda expr: (expr.condition, expr.then, expr.otherwise),
    Curve: lambda expr: (expr.x, *(e for point in expr.points for e in point)),
    Call: lambda expr: (*expr.arguments, *expr.named.values()),
    Aggregate: lambda expr: (expr.selection,) if expr.value is None else (expr.selection, expr.value),
    Has: lambda expr: (expr.operand,),
    Lookup: lambda expr: (expr.key,),
    Matches: lambda expr: (expr.labels,),
    Select: lambda expr: () if expr.where is None else (expr.where,),
    AttributeRef: lambda expr: () if expr.key is None else (expr.key,),
}


def parts(expr: Expr) -> tuple[Expr, ...]:
    """The operands of an expression, in order."""
    found = _PARTS.get(expr.__class__)
    return () if found is None else found(expr)


def walk(expr: Expr) -> Iterator[Expr]:
    """An expression and everything in it, outside in; lets are not entered."""
    pending = [expr]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(reversed(parts(current)))


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of some expressions; lets are named, and their values are left out.

    `operations` are reads, operators and calls. `reads_points`: something reads the points of Kubernetes' scores; `counts`: something
    counts pods or devices, or members of the group.
    """

    operations: int
    lets: frozenset[str]
    reads_points: bool
    counts: bool


def contents(exprs: Iterable[Expr]) -> Contents:
    """The contents of some expressions together."""
    operations, lets = 0, set[str]()
    reads_points = counts = False
    for part in (part for expr in exprs for part in walk(expr)):
        if isinstance(part, LetRef):
            lets.add(part.name)
        elif not isinstance(part, (Const, ParamRef, SubjectRef)):
            operations += 1 + (len(part.requirements) if isinstance(part, Matches) else 0)
        reads_points = reads_points or (isinstance(part, Call) and part.function.plugin is not None)
        counts = counts or isinstance(part, Aggregate) or (isinstance(part, AttributeRef) and part.attribute.of_group)
    return Contents(operations=operations, lets=frozenset(lets), reads_points=reads_points, counts=counts)


def outermost(value: Any) -> Iterator[Expr]:
    """The expressions in a rule, or in a tuple of rules, that are not parts of others."""
    if isinstance(value, Expr):
        yield value
    elif isinstance(value, tuple):
        for member in value:
            yield from outermost(member)
    elif isinstance(value, msgspec.Struct) and not isinstance(value, (Span, Source)):
        for name in value.__struct_fields__:
            yield from outermost(getattr(value, name))


def height(expr: Expr, lets: dict[str, int]) -> int:
    """The depth of an expression including its lets; `lets` has their heights."""
    deepest = 0
    pending = [(expr, 1)]
    while pending:
        current, depth = pending.pop()
        deepest = max(deepest, depth + (lets.get(current.name, 0) if isinstance(current, LetRef) else 0))
        pending.extend((part, depth + 1) for part in parts(current))
    return deepest
