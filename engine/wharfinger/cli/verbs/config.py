"""`wharf config print`: the settings that `wharf run` would have."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from wharfinger.cli import streams
from wharfinger.cli.run_flags import Flags, settings_of, taking_flags
from wharfinger.daemon import settings_file


class Action(Enum):
    """What to do with the settings."""

    PRINT = "print"


def _print(flags: Flags) -> int:
    """Print the settings of `wharf run` with the same flags, as a file for its --config; nothing is connected to."""
    streams.out(settings_file.written(settings_of(flags)))
    return 0


command = taking_flags(_print, action=Annotated[Action, typer.Argument(help="What to do with them.")])
