"""Files with a WharfingerConfiguration, and flags that outweigh them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from wharfinger.daemon.settings import API_VERSION, KIND, Profile, Settings
from wharfinger.errors import UsageError
from wharfinger.framework import faults, scheduler_configuration
from wharfinger.model import yaml_text

_HEAD = f"apiVersion: {API_VERSION}, kind: {KIND}"


def read(path: str) -> Settings:
    """The settings of a file (`-` is standard input), its paths taken from its own folder; UsageError has a line for every fault."""
    document = _document(path)
    _refuse_other_kinds(path, document)
    settings = validated(document, path)
    folder = Path() if path == "-" else Path(path).parent
    return settings.model_copy(
        update={
            "profiles": tuple(_from(folder, profile) for profile in settings.profiles),
            "client_connection": settings.client_connection.model_copy(
                update={"kubeconfig": _path(folder, settings.client_connection.kubeconfig)}
            ),
        }
    )


def validated(document: Mapping[str, Any], where: str) -> Settings:
    """The settings given as plain values; UsageError has a line for every fault, each beginning with `where`."""
    try:
        return Settings.model_validate(document)
    except ValidationError as error:
        raise UsageError("\n".join(f"{where}: {line}" for line in faults.sentences(error, Settings))) from error


def _document(path: str) -> Mapping[str, Any]:
    try:
        content = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        documents = list(yaml_text.parse(content))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except yaml_text.NotReadable as error:
        raise UsageError(f"{path}: {error}") from error
    if len(documents) != 1 or not isinstance(documents[0], dict):
        found = "something else" if len(documents) == 1 else f"{len(documents)} documents"
        raise UsageError(f"{path}: expected one {KIND} ({_HEAD}), found {found}")
    return dict(documents[0])


def _refuse_other_kinds(path: str, document: Mapping[str, Any]) -> None:
    if document.get("kind") == scheduler_configuration.KIND:
        raise UsageError(
            f"{path}: this is a {scheduler_configuration.KIND}; name it as kubeSchedulerConfiguration of a profile in a {KIND} ({_HEAD})"
        )
    missing = [name for name in ("apiVersion", "kind") if name not in document]
    if missing:
        raise UsageError(f"{path}: {' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing; a {KIND} begins with {_HEAD}")


def _from(folder: Path, profile: Profile) -> Profile:
    return profile.model_copy(
        update={
            "policies": tuple(str(_path(folder, path)) for path in profile.policies),
            "kube_scheduler_configuration": _path(folder, profile.kube_scheduler_configuration),
        }
    )


def _path(folder: Path, path: str | None) -> str | None:
    return None if path is None else str(folder / Path(path).expanduser())
