"""A compiled policy: the interface of a policy for the rest of the program.

`compile_policy` checks the values of the params, lowers every rule into one graph (so that rules share subexpressions), optimises the graph
and schedules it. A `CompiledPolicy` knows which pods it governs. Bound to one of these pods (`BoundPolicy`), it evaluates rules for any set
of nodes. Its `revision` is a hash of everything that decides: two files that differ in comments, layout or tests have the same one.

Columns that depend on node objects alone are kept here, longer than an evaluation: they are shared by all pods whose values in them are
equal.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import OrderedDict
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from wharfinger.builtins.signature import Rows
from wharfinger.compiler import reads, schedule
from wharfinger.compiler.graph import leaves
from wharfinger.compiler.graph.ir import Graph, Module, ordered
from wharfinger.compiler.graph.lower import as_plain, lowering_of
from wharfinger.compiler.graph.passes import optimized
from wharfinger.compiler.messages import Reasons
from wharfinger.compiler.metrics import Freshness
from wharfinger.compiler.pod_programs import group_of, victims_of
from wharfinger.compiler.row_code import row_code
from wharfinger.compiler.rules import CompiledRules, PolicyRoots
from wharfinger.compiler.selections import split_selection
from wharfinger.compiler.weights import scanned
from wharfinger.errors import UsageError
from wharfinger.language.report.wording import closest
from wharfinger.language.semantics import typed, types
from wharfinger.language.semantics.describe import describe, value_text
from wharfinger.language.semantics.types import DIMENSIONLESS, Kind, Type
from wharfinger.model.columns.arrays import StringTable
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.object_store import EvaluationContext
from wharfinger.model.state.snapshot import Snapshot

LITERAL = re.compile(r"\s*([+-]?)([0-9]+(?:\.[0-9]+)?)([A-Za-z%]*)\s*")
MAX_CLUSTERS = 4  # for which a compiled policy keeps columns at the same time; the one with the fewest strings gives way to a new one
SCOPE = "scope"
MIN_COLUMNS = 8
MAX_CELLS = 2**22  # 32 MB at most per policy and cluster
MAX_CELLS_OF_ALL = 2**25  # 256 MB at most for all policies of a cluster
ROWS_PER_STEP = 250
"""Rows of a kept column that are computed at a time: at most 50,000 numbers for each."""


def compile_policy(policy: typed.Policy, params: Mapping[str, Any] | None = None) -> CompiledPolicy:
    """The compiled policy for these values of its params (texts or plain values in base units).

    Raises UsageError for a param that is unknown, has no value or a wrong one.
    """
    values = resolve(policy, params or {})
    return CompiledPolicy(policy, values)


class CompiledPolicy:
    """A policy ready to decide; `str` is its intermediate representation.

    - `filters`, `scores`, `tie_break` and `base`: its rules, with all numbers resolved
    - `operations`: how many its rules take for each node, without columns that are kept
    - `scanned`: how many each decision takes at once for each placed pod
    - `params`: the values of its params in base units
    - `permits`: the conditions before a placed pod is bound
    - `group`, `victims`: its rules for groups and for preemption, None without any
    - `scope`: the program that computes which pods it governs, None for all pods
    - `authority`: its owner, the cluster or one namespace
    - `reads`: the attributes it reads, as (subject, path, key)

    The policy may govern one pod of a template and not another (`scope_reads_identity`), or a pod now and not later (`scope_reads_time`,
    `scope_reads_namespaces`); its rules may give pods of one template different answers (`rules_read_identity`). It may give pods different
    answers that differ in nothing but their PodGroup (`reads_group`).
    """

    def __init__(self, policy: typed.Policy, params: Mapping[str, Any]) -> None:
        roots = PolicyRoots(policy)
        self.program = schedule.schedule(optimized(roots.module, params, split_selection), roots.groups)
        rules = CompiledRules(policy, self.program, roots)
        self.operations = sum(sum(self.program.plans[group].weights) for group in roots.groups if not group.endswith(" counts"))
        self.scanned = scanned(ordered(self.program.module.roots.values()))
        self.policy = policy
        self.params = params
        self.authority = policy.authority
        self.name = policy.name
        self.version = policy.version
        self.revision = revision(policy, params)
        self.filters = rules.filters
        self.scores = rules.scores
        self.device_preferences = rules.device_preferences
        self.tie_break = rules.tie_break
        self.base = rules.base
        self.quantum = policy.quantum
        self.permits = rules.permits
        self.group = group_of(policy, params)
        self.victims = victims_of(policy, params)
        self.row_code = row_code(self.filters, self.scores)
        self.freshness = Freshness(policy.metrics)
        self.reasons = Reasons(policy, params, self.filters)
        lets = {let.name: let.value for let in policy.lets}
        read = list(_expressions(policy))
        scope = [] if policy.scope is None else [policy.scope]
        self.reads = reads.attributes_read([*scope, *read], lets)
        self.reads_group = reads.reads_group([*scope, *read], lets)
        self.rules_read_identity = reads.reads_identity(read, lets)
        self.scope_reads_identity = reads.reads_identity(scope, lets)
        self.scope = lowered_scope(policy, params)
        self._scope = None if self.scope is None else schedule.schedule(self.scope, {})
        self.scope_reads_time = self._scope is not None and self._scope.module.has(leaves.NOW_GIVEN)
        self.scope_reads_namespaces = self._scope is not None and self._scope.module.has(leaves.NAMESPACES_GIVEN)
        self._static: WeakKeyDictionary[StringTable, StaticColumns] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"CompiledPolicy({self.name!r}, revision {self.revision[:12]})"

    def __str__(self) -> str:
        return str(self.program)

    @property
    def scope_varies(self) -> bool:
        """True if the policy may govern one pod of a template and not another, or the same pod at another time or with other objects."""
        return self.scope_reads_time or self.scope_reads_namespaces or self.scope_reads_identity

    @property
    def groups_read_namespaces(self) -> bool:
        """True if other labels of a namespace may put its pods into other groups of the policy."""
        return self.group is not None and self.group.reads_namespaces

    def governs(self, pod: PodView, at: EvaluationContext) -> bool:
        """True if the policy applies to a pod, by its authority and `for pods where`."""
        if not self.authority.covers(pod.namespace):
            return False
        if self._scope is None:
            return True
        registers = schedule.bound(self._scope, pod, at=at)
        return bool(registers[self._scope.registers[SCOPE]])

    def static_columns(self, strings: StringTable) -> StaticColumns:
        """The kept columns of the cluster that has these strings."""
        found = self._static.get(strings)
        if found is None:
            others = _COLUMNS_OF.setdefault(strings, WeakSet())
            found = StaticColumns(others)
            others.add(found)
            if len(self._static) >= MAX_CLUSTERS:  # preemption looks at many clusters of one node
                del self._static[min(self._static, key=len)]
            self._static[strings] = found
        return found


def lowered_scope(policy: typed.Policy, params: Mapping[str, Any]) -> Module | None:
    """The optimised program whose root `SCOPE` is true if a pod is governed; None if all pods are."""
    if policy.scope is None:
        return None
    lowering = lowering_of(policy, Graph(), given=True)
    root = lowering.certainly(lowering(policy.scope))
    return optimized(Module(graph=lowering.graph, roots={SCOPE: root}), params)


def _expressions(policy: typed.Policy) -> Iterator[typed.Expr]:
    """Yield all expressions of the rules that a decision or a message depends on."""
    optional = [*(rule.when for rule in policy.filters), *(score.when for score in policy.scores)]
    yield from (expr for expr in optional if expr is not None)
    for rule in policy.filters:
        for clause in rule.clauses:
            yield clause.condition
            yield from (part for part in clause.message.parts if isinstance(part, typed.Expr))
    yield from (clause.condition for permit in policy.permits for clause in permit.clauses)
    yield from (permit.when for permit in policy.permits if permit.when is not None)
    yield from (score.value for score in policy.scores)
    yield from (preference.value for preference in policy.device_preferences)
    yield from (preference.when for preference in policy.device_preferences if preference.when is not None)
    yield from (key.value for key in policy.tie_break)
    yield from (rule.condition for rule in policy.victims)


# ── values of params ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def resolve(policy: typed.Policy, given: Mapping[str, Any]) -> dict[str, Any]:
    """The value of each param of a policy, in base units.

    `given` holds texts as on a command line (`"10%"`, `"a,b"` for a set) or plain values in base units. Raises UsageError for a param that
    is unknown, has no value or a wrong one.
    """
    known = {param.name: param for param in policy.params}
    for name in given:
        if name not in known:
            near = closest(name, known)
            hint = f"; did you mean {near}?" if near else f"; it has {', '.join(known)}" if known else "; it has none"
            raise UsageError(f"policy {policy.name} has no param {name}{hint}")
    return {name: _value(policy, param, given) for name, param in known.items()}


def _value(policy: typed.Policy, param: typed.Param, given: Mapping[str, Any]) -> Any:
    if param.name not in given:
        if param.default is None:
            raise UsageError(f"param {param.name} of policy {policy.name} needs a value ({param.type})")
        return as_plain(param.default, param.type)
    value = _read(given[param.name], param.type)
    where = f"param {param.name} of policy {policy.name}"
    if value is None:
        raise UsageError(f"{where} is {param.type}; {given[param.name]!r} is not")
    if isinstance(value, float) and not _within(value, param):
        raise UsageError(f"{where} is {value_text(value, param.type.kind)}, outside of its range {_range_text(param)}")
    return value


def _within(value: float, param: typed.Param) -> bool:
    low = -math.inf if param.low is None else param.low
    high = math.inf if param.high is None else param.high
    return low <= value <= high


def _range_text(param: typed.Param) -> str:
    ends = ("" if end is None else value_text(end, param.type.kind) for end in (param.low, param.high))
    return "..".join(ends)


def _read(value: Any, type_: Type) -> Any:
    """The value as one of that type; None if it is not."""
    if type_.kind is Kind.SET:
        return _members(value, Type(type_.element or Kind.STRING))
    if type_.kind is Kind.BOOL:
        return value if isinstance(value, bool) else {"true": True, "false": False}.get(str(value))
    if type_.kind is Kind.STRING:
        return value if isinstance(value, str) else None
    if isinstance(value, str):
        return _number(value, type_.kind)
    number = _finite(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    return None if number is None or (type_.kind is Kind.COUNT and not number.is_integer()) else number


def _finite(value: float) -> float | None:
    """A number as float64; None for one that is infinite, NaN, or an integer beyond float64."""
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _members(value: Any, element: Type) -> frozenset[Any] | None:
    items: Iterable[Any] = [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value
    if not isinstance(items, (list, tuple, set, frozenset)):
        return None
    members = [_read(item, element) for item in items]
    return None if any(member is None for member in members) else frozenset(members)


def _number(text: str, kind: Kind) -> float | None:
    """The number of a literal of that kind in base units, or None for another literal. Kinds with a unit require it."""
    found = LITERAL.fullmatch(text)
    if found is None:
        return None
    sign, digits, unit = found.groups()
    value = types.base_value(digits, unit)
    fits = types.literal_kind(digits, unit) is kind or (kind in DIMENSIONLESS and types.literal_kind(digits, unit) in DIMENSIONLESS)
    if value is None or not fits or (kind is Kind.COUNT and not value.is_integer()):
        return None
    return -value if sign == "-" else value


# ── revision ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def revision(policy: typed.Policy, params: Mapping[str, Any]) -> str:
    """The SHA-256 of the canonical text of a policy and the values of its params, 64 hexadecimal digits."""
    return hashlib.sha256("\n".join(_lines(policy, params)).encode()).hexdigest()


def _lines(policy: typed.Policy, params: Mapping[str, Any]) -> Iterator[str]:
    yield f"policy {policy.name!r} version {policy.version!r} for {_text(policy.scope)}"
    if policy.authority.namespace is not None:
        yield f"authority {policy.authority.namespace!r} {policy.authority.allowed.value}"
    for param in policy.params:
        yield f"param {param.name}: {param.type} = {_value_text(params[param.name], param.type)}"
    for let in policy.lets:
        yield f"let {let.name} = {describe(let.value)}"
    for metric in policy.metrics:
        timing = f"{metric.refresh!r} {metric.max_age!r} {metric.min_coverage!r} {metric.window!r}"
        yield f"metric {metric.name}: {metric.type} = {metric.source} {metric.query!r} {sorted(metric.options.items())!r} {timing}"
    for workload in policy.workloads:
        yield f"workload {workload.name} = {[_request(request) for request in workload.requests]!r}"
    for rule in policy.filters:
        yield f"filter {rule.name} when {_text(rule.when)}"
        yield from (_clause(clause) for clause in rule.clauses)
    yield from (_score(rule) for rule in policy.scores)
    yield from (f"prefer device {rule.name} when {_text(rule.when)} = {describe(rule.value)}" for rule in policy.device_preferences)
    for entry in policy.base:
        yield f"base {entry.plugin} weight {_text(entry.weight)} with {entry.arguments!r}"
    yield f"quantum {sorted(policy.quantum.items())!r}"
    yield from (f"tie_break {describe(key.value)} {key.descending}" for key in policy.tie_break)
    yield from text_of_permits_and_groups(policy)
    yield from (f"victim {describe(rule.condition)} missing {rule.missing_evicts}" for rule in policy.victims)


def text_of_permits_and_groups(policy: typed.Policy) -> Iterator[str]:
    """Yield the text of the parts of a policy that are not decisions about single pods: its permits and its groups."""
    for permit in policy.permits:
        yield f"permit {permit.name} timeout {_text(permit.timeout)} when {_text(permit.when)}"
        yield from (_clause(clause) for clause in permit.clauses)
    if policy.group is not None:
        yield _group(policy.group)


def _request(request: typed.Request) -> tuple[Any, ...]:
    return request.cpu, request.memory, request.devices, request.milli, sorted(request.models), request.weight


def _text(expr: typed.Expr | None) -> str:
    return "-" if expr is None else describe(expr)


def _value_text(value: Any, type_: Type) -> str:
    return value_text(value, type_.element or type_.kind)


def _clause(clause: typed.Clause) -> str:
    message = "".join(part if isinstance(part, str) else f"{{{describe(part)}}}" for part in clause.message.parts)
    return f"require {describe(clause.condition)} else {message!r} missing {clause.missing_passes}"


def _group(group: typed.Group) -> str:
    levels = [(level.key, level.required) for level in group.levels]
    terms = f"{levels} spread {group.spread_over} whole {group.whole} reserve {group.reserve}"
    return f"group by {_text(group.by)} min {_text(group.min_count)} timeout {_text(group.timeout)} within {terms}"


def _score(rule: typed.Score) -> str:
    how = f"{rule.normalize.value} {_text(rule.min_spread)} {rule.on_missing} {_text(rule.missing_points)}"
    return f"score {rule.name} tier {rule.tier} weight {_text(rule.weight)} when {_text(rule.when)} = {describe(rule.value)} {how}"


# ── kept columns ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


class StaticColumns:
    """A bounded cache of columns; the least recently used ones are dropped. `tables` are those of the cluster's strings, by register.

    `of_cluster` are the caches of all policies on the same cluster. Where they are too large together, the largest one gives way, so that
    a policy with many columns does not drop those of others.
    """

    __slots__ = ("__weakref__", "_kept", "_of_cluster", "tables")

    def __init__(self, of_cluster: Iterable[StaticColumns] = ()) -> None:
        self._of_cluster = of_cluster
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self.tables: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable, snapshot: Snapshot, evaluate: Callable[[Rows], Any]) -> NDArray[Any]:
        """The column of a key for all rows; `evaluate` computes it for the rows that changed since the last call."""
        kept = self._kept.get(key)
        changed = None if kept is None else snapshot.node_changes(kept.revision)
        if kept is None or changed is None:
            kept = self._kept[key] = _Kept(snapshot.revision, whole_column(evaluate(slice(None)), snapshot.n_nodes))
            self._drop_oldest(snapshot.n_nodes)
        elif len(changed):
            kept.values = kept.values.copy()  # readers of the former array keep it unchanged
            kept.values[changed] = evaluate(changed)
        kept.revision = snapshot.revision
        self._kept.move_to_end(key)
        return kept.values

    def fill_in_steps(self, key: Hashable, snapshot: Callable[[], Snapshot], evaluate: Callable[[Snapshot, Rows], Any]) -> Generator[None]:
        """The steps of `get` for a column that is not kept yet; none with few nodes. The next `get` follows what changes meanwhile."""
        began = snapshot()
        kept, n_nodes, revision = self._kept.get(key), began.n_nodes, began.revision
        if n_nodes <= ROWS_PER_STEP or (kept is not None and began.node_changes(kept.revision) is not None):
            return
        portions = []
        for first in range(0, n_nodes, ROWS_PER_STEP):
            now, rows = snapshot(), np.arange(first, min(first + ROWS_PER_STEP, n_nodes))
            if now.node_changes(revision) is None:  # rows have moved
                return
            portions.append(np.array(np.broadcast_to(evaluate(now, rows), rows.shape)))
            yield
        self._kept[key] = _Kept(revision, np.concatenate(portions))
        self._drop_oldest(n_nodes)

    def _drop_oldest(self, n_nodes: int) -> None:
        n_nodes = max(1, n_nodes)
        while len(self._kept) > max(MIN_COLUMNS, MAX_CELLS // n_nodes):
            self._kept.popitem(last=False)
        excess = sum(map(len, self._of_cluster)) - MAX_CELLS_OF_ALL // n_nodes
        while excess > 0 and len(largest := max(self._of_cluster, key=len)) > 1:
            largest._kept.popitem(last=False)  # noqa: SLF001 — another cache of this class
            excess -= 1


_COLUMNS_OF: WeakKeyDictionary[StringTable, WeakSet[StaticColumns]] = WeakKeyDictionary()
"""The kept columns of all policies on each cluster."""


class _Kept(Struct):
    revision: int
    values: NDArray[Any]


def whole_column(values: Any, n_nodes: int) -> NDArray[Any]:
    """A new column; a single value is repeated for all rows."""
    return np.array(np.broadcast_to(values, (n_nodes,)))
