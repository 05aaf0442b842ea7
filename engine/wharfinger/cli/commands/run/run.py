"""The process on a cluster: `wharf run`, its settings by `wharf config print`, and by `wharf install` what the cluster needs before it.

Most flags of `wharf run` are made from the settings; the others are about one of the profiles. Flags override the file of `--config`.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import signal
import sys
import typing
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Annotated, Any, Literal

import typer

from wharfinger.cli import options, streams
from wharfinger.crd import definition
from wharfinger.daemon.settings import Settings, read_settings, settings_text, validated
from wharfinger.daemon.settings_fields import Setting, settings_of
from wharfinger.errors import UsageError, WharfingerError
from wharfinger.language.report import wording

LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")
"""A link of Markdown: descriptions of settings are also a table of the documentation."""
Given = Mapping[str, Any]
"""Values by the names of parameters, None for flags that are not given."""

_CONFIG = Annotated[str | None, typer.Option("--config", metavar="FILE", help="A WharfingerConfiguration; flags override it.")]
_OF_PROFILE = {
    "scheduler_name": Annotated[
        str | None,
        typer.Option(
            "--scheduler-name", metavar="NAME", help="The scheduler name (spec.schedulerName) whose pods are placed; default: wharfinger."
        ),
    ],
    "policy": options.Policies,
    "shadow": Annotated[
        list[str] | None,
        typer.Option("--shadow", metavar="PATH", help="A policy file or folder to compare with every decision without changing any."),
    ],
    "param": options.Params,
}


def _parameter_of(setting: Setting) -> str:
    """The name of the parameter for the flag of a setting."""
    return "" if setting.flag is None else setting.flag.name.partition("/")[0].removeprefix("--").replace("-", "_")


_SETTINGS = {_parameter_of(setting): setting for setting in settings_of(Settings) if setting.flag is not None}


def _annotation(setting: Setting) -> Any:
    """The parameter for a setting as typer takes it: None where the flag is not given."""
    assert setting.flag is not None  # noqa: S101 — only those are asked for
    option = typer.Option(setting.flag.name, metavar=setting.flag.metavar, help=LINK.sub(r"\1", setting.help), case_sensitive=False)
    kind = list[str] if setting.type == tuple[str, ...] else setting.type
    plain = kind if kind in {bool, int, list[str]} or typing.get_origin(kind) is typing.Literal else str
    return Annotated[plain | None, option]


def taking_settings(function: Callable[[Settings], int], **arguments: Any) -> Callable[..., int]:
    """The function as typer takes it, with a parameter for every flag; `arguments` (name to annotation) are not passed on to it."""

    def command(**given: Any) -> int:
        return function(_settings({name: value for name, value in given.items() if name not in arguments}))

    flags = {"config": _CONFIG, **_OF_PROFILE, **{name: _annotation(setting) for name, setting in _SETTINGS.items()}}
    parameters = [
        *(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation) for name, annotation in arguments.items()),
        *(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=flags[name]) for name in flags),
    ]
    vars(command)["__signature__"] = inspect.Signature(parameters, return_annotation=int)  # what typer reads
    command.__annotations__ = {**arguments, **flags, "return": int}
    command.__doc__ = function.__doc__
    return command


def _settings(given: Given) -> Settings:
    """The settings of the file, or the defaults, with the flags in their places; UsageError for what does not fit."""
    settings = Settings() if given["config"] is None else read_settings(given["config"])
    document = settings.model_dump(by_alias=True)
    for name, setting in _SETTINGS.items():
        if given[name] is not None:
            _set_value(document, setting.path, given[name])
    document["profiles"] = _profiles(list(document["profiles"]), given)
    return validated(document, "flags")


def _set_value(document: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Set a value at a path of a document; missing parts are created."""
    *parts, last = path
    for part in parts:
        document[part] = document = dict(document[part] or {})
    document[last] = value


def _profiles(profiles: list[dict[str, Any]], given: Given) -> list[dict[str, Any]]:
    """The profiles with what the flags say about one of them: the only one, or the one that `--scheduler-name` names."""
    own = {"policies": given["policy"], "shadowPolicies": given["shadow"], "params": dict(options.params(given["param"])) or None}
    said = {name: value for name, value in own.items() if value is not None}
    name = given["scheduler_name"]
    if len(profiles) == 1:
        profiles[0] |= said | ({} if name is None else {"schedulerName": name})
    elif said or name is not None:
        _named(profiles, given).update(said)
    return profiles


def _named(profiles: list[dict[str, Any]], given: Given) -> dict[str, Any]:
    names = [profile["schedulerName"] for profile in profiles]
    name, config = given["scheduler_name"], given["config"]
    if name is None:
        raise UsageError(f"{config} has several profiles; say with --scheduler-name which one --policy and --param are for")
    if name not in names:
        near = wording.closest(name, names)
        hint = f"did you mean {near}?" if near else f"there are {', '.join(names)}"
        raise UsageError(f"--scheduler-name {name}: {config} has no such profile; {hint}")
    if not (given["policy"] or given["shadow"] or given["param"]):
        raise UsageError(f"--scheduler-name says which profile of {config} --policy and --param are for; give one of them too")
    return profiles[names.index(name)]


@partial(taking_settings, action=Annotated[Literal["print"], typer.Argument(help="`print` is the only action.")])
def wharf_config(settings: Settings) -> int:
    """Print the settings that `wharf run` with the same flags would use, as a file for --config. Connects to nothing.

    $ wharf config print --policy policies/
    """
    streams.out(settings_text(settings))
    return 0


SIGNALS = (signal.SIGTERM, signal.SIGINT)


@taking_settings
def wharf_run(settings: Settings) -> int:
    """Run the scheduler: place the pods that name it in spec.schedulerName, until SIGTERM or SIGINT.

    A second signal ends the process at once.

    $ wharf run --policy policies/ --dry-run
    """
    from wharfinger.daemon.serve import serve  # noqa: PLC0415 — printing settings and definitions must not pay for the scheduler
    from wharfinger.framework.registry import default_registry  # noqa: PLC0415 — as above

    default_registry()  # imports all plugins, which would be a long step of the event loop
    asyncio.run(_until_signalled(partial(serve, settings)))
    return 0


class StoppedAtOnce(WharfingerError):
    """A second signal came while the process was stopping."""


async def _until_signalled(serve: Callable[..., Awaitable[None]]) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    serving = asyncio.ensure_future(serve(stop=stop))

    def signalled() -> None:
        if stop.is_set():
            serving.cancel()
        stop.set()

    for number in SIGNALS:
        loop.add_signal_handler(number, signalled)
    try:
        await serving
    except asyncio.CancelledError:
        raise StoppedAtOnce("stopped at once by a second signal; what was under way may or may not have been written") from None


def wharf_install(
    printed: Annotated[bool, typer.Option("--print", help="Print the manifests for `kubectl apply -f -`.")] = False,
) -> int:
    """Print the CustomResourceDefinitions of SchedulingPolicy, PlacementPreview and PolicyApp.

    Apply them before anything that uses them, then wait until they are established: `kubectl wait
    --for jsonpath='{.status.conditions[?(@.type=="Established")].status}'=True crd -l app.kubernetes.io/managed-by=wharfinger`.

    $ wharf install --print | kubectl apply -f -
    """
    if not printed:
        raise UsageError("nothing is written to a cluster from here; --print prints the manifests for `kubectl apply -f -`")
    sys.stdout.write("---\n".join(definition.files().values()))
    return 0
