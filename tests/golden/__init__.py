"""Outputs kept as files. `WHARF_GOLDEN=write pytest …` writes what is printed now; review the difference before committing it."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent


def assert_golden(name: str, printed: str) -> None:
    """Fail where `printed` is not what `tests/golden/<name>` holds."""
    path = FOLDER / name
    if os.environ.get("WHARF_GOLDEN") == "write":
        path.write_text(printed, encoding="utf-8")
    assert printed == path.read_text(encoding="utf-8")
