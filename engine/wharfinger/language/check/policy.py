"""Checks a whole file: from the syntax tree to the typed policy, each step after the steps that it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from wharfinger.language import ast
from wharfinger.language.check.context import (
    MAX_STEPS,
    SCOPE,
    Binding,
    Context,
    EnoughFindings,
    Notes,
    TooMuchWork,
    condition,
    is_unknown,
    unknown,
)
from wharfinger.language.check.declarations import Declared, declare
from wharfinger.language.check.expressions import calls, names, operators, values
from wharfinger.language.check.imports import CheckedLibraries, import_all
from wharfinger.language.check.lints import allowed_within, lint
from wharfinger.language.check.missing import NO_FACTS, Presence
from wharfinger.language.check.rules import RuleContext, device_preference_of, filter_of, score_of
from wharfinger.language.check.statements import annotations_of, base_of, group_of, permit_of, quantum_of, tie_break_of, victims_of
from wharfinger.language.check.tests import Testable, check_tests
from wharfinger.language.report.codes import Code, Severity
from wharfinger.language.report.diagnostics import Diagnostics, Label, Source, Span
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.authority import CLUSTER, Authority, TenantPolicies
from wharfinger.language.semantics.catalogue import Catalogue
from wharfinger.language.semantics.typed import parts

MAX_OPERATIONS = 5_000
MAX_CLAUSES = 1000
# Importing these registers the forms of expressions that they know.
FORMS = (values, names, operators, calls)
T = TypeVar("T", bound=ast.Item)


def check(  # noqa: PLR0913, PLR0917 — one parameter per input of the check
    file: ast.File,
    catalogue: Catalogue,
    diagnostics: Diagnostics,
    imports: Mapping[str, ast.File | None] | None = None,
    authority: Authority = CLUSTER,
    notes: Notes | None = None,
    libraries: CheckedLibraries | None = None,
) -> typed.Policy | None:
    """The typed policy of a file, or None if it has errors or contains no policy. The content of the file never raises an exception.

    `imports` holds the files that `import` can mean, by `import_key`, None for one that cannot be imported and is reported. What they
    declare may read what the cluster's policies may, whatever the `authority` of the policy. What is found out goes to `notes`.
    `libraries` are those that were checked for other files.
    """
    context = Context(catalogue=catalogue, diagnostics=diagnostics, authority=authority, notes=notes)
    if notes is not None:
        notes.names, notes.intervals = context.names, context.intervals
    try:
        return None if _too_long(context, file) or _switched_off(context, file) else _check(context, file, imports or {}, libraries)
    except TooMuchWork:
        _too_complex(context, file)
    except EnoughFindings:
        pass
    return None


def _check(
    context: Context, file: ast.File, imports: Mapping[str, ast.File | None], libraries: CheckedLibraries | None
) -> typed.Policy | None:
    """Like `check`; raises `TooMuchWork` and `EnoughFindings`."""
    _declare_lost(context, file)
    declared = Declared()
    import_all(context, declared, file, imports, libraries)
    if file.policy is None:
        declare(context, declared, file.items)
        return None
    presence = Presence(context.lets, context.intervals, context.work)
    policy = _checked(context, declared, file.policy, presence, file)
    if context.notes is not None:
        context.notes.policy = policy
    _check_tests(context, declared, file, policy)
    relevant = (file.span.source, *declared.sources, *(test.span.source for test in file.tests))
    if _has_errors(context.diagnostics, relevant) or not small_enough(context, policy):
        return None
    policy = replace(policy, lets=_used_lets(policy))
    if not points_in_scores_only(context, policy) or not counts_in_rules_only(context, policy):
        return None
    lint(context, presence, policy, file.policy)
    return policy


def _declare_lost(context: Context, file: ast.File) -> None:
    """Names whose declarations could not be read exist, and nothing is known of them."""
    for name in file.lost:
        context.names[name] = Binding(name=name, what="name", span=file.span, reference=unknown, used=True)


def _checked(context: Context, declared: Declared, policy: ast.Policy, presence: Presence, file: ast.File) -> typed.Policy:
    declare(context, declared, policy.items)
    context.work.at = policy.scope.span if policy.scope else None
    scope = condition(context.at(SCOPE), policy.scope, "`for pods where`") if policy.scope else None
    known = presence.where_true(scope) if scope is not None and not is_unknown(scope) else NO_FACTS
    rules = RuleContext(context=context, presence=presence, scope=scope, known=known)
    unique_rules(context, policy.items)
    checked = typed.Policy(
        name=policy.name.value,
        version=policy.version.value if policy.version else None,
        source=file.span.source,
        imports=tuple(declared.sources),
        annotations=annotations_of(context, policy.annotations),
        scope=scope,
        params=tuple(declared.params),
        lets=(),
        metrics=tuple(replace(metric, policy=policy.name.value) for metric in declared.metrics),
        workloads=tuple(declared.workloads),
        filters=tuple(f for item in of_type(policy.items, ast.Filter) if (f := filter_of(rules, item))),
        scores=tuple(s for item in of_type(policy.items, ast.Score) if (s := score_of(rules, item))),
        device_preferences=tuple(d for item in of_type(policy.items, ast.DevicePreference) if (d := device_preference_of(rules, item))),
        base=base_of(context, of_type(policy.items, ast.Base)),
        quantum=quantum_of(context, of_type(policy.items, ast.Quantum)),
        tie_break=tie_break_of(context, of_type(policy.items, ast.TieBreak)),
        tests=file.tests,
        victims=victims_of(rules, of_type(policy.items, ast.Preemption)),
        group=group_of(context, of_type(policy.items, ast.Group)),
        permits=tuple(p for item in of_type(policy.items, ast.Permit) if (p := permit_of(rules, item))),
        authority=context.authority,
        allowed=allowed_within(policy),
    )
    return replace(checked, lets=tuple(context.lets.values()))  # calls of functions in the rules have added some


def of_type(items: Sequence[ast.Item], kind: type[T]) -> list[T]:
    """The items of one class, in order."""
    return [item for item in items if isinstance(item, kind)]


def unique_rules(context: Context, items: Sequence[ast.Item]) -> None:
    """Report filters, scores and permits that share a name."""
    seen: dict[str, Span] = {}
    for item in items:
        if not isinstance(item, (ast.Filter, ast.Score, ast.DevicePreference, ast.Permit)):
            continue
        if item.name in seen:
            others = (Label(seen[item.name], "first declared here"),)
            message = f"there is already a rule `{item.name}`"
            context.error(Code.P306, message, item.name_span, label="declared again", others=others, help="rename one of the two")
        seen.setdefault(item.name, item.name_span)


def _used_lets(policy: typed.Policy) -> tuple[typed.Let, ...]:
    """The lets of the policy's own text, and those of libraries that it uses: hundreds of policies may each import a large library."""
    lets = {let.name: let for let in policy.lets}
    rules = tuple(getattr(policy, name) for name in policy.__struct_fields__ if name != "lets")
    pending = [let.name for let in policy.lets if let.written and let.span.source is policy.source]
    pending += typed.contents(typed.outermost(rules)).lets
    used = set[str]()
    while pending:
        name = pending.pop()
        if name in lets and name not in used:
            used.add(name)
            pending += lets[name].contents.lets
            pending += typed.contents(typed.outermost(lets[name].missing_with)).lets
    return tuple(let for let in policy.lets if let.name in used)


