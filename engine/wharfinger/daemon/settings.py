"""Settings of `wharf run`: the `WharfingerConfiguration`, with the names of kube-scheduler's own file, and its files.

    apiVersion: config.wharfinger.dev/v1alpha1
    kind: WharfingerConfiguration
    profiles:
    - schedulerName: wharfinger
      policies: [policies/]
      params: {keep_free: 20%}

Everything has a default; without a policy, pods are placed by Kubernetes' own rules. The flags of `wharf run` and the
table in docs/operating/running.md are made from the fields.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BeforeValidator, Field, ValidationError, field_validator, model_validator

from wharfinger.daemon import settings_fields
from wharfinger.daemon.prometheus_settings import Prometheus
from wharfinger.daemon.settings_fields import Duration, FilePath, Flag, Part
from wharfinger.errors import UsageError
from wharfinger.framework import chain_settings, kubernetes_profiles
from wharfinger.framework.chain_settings import exactly
from wharfinger.framework.kubernetes_profiles import (
    INITIAL_BACKOFF,
    MAX_BACKOFF,
    BackoffSeconds,
    only_document,
    without_nulls,
)

ADMISSION_PORT = 10262


class AdmissionSettings(Part):
    """The validating webhook: its certificate and port, and who may ask.

    A caller proves with a client certificate that it is the API server, which gets one by `--admission-control-config-file`. Where that
    cannot be set, `any_caller` has to be.
    """

    certificate: Annotated[FilePath, Flag("--admission-certificate", "FILE")] = Field(
        description="Serve a webhook that refuses policies which would not become active, with this certificate"
    )
    key: Annotated[FilePath, Flag("--admission-key", "FILE")] = Field(description="The key of that certificate")
    port: Annotated[int, Flag("--admission-port", "PORT")] = Field(
        default=ADMISSION_PORT, ge=0, le=65535, description="The port of the webhook, at the bind address"
    )
    client_ca_file: Annotated[FilePath | None, Flag("--admission-client-ca", "FILE")] = Field(
        default=None, description="The CA that signs the client certificate of the API server"
    )
    client_names: Annotated[tuple[str, ...], Flag("--admission-client-name", "NAME")] = Field(
        default=(), description="Common names that the client certificate may have; default: any; repeatable"
    )
    any_caller: Annotated[bool, Flag("--admission-any-caller/--no-admission-any-caller")] = Field(
        default=False, description="Accept clients without a certificate in the webhook"
    )

    @model_validator(mode="after")
    def _callers_are_known(self) -> Self:
        if not self.any_caller and self.client_ca_file is None:
            raise ValueError(
                "the webhook needs clientCaFile, the CA of the client certificate of the API server; "
                "if the API server has none, set anyCaller: true, and any client that reaches the port may have texts checked"
            )
        if self.any_caller and (self.client_ca_file is not None or self.client_names):
            raise ValueError("anyCaller accepts clients without a certificate; remove it, or remove clientCaFile and clientNames")
        return self


MEBIBYTE = 2**20


class DecisionLogSettings(Part):
    """A log of decisions that can be replayed."""

    path: Annotated[FilePath, Flag("--decision-log", "FILE")] = Field(
        description="The file in which decisions are recorded, for `wharf replay`"
    )
    max_mebibytes: int = Field(default=256, ge=1, le=1_000_000, description="The size in MiB at which a new file is started")
    max_files: int = Field(default=8, ge=1, le=10_000, description="The maximum number of files that are kept")


class TracingSettings(Part):
    """Traces of pods."""

    endpoint: str = Field(description="The URL of a collector that accepts [traces](explaining-decisions.md#traces) as OTLP over HTTP")
    sampling_ratio: float = Field(
        default=0.01,
        ge=0,
        le=1,
        strict=True,
        description="The share of pods that are traced; pods that belong to a trace already are not counted",
    )

    @field_validator("endpoint")
    @classmethod
    def _reachable(cls, value: str) -> str:
        parts = settings_fields.split(value)
        if parts is None or not settings_fields.is_http(parts) or not settings_fields.has_port(parts):
            raise ValueError("expected a URL such as http://collector:4318")
        if parts.username is not None or parts.password is not None:
            raise ValueError("the URL has a password in it; give it as a header, in the variable OTEL_EXPORTER_OTLP_HEADERS")
        if parts.query or parts.fragment:
            raise ValueError("expected the collector's URL, without a query")
        return value


API_VERSION = "config.wharfinger.dev/v1alpha1"
KIND = "WharfingerConfiguration"
_HEAD = f"apiVersion: {API_VERSION}, kind: {KIND}"
SCHEDULER_NAME = "wharfinger"
PORT = 10261  # Kubernetes' own components have 10248 to 10260


Param = str | bool | int | float | list[str | int | float]
"""The types that a value of a param may have in YAML."""


def _param(value: Any) -> Any:
    """A value as `--param` would have it: numbers, truth values and lists may be written as such in YAML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value) if isinstance(value, int | float) else value


