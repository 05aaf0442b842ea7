"""Copies of a state are made in short steps."""

from itertools import pairwise

from msgspec import structs

from tests.bench import devices
from wharfinger.framework.chain import assemble
from wharfinger.framework.plugins.volumes import volume_binding
from wharfinger.model import objects
from wharfinger.model.devices.pools import Pools
from wharfinger.model.objects.metadata import ObjectMeta
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.copies import OBJECTS_PER_STEP, FollowedCopy, copied

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


def test_slices_and_capacities_are_read_in_steps_while_they_are_copied_and_not_all_at_the_first_question(monkeypatch):
    chain, state, told, grouped = assemble(), devices.cluster(3 * OBJECTS_PER_STEP), [], []
    changed, storage_class_of = Pools.changed, volume_binding._storage_class_of
    monkeypatch.setattr(Pools, "changed", lambda self, old, new: told.append(1) or changed(self, old, new))
    monkeypatch.setattr(volume_binding, "_storage_class_of", lambda offer: grouped.append(1) or storage_class_of(offer))
    for plugin in chain.precomputing:
        plugin.follow(state.objects)
    offer = objects.CSIStorageCapacity(metadata=ObjectMeta(name="c", namespace="default"), storage_class_name="fast")
    for number in range(3 * OBJECTS_PER_STEP):
        state.put(structs.replace(offer, metadata=structs.replace(offer.metadata, name=f"c{number}")))
    for steps in (copied(state.snapshot()), FollowedCopy().follow(state.snapshot())):
        told.clear()
        grouped.clear()
        at_steps = [0]
        copy = finished(steps, lambda at_steps=at_steps: at_steps.append(len(told) + len(grouped)))
        assert max(later - earlier for earlier, later in pairwise(at_steps)) <= OBJECTS_PER_STEP
        assert len(told) >= 3 * OBJECTS_PER_STEP
        assert len(grouped) == 3 * OBJECTS_PER_STEP
        told.clear()
        grouped.clear()
        for plugin in chain.precomputing:
            plugin.follow(copy.objects)
        assert (told, grouped) == ([], [])
