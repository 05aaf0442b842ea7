"""Texts of mistakes, comments and long lines, and of sample policies that are repeated, as long as the language lets them be."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.hostile.writing import POLICY, Q, each, joined, lines, one, scope
from wharfinger.language.check.policy import MAX_CLAUSES
from wharfinger.language.parse.file_nodes import MAX_ITEMS, MAX_TESTS

SAMPLES = Path(__file__).parents[2] / "policies"
DECLARED = re.compile(r"^(?:let|param|metric|workload|filter|score|prefer|avoid) (\w+)", re.MULTILINE)
PLACEHOLDERS = "{node.free.cpu} {pod.name} " * 8
WRONG_PLACEHOLDERS = "{node.fre.cpu} {pod.nme >} " * 8


def sample(name: str, n: int) -> str:
    """A sample policy whose rules are there many times, each time with other names."""
    head, line, body = (SAMPLES / f"{name}.policy").read_text(encoding="utf-8").partition("\npolicy ")
    named, end, rules = body.partition("\n")
    names = re.compile(rf"\b(?:{'|'.join(DECLARED.findall(rules))})\b")
    copies = [names.sub(rf"\g<0>_{number}", rules) for number in range(n)]
    return f"{head}{line}{named}{end}{''.join(copies)}"


FAMILIES: dict[str, Callable[[int], str]] = {
    # mistakes of syntax
    "a mistake on each line": lambda n: lines("filter f{0} { require node.pod_count > > {0} }", n=n),
    "a misspelt word on each line": lambda n: lines("fliter f{0} { reqiure node.pod_count > {0} }", n=n),
    "a missing operator on each line of an open filter": lambda n: POLICY + "filter f {\n" + "".join(each("let a{0} = {0} {0}\n", n)),
    "open calls": lambda n: lines("score s{0} = max(1, {0}", n=n),
    "clauses outside of filters": lambda n: lines("require node.pod_count > {0}", n=n),
    "rules in a filter": lambda n: f"{POLICY}filter f {{\n{''.join(each('score s{0} = {0}' + chr(10), n))}}}\n",
    "strings without an end": lambda n: lines('filter f{0} { require node.name == "x }', n=n),
    "open objects in a test": lambda n: f"{POLICY}test {Q}t{Q} {{\n{chr(10).join(each('node n{0} { labels: { a: 1 }', n))}\n}}\n",
    "mistakes in placeholders": lambda n: lines(
        f'filter f{{0}} {{ require node.pod_count > {{0}} else "{WRONG_PLACEHOLDERS}" }}', n=min(n, MAX_ITEMS)
    ),
    # mistakes of types
    "a wrong type on each line": lambda n: lines("filter f{0} { require node.name > {0} }", n=min(n, MAX_ITEMS)),
    "three wrong types on each line": lambda n: (
        f"{POLICY}filter f {{\n"
        + "\n".join(each("require node.name > {0} and pod.name < {0}cpu and nde.x == 3", n, of=MAX_CLAUSES))
        + "\n}\n"
    ),
    "wrong types on one long line": lambda n: one(joined(each("node.name > {0}", n), " and "), ""),
    "a wrong type beside long strings": lambda n: one(
        f'node.name > 3 and node.name != "{"é" * 10 * n}" and node.pod_count > "x" and node.name != "{"é" * 10 * n}"'
    ),
    "defaults outside of their ranges": lambda n: lines("param p{0}: quantity = {0} range 0..{0}1", n=min(n, MAX_ITEMS)),
    # comments and other characters
    "a long comment": lambda n: f"{POLICY}# {'c' * 20 * n}\nfilter f {{ require node.pod_count > 3 }}\n",
    "comments in a filter": lambda n: f"{POLICY}filter f {{ require node.pod_count > 3\n{'# c' + chr(10)}" + "# c\n" * n + "}\n",
    "a comment behind each member": lambda n: one("node.name in [\n" + "\n".join(each(f"{Q}n{{0}}{Q}, # c {{0}}", n)) + "\n]"),
    "strings in other scripts": lambda n: one("node.name in [" + ", ".join(each(f"{Q}é{{0}}日本語{Q}", n)) + "]"),
    # many of what is usually there once
    "sums of params with ranges": lambda n: lines(
        "param p{0}: count = {0} range 0..10000", "score s{0} = node.pod_count + p{0} normalize minmax", n=min(n, 240)
    ),
    "many curves": lambda n: lines(f"score c{{0}} = curve(node.pod_count, {', '.join(f'{x} -> {x}' for x in range(30))})", n=min(n, 150)),
    "a scope of many patterns": lambda n: scope(joined(each('matches_regex(pod.name, "^[a-z]+{0}$")', n), " or ")),
    "long messages": lambda n: lines(f'filter f{{0}} {{ require node.pod_count > {{0}} else "{PLACEHOLDERS}" }}', n=min(n, MAX_ITEMS)),
    "many tests": lambda n: (
        f"{POLICY}filter f {{ require node.pod_count < 3 }}\n"
        + "\n".join(each(f"test {Q}t{{0}}{Q} {{ node a {{}} pod p {{}} place p expect p on a }}", n, of=MAX_TESTS))
        + "\n"
    ),
    **{f"sample: {name}": partial(sample, name) for name in ("bin-pack", "cpu-load", "gpu-bin-pack", "gpu-sharing")},
}