def _check_tests(context: Context, declared: Declared, file: ast.File, checked: typed.Policy) -> None:
    policy = file.policy
    if policy is None or not file.tests:
        return
    lets = {let.name: let for let in checked.lets}
    every = [expr for _, exprs in _rules(checked) for expr in exprs]
    testable = Testable(
        filters=frozenset(item.name for item in of_type(policy.items, ast.Filter)),
        scores=frozenset(item.name for item in of_type(policy.items, ast.Score)),
        operations=operations(every, lets),
        of_pods=operations(_about_pods(every, lets), lets) + operations([victim.condition for victim in checked.victims], lets),
        params={param.name: param for param in declared.params},
        metrics={metric.name: metric for metric in declared.metrics},
        lost=file.lost | {item.name for item in policy.items if isinstance(item, (ast.Param, ast.Metric, ast.Workload))},
    )
    check_tests(context, testable, file.tests)


def _has_errors(diagnostics: Diagnostics, sources: Sequence[Source]) -> bool:
    return any(d.severity is Severity.ERROR and any(d.span.source is s for s in sources) for d in diagnostics.found)


# ── limits of a file and its policy ──────────────────────────────────────────────────────────────────────────────────────────────────


def _too_complex(context: Context, file: ast.File) -> None:
    """Report that the check was stopped, at the part of the policy that it had reached."""
    at = context.work.at or file.span
    help_ = (
        "write each guard once, in the `when` of a filter or score; give a condition that is used several times a name with `let`; "
        "join regular expressions with `|`"
    )
    message = f"checking this policy takes more than {MAX_STEPS:,} steps"
    context.diagnostics.error(Code.P010, message, at, label="the check stopped here", help=help_)


