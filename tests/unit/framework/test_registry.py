"""The registered plugins, and the errors for those that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.framework import fleet
from wharfinger.errors import PluginContractError, UnknownObject
from wharfinger.framework import chain, registry
from wharfinger.framework.chain_settings import ChainConfig
from wharfinger.framework.evaluation import cycle
from wharfinger.framework.extension import Plugin

PACKAGES = Path(__file__).parents[2] / "plugin_package"


def announce(folder: Path, entry: str, module: str = "") -> None:
    """Lay out an installed package with one entry point."""
    distribution = folder / "broken-1.0.dist-info"
    distribution.mkdir()
    (distribution / "METADATA").write_text("Metadata-Version: 2.4\nName: broken\nVersion: 1.0\n")
    (distribution / "entry_points.txt").write_text(f"[wharfinger.plugins]\n{entry}\n")
    (folder / "leaky_hull.py").write_text(module)


def test_built_in_plugins_come_in_the_order_of_kubernetes():
    names = list(registry.Registry(registry.built_in()))
    assert names == [name for name in registry.DEFAULT_ORDER if name != "DefaultBinder"]  # the scheduler binds without a plugin


def test_an_unknown_plugin_is_answered_with_those_there_are():
    with pytest.raises(UnknownObject, match="there is no plugin NodeNome; did you mean NodeName"):
        registry.default_registry()["NodeNome"]


def test_a_name_claimed_twice_is_refused_and_both_claims_are_named():
    with pytest.raises(PluginContractError, match="Stub is registered twice: by one and by two"):
        registry.Registry([("one", fleet.Stub), ("two", fleet.Stub)])


def test_a_name_that_a_rule_of_a_policy_could_have_is_refused():
    with pytest.raises(PluginContractError, match=r'plugin harbour/depth \(one\): the name of a plugin has no "/"'):
        registry.Registry([("one", fleet.stub("harbour/depth"))])


def test_plugins_of_other_packages_run_after_the_built_in_ones(monkeypatch):
    monkeypatch.syspath_prepend(PACKAGES)
    found = registry.Registry([*registry.built_in(), *registry.third_party()])
    assert list(found)[-1] == "Draft"
    assert "Draft  Filter, Score  (entry point draft = dockside:Draft)" in str(found)


def test_a_plugin_of_another_package_decides(monkeypatch):
    monkeypatch.syspath_prepend(PACKAGES)
    found = registry.Registry([*registry.built_in(), *registry.third_party()])
    shallow = chain.assemble(config=ChainConfig(arguments={"Draft": {"mostPods": 1}}), registry=found)
    state = fleet.state("a", pods=[fleet.pod("first", node_name="a")])
    assert cycle.decide(shallow, state.snapshot(), fleet.pod()).message.startswith("0/1 nodes are available: 1 node(s) lay too deep.")
    deeper = chain.assemble(registry=found)
    decision = cycle.decide(deeper, state.snapshot(), fleet.pod())
    [part] = [part for part in decision.scores_at("a") if part.name == "Draft"]
    assert (part.raw, part.points, part.weight, part.weighted) == (90, 90, 7, 630)


@pytest.mark.parametrize(
    ("entry", "module", "message"),
    [
        ("hull = leaky_hull:Hull", "", "cannot be loaded: AttributeError"),
        ("hull = leaky_hull:Hull", "import no_such_module", "cannot be loaded: ModuleNotFoundError"),
        ("hull = leaky_hull:Hull", "raise RuntimeError('sunk')", "cannot be loaded: RuntimeError: sunk"),
        ("hull = leaky_hull:Hull", "Hull = 3", "is not a plugin"),
        ("hull = leaky_hull:Hull", "from wharfinger.framework.extension import FilterPlugin as Hull", "is not a plugin"),
        (
            "hull = leaky_hull:Hull",
            "from wharfinger.framework.extension import ScorePlugin\nclass Hull(ScorePlugin):\n    def score(self, *_): ...",
            "is not a plugin: expected a concrete subclass of .* with a `name`",
        ),
    ],
)
def test_a_package_that_cannot_be_used_is_named(monkeypatch, tmp_path, entry, module, message):
    announce(tmp_path, entry, module)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "leaky_hull", raising=False)
    with pytest.raises(PluginContractError, match=f"entry point hull = leaky_hull:Hull in group wharfinger.plugins {message}"):
        registry.third_party()


def test_a_class_without_an_extension_point_is_no_plugin():
    class Idle(Plugin):
        name = "Idle"

    assert not registry._is_plugin(Idle)
