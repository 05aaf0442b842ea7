"""The league as one SVG file: what is not allocated, and what typical pods cannot use, against the load that has arrived.

The file needs nothing else: no script, no font, no stylesheet, and it follows the reader's light or dark theme.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

WIDTH, HEIGHT = 760, 360
LEFT, RIGHT, TOP, BOTTOM = 60, 150, 40, 50
COLOURS = ("#999999", "#0072b2", "#56b4e9", "#009e73", "#cc79a7", "#e69f00", "#8c6d31", "#d55e00")
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #222 } .title { font-weight: bold } .page { fill: #fff } .grid { stroke: #ddd }
polyline { fill: none; stroke-width: 2 }
@media (prefers-color-scheme: dark) { text { fill: #eee } .page { fill: #1a1a1a } .grid { stroke: #333 } }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A policy: parts of all GPUs by load, all from 0 to 1 (loads may be more)."""

    name: str
    loads: Sequence[float]
    unallocated: Sequence[float]
    fragmented: Sequence[float]


def svg(lines: Sequence[Line]) -> str:
    """The picture as the text of an SVG file."""
    size = {"width": str(WIDTH), "height": str(2 * HEIGHT), "viewBox": f"0 0 {WIDTH} {2 * HEIGHT}"}
    root = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "role": "img", **size})
    ET.SubElement(root, "title").text = "GPUs that are not allocated, and that typical pods cannot use, by load"
    ET.SubElement(root, "style").text = STYLE
    ET.SubElement(root, "rect", {"class": "page", "width": "100%", "height": "100%"})
    _panel(root, 0, lines, "GPUs not allocated, % of all", 0.8, 0.2, lambda line: line.unallocated)
    _panel(root, 1, lines, "free GPUs that typical pods cannot use, % of all", 0.0, 0.2, lambda line: line.fragmented)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n"


def _panel(  # noqa: PLR0917 — a panel has these parts
    root: ET.Element, number: int, lines: Sequence[Line], title: str, start: float, top: float, read: Callable[[Line], Sequence[float]]
) -> None:
    panel = ET.SubElement(root, "g", {"transform": f"translate(0 {number * HEIGHT})"})
    end = max((load for line in lines for load in line.loads), default=1.0)
    across, up = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def place(load: float, value: float) -> tuple[float, float]:
        return LEFT + across * (load - start) / (end - start), TOP + up * (1 - min(value, top) / top)

    _text(panel, LEFT, 24, title, cls="title")
    for step in range(5):
        value = top * step / 4
        x, y = place(start, value)
        ET.SubElement(panel, "line", {"class": "grid", "x1": f"{x:.0f}", "x2": f"{LEFT + across}", "y1": f"{y:.1f}", "y2": f"{y:.1f}"})
        _text(panel, LEFT - 8, y + 4, f"{100 * value:.0f}", anchor="end")
        load = start + (end - start) * step / 4
        _text(panel, place(load, 0)[0], HEIGHT - BOTTOM + 20, f"{100 * load:.0f}", anchor="middle")
    _text(panel, LEFT + across / 2, HEIGHT - 10, "GPUs asked for by the pods that have arrived, % of all", anchor="middle")
    for place_, line in enumerate(lines):
        colour = COLOURS[place_ % len(COLOURS)]
        drawn = [place(load, value) for load, value in zip(line.loads, read(line), strict=True) if load >= start - 1e-9 and value <= top]
        ET.SubElement(panel, "polyline", {"points": " ".join(f"{x:.1f},{y:.1f}" for x, y in drawn), "stroke": colour})
        y = TOP + 10 + 20 * place_
        mark = {"x": str(WIDTH - RIGHT + 12), "y": str(y - 9), "width": "14", "height": "4", "fill": colour, "transform": "translate(0 5)"}
        ET.SubElement(panel, "rect", mark)
        _text(panel, WIDTH - RIGHT + 32, y, line.name)


def _text(parent: ET.Element, x: float, y: float, text: str, *, anchor: str = "start", cls: str = "") -> None:
    extra = {"class": cls} if cls else {}
    ET.SubElement(parent, "text", {"x": f"{x:.0f}", "y": f"{y:.0f}", "text-anchor": anchor, **extra}).text = text
