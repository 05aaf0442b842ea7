"""Settings of the built-in chain as the command line names them: a file, and one of its profiles."""

from __future__ import annotations

from wharfinger.cli import streams
from wharfinger.errors import UsageError
from wharfinger.framework.configuration.chain_settings import ChainConfig
from wharfinger.runtime import configuration_file


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
