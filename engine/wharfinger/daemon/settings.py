"""Settings of `wharf run`: the `WharfingerConfiguration`, with the names of kube-scheduler's own file.

    apiVersion: config.wharfinger.dev/v1alpha1
    kind: WharfingerConfiguration
    profiles:
    - schedulerName: wharfinger
      policies: [policies/]
      params: {keep_free: 20%}

Everything has a default; without a policy, pods are placed by Kubernetes' own rules..
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from wharfinger.daemon import settings_fields
from wharfinger.daemon.prometheus_settings import Prometheus
from wharfinger.daemon.settings_fields import Duration, Part
from wharfinger.framework.configuration.faults import exactly

ADMISSION_PORT = 10262


class AdmissionSettings(Part):
    """Files of the certificate with which the webhook is served, and its key; the port, at the bind address; and who may ask.

    Who may ask proves it with a certificate that one of `client_ca_file` has signed, for one of `client_names` if there are any: the API
    server, which gets its certificate by `--admission-control-config-file`. Where that cannot be set, `any_caller` has to be said.
    """

    certificate: str = Field(min_length=1)
    key: str = Field(min_length=1)
    port: int = Field(default=ADMISSION_PORT, ge=0, le=65535)
    client_ca_file: str | None = Field(default=None, min_length=1)
    client_names: tuple[str, ...] = ()
    any_caller: bool = False

    @model_validator(mode="after")
    def _callers_are_known(self) -> Self:
        if not self.any_caller and self.client_ca_file is None:
            raise ValueError(
                "who may ask? name with clientCaFile who signs the certificate of the API server; "
                "where it can have none, say anyCaller: true, and anybody who reaches the port may have texts judged"
            )
        if self.any_caller and (self.client_ca_file is not None or self.client_names):
            raise ValueError("anyCaller asks nobody for a certificate; leave it out, or clientCaFile and clientNames")
        return self

    def with_paths(self, change: Callable[[str], str]) -> Self:
        """The same with every path changed."""
        update = {"certificate": change(self.certificate), "key": change(self.key)}
        if self.client_ca_file is not None:
            update["client_ca_file"] = change(self.client_ca_file)
        return self.model_copy(update=update)


MEBIBYTE = 2**20


class DecisionLogSettings(Part):
    """A log of decisions that can be replayed: the file that is written, the size at which another is begun, and how many there are."""

    path: str = Field(min_length=1)
    max_mebibytes: int = Field(default=256, ge=1, le=1_000_000)
    max_files: int = Field(default=8, ge=1, le=10_000)

    def with_paths(self, change: Callable[[str], str]) -> Self:
        """The same with its path changed."""
        return self.model_copy(update={"path": change(self.path)})


class TracingSettings(Part):
    """Traces of pods: the collector that takes OTLP over HTTP, and which part of those is recorded that belong to no trace yet."""

    endpoint: str
    sampling_ratio: float = Field(default=0.01, ge=0, le=1, strict=True)

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
SCHEDULER_NAME = "wharfinger"
PORT = 10261  # Kubernetes' own components have 10248 to 10260


def _param(value: Any) -> Any:
    """A value as `--param` would have it: numbers, truth values and lists may be written as such in YAML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value) if isinstance(value, int | float) else value


class ClientConnection(Part):
    """Which API server, and as whom; without a kubeconfig $KUBECONFIG, ~/.kube/config, or the pod's own account."""

    kubeconfig: str | None = Field(default=None, min_length=1)
    context: str | None = Field(default=None, min_length=1)


class Profile(Part):
    """How the pods of one `spec.schedulerName` are placed.

    `policies` are files or folders, and so are `shadow_policies`, which are held against every decision and change none; `params` sets what
    they declare; `kube_scheduler_configuration` is a file with weights and arguments of the built-in plugins.
    """

    scheduler_name: str = Field(default=SCHEDULER_NAME, min_length=1)
    policies: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    shadow_policies: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    params: Mapping[str, Annotated[str, BeforeValidator(_param)]] = Field(default_factory=dict)
    kube_scheduler_configuration: str | None = Field(default=None, min_length=1)


