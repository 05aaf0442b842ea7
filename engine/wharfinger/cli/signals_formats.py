"""How `wharf signals check` shows what it found."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wharfinger.language.counts import count
from wharfinger.language.types import Kind

if TYPE_CHECKING:
    from wharfinger.signals.survey import Surveyed

_UNITS = {Kind.PERCENT: (100.0, " %"), Kind.CPU: (0.001, " cores"), Kind.MEMORY: (2.0**-30, " GiB"), Kind.DURATION: (1.0, " s")}


def table(found: Sequence[Surveyed]) -> str:
    """Text for people: a few lines for each metric."""
    return "\n\n".join("\n".join(_lines(each)) for each in found) + "\n"


def as_json(found: Sequence[Surveyed]) -> str:
    """The same as one JSON document."""
    return json.dumps([_plain(each) for each in found], ensure_ascii=False, indent=2) + "\n"


def _lines(each: Surveyed) -> Iterator[str]:
    metric = each.metric
    yield f"{each.policy}.{metric.name}: {metric.type.kind.value}"
    yield f"  {each.answer.query}"
    if each.answer.found is not None:
        yield f"  {' · '.join(_facts(each))}"
    yield from (f"  error: {sentence}" for sentence in each.errors)
    yield from (f"  warning: {sentence}" for sentence in each.warnings)


def _facts(each: Surveyed) -> Iterator[str]:
    found, fares, metric = each.answer.found, each.fares, each.metric
    if found is None:
        return
    yield f"{found.n_series:,} series"
    if fares is not None:
        fresh = round(fares.coverage * fares.n_nodes)
        yield f"fresh on {fresh:,} of {count(fares.n_nodes, 'node')} ({fares.coverage:.0%}, needs {metric.min_coverage:.0%})"
        values = found.column.values[found.column.present]
        if len(values):
            yield f"{_number(metric.type.kind, values.min())} to {_number(metric.type.kind, values.max())}"
        if math.isfinite(fares.age):
            yield f"newest {max(0.0, fares.age):.0f} s old, at most {metric.max_age:g} s"
    yield f"answered in {each.answer.seconds:.2f} s"


def _number(kind: Kind, value: Any) -> str:
    factor, unit = _UNITS.get(kind, (1.0, ""))
    return f"{float(value) * factor:,.4g}{unit}"


def _plain(each: Surveyed) -> dict[str, Any]:
    found, fares = each.answer.found, each.fares
    values = np.zeros(0) if found is None else found.column.values[found.column.present]
    return {
        "policy": each.policy,
        "metric": each.metric.name,
        "type": each.metric.type.kind.value,
        "query": str(each.answer.query),
        "seconds": round(each.answer.seconds, 3),
        "series": None if found is None else found.n_series,
        "coverage": None if fares is None else round(fares.coverage, 4),
        "minCoverage": each.metric.min_coverage,
        "newestAgeSeconds": None if fares is None or not math.isfinite(fares.age) else round(fares.age, 1),
        "least": float(values.min()) if len(values) else None,
        "most": float(values.max()) if len(values) else None,
        "errors": list(each.errors),
        "warnings": list(each.warnings),
    }
