"""What policies cost to decide, as `wharf check --cost` prints it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from wharfinger.compiler.cost import Cost, RuleCost
from wharfinger.compiler.evaluation.selections import Lookup
from wharfinger.runtime import layout

HEAD = ("per node", "kept", "per placed pod", "per template", "selections", "decided for")
WORDS = {Lookup.KEPT: "kept", Lookup.INDEX: "index", Lookup.PODS: "each pod once", Lookup.SCAN: "scan"}


def text(costs: Mapping[str, Cost]) -> str:
    """One table for each policy, by its name, with a line for each rule and one for all together."""
    return "\n".join(_table(name, cost) for name, cost in costs.items())


def _table(name: str, cost: Cost) -> str:
    rows = [(name, *HEAD), *(_row(rule.rule, rule) for rule in cost.rules), _row("together", cost)]
    table = layout.columns(rows, right=frozenset({1, 2, 3, 4}))
    return table + (f"preemption asks {layout.count(cost.evicting, 'operation')} of a pod that may be evicted\n" if cost.evicting else "")


def _row(title: str, cost: Cost | RuleCost) -> tuple[str, ...]:
    numbers = (f"{number:,}" for number in (cost.operations, cost.kept, cost.asked, cost.counted))
    lookups = Counter(selection.lookup for selection in cost.selections)
    answered = ", ".join(f"{count} {WORDS[lookup]}" for lookup, count in lookups.items())
    return (title, *numbers, answered or "none", "each pod" if cost.per_pod else "each template")


def as_json(findings: str, costs: Mapping[str, Cost]) -> str:
    """The findings, as JSON, with what the policies cost."""
    whole = json.loads(findings) | {"cost": [_plain(name, cost) for name, cost in costs.items()]}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _plain(name: str, cost: Cost) -> dict[str, Any]:
    rules = [{"rule": rule.rule, "line": rule.span.line, **_numbers(rule)} for rule in cost.rules]
    return {"policy": name, "rules": rules, "together": _numbers(cost), "evicting": cost.evicting}


def _numbers(cost: Cost | RuleCost) -> dict[str, Any]:
    return {
        "perNode": cost.operations,
        "kept": cost.kept,
        "perPlacedPod": cost.asked,
        "perTemplate": cost.counted,
        "selections": [
            {"line": each.span.line, "column": each.span.column, "lookup": WORDS[each.lookup], "operations": each.operations}
            for each in cost.selections
        ],
        "decidedFor": "pod" if cost.per_pod else "template",
    }
