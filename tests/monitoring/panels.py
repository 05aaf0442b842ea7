"""Panels of a Grafana dashboard, and their places: as many fields as Grafana needs to draw them, and no more."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel: `queries` are (PromQL, legend). `kind` is timeseries, stat, heatmap or table; `unit` is Grafana's name of it."""

    title: str
    about: str
    queries: Sequence[tuple[str, str]]
    kind: str = "timeseries"
    unit: str = "short"
    width: int = 8
    height: int = 8
    stacked: bool = False
    thresholds: Mapping[str, float] = field(default_factory=dict)

    @property
    def instant(self) -> bool:
        """True if only the latest value counts."""
        return self.kind in {"stat", "table"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Panels under a heading."""

    title: str
    panels: Sequence[Panel]


def dashboard(title: str, uid: str, about: str, variables: Sequence[Mapping[str, Any]], rows: Sequence[Row]) -> str:
    """The dashboard as JSON."""
    made = {
        "title": title,
        "uid": uid,
        "description": about,
        "tags": ["kubernetes", "scheduling"],
        "timezone": "browser",
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "graphTooltip": 1,
        "templating": {"list": list(variables)},
        "panels": [{"id": number, **panel} for number, panel in enumerate(_placed(rows), 1)],
    }
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"


def _placed(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Every row and panel with its place: from left to right, and down."""
    top = 0
    for row in rows:
        yield {"type": "row", "title": row.title, "collapsed": False, "panels": [], "gridPos": {"h": 1, "w": COLUMNS, "x": 0, "y": top}}
        top, left, tallest = top + 1, 0, 0
        for panel in row.panels:
            if left + panel.width > COLUMNS:
                top, left, tallest = top + tallest, 0, 0
            yield {**_plain(panel), "gridPos": {"h": panel.height, "w": panel.width, "x": left, "y": top}}
            left, tallest = left + panel.width, max(tallest, panel.height)
        top += tallest


def _plain(panel: Panel) -> dict[str, Any]:
    targets = [_target(panel, index, expr, legend) for index, (expr, legend) in enumerate(panel.queries)]
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": DATASOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _OPTIONS[panel.kind],
    }


def _target(panel: Panel, index: int, expr: str, legend: str) -> dict[str, Any]:
    asked = {"refId": chr(ord("A") + index), "datasource": DATASOURCE, "expr": expr, "legendFormat": legend}
    if panel.kind == "heatmap":
        return {**asked, "format": "heatmap", "legendFormat": "{{le}}"}
    if panel.instant:
        return {**asked, "instant": True, "range": False, **({"format": "table"} if panel.kind == "table" else {})}
    return asked


def _defaults(panel: Panel) -> dict[str, Any]:
    steps = [{"color": "green", "value": None}, *({"color": color, "value": value} for color, value in panel.thresholds.items())]
    found: dict[str, Any] = {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}}
    if panel.kind == "timeseries":
        stacking = {"mode": "normal" if panel.stacked else "none", "group": "A"}
        found |= {
            "min": 0,
            "custom": {"lineWidth": 1, "fillOpacity": 25 if panel.stacked else 8, "stacking": stacking, "showPoints": "never"},
        }
    return found


_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "timeseries": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}},
    "stat": {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value", "graphMode": "none", "textMode": "auto"},
    "table": {"showHeader": True},
    "heatmap": {
        "calculate": False,
        "yAxis": {"unit": "s"},
        "cellGap": 1,
        "color": {"mode": "scheme", "scheme": "Blues", "steps": 64},
        "tooltip": {"mode": "single", "yHistogram": True},
    },
}