def _too_long(context: Context, file: ast.File) -> bool:
    """True if a policy has more clauses than can be checked quickly."""
    items = file.policy.items if file.policy else ()
    clauses = [clause for item in items if isinstance(item, (ast.Filter, ast.Permit)) for clause in item.clauses]
    if len(clauses) > MAX_CLAUSES:
        help_ = "test membership with `in […]` instead of one requirement for each value"
        context.error(Code.P006, f"more than {MAX_CLAUSES:,} requirements in one policy", clauses[MAX_CLAUSES].span, help=help_)
    return len(clauses) > MAX_CLAUSES


def _switched_off(context: Context, file: ast.File) -> bool:
    """True if the policy is of a namespace, and the settings allow none of those."""
    off = context.authority.namespace is not None and context.authority.allowed is TenantPolicies.OFF
    if off and file.policy is not None:
        help_ = "it is a setting of the scheduler: `tenantPolicies`"
        context.error(Code.P803, "policies of namespaces are switched off", file.policy.name.span, label="of a namespace", help=help_)
    return off


def small_enough(context: Context, policy: typed.Policy) -> bool:
    """True if the rules of a policy together calculate no more than allowed; otherwise reports the rule that exceeds it."""
    lets = {let.name: let for let in policy.lets}
    total = sum(let.contents.operations for let in policy.lets)
    for span, exprs in _rules(policy):
        total += operations(exprs, lets)
        if total > MAX_OPERATIONS:
            context.error(
                Code.P009,
                f"the rules of this policy need more than {MAX_OPERATIONS:,} operations",
                span,
                label="with this one it is too much",
                help="split the policy into several; test membership with `in […]` and not with a chain of `or`",
            )
            return False
    return True


def _rules(policy: typed.Policy) -> Iterator[tuple[Span, list[typed.Expr]]]:
    """The expressions of each rule, with the position of the rule."""
    if policy.scope is not None:
        yield policy.scope.span, [policy.scope]
    for rule in (*policy.filters, *policy.permits):
        placeholders = [part for clause in rule.clauses for part in clause.message.parts if isinstance(part, typed.Expr)]
        yield rule.span, [*_as_list(rule.when), *(clause.condition for clause in rule.clauses), *placeholders]
    for score in policy.scores:
        yield score.span, [*_as_list(score.when), score.value, score.weight]
    for preference in policy.device_preferences:
        yield preference.span, [*_as_list(preference.when), preference.value]
    for victim in policy.victims:
        yield victim.span, [victim.condition]
    if policy.group is not None:
        yield policy.group.span, [*_as_list(policy.group.by), *_as_list(policy.group.min_count)]
    for key in policy.tie_break:
        yield key.value.span, [key.value]


