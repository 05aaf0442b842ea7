"""`wharf rebalance`: an ordered plan of moves, and its execution on a live cluster.

The same input gives the same bytes on every machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import socket
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from wharfinger.cli import live_cluster, options, streams, what_if_input
from wharfinger.cli.commands.what_if.drain import NO_BUDGETS
from wharfinger.cli.what_if_input import WhatIfFlags, WhatIfInput, with_flags
from wharfinger.errors import UsageError
from wharfinger.framework.chain import Chain, assemble
from wharfinger.language.report import wording
from wharfinger.model import objects
from wharfinger.model.objects import quantity
from wharfinger.simulate.cluster import Cluster
from wharfinger.what_if.rebalance.kept_plan import plan_value, read_plan
from wharfinger.what_if.rebalance.movable import CRITICAL, Limits, namespaces_without_pods
from wharfinger.what_if.rebalance.move_check import UNDO, cordon_hint, left_cordons
from wharfinger.what_if.rebalance.plan import DEFAULT_MOVES, NOUNS, Goal, GoalProgress, Move, PlanOptions, Rebalance, rebalance
from wharfinger.what_if.rebalance.plan_execution import TIMEOUT, CarriedOut, PlanExecution

DEFAULT_AGE = "5m"
DEFAULT_PRIORITY = CRITICAL - 1
MAX_NAMES = 5
"""Pending pods that are named in the report as text; the other formats have all of them."""


def table(found: Rebalance) -> str:
    """The report as text: a line per step, then the result and the reasons why other pods stay."""
    rows = [(f"{number:,}", *_row(move)) for number, move in enumerate(found.moves, 1)]
    listed = wording.columns([("STEP", "POD", "FROM", "TO", "WHY"), *rows], right=frozenset({0})) if rows else ""
    return "\n".join(part for part in (listed, wording.lines(_summary(found))) if part)


def _row(move: Move) -> tuple[str, str, str, str]:
    ties = f" (or {wording.count(move.ties - 1, 'equal node')})" if move.ties > 1 else ""
    return move.pod, move.source, f"{move.target}{ties}", move.why


def _summary(found: Rebalance) -> Iterator[str]:
    for reached in found.goals:
        yield f"{NOUNS[reached.goal]}: {_reached(reached)} by {wording.count(reached.moves, 'move')}"
    if found.moves:
        yield f"at most {wording.count(found.most_cordoned, 'node')} cordoned at a time; all are uncordoned at the end"
    if found.placed_first:
        names = wording.capped(found.placed_first, MAX_NAMES)
        yield f"{wording.count(len(found.placed_first), 'pending pod')} placed before the first move: {names}"
    yield from (f"not ended: {sentence}" for sentence in found.left)
    yield f"{wording.count(found.movable, 'pod')} may move"
    rows = [(f"{count:,}", f"may not: {reason}") for reason, count in found.staying.items()]
    if rows:
        yield from wording.columns(rows, right=frozenset({0}), indent="  ").splitlines()
    yield from what_if_input.usage_lines(found.before, found.after)


def _reached(reached: GoalProgress) -> str:
    if reached.goal is Goal.POINTS:
        return wording.number(reached.after)
    return f"{wording.number(reached.before)} → {wording.number(reached.after)}"


def _value(found: Rebalance, cluster: Cluster) -> dict[str, Any]:
    return {
        "goals": [{"goal": each.goal.value, "before": each.before, "after": each.after, "moves": each.moves} for each in found.goals],
        "cost": found.plan_options.cost,
        **plan_value(found.plan_options, found.moves),
        "revisions": what_if_input.revisions(found.chain),
        "uncordon": list(found.uncordon),
        "summary": {
            "moves": len(found.moves),
            "mostCordoned": found.most_cordoned,
            "movable": found.movable,
            "staying": dict(found.staying),
            "notEnded": list(found.left),
            "placedFirst": list(found.placed_first),
            "before": what_if_input.usage_value(found.before),
            "after": what_if_input.usage_value(found.after),
        },
        "skipped": list(cluster.skipped),
    }


@with_flags
def wharf_rebalance(  # noqa: PLR0913, PLR0917 — one parameter per flag
    flags: WhatIfFlags,
    goal: Annotated[
        list[Goal] | None,
        typer.Option(
            "--goal",
            metavar="GOAL",
            help="What to improve: violations, free-nodes, free-gpus or points; may be given several times, the first counts most.",
        ),
    ] = None,
    cost: Annotated[
        float,
        typer.Option(
            "--cost", metavar="AMOUNT", min=0, help="The minimum gain of a move, in units of the goal: pods, nodes, GPUs or points."
        ),
    ] = 0.0,
    most_moves: Annotated[int, typer.Option("--most-moves", metavar="N", min=1, help="The maximum number of moves.")] = DEFAULT_MOVES,
    most_cordons: Annotated[
        int | None,
        typer.Option(
            "--most-cordons", metavar="N", min=1, help="The maximum number of nodes that are cordoned at the same time; default: no limit."
        ),
    ] = None,
    whole: Annotated[
        list[str] | None,
        typer.Option(
            "--whole",
            metavar="RESOURCE=AMOUNT",
            help="The amount that counts as one whole GPU: nvidia.com/gpu=8 counts groups of eight; may be given several times.",
        ),
    ] = None,
    namespace: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace",
            "-n",
            metavar="NAME",
            help="Move pods of these namespaces only; default: all but kube-system.",
            autocompletion=options.complete_namespaces,
        ),
    ] = None,
    min_age: Annotated[
        str, typer.Option("--min-age", metavar="DURATION", help="Leave younger pods where they are: 10m, 1h30m.")
    ] = DEFAULT_AGE,
    most_priority: Annotated[
        int, typer.Option("--most-priority", metavar="PRIORITY", help="Leave pods of a higher priority where they are.")
    ] = DEFAULT_PRIORITY,
    pods_of: Annotated[str | None, typer.Option("--pods-of", metavar="NAME", help="Move only pods with this spec.schedulerName.")] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Carry out the plan on the live cluster, one move at a time; needs --live and one scheduler.")
    ] = False,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan", metavar="FILE", help="With --apply: carry out exactly the plan of this file, printed by --format json or yaml."
        ),
    ] = None,
    undo_cordons: Annotated[
        bool, typer.Option("--undo-cordons", help="Uncordon the nodes that a killed --apply has left cordoned; needs --live.")
    ] = False,
    timeout: Annotated[
        str | None,
        typer.Option(
            "--timeout", metavar="DURATION", help="The maximum time that --apply waits for an eviction or a replacement; default: 5m."
        ),
    ] = None,
    output: what_if_input.Output = "text",
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 1 if the plan has moves.")] = False,
) -> int:
    """Plan moves of running pods that free nodes or GPUs, or improve placements. Writes nothing to the cluster without --apply.

    $ wharf rebalance --goal free-nodes --live --policy policies/
    """
    longest = TIMEOUT if timeout is None else _seconds("--timeout", timeout)
    of_new_plans = {
        "--goal": goal,
        "--cost": cost,
        "--most-moves": most_moves != DEFAULT_MOVES,
        "--most-cordons": most_cordons,
        "--whole": whole,
        "--namespace": namespace,
        "--min-age": min_age != DEFAULT_AGE,
        "--most-priority": most_priority != DEFAULT_PRIORITY,
        "--pods-of": pods_of,
        "--pods": flags.pods,
        "--exit-code": exit_code,
    }
    unwanted = [flag for flag, given in of_new_plans.items() if given]
    of_reading = {"--skip-invalid": flags.skip_invalid, "--strict": flags.strict, "--format": output != "text"}
    unread = [flag for flag, given in of_reading.items() if given]
    if undo_cordons:
        of_plans = {
            "--plan": plan,
            "--apply": apply,
            "--snapshot": flags.snapshot,
            "--policy": flags.policy,
            "--param": flags.param,
            "--config": flags.config,
            "--scheduler-name": flags.scheduler_name,
        }
        return _undo_cordons(flags, longest, [*unwanted, *(flag for flag, given in of_plans.items() if given), *unread])
    if plan is not None:
        return _kept(flags, plan, longest, [*unwanted, *unread], apply=apply)
    _refuse(flags, goal, cost, apply=apply, exit_code=exit_code)
    if timeout is not None and not apply:
        raise UsageError("--timeout is about carrying out a plan; give --apply, or leave it out")
    limits = Limits(
        namespaces=frozenset(namespace or ()),
        min_age_seconds=_seconds("--min-age", min_age),
        most_priority=most_priority,
        scheduler=pods_of,
    )
    plan_options = PlanOptions(
        goals=tuple(dict.fromkeys(goal or ())),
        cost=cost,
        most_moves=most_moves,
        most_cordons=most_cordons,
        unit=_unit(whole or ()),
        limits=limits,
    )
    inputs = what_if_input.read(flags, lambda found: found.pending)
    found = _planned(inputs, plan_options, apply=apply)
    streams.out(what_if_input.rendered(output, lambda: table(found), lambda: _value(found, inputs.cluster)))
    if found.interrupted:
        streams.print_stderr("this is the plan so far" + ("; it was not carried out, and nothing was changed" if apply else ""))
        raise KeyboardInterrupt
    if apply and found.moves:
        return _applied(inputs.chain, found.plan_options, found.moves, flags, longest)
    return 1 if exit_code and found.moves else 0


def _planned(inputs: WhatIfInput, plan_options: PlanOptions, *, apply: bool) -> Rebalance:
    """A new plan, with a progress bar. UsageError for limits that no pod fits, and for nodes that an earlier plan has left cordoned."""
    _refuse_limits_without_pods(plan_options.limits, inputs.cluster)
    _no_cordons_left(inputs.cluster, apply=apply)
    n_pods = int(inputs.cluster.state.snapshot().pod_count.sum())
    with streams.bar(sys.stderr, "planning", n_pods) as advance, streams.interruptible() as interrupted:
        found = rebalance(inputs.chain, inputs.cluster.state, plan_options, inputs.pods, advance, interrupted)
    if not inputs.cluster.state.objects.all(objects.PodDisruptionBudget) and inputs.cluster.objects.taken_at is None:
        streams.warn([NO_BUDGETS])
    return found


def _applied(  # noqa: PLR0913 — the plan, and the cluster on which it is carried out
    chain: Chain, plan_options: PlanOptions, moves: Sequence[Move], flags: WhatIfFlags, max_wait: float, *, exact: bool = False
) -> int:
    """Carry out the plan; return the exit code."""
    done = _carry_out(chain, plan_options, moves, flags.kubeconfig, flags.context, max_wait, exact=exact)
    left_out = f", {len(done.left_out)} left out, because they do not fit the cluster any more" if done.left_out else ""
    streams.print_stderr(f"{len(done.completed)} of {wording.count(len(moves), 'move')} carried out{left_out}")
    if done.still_cordoned:
        streams.print_stderr(f"still cordoned, uncordon them with {UNDO}: {', '.join(done.still_cordoned)}")
    unchanged = "" if done.changed else "; nothing was changed"
    if done.cancelled:
        streams.print_stderr(f"{done.stopped}{unchanged}")
        raise KeyboardInterrupt
    if done.stopped is not None:
        why = "" if done.refused else ", because the plan does not fit the cluster any more"
        streams.print_stderr(f"stopped{why}: {done.stopped}{unchanged}")
    elif done.left_out and not done.changed:
        streams.print_stderr("nothing was changed")
    if done.stopped is not None or done.left_out:
        return 1 if done.changed else 2
    return 1 if done.still_cordoned else 0


def _kept(flags: WhatIfFlags, path: Path, max_wait: float, unwanted: Sequence[str], *, apply: bool) -> int:
    """Carry out a plan that was kept in a file; return the exit code. Nothing is changed if it does not hold any more.

    `unwanted` are flags that were given and that only a new plan heeds.
    """
    if unwanted or not (flags.live and apply):
        no = unwanted[0] if unwanted else "--goal"
        raise UsageError(f"--plan carries out a plan that was made before: give --live and --apply with it, and no {no}")
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UsageError(f"--plan {path}: {error.strerror}") from None
    kept = read_plan(text, f"--plan {path}")
    inputs = what_if_input.read(flags)
    _no_cordons_left(inputs.cluster, apply=True)
    stale = kept.staleness(inputs.chain, inputs.cluster.state)
    if stale is not None:
        raise UsageError(f"--plan {path} is stale: {stale}; nothing was changed")
    return _applied(inputs.chain, kept.plan_options, kept.moves, flags, max_wait, exact=True)


def _undo_cordons(flags: WhatIfFlags, max_wait: float, unwanted: Sequence[str]) -> int:
    """Uncordon the nodes that a rebalance has left cordoned; return the exit code. `unwanted` are flags without effect here."""
    if unwanted or not flags.live:
        no = unwanted[0] if unwanted else "--goal, --plan or --apply"
        raise UsageError(f"--undo-cordons changes nodes of the running cluster: give --live with it, and no {no}")
    uncordoned, left = _uncordon_left(flags.kubeconfig, flags.context, max_wait)
    lines = [f"{name} is uncordoned" for name in uncordoned] or ["no node was left cordoned by a rebalance"] * (not left)
    streams.out("".join(f"{line}\n" for line in lines))
    if left:
        streams.print_stderr(f"still cordoned, repeat {UNDO}: {', '.join(left)}")
    return 1 if left else 0


def _carry_out(  # noqa: PLR0913, PLR0917 — the plan, and the cluster on which it is carried out
    chain: Chain,
    plan_options: PlanOptions,
    moves: Sequence[Move],
    kubeconfig: str | None,
    context: str | None,
    max_wait: float,
    *,
    exact: bool = False,
) -> CarriedOut:
    """The moves that were carried out; each is printed on standard error. UsageError if the cluster cannot be read.

    With `exact`, every pod must get the node of the plan.
    """

    async def run() -> CarriedOut:
        async with _plan_execution(chain, plan_options, kubeconfig, context, max_wait, exact=exact) as execution:
            return await execution.run(moves)

    with live_cluster.signals_as_interrupt():
        return asyncio.run(run())


def _uncordon_left(kubeconfig: str | None, context: str | None, max_wait: float) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Uncordon the nodes that rebalances have left cordoned; (those that are uncordoned now, those that could not be)."""

    async def run() -> tuple[tuple[str, ...], tuple[str, ...]]:
        async with _plan_execution(assemble(), PlanOptions(goals=()), kubeconfig, context, max_wait, exact=False) as execution:
            return await execution.undo()

    with live_cluster.signals_as_interrupt():
        return asyncio.run(run())


