"""The policies and plugin settings that `--policy`, `--param`, `--config` and `--scheduler-name` choose.

The parser, the checker and the reader of configurations are imported only if a flag needs them: a command without policies starts in three
quarters of the time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from wharfinger.cli import options, streams
from wharfinger.errors import UnknownObject, UsageError
from wharfinger.language.report.diagnostics import PolicyError

if TYPE_CHECKING:
    from wharfinger.compiler.program import CompiledPolicy
    from wharfinger.framework.chain_settings import ChainConfig
    from wharfinger.language.semantics import typed
    from wharfinger.simulate.replay import Others


def loaded(paths: Sequence[str] | None) -> list[typed.Policy]:
    """The policies of files and folders; raises PolicyError with every finding where one does not compile."""
    from wharfinger.builtins import CATALOGUE  # noqa: PLC0415 — see above
    from wharfinger.language import load  # noqa: PLC0415 — see above

    found, diagnostics = load.load_policies(options.existing(paths), CATALOGUE)
    if diagnostics.has_errors:
        raise PolicyError(diagnostics)
    return [policy for policy in found if policy is not None]


def compiled(paths: Sequence[str] | None, assignments: Sequence[str] | None) -> tuple[CompiledPolicy, ...]:
    """The compiled policies of `--policy` with the values of `--param`; none when no path is given."""
    params = options.params(assignments)
    if not paths:
        if params:
            raise UnknownObject(f"no policy has a param {next(iter(params))}; give the policy too")
        return ()
    from wharfinger.policies import candidate  # noqa: PLC0415 — see above

    return candidate.compile_all(loaded(paths), params)


def chosen(path: str | None, scheduler_name: str | None) -> ChainConfig | None:
    """The settings of `--config` and `--scheduler-name`, None for the defaults; notes about the file go to standard error."""
    if path is None:
        if scheduler_name is not None:
            raise UsageError("--scheduler-name chooses a profile of --config; give the file too")
        return None
    from wharfinger.framework import kubernetes_profiles  # noqa: PLC0415 — see above

    profiles = kubernetes_profiles.profiles_of(path)
    settings = profiles.of(scheduler_name)
    for note in profiles.notes:
        streams.print_stderr(f"note: {path}: {note}")
    return settings


def others_for_log(paths: list[str] | None, assignments: list[str] | None, profile: str | None) -> Others | None:
    """The chain to compare with that of each decision of a log; None if no other policies are given.

    `profile` is the only one that they are for, None for all. Params without policies are for those of the log. Raises UsageError for a
    profile without policies, and when it is first called for a param that no policy of the log has.
    """
    if not paths and not assignments:
        if profile is not None:
            raise UsageError("--scheduler-name selects the profile for --policy and --param; give one of them too")
        return None
    from wharfinger.simulate import replay  # noqa: PLC0415 — see above

    if paths:
        given = compiled(paths, assignments)
        return replay.others(lambda _chain: given, profile)
    params = options.params(assignments)
    return replay.others(lambda chain: _with_params(chain.policies, params), profile)


def _with_params(policies: Sequence[CompiledPolicy], params: Mapping[str, str]) -> list[CompiledPolicy]:
    """The policies of the log with other values of params; UsageError for a param that none has."""
    from wharfinger.compiler.program import compile_policy  # noqa: PLC0415 — see above
    from wharfinger.policies.candidate import own_params  # noqa: PLC0415 — see above

    known = {name for policy in policies for param in policy.params for name in (param, f"{policy.name}.{param}")}
    for name in params:
        if name not in known:
            raise UsageError(f"--param {name}: no policy of the log has it; there are {', '.join(sorted(known)) or 'none'}")
    return [compile_policy(policy.policy, {**policy.params, **own_params(policy.policy, params)}) for policy in policies]