def operations(exprs: Sequence[typed.Expr], lets: Mapping[str, typed.Let]) -> int:
    """The reads, operators and calls in some expressions; each of `lets` that they use counts once, however often it is used."""
    count = 0
    pending, followed = [typed.contents(exprs)], set[str]()
    while pending:
        found = pending.pop()
        count += found.operations
        new = [name for name in found.lets if name in lets and name not in followed]
        followed.update(new)
        pending.extend(lets[name].contents for name in new)
    return count


def _about_pods(exprs: Sequence[typed.Expr], lets: Mapping[str, typed.Let]) -> list[typed.Expr]:
    """The parts of expressions that are evaluated for placed pods: conditions of selections, and aggregated values."""
    found: list[typed.Expr] = []
    pending, followed = list(exprs), set[str]()
    while pending:
        inner = pending.pop()
        if isinstance(inner, typed.LetRef) and inner.name in lets and inner.name not in followed:
            followed.add(inner.name)
            pending.append(lets[inner.name].value)
        asked = inner.where if isinstance(inner, typed.Select) else inner.value if isinstance(inner, typed.Aggregate) else None
        found.extend(_as_list(asked))
        pending.extend(parts(inner))
    return found


# ── what only some rules may read ────────────────────────────────────────────────────────────────────────────────────────────────────


def points_in_scores_only(context: Context, policy: typed.Policy) -> bool:
    """True if no other rule than a score reads the points of Kubernetes' scores; otherwise reports each one that does."""
    lets = _lets_that(policy, _reads_points)
    scores = {score.span for score in policy.scores}
    reading = [expr for span, exprs in _rules(policy) if span not in scores for expr in exprs if _does(expr, _reads_points, lets)]
    for expr in reading:
        message = "points of Kubernetes' scores are known in scores only"
        help_ = "filters run first; to break ties by points, write a score of a later tier: `score … tier 2 = …`"
        context.error(Code.P223, message, expr.span, label="reads such points", help=help_)
    return not reading


def counts_in_rules_only(context: Context, policy: typed.Policy) -> bool:
    """True if nothing that is decided without the cluster counts pods or members; otherwise reports each expression that does."""
    lets = _lets_that(policy, _counts)
    grouping = [] if policy.group is None else [*_as_list(policy.group.by), *_as_list(policy.group.min_count)]
    without_cluster = [*_as_list(policy.scope), *grouping, *(victim.condition for victim in policy.victims)]
    counting = [expr for expr in without_cluster if _does(expr, _counts, lets)]
    for expr in counting:
        help_ = "write the condition in a rule: in a `filter`, or behind the `when` of one"
        context.error(Code.P226, "pods are counted in filters, scores and `permit` only", expr.span, label="counts pods", help=help_)
    return not counting


def _counts(found: typed.Contents) -> bool:
    return found.counts


def _reads_points(found: typed.Contents) -> bool:
    return found.reads_points


def _lets_that(policy: typed.Policy, test: Callable[[typed.Contents], bool]) -> frozenset[str]:
    """The names of the lets whose contents pass a test, or those of another let that they use."""
    found: set[str] = set()
    for let in policy.lets:  # each uses earlier ones only
        if test(let.contents) or not found.isdisjoint(let.contents.lets):
            found.add(let.name)
    return frozenset(found)


def _does(expr: typed.Expr, test: Callable[[typed.Contents], bool], lets: frozenset[str]) -> bool:
    """True if the contents of an expression pass a test, or one of `lets` is among them."""
    found = typed.contents([expr])
    return test(found) or not lets.isdisjoint(found.lets)


def _as_list(expr: typed.Expr | None) -> list[typed.Expr]:
    return [] if expr is None else [expr]
