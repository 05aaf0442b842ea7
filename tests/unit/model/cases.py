"""The answers of Kubernetes' own libraries, see tests/cases/model/README.md."""

import gzip
import json
from pathlib import Path
from typing import Any

CASES = Path(__file__).parents[2] / "cases" / "model"


def lines(name: str) -> list[Any]:
    path = CASES / name
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    found = [json.loads(line) for line in text.splitlines()]
    assert found, f"{name} holds no cases"
    return found
