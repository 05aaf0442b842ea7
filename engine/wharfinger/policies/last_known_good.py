"""The last accepted version of each policy, on disk, so that a restart with a broken text keeps the version that decided before.

One file per policy, replaced as a whole: after any crash a file holds the old version or the new one. A file that holds neither is skipped,
with a warning.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from wharfinger.language.files import replacing

FORMAT = 1
_MAX_BYTES = 64 * 1024 * 1024


class Record(Struct, frozen=True, kw_only=True):
    """The input to build a policy again. `texts` are by name, its own under `name`; `params` are those of the text itself.

    `namespace` is the one that owns the policy, None for the cluster.
    """

    source: str
    key: str
    name: str
    texts: Mapping[str, bytes]
    mode: str
    params: Mapping[str, Any] = field(default_factory=dict)
    generation: int = 0
    since: float = 0.0
    namespace: str | None = None


def latest(kept: Record | None, remembered: Record | None) -> Record | None:
    """The record of the later generation: the one on disk, or the one that the source keeps.

    The one on disk if both are of the same generation.
    """
    if kept is None or remembered is None:
        return kept or remembered
    return remembered if remembered.generation > kept.generation else kept


class LastKnownGood:
    """Records in `folder`, which is created with the first one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "policies"

    def load(self) -> tuple[list[Record], list[str]]:
        """The records that can be read, by source and key, and a sentence for each that cannot."""
        records: list[Record] = []
        troubles: list[str] = []
        for path in sorted(self.folder.glob("*.json")):
            try:
                records.append(_read(path))
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                troubles.append(f"{path} cannot be read and is passed over: {error}")
        return sorted(records, key=lambda record: (record.source, record.key)), troubles

    def keep(self, record: Record) -> None:
        """Write a record to disk; raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        body = {
            "source": record.source,
            "key": record.key,
            "name": record.name,
            "mode": record.mode,
            "generation": record.generation,
            "since": record.since,
            "params": dict(record.params),
            "namespace": record.namespace,
            "texts": {name: content.decode() for name, content in sorted(record.texts.items())},
        }
        with replacing(self._path(record.source, record.key), durable=True) as stream:
            stream.write(json.dumps({"format": FORMAT, "sha256": _digest(body), "policy": body}).encode())

    def drop(self, source: str, key: str) -> None:
        """Remove a record; raises OSError."""
        self._path(source, key).unlink(missing_ok=True)

    def _path(self, source: str, key: str) -> Path:
        return self.folder / f"{_digest({'source': source, 'key': key})[:40]}.json"


def _read(path: Path) -> Record:
    if path.stat().st_size > _MAX_BYTES:
        raise ValueError("it is too large")
    whole = json.loads(path.read_text("utf-8"))
    if whole["format"] != FORMAT:
        raise ValueError(f"it has format {whole['format']!r}, expected {FORMAT}")
    body = whole["policy"]
    if whole["sha256"] != _digest(body):
        raise ValueError("its digest does not match its content")
    texts = {name: content.encode() for name, content in body.pop("texts").items()}
    record = Record(texts=texts, **body)
    if record.name not in texts:
        raise ValueError("it does not contain its own text")
    return record


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
