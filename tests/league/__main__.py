"""`python -m tests.league`: plays the league and prints its table with the published one; `--picture FILE` draws it.

Every way to place pods is a file in `policies/` here, or given by path. The chain decides, as in a cluster. Each run has a file as soon as
it ends, and is not played again while the texts of its policy are the same; delete the folder `build/league` after a change of the engine.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from tests.league.picture import Line, svg
from tests.league.play import FOLDER, chain, play
from tests.league.protocol import SEEDS, Half, game, machines
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
class Run:
    """A policy file, what it is to place, and the file that keeps the result."""

    path: str
    trace: str
    seed: int
    half: Half
    result: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a run: parts of all GPUs at the loads in `POINTS`, and the kilowatts at a load of 100 %.

    `fragmented` is empty for runs that are not drawn.
    """

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


def texts(policy: CompiledPolicy) -> str:
    """A digest of the texts of a policy and its libraries."""
    read = (policy.policy.source, *policy.policy.imports)
    return hashlib.sha256("\0".join(source.text for source in read).encode()).hexdigest()[:12]


def one(run: Run) -> Result:
    """The result of a run."""
    variant = openb.Variant(run.trace)
    drawn = variant is openb.Variant.DEFAULT and run.half is Half.BOTH
    played = play(chain([compiled(Path(run.path), variant)]), variant, game(variant, run.seed, run.half), fragmented=drawn)
    total = sum(machine.gpus for machine in machines()) * 1000
    places = [min(int(np.searchsorted(played.arrived, load * total)), len(played.arrived) - 1) for load in POINTS]
    return Result(
        policy=Path(run.path).stem,
        trace=run.trace,
        seed=run.seed,
        unallocated=played.unallocated(),
        kilowatts=played.watts / 1000,
        by_load=tuple(1 - played.allocated[place] / total for place in places),
        fragmented=tuple(played.fragmented[place] / total for place in places) if drawn else (),
    )


def table(results: Sequence[Result]) -> str:
    """The table in Markdown: percent of the GPUs not allocated at a load of 100 %, mean and standard deviation, and published means."""
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
                f"{mean:.2f} ({deviation:.2f})" if len(found) > 1 else f"{mean:.2f}",
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


def results_of(runs: Sequence[Run], jobs: int) -> list[Result]:
    """The results of runs in their order; those that have no file yet are played, all policies with one seed before the next seed."""
    missing = sorted((run for run in runs if not run.result.exists()), key=lambda run: run.seed)
    with ProcessPoolExecutor(jobs) as pool:
        for number, _ in enumerate(pool.map(_keep, missing), start=1):
            print(f"\r{number} of {len(missing)} runs", end="", file=sys.stderr, flush=True)  # noqa: T201 — progress
    print(file=sys.stderr)  # noqa: T201 — progress
    return [msgspec.json.decode(run.result.read_bytes(), type=Result) for run in runs]


def _keep(run: Run) -> None:
    unfinished = run.result.with_suffix(".unfinished")
    unfinished.write_bytes(msgspec.json.encode(one(run)))
    unfinished.replace(run.result)


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the league."""
    parser = argparse.ArgumentParser(prog="python -m tests.league", description="How many GPUs policies leave unallocated.")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument(
        "--traces", nargs="+", choices=[each.value for each in openb.Variant], default=[each.value for each in openb.Variant]
    )
    parser.add_argument("--policies", nargs="+", metavar="NAME|FILE", default=[*PUBLISHED, "fgd-best-fit", str(OWN)])
    parser.add_argument("--half", choices=[each.value for each in Half], default=Half.BOTH.value, help="every other pod of a trace only")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--runs", type=Path, metavar="FOLDER", default=Path("build/league"), help="where runs are kept")
    parser.add_argument("--picture", type=Path, metavar="FILE")
    given = parser.parse_args(arguments)
    half = Half(given.half)
    given.runs.mkdir(parents=True, exist_ok=True)
    runs = []
    for name in given.policies:
        path = Path(name) if name.endswith(".policy") else FOLDER / f"{name}.policy"
        for trace in given.traces:
            digest = texts(compiled(path, openb.Variant(trace)))
            for seed in given.seeds:
                result = given.runs / f"{path.stem}-{digest}-{trace}-{half.value}-{seed}.json"
                runs.append(Run(path=str(path), trace=trace, seed=seed, half=half, result=result))
    results = results_of(runs, given.jobs)
    print(table(results))  # noqa: T201 — the answer
    if given.picture is not None:
        given.picture.write_text(svg(tuple(lines(results))), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
