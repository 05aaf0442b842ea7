"""Reads the fenced blocks of a Markdown page, so that what the page shows can be run.

```policy web.policy      a file of that name beside the commands; it must check clean
```yaml cluster.yaml      (or json) likewise, unchecked
```console                lines after `$ ` are run, the lines below are what must be printed; `…` is anything, alone on a line any lines
```console cluster        likewise, on a cluster: what ends in ` &` continues in the background meanwhile (tests/cluster/test_docs.py)
```pycon                  a doctest
```sh                     for the reader's own machine (a clone, an image); not run
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w-]*)(?: (?P<file>[\w./-]+))?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block: its language, its file name if it has one, its text and the line it starts on."""

    language: str
    file: str | None
    text: str
    line: int

    @property
    def needs_cluster(self) -> bool:
        """True if its commands are for a cluster."""
        return self.language == "console" and self.file == "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command of a console block, its expected output, and its line number."""

    command: str
    output: str
    line: int


def guides() -> list[Path]:
    """The pages of docs/ except for the generated ones about errors and the decisions."""
    docs = Path(__file__).parents[2] / "docs"
    return sorted(page for page in docs.rglob("*.md") if page.relative_to(docs).parts[0] not in {"errors", "decisions"})


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    fence, start, lines = None, 0, []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if fence is None:
            fence, start, lines = FENCE.match(line), number, []
        elif line.strip() == "```":
            yield Block(language=fence["language"], file=fence["file"], text="\n".join(lines) + "\n", line=start)
            fence = None
        else:
            lines.append(line.removeprefix(fence["indent"]))


def commands(block: Block) -> Iterator[Command]:
    """The commands of a console block with their expected outputs."""
    command, output, start = None, [], 0
    for number, line in enumerate(block.text.splitlines(), start=block.line + 1):
        if line.startswith("$ "):
            if command is not None:
                yield Command(command=command, output="\n".join(output), line=start)
            command, output, start = line[2:], [], number
        else:
            output.append(line)
    if command is not None:
        yield Command(command=command, output="\n".join(output), line=start)


def pattern(expected: str) -> re.Pattern[str]:
    """A regular expression that an output must match as a whole: `…` alone on a line is any lines, inside a line any characters."""
    return re.compile("".join(_line_pattern(line.rstrip()) for line in expected.rstrip().splitlines()) + r"\s*\Z")


def _line_pattern(line: str) -> str:
    return r"(?:.*\n)*?" if line.strip() == "…" else ".*?".join(map(re.escape, line.split("…"))) + r" *\n"
