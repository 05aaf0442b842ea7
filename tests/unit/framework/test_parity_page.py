"""The page about parity with Kubernetes lists what there is."""

from __future__ import annotations

import re
from pathlib import Path

from wharfinger.framework import extension, registry

PAGE = Path(__file__).parents[3] / "docs" / "kubernetes-parity.md"
ROW = re.compile(r"^\| (\w+) \| ([\w, ]+) \|([ \d]*)\|(.*)\|$", re.MULTILINE)


def listed():
    rows = ROW.findall(PAGE.read_text(encoding="utf-8"))
    return {name: (points, weight.strip(), set(re.findall(r"`(\w+)`", arguments))) for name, points, weight, arguments in rows}


def test_every_plugin_is_listed_in_order_with_points_weight_and_arguments():
    expected = {
        plugin.name: (
            ", ".join(extension.points(plugin)),
            str(plugin.default_weight) if issubclass(plugin, extension.ScorePlugin) else "",
            {field.alias for field in plugin.arguments_model.model_fields.values()},
        )
        for _, plugin in sorted(registry.built_in(), key=lambda found: registry.DEFAULT_ORDER.index(found[1].name))
    }
    assert listed() == expected
    assert list(listed()) == list(expected)
