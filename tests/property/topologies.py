"""Strategies for clusters in which pods affect each other: affinity, spread constraints, disks, priorities, budgets."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from wharfinger.model import objects
from wharfinger.model.reading import decode

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
RACK = "rack"
KEYS = (ZONE, HOSTNAME, RACK)
NODE_NAMES = [f"n{number}" for number in range(6)]
POD_NAMES = [f"p{number}" for number in range(10)]
NAMESPACES = ("default", "web", "batch")
APPS = ("a", "b", "c")

keys = st.sampled_from(KEYS)
apps = st.sampled_from(APPS)
labels = st.fixed_dictionaries({}, optional={"app": apps, "tier": st.sampled_from(["front", "back"]), "rev": st.sampled_from(["1", "2"])})
expressions = st.one_of(
    st.builds(
        lambda key, operator: {"key": key, "operator": operator},
        st.sampled_from(["app", "tier"]),
        st.sampled_from(["Exists", "DoesNotExist"]),
    ),
    st.builds(
        lambda operator, values: {"key": "app", "operator": operator, "values": values},
        st.sampled_from(["In", "NotIn"]),
        st.lists(apps, min_size=1, max_size=2),
    ),
)
selectors = st.one_of(
    st.just({}),
    st.builds(lambda app: {"matchLabels": {"app": app}}, apps),
    st.builds(lambda one: {"matchExpressions": one}, st.lists(expressions, min_size=1, max_size=2)),
)
maybe_selectors = st.one_of(st.none(), selectors, selectors, selectors)
namespace_selectors = st.one_of(
    st.just({}), st.just({"matchLabels": {"team": "x"}}), st.just({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]})
)


def without_none(found: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if value is not None}


terms = st.builds(
    lambda **found: without_none(found),
    topologyKey=keys,
    labelSelector=maybe_selectors,
    namespaces=st.one_of(st.none(), st.none(), st.lists(st.sampled_from(NAMESPACES), max_size=2)),
    namespaceSelector=st.one_of(st.none(), st.none(), namespace_selectors),
    matchLabelKeys=st.one_of(st.none(), st.none(), st.just(["rev"])),
)
weighted = st.builds(lambda weight, term: {"weight": weight, "podAffinityTerm": term}, st.sampled_from([1, 50, 100]), terms)
affinities = st.fixed_dictionaries(
    {},
    optional={
        kind: st.fixed_dictionaries(
            {},
            optional={
                "requiredDuringSchedulingIgnoredDuringExecution": st.lists(terms, max_size=2),
                "preferredDuringSchedulingIgnoredDuringExecution": st.lists(weighted, max_size=2),
            },
        )
        for kind in ("podAffinity", "podAntiAffinity")
    },
)
spreads = st.builds(
    lambda **found: without_none(found),
    maxSkew=st.integers(1, 3),
    topologyKey=keys,
    whenUnsatisfiable=st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
    labelSelector=maybe_selectors,
    minDomains=st.one_of(st.none(), st.integers(1, 4)),
    nodeAffinityPolicy=st.sampled_from([None, "Honor", "Ignore"]),
    nodeTaintsPolicy=st.sampled_from([None, "Honor", "Ignore"]),
    matchLabelKeys=st.one_of(st.none(), st.just(["rev"])),
)


@st.composite
def pods(draw: st.DrawFn, name: str | None = None, node_name: str = "") -> objects.Pod:
    name = draw(st.sampled_from(POD_NAMES)) if name is None else name
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": draw(st.sampled_from(["0", "1", "2", "2"]))}}}],
        "priority": draw(st.sampled_from([0, 5, 10] if node_name else [0, 10, 10])),
        "nodeName": node_name,
    }
    spec |= draw(
        st.fixed_dictionaries(
            {},
            optional={
                "affinity": affinities,
                "topologySpreadConstraints": st.lists(spreads, max_size=2),
                "nodeSelector": st.just({"disk": "ssd"}),
                "tolerations": st.just([{"operator": "Exists"}]),
                "volumes": st.sampled_from(
                    [[{"name": "d", "gcePersistentDisk": {"pdName": "d"}}], [{"name": "v", "persistentVolumeClaim": {"claimName": "one"}}]]
                ),
            },
        )
    )
    metadata = {"name": name, "namespace": draw(st.sampled_from(NAMESPACES)), "uid": f"uid-{name}", "labels": draw(labels)}
    metadata |= draw(st.sampled_from([{}, {}, {}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}]))
    started = draw(st.sampled_from([None, "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"]))
    return decode.convert({"metadata": metadata, "spec": spec, "status": {"startTime": started}}, objects.Pod)


@st.composite
def nodes(draw: st.DrawFn, name: str | None = None) -> objects.Node:
    name = draw(st.sampled_from(NODE_NAMES)) if name is None else name
    found = draw(
        st.fixed_dictionaries(
            {},
            optional={ZONE: st.sampled_from(["x", "y", "z"]), RACK: st.sampled_from(["1", "2"]), "disk": st.sampled_from(["ssd", "hdd"])},
        )
    )
    taints = draw(st.sampled_from([[], [], [{"key": "spot", "effect": "NoSchedule"}]]))
    offer = {"cpu": draw(st.sampled_from(["2", "4"])), "memory": "4Gi", "pods": draw(st.sampled_from(["2", "9"]))}
    plain = {
        "metadata": {"name": name, "labels": {**draw(st.sampled_from([{}, {HOSTNAME: name}, {HOSTNAME: name}])), **found}},
        "spec": {"taints": taints},
        "status": {"allocatable": offer, "capacity": offer},
    }
    return decode.convert(plain, objects.Node)


def _convert(plain: dict[str, Any], kind: type[Any]) -> Any:
    return decode.convert(plain, kind)


others = st.one_of(
    st.builds(
        lambda name, found: _convert({"metadata": {"name": name, "labels": found}}, objects.Namespace),
        st.sampled_from(NAMESPACES),
        st.sampled_from([{}, {"team": "x"}, {"team": "y"}]),
    ),
    st.builds(
        lambda name, namespace, app: _convert(
            {"metadata": {"name": name, "namespace": namespace}, "spec": {"selector": {"app": app}}}, objects.Service
        ),
        st.sampled_from(["s", "t"]),
        st.sampled_from(NAMESPACES),
        apps,
    ),
    st.builds(
        lambda namespace, selector, allowed: _convert(
            {
                "metadata": {"name": "b", "namespace": namespace},
                "spec": without_none({"selector": selector}),
                "status": {"disruptionsAllowed": allowed},
            },
            objects.PodDisruptionBudget,
        ),
        st.sampled_from(NAMESPACES),
        maybe_selectors,
        st.integers(0, 1),
    ),
    st.builds(
        lambda namespace, modes: _convert(
            {
                "metadata": {"name": "one", "namespace": namespace},
                "spec": {"accessModes": modes, "volumeName": "v", "storageClassName": "fast"},
            },
            objects.PersistentVolumeClaim,
        ),
        st.sampled_from(NAMESPACES),
        st.sampled_from([["ReadWriteOncePod"], ["ReadWriteOnce"]]),
    ),
)
