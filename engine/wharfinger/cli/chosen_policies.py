"""The policies and plugin settings that `--policy`, `--param`, `--config` and `--scheduler-name` choose."""

from __future__ import annotations

from collections.abc import Sequence

from wharfinger.builtins import CATALOGUE
from wharfinger.cli import options, streams
from wharfinger.compiler.program import CompiledPolicy
from wharfinger.errors import UsageError
from wharfinger.framework.configuration.chain_settings import ChainConfig
from wharfinger.language import load
from wharfinger.language.report.diagnostics import PolicyError
from wharfinger.language.semantics import typed
from wharfinger.policies import candidate
from wharfinger.scheduler import configuration_file


def loaded(paths: Sequence[str] | None) -> list[typed.Policy]:
    """The policies of files and folders; raises PolicyError with every finding where one does not compile."""
    found, diagnostics = load.load_policies(options.existing(paths), CATALOGUE)
    if diagnostics.has_errors:
        raise PolicyError(diagnostics)
    return [policy for policy in found if policy is not None]


def compiled(paths: Sequence[str] | None, assignments: Sequence[str] | None) -> tuple[CompiledPolicy, ...]:
    """The compiled policies of `--policy` with the values of `--param`; none when no path is given."""
    return candidate.compile_all(loaded(paths) if paths else [], options.params(assignments))


def chosen(path: str | None, scheduler_name: str | None) -> ChainConfig | None:
    """The settings of `--config` and `--scheduler-name`, None for the defaults; notes about the file go to standard error."""
    if path is None:
        if scheduler_name is not None:
            raise UsageError("--scheduler-name chooses a profile of --config; give the file too")
        return None
    profiles = configuration_file.read(path)
    settings = profiles.of(scheduler_name)
    for note in profiles.notes:
        streams.complain(f"note: {path}: {note}")
    return settings
