"""Copies of a state are made in short steps."""

from itertools import pairwise

from wharfinger.model import objects
from wharfinger.model.objects.metadata import ObjectMeta
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.copies import FollowedCopy, copied

N_METRICS = 20


def measured():
    state = ClusterState()
    state.add_node(objects.Node(metadata=ObjectMeta(name="n")))
    for number in range(N_METRICS):
        state.set_metric(f"m{number}", {"n": (float(number), 1.0)})
    return state


def finished(steps, at_each=lambda: None):
    """The return value of the steps; `at_each` is called after each of them."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
        at_each()


def test_metrics_are_copied_one_after_the_other(monkeypatch):
    real, named = ClusterState.set_metric, []
    state = measured()

    def counting(self, name, samples):
        named.append(name)
        real(self, name, samples)

    monkeypatch.setattr(ClusterState, "set_metric", counting)
    for steps in (copied(state.snapshot()), FollowedCopy().follow(state.snapshot())):
        named.clear()
        at_steps = [0]
        copy = finished(steps, lambda at_steps=at_steps: at_steps.append(len(named)))
        assert max(later - earlier for earlier, later in pairwise(at_steps)) == 1
        assert len(named) == N_METRICS
        assert copy.snapshot().samples == state.snapshot().samples


def test_a_copy_keeps_its_samples_when_there_are_new_ones():
    state = measured()
    steps = copied(state.snapshot())
    next(steps)
    state.set_metric("m0", {"n": (99.0, 2.0)})
    assert finished(steps).snapshot().samples["m0"] == {"n": (0.0, 1.0)}