@contextlib.asynccontextmanager
async def _plan_execution(  # noqa: PLR0913 — the plan, and the cluster on which it is carried out
    chain: Chain, plan_options: PlanOptions, kubeconfig: str | None, context: str | None, max_wait: float, *, exact: bool
) -> AsyncIterator[PlanExecution]:
    """The executor of plans on the cluster, which is watched while it runs."""
    from wharfinger.kube.writes import ApiEvictions  # noqa: PLC0415 — half a second of imports that plans from files do not need

    by = f"wharf rebalance, process {os.getpid()} on {socket.gethostname()}, since {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    async with live_cluster.watched(kubeconfig, context, "wharf-rebalance") as (live, connection, clock):
        writes = ApiEvictions(connection)
        yield PlanExecution(chain, plan_options, live, writes, clock, by=by, exact=exact, max_wait=max_wait, report=_report)


def _report(sentence: str) -> None:
    """Write a line to stderr. A closed stderr is no error here, because the nodes must be uncordoned in any case."""
    with contextlib.suppress(OSError):
        streams.print_stderr(sentence)


def _no_cordons_left(cluster: Cluster, *, apply: bool) -> None:
    """Warn of nodes that another rebalance has cordoned; raise UsageError before a plan is carried out."""
    left = left_cordons(cluster.state.snapshot())
    if left and apply:
        raise UsageError(cordon_hint(left))
    if left:
        streams.warn([cordon_hint(left)])


