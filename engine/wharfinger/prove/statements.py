"""The statements that can be proved about policies, each with how it could be false and the test that would show it.

A condition of a statement holds where it is true, and not where it is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from wharfinger.compiler.program import CompiledPolicy, text_of_permits_and_groups
from wharfinger.errors import UnknownObject, UsageError
from wharfinger.language.report.wording import closest
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.describe import describe, quoted
from wharfinger.prove import rules
from wharfinger.prove.editable_policy import EditablePolicy, Trial
from wharfinger.prove.encoder import Encoder, Place, n_members
from wharfinger.prove.example import Example
from wharfinger.prove.logic import Condition, both, either, implied, negated, same_truth
from wharfinger.prove.question import MAX_TOGETHER, Answer, CommonBudget, Side, Statement, Verdict, answer

FIRST_NODE = Place(0)


def _side(compiled: CompiledPolicy, texts: Mapping[str, str], pods: frozenset[str] = frozenset()) -> tuple[Side, dict[str, typed.Expr]]:
    editable = EditablePolicy(compiled)
    policy, conditions = editable.conditions(texts, pods) if texts else (compiled.policy, {})
    return Side(text=editable, policy=policy), conditions


def _filter(policy: typed.Policy, name: str) -> typed.Filter:
    found = next((rule for rule in policy.filters if rule.name == name), None)
    if found is None:
        raise UnknownObject(_no_such(policy, name, "filter", [rule.name for rule in policy.filters]))
    return found


def _no_such(policy: typed.Policy, name: str, what: str, known: Sequence[str]) -> str:
    near = closest(name, known)
    hint = f"did you mean {near}?" if near else f"it has {', '.join(known)}" if known else f"it has no {what}s"
    return f"policy {policy.name} has no {what} {name}; {hint}"


def _fails(trials: Mapping[int, Trial], number: int, holds: bool) -> str | None:
    trial = trials[number]
    return trial.policy.source.name if holds and not trial.passed else None


# ── filters ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def spares(compiled: CompiledPolicy, name: str | None, condition: str) -> Answer:
    """The verdict about: the filter (or all filters, for None) never rejects every node for which `condition` is true.

    A cluster may have one such node, so no such node may be rejected. Raises UnknownObject for a filter that the policy does not have,
    PolicyError for a wrong condition.
    """
    side, conditions = _side(compiled, {"--spares": condition})
    wanted = conditions["--spares"]
    filters = side.policy.filters if name is None else (_filter(side.policy, name),)
    return _never_rejects(side, f"{_named(filters, name)} never rejects all nodes where {condition}", filters, wanted)


def _named(filters: Sequence[typed.Filter], name: str | None) -> str:
    return "the policy" if name is None else f"filter {filters[0].name}"


def _never_rejects(side: Side, text: str, filters: Sequence[typed.Filter], wanted: typed.Expr | None) -> Answer:
    """The verdict about: none of some filters ever rejects a node for which a condition is true."""

    def violations(encoders: Sequence[Encoder]) -> list[Condition]:
        encoder = encoders[0]
        where = both(rules.governs(encoder), encoder.true(wanted, FIRST_NODE))
        return [both(where, negated(rules.passes(encoder, rule, 0))) for rule in filters]

    def confirmed(trials: Mapping[int, Trial], example: Example) -> str | None:
        trial = trials[0]
        rejecting = trial.rejected_by(example.nodes[0]) & {rule.name for rule in filters}
        return _fails(trials, 0, bool(rejecting) and trial.attempt.governed and _true(trial, wanted))

    return answer(Statement(text=text, sides=(side,), n_nodes=1, violations=violations, shown=_accepted, confirmed=confirmed))


def _accepted(example: Example, _: Sequence[Encoder]) -> list[list[str]]:
    return [[f"expect {quoted(example.nodes[0])} accepted"]]


def _true(trial: Trial, condition: typed.Expr | None, row: int = 0) -> bool:
    """True if a condition is true in a trial; its lets are those of the policy."""
    return condition is None or trial.attempt.interpreter.value(condition, row) is True


def dead(compiled: CompiledPolicy, name: str) -> Answer:
    """The verdict about: the filter rejects no node, or the score gives all nodes the same.

    Raises UnknownObject for a rule that the policy does not have.
    """
    return _dead(_side(compiled, {})[0], name)


def _dead(side: Side, name: str) -> Answer:
    known = [*(rule.name for rule in side.policy.filters), *(rule.name for rule in side.policy.scores)]
    if name not in known:
        raise UnknownObject(_no_such(side.policy, name, "rule", known))
    if any(rule.name == name for rule in side.policy.filters):
        return _never_rejects(side, f"filter {name} rejects no node", (_filter(side.policy, name),), None)
    return _same_points(side, next(rule for rule in side.policy.scores if rule.name == name))


def implied_by(compiled: CompiledPolicy, name: str, other: str | None = None, with_policies: Sequence[CompiledPolicy] = ()) -> Answer:
    """The verdict about: each node that the filter rejects is also rejected by another filter (None: by any of the others).

    The policies of `with_policies` are enforced too, and what one of them rejects counts. Raises UnknownObject for a filter that the
    policy does not have.
    """
    return _implied_by(_side(compiled, {})[0], name, other, _further_sides(compiled, with_policies))


def _implied_by(side: Side, name: str, other: str | None = None, further: Sequence[Side] = ()) -> Answer:
    rule = _filter(side.policy, name)
    others = [_filter(side.policy, other)] if other is not None else [each for each in side.policy.filters if each is not rule]
    if rule in others:
        raise UsageError(f"filter {name} cannot be implied by itself")

    def violations(encoders: Sequence[Encoder]) -> list[Condition]:
        encoder = encoders[0]
        kept = both(*(rules.passes(encoder, each, 0) for each in others), *(rules.accepts(each, 0) for each in encoders[1:]))
        return [both(rules.governs(encoder), kept, negated(rules.passes(encoder, rule, 0)))]

    def confirmed(trials: Mapping[int, Trial], example: Example) -> str | None:
        rejecting = trials[0].rejected_by(example.nodes[0])
        alone = name in rejecting and not rejecting & {each.name for each in others}
        return _fails(trials, 0, alone and _others_accept(trials, example))

    text = f"filter {name} rejects no node that {_letting_pass(other, further)}"
    sides = (side, *further)
    return answer(
        Statement(text=text, sides=sides, n_nodes=1, violations=violations, shown=_accepted, confirmed=confirmed, together=bool(further))
    )


def _letting_pass(other: str | None, further: Sequence[Side]) -> str:
    if not further:
        return "the other filters let pass" if other is None else f"filter {other} lets pass"
    own = "the other filters" if other is None else f"filter {other}"
    return f"{own} and {_named_policies(further)} let pass"


def _named_policies(sides: Sequence[Side]) -> str:
    noun = "policy" if len(sides) == 1 else "policies"
    return f"{noun} {', '.join(side.policy.name for side in sides)}"


def _further_sides(compiled: CompiledPolicy, others: Sequence[CompiledPolicy]) -> tuple[Side, ...]:
    """The other policies of a statement; raises UsageError for one that occurs twice."""
    names = [compiled.name, *(each.name for each in others)]
    again = next((name for number, name in enumerate(names) if name in names[:number]), None)
    if again is not None:
        raise UsageError(f"policy {again} is there twice; policies that are enforced together have different names")
    return tuple(_side(each, {})[0] for each in others)


def _others_accept(trials: Mapping[int, Trial], example: Example) -> bool:
    """True if no other policy, nor Kubernetes, rejects the first node of an example."""
    return not any(trial.rejected_by(example.nodes[0]) for number, trial in trials.items() if number)


def _same_points(side: Side, rule: typed.Score) -> Answer:
    compiled = next(each for each in side.text.compiled.scores if each.name == rule.name)

    def violations(encoders: Sequence[Encoder]) -> list[Condition]:
        if compiled.weight == 0:
            return []
        a, b = rules.points(encoders[0], rule, compiled)
        same = both(implied(a.counts, b.counts), implied(b.counts, a.counts), implied(a.counts, a.points == b.points))
        feasible = both(rules.accepts(encoders[0], 0), rules.accepts(encoders[0], 1))
        return [both(rules.governs(encoders[0]), feasible, negated(same))]

    def shown(example: Example, _: Sequence[Encoder]) -> list[list[str]]:
        return [[f"expect {quoted(node)} scores {rule.name} == 50"] for node in example.nodes]

    def confirmed(trials: Mapping[int, Trial], example: Example) -> str | None:
        given = [_points(trials[0], side.policy.name, rule.name, node) for node in example.nodes]
        return _fails(trials, 0, trials[0].attempt.decision.feasible > 1 and given[0] != given[1])

    text = f"score {rule.name} gives all nodes the same"
    return answer(Statement(text=text, sides=(side,), n_nodes=2, violations=violations, shown=shown, confirmed=confirmed))


def _points(trial: Trial, policy: str, rule: str, node: str) -> float | None:
    parts = {part.name: part.points for part in trial.attempt.decision.scores_at(node)}
    return parts.get(f"{policy}/{rule}")


def keeps(compiled: CompiledPolicy, condition: str, with_policies: Sequence[CompiledPolicy] = ()) -> Answer:
    """The verdict about: adding the policy to `with_policies` makes no pod unschedulable for which `condition` is true.

    Raises PolicyError for a wrong condition, UsageError for one that reads the node and for policies with one name.
    """
    side, conditions = _side(compiled, {"--keeps": condition}, frozenset({"--keeps"}))
    wanted = conditions["--keeps"]
    others = _further_sides(compiled, with_policies)

    def violations(encoders: Sequence[Encoder]) -> list[Condition]:
        encoder = encoders[0]
        taken = both(rules.fits(encoder), *(rules.accepts(each, 0) for each in encoders[1:]))
        return [both(taken, encoder.true(wanted, FIRST_NODE), negated(rules.accepts(encoder, 0)))]

    def shown(example: Example, _: Sequence[Encoder]) -> list[list[str]]:
        return [[f"expect {quoted(example.pod)} on {quoted(example.nodes[0])}"]]

    def confirmed(trials: Mapping[int, Trial], example: Example) -> str | None:
        trial = trials[0]
        rejecting = trial.rejected_by(example.nodes[0])
        own = {rule.name for rule in side.policy.filters}
        shows = bool(rejecting) and rejecting <= own and _true(trial, wanted) and _others_accept(trials, example)
        return _fails(trials, 0, shows)

    def blocked(encoders: Sequence[Encoder]) -> str | None:
        victims = encoders[0].policy.victims
        if victims:
            return f"`preemption` ({victims[0].span}): an unschedulable pod may find fewer victims"
        return next((why for each in encoders if (why := _grouping(each.policy)) is not None), None)

    to = f" to {_named_policies(others)}" if others else ""
    return answer(
        Statement(
            text=f"adding policy {compiled.name}{to} makes no pod unschedulable where {condition}",
            sides=(side, *others),
            n_nodes=1,
            violations=violations,
            shown=shown,
            confirmed=confirmed,
            together=bool(others),
            blocked=blocked,
        )
    )


# ── all rules of a policy ────────────────────────────────────────────────────────────────────────────────────────────────────────────


MAX_NAMED = 8
"""The maximum number of omitted parts that a verdict names."""
MAX_SURVEYED = 100
"""Scores and clauses of filters that are examined together: each of them is compared with all others."""


def survey(compiled: CompiledPolicy) -> list[Answer]:
    """The verdicts about each rule of a policy being dead, and about each filter being implied by the others or rejecting every node.

    Where a clause rejects no node (the lint L201) or a filter every node (L202), the counterexample is a test that expects otherwise.
    The questions have a common budget of work. What it does not suffice for is in a last, unknown verdict. Raises UsageError for more than
    `MAX_SURVEYED` scores and clauses.
    """
    policy = compiled.policy
    count = len(policy.scores) + sum(len(rule.clauses) for rule in policy.filters)
    if count > MAX_SURVEYED:
        raise UsageError(
            f"policy {compiled.name} has {count:,} scores and clauses of filters; at most {MAX_SURVEYED} are examined together. "
            "Name a statement, for example --dead with the name of a rule"
        )
    side, _ = _side(compiled, {})
    budget = CommonBudget(MAX_TOGETHER)
    found: list[Answer] = []
    alive = []
    for rule in policy.filters:
        answer = budget.examined(f"filter {rule.name}", _n_expressions(compiled, rule), partial(_dead_filter, side, rule))
        found += [answer] if answer is not None else []
        if answer is None or answer.verdict is not Verdict.PROVED:
            alive.append(rule)
            found += _clauses(side, rule, budget)
    for score in policy.scores:
        answer = budget.examined(f"score {score.name}", _n_expressions(compiled, score), partial(_dead, side, score.name))
        found += [answer] if answer is not None else []
    if len(policy.filters) > 1:
        size = _n_expressions(compiled, *policy.filters)
        for rule in alive:
            about = f"filter {rule.name} against the others"
            answer = budget.examined(about, size, partial(_implied_by, side, rule.name))
            found += [answer] if answer is not None else []
    return [*found, *_left_out(budget)]


def _left_out(budget: CommonBudget) -> list[Answer]:
    """The statements for which the budget was too small, as one unknown verdict."""
    about = list(dict.fromkeys(budget.left_out))
    if not about:
        return []
    more = f" and {len(about) - MAX_NAMED:,} more" if len(about) > MAX_NAMED else ""
    because = (
        "not looked at: the rules before used up the budget of all rules together; "
        "name a statement for each of these, for example --dead with the name of a rule"
    )
    return [Answer(statement=f"{', '.join(about[:MAX_NAMED])}{more}", verdict=Verdict.UNKNOWN, because=because)]


def _n_expressions(compiled: CompiledPolicy, *found: typed.Filter | typed.Score) -> int:
    """The number of expressions in rules and in the lets that they read, each let once, and of the members of all sets of the policy."""
    lets = {let.name: let for let in compiled.policy.lets}
    own = typed.contents(typed.outermost(found))
    count, pending, known = own.operations + n_members(compiled), set(own.lets), set[str]()
    while pending:
        name = pending.pop()
        known.add(name)
        count += lets[name].contents.operations
        pending |= lets[name].contents.lets - known
    return count


def _dead_filter(side: Side, rule: typed.Filter) -> Answer:
    """The verdict about a filter being dead, with a test of L201 where it is."""
    answer = _never_rejects(side, f"filter {rule.name} rejects no node", (rule,), None)
    return _expected_otherwise(side, rule, answer, "L201", rejecting=False) if answer.verdict is Verdict.PROVED else answer


def _clauses(side: Side, rule: typed.Filter, budget: CommonBudget) -> list[Answer]:
    """Findings about a filter: it rejects all nodes, or a clause rejects none, or none that other clauses let pass."""
    found = []
    size = _n_expressions(side.text.compiled, rule)
    for number, clause in enumerate(rule.clauses if len(rule.clauses) > 1 else (), start=1):
        about = f"clause {number} of filter {rule.name}"
        text = f"{about} rejects no node"
        alone = budget.examined(about, size, partial(_proved, side, rule, f"{text} ({clause.span})", (clause,), ()))
        if alone is not None and alone.verdict is Verdict.PROVED:
            found.append(_expected_otherwise(side, rule, alone, "L201", rejecting=False))
            continue
        others = tuple(each for each in rule.clauses if each is not clause)
        text = f"{text} that the others let pass ({clause.span})"
        together = budget.examined(about, size, partial(_proved, side, rule, text, (clause,), others))
        found += [together] if together is not None and together.verdict is Verdict.PROVED else []
    text = f"filter {rule.name} rejects every node that it applies to"
    everything = budget.examined(f"filter {rule.name}", size, partial(_proved, side, rule, text, (), rule.clauses))
    if everything is not None and everything.verdict is Verdict.PROVED:
        found.append(_expected_otherwise(side, rule, everything, "L202", rejecting=True))
    return found


def _applied(encoder: Encoder, rule: typed.Filter) -> Condition:
    return both(rules.governs(encoder), rules.applies(encoder, rule, 0))


def _proved(side: Side, rule: typed.Filter, text: str, failing: Sequence[typed.Clause], passing: Sequence[typed.Clause]) -> Answer:
    """The verdict about a filter where it applies: these clauses never fail all while those pass. No counterexample is looked for."""

    def violations(encoders: Sequence[Encoder]) -> list[Condition]:
        fail = (negated(rules.clause_passes(encoders[0], clause, 0)) for clause in failing)
        passes = (rules.clause_passes(encoders[0], clause, 0) for clause in passing)
        return [both(_applied(encoders[0], rule), *fail, *passes)]

    def confirmed(_: Mapping[int, Trial], __: Example) -> None:
        return None

    return answer(
        Statement(text=text, sides=(side,), n_nodes=1, violations=violations, examples=lambda _: [], shown=_accepted, confirmed=confirmed)
    )


def _expected_otherwise(side: Side, rule: typed.Filter, proved: Answer, lint: str, *, rejecting: bool) -> Answer:
    """The proof of a lint with a test that fails because it expects otherwise, if one can be found."""

    def violations(encoders: Sequence[Encoder]) -> list[Condition]:
        return [_applied(encoders[0], rule), rules.governs(encoders[0])]

    def shown(example: Example, _: Sequence[Encoder]) -> list[list[str]]:
        return [[f"expect {quoted(example.nodes[0])} {'accepted' if rejecting else f'rejected by {rule.name}'}"]]

    def confirmed(trials: Mapping[int, Trial], example: Example) -> str | None:
        by_rule = rule.name in trials[0].rejected_by(example.nodes[0])
        return _fails(trials, 0, trials[0].attempt.governed and by_rule == rejecting)

    text = f"{proved.statement} ({lint})"
    found = answer(Statement(text=text, sides=(side,), n_nodes=1, violations=violations, shown=shown, confirmed=confirmed))
    return replace(proved, statement=text, counterexample=found.counterexample, fails_with=found.fails_with)


# ── which node wins ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def never_above(compiled: CompiledPolicy, never: str, above: str, pods: str | None = None) -> Answer:
    """The verdict about: no pod with `pods` goes to a node with `never` while a node with `above` can take it.

    The scores of Kubernetes count too, with their default weights. Raises PolicyError for a wrong condition, UsageError for one of pods
    that reads the node.
    """
    texts = {"--never": never, "--above": above, **({"--for": pods} if pods is not None else {})}
    side, conditions = _side(compiled, texts, frozenset({"--for"}))

    def about(encoder: Encoder) -> Condition:
        both_hold = both(encoder.true(conditions["--never"], Place(0)), encoder.true(conditions["--above"], Place(1)))
        return both(both_hold, encoder.true(conditions.get("--for"), FIRST_NODE), rules.accepts(encoder, 0), rules.accepts(encoder, 1))

    def violations(encoders: Sequence[Encoder]) -> list[Condition]:
        return [both(about(encoders[0]), rules.may_beat(encoders[0]))]

    def examples(encoders: Sequence[Encoder]) -> list[Condition]:
        return [both(about(encoders[0]), rules.beats(encoders[0], 0, 1, margin)) for margin in MARGINS] + violations(encoders)

    def shown(example: Example, _: Sequence[Encoder]) -> list[list[str]]:
        return [[f"expect {quoted(example.pod)} not on {quoted(example.nodes[0])}"]]

    def confirmed(trials: Mapping[int, Trial], example: Example) -> str | None:
        trial = trials[0]
        row, other = (trial.attempt.snapshot.row(name) for name in example.nodes)
        if row is None or other is None or trial.attempt.decision.node != example.nodes[0] or trial.rejected_by(example.nodes[1]):
            return None
        holds = (
            _true(trial, conditions["--never"], row)
            and _true(trial, conditions["--above"], other)
            and _true(trial, conditions.get("--for"), row)
        )
        return _fails(trials, 0, holds)

    def blocked(encoders: Sequence[Encoder]) -> str | None:
        return _grouping(encoders[0].policy)

    whose = f" for pods where {pods}" if pods is not None else ""
    text = f"nodes where {never} never win against nodes where {above}{whose}"
    return answer(
        Statement(
            text=text,
            sides=(side,),
            n_nodes=2,
            violations=violations,
            examples=examples,
            shown=shown,
            confirmed=confirmed,
            blocked=blocked,
        )
    )


def _grouping(policy: typed.Policy) -> str | None:
    """The part of a policy that is about several pods at once, which no statement about one pod covers, as text; None without one."""
    if policy.group is not None:
        return f"`group` ({policy.group.span}): where a pod goes depends on the other members of its group"
    if policy.permits:
        return f"`permit` ({policy.permits[0].span}): a placed pod may wait for others, and give its place back"
    return None


def _device_preferences(policy: typed.Policy) -> list[str]:
    """The texts of a policy's `prefer device`, in the order in which they apply."""
    return [f"{'' if each.when is None else describe(each.when)} = {describe(each.value)}" for each in policy.device_preferences]


