from pathlib import Path

import pytest
import typer

from wharfinger import cli
from wharfinger.cli.options import list_options, repeated


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
        ("", ""),
    ],
)
def test_lists_become_repeated_options(words, seen):
    verb, *_ = [*words.split(), "version"]
    group = typer.main.get_command(cli.app)

    assert repeated(words.split(), list_options(group.get_command(None, verb))) == seen.split()


def test_a_module_is_all_that_a_verb_takes():
    modules = {path.stem for path in Path(cli.verbs.__file__).parent.glob("*/*.py")} - {"__init__"}

    assert {verb.replace("-", "_") for verb in cli.VERBS} == modules


def test_several_files_after_one_option(wharf, tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.policy").write_text(f'policy "{name}"\n\nprefer any weight 1 = true\n')
    code, out, err = wharf("bench", "--policy", tmp_path / "a.policy", tmp_path / "b.policy", "--nodes", "5", "--pods", "5")
    assert (code, err) == (0, "")
    assert "a/any" in out
    assert "b/any" in out