class ClientConnection(Part):
    """The API server, and the credentials for it."""

    kubeconfig: Annotated[FilePath | None, Flag("--kubeconfig", "FILE")] = Field(
        default=None, description="The kubeconfig file; default: $KUBECONFIG, ~/.kube/config, the pod's service account"
    )
    context: Annotated[str | None, Flag("--context", "NAME")] = Field(
        default=None, min_length=1, description="The context of the kubeconfig"
    )


class Profile(Part):
    """The chain for the pods of one `spec.schedulerName`."""

    scheduler_name: str = Field(
        default=SCHEDULER_NAME, min_length=1, description="The scheduler name whose pods are placed; each name once"
    )
    policies: tuple[FilePath, ...] = Field(default=(), description="Files and folders with policies, as `--policy`")
    shadow_policies: tuple[FilePath, ...] = Field(
        default=(), description="Policies that are compared with every decision and change none, as `--shadow`"
    )
    params: Mapping[str, Annotated[str, BeforeValidator(_param, json_schema_input_type=Param)]] = Field(
        default_factory=dict, description="Values of the params that the policies declare, as `--param`"
    )
    kube_scheduler_configuration: FilePath | None = Field(
        default=None,
        description="A file with weights and arguments of the built-in plugins ([configuration.md](configuration.md)); its profile "
        "with the same name is used, or its only one",
    )


class LeaderElection(Part):
    """Leader election as in kube-scheduler: of several replicas, the one that holds the Lease acts."""

    leader_elect: Annotated[bool, Flag("--leader-elect/--no-leader-elect")] = Field(
        default=True, description="Act only while holding a Lease"
    )
    resource_namespace: str = Field(default="kube-system", min_length=1, description="The namespace of the Lease")
    resource_name: str = Field(default="wharfinger", min_length=1, description="The name of the Lease")
    lease_duration: Duration = Field(default=15.0, description="The time after which other replicas take a Lease that is not renewed")
    renew_deadline: Duration = Field(default=10.0, description="The time after which a leader that cannot renew the Lease stops")
    retry_period: Duration = Field(default=2.0, description="The time between two attempts to get or renew the Lease")

    @model_validator(mode="after")
    def _in_order(self) -> LeaderElection:
        if not self.lease_duration > self.renew_deadline > 1.2 * self.retry_period > 0:
            raise ValueError("leaseDuration must be longer than renewDeadline, and that longer than 1.2 times retryPeriod")
        return self


class Limits(Part):
    """Limits of concurrent work, of waits, and of objects."""

    binds: int = Field(default=256, ge=1, le=10_000, description="The maximum number of concurrent bindings, and of claim writes")
    writes: int = Field(default=32, ge=1, le=10_000, description="The maximum number of concurrent status updates")
    connections: int = Field(default=64, ge=1, le=1_000, description="The maximum number of connections to the API server, without watches")
    grace_period: Duration = Field(default=10.0, ge=0, description="The time to finish started work after SIGTERM")
    policy_budget: Duration = Field(
        default=0.02,
        ge=0,
        description="The time that one policy may take of a decision; a policy that takes more several times in a row is "
        "[suspended](operations.md#policies), and the pods that it governs wait; 0 sets no limit",
    )
    policy_apps: int = Field(
        default=100,
        ge=1,
        le=100_000,
        description="The maximum number of PolicyApps of one namespace that are acted upon, the oldest first",
    )


class SignalSettings(Part):
    """Limits of the queries for metrics of policies: their interval and their number."""

    min_refresh: Duration = Field(
        default=5.0,
        ge=1,
        le=3600,
        description="The shortest time between two runs of a query ([signals](../writing/signals.md#how-much-is-asked))",
    )
    queries_of_asker: int = Field(
        default=64,
        ge=1,
        le=10_000,
        description="The maximum number of distinct queries of one policy of the cluster, or of all policies of one namespace",
    )
    queries: int = Field(default=512, ge=1, le=10_000, description="The maximum number of distinct queries of all policies")


class Logging(Part):
    """The level and the format of logs."""

    format: Annotated[Literal["console", "json"], Flag("--log-format")] = Field(
        default="console", description="The format of the log: text for a terminal, or one JSON object per line"
    )
    level: Annotated[Literal["debug", "info", "warning", "error"], Flag("--log-level")] = Field(
        default="info", description="The lowest level that is logged"
    )