def _refuse(flags: WhatIfFlags, goals: list[Goal] | None, cost: float, *, apply: bool, exit_code: bool) -> None:
    """Raise UsageError for flags that contradict each other."""
    if apply and not flags.live:
        raise UsageError("--apply moves pods of the running cluster; give --live")
    if apply and exit_code:
        raise UsageError("--exit-code is about a plan that is only printed; --apply has exit codes of its own")
    if flags.pods:
        raise UsageError("--pods has no meaning here: a rebalance moves pods that are running")
    if not goals:
        raise UsageError(f"no goal: give one or several with --goal: {', '.join(goal.value for goal in Goal)}")
    if not math.isfinite(cost):
        raise UsageError(f"--cost {cost}: expected a number")


def _refuse_limits_without_pods(limits: Limits, cluster: Cluster) -> None:
    """Raise UsageError for a namespace without pods, and for a scheduler that no running pod names."""
    for name in namespaces_without_pods(limits.namespaces, cluster.objects.pods):
        raise UsageError(f"--namespace {name}: the cluster has no pod there")
    schedulers = sorted({pod.scheduler_name for pod, _ in cluster.state.placements()})
    if limits.scheduler is not None and limits.scheduler not in schedulers:
        known = f"; they have {wording.capped(schedulers, 3)}" if schedulers else ""
        raise UsageError(f"--pods-of {limits.scheduler}: no running pod has this spec.schedulerName{known}")


def _unit(given: list[str] | tuple[str, ...]) -> Mapping[str, int]:
    """Amounts by resource; UsageError for an invalid text."""
    found: dict[str, int] = {}
    for text in given:
        resource, equals, amount = text.partition("=")
        if not equals or not resource:
            raise UsageError(f"--whole {text}: expected RESOURCE=AMOUNT, such as nvidia.com/gpu=8")
        found[resource] = quantity.amount_at(resource, amount)
        if found[resource] <= 0:
            raise UsageError(f"--whole {text}: the amount must be above 0")
    return found


def _seconds(flag: str, text: str) -> float:
    from wharfinger.daemon.settings_fields import seconds  # noqa: PLC0415 — imports that few commands need

    try:
        return float(seconds(text))
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None
