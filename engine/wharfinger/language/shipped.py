"""The policies that ship with Wharfinger, and how messages name them."""

from __future__ import annotations

from pathlib import Path


def shipped_policies() -> Path:
    """The folder of the policies that ship with Wharfinger: inside the installed package, or at the top of a checkout."""
    package = Path(__file__).parents[1]
    installed = package / "shipped_policies"
    return installed if installed.is_dir() else package.parent.parent / "policies"


def shown_place(place: str) -> str:
    """A place in a file for messages: a shipped policy is `policies/…`, wherever the package is installed."""
    folder = f"{shipped_policies()}/"
    return f"policies/{place.removeprefix(folder)}" if place.startswith(folder) else place
