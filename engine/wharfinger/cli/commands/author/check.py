"""`wharf check`: checks policies, and with `--cost` prints what they cost to decide."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import typer

from wharfinger.builtins import CATALOGUE
from wharfinger.cli import options, pipeline, streams
from wharfinger.cli.pipeline import Finding
from wharfinger.compiler import cost
from wharfinger.compiler.cost import Cost, RuleCost
from wharfinger.compiler.selections import Lookup
from wharfinger.errors import UsageError
from wharfinger.language import load
from wharfinger.language.report import render, wording
from wharfinger.language.report.diagnostics import Diagnostics
from wharfinger.language.semantics import typed


def wharf_check(
    paths: options.Paths = None,
    output: Annotated[Literal["text", "plain", "json", "sarif", "github"], options.FORMAT] = "text",
    with_cost: Annotated[bool, typer.Option("--cost", help="Print the cost of each rule in a decision too.")] = False,
) -> int:
    """Check policies: types, missing values, ranges of scores, costs. Exit code 1 if there is an error or a warning.

    $ wharf check policies/
    """
    if with_cost and output == "sarif":
        raise UsageError("--cost and --format sarif exclude each other: SARIF has no place for costs")
    policies, diagnostics = load.load_policies(options.existing(paths), CATALOGUE)
    costs = _costs([policy for policy in policies if policy is not None], diagnostics)
    refused = [] if diagnostics.has_errors else list(_refused(policies))
    if output in PIPELINES:
        text = PIPELINES[output]([*pipeline.of_diagnostics(diagnostics), *refused])
    else:
        text = render.render(diagnostics, format=output, color=streams.colors(sys.stdout))
    if with_cost:
        text = with_costs(text, costs) if output == "json" else text + cost_tables(costs)
    streams.out(text)
    if output not in PIPELINES:
        for finding in refused:
            streams.print_stderr(f"{finding.span}: {finding.message}")
    return 1 if len(diagnostics) or refused else 0


PIPELINES = {"sarif": pipeline.sarif, "github": pipeline.github}


def _costs(policies: Sequence[typed.Policy], diagnostics: Diagnostics) -> dict[str, cost.Cost]:
    """The costs of policies by name; costs above the limits are added to `diagnostics`."""
    costs = {policy.name: cost.of_policy(policy) for policy in policies}
    for policy in policies:
        cost.report(policy, diagnostics, costs[policy.name])
    return costs


def _refused(policies: Sequence[typed.Policy | None]) -> Iterator[Finding]:
    """The errors of plugins about their arguments in `base kubernetes`."""
    with_arguments = [policy for policy in policies if policy is not None and any(entry.arguments for entry in policy.base)]
    if not with_arguments:
        return
    from wharfinger.framework import chain_settings, registry  # noqa: PLC0415 — most policies can be checked without the plugins

    for policy in with_arguments:
        for span, sentence in chain_settings.refused_arguments(policy, registry.default_registry()):
            yield Finding(rule=pipeline.ARGUMENT, message=sentence, span=span)


HEAD = ("per node", "kept", "per placed pod", "per template", "selections", "decided for")
WORDS = {Lookup.KEPT: "kept", Lookup.INDEX: "index", Lookup.PODS: "each pod once", Lookup.SCAN: "scan"}


def cost_tables(costs: Mapping[str, Cost]) -> str:
    """One table for each policy, by its name, with a line for each rule and one for all together."""
    return "\n".join(_cost_table(name, cost) for name, cost in costs.items())


def _cost_table(name: str, cost: Cost) -> str:
    rows = [(name, *HEAD), *(_cost_row(rule.rule, rule) for rule in cost.rules), _cost_row("together", cost)]
    table = wording.columns(rows, right=frozenset({1, 2, 3, 4}))
    for amount, unit, of in (
        (cost.evicting, "operation", "preemption asks {} of a pod that may be evicted"),
        (cost.grouping, "operation", "group asks {} of each pod"),
        (cost.instructions, "instruction", "regular expressions have {}"),
    ):
        if amount:
            table += of.format(wording.count(amount, unit)) + "\n"
    return table


def _cost_row(title: str, cost: Cost | RuleCost) -> tuple[str, ...]:
    numbers = (f"{number:,}" for number in (cost.operations, cost.kept, cost.asked, cost.counted))
    lookups = Counter(selection.lookup for selection in cost.selections)
    answered = ", ".join(f"{count} {WORDS[lookup]}" for lookup, count in lookups.items())
    return (title, *numbers, answered or "none", "each pod" if cost.per_pod else "each template")


def with_costs(findings: str, costs: Mapping[str, Cost]) -> str:
    """The findings, as JSON, with what the policies cost."""
    whole = json.loads(findings) | {"cost": [_cost_plain(name, cost) for name, cost in costs.items()]}
    return streams.json_text(whole)


def _cost_plain(name: str, cost: Cost) -> dict[str, Any]:
    rules = [{"rule": rule.rule, "line": rule.span.line, **_numbers(rule)} for rule in cost.rules]
    apart = {"evicting": cost.evicting, "grouping": cost.grouping, "instructions": cost.instructions}
    return {"policy": name, "rules": rules, "together": _numbers(cost), **apart}


def _numbers(cost: Cost | RuleCost) -> dict[str, Any]:
    return {
        **cost.amounts(),
        "selections": [
            {"line": each.span.line, "column": each.span.column, "lookup": WORDS[each.lookup], "operations": each.operations}
            for each in cost.selections
        ],
    }