class Settings(Part):
    """The document. What is optional (`admission`, `decision_log`, `tracing`) happens where it is given."""

    api_version: Annotated[str, exactly(API_VERSION)] = API_VERSION
    kind: Annotated[str, exactly(KIND)] = KIND
    client_connection: ClientConnection = ClientConnection()
    profiles: tuple[Profile, ...] = (Profile(),)
    policy_config_map: Annotated[str | None, Flag("--policy-configmap", "NAMESPACE/NAME")] = Field(
        default=None, description="A ConfigMap with policies for every profile, read through the API server"
    )
    state_directory: Annotated[FilePath | None, Flag("--state-dir", "FOLDER")] = Field(
        default=None, description="A folder that keeps the last good version of each policy for the next start"
    )
    leader_election: LeaderElection = LeaderElection()
    pod_initial_backoff_seconds: BackoffSeconds = Field(
        default=INITIAL_BACKOFF,
        description="The seconds that a rejected pod waits before it is tried again; it waits less if no other pod is to be tried",
    )
    pod_max_backoff_seconds: BackoffSeconds = Field(
        default=MAX_BACKOFF, description="The longest of these waits; each is twice as long as the one before"
    )
    limits: Limits = Limits()
    prometheus: Mapping[str, Prometheus] = Field(default_factory=dict)
    signals: SignalSettings = SignalSettings()
    bind_address: Annotated[str, Flag("--bind-address", "ADDRESS")] = Field(
        default="127.0.0.1", min_length=1, description="The address on which health and metrics are served"
    )
    port: Annotated[int, Flag("--port", "PORT")] = Field(
        default=PORT, ge=0, le=65535, description="The port of health and metrics; 0 disables them"
    )
    admission: AdmissionSettings | None = None
    logging: Logging = Logging()
    decision_log: DecisionLogSettings | None = None
    tracing: TracingSettings | None = None
    custom_resources: Annotated[bool, Flag("--custom-resources/--no-custom-resources")] = Field(
        default=True, description="Act on SchedulingPolicies, PlacementPreviews and PolicyApps if they are defined"
    )
    tenant_policies: Annotated[Literal["Off", "Restricted", "Trusted"], Flag("--tenant-policies")] = Field(
        default="Restricted",
        description="What policies of namespaces may do: nothing, only what concerns their namespace, or what policies of the cluster may "
        "([security.md](security.md))",
    )
    tenant_servers: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=(), description="The servers in `prometheus` that policies of namespaces may query; default: none"
    )
    tenant_libraries: tuple[FilePath, ...] = Field(
        default=(),
        description="Files and folders of libraries that policies of namespaces may import by file name, read at the start; default: none",
    )
    remote_debugging: bool = Field(default=False, description="Answer requests from other machines to `/debug/cache` and `/debug/profile`")
    remote_ui: bool = Field(
        default=False,
        description="Answer requests from other machines to the live page, the playground, `/policies`, `/decisions`, `/explain` and "
        "`/evaluate`",
    )
    playground: bool = Field(
        default=False,
        description="Serve `/ui/playground`, a page for trying policies on the cluster without enforcing them "
        "([security.md](security.md#the-playground))",
    )
    dry_run: Annotated[bool, Flag("--dry-run")] = Field(default=False, description="Decide and report, but write nothing to the API server")

    @model_validator(mode="after")
    def _servers_are_known(self) -> Settings:
        unknown = next((name for name in self.tenant_servers if name not in self.prometheus), None)
        if unknown is not None:
            raise ValueError(f"tenantServers names {unknown}, which is none of those under prometheus")
        return self

    @model_validator(mode="after")
    def _backoffs_grow(self) -> Self:
        kubernetes_profiles.check_backoffs(self.pod_initial_backoff_seconds, self.pod_max_backoff_seconds)
        return self

    @field_validator("policy_config_map")
    @classmethod
    def _named(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[^/\s]+/[^/\s]+", value):
            raise ValueError(f"expected NAMESPACE/NAME, not {value!r}")
        return value

    @field_validator("profiles")
    @classmethod
    def _one_each(cls, value: tuple[Profile, ...]) -> tuple[Profile, ...]:
        names = [profile.scheduler_name for profile in value]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"there are several profiles for schedulerName {twice[0]}; join their policies in one, or rename one")
        return value or (Profile(),)


def read_settings(path: str) -> Settings:
    """The settings of a file (`-` is standard input), its paths taken from its own folder; UsageError has a line for every fault."""
    document = only_document(path, f"{KIND} ({_HEAD})")
    _refuse_other_kinds(path, document)
    return validated(without_nulls(document), path, folder=Path() if path == "-" else Path(path).parent)


def validated(document: Mapping[str, Any], where: str, folder: Path | None = None) -> Settings:
    """The settings given as plain values, paths taken from `folder`; UsageError has a line for every fault, each beginning with `where`."""
    try:
        return Settings.model_validate(document, context={"folder": folder})
    except ValidationError as error:
        raise UsageError("\n".join(f"{where}: {line}" for line in chain_settings.sentences(error, Settings))) from error


def settings_text(settings: Settings) -> str:
    """The settings as a file that can be moved to any folder: with every field, and absolute paths."""
    document = settings.model_dump(by_alias=True, mode="json", exclude_none=True)
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


def _refuse_other_kinds(path: str, document: Mapping[str, Any]) -> None:
    if document.get("kind") == kubernetes_profiles.KIND:
        raise UsageError(
            f"{path}: this is a {kubernetes_profiles.KIND}; name it as kubeSchedulerConfiguration of a profile in a {KIND} ({_HEAD})"
        )
    missing = [name for name in ("apiVersion", "kind") if name not in document]
    if missing:
        raise UsageError(f"{path}: {' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing; a {KIND} begins with {_HEAD}")
