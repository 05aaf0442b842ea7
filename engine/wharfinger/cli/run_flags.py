"""The flags of `wharf run`, which outweigh the file given with `--config`."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import Enum
from typing import Annotated, Any

import typer

from wharfinger.cli import options
from wharfinger.daemon import settings_file
from wharfinger.daemon.settings import Settings
from wharfinger.errors import UsageError
from wharfinger.language import suggest
from wharfinger.language.authority import TenantPolicies


class LogFormat(Enum):
    """How the log is written."""

    CONSOLE = "console"
    JSON = "json"


class LogLevel(Enum):
    """From where on something is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, kw_only=True)
class Flags:
    """What was given; None is what was not."""

    config: Annotated[str | None, typer.Option("--config", metavar="FILE", help="A WharfingerConfiguration; flags outweigh it.")] = None
    kubeconfig: Annotated[
        str | None,
        typer.Option("--kubeconfig", metavar="FILE", help="How to connect; default: $KUBECONFIG, ~/.kube/config, the pod's account."),
    ] = None
    context: Annotated[str | None, typer.Option("--context", metavar="NAME", help="Which context of the kubeconfig.")] = None
    scheduler_name: Annotated[
        str | None,
        typer.Option("--scheduler-name", metavar="NAME", help="Whose pods are scheduled: spec.schedulerName; default: wharfinger."),
    ] = None
    policy: options.Policies = None
    shadow: Annotated[
        list[str] | None,
        typer.Option("--shadow", metavar="PATH", help="A policy file or folder to hold against every decision without changing any."),
    ] = None
    param: options.Params = None
    policy_configmap: Annotated[
        str | None,
        typer.Option("--policy-configmap", metavar="NAMESPACE/NAME", help="A ConfigMap with policies, read through the API server."),
    ] = None
    state_dir: Annotated[
        str | None, typer.Option("--state-dir", metavar="FOLDER", help="Where the last good version of every policy outlasts a restart.")
    ] = None
    decision_log: Annotated[
        str | None, typer.Option("--decision-log", metavar="FILE", help="Where decisions are recorded, for `wharf replay`.")
    ] = None
    leader_elect: Annotated[
        bool | None, typer.Option("--leader-elect/--no-leader-elect", help="Whether to act only while holding a Lease; the default is to.")
    ] = None
    custom_resources: Annotated[
        bool | None,
        typer.Option(
            "--custom-resources/--no-custom-resources",
            help="Whether to act on SchedulingPolicies, PlacementPreviews and PolicyApps; the default is to, once they are defined.",
        ),
    ] = None
    tenant_policies: Annotated[
        TenantPolicies | None,
        typer.Option(
            "--tenant-policies",
            case_sensitive=False,
            help="What policies of PolicyApps and PlacementPreviews may do; the default is Restricted: what concerns their namespace only.",
        ),
    ] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Decide and report, but write nothing to the API server.")] = False
    bind_address: Annotated[
        str | None, typer.Option("--bind-address", metavar="ADDRESS", help="Where health and metrics are served; default: 127.0.0.1.")
    ] = None
    port: Annotated[int | None, typer.Option("--port", metavar="PORT", help="At which port; 0 serves nothing; default: 10261.")] = None
    admission_certificate: Annotated[
        str | None,
        typer.Option(
            "--admission-certificate", metavar="FILE", help="Serve a webhook that refuses bad SchedulingPolicies, with this certificate."
        ),
    ] = None
    admission_key: Annotated[str | None, typer.Option("--admission-key", metavar="FILE", help="The key of that certificate.")] = None
    admission_port: Annotated[
        int | None, typer.Option("--admission-port", metavar="PORT", help="Where the webhook is served; default: 10262.")
    ] = None
    admission_client_ca: Annotated[
        str | None,
        typer.Option("--admission-client-ca", metavar="FILE", help="Who signs the certificate with which the API server asks the webhook."),
    ] = None
    admission_client_name: Annotated[
        list[str] | None,
        typer.Option("--admission-client-name", metavar="NAME", help="A common name that it may have; default: any; repeatable."),
    ] = None
    admission_any_caller: Annotated[
        bool | None,
        typer.Option(
            "--admission-any-caller/--no-admission-any-caller", help="Whether the webhook answers anybody; the default is not to."
        ),
    ] = None
    log_format: Annotated[LogFormat | None, typer.Option("--log-format", help="How the log is written; default: console.")] = None
    log_level: Annotated[LogLevel | None, typer.Option("--log-level", help="From where on something is logged; default: info.")] = None


