"""Other policies for the decisions of a log, chosen by `--policy`, `--param` and `--scheduler-name`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wharfinger.cli import chosen_policies, options
from wharfinger.compiler.program import CompiledPolicy, compile_policy
from wharfinger.errors import UsageError
from wharfinger.policies.candidate import own_params
from wharfinger.simulate import replay
from wharfinger.simulate.replay import Others


def others(paths: list[str] | None, assignments: list[str] | None, profile: str | None) -> Others | None:
    """The chain to compare with each of a decision log's; None if no other policies are given.

    `profile` is the only one that they are for, None for all. Params without policies are for those of the log. Raises UsageError for a
    profile without policies, and when it is first called for a param that no policy of the log has.
    """
    if not paths and not assignments:
        if profile is not None:
            raise UsageError("--scheduler-name says which profile --policy and --param are for; give one of them too")
        return None
    if paths:
        given = chosen_policies.compiled(paths, assignments)
        return replay.others(lambda _chain: given, profile)
    params = options.params(assignments)
    return replay.others(lambda chain: _with_params(chain.policies, params), profile)


def _with_params(policies: Sequence[CompiledPolicy], params: Any) -> list[CompiledPolicy]:
    """The policies of the log with other values of params; UsageError for a param that none has."""
    known = {name for policy in policies for param in policy.params for name in (param, f"{policy.name}.{param}")}
    for name in params:
        if name not in known:
            raise UsageError(f"--param {name}: no policy of the log has it; there are {', '.join(sorted(known)) or 'none'}")
    return [compile_policy(policy.policy, {**policy.params, **own_params(policy.policy, params)}) for policy in policies]
