"""`wharf config print`: the settings that `wharf run` would have."""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import Annotated

import typer

from wharfinger.cli import streams
from wharfinger.cli.run_flags import taking_settings
from wharfinger.daemon.settings import Settings, settings_text


class Action(Enum):
    """What to do with the settings."""

    PRINT = "print"


@partial(taking_settings, action=Annotated[Action, typer.Argument(help="What to do with them.")])
def command(settings: Settings) -> int:
    """Print the settings of `wharf run` with the same flags, as a file for its --config; nothing is connected to."""
    streams.out(settings_text(settings))
    return 0
