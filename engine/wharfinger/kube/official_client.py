"""The official client: kubeconfigs of every kind, and the service account of a pod.

Its import takes a tenth of a second, so plain kubeconfigs are read without it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config
from kubernetes.aio.config.kube_config import KubeConfigLoader, KubeConfigMerger

from wharfinger.errors import UsageError


def in_cluster() -> Any:
    """The configuration of a pod's service account; ValueError outside of a pod, or if its files are missing."""
    configuration = Configuration()
    try:
        load_incluster_config(client_configuration=configuration)
    except ConfigException as error:
        raise ValueError(str(error)) from error
    return configuration


class Kubeconfig:
    """A context of one or more kubeconfigs, joined by colons; its exec plugin runs whenever it is loaded."""

    def __init__(self, path: str, context: str | None) -> None:
        try:
            if not any(part and Path(part).expanduser().exists() for part in path.split(os.pathsep)):  # the merger would only log it
                raise UsageError(f"cannot read how to connect to the API server: {path} does not exist")
            merged = KubeConfigMerger(path)
            self._loader = KubeConfigLoader(config_dict=merged.config, active_context=context, config_base_path=None)
        except ConfigException as error:
            raise ValueError(str(error)) from error
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"this is not a kubeconfig: {path}; `kubectl config view` shows a valid one") from error
        self.configuration: Any = Configuration()

    async def load(self) -> None:
        """Update `configuration`; ValueError, OSError or another error of the loader for a file that it cannot read."""
        try:
            await self._loader.load_and_set(self.configuration)
        except ConfigException as error:
            raise ValueError(str(error)) from error

    def refuse_failed_plugin(self) -> None:
        """Raise ValueError if the exec plugin failed; the loader only logs that, which would look like missing permissions."""
        user = self._loader._user  # noqa: SLF001 — the loader has no public attribute for it
        given = {name for name, value in vars(self._loader).items() if value}
        if user and "exec" in user and not {"token", "cert_file"} & given:
            raise ValueError("the exec plugin of the kubeconfig gave no credentials")
