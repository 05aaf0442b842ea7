"""After any changes, the best rows found by cells are those that a search of all rows finds."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import numpy as np
import pytest

from tests.unit.framework import fleet
from wharfinger.framework import chain, domains
from wharfinger.framework.domains import RowClasses
from wharfinger.framework.evaluation import best_rows
from wharfinger.framework.evaluation.best_rows import Arrangement, BestOfFew, BestOfMany
from wharfinger.framework.evaluation.cycle import Decider, decide
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState

TEN_TERMS = (Path(__file__).parents[1] / "bench" / "ten_terms.policy").read_text()
ZONED = """
policy "zoned"
let alike = pods where it.labels["app"] == pod.labels["app"]
score even weight 1.3 = spread(alike, by: "topology.kubernetes.io/zone") on missing 7
score few weight 0.7 = -count(alike, within: "topology.kubernetes.io/zone") normalize minmax on missing skip
score rack weight 0.3 = count(alike, within: "rack") normalize max on missing skip
score later tier 2 = spread(alike, by: "rack") on missing 0
"""


def best_of_all(sums, feasible, ids, added, per_unit):
    """The best rows, by looking at each."""
    totals = sums
    for each in added:
        totals = totals + each[ids]
    keys = np.where(feasible, totals if per_unit is None else np.rint(totals * per_unit), -np.inf)
    return np.flatnonzero(keys == keys.max())


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("n_classes", [None, 1, 3, 11])
@pytest.mark.parametrize("form", ["few", "many"])
def test_both_forms_find_what_looking_at_every_row_finds(seed, n_classes, form):
    chance = np.random.default_rng(seed)
    n_nodes = int(chance.integers(11, 700))
    hashes = chance.integers(0, 2**63, n_nodes).astype(np.uint64)
    ids = (
        np.zeros(n_nodes, np.intp)
        if n_classes is None
        else np.append(np.arange(n_classes), chance.integers(0, n_classes, n_nodes - n_classes))
    )
    classes = None if n_classes is None else RowClasses((), ids, np.arange(n_classes))
    per_unit = None if n_classes is None else [1e6, 0.2, None][seed % 3]
    nearly_equal = [0.1, 0.1 + 1e-16, 0.1 + 1e-9]
    values = np.arange(4.0) if per_unit is None else np.array([*nearly_equal, *([0.0] * 40 if seed % 2 else [3.0, 7.7])])
    sums, feasible = chance.choice(values, n_nodes), chance.random(n_nodes) < 0.8
    feasible[0] = True
    best = (
        BestOfFew(Arrangement(hashes, None), classes, sums, feasible)
        if form == "few"
        else BestOfMany(Arrangement(hashes, classes), sums, feasible)
    )
    for _ in range(60):
        if chance.random() < 0.6:
            row = int(chance.integers(n_nodes))
            sums[row], feasible[row] = chance.choice(values), row == 0 or chance.random() < 0.8
            best.put(row, sums[row] if feasible[row] else -np.inf)
        else:
            rows = np.unique(chance.integers(0, n_nodes, int(chance.integers(1, 40))))
            sums[rows], feasible[rows] = chance.choice(values, len(rows)), chance.random(len(rows)) < 0.8
            feasible[0] = True
            best.put_all(rows, np.where(feasible[rows], sums[rows], -np.inf))
            best.put(0, sums[0])
        added = [] if n_classes is None else [chance.choice([0.0, 0.3, 5.0], n_classes) for _ in range(int(chance.integers(0, 3)))]
        if n_classes is not None and not added:
            added = [np.zeros(n_classes)]
        if n_classes is not None and per_unit is None:
            added = [np.where((np.arange(n_classes) == ids[0]) | (chance.random(n_classes) < 0.6), 0.0, -np.inf)]
        expected = best_of_all(sums, feasible, ids, added, per_unit)
        found = best.find(added, per_unit)
        assert found.n_rows == len(expected)
        assert sorted(found.rows().tolist()) == expected.tolist()
        in_order = expected[np.argsort(hashes[expected])]
        for place in {0, len(expected) // 2, len(expected) - 1}:
            assert found.row(place) == in_order[place]


def labelled(chance, number):
    labels = {"disktype": chance.choice(["ssd", "hdd"]), "rack": f"r{chance.randrange(4)}"}
    if chance.random() < 0.9:
        labels[fleet.ZONE] = chance.choice("abc")
    return fleet.node(f"n{number}", cpu=f"{chance.randint(2, 9)}", memory=f"{chance.randint(7, 9)}Gi", labels=labels)


@pytest.mark.parametrize("few_rows", [0, best_rows.FEW_ROWS])
@pytest.mark.parametrize("texts", [[TEN_TERMS], [ZONED], [TEN_TERMS, ZONED]], ids=["ten terms", "zoned", "both"])
def test_decisions_that_add_points_by_domain_are_those_of_decide(texts, few_rows, monkeypatch):
    monkeypatch.setattr(best_rows, "FEW_ROWS", few_rows)
    chance = random.Random(5)
    state = ClusterState()
    for number in range(90):
        state.add_node(labelled(chance, number))
    decider = Decider(chain.assemble([fleet.policy(text) for text in texts]))
    for number in range(160):
        app = chance.choice("uv")
        pod = fleet.pod(f"{app}{number}", cpu=f"{'uv'.index(app) * 37 + 101}m", labels={"app": app})
        snapshot = state.snapshot(1.0)
        kept, fresh = decider.decide(snapshot, pod), decide(decider.chain, snapshot, pod)
        assert (kept.node, kept.ties, kept.totals, kept.ranking(5)) == (fresh.node, fresh.ties, fresh.totals, fresh.ranking(5))
        assert kept.scores_at(kept.node) == fresh.scores_at(fresh.node)
        state.assume(pod, kept.node)
        if number % 17 == 0:
            state.add_node(labelled(chance, chance.randrange(100)))
        if number % 41 == 40:
            state.remove_node(f"n{chance.randrange(50)}")


ZONES_FULL = """
policy "zones full"
let alike = pods where it.labels["app"] == pod.labels["app"]
filter zone { require count(alike, within: "topology.kubernetes.io/zone") < 45 else "zone is full" on missing pass }
filter rack { require count(alike, within: "rack") < 35 else "rack is full" on missing reject }
score empty weight 0.7 = -node.pod_count normalize minmax
"""
HARD_SPREAD = {"topologySpreadConstraints": [
    {"maxSkew": 1, "topologyKey": fleet.ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "u"}}},
    {"maxSkew": 3, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "u"}}},
    {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": "v"}}},
]}  # fmt: skip
AFFINITY = {"affinity": {
    "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "u"}}, "topologyKey": fleet.ZONE}
    ]},
    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "w"}}, "topologyKey": "rack"}
    ]},
}}  # fmt: skip


@pytest.mark.parametrize("texts", [[], [ZONES_FULL], [ZONES_FULL, ZONED]], ids=["kubernetes", "policy", "both"])
@pytest.mark.parametrize("few_rows", [0, best_rows.FEW_ROWS])
@pytest.mark.parametrize("seed", range(3))
def test_filters_kept_by_domain_decide_as_row_by_row(texts, seed, few_rows, monkeypatch):
    monkeypatch.setattr(best_rows, "FEW_ROWS", few_rows)
    chance = random.Random(seed)
    state = ClusterState()
    for number in range(90):
        state.add_node(labelled(chance, number))
    decider = Decider(chain.assemble([fleet.policy(text) for text in texts]))
    specs = {"u": HARD_SPREAD, "v": AFFINITY, "w": {}}
    placed, by_domain = [], 0
    for number in range(200):
        app = chance.choices("uvw", (20, 20, 1 if number > 60 else 0))[0]
        container = {"name": "main", "resources": {"requests": {"cpu": f"{'uvw'.index(app) * 37 + 101}m"}}}
        metadata = {"name": f"{app}{number}", "namespace": "default", "uid": f"uid-{number}", "labels": {"app": app}}
        pod = PodView(msgspec.convert({"metadata": metadata, "spec": {"containers": [container], **specs[app]}}, objects.Pod))
        snapshot = state.snapshot(1.0)
        kept = decider.decide(snapshot, pod)
        with monkeypatch.context() as patch:
            patch.setattr(domains, "MAX_CLASSES", 0)
            fresh = decide(decider.chain, snapshot, pod)
        by_domain += kept.evaluation.filtering.feasible_set.classes is not None
        assert fresh.evaluation.filtering.feasible_set.classes is None
        assert (kept.node, kept.ties, kept.feasible, kept.message) == (fresh.node, fresh.ties, fresh.feasible, fresh.message)
        assert (kept.totals, kept.ranking(5)) == (fresh.totals, fresh.ranking(5))
        if kept.node is not None:
            state.assume(pod, kept.node)
            placed.append(pod)
        if number % 7 == 6 and placed:
            state.forget(placed.pop(chance.randrange(len(placed))))
        if number % 17 == 0:
            state.add_node(labelled(chance, chance.randrange(100)))
    assert by_domain > 100