def _ordering_devices(policy: typed.Policy) -> str | None:
    """The part of a policy that chooses devices, which no statement about nodes covers, or None."""
    first = next(iter(policy.device_preferences), None)
    return None if first is None else f"`prefer device` ({first.span}): which of a node's devices a pod gets"


MARGINS = (2.0, 0.0)
VICTIM = "running_1"
"""The only placed pod of an example of an eviction, as tests name it."""


def same_as(compiled: CompiledPolicy, other: CompiledPolicy) -> Answer:
    """The verdict about: two versions of a policy make the same decision for every pod in every cluster, with Kubernetes' default settings.

    Messages and names of rules may differ.
    """
    sides = (_side(compiled, {})[0], _side(other, {})[0])

    def violations(encoders: Sequence[Encoder]) -> list[Condition]:
        a, b = encoders
        governed = either(rules.governs(a), rules.governs(b))
        return [negated(same_truth(rules.accepts(a, 0), rules.accepts(b, 0))), *(both(governed, each) for each in rules.differences(a, b))]

    def examples(encoders: Sequence[Encoder]) -> list[Condition]:
        a, b = encoders
        feasible = both(*(rules.accepts(encoder, index) for encoder in encoders for index in range(2)))
        apart = [both(feasible, rules.beats(a, 0, 1, margin), rules.beats(b, 1, 0, margin)) for margin in MARGINS]
        return [negated(same_truth(rules.accepts(a, 0), rules.accepts(b, 0))), *apart, *rules.evictions(a, b)]

    def shown(example: Example, _: Sequence[Encoder]) -> list[list[str]]:
        first, second = map(quoted, example.nodes)
        pod = quoted(example.pod)
        accepted = [[f"expect {node} {what}"] for node in (first, second) for what in ("accepted", "rejected")]
        evicted = [[f"expect {VICTIM} evicted"]] if any(side.policy.victims for side in sides) else []
        return [*evicted, *accepted, [f"expect {pod} on {first}"], [f"expect {pod} on {second}"]]

    def alike(trials: Mapping[int, Trial], example: Example) -> bool:
        return trials[0].attempt.decision.node == trials[1].attempt.decision.node and all(
            bool(trials[0].rejected_by(name)) == bool(trials[1].rejected_by(name)) for name in example.nodes
        )

    def confirmed(trials: Mapping[int, Trial], example: Example) -> str | None:
        passing = [number for number, trial in trials.items() if trial.passed]
        return trials[1 - passing[0]].policy.source.name if len(passing) == 1 and not alike(trials, example) else None

    def blocked(_: Sequence[Encoder]) -> str | None:
        texts = [(*text_of_permits_and_groups(each.policy), *_device_preferences(each.policy)) for each in (compiled, other)]
        named = [({let.name: describe(let.value) for let in each.policy.lets}, each.params) for each in (compiled, other)]
        same = not any(texts) or (texts[0] == texts[1] and named[0] == named[1])
        why = (each for side in sides for each in (_grouping(side.policy), _ordering_devices(side.policy)))
        return None if same else next(each for each in why if each is not None)

    text = f"{sides[0].policy.source.name} and {sides[1].policy.source.name} decide alike"
    return answer(
        Statement(
            text=text,
            sides=sides,
            n_nodes=2,
            violations=violations,
            examples=examples,
            shown=shown,
            confirmed=confirmed,
            not_refutable=alike,
            blocked=blocked,
        )
    )
