"""The words of a command line, before typer sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

LISTS: Mapping[str, frozenset[str]] = {
    "dry-run": frozenset({"--snapshot", "-s", "--policy", "-p", "--pods", "-f"}),
    "explain": frozenset({"--snapshot", "-s", "--policy", "-p"}),
    "replay": frozenset({"--policy", "-p"}),
    "run": frozenset({"--policy", "-p", "--shadow"}),
    "config": frozenset({"--policy", "-p", "--shadow"}),
    "bench": frozenset({"--snapshot", "-s", "--policy", "-p"}),
    "demo": frozenset({"--policy", "-p"}),
}
"""Options, by verb, that take everything up to the next option: what a shell makes of `--policy policies/*.policy`."""


def repeated(words: Sequence[str]) -> list[str]:
    """The words with `--policy a b` as `--policy a --policy b`, which is how typer knows it."""
    lists = LISTS.get(words[0], frozenset()) if words else frozenset()
    found: list[str] = []
    option: str | None = None
    free = 0  # words since the option; the first one is the option's own
    for word in words:
        if word.startswith("-") and word != "-":
            option, free = (word if word in lists else None), 0
        else:
            free += 1
            if option is not None and free > 1:
                found.append(option)
        found.append(word)
    return found
