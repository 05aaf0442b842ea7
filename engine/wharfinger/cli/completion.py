r"""What shells need besides typer's completion: words that bash has split, and candidates that are safe and whole in each shell.

Candidates come from names and texts of files, which others may have written. typer's script for zsh evaluates the answer between double
quotes and escapes no backslash, so `\$(command)` would be run; bash inserts a candidate as it is, with its spaces.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Iterable, Iterator

INSTRUCTION = "_WHARF_COMPLETE"
"""The environment variable with the request of a shell: `complete_bash`, `source_zsh` …"""
WORDS, CURRENT = "COMP_WORDS", "COMP_CWORD"
"""The environment variables of bash with the words, in lines, and with the index of the word to complete."""
_BREAK = re.compile(r"[=:]+")
_SPECIAL = re.compile(r"[^\w@%+=:,./~-]")
_QUOTED = re.compile(r"\\(.)")


def plain(candidates: Iterable[str]) -> list[str]:
    """The candidates that every shell takes literally, sorted, each once."""
    return sorted(filter(_is_plain, set(candidates)))


def description(text: str) -> str:
    """The text as the description of a candidate: without what zsh would evaluate, and without markup of rich, which typer reads."""
    from rich.markup import escape  # noqa: PLC0415 — only where there is something to describe

    return escape("".join(filter(_is_plain, text)))


def _is_plain(text: str) -> bool:
    return text.isprintable() and "\\" not in text


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """If a shell requests candidates: translates the request for typer, and typer's response for the shell."""
    asked = os.environ.get(INSTRUCTION, "")
    if asked.startswith("complete_"):
        os.environ["COLUMNS"] = "10000"  # descriptions are wrapped to it, and fish and kubectl take each line as a candidate
    if asked != "complete_bash":
        yield
        return
    word = _current_word()
    answer = io.StringIO()
    try:
        with contextlib.redirect_stdout(answer):
            yield
    finally:
        sys.stdout.writelines(f"{_inserted(candidate, word)}\n" for candidate in answer.getvalue().splitlines())


def _current_word() -> str:
    """The word that is completed, as typed. Joins the words in the variables of bash, which splits `--snapshot=openb:default` in five."""
    words, current = os.environ.get(WORDS, "").split("\n"), int(os.environ.get(CURRENT, "0"))
    joined: list[str] = []
    place_of: list[int] = []
    is_open = False
    for word in words:
        is_break = _BREAK.fullmatch(word) is not None
        if joined and (is_break or is_open):
            joined[-1] += word
        else:
            joined.append(word)
        place_of.append(len(joined) - 1)
        is_open = is_break
    if current >= len(words):  # the words are in one line
        return ""
    os.environ[WORDS], os.environ[CURRENT] = "\n".join(joined), str(place_of[current])
    return joined[place_of[current]]


def _inserted(candidate: str, word: str) -> str:
    """The text that bash inserts for a candidate: quoted unless the user has begun with a quote, and without the text before a split."""
    if word.startswith(("'", '"')):
        return candidate
    if word.startswith("-"):
        word = word.partition("=")[2]
    typed = _QUOTED.sub(r"\1", word)
    known = typed[: max(typed.rfind("="), typed.rfind(":")) + 1]
    return _SPECIAL.sub(r"\\\g<0>", candidate.removeprefix(known))
