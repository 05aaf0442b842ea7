"""The typical requests of a trace as a library of policies: `python -m tests.league.typical` writes those in `policies/`."""

from __future__ import annotations

from tests.league.play import FOLDER
from tests.league.protocol import Typical, typical
from wharfinger.simulate import openb


def library(variant: openb.Variant) -> str:
    """The text of the library of a trace."""
    rows = "\n".join(f"  {{ {_row(each)} }}," for each in typical(variant))
    head = f"# What the pods of the trace {variant.value} ask for: the most frequent requests, 95 % of all pods."
    return f"{head} Written by tests/league/typical.py.\n\nworkload typical = [\n{rows}\n]\n"


def _row(each: Typical) -> str:
    cpu = f"{each.cpu // 1000}cpu" if each.cpu % 1000 == 0 else f"{each.cpu}m"
    parts = [f"cpu: {cpu}"]
    if each.gpus:
        parts.append(f"gpu: {each.gpus}")
        if each.milli < 1000:
            parts.append(f"milli: {each.milli}")
    if each.models:
        parts.append(f"model: [{', '.join(chr(34) + model + chr(34) for model in sorted(each.models))}]")
    return ", ".join([*parts, f"weight: {100 * each.weight:.6f}%"])


if __name__ == "__main__":
    for each in openb.Variant:
        (FOLDER / f"typical-{each.value}.policy").write_text(library(each), encoding="utf-8")
