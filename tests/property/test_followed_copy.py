"""A copy that follows a state is equal to it after any changes, and after questions that were put back."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.property import clusters
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.copies import FollowedCopy
from wharfinger.steps import at_once
from wharfinger.what_if.supposed_changes import SupposedChanges


def on(pod, node):
    return replace(pod, spec=replace(pod.spec, node_name=node))


def service(name):
    return objects.Service(metadata=objects.ObjectMeta(name=name, namespace="web"))


samples = st.dictionaries(clusters.node_names, st.tuples(st.floats(0, 1), st.just(1_000.0)), max_size=3)
changes = st.one_of(
    st.tuples(st.just("add_node"), clusters.nodes()),
    st.tuples(st.just("remove_node"), clusters.node_names),
    st.builds(lambda pod, node: ("add_pod", on(pod, node)), clusters.pods(), clusters.node_names),
    st.tuples(st.just("remove_pod"), clusters.pods()),
    st.builds(lambda pod, node: ("nominate", (PodView(pod), node)), clusters.pods(), clusters.node_names),
    st.tuples(st.just("remove_nomination"), clusters.pods().map(PodView)),
    st.tuples(st.sampled_from(["expect_leaving", "expect_staying"]), clusters.pods().map(lambda pod: PodView(pod).uid)),
    st.tuples(st.just("set_metric"), st.tuples(st.just("load"), samples)),
    st.tuples(st.just("drop_metric"), st.just("load")),
    st.tuples(st.just("put"), st.sampled_from("ab").map(service)),
    st.tuples(st.just("drop"), st.sampled_from([("Service", "web/a"), ("Service", "web/b")])),
    st.tuples(st.just("follow"), st.none()),
    st.tuples(st.just("suppose"), clusters.node_names),
    st.tuples(st.just("give up"), st.none()),
)


def shown(state):
    snapshot = state.snapshot()
    others = sorted((objects.kind_of(obj), objects.key_of(obj)) for obj in snapshot.objects)
    return clusters.node_facts(snapshot), clusters.usage(snapshot), clusters.metrics(snapshot), others, set(snapshot.evicted)


def full():
    """A state with every node and pod that changes can be about, so that most of them change something."""
    state = ClusterState(1_000.0)
    for name in clusters.NODE_NAMES:
        state.add_node(objects.Node(metadata=objects.ObjectMeta(name=name)))
    for number, name in enumerate(clusters.POD_NAMES):
        pod = objects.Pod(metadata=objects.ObjectMeta(name=name, uid=f"uid-of-{name}"))
        state.add_pod(on(pod, clusters.NODE_NAMES[number % len(clusters.NODE_NAMES)]))
    for name in "ab":
        state.put(service(name))
    return state


def suppose(state, node):
    """Change the copy for a question, and put it back."""
    with SupposedChanges(state) as supposed:
        supposed.put(service("a"))
        snapshot = state.snapshot()
        if (row := snapshot.row(node)) is not None:
            found = snapshot.node(row)
            supposed.replace(replace(found.object, spec=replace(found.object.spec, unschedulable=True)))
            for pod in found.pods:
                supposed.leave(pod)
            supposed.place(PodView(objects.Pod(metadata=objects.ObjectMeta(name="supposed"))), node)


@settings(max_examples=100, deadline=None)
@given(st.lists(changes, max_size=20))
def test_a_copy_follows(done):
    state, copy = full(), FollowedCopy()
    at_once(copy.follow(state.snapshot()))
    for name, what in done:
        if name == "follow":
            assert shown(at_once(copy.follow(state.snapshot()))) == shown(state)
        elif name == "suppose":
            suppose(at_once(copy.follow(state.snapshot())), what)
        elif name == "give up":
            next(copy.follow(state.snapshot()))
        elif name == "nominate":
            if not state.is_placed(what[0].uid):
                state.nominate(*what)
        elif isinstance(what, tuple):
            getattr(state, name)(*what)
        else:
            getattr(state, name)(what)
    assert shown(at_once(copy.follow(state.snapshot()))) == shown(state)
