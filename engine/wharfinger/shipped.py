"""Where the policies are that ship with Wharfinger: in the installed package, or at the top of a checkout."""

from __future__ import annotations

from pathlib import Path


def policies() -> Path:
    """The folder of the shipped policies: inside the installed package, or at the top of a checkout."""
    package = Path(__file__).parent
    installed = package / "shipped_policies"
    return installed if installed.is_dir() else package.parent.parent / "policies"


def shown(place: str) -> str:
    """A place in a file for messages: a shipped policy is `policies/…`, wherever the package is installed."""
    folder = f"{policies()}/"
    return f"policies/{place.removeprefix(folder)}" if place.startswith(folder) else place
