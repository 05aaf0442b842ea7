"""Counts and sums of selected pods follow the changes of pods and nodes."""

import math
from functools import partial

import pytest

from tests.unit.model import clusters
from tests.work import calls
from wharfinger.model.columns import pod_table, selection
from wharfinger.model.columns.domains import exact_sum
from wharfinger.model.columns.selection import Corrections

ZONES = {"zone": "z1"}, {"zone": "z2"}


def cluster_of(n_nodes=3):
    return clusters.state([clusters.node(f"node-{number}", ZONES[number % 2]) for number in range(n_nodes)])


def app(name, pod):
    return pod.labels.get("app") == name


def siblings(cluster, **more):
    return cluster.snapshot().selection("web", partial(app, "web"), **more)


def test_counts_follow_pods_that_come_and_go():
    cluster = cluster_of()
    assert siblings(cluster).by_node.tolist() == [0, 0, 0]
    pods = [clusters.view(f"web-{number}", labels={"app": "web"}) for number in range(3)]
    for pod, node in zip(pods, ("node-0", "node-0", "node-1"), strict=True):
        cluster.assume(pod, node)
    cluster.assume(clusters.view("other", labels={"app": "other"}), "node-0")
    found = siblings(cluster)
    assert found.by_node.tolist() == [2, 1, 0]
    assert found.total == 3
    assert found.by_domain("zone").tolist() == [2, 1]
    assert found.in_domain("zone").tolist() == [2, 1, 2]
    cluster.forget(pods[0])
    assert siblings(cluster).in_domain("zone").tolist() == [1, 1, 1]
    assert siblings(cluster).total == 2


def test_one_selection_answers_for_its_key():
    cluster = cluster_of()
    assert siblings(cluster) is siblings(cluster)


def test_the_predicate_is_asked_once_per_template():
    asked = []

    def remember(pod):
        asked.append(pod.name)
        return True

    cluster = cluster_of()
    for number in range(20):
        cluster.assume(clusters.view(f"web-{number}", labels={"app": "web"}), "node-0")
    read = cluster.snapshot().selection("all", remember)
    assert read.by_node.tolist() == [20, 0, 0]
    cluster.assume(clusters.view("web-20", labels={"app": "web"}), "node-1")
    assert cluster.snapshot().selection("all", remember).by_node.tolist() == [20, 1, 0]
    assert len(asked) == 1


def test_the_predicate_is_asked_for_every_pod_where_that_matters():
    cluster = cluster_of()
    for number in range(4):
        cluster.assume(clusters.view(f"web-{number}"), "node-0")
    found = cluster.snapshot().selection("even", lambda pod: int(pod.name[-1]) % 2 == 0, per_pod=True)
    assert found.by_node.tolist() == [2, 0, 0]
    cluster.assume(clusters.view("web-6"), "node-1")
    assert found.by_node.tolist() == [2, 1, 0]


def test_a_reader_too_far_behind_counts_again(monkeypatch):
    monkeypatch.setattr(pod_table, "LOG_LIMIT", 4)
    cluster = cluster_of()
    assert siblings(cluster).total == 0
    for number in range(30):
        cluster.assume(clusters.view(f"web-{number}", labels={"app": "web"}), f"node-{number % 3}")
    assert siblings(cluster).by_node.tolist() == [10, 10, 10]


def test_templates_that_are_gone_are_forgotten():
    cluster = cluster_of()
    found = siblings(cluster)
    for number in range(3000):
        pod = clusters.view("web", labels={"app": "web", "number": str(number)})
        cluster.assume(pod, "node-0")
        assert found.total == 1
        cluster.forget(pod)
        assert found.total == 0
    assert len(found._memo) < 2000


def test_sums_of_fractions_do_not_depend_on_the_order():
    values = [0.1, 0.7, 1e16, 0.2, -1e16, 0.3]

    def total(order):
        cluster = cluster_of()
        found = cluster.snapshot().selection("sum", lambda _: True, per_pod=True, value=lambda pod: values[int(pod.name)])
        assert found.total == 0
        for number in order:
            cluster.assume(clusters.view(str(number)), "node-0")
            _ = found.by_node
        return found.by_node[0], found.total, found.by_domain("zone")[0]

    assert total(range(6)) == total(reversed(range(6))) == (math.fsum(values),) * 3


