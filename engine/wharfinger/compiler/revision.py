"""What identifies a compiled policy: a hash of everything that decides.

Two files that differ in comments, layout or tests have one revision; a changed param, or a changed let of an import, gives another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from wharfinger.language import typed
from wharfinger.language.describe import describe, value_text
from wharfinger.language.types import Type


def revision(policy: typed.Policy, params: Mapping[str, Any]) -> str:
    """The sha256 of the canonical text of a policy and the values of its params, 64 hexadecimal digits."""
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
    for rule in policy.filters:
        yield f"filter {rule.name} when {_text(rule.when)}"
        yield from (_clause(clause) for clause in rule.clauses)
    yield from (_score(rule) for rule in policy.scores)
    for entry in policy.base:
        yield f"base {entry.plugin} weight {_text(entry.weight)} with {entry.arguments!r}"
    yield f"quantum {sorted(policy.quantum.items())!r}"
    yield from (f"tie_break {describe(key.value)} {key.descending}" for key in policy.tie_break)
    yield from (f"victim {describe(rule.condition)} missing {rule.missing_evicts}" for rule in policy.victims)


def _text(expr: typed.Expr | None) -> str:
    return "-" if expr is None else describe(expr)


def _value_text(value: Any, type_: Type) -> str:
    return value_text(value, type_.element or type_.kind)


def _clause(clause: typed.Clause) -> str:
    message = "".join(part if isinstance(part, str) else f"{{{describe(part)}}}" for part in clause.message.parts)
    return f"require {describe(clause.condition)} else {message!r} missing {clause.missing_passes}"


def _score(rule: typed.Score) -> str:
    how = f"{rule.normalize.value} {_text(rule.min_spread)} {rule.on_missing} {_text(rule.missing_points)}"
    return f"score {rule.name} tier {rule.tier} weight {_text(rule.weight)} when {_text(rule.when)} = {describe(rule.value)} {how}"
