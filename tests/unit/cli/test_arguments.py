"""Arguments of the command line: lists of options, and functions as commands."""

import importlib
from pathlib import Path

import pytest
import typer

from wharfinger import cli
from wharfinger.cli.options import repeated, words_of


@pytest.mark.parametrize(
    ("words", "seen"),
    [
        ("dry-run --snapshot a b c", "dry-run --snapshot a --snapshot b --snapshot c"),
        ("dry-run -s a b -p x y --explain", "dry-run -s a -s b -p x -p y --explain"),
        ("dry-run --snapshot - a --node n", "dry-run --snapshot - --snapshot a --node n"),
        ("dry-run --snapshot=a b", "dry-run --snapshot=a b"),
        ("dry-run --node a b", "dry-run --node a b"),
        ("check a b", "check a b"),
        ("test --format json a b", "test --format json a b"),
        ("demo --policy a b", "demo --policy a --policy b"),
        ("explain -s a pod web", "explain -s a pod web"),
        ("explain -s a b pod web --node n", "explain -s a -s b pod web --node n"),
        ("explain pod web -s a b", "explain pod web -s a -s b"),
        ("explain pod -s a b web", "explain pod -s a -s b web"),
        ("explain --format json pod web -s a b", "explain --format json pod web -s a -s b"),
        ("explain -s a b pod web -p x y", "explain -s a -s b pod web -p x -p y"),
        ("explain -s a pod", "explain -s a -s pod"),
        ("explain --live pod web -p x y", "explain --live pod web -p x -p y"),
        ("config -p a b print", "config -p a -p b print"),
        ("replay -p a log", "replay -p a log"),
        ("", ""),
    ],
)
def test_lists_become_repeated_options(words, seen):
    command, *_ = [*words.split(), "version"]
    known = words_of(typer.main.get_command(cli.app).get_command(None, command))

    assert repeated(words.split()[1:], known) == seen.split()[1:]


def test_a_function_is_all_that_a_command_takes():
    modules = [
        importlib.import_module(f"wharfinger.cli.commands.{path.parent.name}.{path.stem}")
        for path in Path(cli.commands.__file__).parent.glob("*/[!_]*.py")
    ]
    functions = {name.removeprefix("wharf_") for module in modules for name in vars(module) if name.startswith("wharf_")}

    assert {command.replace("-", "_") for command in cli.COMMANDS} == functions


def test_several_files_after_one_option(wharf, tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.policy").write_text(f'policy "{name}"\n\nprefer any weight 1 = true\n')
    code, out, err = wharf("bench", "--policy", tmp_path / "a.policy", tmp_path / "b.policy", "--nodes", "5", "--pods", "5")
    assert (code, err) == (0, "")
    assert "a/any" in out
    assert "b/any" in out


def test_the_subject_of_explain_may_follow_the_files(wharf, tmp_path):
    (tmp_path / "cluster.yaml").write_text(
        "kind: Node\nmetadata: {name: n}\n---\nkind: Pod\nmetadata: {name: web, uid: w}\nspec: {containers: [{name: c}]}\n"
    )
    code, out, err = wharf("explain", "-s", tmp_path / "cluster.yaml", "pod", "web")
    assert (code, err) == (0, "")
    assert "default/web" in out


@pytest.mark.parametrize("text", ["1_0", "+5", " 5", "5 ", "١", "1.5", "five"])
@pytest.mark.parametrize(("command", "flag"), [("bench", "--nodes"), ("run", "--port"), ("tune", "--jobs")])
def test_whole_numbers_are_written_with_digits_alone(wharf, command, flag, text):
    code, _, err = wharf(command, flag, text)
    assert code != 0
    assert f"'{flag}': {text!r} is not a whole number; write digits, such as 5." in err


@pytest.mark.parametrize("text", ["inf", "nan", "1_0", "+5", " 5", "1e309"])
@pytest.mark.parametrize(("command", "flag"), [("dry-run", "--optimal"), ("signals", "--slow")])
def test_numbers_are_finite_and_written_with_digits(wharf, command, flag, text):
    code, _, err = wharf(command, flag, text)
    assert code != 0
    assert f"'{flag}': {text!r} is not a number; write one such as 5 or 0.5." in err
