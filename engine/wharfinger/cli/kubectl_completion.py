"""The program `kubectl_complete-wharf`, which kubectl runs to complete `kubectl wharf …`.

kubectl passes on the words after `wharf`, the last one unfinished or empty, and expects one candidate per line, with its description behind
a tab, and then a line with a directive of cobra (k8s.io/kubectl/pkg/cmd/plugin/plugin_completion.go, Kubernetes 1.36).
"""

from __future__ import annotations

import os
import shlex
import sys

from wharfinger.cli import main as run
from wharfinger.cli.completion import INSTRUCTION

NO_FILES = ":4"
"""ShellCompDirectiveNoFileComp of cobra."""


def main() -> int:
    """Print the candidates, as the completion of `wharf` has them; fish requests them in the form that kubectl expects."""
    words = sys.argv[1:]
    line = f"{shlex.join(['wharf', *words[:-1]])} {shlex.quote(words[-1]) if words and words[-1] else ''}"
    os.environ |= {INSTRUCTION: "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "get-args", "_TYPER_COMPLETE_ARGS": line}
    try:
        run([])
    except SystemExit:  # as completion ends, with what it found printed
        sys.stdout.write(f"{NO_FILES}\n")
    return 0
