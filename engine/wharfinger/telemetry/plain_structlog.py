"""structlog, imported without rich.

If it finds rich, it imports it for tracebacks in colours, which are never made here: fifty modules at every start. It goes without where
there is none, and a module that is None in `sys.modules` is one that cannot be imported (importlib's own rule).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def _without(module: str) -> Iterator[None]:
    if module in sys.modules:
        yield  # it is there already and costs nothing
        return
    absent: dict[str, None] = {module: None}
    vars(sys)["modules"].update(absent)
    try:
        yield
    finally:
        del sys.modules[module]


with _without("rich"):
    import structlog

__all__ = ["structlog"]
