"""The table of settings in `docs/operating/running.md`, made from their definitions."""

from __future__ import annotations

from tests.reference_tables import SECTION, table
from wharfinger.daemon.settings import Settings
from wharfinger.daemon.settings_fields import Setting, settings_of


def filled(text: str) -> str:
    """The page with its table written again."""
    return SECTION.sub(lambda found: f"{found[1]}\n{settings()}\n\n{found[3]}", text)


def settings() -> str:
    """Every field of the document with what it means."""
    rows = [
        (f"`{'.'.join(found.path)}`", _meaning(found)) for found in settings_of(Settings) if found.path[0] not in {"apiVersion", "kind"}
    ]
    return table(("field", "meaning"), rows)


def _meaning(found: Setting) -> str:
    flag = "" if found.flag is None else f" `{found.flag.name.partition('/')[0]}`"
    return found.help + flag
