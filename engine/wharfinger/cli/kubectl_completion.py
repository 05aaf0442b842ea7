"""The program `kubectl_complete-wharf`, which kubectl asks for what may follow `kubectl wharf …`.

kubectl hands on the words after `wharf`, the last one unfinished or empty, and expects one candidate per line and then a line with a
directive of cobra (k8s.io/kubectl/pkg/cmd/plugin/plugin_completion.go, Kubernetes 1.36).
"""

from __future__ import annotations

import os
import shlex
import sys

from wharfinger.cli import main as run

NO_FILES = ":4"
"""ShellCompDirectiveNoFileComp of cobra."""


def main() -> int:
    """Prints the candidates, as the completion of `wharf` has them."""
    words = sys.argv[1:]
    os.environ["_WHARF_COMPLETE"] = "complete_bash"
    os.environ["COMP_WORDS"] = shlex.join(["wharf", *words[:-1]]) + f" {words[-1] if words else ''}"
    os.environ["COMP_CWORD"] = str(max(1, len(words)))
    try:
        run([])
    except SystemExit:  # as completion ends, with what it found printed
        sys.stdout.write(f"{NO_FILES}\n")
    return 0