def test_pods_without_a_value_do_not_count():
    cluster = cluster_of()
    cluster.assume(clusters.view("with", cpu=2), "node-0")
    cluster.assume(clusters.view("without"), "node-0")
    found = cluster.snapshot().selection("cpu", lambda _: True, value=lambda pod: pod.requests.get("cpu"))
    assert found.by_node.tolist() == [2000, 0, 0]
    assert found.extreme_by_node(highest=False)[0] == 2000


def test_extremes_are_those_of_the_selected_pods():
    cluster = cluster_of()
    pods = [clusters.view(f"pod-{priority}", priority=priority) for priority in (5, -3, 9)]
    for pod, node in zip(pods, ("node-0", "node-0", "node-2"), strict=True):
        cluster.assume(pod, node)
    found = cluster.snapshot().selection("priority", lambda _: True, value=lambda pod: pod.priority)
    assert found.extreme_by_node(highest=True)[[0, 2]].tolist() == [5, 9]
    assert not found.extreme_by_node(highest=True).flags.writeable
    assert math.isnan(found.extreme_by_node(highest=True)[1])
    assert found.extreme_in_domain("zone", highest=True)[[0, 2]].tolist() == [9, 9]
    assert math.isnan(found.extreme_in_domain("zone", highest=True)[1])
    assert found.extreme_in_domain("zone", highest=False)[0] == -3
    cluster.forget(pods[1])
    assert found.extreme_by_node(highest=False)[0] == 5


def test_counts_over_some_of_the_nodes():
    cluster = cluster_of(4)
    for number in range(4):
        cluster.assume(clusters.view(f"web-{number}", labels={"app": "web"}), f"node-{number}")
    mask = cluster.snapshot().name_codes != cluster.snapshot().name_codes[0]
    found = siblings(cluster).domains("zone", mask_key="not the first", mask=mask)
    assert found.counts.tolist() == [1, 2]
    assert (found.lowest(), found.highest()) == (1, 2)
    only_odd = cluster.snapshot().label("zone") == cluster.snapshot().label("zone")[1]
    found = siblings(cluster).domains("zone", mask_key="not the first", mask=only_odd)
    assert found.counts.tolist() == [0, 2]
    assert (found.lowest(), found.highest()) == (2, 2)  # a domain without any node is none


def test_no_domain_has_no_extreme():
    found = siblings(cluster_of()).domains("rack")
    assert found.lowest() is None
    assert found.gathered().tolist() == [0, 0, 0]


def test_the_version_says_whether_something_may_have_changed():
    cluster = cluster_of()
    found = siblings(cluster)
    _ = found.total
    version = found.version
    cluster.assume(clusters.view("other"), "node-0")
    assert found.total == 0
    assert found.version == version
    cluster.assume(clusters.view("web", labels={"app": "web"}), "node-0")
    assert found.total == 1
    assert found.version != version


def test_unused_selections_are_dropped(monkeypatch):
    monkeypatch.setattr(selection, "MAX_SELECTIONS", 3)
    monkeypatch.setattr(selection, "MIN_SELECTIONS", 3)
    snapshot = cluster_of().snapshot()
    first = snapshot.selection(0, lambda _: True)
    for key in (1, 2):
        snapshot.selection(key, lambda _: True)
    assert snapshot.selection(0, lambda _: True) is first  # used again: now 1 is the oldest
    second = snapshot.selection(2, lambda _: True)
    snapshot.selection(3, lambda _: True)
    assert snapshot.selection(0, lambda _: True) is first
    assert snapshot.selection(2, lambda _: True) is second


