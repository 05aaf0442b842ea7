"""Strategies for nodes and pods, and a snapshot written out by name so that two with different rows can be compared."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
from hypothesis import strategies as st

from wharfinger.model import objects
from wharfinger.model.objects import node_view
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.snapshot import Snapshot

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
GPU = "nvidia.com/gpu"
NODE_NAMES = [f"node-{number}" for number in range(5)]
POD_NAMES = [f"pod-{number}" for number in range(8)]
LABEL_KEYS = (ZONE, HOSTNAME, "disk")
IMAGES = ("nginx:latest", "redis:7")


def at(second: int | None) -> datetime | None:
    return None if second is None else datetime.fromtimestamp(second, UTC)


node_names = st.sampled_from(NODE_NAMES)
pod_names = st.sampled_from(POD_NAMES)
seconds = st.one_of(st.none(), st.integers(1_000, 1_010))
taints = st.sampled_from([objects.Taint(key="spot", effect="NoSchedule"), objects.Taint(key="old", value="x", effect="PreferNoSchedule")])
offers = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["500m", "4", "15800m"]),
        "memory": st.sampled_from(["1Gi", "16Gi", "83Pi", "99Ei"]),
        "ephemeral-storage": st.just("50Gi"),
        "pods": st.sampled_from(["2", "110"]),
        GPU: st.sampled_from(["0", "8"]),
    },
)
images = st.lists(
    st.builds(objects.ContainerImage, names=st.sampled_from([(name,) for name in IMAGES] + [IMAGES]), size_bytes=st.integers(1, 9)),
    max_size=2,
)


@st.composite
def nodes(draw: st.DrawFn, names: st.SearchStrategy[str] = node_names) -> objects.Node:
    name = draw(names)
    labels = draw(st.fixed_dictionaries({}, optional={ZONE: st.sampled_from(["a", "b", "c"]), "disk": st.sampled_from(["", "ssd"])}))
    return objects.Node(
        metadata=objects.ObjectMeta(
            name=name,
            labels={HOSTNAME: f"host-{name}", **labels},
            annotations=draw(st.sampled_from([{}, {"team": "edge"}])),
            creation_timestamp=at(draw(seconds)),
        ),
        spec=objects.NodeSpec(unschedulable=draw(st.booleans()), taints=tuple(draw(st.lists(taints, max_size=2)))),
        status=objects.NodeStatus(
            allocatable=draw(offers),
            capacity=draw(offers),
            conditions=tuple(draw(st.sampled_from([(), (objects.NodeCondition(type="Ready", status="True"),)]))),
            images=tuple(draw(images)),
        ),
    )


@st.composite
def containers(draw: st.DrawFn) -> objects.Container:
    requests = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "cpu": st.sampled_from(["100m", "2"]),
                "memory": st.sampled_from(["1", "1Gi", "1Gi", "9Ei"]),
                GPU: st.just("1"),
                "example.com/fpga": st.just("2"),
            },
        )
    )
    limits = draw(st.sampled_from([{}, {"cpu": "4"}, {"cpu": "4", GPU: "1"}]))
    ports = draw(st.sampled_from([(), (objects.ContainerPort(host_port=80),), (objects.ContainerPort(host_port=80, host_ip="10.0.0.1"),)]))
    return objects.Container(
        name="main", image="nginx", resources=objects.ContainerResources(requests=requests, limits=limits), ports=ports
    )


def _plan_options() -> list[dict[str, Any]]:
    """Fields of pods that say which nodes they tolerate, require or prefer; most pods say nothing."""
    in_a = objects.NodeSelectorTerm(match_expressions=(objects.NodeSelectorRequirement(key=ZONE, operator="In", values=("a",)),))
    ssd = objects.NodeSelectorTerm(match_expressions=(objects.NodeSelectorRequirement(key="disk", operator="Exists"),))
    app = objects.LabelSelector(match_labels={"app": "a"})
    near = objects.PodAffinityTerm(label_selector=app, topology_key=ZONE)
    preferred = objects.Affinity(
        node_affinity=objects.NodeAffinity(
            preferred_during_scheduling_ignored_during_execution=(
                objects.PreferredSchedulingTerm(weight=3, preference=in_a),
                objects.PreferredSchedulingTerm(weight=5, preference=ssd),
            )
        ),
        pod_affinity=objects.PodAffinity(
            preferred_during_scheduling_ignored_during_execution=(objects.WeightedPodAffinityTerm(weight=7, pod_affinity_term=near),)
        ),
    )
    required = objects.Affinity(
        node_affinity=objects.NodeAffinity(
            required_during_scheduling_ignored_during_execution=objects.NodeSelector(node_selector_terms=(in_a, ssd))
        )
    )
    spread = objects.TopologySpreadConstraint(max_skew=1, topology_key=ZONE, when_unsatisfiable="ScheduleAnyway", label_selector=app)
    return [
        {},
        {},
        {},
        {"tolerations": (objects.Toleration(key="spot", operator="Exists"),)},
        {"tolerations": (objects.Toleration(operator="Exists"),), "node_selector": {"disk": "ssd"}},
        {"affinity": preferred, "topology_spread_constraints": (spread,)},
        {"affinity": required, "tolerations": (objects.Toleration(key="old", value="x", effect="PreferNoSchedule"),)},
    ]


WISHES = _plan_options()


@st.composite
def pods(draw: st.DrawFn, names: st.SearchStrategy[str] = pod_names, node_name: str = "") -> objects.Pod:
    name = draw(names)
    return objects.Pod(
        metadata=objects.ObjectMeta(
            name=name,
            namespace=draw(st.sampled_from(["", "web"])),
            uid=f"uid-of-{name}",
            labels=draw(st.fixed_dictionaries({}, optional={"app": st.sampled_from(["a", "b"])})),
            creation_timestamp=at(draw(seconds)),
            deletion_timestamp=at(draw(st.sampled_from([None, None, 1_005]))),
        ),
        spec=objects.PodSpec(
            containers=(draw(containers()),),
            node_name=node_name,
            priority=draw(st.sampled_from([None, -10, 1, 1_000])),
            **draw(st.sampled_from(WISHES)),
        ),
        status=objects.PodStatus(phase=draw(st.sampled_from(["", "Pending", "Running"])), start_time=at(draw(seconds))),
    )


def drawn_state(draw: st.DrawFn, max_nodes: int, max_pods: int) -> tuple[ClusterState, list[str]]:
    """A state with one to `max_nodes` nodes and up to `max_pods` pods on them, and the names of the nodes."""
    state = ClusterState()
    names = NODE_NAMES[: draw(st.integers(1, max_nodes))]
    for name in names:
        state.add_node(draw(nodes(st.just(name))))
    for name in POD_NAMES[: draw(st.integers(0, max_pods))]:
        state.add_pod(draw(pods(st.just(name), draw(st.sampled_from(names)))))
    return state, names


def _texts(snapshot: Snapshot, codes: Any) -> dict[str, str | None]:
    return dict(zip(snapshot.names, (snapshot.strings.text(code) for code in codes.tolist()), strict=True))


def _numbers(snapshot: Snapshot, values: Any) -> dict[str, float | None]:
    return {name: None if value != value else value for name, value in zip(snapshot.names, values.tolist(), strict=True)}  # noqa: PLR0124 - NaN


def _resources(snapshot: Snapshot) -> dict[str, Any]:
    tables = {name: getattr(snapshot, name) for name in ("allocatable", "capacity", "requested", "has_allocatable", "has_capacity")}
    return {
        f"{table} {resource}": amounts
        for place, resource in enumerate(snapshot.resource_names)
        for table, values in tables.items()
        if any((amounts := _numbers(snapshot, values[place])).values())
    }


def node_facts(snapshot: Snapshot) -> dict[str, Any]:
    """The values that depend on node objects alone, by attribute and node name."""
    return {
        **{table: amounts for table, amounts in _resources(snapshot).items() if not table.startswith("requested")},
        "hashes": _numbers(snapshot, snapshot.name_hashes),
        "names": _texts(snapshot, snapshot.name_codes),
        "unschedulable": _numbers(snapshot, snapshot.unschedulable),
        "created": _numbers(snapshot, snapshot.fact("created", node_view.created)),
        "pods": [_numbers(snapshot, snapshot.allowed_pods), _numbers(snapshot, snapshot.pod_capacity)],
        "labels": {key: _texts(snapshot, snapshot.label(key)) for key in LABEL_KEYS},
        "annotations": _texts(snapshot, snapshot.annotation("team")),
        "conditions": _texts(snapshot, snapshot.condition("Ready")),
        "taints": dict(zip(snapshot.names, map(snapshot.taints, snapshot.taint_set.tolist()), strict=True)),
        "images": {name: _image(snapshot, name) for name in IMAGES},
        "domains": {key: _members(snapshot, key) for key in LABEL_KEYS},
    }


def _image(snapshot: Snapshot, name: str) -> dict[str, int]:
    state = snapshot.image(name)
    assert state.n_nodes == len(state.rows)
    assert np.all(np.diff(state.rows) > 0)
    return {snapshot.names[row]: size for row, size in zip(state.rows.tolist(), state.sizes.tolist(), strict=True)}


def _members(snapshot: Snapshot, key: str) -> dict[str | None, list[str]]:
    topology = snapshot.topology(key)
    ids, n_domains = snapshot.domain(key)
    assert n_domains == topology.n_domains == len(topology.codes)
    members = {}
    for domain, code in enumerate(topology.codes):
        rows = topology.rows_of(domain).tolist()
        assert rows == np.flatnonzero(ids == domain).tolist()
        assert topology.domain_of(code) == domain
        members[snapshot.strings.text(code)] = sorted(snapshot.names[row] for row in rows)
    return members


def usage(snapshot: Snapshot) -> dict[str, Any]:
    """The values that depend on pods, by attribute and node name."""
    ports = [snapshot.port_users("TCP", 80)]
    return {
        **{table: amounts for table, amounts in _resources(snapshot).items() if table.startswith("requested")},
        "nonzero": [_numbers(snapshot, row) for row in snapshot.nonzero],
        "pod_count": _numbers(snapshot, snapshot.pod_count),
        "pods": {name: sorted(pod.uid for pod in snapshot.pods_on(row)) for row, name in enumerate(snapshot.names)},
        "ports": [{snapshot.names[row]: sorted(ips) for row, ips in users.items()} for users in ports],
        "nominated": {name: sorted(pod.uid for pod in snapshot.nominated(row)) for row, name in enumerate(snapshot.names)},
        "nominated rows": sorted(snapshot.names[row] for row in snapshot.nominated_rows),
    }


def metrics(snapshot: Snapshot) -> dict[str, Any]:
    """Samples and what they have not seen, by node name."""
    column, unseen = snapshot.metric("load"), snapshot.unseen("load")
    if column is None or unseen is None:
        return {}
    arrays = {"values": column.values, "times": column.times, "present": column.present, **unseen}
    return {name: _numbers(snapshot, values) for name, values in arrays.items()}
