"""`wharf check`: what is wrong with policies."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Annotated

import typer

from wharfinger.builtins import CATALOGUE
from wharfinger.cli import cost_table, options, streams
from wharfinger.compiler import cost
from wharfinger.errors import UsageError
from wharfinger.language import load, render, typed
from wharfinger.language.diagnostics import Diagnostics


class Format(Enum):
    """How findings are printed."""

    HUMAN = "human"
    PLAIN = "plain"
    JSON = "json"


def command(
    paths: options.Paths = None,
    output: Annotated[Format, typer.Option("--format", help="How findings are printed.")] = Format.HUMAN,
    with_cost: Annotated[bool, typer.Option("--cost", help="Print also what each rule costs to decide.")] = False,
) -> int:
    """Print what is wrong with policies: exit code 0 when nothing is, 1 when something is."""
    policies, diagnostics = load.load_policies(options.existing(paths), CATALOGUE)
    costs = _costs([policy for policy in policies if policy is not None], diagnostics)
    text = render.render(diagnostics, format=output.value, color=streams.colors(sys.stdout))
    if with_cost:
        text = cost_table.as_json(text, costs) if output is Format.JSON else text + cost_table.text(costs)
    streams.out(text)
    refused = [] if diagnostics.has_errors else list(_refused(policies))
    for sentence in refused:
        streams.complain(sentence)
    return 1 if len(diagnostics) or refused else 0


def _costs(policies: Sequence[typed.Policy], diagnostics: Diagnostics) -> dict[str, cost.Cost]:
    """What policies cost, by name; whatever they may not cost goes to `diagnostics`."""
    costs = {policy.name: cost.of_policy(policy) for policy in policies}
    for policy in policies:
        cost.report(policy, diagnostics, costs[policy.name])
    return costs


def _refused(policies: Sequence[typed.Policy | None]) -> Iterator[str]:
    """What plugins say against the values of their arguments in `base kubernetes`, each with its place."""
    entries = [entry for policy in policies if policy is not None for entry in policy.base if entry.arguments]
    if not entries:
        return
    from wharfinger.framework import registry  # noqa: PLC0415 — most policies can be checked without the plugins
    from wharfinger.framework.configuration import chain_settings  # noqa: PLC0415 — most policies can be checked without the plugins

    for entry in entries:
        try:
            chain_settings.arguments(registry.default_registry()[entry.plugin], entry.arguments)
        except UsageError as error:
            yield f"{entry.span}: {error}"
