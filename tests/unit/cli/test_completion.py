"""What the tabulator offers, as bash and zsh ask for it."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools import needs
from wharfinger import cli
from wharfinger.cli import options

POLICY = """policy "room"
param keep: percent = 10% range 0%..50%
param kinds: set<string> = ["a"]
filter room { require node.free.cpu > node.allocatable.cpu * keep else "no room" }
prefer kind weight 1 = (node.labels["kind"] ?? "") in kinds
"""
CLUSTER = """apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: east-1}}
- {apiVersion: v1, kind: Node, metadata: {name: east-2}}
- {apiVersion: v1, kind: Node, metadata: {name: west-1}}
- {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}}
- {apiVersion: v1, kind: Pod, metadata: {name: web}}
- {apiVersion: v1, kind: Pod, metadata: {name: batch-0, namespace: shop}, spec: {schedulingGroup: {podGroupName: batch}}}
- {apiVersion: v1, kind: Pod}
"""


@pytest.fixture
def offered(tmp_path, monkeypatch, capsys):
    """The words that are offered after a line, which is as somebody has typed it up to the tabulator."""
    (tmp_path / "room.policy").write_text(POLICY)
    (tmp_path / "broken.policy").write_text('policy "broken"\nfilter {\n')
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    for folder in ("teams", ".git", "node_modules"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "shop.policy").write_text(POLICY.replace('"room"', '"shop"'))
    monkeypatch.chdir(tmp_path)

    def offer(line):
        words = shlex.split(line)
        monkeypatch.setenv("_WHARF_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(words) if line.endswith(" ") else len(words) - 1))
        with pytest.raises(SystemExit) as ended:
            cli.main([])
        found = capsys.readouterr()
        assert (ended.value.code, found.err) == (0, "")
        return found.out.split()

    return offer


LINES = {
    "wharf ": list(cli.VERBS),
    "wharf s": [verb for verb in cli.VERBS if verb.startswith("s")],
    "wharf --v": ["--version"],
    "wharf nonsense": [],
    "wharf dry-run --ex": ["--explain", "--exit-code"],
    "wharf dry-run --mode ": ["sequential", "independent"],
    "wharf dry-run --policy room.policy --param ": ["keep=", "kinds="],
    "wharf dry-run --policy room.policy --param ke": ["keep="],
    "wharf run --policy room.policy broken.policy --param k": ["keep=", "kinds="],
    "wharf dry-run --policy nowhere.policy --param ": [],
    "wharf dry-run --param ": [],
    "wharf dry-run -s cluster.yaml --node ": ["east-1", "east-2", "west-1"],
    "wharf dry-run -s cluster.yaml --node east": ["east-1", "east-2"],
    "wharf dry-run -s cluster.yaml --pod ": ["default/web", "shop/batch-0", "shop/web"],
    "wharf explain pod shop/web -s cluster.yaml --node w": ["west-1"],
    "wharf dry-run -s nowhere.yaml --node ": [],
    "wharf dry-run -s room.policy --node ": [],
    "wharf dry-run -s - --node ": [],
    "wharf dry-run --policy ": ["broken.policy", "room.policy", "teams", "teams/shop.policy"],
    "wharf check t": ["teams", "teams/shop.policy"],
    "wharf check ./t": ["./teams", "./teams/shop.policy"],
    "wharf fmt teams/": ["teams/shop.policy"],
    "wharf test nowhere/": [],
    "wharf diff -p room.policy --against r": ["room.policy"],
    "wharf dry-run -s ": ["cluster.yaml", "openb:default", "openb:gpuspec33", "example:small", "example:large"],
    "wharf dry-run --snapshot cl": ["cluster.yaml"],
    "wharf explain p": ["pod", "policy"],
    "wharf explain --snapshot=cluster.yaml pod ": ["default/web", "shop/batch-0", "shop/web"],
    "wharf explain --snapshot=cluster.yaml pod shop/": ["shop/batch-0", "shop/web"],
    "wharf explain --policy=room.policy policy ": ["room"],
    "wharf explain --policy=broken.policy policy ": [],
    "wharf explain pod ": [],
    "wharf rebalance -s cluster.yaml -n ": ["default", "shop"],
    "wharf explain g": ["group"],
    "wharf explain --snapshot=cluster.yaml group ": ["shop/batch"],
    "wharf prove r": ["room.policy"],
    "wharf prove room.policy --implied ": ["room"],
    "wharf prove room.policy --dead ": ["kind", "room"],
    "wharf prove room.policy --param ke": ["keep="],
    "wharf prove room.policy --keeps true --with t": ["teams", "teams/shop.policy"],
    "wharf schema explain-p": ["explain-pod", "explain-policy"],
}


@pytest.mark.parametrize(("line", "words"), LINES.items())
def test_what_is_offered(offered, line, words):
    assert offered(line) == words


def test_of_a_large_snapshot_nothing_is_offered(offered, monkeypatch):
    monkeypatch.setattr(options, "MAX_SNAPSHOT_BYTES", 10)
    assert offered("wharf dry-run -s cluster.yaml --node ") == []


ASK = """import sys
from wharfinger.cli import main
try:
    main()
finally:
    print("numpy" in sys.modules, file=sys.stderr)
"""


def test_verbs_are_offered_without_importing_them():
    asked = {"_WHARF_COMPLETE": "complete_bash", "COMP_WORDS": "wharf ", "COMP_CWORD": "1"}
    environment = {"PYTHONPATH": str(Path(__file__).parents[3] / "engine"), **asked}
    ran = subprocess.run([sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr.strip(), ran.stdout.split()) == (0, "False", list(cli.VERBS))


def test_a_large_folder_is_not_looked_through(offered, monkeypatch, tmp_path):
    monkeypatch.setattr(options, "MAX_FILES_SCANNED", 1)
    assert offered("wharf dry-run --policy ") == ["broken.policy", "room.policy"]


SHELLS = {
    "bash": (
        "source <(_WHARF_COMPLETE=source_bash wharf); COMP_WORDS=(wharf dry-run -s cluster.yaml --node east); COMP_CWORD=5;"
        '_wharf_completion wharf; printf "%s\\n" "${COMPREPLY[@]}"'
    ),
    "zsh": (
        'autoload -Uz compinit; compinit -u -d "$PWD/.zcompdump"; eval "$(_WHARF_COMPLETE=source_zsh wharf)";'
        # What would be shown is printed instead, because there is no line to write into.
        "function _arguments { print -l -- ${(Q)${(z)${${1#*\\(\\(}%\\)\\)}}} };"
        "words=(wharf dry-run -s cluster.yaml --node east); CURRENT=6; _wharf_completion"
    ),
    "fish": '_WHARF_COMPLETE=source_fish wharf | source; complete --do-complete "wharf dry-run -s cluster.yaml --node east"',
}
"""How each shell asks for words, with the script that `wharf --install-completion` installs for it."""


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes(tmp_path, shell):
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    bin_ = Path(sys.executable).parent
    environment = {
        "PATH": f"{bin_}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "PYTHONPATH": str(Path(__file__).parents[3] / "engine"),
        "LC_ALL": "C.UTF-8",
    }
    ran = subprocess.run([needs(shell), "-c", SHELLS[shell]], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ([line.split("\t")[0] for line in ran.stdout.splitlines()], ran.stderr) == (["east-1", "east-2"], "")
