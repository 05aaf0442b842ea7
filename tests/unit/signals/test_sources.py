"""Every source that policies may name has a reader, and a place in messages; nothing compares sources by their names."""

from __future__ import annotations

import re
from pathlib import Path

from wharfinger.language.semantics.catalogue import SOURCES
from wharfinger.signals.sources import sources_of

ENGINE = Path(__file__).parents[3] / "engine"


def test_every_source_has_a_reader() -> None:
    assert sources_of([]).keys() == SOURCES.keys()


def test_every_source_is_asked_somewhere() -> None:
    assert all(source.has_servers or source.address for source in SOURCES.values())


def test_no_module_compares_sources_by_name() -> None:
    comparison = re.compile(rf"""[!=]= (PROMETHEUS|METRICS_API|["']({"|".join(SOURCES)})["'])""")
    found = [
        path.relative_to(ENGINE / "wharfinger").as_posix()
        for path in sorted(ENGINE.rglob("*.py"))
        if comparison.search(path.read_text("utf-8"))
    ]

    assert found == []
