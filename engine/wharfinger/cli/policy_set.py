"""Policies as the command line names them: loaded, typed, compiled."""

from __future__ import annotations

from collections.abc import Sequence

from wharfinger.builtins import CATALOGUE
from wharfinger.cli import options
from wharfinger.compiler.program import CompiledPolicy
from wharfinger.language import load, typed
from wharfinger.language.diagnostics import PolicyError
from wharfinger.runtime import policies


def loaded(paths: Sequence[str] | None) -> list[typed.Policy]:
    """The policies of files and folders; raises PolicyError with every finding where one does not compile."""
    found, diagnostics = load.load_policies(options.existing(paths), CATALOGUE)
    if diagnostics.has_errors:
        raise PolicyError(diagnostics)
    return [policy for policy in found if policy is not None]


def compiled(paths: Sequence[str] | None, assignments: Sequence[str] | None) -> tuple[CompiledPolicy, ...]:
    """The compiled policies of `--policy` with the values of `--param`; none when no path is given."""
    return policies.compile_all(loaded(paths) if paths else [], options.params(assignments))