class LeaderElection(Part):
    """Of several replicas one acts: the one that holds the Lease."""

    leader_elect: bool = True
    resource_namespace: str = Field(default="kube-system", min_length=1)
    resource_name: str = Field(default="wharfinger", min_length=1)
    lease_duration: Duration = 15.0
    renew_deadline: Duration = 10.0
    retry_period: Duration = 2.0

    @model_validator(mode="after")
    def _in_order(self) -> LeaderElection:
        if not self.lease_duration > self.renew_deadline > 1.2 * self.retry_period > 0:
            raise ValueError("leaseDuration must be longer than renewDeadline, and that longer than 1.2 times retryPeriod")
        return self


class Limits(Part):
    """What is under way at a time, and for how long.

    `binds` and `writes` are pods being bound and statuses being written; `connections` are those to the API server besides the watches;
    `grace_period` is how long a stop waits for what is under way. `policy_budget` is what one policy may take of the time of a decision:
    one that takes more several times in a row is suspended, and pods that it governs wait; 0 sets no limit.
    """

    binds: int = Field(default=256, ge=1, le=10_000)
    writes: int = Field(default=32, ge=1, le=10_000)
    connections: int = Field(default=64, ge=1, le=1_000)
    grace_period: Duration = Field(default=10.0, ge=0)
    policy_budget: Duration = Field(default=0.02, ge=0)


class SignalSettings(Part):
    """How much is asked for metrics of policies.

    No query is asked more often than every `min_refresh`, whatever policies say. `queries_of_asker` bounds the distinct queries of one
    policy of the cluster, and of all policies of one namespace together; `queries` those of all.
    """

    min_refresh: Duration = Field(default=5.0, ge=1, le=3600)
    queries_of_asker: int = Field(default=64, ge=1, le=10_000)
    queries: int = Field(default=512, ge=1, le=10_000)


class Logging(Part):
    """What is logged, and how: lines for people, or one JSON object per line."""

    format: Literal["console", "json"] = "console"
    level: Literal["debug", "info", "warning", "error"] = "info"


class Settings(Part):
    """The document. `port` 0 serves nothing. `prometheus` has the servers that metrics name, `default` for those that name none.

    `policy_config_map` is `namespace/name` of a ConfigMap with policies for every profile; `state_directory` is where the last good version
    of every policy outlasts a restart. `remote_debugging`: what is under `/debug` answers others than the machine itself, too;
    `remote_ui`: the live page does, and so do `/policies`, `/decisions` and `/explain`.
    `decision_log` is written, and `tracing` done, where they are given.
    With `admission` a webhook is served that refuses SchedulingPolicies which would not become active.
    `tenant_policies` says what inline policies of PolicyApps and those that PlacementPreviews bring along may do: nothing, what concerns
    only pods of their namespace, or what policies of the cluster may; `tenant_servers` are those of `prometheus` that they may query,
    `tenant_libraries` files and folders that they may import.
    """

    api_version: Annotated[str, exactly(API_VERSION)] = API_VERSION
    kind: Annotated[str, exactly(KIND)] = KIND
    client_connection: ClientConnection = ClientConnection()
    profiles: tuple[Profile, ...] = (Profile(),)
    policy_config_map: str | None = None
    state_directory: str | None = Field(default=None, min_length=1)
    leader_election: LeaderElection = LeaderElection()
    limits: Limits = Limits()
    prometheus: Mapping[str, Prometheus] = Field(default_factory=dict)
    signals: SignalSettings = SignalSettings()
    bind_address: str = Field(default="127.0.0.1", min_length=1)
    port: int = Field(default=PORT, ge=0, le=65535)
    admission: AdmissionSettings | None = None
    logging: Logging = Logging()
    decision_log: DecisionLogSettings | None = None
    tracing: TracingSettings | None = None
    custom_resources: bool = True
    tenant_policies: Literal["Off", "Restricted", "Trusted"] = "Restricted"
    tenant_servers: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    tenant_libraries: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    remote_debugging: bool = False
    remote_ui: bool = False
    dry_run: bool = False

    @model_validator(mode="after")
    def _servers_are_known(self) -> Settings:
        unknown = next((name for name in self.tenant_servers if name not in self.prometheus), None)
        if unknown is not None:
            raise ValueError(f"tenantServers names {unknown}, which is none of those under prometheus")
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
