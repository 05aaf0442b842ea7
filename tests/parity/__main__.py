"""`python -m tests.parity FILE…`: compares the answer to each case with that of kube-scheduler's own plugins.

Prints one line per family and last `N cases, M agree`; exits 0 only if there are cases and all agree in everything.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from . import case as cases
from .answer import answer
from .compare import differences

SHOWN_CASES = 5
SHOWN_LINES = 12


def main() -> int:
    """The exit code."""
    options = _options()
    total: Counter[str] = Counter()
    agreed: Counter[str] = Counter()
    shown = 0
    for path in options.files:
        for vector in cases.read(path):
            family = vector.id.rpartition("-")[0]
            total[family] += 1
            found = differences(vector.answer, answer(vector.case))
            agreed[family] += not found
            if options.show and found and shown < SHOWN_CASES:
                shown += 1
                _say("\n".join([f"{vector.id}:", *(f"  {line}" for line in found[:SHOWN_LINES]), *_rest(found)]))
    for family, count in sorted(total.items()):
        _say(f"{family}: {count} cases, {agreed[family]} agree")
    _say(f"{total.total()} cases, {agreed.total()} agree")
    return 0 if total.total() == agreed.total() > 0 else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.parity", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="vector files, .jsonl or .jsonl.gz")
    parser.add_argument("--show", action="store_true", help=f"print what differs in the first {SHOWN_CASES} cases that do not agree")
    return parser.parse_args()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _rest(found: list[str]) -> list[str]:
    return [f"  … and {len(found) - SHOWN_LINES} more"] if len(found) > SHOWN_LINES else []


if __name__ == "__main__":
    sys.exit(main())
