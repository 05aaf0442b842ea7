"""Changed versions of policies, the same on every machine: small slips of an author, and rewrites that change nothing."""

import random
import re
from collections.abc import Iterator

from wharfinger.builtins import CATALOGUE
from wharfinger.language.load import TextSet
from wharfinger.language.report.diagnostics import Diagnostics

SLIPS = (
    (r"(?<![<>=!-])>=", ">"),
    (r"<=", "<"),
    (r"(?<![-<>=])>(?!=)", ">="),
    (r"<(?![=])", "<="),
    (r"==", "!="),
    (r"!=", "=="),
    (r"\band\b", "or"),
    (r"\bor\b", "and"),
    (r"\bon missing pass\b", "on missing reject"),
    (r"\bon missing reject\b", "on missing pass"),
    (r"\bon missing neutral\b", "on missing 0"),
    (r"\bprefer\b", "avoid"),
    (r"\bavoid\b", "prefer"),
    (r"\breject\b(?! *$)", "require"),
    (r"\bmin_coverage: \d+%", "min_coverage: 90%"),
    (r"\basc\b", "desc"),
    (r"\bdesc\b", "asc"),
    (r"\bnormalize minmax\b", "normalize max"),
    (r" - ", " + "),
    (r" \+ ", " - "),
    (r"\bnode\.free\.", "node.allocatable."),
    (r"\bnode\.capacity\.", "node.allocatable."),
    (r"\bmost_allocated\b", "least_allocated"),
    (r"\bcpu\b(?=\s*[-+),])", "memory"),
)
NUMBER = re.compile(r"(?<![\w.\"-])(\d+)(?=%|\b)(?!\.)")
TEXT = re.compile(r'(?<=\?\? )"[^"]*"|(?<=== )"[^"]*"')
REWRITES = (
    (re.compile(r"(\brequire |\breject )(.+?)(?= else)", re.DOTALL), r"\1not not (\2)"),
    (re.compile(r"\bwhen ([^={]+?)(?= [={])"), r"when (\1) and (\1)"),
    (re.compile(r"\bfor pods where (.+)"), r"for pods where true and (\1)"),
    (re.compile(r"(\bweight )(\d+)"), r"\1(\2 * 2 - \2)"),
    (re.compile(r"\?\? (\"[^\"]*\")"), r"?? (\1 ?? \1)"),
    (re.compile(r"\blet (\w+) = (?!pods)([^#\n]+)\n(?=\n|let|filter|score|prefer|#)"), r"let \1 = if true then \2 else \2\n"),
)


def body(text: str) -> str:
    """A policy without its tests and comments."""
    return re.sub(r"(?m)^#.*\n", "", text.split("\ntest ", maxsplit=1)[0]) + "\n"


def slips(text: str) -> Iterator[str]:
    """Versions with one operator, constant, weight or word changed."""
    for pattern, other in SLIPS:
        for found in re.finditer(pattern, text, re.MULTILINE):
            yield text[: found.start()] + other + text[found.end() :]
    for found in NUMBER.finditer(text):
        for other in (int(found[1]) + 1, int(found[1]) * 2):
            yield text[: found.start()] + str(other) + text[found.end() :]
    for found in TEXT.finditer(text):
        yield text[: found.start()] + '"other"' + text[found.end() :]


def rewrites(text: str) -> Iterator[str]:
    """Versions that mean the same."""
    for pattern, other in REWRITES:
        for found in pattern.finditer(text):
            yield text[: found.start()] + found.expand(other) + text[found.end() :]


def valid(text: str) -> bool:
    """True if a text is a policy."""
    diagnostics = Diagnostics()
    return TextSet(texts={"p.policy": text.encode()}).check("p.policy", CATALOGUE, diagnostics).policy is not None


def some(versions: Iterator[str], limit: int, seed: str) -> list[str]:
    """At most that many of the versions that are policies, the same at each call."""
    found = sorted(set(versions))
    random.Random(seed).shuffle(found)
    chosen: list[str] = []
    for version in found:
        if len(chosen) < limit and valid(version):
            chosen.append(version)
    return chosen
