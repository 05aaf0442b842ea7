"""`wharf tune`: which numbers of the policies suit a cluster best.

Trials are dry runs, or decision logs made again, with other numbers in the policies. The best numbers are printed as a change of the files.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from functools import partial
from os import cpu_count
from pathlib import Path
from typing import Annotated, Any

import typer

from wharfinger.cli import chosen_policies, streams, what_if_input
from wharfinger.cli.what_if_input import WhatIfFlags, with_flags
from wharfinger.compiler.program import CompiledPolicy
from wharfinger.errors import UsageError
from wharfinger.framework.chain import assemble
from wharfinger.framework.chain_settings import ChainConfig
from wharfinger.language.report import wording
from wharfinger.simulate.cluster import load_cluster
from wharfinger.what_if.tune import search, trial_chart, trials, tunables, workloads
from wharfinger.what_if.tune.objectives import objective
from wharfinger.what_if.tune.search import Trial, Tuned
from wharfinger.what_if.tune.trial_chart import objective_text, trial_name
from wharfinger.what_if.tune.trials import SearchSetup, Workload


def table(found: Tuned) -> str:
    """The report as text: the Pareto front, the results on held-out data, and the change of the files."""
    return "\n".join(
        part
        for part in (
            "\n".join(_workloads(found)) + "\n",
            _pareto_front(found),
            _compared(found),
            "\n".join(_verdict(found)) + "\n",
            found.change,
        )
        if part
    )


def _workloads(found: Tuned) -> Iterator[str]:
    unusable = f" ({found.unusable} of them with numbers that no policy can have)" if found.unusable else ""
    yield f"{wording.count(len(found.trials) + found.unusable, 'trial')}{unusable} of {wording.count(len(found.tunables), 'number')} on"
    yield from (f"  {workload}" for workload in found.searched)
    if found.held_out_workloads:
        yield "held out:"
        yield from (f"  {workload}" for workload in found.held_out_workloads)


def _pareto_front(found: Tuned) -> str:
    """The Pareto front; numbers that have their current value in all of it are left out."""
    changed = [
        place for place, tunable in enumerate(found.tunables) if any(trial.values[place] != tunable.current for trial in found.front)
    ]
    shown_trials = list(dict.fromkeys((found.current, *found.front)))
    names = [found.tunables[place].name if found.several_policies else found.tunables[place].own_name for place in changed]
    rows = [("", *(goal.text for goal in found.objectives), *names)]
    for trial in shown_trials:
        mark = " *" if trial.number == found.best.number else ""
        numbers = [found.tunables[place].text(trial.values[place]) for place in changed]
        rows.append((trial_name(trial) + mark, *map(objective_text, trial.objectives), *numbers))
    return wording.columns(rows, right=frozenset(range(1, len(rows[0]))))


def _compared(found: Tuned) -> str:
    if not found.is_better:
        return ""
    name = trial_name(found.best)
    rows = [("", "current", name), *_pairs(found, found.current.objectives, found.best.objectives, "searched")]
    if found.held_out is not None:
        rows += _pairs(found, *found.held_out, "held out")
    return wording.columns(rows, right=frozenset({1, 2}))


def _pairs(found: Tuned, old: Sequence[float], new: Sequence[float], where: str) -> Iterator[tuple[str, str, str]]:
    for goal, before, after in zip(found.objectives, old, new, strict=True):
        yield f"{goal.text}, {where}", objective_text(before), objective_text(after)


def _verdict(found: Tuned) -> Iterator[str]:
    if not found.is_better:
        yield "no trial is better than the current policies"
        return
    name = trial_name(found.best)
    if found.held_out is None:
        yield f"nothing was held out, so it is not known whether {name} is better elsewhere too"
    else:
        moves = [f"{word} in {', '.join(goals)}" for word, goals in (("better", found.better), ("worse", found.worse)) if goals]
        yield f"on what was held out, {name} is {' and '.join(moves) or 'as good as'} {'than ' if moves else ''}the current policies"
    yield from (f"a test of the policies fails with these numbers: {title}" for title in found.failing)


def _value(found: Tuned) -> dict[str, Any]:
    held_out = None
    if found.held_out is not None:
        old, new = (_values(found, values) for values in found.held_out)
        held_out = {"current": old, "best": new, "worse": list(found.worse)}
    return {
        "searched": list(found.searched),
        "heldOutData": list(found.held_out_workloads),
        "trials": len(found.trials) + found.unusable,
        "unusable": found.unusable,
        "current": _trial(found, found.current),
        "best": _trial(found, found.best),
        "front": [_trial(found, trial) for trial in found.front],
        "heldOut": held_out,
        "failingTests": list(found.failing),
        "change": found.change,
    }


def _trial(found: Tuned, trial: Trial) -> dict[str, Any]:
    return {
        "trial": trial_name(trial),
        "objectives": _values(found, trial.objectives),
        "numbers": {tunable.name: tunable.text(value) for tunable, value in zip(found.tunables, trial.values, strict=True)},
    }


def _values(found: Tuned, values: Sequence[float]) -> dict[str, float | None]:
    """The values of the objectives by their texts; None for a division by 0, as JSON has no infinity."""
    return {goal.text: value if math.isfinite(value) else None for goal, value in zip(found.objectives, values, strict=True)}


@with_flags
def wharf_tune(  # noqa: PLR0913, PLR0917 — one parameter per flag
    flags: WhatIfFlags,
    objectives: Annotated[
        list[str] | None,
        typer.Option(
            "--objective",
            metavar="EXPR",
            help="What to minimise: unplaced, gpu_unallocated, unallocated:RESOURCE, nodes_touched, imbalance:LABEL, moves, evicted, or "
            "an expression over them. Of several, the first counts most.",
        ),
    ] = None,
    on: Annotated[
        list[str] | None,
        typer.Option("--on", metavar="FILE", help="More data for the search: another snapshot, a trace, or a decision log of `wharf run`."),
    ] = None,
    held_out: Annotated[
        list[str] | None,
        typer.Option(
            "--held-out",
            metavar="SHARE|FILE",
            help="The data that the search does not use: a share of all data (default 50%), or separate snapshots and logs.",
        ),
    ] = None,
    wanted: Annotated[
        list[str] | None,
        typer.Option("--search", metavar="NAME[=LOW..HIGH]", help="Search only these params and weights, in this range; default: all."),
    ] = None,
    kubernetes: Annotated[bool, typer.Option("--kubernetes", help="Search the weights of Kubernetes' scores too.")] = False,
    replace: Annotated[
        list[str] | None,
        typer.Option("--replace", metavar="PODS", help="Place running pods again too: all, namespace=NAME or selector=LABELS."),
    ] = None,
    load: Annotated[str, typer.Option("--load", metavar="PERCENT", help="The number of pods to place: 130% adds copies of some.")] = "100%",
    n_trials: Annotated[
        int, typer.Option("--trials", metavar="N", min=1, max=search.MAX_TRIALS, help="The number of trials.")
    ] = search.DEFAULT_TRIALS,
    seed: Annotated[
        int,
        typer.Option(
            "--seed", metavar="N", min=0, max=search.MAX_SEED, help="The seed of the search, of the held-out data, and of --load."
        ),
    ] = 0,
    jobs: Annotated[int | None, typer.Option("--jobs", metavar="N", min=1, help="Processes for the trials; default: one per core.")] = None,
    dask: Annotated[
        str | None, typer.Option("--dask", metavar="ADDRESS", help="Run the trials on the Dask cluster with this scheduler.")
    ] = None,
    patch: Annotated[str | None, typer.Option("--patch", metavar="FILE", help="Write the change of the policies to this file.")] = None,
    draw: Annotated[str | None, typer.Option("--picture", metavar="FILE", help="Write the trials as an SVG picture to this file.")] = None,
    output: what_if_input.Output = "text",
) -> int:
    """Search for better params and weights of policies, and print the best ones as a patch. Changes no policy.

    $ wharf tune -s cluster.json.gz -p policies/ --objective unplaced
    """
    if not objectives:
        raise UsageError("--objective is missing; for example --objective unplaced --objective nodes_touched")
    goals = [objective(text) for text in objectives]
    where = _where(dask, jobs)
    policies, own, config = _tune_input(flags)
    numbers = tunables.chosen(tunables.found(policies, assemble(policies, config), kubernetes=kubernetes), wanted or (), policies)
    given = [*own, *(_workload(path, config, skip_invalid=flags.skip_invalid) for path in on or ())]
    if not given:
        raise UsageError("there is nothing to search on; give a cluster with --snapshot or --live, or decision logs with --on")
    prepare = partial(workloads.prepared, words=replace or (), load=_share("--load", load, search.MAX_LOAD))
    searched, kept = _split(given, held_out or ["50%"], partial(_workload, config=config, skip_invalid=flags.skip_invalid), prepare, seed)
    for path in (patch, draw):
        if path is not None:
            _refuse_folder(Path(path))
    with streams.bar(sys.stderr, "trials", n_trials, min_steps=1) as advance:
        found = search.tuned(policies, numbers, goals, searched, kept, where, n_trials=n_trials, seed=seed, advance=advance)
    streams.out(what_if_input.rendered(output, lambda: table(found), lambda: _value(found)))  # before a file that cannot be written
    if patch is not None:
        Path(patch).write_text(found.change, encoding="utf-8")
    if draw is not None:
        Path(draw).write_text(trial_chart.svg(found), encoding="utf-8")
    return 0


def _refuse_folder(path: Path) -> None:
    """Raise UsageError for a path that is a folder, or in none: as early as possible, as a search may take hours."""
    if path.is_dir():
        raise UsageError(f"{path}: this is a folder; give the name of a file")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{path}: there is no such folder")


def _tune_input(flags: WhatIfFlags) -> tuple[Sequence[CompiledPolicy], list[Workload], ChainConfig | None]:
    """(the policies, the cluster of the flags as a workload if there is one, the settings of --config)."""
    if not flags.policy:
        raise UsageError("no policies to tune: give them with --policy")
    if flags.snapshot or flags.live or flags.pods:
        inputs = what_if_input.read(flags, lambda found: found.pending)
        title = ", ".join(flags.snapshot or ["the live cluster"])
        return inputs.policies, [workloads.waiting(title, inputs.cluster.state, inputs.pods, inputs.settings)], inputs.settings
    without_cluster = {"--kubeconfig": flags.kubeconfig, "--context": flags.context, "--strict": flags.strict}
    if named := [flag for flag, given in without_cluster.items() if given]:
        raise UsageError(f"{named[0]} is about the cluster of --snapshot or --live and its pods; give one of them too")
    policies = chosen_policies.compiled(flags.policy, flags.param)
    return policies, [], chosen_policies.chosen(flags.config, flags.scheduler_name)


def _workload(path: str, config: ChainConfig | None, *, skip_invalid: bool) -> Workload:
    """The workload in a file: a decision log, or a cluster with waiting pods."""
    if workloads.is_log(path):
        found, notes = workloads.recorded(path)
        streams.warn(notes)
        return found
    cluster = load_cluster([path], skip_invalid=skip_invalid)
    streams.warn(cluster.skipped)
    return workloads.waiting(path, cluster.state, cluster.pending, config)


def _split(
    given: Sequence[Workload], held_out: Sequence[str], read: Callable[[str], Workload], prepare: Callable[..., Workload], seed: int
) -> tuple[list[Workload], list[Workload]]:
    """(data for the search, held-out data): a share of all data, or separate files."""
    searched = [prepare(workload, seed=seed) for workload in given]
    shares = [text for text in held_out if text.endswith("%")]
    kept = [prepare(read(path), seed=seed + 1) for path in held_out if path not in shares]
    if (shares and kept) or len(shares) > 1:
        raise UsageError("--held-out is one share of all data, or files; give one of the two")
    return workloads.split(searched, _share("--held-out", shares[0], 1), seed) if shares else (searched, kept)


def _share(option: str, text: str, limit: float) -> float:
    """A percentage as a fraction."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)%", text.strip())
    if found is None or not float(found[1]) / 100 < limit:
        raise UsageError(f"{option} {text}: expected a percentage below {100 * limit:g}%, as 50%")
    return float(found[1]) / 100


def _where(dask: str | None, jobs: int | None) -> Callable[[SearchSetup], AbstractContextManager[Executor]]:
    """The function that opens the executor of the trials; UsageError if it cannot, or if an extra is missing."""
    search.need_optuna()
    if dask is None:
        return partial(trials.processes, jobs=jobs or cpu_count() or 1)
    if jobs is not None:
        raise UsageError("--jobs is for this machine; with --dask the cluster has as many processes as it has")
    trials.need_dask()
    return partial(trials.dask, address=dask)
