"""The table of layers in docs/architecture.md has the layers that `make check` holds to, in their order; decisions are numbered."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)


def test_the_table_has_every_layer_in_its_order():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")

    assert ROW.findall((ROOT / "docs" / "architecture.md").read_text("utf-8")) == [name for layer in layers for name in layer.split(" | ")]


def test_decisions_are_numbered_one_by_one():
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))

    assert [page.name[:4] for page in pages] == [f"{number:04}" for number in range(1, len(pages) + 1)]
    assert [page.read_text("utf-8").partition(".")[0] for page in pages] == [f"# {number}" for number in range(1, len(pages) + 1)]
