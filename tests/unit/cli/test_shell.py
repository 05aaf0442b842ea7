"""The rules for all commands: exit codes, one sentence for an error, no tracebacks."""

import inspect
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from wharfinger import cli
from wharfinger.cli.commands.observe import package
from wharfinger.errors import UsageError

ROOT = Path(__file__).parents[3]
POLICY = 'policy "p"\n\nscore s weight 1 = least_allocated()\n'


def process(*arguments, **more):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "engine")}
    command = [sys.executable, "-c", "import sys; from wharfinger.cli import main; sys.exit(main())", *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["check", ""], "wharf: the word after check is empty; is a variable of the shell not set?\n"),
        (["dry-run", "-s", ""], "wharf: the word after -s is empty; is a variable of the shell not set?\n"),
        (["dry-run", "--snapshot="], "wharf: the value of --snapshot is empty; is a variable of the shell not set?\n"),
        (["capacity", "-s", "x", "--by="], "wharf: the value of --by is empty; is a variable of the shell not set?\n"),
        (["dry-run", "--param=a=", "-s", "nowhere.json"], "wharf: no policy has a param a; give the policy too\n"),
        (["dry-run", "-s", "/proc/self/mem"], "wharf: /proc/self/mem: Input/output error\n"),
        (["signals"], "wharf: Missing argument 'action'. Choose from: check. Try 'wharf signals --help'.\n"),
        (["install"], None),
        (["run", "--policy-configmap", "x"], "wharf: flags: policyConfigMap: expected NAMESPACE/NAME, not 'x'\n"),
        (["chekc"], "wharf: there is no command 'chekc'; did you mean `wharf check`?\n"),
        (["dryrun"], "wharf: there is no command 'dryrun'; did you mean `wharf dry-run`?\n"),
        (["nonsense"], "wharf: No such command 'nonsense'. Try 'wharf --help'.\n"),
        (["check", "--nonsense"], "wharf: No such option: --nonsense. Try 'wharf check --help'.\n"),
        (["capacity", "--nodes"], "wharf: Option '--nodes' requires an argument. Try 'wharf capacity --help'.\n"),
        (["check", "nowhere.policy"], "wharf: nowhere.policy: no such file or folder\n"),
        (["check", "--format", "xml"], None),
        (["dry-run"], None),
        (["dry-run", "--snapshot", "nowhere.json"], None),
        (["dry-run", "--snapshot", "openb:nonsense"], "wharf: openb:nonsense: no such trace; there are openb:default, openb:gpuspec33\n"),
        (["bench", "--nodes", "0"], None),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_code_2(wharf, arguments, sentence):
    code, out, err = wharf(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("wharf: ")
    assert err.count("\n") == 1
    assert sentence is None or err == sentence


@pytest.mark.parametrize(
    "words",
    [
        ("explain", "policy", "web\udcff"),
        ("explain", "pod", "web\udcff"),
        ("dry-run", "--snapshot", "CLUSTER", "--policy", "POLICY", "--param", "note=web\udcff"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_words_that_are_not_utf8_are_named(wharf, tmp_path, words):
    files = {"CLUSTER": tmp_path / "cluster.yaml", "POLICY": tmp_path / "a.policy"}
    files["CLUSTER"].write_text("apiVersion: v1\nkind: Node\nmetadata: {name: a}\n")
    files["POLICY"].write_text('policy "a"\nparam note: string = "x"\nfilter f { require node.name != note }\n')
    code, _, err = wharf(*(files.get(word, word) for word in words))
    assert code == 2
    assert err.startswith("wharf: ")
    assert err.endswith("web\N{REPLACEMENT CHARACTER}: not UTF-8\n")


def test_help_names_every_command(wharf):
    code, out, _ = wharf("--help")
    assert code == 0
    assert all(re.search(rf"^  {command} ", out, re.MULTILINE) for command in cli.COMMANDS)


@pytest.mark.parametrize("task", cli.commands.TASKS)
def test_each_task_has_a_heading_and_an_example_with_flags_that_exist(wharf, task):
    _, out, _ = wharf("--help")
    title, example = cli._title_and_example(task)
    assert re.search(rf"^{title}:$(.|\n)*?^  \$ {re.escape(example)}$", out, re.MULTILINE)
    for command in example.split(" && "):
        program, name, *words = command.split()
        assert (program, name in cli.TASKS[task]) == ("wharf", True)
        assert {word for word in words if word.startswith("--")} <= set(wharf(name, "--help")[1].split())


def test_every_folder_of_commands_is_a_task():
    assert sorted(path.parent.name for path in Path(cli.commands.__file__).parent.glob("*/__init__.py")) == sorted(cli.commands.TASKS)


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_the_help_of_a_command_is_read_as_it_would_be_imported(command):
    assert cli._help_of(command) == inspect.getdoc(cli._function(command))


def test_help_imports_no_command():
    script = "import sys; from wharfinger.cli import main; code = main(['--help']); print(*sys.modules, file=sys.stderr); sys.exit(code)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "engine")}
    ran = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert not [module for module in ran.stderr.split() if module.startswith("wharfinger.cli.commands.") or module == "numpy"]


def test_without_a_word_it_helps(wharf):
    code, out, err = wharf()
    assert (code, out) == (2, "")
    assert err.startswith("Usage: wharf ")


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5])
def test_an_interrupt_at_any_moment_of_the_start_shows_no_traceback(delay, tmp_path):
    """The interrupt comes `delay` seconds after the program has begun, which imports most of itself then."""
    begin = "import sys\nfrom wharfinger.__main__ import main\nprint(end='begun', flush=True)\nsys.exit(main())"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "engine")}
    running = subprocess.Popen(
        [sys.executable, "-c", begin, "bench", "--nodes", "2000", "--pods", "1000000"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout.read(5) == "begun"
    time.sleep(0.02 + delay)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode in {130, -signal.SIGINT}
    assert "Traceback" not in err


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_has_help_with_a_sentence(wharf, command):
    code, out, _ = wharf(command, "--help")
    assert code == 0
    assert f"Usage: wharf {command}" in out


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_the_help_of_a_command_ends_with_an_example_that_its_flags_accept(wharf, command):
    example = cli._help_of(command).split("\n\n")[-1]
    words = shlex.split(re.split(r" [|>] ", example)[0])

    assert words[:3] == ["$", "wharf", command]
    assert f"\n  {example}\n" in wharf(command, "--help")[1]
    cli._command(command).make_context(command, words[3:])


def test_help_has_no_links_of_pages(wharf):
    assert not [command for command in cli.COMMANDS if "](" in wharf(command, "--help")[1]]


@pytest.mark.parametrize("asked", ["version", "--version", "-V"])
def test_version(wharf, asked):
    code, out, _ = wharf(asked)
    assert code == 0
    assert re.fullmatch(r"wharfinger \S+\n", out)


def test_an_interrupt_is_exit_code_130_without_a_traceback(wharf, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(package, "wharf_version", interrupted)
    code, _, err = wharf("version")
    assert code == 130
    assert "Traceback" not in err


def test_an_error_of_our_own_is_a_sentence_and_exit_code_70(wharf, monkeypatch):
    def broken():
        raise ZeroDivisionError("division by zero")

    monkeypatch.delenv("WHARF_TRACEBACK", raising=False)
    monkeypatch.setattr(package, "wharf_version", broken)
    code, _, err = wharf("version")
    assert code == 70
    assert err.startswith("wharf: internal error: ZeroDivisionError: division by zero;")
    assert "Traceback" not in err


def test_a_closed_output_pipe_causes_no_error_message(tmp_path):
    lines = [json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{i:05d}", "namespace": "n" * 60}}) for i in range(3000)]
    lines.append(json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}))
    (tmp_path / "pods.jsonl").write_text("\n".join(lines))
    running = process("dry-run", "--snapshot", tmp_path / "pods.jsonl")
    running.stdout.close()
    _, err = running.communicate(timeout=60)
    assert running.returncode == 141
    assert err == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk that is always full")
def test_a_full_disk_behind_the_output_is_a_sentence(tmp_path):
    begin = "import sys; from wharfinger.cli import main; sys.exit(main())"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "engine")}
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-c", begin, "version"]
        ran = subprocess.run(command, env=environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (ran.returncode, ran.stderr.splitlines()[0]) == (2, "wharf: the output: No space left on device")
    assert "Traceback" not in ran.stderr


def test_all_errors_of_a_policy_are_reported_before_anything_runs(wharf, tmp_path):
    (tmp_path / "bad.policy").write_text('policy "bad"\nfilter f { require node.labels["x"] == "y" }\nscore s weight 1 = 2Gb\n')
    code, out, err = wharf("dry-run", "--snapshot", "openb:default", "--policy", tmp_path / "bad.policy")
    assert (code, out) == (1, "")
    assert "bad.policy:2" in err
    assert "bad.policy:3" in err


def test_check_finds_nothing_wrong_with_a_good_policy(wharf, tmp_path):
    (tmp_path / "p.policy").write_text(POLICY)
    assert wharf("check", tmp_path) == (0, "", "")


@pytest.mark.parametrize("output", ["text", "plain", "json"])
def test_check_prints_findings_and_fails(wharf, tmp_path, output):
    (tmp_path / "p.policy").write_text(POLICY + "let unused = 1\nscore t weight 1 = nod.pod_count\n")
    code, out, err = wharf("check", tmp_path, "--format", output)
    assert (code, err) == (1, "")
    assert "nod" in out
    if output == "json":
        assert json.loads(out)["errors"] == 1


def test_fmt_rewrites_only_what_differs(wharf, tmp_path):
    good, crooked = tmp_path / "good.policy", tmp_path / "crooked.policy"
    good.write_text(POLICY)
    crooked.write_text('policy "q"\nscore   s weight 1=least_allocated( )\n')
    assert wharf("fmt", good, crooked)[:2] == (0, f"changed {crooked}\n")
    assert crooked.read_text() == POLICY.replace('"p"', '"q"')
    assert wharf("fmt", "--check", good, crooked) == (0, "", "")


def test_fmt_check_changes_nothing_and_fails(wharf, tmp_path):
    crooked = tmp_path / "crooked.policy"
    text = 'policy "q"\nscore   s weight 1=least_allocated( )\n'
    crooked.write_text(text)
    code, out, _ = wharf("fmt", "--check", crooked)
    assert (code, out) == (1, f"would change {crooked}\n")
    assert crooked.read_text() == text


CHECKING = {"lark", "msgspec", "numpy", "pydantic", "re2", "regex", "typer"}
"""The packages that `wharf check` may load; a further one is paid by every run of it in an editor or a pipeline."""
PARTS = {"annotated_doc", "annotated_types", "pydantic_core", "shellingham", "typing_extensions", "typing_inspection"}


def test_check_of_one_policy_loads_few_packages(tmp_path):
    (tmp_path / "p.policy").write_text(POLICY)
    installed = (
        "{name.partition('.')[0] for name, module in sys.modules.items() if 'site-packages' in str(getattr(module, '__file__', ''))}"
    )
    loaded = f"import sys; from wharfinger.cli import main; main(sys.argv[1:]); print(*{installed})"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "engine")}
    command = [sys.executable, "-c", loaded, "check", str(tmp_path / "p.policy")]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert set(ran.stdout.split()) - {"_distutils_hack"} <= CHECKING | PARTS


