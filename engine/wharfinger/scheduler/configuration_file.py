"""Reads files with settings: a KubeSchedulerConfiguration, and the one YAML document of any such file."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

from wharfinger.errors import UsageError
from wharfinger.framework.configuration.kubernetes_profiles import Profiles, read_profiles
from wharfinger.framework.registry import default_registry
from wharfinger.model.reading import decode

PROCESS_KIND = "WharfingerConfiguration"
MAX_BYTES = 2**20  # bytes; settings are a few kilobytes


def read(path: str | Path) -> Profiles:
    """The profiles of a file (`-` is standard input); `UsageError` names the file and has a line for every fault."""
    document = only_document(path, "KubeSchedulerConfiguration")
    if document.get("kind") == PROCESS_KIND:
        raise UsageError(f"{path}: this is a {PROCESS_KIND}, the settings of wharf run; expected a KubeSchedulerConfiguration")
    try:
        return read_profiles(document, default_registry())
    except UsageError as error:
        raise UsageError("\n".join(f"{path}: {line}" for line in str(error).splitlines())) from error


def only_document(path: str | Path, expected: str) -> dict[str, Any]:
    """The one mapping that a YAML file holds (`-` is standard input); `UsageError` names what was `expected`."""
    try:
        documents = list(decode.parse_yaml(_content(path), unique_keys=True))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except decode.NotReadable as error:
        raise UsageError(f"{path}: {error}") from error
    if len(documents) != 1 or not isinstance(documents[0], dict):
        found = "something else" if len(documents) == 1 else f"{len(documents)} documents"
        raise UsageError(f"{path}: expected one {expected}, found {found}")
    return documents[0]


def _content(path: str | Path) -> bytes:
    with contextlib.nullcontext(sys.stdin.buffer) if str(path) == "-" else Path(path).open("rb") as stream:
        content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise UsageError(f"{path}: larger than 1 MiB; that is another file than settings")
    return content
