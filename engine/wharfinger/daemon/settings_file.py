"""Files with a WharfingerConfiguration, and flags that outweigh them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from wharfinger.daemon.settings import API_VERSION, KIND, Settings
from wharfinger.errors import UsageError
from wharfinger.framework.configuration import faults, kubernetes_profiles
from wharfinger.framework.configuration.kubernetes_profiles import without_nulls
from wharfinger.scheduler.configuration_file import only_document

_HEAD = f"apiVersion: {API_VERSION}, kind: {KIND}"


def read(path: str) -> Settings:
    """The settings of a file (`-` is standard input), its paths taken from its own folder; UsageError has a line for every fault."""
    document = only_document(path, f"{KIND} ({_HEAD})")
    _refuse_other_kinds(path, document)
    settings = validated(without_nulls(document), path)
    folder = Path() if path == "-" else Path(path).parent
    return _with_paths(settings, lambda name: str(folder / Path(name).expanduser()))


def validated(document: Mapping[str, Any], where: str) -> Settings:
    """The settings given as plain values; UsageError has a line for every fault, each beginning with `where`."""
    try:
        return Settings.model_validate(document)
    except ValidationError as error:
        raise UsageError("\n".join(f"{where}: {line}" for line in faults.sentences(error, Settings))) from error


def written(settings: Settings) -> str:
    """The settings as the content of a file that says the same wherever it is kept: with every field, and paths from the root."""
    document = _with_paths(settings, lambda path: str(Path(path).absolute())).model_dump(by_alias=True, mode="json", exclude_none=True)
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


def _refuse_other_kinds(path: str, document: Mapping[str, Any]) -> None:
    if document.get("kind") == kubernetes_profiles.KIND:
        raise UsageError(
            f"{path}: this is a {kubernetes_profiles.KIND}; name it as kubeSchedulerConfiguration of a profile in a {KIND} ({_HEAD})"
        )
    missing = [name for name in ("apiVersion", "kind") if name not in document]
    if missing:
        raise UsageError(f"{path}: {' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing; a {KIND} begins with {_HEAD}")


def _with_paths(settings: Settings, change: Callable[[str], str]) -> Settings:
    """The settings with every path of a file changed."""

    def changed(path: str | None) -> str | None:
        return None if path is None else change(path)

    connection, admission = settings.client_connection, settings.admission
    profiles = (
        profile.model_copy(
            update={
                "policies": tuple(map(change, profile.policies)),
                "shadow_policies": tuple(map(change, profile.shadow_policies)),
                "kube_scheduler_configuration": changed(profile.kube_scheduler_configuration),
            }
        )
        for profile in settings.profiles
    )
    update = {
        "client_connection": connection.model_copy(update={"kubeconfig": changed(connection.kubeconfig)}),
        "profiles": tuple(profiles),
        "state_directory": changed(settings.state_directory),
        "tenant_libraries": tuple(map(change, settings.tenant_libraries)),
        "admission": None if admission is None else admission.with_paths(change),
        "decision_log": None if settings.decision_log is None else settings.decision_log.with_paths(change),
        "prometheus": {name: server.with_paths(change) for name, server in settings.prometheus.items()},
    }
    return settings.model_copy(update=update)
