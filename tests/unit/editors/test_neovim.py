"""Neovim shows what `wharf lsp` finds, set up as docs/writing/editors.md says."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import blocks
from tests.tools import needs

ROOT = Path(__file__).parents[3]
BLOCKS = [block for block in blocks(ROOT / "docs" / "writing" / "editors.md") if block.language in {"lua", "sh"}]
COPY = next(block.text for block in BLOCKS if "site/pack/wharfinger" in block.text)
RECENT, OLD = (block.text for block in BLOCKS if block.language == "lua")
"""The settings for Neovim 0.11 or newer, and for an older one."""
TEXT = 'policy "x"\n\nfilter f { require node.free.cup > 1cpu else "no" }\n'
ASK = """
vim.wait(60000, function() return #vim.diagnostic.get(0) > 0 end, 50)
local found = {}
for _, each in ipairs(vim.diagnostic.get(0)) do table.insert(found, { each.lnum + 1, each.col + 1, each.message }) end
local shown = { found = found, filetype = vim.bo.filetype, colour = vim.fn.synIDattr(vim.fn.synID(3, 1, 1), "name") }
vim.fn.writefile({ vim.fn.json_encode(shown) }, "shown.json")
vim.cmd("qall!")
"""


def settings_of(nvim):
    """The settings that the page has for the version of this program."""
    printed = subprocess.run([nvim, "--version"], capture_output=True, text=True, check=True).stdout
    major, minor = map(int, re.match(r"NVIM v(\d+)\.(\d+)", printed).groups())
    return RECENT if (major, minor) >= (0, 11) else OLD


def test_neovim_shows_a_finding(tmp_path):
    nvim = needs("nvim")
    environment = {"HOME": str(tmp_path), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "engine")}
    subprocess.run(["sh", "-e", "-c", COPY], cwd=ROOT, env=environment, check=True)
    (tmp_path / ".config" / "nvim").mkdir(parents=True)
    (tmp_path / ".config" / "nvim" / "init.lua").write_text(settings_of(nvim))
    (tmp_path / "x.policy").write_text(TEXT)
    (tmp_path / "ask.lua").write_text(ASK)

    command = [nvim, "--headless", "x.policy", "-c", "luafile ask.lua"]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120)

    assert ran.stderr == ""
    shown = json.loads((tmp_path / "shown.json").read_text())
    ((line, column, message),) = shown["found"]
    assert (line, column, shown["filetype"], shown["colour"]) == (3, 30, "policy", "policyDeclarations")
    assert "cup" in message
