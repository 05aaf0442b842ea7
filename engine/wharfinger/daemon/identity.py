"""What this process calls itself in leases and events."""

from __future__ import annotations

import secrets
import socket


def identity() -> str:
    """A name that no other process has: the host, and something random, as kube-scheduler makes it."""
    return f"{socket.gethostname()}_{secrets.token_hex(8)}"
