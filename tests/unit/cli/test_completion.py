"""Completion on the command line, as bash, zsh, fish and kubectl request it."""

import os
import pty
import re
import select
import shlex
import subprocess
import sys
import termios
import time
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
    """The words that are offered after a line, which is typed up to the tabulator."""
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
    "wharf ": list(cli.COMMANDS),
    "wharf s": [command for command in cli.COMMANDS if command.startswith("s")],
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
    "wharf dry-run -s ": ["cluster.yaml", "example:large", "example:small", "openb:default", "openb:gpuspec33"],
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
def test_candidates_of_a_command_line(offered, line, words):
    assert offered(line) == words


def test_a_large_snapshot_is_not_read_for_candidates(offered, monkeypatch):
    monkeypatch.setattr(options, "MAX_SNAPSHOT_BYTES", 10)
    assert offered("wharf dry-run -s cluster.yaml --node ") == []


ASK = """import sys
from wharfinger.cli import main
try:
    main()
finally:
    print("numpy" in sys.modules, file=sys.stderr)
"""


def test_commands_are_offered_without_importing_them():
    asked = {"_WHARF_COMPLETE": "complete_bash", "COMP_WORDS": "wharf ", "COMP_CWORD": "1"}
    environment = {"PYTHONPATH": str(Path(__file__).parents[3] / "engine"), **asked}
    ran = subprocess.run([sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr.strip(), ran.stdout.split()) == (0, "False", list(cli.COMMANDS))


def test_a_large_folder_is_not_looked_through(offered, monkeypatch, tmp_path):
    monkeypatch.setattr(options, "MAX_FILES_SCANNED", 1)
    assert offered("wharf dry-run --policy ") == ["broken.policy", "room.policy"]


SHELLS = {
    "bash": "source <(wharf --show-completion); COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ));"
    '_wharf_completion wharf; [ ${{#COMPREPLY[@]}} = 0 ] || printf "%s\n" "${{COMPREPLY[@]}}"',
    "zsh": 'autoload -Uz compinit; compinit -u -d "$PWD/.zcompdump"; eval "$(wharf --show-completion)";'
    # What would be shown is printed instead, because there is no line to write into; zsh's own function evaluates it like this.
    r'function _arguments {{ local -a found; eval "found=( ${{${{1#*\(\(}}%\)\)}} )"; print -l -- "${{(@)found}}" }};'
    "function _files {{ }}; words=({words}); CURRENT=${{#words}}; _wharf_completion",
    "fish": "wharf --show-completion | source; complete --do-complete {line}",
}
"""How each shell requests words, with the script that `wharf --install-completion` installs for it."""
WORD = {"bash": r"(?:\\.|'[^']*'?|[^\s=:'])+|[=:]+", "zsh": r"\S+", "fish": r"\S+"}
"""Where each shell splits a line; bash does so at `=` and `:`, too."""


def environment(home):
    """The variables of a shell with this home folder, in which `wharf` is that of this checkout."""
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "PYTHONPATH": str(Path(__file__).parents[3] / "engine"),
        "LC_ALL": "C.UTF-8",
        "TERM": "xterm",
    }


@pytest.fixture
def ask(tmp_path):
    """The candidates of a shell after a line, in a folder: the words, in lines, with the descriptions that fish shows."""

    def asked(shell, line):
        words = re.findall(WORD[shell], line) + [""] * (line.endswith(" ") and not line.endswith("\\ "))
        script = SHELLS[shell].format(words=shlex.join(words), line=shlex.quote(line))
        ran = subprocess.run(
            [needs(shell), "-c", script], cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, check=False
        )
        assert ran.stderr == ""
        return ran.stdout.splitlines()

    return asked


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes(ask, tmp_path, shell):
    (tmp_path / "cluster.yaml").write_text(CLUSTER)

    assert ask(shell, "wharf dry-run -s cluster.yaml --node east") == ["east-1", "east-2"]


HOSTILE = r"""apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: plain}}
- {apiVersion: v1, kind: Node, metadata: {name: '\$(touch run)'}}
- {apiVersion: v1, kind: Node, metadata: {name: '`touch run`'}}
- {apiVersion: v1, kind: Node, metadata: {name: "'$(touch run)'"}}
- {apiVersion: v1, kind: Node, metadata: {name: '"; touch run; "'}}
- {apiVersion: v1, kind: Node, metadata: {name: "two\nlines"}}
- {apiVersion: v1, kind: Node, metadata: {name: 'end\'}}
"""
"""Names that a shell would run if they were not quoted, or that are more than one word."""


