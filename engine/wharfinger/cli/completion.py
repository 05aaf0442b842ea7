r"""Shell completion beyond typer's: scripts for zsh and fish, words that bash has split, quoted and complete candidates.

typer's script for zsh does nothing at the first completion of a shell, and zsh and fish compare values with the whole `--option=value`.
Candidates come from names and texts of files, which others may have written. zsh evaluates the answer of typer between double quotes,
where no backslash is escaped, so `\$(command)` would be run; bash inserts a candidate as it is, with its spaces.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Iterable, Iterator

from typer import _completion_shared

INSTRUCTION = "_WHARF_COMPLETE"
"""The environment variable with the request of a shell: `complete_bash`, `source_zsh` …"""
WORDS, CURRENT = "COMP_WORDS", "COMP_CWORD"
"""The environment variables of bash with the words, in lines, and with the index of the word to complete."""
ZSH_SCRIPT = """
#compdef %(prog_name)s

%(complete_func)s() {
  local answer="$(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" %(autocomplete_var)s=complete_zsh %(prog_name)s)"
  [[ $words[CURRENT] == --*=* ]] && compset -P 1 '*=' && words[CURRENT]=$PREFIX
  eval $answer
}

if [[ $funcstack[1] == _%(prog_name)s ]]; then
  # This file is the function that zsh loads at the first completion.
  %(complete_func)s
else
  compdef %(complete_func)s %(prog_name)s
fi
"""
"""The script for zsh; a value of `--option=value` is completed by itself."""
FISH_SCRIPT = (
    'complete --command %(prog_name)s --no-files --arguments "'
    "(commandline -ct | string match -r -- '^(?:--[^=]*=)?')"
    "(env %(autocomplete_var)s=complete_fish _TYPER_COMPLETE_FISH_ACTION=get-args _TYPER_COMPLETE_ARGS=(commandline -cp) %(prog_name)s)"
    '" --condition "'
    "env %(autocomplete_var)s=complete_fish _TYPER_COMPLETE_FISH_ACTION=is-args _TYPER_COMPLETE_ARGS=(commandline -cp) %(prog_name)s"
    '"'
)
"""The script for fish: typer's, with `--option=` before each candidate for a word that begins so."""
_BREAK = re.compile(r"[=:]+")
_SPECIAL = re.compile(r"[^\w@%+=:,./~-]")
_QUOTED = re.compile(r"\\(.)")


def replace_scripts() -> None:
    """Make typer show and install the scripts of this module."""
    _completion_shared._completion_scripts |= {"zsh": ZSH_SCRIPT, "fish": FISH_SCRIPT}  # noqa: SLF001 — typer has no other way


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
    """Translate a shell's request for candidates for typer, and the response of typer for the shell."""
    instruction = os.environ.get(INSTRUCTION, "")
    if instruction.startswith("complete_"):
        os.environ["COLUMNS"] = "10000"  # descriptions are wrapped to it, and fish and kubectl take each line as a candidate
    if instruction != "complete_bash":
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
