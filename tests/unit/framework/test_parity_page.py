"""The page about parity with Kubernetes lists every plugin."""

from __future__ import annotations

import re
from pathlib import Path

from wharfinger.framework import extension, registry

SETTINGS = Path(__file__).parents[3] / "docs" / "operating" / "configuration.md"
PAGE = Path(__file__).parents[3] / "docs" / "kubernetes-parity.md"
ROW = re.compile(r"^\| (\w+) \| ([A-Z][\w, ]+?)(?: \(weight (\d+)\))? \|$", re.MULTILINE)


def listed():
    return {name: (points, weight) for name, points, weight in ROW.findall(PAGE.read_text(encoding="utf-8"))}


def test_every_plugin_is_listed_in_order_with_points_and_weight():
    expected = {
        plugin.name: (
            ", ".join(extension.points(plugin)),
            str(plugin.default_weight) if issubclass(plugin, extension.ScorePlugin) else "",
        )
        for _, plugin in sorted(registry.built_in(), key=lambda found: registry.DEFAULT_ORDER.index(found[1].name))
    }
    assert listed() == expected
    assert list(listed()) == list(expected)


def test_every_argument_is_listed_with_its_plugin():
    section = SETTINGS.read_text(encoding="utf-8").partition("### Plugin arguments")[2].partition("\n## ")[0]
    found = {row[0]: set(row[1:]) for line in section.splitlines() if line.startswith("| `") and (row := re.findall(r"`(\w+)`", line))}
    for _, plugin in registry.built_in():
        assert set(plugin.arguments_model.__struct_encode_fields__) <= found.get(plugin.name, set()), plugin.name
