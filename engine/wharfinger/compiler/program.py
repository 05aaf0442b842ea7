"""A policy, compiled: what the rest of the program asks of a policy.

`compile_policy` lowers every rule into one graph, so that rules share what they have in common, runs the passes and schedules the result. A
compiled policy says which pods it governs; bound to one of them (`bind`) it evaluates rules for any set of nodes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

from wharfinger.compiler import leaves, reads, schedule
from wharfinger.compiler.bound import BoundPolicy
from wharfinger.compiler.freshness import Freshness
from wharfinger.compiler.ir import Graph, Module, ordered
from wharfinger.compiler.lower import Lowering
from wharfinger.compiler.params import resolve
from wharfinger.compiler.passes import optimized
from wharfinger.compiler.reasons import Reasons
from wharfinger.compiler.resolved import Resolved
from wharfinger.compiler.revision import revision
from wharfinger.compiler.roots import PolicyRoots
from wharfinger.compiler.row_code import row_code
from wharfinger.compiler.rules import BaseWeight, CompiledFilter, CompiledScore, CompiledTieKey
from wharfinger.compiler.selection_parts import take_apart
from wharfinger.compiler.static_columns import StaticColumns
from wharfinger.compiler.victims import victims_of
from wharfinger.language import typed
from wharfinger.model.pod import PodView
from wharfinger.model.snapshot import Snapshot
from wharfinger.model.strings import StringTable

__all__ = ["BaseWeight", "BoundPolicy", "CompiledFilter", "CompiledPolicy", "CompiledScore", "CompiledTieKey", "compile_policy"]

MOST_CLUSTERS = 4  # clusters for which one compiled policy keeps columns at the same time
SCOPE = "scope"


def compile_policy(policy: typed.Policy, params: Mapping[str, Any] | None = None) -> CompiledPolicy:
    """The compiled policy with these values of its params (texts or plain values in base units).

    Raises UsageError for a param that is unknown, has no value or a wrong one.
    """
    values = resolve(policy, params or {})
    return CompiledPolicy(policy, values)


class CompiledPolicy:
    """A policy ready to decide; prints as its intermediate representation.

    `filters`, `scores`, `tie_break` and `base` are its rules with every number resolved, `params` the values of its params in base units;
    `victims` are its rules about preemption, None without any; `authority` says whose policy it is.
    `reads` are the attributes it reads, as (subject, path, key).

    Of pods of one template it may govern one and not the other (`scope_reads_identity`), or one now and not later (`scope_timed`); its
    rules may treat those that it governs differently (`rules_read_identity`).
    """

    def __init__(self, policy: typed.Policy, params: Mapping[str, Any]) -> None:
        roots = PolicyRoots(policy)
        self.program = schedule.schedule(optimized(roots.module, params, take_apart), roots.groups)
        rules = Resolved(policy, self.program, roots.bits)
        self.policy = policy
        self.params = params
        self.authority = policy.authority
        self.name = policy.name
        self.version = policy.version
        self.revision = revision(policy, params)
        self.filters = rules.filters
        self.scores = rules.scores
        self.tie_break = rules.tie_break
        self.base = rules.base
        self.quantum = policy.quantum
        self.victims = victims_of(policy, params)
        self.row_code = row_code(self.filters, self.scores)
        self.freshness = Freshness(policy.metrics)
        self.reasons = Reasons(policy, params, self.filters)
        lets = {let.name: let.value for let in policy.lets}
        read = list(_expressions(policy))
        scope = [] if policy.scope is None else [policy.scope]
        self.reads = frozenset(attribute for expr in (*scope, *read) for attribute in reads.attributes_read(expr, lets))
        self.rules_read_identity = any(reads.reads_identity(expr, lets) for expr in read)
        self.scope_reads_identity = any(reads.reads_identity(expr, lets) for expr in scope)
        self._scope = _scope(policy, params)
        self.scope_timed = self._scope is not None and _timed(self._scope)
        self._static: OrderedDict[int, tuple[StringTable, StaticColumns]] = OrderedDict()

    def __repr__(self) -> str:
        return f"CompiledPolicy({self.name!r}, revision {self.revision[:12]})"

    def __str__(self) -> str:
        return str(self.program)

    @property
    def scope_varies(self) -> bool:
        """Whether the policy may govern a pod and not another of its template, or the same pod at another time."""
        return self.scope_timed or self.scope_reads_identity

    def governs(self, pod: PodView, now: float) -> bool:
        """Whether the policy applies to a pod (`for pods where`, and its authority); `now` is what ages in the scope are relative to."""
        if not self.authority.covers(pod.namespace):
            return False
        if self._scope is None:
            return True
        registers = schedule.bound(self._scope, pod, now=now)
        return bool(registers[self._scope.registers[SCOPE]])

    def bind(self, pod: PodView, snapshot: Snapshot) -> BoundPolicy:
        """The policy for one pod on one cluster: everything that depends on the pod alone is worked out now."""
        return BoundPolicy(self, pod, snapshot.strings)

    def static_columns(self, strings: StringTable) -> StaticColumns:
        """The columns kept for the cluster that has these strings."""
        found = self._static.get(id(strings))
        if found is None:
            found = self._static[id(strings)] = (strings, StaticColumns())
            if len(self._static) > MOST_CLUSTERS:
                self._static.popitem(last=False)
        return found[1]


def _scope(policy: typed.Policy, params: Mapping[str, Any]) -> schedule.Program | None:
    """The program that says whether a pod is governed; None where every pod is."""
    if policy.scope is None:
        return None
    lowering = Lowering(policy, Graph(), given_time=True)
    root = lowering.certainly(lowering(policy.scope))
    return schedule.schedule(optimized(Module(graph=lowering.graph, roots={SCOPE: root}), params), {})


def _timed(scope: schedule.Program) -> bool:
    """Whether a scope reads the time that it is asked about."""
    return any(node.op is leaves.NOW_GIVEN for node in ordered(scope.module.roots.values()))


def _expressions(policy: typed.Policy) -> Iterator[typed.Expr]:
    """Every expression of the rules that a decision or a message depends on."""
    optional = [*(rule.when for rule in policy.filters), *(score.when for score in policy.scores)]
    yield from (expr for expr in optional if expr is not None)
    for rule in policy.filters:
        for clause in rule.clauses:
            yield clause.condition
            yield from (part for part in clause.message.parts if isinstance(part, typed.Expr))
    yield from (score.value for score in policy.scores)
    yield from (key.value for key in policy.tie_break)
    yield from (rule.condition for rule in policy.victims)
