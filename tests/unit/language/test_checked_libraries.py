"""A library is checked once for all files that import it in the same way, and each file gets what it would get alone."""

import pytest

from tests.work import calls
from wharfinger.builtins import CATALOGUE
from wharfinger.language.load import TextSet, load_policies
from wharfinger.language.report.diagnostics import Diagnostics

LIBRARIES = {
    "lib": """param most: count = 5
metric busy: percent = prometheus("busy", node: "instance")
let crowded = node.pod_count > most
let room(x: memory, times: number) = x * times
let twice = room(node.free.memory / 2, 2)
""",
    "other": "let crowded = node.pod_count > 7\nlet half = node.free.memory / 2\n",
    "above": 'import "lib.policy" as lib\nlet full = lib.crowded and lib.room(node.free.memory, 3) > 1Gi\n',
    "broken": "let a = node.fre.memory\nlet b = nod.free\nlet c = 1 + true\nlet fine = node.pod_count\n",
    "circle": 'import "circle.policy" as circle\nlet a = 1\n',
}


def importing(rules, *imports):
    """A policy of these rules that imports `file as name`."""
    lines = [f'import "{file}.policy" as {name or file}\n' for file, _, name in (each.partition(" as ") for each in imports)]
    return "".join(lines) + f'policy "p"\n{rules} normalize minmax\n'


FILES = {
    "plain": importing("filter f { require not lib.crowded }\nscore s = lib.room(node.free.memory, 2)", "lib"),
    "again": importing("filter f { require not lib.crowded }\nscore s = lib.room(node.free.memory, 3)", "lib"),
    "wrong call": importing("score s = lib.room(node.pod_count, 3)", "lib"),
    "another name": importing("score s = shared.twice", "lib as shared"),
    "two": importing("score s = lib.twice + other.half", "lib", "other"),
    "two, the other way round": importing("score s = lib.twice + other.half", "other", "lib"),
    "through another": importing("score s = if above.full then 1 else 2", "above"),
    "through another and itself": importing("score s = if above.full and lib.crowded then 1 else 2", "above", "lib"),
    "itself and through another": importing("score s = if above.full and lib.crowded then 1 else 2", "lib", "above"),
    "broken": importing("score s = broken.fine + broken.a", "broken"),
    "broken again": importing("score s = broken.fine + broken.fin", "broken"),
    "a circle": importing("score s = circle.a", "circle"),
    "unused": importing("score s = node.pod_count", "lib"),
    "not there": importing("score s = none.twice", "none"),
}
TEXTS = {f"{name}.policy": text.encode() for name, text in (LIBRARIES | {f"of {name}": text for name, text in FILES.items()}).items()}


def checked(texts, name):
    found = Diagnostics()
    outcome = texts.check(name, CATALOGUE, found)
    return outcome, [(each.code, str(each.span), each.message, each.help, str(each.others)) for each in found]


@pytest.mark.parametrize("order", [list(FILES), list(reversed(FILES)), [*FILES, *FILES]], ids=["in order", "reversed", "twice"])
def test_every_file_gets_what_it_gets_alone(order):
    together = TextSet(texts=TEXTS)
    for name in order:
        assert checked(together, f"of {name}.policy") == checked(TextSet(texts=TEXTS), f"of {name}.policy"), name


def test_a_check_that_would_take_too_long_alone_does_so_with_what_was_checked_before():
    long = "".join(f"let a{i} = node.pod_count * {i} + {i}\n" for i in range(400))
    rule = "score s{0} = " + " + ".join(["lib.a1"] * 300) + " normalize minmax\n"
    texts = {"lib.policy": long.encode()}
    for name in ("x", "y"):
        rules = "".join(rule.format(i) for i in range(200))
        texts[f"{name}.policy"] = f'import "lib.policy" as lib\npolicy "{name}"\n{rules}'.encode()
    together = TextSet(texts=texts)
    for name in ("x.policy", "y.policy"):
        assert checked(together, name) == checked(TextSet(texts=texts), name)


def test_many_files_that_import_a_library_check_it_once(tmp_path):
    def work(files, lets):
        folder = tmp_path / f"{files}-{lets}"
        folder.mkdir()
        (folder / "lib.policy").write_text("".join(f'let a{i} = if node.labels["k{i}"] == "x" then 1 else {i}\n' for i in range(lets)))
        for number in range(files):
            text = f'import "lib.policy" as lib\npolicy "p{number}"\nscore s = lib.a{number} normalize minmax\n'
            (folder / f"p{number}.policy").write_text(text)
        return calls(lambda: load_policies([folder], CATALOGUE))

    work(1, 1)  # everything is imported
    first, more = work(2, 100), work(12, 100)
    assert (more - first) / 10 < first / 10
