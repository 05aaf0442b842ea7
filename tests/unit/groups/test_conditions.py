"""The status of a PodGroup, and which conditions replace which."""

import pytest

from tests.unit.groups.test_membership import gang, pod, podgroup, store
from tests.unit.model import clusters
from wharfinger.framework.ports import MAX_CONDITION_MESSAGE
from wharfinger.groups import results
from wharfinger.groups.membership import group_index
from wharfinger.model.reading import decode

RACKS = {"n1": {"rack": "a"}, "n2": {"rack": "a"}, "n3": {"rack": "b"}, "n4": {}}
IN_RACK = gang(2, schedulingConstraints={"topology": [{"key": "rack"}]})
AVAILABLE = "placements are available, first placement status: pod group is unschedulable"
REJECTED = {
    "no level": (gang(2), [], f"0/1 {AVAILABLE}"),
    "a domain for each value": (IN_RACK, [], f"0/2 {AVAILABLE}"),
    "the domain of placed members": (IN_RACK, [("n3")], f"0/1 {AVAILABLE}"),
    "no node has the label": (gang(2, schedulingConstraints={"topology": [{"key": "row"}]}), [], "no feasible placements found"),
}


@pytest.mark.parametrize("name", REJECTED)
def test_a_rejection_counts_the_domains_as_kube_scheduler_does(name):
    spec, placed, message = REJECTED[name]
    state = clusters.state([clusters.node(node, labels) for node, labels in RACKS.items()])
    members = [pod("a", "train"), *(pod(f"on-{node}", "train", on=node) for node in placed)]
    group = group_index(members, store(podgroup(spec=spec))).group("default/train")
    assert results.rejection(group, state.snapshot()) == message
    assert results.rejection(group, state.snapshot(), "rack b takes 1") == f"{message}; rack b takes 1"


FALSE, TRUE, ERROR = results.unschedulable("full"), results.scheduled(), results.scheduler_error("broken")
KEPT = {
    "the first": ((), FALSE, False),
    "the same": (FALSE, FALSE, True),
    "another message": (FALSE, results.unschedulable("fuller"), False),
    "an error after a rejection": (FALSE, ERROR, False),
    "placed at last": (FALSE, TRUE, False),
    "placed stays placed": (TRUE, FALSE, True),
    "another type": (TRUE, results.disrupted("wharfinger"), False),
}


@pytest.mark.parametrize("name", KEPT)
def test_a_group_that_was_placed_once_stays_so(name):
    known, new, kept = KEPT[name]
    written = [{"type": known.type, "status": known.status, "reason": known.reason, "message": known.message}] if known else []
    group = podgroup(spec=gang(2))
    plain = {"metadata": {"name": "train"}, "status": {"conditions": written}}
    assert results.keeps(decode.convert(plain, type(group)), new) == kept


def test_a_message_fits_into_a_condition():
    assert len(results.unschedulable("x" * 100_000).message) == MAX_CONDITION_MESSAGE
