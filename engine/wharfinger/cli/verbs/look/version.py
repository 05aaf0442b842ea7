"""`wharf version`."""

from __future__ import annotations

import sys

import wharfinger


def command() -> int:
    """Print the version."""
    sys.stdout.write(f"wharfinger {wharfinger.__version__}\n")
    return 0
