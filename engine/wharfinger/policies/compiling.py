"""Compiles typed policies with the given values of their params."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wharfinger.compiler import cost
from wharfinger.compiler.program import CompiledPolicy, compile_policy
from wharfinger.errors import UnknownObject
from wharfinger.language.report import wording
from wharfinger.language.semantics import typed


def compile_all(policies: Sequence[typed.Policy], params: Mapping[str, Any]) -> tuple[CompiledPolicy, ...]:
    """The compiled policies. A value in `params` is set wherever a policy declares it: `name` in every policy, `policy.name` in one.

    Raises UnknownObject for a param that no policy has, PolicyError for a policy that costs too much to decide.
    """
    known = {name for policy in policies for param in policy.params for name in (param.name, f"{policy.name}.{param.name}")}
    for name in params:
        if name not in known:
            meant = wording.closest(name, known)
            raise UnknownObject(f"no policy has a param {name}" + (f"; did you mean {meant}?" if meant else ""))
    return tuple(cost.affordable(compile_policy(policy, own_params(policy, params))) for policy in policies)


def own_params(policy: typed.Policy, params: Mapping[str, Any]) -> dict[str, Any]:
    """The values among `params` that are for one policy; `policy.name` takes precedence over `name`."""
    declared = [param.name for param in policy.params]
    own = {name: params[name] for name in declared if name in params}
    return own | {name: params[f"{policy.name}.{name}"] for name in declared if f"{policy.name}.{name}" in params}
