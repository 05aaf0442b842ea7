"""The trials of a search as one SVG file: a point for each trial, its numbers in a tooltip, the Pareto front as a line.

With one objective: its value by trial, and the best one so far. With several: the first against each of the others. The file needs nothing
else: no script, no font, no stylesheet, and it follows the reader's light or dark theme.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from xml.etree import ElementTree as ET

from msgspec import Struct

from wharfinger.what_if.tune.search import ORIGINAL_TRIAL, Trial, Tuned

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 90, 20, 40, 60
RADIUS = 4
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #222 } .title { font-weight: bold } .page { fill: #fff }
.axis { stroke: #888 } .grid { stroke: #ddd } .front { fill: none; stroke: #0a58ca; stroke-width: 2 }
.trial { fill: #999 } .on-front { fill: #0a58ca } .best { fill: #198754 } .current { fill: #d63384 }
@media (prefers-color-scheme: dark) { text { fill: #eee } .page { fill: #1a1a1a } .grid { stroke: #333 } .front { stroke: #6ea8fe }
.on-front { fill: #6ea8fe } .best { fill: #75d19c } .current { fill: #f08bb8 } }
"""


class _Chart(Struct, frozen=True, kw_only=True):
    """Points (x, y, trial) with the names of the axes, and the corners of a line."""

    across: str
    up: str
    points: Sequence[tuple[float, float, Trial]]
    line: Sequence[tuple[float, float]]


def svg(found: Tuned) -> str:
    """The picture as the text of an SVG file."""
    charts = list(_charts(found))
    size = {"width": str(WIDTH), "height": str(HEIGHT * len(charts)), "viewBox": f"0 0 {WIDTH} {HEIGHT * len(charts)}"}
    root = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "role": "img", **size})
    ET.SubElement(root, "title").text = "trials by " + " and ".join(goal.text for goal in found.objectives)
    ET.SubElement(root, "style").text = STYLE
    ET.SubElement(root, "rect", {"class": "page", "width": "100%", "height": "100%"})
    for place, chart in enumerate(charts):
        _draw(ET.SubElement(root, "g", {"transform": f"translate(0 {place * HEIGHT})"}), chart, found)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n"


def _charts(found: Tuned) -> Iterator[_Chart]:
    names = [goal.text for goal in found.objectives]
    drawn = [trial for trial in found.every if all(map(math.isfinite, trial.objectives))]
    if len(names) == 1:
        points = [(float(max(trial.number, 0)), trial.objectives[0], trial) for trial in drawn]
        best = itertools.accumulate((y for _, y, _ in points), min)
        yield _Chart(
            across="trial", up=names[0], points=points, line=_step_corners([(x, y) for (x, _, _), y in zip(points, best, strict=True)])
        )
        return
    for number, name in enumerate(names[1:], start=1):
        points = [(trial.objectives[0], trial.objectives[number], trial) for trial in drawn]
        yield _Chart(across=names[0], up=name, points=points, line=_step_corners(_pareto_front((x, y) for x, y, _ in points)))


def _pareto_front(points: Iterator[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points that no other beats in both directions, from left to right."""
    corners: list[tuple[float, float]] = []
    for x, y in sorted(points):
        if not corners or y < corners[-1][1]:
            corners.append((x, y))
    return corners


def _step_corners(corners: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The corners with a step between each two."""
    steps = [corner for left, right in itertools.pairwise(corners) for corner in (left, (right[0], left[1]))]
    return [*steps, *corners[-1:]]


def _draw(group: ET.Element, chart: _Chart, found: Tuned) -> None:
    across = _Axis([x for x, _, _ in chart.points], LEFT, WIDTH - RIGHT)
    up = _Axis([y for _, y, _ in chart.points], HEIGHT - BOTTOM, TOP)
    for value, place in across.ticks():
        _line(group, "grid", (place, TOP), (place, HEIGHT - BOTTOM))
        _text(group, objective_text(value), place, HEIGHT - BOTTOM + 20, "middle")
    for value, place in up.ticks():
        _line(group, "grid", (LEFT, place), (WIDTH - RIGHT, place))
        _text(group, objective_text(value), LEFT - 8, place + 4, "end")
    _text(group, chart.up, LEFT, TOP - 16, "start", title=True)
    _text(group, chart.across, WIDTH - RIGHT, HEIGHT - 12, "end", title=True)
    if chart.line:
        ET.SubElement(group, "polyline", {"class": "front", "points": " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in chart.line)})
    front = {trial.number for trial in found.front}
    for x, y, trial in sorted(chart.points, key=lambda point: (point[2].number in front, point[2] in (found.best, found.current))):
        kind = (
            "current"
            if trial.number == ORIGINAL_TRIAL
            else "best"
            if trial.number == found.best.number
            else "on-front"
            if trial.number in front
            else "trial"
        )
        circle = ET.SubElement(group, "circle", {"class": kind, "cx": f"{across(x):.1f}", "cy": f"{up(y):.1f}", "r": str(RADIUS)})
        ET.SubElement(circle, "title").text = "\n".join(_tooltip(trial, found))


def _tooltip(trial: Trial, found: Tuned) -> Iterator[str]:
    yield trial_name(trial)
    yield from (f"{goal.text} = {objective_text(value)}" for goal, value in zip(found.objectives, trial.objectives, strict=True))
    yield from (f"{tunable.name} = {tunable.text(value)}" for tunable, value in zip(found.tunables, trial.values, strict=True))


def trial_name(trial: Trial) -> str:
    """The name of a trial."""
    return "current" if trial.number == ORIGINAL_TRIAL else f"trial {trial.number}"


def objective_text(value: float) -> str:
    """The value of an objective: a whole number as it is, others with four digits after the point; "-" for one that is not finite."""
    if not math.isfinite(value):
        return "-"
    return f"{value:,.0f}" if value == round(value) else f"{value:,.4f}"


class _Axis:
    """Maps values to positions on the page, with a margin on both sides."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        low, high = (min(values), max(values)) if values else (0.0, 1.0)
        margin = (high - low) * 0.05 or max(abs(high), 1.0) * 0.05
        self._low, self._high = low - margin, high + margin
        self._start, self._end = start, end

    def __call__(self, value: float) -> float:
        return self._start + (value - self._low) / (self._high - self._low) * (self._end - self._start)

    def ticks(self) -> Iterator[tuple[float, float]]:
        """Round values on the axis, about five, each with its place."""
        step = 10.0 ** math.floor(math.log10((self._high - self._low) / 2))
        while (self._high - self._low) / step > 6:
            step *= 2
        for number in range(math.ceil(self._low / step), math.floor(self._high / step) + 1):
            yield number * step, self(number * step)


def _line(group: ET.Element, kind: str, start: tuple[float, float], end: tuple[float, float]) -> None:
    places = zip(("x1", "y1", "x2", "y2"), (*start, *end), strict=True)
    ET.SubElement(group, "line", {"class": kind} | {name: f"{place:.1f}" for name, place in places})


def _text(  # noqa: PLR0913 — one parameter per attribute of the text
    group: ET.Element, text: str, x: float, y: float, anchor: str, *, title: bool = False
) -> None:
    kind = {"class": "title"} if title else {}
    ET.SubElement(group, "text", {**kind, "x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor}).text = text
