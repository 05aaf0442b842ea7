"""A question about one key of taints reads only the lists of taints that have the key: a policy may ask for a thousand keys."""

import pytest

from tests.unit.framework.kube import node, state
from tests.work import calls
from wharfinger.builtins.catalogue import CATALOGUE
from wharfinger.builtins.signature import AtRows
from wharfinger.model import objects
from wharfinger.model.columns import node_table
from wharfinger.model.objects.pod_view import PodView

POD = PodView(objects.Pod(metadata=objects.ObjectMeta(name="p")))
ASKED = {"taint_value": "k3", "has_taint": "k3=x:NoSchedule"}


def dedicated(number):
    """A node with a list of taints like no other."""
    return node(f"n{number}", taints=[{"key": f"k{number}", "value": "x", "effect": "NoSchedule"}])


def asked(name, cluster, what):
    context = AtRows(cluster.snapshot(), POD, slice(None))
    return CATALOGUE.function(name).vector(context, None, what)


@pytest.mark.parametrize("name", ASKED)
def test_lists_without_the_key_are_not_read(name):
    few, many = (state([dedicated(number) for number in range(count)]) for count in (10, 200))
    work = [calls(lambda cluster=cluster: asked(name, cluster, ASKED[name])) for cluster in (few, many)]
    assert work[1] <= work[0]


def test_lists_that_get_other_numbers_are_found(monkeypatch):
    monkeypatch.setattr(node_table, "SPARE_CODES", 0)  # renumbered all the time
    cluster = state([dedicated(number) for number in range(6)])
    for number in range(40, 60):
        cluster.add_node(state([dedicated(number)]).snapshot().node_object(0))
        cluster.remove_node(f"n{number}")
    codes, there = asked("taint_value", cluster, "k3")
    snapshot = cluster.snapshot()
    assert [snapshot.names[row] for row, found in enumerate(there) if found] == ["n3"]
    assert snapshot.strings.text(int(codes[there][0])) == "x"
    assert asked("has_taint", cluster, "k45").sum() == 0