def taking_flags(verb: Callable[[Flags], int], **arguments: Any) -> Callable[..., int]:
    """The verb as a command of typer, with a parameter for every flag; `arguments` (name to annotation) are asked for and left out."""
    hints = typing.get_type_hints(Flags, include_extras=True)

    def command(**given: Any) -> int:
        return verb(Flags(**{name: value for name, value in given.items() if name not in arguments}))

    parameters = [
        *(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation) for name, annotation in arguments.items()),
        *(
            inspect.Parameter(flag.name, inspect.Parameter.KEYWORD_ONLY, default=flag.default, annotation=hints[flag.name])
            for flag in fields(Flags)
        ),
    ]
    vars(command)["__signature__"] = inspect.Signature(parameters, return_annotation=int)  # what typer asks for
    command.__annotations__ = {**arguments, **hints, "return": int}
    command.__doc__ = verb.__doc__
    return command


def settings_of(flags: Flags) -> Settings:
    """The settings of the file, or the defaults, with the flags in their places; UsageError for what does not fit."""
    settings = Settings() if flags.config is None else settings_file.read(flags.config)
    document = settings.model_dump(by_alias=True)
    _set(document["clientConnection"], kubeconfig=flags.kubeconfig, context=flags.context)
    _set(document["leaderElection"], leaderElect=flags.leader_elect)
    _set(document["logging"], format=_value(flags.log_format), level=_value(flags.log_level))
    _set(document, bindAddress=flags.bind_address, port=flags.port, dryRun=flags.dry_run or None, customResources=flags.custom_resources)
    _set(document, policyConfigMap=flags.policy_configmap, stateDirectory=flags.state_dir, tenantPolicies=_value(flags.tenant_policies))
    _set_admission(
        document,
        certificate=flags.admission_certificate,
        key=flags.admission_key,
        port=flags.admission_port,
        clientCaFile=flags.admission_client_ca,
        clientNames=flags.admission_client_name,
        anyCaller=flags.admission_any_caller,
    )
    if flags.decision_log is not None:
        document["decisionLog"] = {**(document["decisionLog"] or {}), "path": flags.decision_log}
    document["profiles"] = _profiles(list(document["profiles"]), flags)
    return settings_file.validated(document, "flags")


def _profiles(profiles: list[dict[str, Any]], flags: Flags) -> list[dict[str, Any]]:
    """The profiles with what the flags say about one of them: the only one, or the one that `--scheduler-name` names."""
    own = {
        "policies": flags.policy,
        "shadowPolicies": flags.shadow,
        "params": dict(options.params(flags.param)) or None,
    }
    said = {name: value for name, value in own.items() if value is not None}
    if len(profiles) == 1:
        profiles[0] |= said
        _set(profiles[0], schedulerName=flags.scheduler_name)
    elif said or flags.scheduler_name is not None:
        _named(profiles, flags).update(said)
    return profiles


def _named(profiles: list[dict[str, Any]], flags: Flags) -> dict[str, Any]:
    names = [profile["schedulerName"] for profile in profiles]
    if flags.scheduler_name is None:
        raise UsageError(f"{flags.config} has several profiles; say with --scheduler-name which one --policy and --param are for")
    if flags.scheduler_name not in names:
        near = suggest.closest(flags.scheduler_name, names)
        hint = f"did you mean {near}?" if near else f"there are {', '.join(names)}"
        raise UsageError(f"--scheduler-name {flags.scheduler_name}: {flags.config} has no such profile; {hint}")
    if not (flags.policy or flags.shadow or flags.param):
        raise UsageError(f"--scheduler-name says which profile of {flags.config} --policy and --param are for; give one of them too")
    return profiles[names.index(flags.scheduler_name)]


def _set_admission(document: dict[str, Any], **values: Any) -> None:
    if any(value is not None for value in values.values()):
        document["admission"] = dict(document["admission"] or {})
        _set(document["admission"], **values)


def _set(document: dict[str, Any], **values: Any) -> None:
    document.update({name: value for name, value in values.items() if value is not None})


def _value(choice: Enum | None) -> Any:
    return None if choice is None else choice.value
