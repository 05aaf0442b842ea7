"""A tally that follows added and removed pods equals a recount, and its version changes when an entry appears or vanishes."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.property import topologies
from wharfinger.model.state.cluster_state import ClusterState


def labels(pod):
    return pod.labels.items()


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), nodes=st.lists(topologies.nodes(), min_size=1, max_size=3, unique_by=lambda node: node.metadata.name))
def test_a_tally_is_a_recount(data, nodes):
    state = ClusterState()
    for node in nodes:
        state.add_node(node)
    names = [node.metadata.name for node in nodes]
    seen, version = set(), None
    for _ in range(data.draw(st.integers(1, 12))):
        match data.draw(st.sampled_from(["put", "put", "remove", "drop node", "burst"])):
            case "put":
                state.add_pod(data.draw(topologies.pods(node_name=data.draw(st.sampled_from(names)))))
            case "remove":
                state.remove_pod(data.draw(topologies.pods()))
            case "drop node":
                state.remove_node(data.draw(st.sampled_from(names)))
            case "burst":  # more than the log of changes remembers
                passing = data.draw(topologies.pods("passing", node_name=names[0]))
                for _ in range(4200):
                    state.add_pod(passing)
                    state.remove_pod(passing)
        snapshot = state.snapshot()
        tally = snapshot.tally("labels", labels)
        expected = Counter(item for row in range(snapshot.n_nodes) for pod in snapshot.pods_on(row) for item in pod.labels.items())
        assert tally.found == expected
        assert (tally.follow() != version) >= (expected.keys() != seen)
        seen, version = set(expected), tally.version
