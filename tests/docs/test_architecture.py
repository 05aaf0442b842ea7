"""The table of layers in docs/architecture.md has the layers that `make check` holds to, in their order; decisions are numbered.

What docstrings and comments call by the name of its module is there.
"""

import pkgutil
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "engine" / "wharfinger"
ROW = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)
REFERENCE = re.compile(r"`([a-z_]+(?:\.\w+)+)`")


def layers() -> list[str]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    found = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [name for layer in found for name in layer.split(" | ")]


def exists(reference: str) -> bool:
    try:
        pkgutil.resolve_name(f"wharfinger.{reference}")
    except (ImportError, AttributeError):
        return False
    return True


def test_the_table_has_every_layer_in_its_order():
    assert ROW.findall((ROOT / "docs" / "architecture.md").read_text("utf-8")) == layers()


def test_modules_that_the_source_mentions_exist():
    packages = {name for name in layers() if (SOURCE / name).is_dir()}
    found = {
        (reference, path.relative_to(SOURCE).as_posix())
        for path in SOURCE.rglob("*.py")
        for reference in REFERENCE.findall(path.read_text("utf-8"))
        if reference.partition(".")[0] in packages and not reference.endswith(".py")
    }

    assert len(found) > 20
    assert [each for each in sorted(found) if not exists(each[0])] == []


def test_decisions_are_numbered_one_by_one():
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))

    assert [page.name[:4] for page in pages] == [f"{number:04}" for number in range(1, len(pages) + 1)]
    assert [page.read_text("utf-8").partition(".")[0] for page in pages] == [f"# {number}" for number in range(1, len(pages) + 1)]
