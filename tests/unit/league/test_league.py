"""The policy files of the league decide as the paper's formulas do, pod by pod; and what the league prints of it."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

from tests.league import energy, small_games
from tests.league.__main__ import PUBLISHED, Result, Run, compiled, results_of, table
from tests.league.picture import Line, svg
from tests.league.play import FOLDER, chain, fragmentation, play
from tests.league.protocol import SEEDS, Game, Half, Machine, Typical, game, machines, pod_manifests, shapes, typical
from tests.league.reference import WAYS, placed
from tests.league.typical import library
from wharfinger.simulate import openb

NODES, PODS = 12, 120


def small(variant: openb.Variant) -> Game:
    """Few nodes and pods of a game: so few nodes that they fill up, and among them some of each size."""
    whole = game(variant, SEEDS[0])
    by_size = sorted(whole.nodes, key=lambda number: (number % 7, -machines()[number].gpus))
    return Game(nodes=tuple(by_size[:NODES]), pods=tuple(number for number in whole.pods if shapes(variant)[number].cpu > 3000)[:PODS])


@pytest.mark.parametrize("variant", list(openb.Variant))
@pytest.mark.parametrize("policy", sorted(WAYS))
def test_a_policy_file_decides_as_the_formula(policy: str, variant: openb.Variant) -> None:
    part = small(variant)
    played = play(chain([compiled(FOLDER / f"{policy}.policy", variant)]), variant, part)
    asked = [shapes(variant)[number] for number in part.pods]
    expected = placed(WAYS[policy], [machines()[number] for number in part.nodes], asked, typical(variant))
    assert list(zip(played.node, played.gpus, strict=True)) == [(part.nodes[node] if node >= 0 else -1, gpus) for node, gpus in expected]
    assert any(node < 0 for node in played.node), "the nodes do not fill up"


def test_a_game_is_the_paper_s() -> None:
    played = game(openb.Variant.DEFAULT, 42)
    gpus = sum(machine.gpus for machine in machines())
    asked = shapes(openb.Variant.DEFAULT)
    assert (len(machines()), gpus) == (1213, 6212)
    assert sorted(played.pods[:8152]) == list(range(8152))
    assert 1.29 * gpus * 1000 < sum(asked[number].demand for number in played.pods) <= 1.3 * gpus * 1000
    assert sorted(played.nodes) == list(range(1213))
    assert game(openb.Variant.DEFAULT, 42) == played != game(openb.Variant.DEFAULT, 43)


@pytest.mark.parametrize("variant", list(openb.Variant))
def test_no_pod_of_a_half_is_in_the_other(variant: openb.Variant) -> None:
    first, second = (game(variant, 42, half) for half in (Half.FIRST, Half.SECOND))
    assert set(first.pods) | set(second.pods) == set(range(8152))
    assert set(first.pods).isdisjoint(second.pods)
    asked = shapes(variant)
    assert 1.29 < sum(asked[number].demand for number in first.pods) / 6_212_000 <= 1.3


@pytest.mark.parametrize("variant", list(openb.Variant))
def test_a_policy_is_searched_on_other_pods_than_it_is_checked_on(variant: openb.Variant) -> None:
    searched, checked = (small_games.snapshot(variant, half, 1)["items"] for half in (Half.FIRST, Half.SECOND))
    names = [{item["metadata"]["name"] for item in items if item["kind"] == "Pod"} for items in (searched, checked)]
    assert names[0].isdisjoint(names[1])
    gpus = sum(int(item["status"]["allocatable"][openb.GPU]) for item in searched if item["kind"] == "Node")
    assert 500 <= gpus <= 540
    asked = {pod["metadata"]["name"]: shape for pod, shape in zip(pod_manifests(variant), shapes(variant), strict=True)}
    assert 1000 * gpus <= sum(asked[name].demand for name in names[0]) < 1000 * (gpus + 8)


def test_a_run_that_has_a_file_is_not_played_again(tmp_path: Path) -> None:
    kept = Result(policy="fgd", trace="default", seed=42, unallocated=0.05, kilowatts=1800, by_load=(0.5,), fragmented=(0.1,))
    run = Run(path="no such file", trace="default", seed=42, half=Half.BOTH, result=tmp_path / "fgd.json")
    run.result.write_bytes(msgspec.json.encode(kept))
    assert results_of([run], 1) == [kept]


@pytest.mark.parametrize(("variant", "count"), [(openb.Variant.DEFAULT, 35), (openb.Variant.GPUSPEC33, 124)])
def test_the_typical_requests_are_those_of_the_paper(variant: openb.Variant, count: int) -> None:
    assert len(typical(variant)) == count
    assert sum(each.weight for each in typical(variant)) == pytest.approx(1)
    assert (FOLDER / f"typical-{variant.value}.policy").read_text(encoding="utf-8") == library(variant)


def test_fragmentation_is_what_typical_pods_cannot_use() -> None:
    mix = [Typical(4000, 1, 500, frozenset(), 0.5), Typical(4000, 1, 1000, frozenset({"T4"}), 0.25), Typical(1000, 0, 0, frozenset(), 0.25)]
    assert fragmentation(8000, [300, 1000], "T4", mix) == 0.5 * 300 + 0.25 * 300 + 0.25 * 1300
    assert fragmentation(8000, [300, 1000], "G2", mix) == 0.5 * 300 + 0.25 * 1300 + 0.25 * 1300
    assert fragmentation(1000, [300, 1000], "T4", mix) == 1300


def test_a_gpu_is_busy_with_its_first_share_and_a_socket_with_its_first_core() -> None:
    machine = Machine(64_000, 1, 2, "T4")
    assert energy.watts(machine, 64_000, [1000, 1000]) == 2 * 10 + 2 * 15
    assert energy.watts(machine, 63_999, [999, 1000]) == 70 + 10 + 120 + 15
    assert {each.model for each in machines()} <= set(energy.GPU_WATTS)


def test_the_table_names_what_differs() -> None:
    results = [
        Result(policy="fgd", trace="default", seed=seed, unallocated=0.04 + seed / 100, kilowatts=1000, by_load=(), fragmented=())
        for seed in (0, 2)
    ]
    row = table(results).splitlines()[-1]
    assert row.startswith(f"| fgd | 5.00 (1.00) | {PUBLISHED['fgd'][0]:.2f} | +0.23 |")


def test_the_picture_is_complete_in_itself() -> None:
    drawn = ET.fromstring(svg([Line(name="fgd", loads=(0.0, 0.9, 1.3), unallocated=(1, 0.1, 0.05), fragmented=(0.1, 0.1, 0.05))]))
    assert not [element for element in drawn.iter() if "href" in element.attrib]
    assert "fgd" in "".join(drawn.itertext())
