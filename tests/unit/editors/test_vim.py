"""Vim loads the syntax file without an error, and colours a policy by it."""

import os
import subprocess
from pathlib import Path

from tests.tools import needs

VIM = Path(__file__).parents[3] / "editors" / "vim"
EXAMPLE = """# a comment
filter room { require node.free.memory > 2Gi else "room" }
tie_break node.pod_count desc
"""
WANTED = {
    (1, 3): "policyComment",
    (2, 1): "policyDeclarations",
    (2, 15): "policyKeywords",
    (2, 23): "policySubjects",
    (2, 28): "policyMember",
    (2, 42): "policyNumber",
    (2, 52): "policyString",
    (3, 1): "policyDeclarations",
    (3, 26): "policyKeywords",
}


def test_vim_colours_a_policy(tmp_path):
    (tmp_path / "room.policy").write_text(EXAMPLE)
    asked = "\n".join(f"call add(found, synIDattr(synID({line}, {column}, 1), 'name'))" for line, column in WANTED)
    steps = [f"set runtimepath^={VIM}", "filetype plugin on", "syntax on", "edit room.policy", "let found = []", asked]
    script = "\n".join([*steps, "call writefile(found + [v:errmsg], 'found')", "qall!", ""])
    (tmp_path / "script.vim").write_text(script)
    subprocess.run(
        [needs("vim"), "-N", "-u", "NONE", "-es", "-S", "script.vim"],
        cwd=tmp_path,
        env=os.environ | {"HOME": str(tmp_path)},
        check=False,
        timeout=60,
    )
    assert (tmp_path / "found").read_text().splitlines() == [*WANTED.values(), ""]
