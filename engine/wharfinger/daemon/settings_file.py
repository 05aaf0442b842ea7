"""Files with a WharfingerConfiguration, read and written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from wharfinger.daemon.settings import API_VERSION, KIND, Settings
from wharfinger.errors import UsageError
from wharfinger.framework.configuration import chain_settings, kubernetes_profiles
from wharfinger.framework.configuration.kubernetes_profiles import without_nulls
from wharfinger.scheduler.configuration_file import only_document

_HEAD = f"apiVersion: {API_VERSION}, kind: {KIND}"


def read(path: str) -> Settings:
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


def written(settings: Settings) -> str:
    """The settings as a file that means the same wherever it is kept: with every field, and paths from the root."""
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