def test_an_interrupted_process_leaves_without_a_traceback():
    running = process("bench", "--nodes", "2000", "--pods", "1000000")
    time.sleep(1.5)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert err == "wharf: interrupted\n"


def test_fmt_keeps_the_file_when_it_is_stopped_while_writing(wharf, tmp_path, monkeypatch):
    crooked = tmp_path / "crooked.policy"
    text = 'policy "q"\nscore   s weight 1=least_allocated( )\n'
    crooked.write_text(text)

    def stopped(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", stopped)
    assert wharf("fmt", crooked) == (2, f"changed {crooked}\n", f"wharf: cannot write {crooked}: No space left on device\n")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("crooked.policy", text)]


def test_fmt_keeps_mode_and_links(wharf, tmp_path):
    crooked, link = tmp_path / "crooked.policy", tmp_path / "link.policy"
    crooked.write_text('policy "q"\nscore   s weight 1=least_allocated( )\n')
    crooked.chmod(0o640)
    link.symlink_to(crooked)
    assert wharf("fmt", link)[0] == 0
    assert link.is_symlink()
    assert (crooked.stat().st_mode & 0o777, crooked.read_text()) == (0o640, POLICY.replace('"p"', '"q"'))


def test_output_is_utf8_whatever_the_locale(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    (tmp_path / "p.policy").write_text('policy "größe"\n' + POLICY.partition("\n")[2], encoding="utf-8")
    running = process("test", tmp_path / "p.policy", encoding="utf-8")
    out, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (1, "")
    assert out.startswith("größe: ")


@pytest.mark.parametrize("descriptor", [0, 1, 2])
def test_closed_streams_are_no_error_of_our_own(tmp_path, descriptor):
    (tmp_path / "p.policy").write_text(POLICY)
    running = process("test", tmp_path / "p.policy", preexec_fn=lambda: os.close(descriptor))
    _, err = running.communicate(timeout=60)
    assert running.returncode == 1
    assert err == ""


def test_a_reader_that_has_left_hides_no_error(monkeypatch, capsys):
    reader, writer = os.pipe()
    os.close(reader)

    def printing_and_failing():
        sys.stdout.write("part of the output")
        raise UsageError("the file cannot be written")

    with os.fdopen(writer, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        assert cli._exit_code(printing_and_failing) == 2
    assert capsys.readouterr().err == "wharf: the file cannot be written\n"
