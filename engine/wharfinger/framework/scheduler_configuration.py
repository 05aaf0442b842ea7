"""KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1, Kubernetes 1.36): the fields of the file that people already have.

All of its fields can be there, so that the file need not be changed; `profiles` says what is made of those that decide where pods go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator
from pydantic.alias_generators import to_camel

from wharfinger.framework.faults import exactly

API_GROUP = "kubescheduler.config.k8s.io"
API_VERSION = f"{API_GROUP}/v1"
KIND = "KubeSchedulerConfiguration"
DEFAULT_NAME = "default-scheduler"
EVERY = "*"


def _still_served(value: str) -> str:
    if value.startswith(f"{API_GROUP}/v1beta"):
        raise ValueError(f"{value} is no longer served by Kubernetes 1.36; write {API_VERSION}, the fields of profiles are the same")
    return value


class Part(BaseModel):
    """A part of the document: names in camelCase, nothing unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, defer_build=True)


class PluginEntry(Part):
    """A plugin that is enabled or disabled; `weight` counts where it scores, and 0 is 1, as in kube-scheduler."""

    name: str
    weight: int = Field(default=0, ge=0, le=1_000_000_000)


class PluginSet(Part):
    """What is enabled and disabled at an extension point; `*` in `disabled` is all that are on by default."""

    enabled: tuple[PluginEntry, ...] = ()
    disabled: tuple[PluginEntry, ...] = ()


class Plugins(Part):
    """The extension points; `multiPoint` stands for all that a plugin has."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()

    def points(self) -> Iterator[tuple[str, PluginSet]]:
        """(point as it is written in the file, what is set there) for every point but `multiPoint`."""
        for name in type(self).model_fields:
            if name != "multi_point":
                yield to_camel(name), getattr(self, name)


class PluginConfig(Part):
    """The arguments of a plugin; they may be typed with `apiVersion` and `kind`."""

    name: str
    args: dict[str, Any] = {}


class Profile(Part):
    """How the pods of one `spec.schedulerName` are scheduled."""

    scheduler_name: str = Field(default=DEFAULT_NAME, min_length=1)
    percentage_of_nodes_to_score: int | None = Field(default=None, ge=0, le=100)
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()


class SchedulerConfiguration(Part):
    """The document. What is not about profiles is taken as it is: it concerns a running scheduler, not where pods go."""

    api_version: Annotated[str, AfterValidator(_still_served), exactly(API_VERSION)]
    kind: Annotated[str, exactly(KIND)]
    profiles: tuple[Profile, ...] = ()
    percentage_of_nodes_to_score: int | None = Field(default=None, ge=0, le=100)
    extenders: tuple[dict[str, Any], ...] = ()
    parallelism: int | None = Field(default=None, ge=1)
    leader_election: dict[str, Any] | None = None
    client_connection: dict[str, Any] | None = None
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    pod_initial_backoff_seconds: int | None = Field(default=None, ge=1)
    pod_max_backoff_seconds: int | None = Field(default=None, ge=1)
    delay_cache_until_active: bool | None = None

    @field_validator("extenders")
    @classmethod
    def _no_extenders(cls, value: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
        if value:
            raise ValueError(
                "extenders are not called: a decision asks nobody over the network, or a dry run could not repeat it; "
                "write what they decide as a policy or as a plugin, and remove them"
            )
        return value
