"""Profiles of the settings to chains of plugins: everything that can be wrong with a policy is found before anything is connected to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from wharfinger.builtins import CATALOGUE
from wharfinger.compiler.program import CompiledPolicy
from wharfinger.daemon.settings import Profile, Settings
from wharfinger.errors import UsageError
from wharfinger.framework.chain import Chain, assemble
from wharfinger.framework.configuration.chain_settings import ChainConfig
from wharfinger.language import load, partner
from wharfinger.language.diagnostics import PolicyError
from wharfinger.runtime import configuration_file, policies

Note = Callable[[str], None]


def chains_of(settings: Settings, note: Note) -> Mapping[str, Chain]:
    """The chain of each scheduler name. PolicyError with every finding, or UsageError; remarks go to `note`."""
    return {profile.scheduler_name: assemble(compiled(profile), chain_config(profile, note)) for profile in settings.profiles}


def compiled(profile: Profile) -> tuple[CompiledPolicy, ...]:
    """The policies of a profile with its params; PolicyError with every finding, UsageError for a path that is not there."""
    for path in profile.policies:
        if fault := _fault_of(path):
            raise UsageError(f"profile {profile.scheduler_name}: {path}: {fault}")
    if not profile.policies:
        return policies.compile_all((), profile.params)
    found, diagnostics = load.load_policies(list(profile.policies), CATALOGUE)
    if diagnostics.has_errors:
        raise PolicyError(diagnostics)
    return policies.compile_all([policy for policy in found if policy is not None], profile.params)


def _fault_of(path: str) -> str:
    """Why a path cannot be followed as a file or folder of policies, "" if it can. Nothing is opened: a pipe would wait for its writer."""
    found = Path(path)
    if not found.exists():
        return "no such file or folder"
    if found.is_dir():
        empty = not (found / partner.NONE_MEANT).exists() and not any(found.rglob(f"*{partner.SUFFIX}"))
        return f"no *{partner.SUFFIX} files in this folder; where none is meant, a file {partner.NONE_MEANT} says so" if empty else ""
    if not found.is_file():
        return "no regular file, so nobody can tell when it changes"
    return "" if path.endswith(partner.SUFFIX) else f"only files whose names end in {partner.SUFFIX} are read; rename it"


def chain_config(profile: Profile, note: Note) -> ChainConfig | None:
    """The settings of the built-in plugins for a profile: in the file, the profile of the same name or else its only one."""
    path = profile.kube_scheduler_configuration
    if path is None:
        return None
    found = configuration_file.read(path)
    for remark in found.notes:
        note(f"{path}: {remark}")
    name = profile.scheduler_name if profile.scheduler_name in found.settings else None
    try:
        return found.of(name)
    except UsageError as error:
        raise UsageError(f"{path}: {error}; profile {profile.scheduler_name} needs one of its own name there") from error
