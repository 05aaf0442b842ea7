"""The table of layers in docs/architecture.md has the layers that `make check` holds to, in their order."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)


def test_the_table_has_every_layer_in_its_order():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")

    assert ROW.findall((ROOT / "docs" / "architecture.md").read_text("utf-8")) == [name for layer in layers for name in layer.split(" | ")]
