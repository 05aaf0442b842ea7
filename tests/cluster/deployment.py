"""deploy/ on a real API server."""

from __future__ import annotations

from pathlib import Path

from tests.cluster import custom

FOLDER = Path(__file__).parents[2] / "deploy"


def apply(control_plane, folder=FOLDER):
    """The output of kubectl; the definitions are served when it returns."""
    said = control_plane.kubectl("apply", "--validate=strict", "-k", folder)
    custom.wait_served(control_plane)
    return said


def remove(control_plane, folder=FOLDER):
    """Takes everything away; custom resources lose their finalizers, as no controller may be there to honour them."""
    custom.uninstall(control_plane)
    control_plane.kubectl("delete", "--ignore-not-found", "--timeout=60s", "-k", folder)
