"""`wharf signals check`: every query of the policies, asked once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wharfinger.cli import live_signals, options, policy_set, signals_formats, streams
from wharfinger.errors import UsageError
from wharfinger.language import typed

if TYPE_CHECKING:
    from wharfinger.daemon.settings import Settings
    from wharfinger.model.cluster_state import ClusterState
    from wharfinger.signals.survey import Surveyed


class Action(Enum):
    """What to do with the signals."""

    CHECK = "check"


class Format(Enum):
    """How findings are printed."""

    HUMAN = "human"
    JSON = "json"


def command(  # noqa: PLR0913, PLR0917 — the options of a verb
    action: Annotated[Action, typer.Argument(help="What to do with them.")],  # noqa: ARG001 — there is but one
    paths: options.Paths = None,
    prometheus: options.PrometheusUrl = None,
    config: options.Servers = None,
    snapshot: Annotated[list[str] | None, options.SNAPSHOT] = None,
    live: Annotated[bool, typer.Option("--live", help="Compare with the nodes of the cluster that the kubeconfig names.")] = False,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    slow: Annotated[float, typer.Option("--slow", metavar="SECONDS", help="From when on an answer is called slow.")] = 1.0,
    output: Annotated[Format, typer.Option("--format", help="How findings are printed.")] = Format.HUMAN,
) -> int:
    """Ask every query of the policies and show what comes: exit code 0 when nothing is wrong with it, 1 when something is."""
    if not slow >= 0:
        raise UsageError(f"--slow: expected seconds from 0 on, not {slow:g}")
    settings = live_signals.settings_of(config, prometheus)
    policies = _with_metrics(options.existing(paths or live_signals.policy_paths(settings) or None))
    state = live_signals.state_of(snapshot or (), kubeconfig, context, live=live)
    if state is None:
        streams.complain("warning: without --snapshot or --live nothing can be said of nodes")
    found = asyncio.run(_surveyed(policies, settings, state, kubeconfig, context, slow))
    streams.out(signals_formats.as_json(found) if output is Format.JSON else signals_formats.table(found))
    return 1 if any(each.errors or each.warnings for each in found) else 0


async def _surveyed(  # noqa: PLR0913, PLR0917 — what a survey needs
    policies: Sequence[typed.Policy],
    settings: Settings,
    state: ClusterState | None,
    kubeconfig: str | None,
    context: str | None,
    slow: float,
) -> list[Surveyed]:
    from wharfinger.runtime.system_clock import SystemClock  # noqa: PLC0415 — half a second of imports that no other verb needs
    from wharfinger.signals.survey import survey  # noqa: PLC0415 — likewise

    async with live_signals.sources(policies, settings, kubeconfig, context) as sources:
        return await survey(policies, sources, state, SystemClock(), slow=slow)


def _with_metrics(paths: Sequence[str]) -> list[typed.Policy]:
    policies = policy_set.loaded(paths)
    if not any(policy.metrics for policy in policies):
        raise UsageError(f"no policy in {', '.join(str(Path(path)) for path in paths)} has a metric")
    return policies