@pytest.mark.parametrize("shell", SHELLS)
def test_names_from_files_are_candidates_and_never_executed(ask, tmp_path, shell):
    (tmp_path / "hostile.yaml").write_text(HOSTILE)
    (tmp_path / "texts.policy").write_text(POLICY.replace('"a"', r'"\\$(touch run)", "[/b]"'))

    offered = ask(shell, "wharf dry-run -s hostile.yaml --node ")
    params = ask(shell, "wharf dry-run --policy texts.policy --param ")

    assert (len(offered), offered.count("plain")) == (4, 1)
    assert [re.split(r"[\t:]", line)[0] for line in params] == ["keep=", "kinds="]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("line", "words"),
    {
        "wharf explain --snapshot=cluster.yaml pod ": ["default/web", "shop/batch-0", "shop/web"],
        "wharf dry-run --snapshot=cl": ["cluster.yaml"],
        "wharf dry-run -s openb:de": ["default"],
        "wharf dry-run -s openb:default --policy ro": ["room.policy"],
        "wharf check my": [r"my\ policies", r"my\ policies/a\ \(1\).policy"],
        r"wharf check my\ policies/a\ ": [r"my\ policies/a\ \(1\).policy"],
        "wharf check --format=json my": [r"my\ policies", r"my\ policies/a\ \(1\).policy"],
        "wharf dry-run --snapshot=openb:de": ["default"],
        "wharf check 'my": ["my policies", "my policies/a (1).policy"],
        "wharf dry-run --policy room.policy --param keep=": [],
    }.items(),
)
def test_bash_inserts_whole_words(ask, tmp_path, line, words):
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "room.policy").write_text(POLICY)
    (tmp_path / "my policies").mkdir()
    (tmp_path / "my policies" / "a (1).policy").write_text(POLICY)

    assert ask("bash", line) == words


@pytest.fixture
def typed(tmp_path):
    """The terminal of a shell after these keys, with the completion that `wharf` has installed for it; once `awaited` is shown."""
    running = []

    def shown(shell, keys, awaited):
        install = [needs(shell), "-c", "wharf --install-completion || exit; true"]  # `wharf` would replace the shell if it came last
        subprocess.run(install, env=environment(tmp_path), check=True, capture_output=True)
        ours, its = pty.openpty()
        termios.tcsetwinsize(its, (25, 200))
        command = ["setsid", "--ctty", needs(shell), "-i"]
        running.append(subprocess.Popen(command, stdin=its, stdout=its, stderr=its, cwd=tmp_path, env=environment(tmp_path)))
        os.close(its)
        answer = b""
        deadline = time.monotonic() + 60
        while awaited not in answer.decode(errors="replace") and time.monotonic() < deadline:
            if not select.select([ours], [], [], 1)[0]:
                continue
            answer += os.read(ours, 4096)
            if keys:  # it has a prompt
                os.write(ours, keys.encode())
                keys = ""
        os.close(ours)
        return answer.decode(errors="replace")

    yield shown
    for process in running:
        process.kill()
        process.wait()


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("keys", "inserted"),
    [("wharf dry-run --mode ind", "ependent"), ("wharf dry-run --mode=ind", "ependent"), ("wharf dry-run --snapshot=openb:gp", "uspec33")],
)
def test_the_first_tab_of_a_new_shell_completes(typed, tmp_path, shell, keys, inserted):
    (tmp_path / "cluster.yaml").write_text(CLUSTER)

    assert inserted in typed(shell, f"{keys}\t", inserted)


def test_a_param_is_described_by_its_default_in_one_line(ask, tmp_path):
    kinds = ", ".join(f'"kind-{index}"' for index in range(10, 50))
    (tmp_path / "room.policy").write_text(POLICY.replace('"a"', kinds).replace("percent = 10%", "percent"))

    assert ask("fish", "wharf dry-run --policy room.policy --param k") == ["keep=\thas no default", f"kinds=\t[{kinds}]"]


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["dry-run", "--policy", "my policies/room.policy", "--param", ""], ["keep=\t10%", 'kinds=\t["a"]']),
        (["check", "my"], ["my policies", "my policies/room.policy"]),
        (["dry-run", "-s", "cluster.yaml", "--node", "east"], ["east-1", "east-2"]),
        (["dry-run", "--snap"], [f"--snapshot\t{options.SNAPSHOT.help}"]),
    ],
)
def test_kubectl_is_answered(tmp_path, words, printed):
    (tmp_path / "my policies").mkdir()
    (tmp_path / "my policies" / "room.policy").write_text(POLICY)
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "engine")}
    program = [sys.executable, "-c", "from wharfinger.cli import kubectl_completion as c; c.main()", *words]
    ran = subprocess.run(program, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert (ran.stdout.splitlines(), ran.stderr) == ([*printed, ":4"], "")
