"""`python -m tests.league`: plays the league and prints its table beside the published one; `--picture FILE` draws it.

Every way to place pods is a file in `policies/` here, or given by path. All ten seeds on both traces take some ten minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from tests.league.picture import Line, svg
from tests.league.play import FOLDER, chain, play
from tests.league.protocol import SEEDS, game, machines
from wharfinger.builtins import CATALOGUE
from wharfinger.compiler.program import CompiledPolicy, compile_policy
from wharfinger.language.load import Loader, OnDisk
from wharfinger.language.report.diagnostics import Diagnostics, PolicyError, Source
from wharfinger.simulate import openb

OWN = Path(__file__).parents[2] / "policies" / "gpu-sharing.policy"
PUBLISHED: Mapping[str, tuple[float, float]] = {
    "random": (13.70, 16.13),
    "dot-product": (9.38, 20.18),
    "clustering": (8.35, 18.91),
    "packing": (8.22, 17.78),
    "best-fit": (7.14, 19.61),
    "fgd": (4.77, 12.16),
}
"""Percent of the GPUs that are not allocated when pods for all of them have arrived, default trace and gpuspec33 (means of ten seeds)."""
POINTS = tuple(load / 100 for load in range(2, 131, 2))
MARK = "typical-default.policy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One run: parts of all GPUs at the loads in `POINTS`, and the watts at a load of 100 %."""

    policy: str
    trace: str
    seed: int
    unallocated: float
    kilowatts: float
    by_load: tuple[float, ...]
    fragmented: tuple[float, ...]


def compiled(path: Path, variant: openb.Variant) -> CompiledPolicy:
    """The policy of a file; where it reads the typical pods of the default trace, it gets those of the trace that is played."""
    loader = Loader(catalogue=CATALOGUE, texts=_Typical(variant))
    loader.add(str(path))
    (found,) = loader.policies()
    if found is None or loader.diagnostics.has_errors:
        raise PolicyError(loader.diagnostics)
    return compile_policy(found)


class _Typical(OnDisk):
    """Files, with the typical pods of one trace in the place of those of the default trace."""

    def __init__(self, variant: openb.Variant) -> None:
        self._variant = variant

    def read(self, name: str, diagnostics: Diagnostics) -> Source | None:
        """The text of a file."""
        return super().read(name.replace(MARK, f"typical-{self._variant.value}.policy"), diagnostics)


def one(path: str, trace: str, seed: int) -> Result:
    """The run of a policy file with a seed."""
    variant = openb.Variant(trace)
    played = play(chain([compiled(Path(path), variant)]), variant, game(variant, seed))
    total = sum(machine.gpus for machine in machines()) * 1000
    places = [min(int(np.searchsorted(played.arrived, load * total)), len(played.arrived) - 1) for load in POINTS]
    return Result(
        policy=Path(path).stem,
        trace=trace,
        seed=seed,
        unallocated=played.unallocated(),
        kilowatts=played.watts / 1000,
        by_load=tuple(1 - played.allocated[place] / total for place in places),
        fragmented=tuple(played.fragmented[place] / total for place in places),
    )


def table(results: Sequence[Result]) -> str:
    """The table in Markdown: percent of the GPUs not allocated at a load of 100 %, mean and deviation, beside what was published."""
    rows = [
        "| policy | default | published | difference | gpuspec33 | published | difference | kW | W per allocated GPU |",
        "|" + "---|" * 9,
    ]
    gpus = sum(machine.gpus for machine in machines())
    for policy in dict.fromkeys(result.policy for result in results):
        cells: list[str] = [policy]
        for place, trace in enumerate(("default", "gpuspec33")):
            found = [100 * result.unallocated for result in results if (result.policy, result.trace) == (policy, trace)]
            known = PUBLISHED.get(policy)
            if not found:
                cells += ["", "" if known is None else f"{known[place]:.2f}", ""]
                continue
            mean, deviation = statistics.fmean(found), statistics.pstdev(found)
            cells += [
                f"{mean:.2f} ({deviation:.2f})",
                *(("–", "–") if known is None else (f"{known[place]:.2f}", f"{mean - known[place]:+.2f}")),
            ]
        default = [result for result in results if (result.policy, result.trace) == (policy, "default")]
        if default:
            kilowatts = statistics.fmean(result.kilowatts for result in default)
            each = statistics.fmean(1000 * result.kilowatts / (gpus * (1 - result.unallocated)) for result in default)
            cells += [f"{kilowatts:.0f}", f"{each:.1f}"]
        else:
            cells += ["", ""]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def lines(results: Sequence[Result]) -> Iterator[Line]:
    """The lines of the picture: means over the seeds of the default trace."""
    for policy in dict.fromkeys(result.policy for result in results):
        found = [result for result in results if (result.policy, result.trace) == (policy, "default")]
        if found:
            yield Line(
                name=policy,
                loads=POINTS,
                unallocated=tuple(np.mean([result.by_load for result in found], axis=0).tolist()),
                fragmented=tuple(np.mean([result.fragmented for result in found], axis=0).tolist()),
            )


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the league."""
    parser = argparse.ArgumentParser(prog="python -m tests.league", description="How many GPUs policies leave unallocated.")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument(
        "--traces", nargs="+", choices=[each.value for each in openb.Variant], default=[each.value for each in openb.Variant]
    )
    parser.add_argument("--policies", nargs="+", metavar="NAME|FILE", default=[*PUBLISHED, "fgd-best-fit", str(OWN)])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--picture", type=Path, metavar="FILE")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args(arguments)
    files = [name if name.endswith(".policy") else str(FOLDER / f"{name}.policy") for name in given.policies]
    with ProcessPoolExecutor(given.jobs) as pool:
        runs = [pool.submit(one, path, trace, seed) for path in files for trace in given.traces for seed in given.seeds]
        results = []
        for number, run in enumerate(runs, start=1):
            results.append(run.result())
            print(f"\r{number} of {len(runs)} runs", end="", file=sys.stderr, flush=True)  # noqa: T201 — progress
    print(file=sys.stderr)  # noqa: T201 — progress
    print(table(results))  # noqa: T201 — the answer
    if given.picture is not None:
        given.picture.write_text(svg(tuple(lines(results))), encoding="utf-8")
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(result) for result in results]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
