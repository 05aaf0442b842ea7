"""Ties are broken by a hash: always the same way, and evenly."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.unit.compiler.texts import compiled
from tests.unit.framework import fleet, kube
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation import best_rows, cycle
from wharfinger.model import objects
from wharfinger.model.columns.node_table import stable_hash
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode


def test_the_hash_of_a_name_is_fixed_for_ever():
    assert stable_hash("node-1") == 0x29EBA4BC55B7578F  # printf node-1 | b2sum -l 64, bytes reversed


def test_the_winner_is_at_the_scaled_place_of_the_pods_hash_in_the_order_of_the_name_hashes():
    hashes = [stable_hash(f"node-{number}") for number in range(50)]
    for number in range(20):
        place = stable_hash(f"uid-{number}") * 50 // 2**64
        assert hashes[best_rows.winner(f"uid-{number}", np.array(hashes, np.uint64))] == sorted(hashes)[place]


def test_the_winner_is_fixed_for_ever():
    names = np.array([stable_hash(f"node-{number}") for number in range(100)], np.uint64)
    assert [best_rows.winner(f"uid-{number}", names) for number in range(8)] == [65, 35, 86, 73, 35, 26, 40, 5]


def test_the_hash_of_a_node_is_the_one_kept_with_its_column():
    snapshot = fleet.state("a", "b").snapshot()
    assert snapshot.name_hashes.tolist() == [stable_hash("a"), stable_hash("b")]


@pytest.mark.parametrize("prefix", ["node-", "ip-10-0-0-", "gke-pool-1-abc"])
def test_pods_spread_evenly_over_equals(prefix):
    names = np.array([stable_hash(f"{prefix}{number}") for number in range(20)], np.uint64)
    counts = Counter(best_rows.winner(f"uid-{number}", names) for number in range(4000))
    chi_squared = sum((counts[node] - 200) ** 2 / 200 for node in range(20))
    assert chi_squared < 43.8  # the 99.9 % quantile for 19 degrees of freedom


def test_the_order_of_the_rows_does_not_matter():
    names = [f"node-{number}" for number in range(30)]
    chain = fleet.chain_of(fleet.Stub)
    forwards, backwards = fleet.state(*names), fleet.state(*reversed(names))
    for number in range(20):
        pod = fleet.pod(f"pod-{number}")
        assert cycle.decide(chain, forwards.snapshot(), pod).node == cycle.decide(chain, backwards.snapshot(), pod).node


@pytest.mark.parametrize(("ties", "equal"), [("", ("a", "b", "c")), ('tie_break number(node.labels["rank"] ?? "") asc\n', ("b", "c"))])
def test_the_equal_nodes_are_those_that_pods_with_other_uids_get(ties, equal):
    chain = assemble((compiled(f'policy "ranks"\nscore none weight 1 = 0 * least_allocated()\n{ties}'),))
    ranks = {"a": "2", "b": "1", "c": "1"}
    snapshot = kube.state([kube.node(name, labels={"rank": rank}) for name, rank in ranks.items()]).snapshot()
    decided = [cycle.decide(chain, snapshot, PodView(decode.convert(kube.pod(f"p{number}"), objects.Pod))) for number in range(40)]
    assert {decision.equal_nodes for decision in decided} == {equal}
    assert {decision.ties for decision in decided} == {len(equal)}
    assert {decision.node for decision in decided} == set(equal)


def test_a_version_that_is_missing_comes_last_whatever_text_stands_for_it():
    key = 'if (node.labels["old"] ?? "") == "yes" then semver(pod.name) else semver(node.labels["release"] ?? "")'
    chain = assemble((compiled(f'policy "releases"\ntie_break {key} desc\n'),))
    labels = {"a": {"old": "yes"}, "b": {"release": "1.9"}, "c": {"release": "v1.10.2"}, "d": {"release": "none"}}
    snapshot = kube.state([kube.node(name, labels=each) for name, each in labels.items()]).snapshot()
    assert cycle.decide(chain, snapshot, PodView(decode.convert(kube.pod("p"), objects.Pod))).equal_nodes == ("c",)