def test_few_domains_masks_are_kept():
    cluster = cluster_of()
    found = siblings(cluster)
    counts = [found.domains("zone", mask_key=number, mask=cluster.snapshot().unschedulable) for number in range(20)]
    assert len({id(count) for count in counts}) == 20
    assert len(found._domains) == selection.MAX_DOMAIN_COUNTS


@pytest.mark.parametrize("key", ["zone", "disk"])
def test_a_node_that_changes_its_domain_takes_its_pods_along(key):
    cluster = cluster_of()
    cluster.assume(clusters.view("web", labels={"app": "web"}), "node-0")
    assert siblings(cluster).in_domain("zone").tolist() == [1, 0, 1]
    cluster.update_node(clusters.node("node-0", {key: "z2"}))
    assert siblings(cluster).in_domain("zone").tolist() == ([1, 1, 0] if key == "zone" else [0, 0, 0])


def test_single_pods_are_asked_once_each_while_nodes_come_and_go():
    asked = []
    cluster = cluster_of()
    for number in range(4):
        cluster.assume(clusters.view(f"web-{number}"), f"node-{number % 2}")
    read = cluster.snapshot().selection("named", lambda pod: not asked.append(pod.name), per_pod=True)
    assert read.total == 4
    cluster.add_node(clusters.node("node-9", {}))
    cluster.remove_node("node-1")
    assert read.by_node.tolist() == [2, 0, 0]
    cluster.assume(clusters.view("web-9"), "node-9")
    assert read.total == 3
    assert asked == ["web-0", "web-1", "web-2", "web-3", "web-9"]
    assert sorted(placement.pod.name for placement in read._of_placements) == ["web-0", "web-2", "web-9"]


def test_a_selection_used_once_evicts_no_cached_one():
    cluster = cluster_of()
    lasting = siblings(cluster)
    for number in range(10 * selection.MAX_PASSING):
        assert cluster.snapshot().selection(number, lambda _: True, passing=True).total == 0
    assert siblings(cluster) is lasting
    assert len(cluster._tables.selections) == 1 + selection.MAX_PASSING


@pytest.mark.parametrize("value", [2.0**52, 2.0**1000, math.inf, 0.1])
def test_corrections_are_added_as_exactly_as_what_is_kept(value):
    cluster = cluster_of(2)
    for number in range(4):
        cluster.assume(clusters.view(f"web-{number}"), "node-0")
    snapshot = cluster.snapshot()
    kept = snapshot.selection("one", None, per_pod=True, value=lambda _: 1.0)
    others = [snapshot.placement(clusters.view(f"web-{number}").uid) for number in range(2)]
    found = snapshot.corrected(kept, Corrections({}, {placement.pod.uid: (placement, value) for placement in others}))
    assert found.by_node.tolist() == [exact_sum([value, value, 1.0, 1.0]), 0.0]
    assert found.total == found.domains("zone").counts[0] == found.by_node[0]


@pytest.mark.parametrize("what", ["the largest of each node", "sums of fractions"])
def test_pods_of_a_known_template_are_not_looked_at_one_by_one(what):
    def work(n_pods):
        cluster = cluster_of()
        for number in range(n_pods):
            cluster.assume(clusters.view(f"web-{number}", labels={"app": "web"}), "node-0")
        read = cluster.snapshot().selection("web", None, value=lambda pod: 0.1)
        return calls(lambda: read.extreme_by_node(highest=True) if what == "the largest of each node" else read.by_node)

    assert work(400) <= work(20) + 10


def test_the_templates_that_selections_keep_are_bounded(monkeypatch):
    monkeypatch.setattr(selection, "MIN_SELECTIONS", 5)
    monkeypatch.setattr(selection, "MAX_CELLS", 1000)
    cluster = cluster_of()
    snapshot = cluster.snapshot()
    for number in range(50):
        snapshot.selection(number, partial(app, str(number)))
    assert len(snapshot._current().selections) == 50
    for number in range(30):
        cluster.assume(clusters.view(f"web-{number}", labels={"app": f"web-{number}"}), "node-0")
    snapshot = cluster.snapshot()
    snapshot.selection("one more", None)
    assert len(snapshot._current().selections) == 5
