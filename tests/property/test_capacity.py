"""The capacity of a cluster is the number of pods that a dry run places, and each gain is what the change really adds."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace

from tests.load_source import load_source
from tests.property import clusters
from wharfinger.builtins import CATALOGUE
from wharfinger.compiler.program import compile_policy
from wharfinger.framework.chain import assemble
from wharfinger.language.report.diagnostics import Diagnostics, Source
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import workloads
from wharfinger.model.reading.files import Objects
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.simulate.dry_run import dry_run
from wharfinger.what_if.capacity import LessOf, WithoutRule, capacity
from wharfinger.what_if.further_pods import grouped
from wharfinger.what_if.room_count import Count
from wharfinger.what_if.supposed_changes import NodesLike, SupposedChanges

MARGIN = 3
RULES = {
    "few": """filter few { require count(mine, on: node) < 2 else "runs two" }""",
    "apart": f"""filter apart {{ require count(mine, within: "{clusters.ZONE}") < 5 else "enough there" on missing pass }}""",
    "no_hdd": """filter no_hdd { reject (node.labels["disk"] ?? "-") == "hdd" else "slow disk" }""",
}
HEAD = """
policy "mix"
let mine = pods where (it.labels["app"] ?? "") == "web"
score roomy weight 2 = least_allocated()
"""
ZONE = clusters.ZONE
SELECTOR = {"matchLabels": {"app": "web"}}
SPREAD = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTOR}
BY_NODE = {**SPREAD, "topologyKey": clusters.HOSTNAME}
ONE_PER_NODE = {
    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": clusters.HOSTNAME, "labelSelector": SELECTOR}]}
}
CONSTRAINTS = {
    "none": {},
    "spread by zone": {"topologySpreadConstraints": [SPREAD]},
    "loosely spread": {"topologySpreadConstraints": [{**SPREAD, "maxSkew": 3}]},
    "spread over three zones": {"topologySpreadConstraints": [{**SPREAD, "maxSkew": 2, "minDomains": 3}]},
    "spread on ssd": {"topologySpreadConstraints": [{**SPREAD, "maxSkew": 2}], "nodeSelector": {"disk": "ssd"}},
    "spread without tainted": {"topologySpreadConstraints": [{**SPREAD, "nodeTaintsPolicy": "Honor"}]},
    "spread by node": {"topologySpreadConstraints": [{**BY_NODE, "maxSkew": 2}]},
    "spread by both": {"topologySpreadConstraints": [SPREAD, BY_NODE]},
    "spread beside agents": {
        "topologySpreadConstraints": [{**SPREAD, "labelSelector": {"matchLabels": {"app": "agent"}}}],
    },
    "spread, one per node": {"topologySpreadConstraints": [SPREAD], "affinity": ONE_PER_NODE},
    "one per node": {"affinity": ONE_PER_NODE},
    "one per zone": {
        "affinity": {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ZONE, "labelSelector": SELECTOR}]}
        }
    },
    "together in a zone": {
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ZONE, "labelSelector": SELECTOR}]}}
    },
    "beside an agent": {
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": clusters.HOSTNAME, "labelSelector": {"matchLabels": {"app": "agent", "disk": "ssd"}}}
                ]
            }
        }
    },
    "in a zone without an agent": {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "agent", "disk": "hdd"}}}
                ]
            }
        }
    },
    "tolerant": {"tolerations": [{"key": "dedicated", "operator": "Exists"}]},
    "on ssd": {"nodeSelector": {"disk": "ssd"}},
}


def node(number, cpu, zone, disk, tainted):
    amounts = {"cpu": f"{cpu}m", "memory": "8Gi", "pods": "6"}
    return msgspec.convert(
        {
            "metadata": {"name": f"node-{number}", "labels": {clusters.HOSTNAME: f"node-{number}", ZONE: zone, "disk": disk}},
            "spec": {"taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}] if tainted else []},
            "status": {"allocatable": amounts, "capacity": amounts},
        },
        objects.Node,
    )


def workload(name, shape):
    replicas, cpu, constraint, port, priority = shape
    ports = [{"containerPort": 80, "hostPort": 80}] if port else []
    container = {"name": "main", "image": "web", "resources": {"requests": {"cpu": f"{cpu}m", "memory": "1Gi"}}, "ports": ports}
    spec = {"containers": [container], "priority": priority, "preemptionPolicy": "Never", **CONSTRAINTS[constraint]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
    manifest = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": SELECTOR, "template": template},
    }
    return msgspec.convert(manifest, objects.Deployment)


def daemon_pod(node_name, disk):
    labels = {"app": "agent", "disk": disk}
    owner = objects.OwnerReference(api_version="apps/v1", kind="DaemonSet", name="agent", uid="agent", controller=True)
    container = objects.Container(name="main", resources=objects.ContainerResources(requests={"cpu": "100m"}))
    name = f"agent-{node_name}"
    return objects.Pod(
        metadata=objects.ObjectMeta(name=name, namespace="default", uid=name, labels=labels, owner_references=(owner,)),
        spec=objects.PodSpec(node_name=node_name, containers=(container,)),
    )


nodes = st.lists(
    st.tuples(st.sampled_from([500, 1000, 2300]), st.sampled_from("abc"), st.sampled_from(["ssd", "hdd"]), st.booleans()),
    min_size=1,
    max_size=5,
).map(lambda rows: [node(number, *row) for number, row in enumerate(rows)])
workload_shapes = st.tuples(
    st.integers(1, 4), st.sampled_from([100, 300, 400]), st.sampled_from(sorted(CONSTRAINTS)), st.booleans(), st.sampled_from([0, 5])
)
rule_sets = st.sets(st.sampled_from(sorted(RULES)), max_size=2)


def chain_of(rules):
    if not rules:
        return assemble([])
    diagnostics = Diagnostics()
    found = load_source(Source(name="mix.policy", text=HEAD + "\n".join(RULES[name] for name in sorted(rules))), CATALOGUE, diagnostics)
    assert not diagnostics.has_errors, list(diagnostics)
    return assemble([compile_policy(found, {})])


def state_of(found):
    state = ClusterState()
    for each in found:
        state.add_node(each)
        state.add_pod(daemon_pod(each.metadata.name, each.metadata.labels["disk"]))
    return state


def pods_of(state, *deployments):
    expansion = workloads.expand(Objects(by_kind={objects.Deployment: deployments}))
    for made in expansion.made:
        state.put(made)
    return [PodView(created(pod, number)) for number, pod in enumerate(expansion.pods)]


def created(pod, number):
    """The pod with a time of creation, so that the queue has pods in the order in which workloads number them."""
    return replace(pod, metadata=replace(pod.metadata, creation_timestamp=clusters.at(1_000 + number)))


def with_replicas(deployment, replicas):
    return replace(deployment, spec=replace(deployment.spec, replicas=replicas))


def all_that_fit(chain, found, deployment, at_least):
    """(how many pods of a workload a dry run places, in a queue of pods that is longer than that; how many on each node)."""
    state = state_of(found)
    run = dry_run(chain, state, pods_of(state, with_replicas(deployment, at_least + MARGIN)))
    counts = {}
    for result in run.results:
        if result.node is not None:
            counts[result.node] = counts.get(result.node, 0) + 1
    return run.placed, counts


THREE_IN_ONE_ZONE = [node(number, 2300, zone, "ssd", tainted=False) for number, zone in enumerate("aaab")]


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(nodes, workload_shapes, rule_sets)
@example(THREE_IN_ONE_ZONE, (1, 300, "spread by zone", False, 0), set())  # a pod on each node at once would spread them wrongly
@example(THREE_IN_ONE_ZONE, (1, 1000, "together in a zone", False, 0), set())  # or would open both zones
@example(THREE_IN_ONE_ZONE, (1, 300, "one per node", False, 0), set())
@example(THREE_IN_ONE_ZONE, (1, 300, "one per zone", False, 0), set())
def test_capacity_is_what_a_dry_run_places_and_each_gain_is_what_the_change_adds(found, shape, rules):
    deployment, chain, state = workload("web", shape), chain_of(rules), state_of(found)
    pods = pods_of(state, deployment)
    before = clusters.usage(state.snapshot()), clusters.node_facts(state.snapshot())

    room = capacity(chain, state, pods, by=[ZONE]).rooms[0]

    placed, counts = all_that_fit(chain, found, deployment, room.total)
    assert room.total == placed
    assert {share.place: share.placed + share.more for share in room.nodes} == counts
    assert sum(share.placed + share.more for share in room.by[ZONE]) == placed
    assert (clusters.usage(state.snapshot()), clusters.node_facts(state.snapshot())) == before
    assert not room.untried
    for gain in room.gains:
        assert gain.more == really_changed(gain.change, found, deployment, rules, room.total + gain.more) - placed, gain


def really_changed(change, found, deployment, rules, expected):
    """The number of pods that fit after the change is made in the objects and texts themselves."""
    if isinstance(change, WithoutRule):
        rules = rules - {change.rule.removeprefix("mix/")}
    elif isinstance(change, LessOf):
        (container,) = deployment.spec.template.spec.containers
        amounts = dict(container.resources.requests)
        amounts[change.resource] = less(change, amounts[change.resource])
        smaller = replace(container, resources=replace(container.resources, requests=amounts))
        template = deployment.spec.template
        template = replace(template, spec=replace(template.spec, containers=(smaller,)))
        deployment = replace(deployment, spec=replace(deployment.spec, template=template))
    elif isinstance(change, NodesLike):
        model = next(each for each in found if each.metadata.name == change.model)
        name = f"{change.model}-new-1"
        labels = {**model.metadata.labels, clusters.HOSTNAME: name}
        found = [*found, replace(model, metadata=replace(model.metadata, name=name, labels=labels))]
    return all_that_fit(chain_of(rules), found, deployment, max(expected, 0))[0]


def less(change, text):
    if change.resource == "cpu":
        return f"{int(text.removesuffix('m')) - change.amount}m"
    return str(int(text.removesuffix("Gi")) * 2**30 - change.amount)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(nodes, workload_shapes, workload_shapes, rule_sets)
def test_workloads_take_room_in_order_of_priority(found, first, second, rules):
    deployments = [workload("one", first), workload("two", second)]
    chain, state = chain_of(rules), state_of(found)
    pods = pods_of(state, *deployments)

    rooms = capacity(chain, state, pods).rooms

    priorities = {f"default/{each.metadata.name}": each.spec.template.spec.priority for each in deployments}
    assert [room.workload for room in rooms] == sorted(priorities, key=lambda name: (-priorities[name], name))
    own = state_of(found)
    asked = dry_run(chain, own, pods_of(own, *deployments))
    names = {room.workload: room for room in rooms}
    for name, room in names.items():
        assert room.placed == sum(result.node is not None for result in asked.results if result.pod.startswith(f"{name}-"))
    for room in rooms:  # dry_run left the pods placed, and each workload's further pods stay for the next one
        deployment = next(each for each in deployments if room.workload == f"default/{each.metadata.name}")
        further = pods_of(own, with_replicas(deployment, room.pods + room.more + MARGIN))[room.pods :]
        placed = dry_run(chain, own, further).placed if room.placed == room.pods else 0
        assert placed == room.more


@settings(max_examples=20, deadline=None)
@given(nodes, workload_shapes, st.integers(1, 3))
def test_extra_nodes_add_what_really_added_ones_do(found, shape, count):
    deployment, chain, state = workload("web", shape), chain_of(()), state_of(found)
    pods = pods_of(state, deployment)
    room = capacity(chain, state, pods, extra=NodesLike(model="node-0", count=count), changes=False).rooms[0]
    without = capacity(chain, state, pods, changes=False).rooms[0]

    assert room.added.more == room.total - without.total
    more = list(found)
    for number in range(1, count + 1):
        name = f"node-0-new-{number}"
        metadata = replace(found[0].metadata, name=name, labels={**found[0].metadata.labels, clusters.HOSTNAME: name})
        more.append(replace(found[0], metadata=metadata))
    assert room.total == all_that_fit(chain, more, deployment, room.total)[0]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(nodes, workload_shapes, rule_sets, st.booleans(), st.integers(1, 30))
@example(THREE_IN_ONE_ZONE, (1, 300, "none", False, 0), set(), False, 30)  # requests alone limit the pods
@example(THREE_IN_ONE_ZONE, (1, 300, "none", False, 0), set(), True, 30)  # and those of a nominated pod count too
@example(THREE_IN_ONE_ZONE, (1, 300, "none", False, 0), set(), False, 5)  # there is room for more than the limit
@example(THREE_IN_ONE_ZONE, (1, 300, "none", True, 0), set(), False, 30)  # a host port limits them to one on each node
@example(THREE_IN_ONE_ZONE, (1, 300, "spread by zone", False, 0), set(), False, 30)  # the zone with one node limits the other
@example(THREE_IN_ONE_ZONE, (1, 300, "loosely spread", False, 0), set(), False, 30)
@example(THREE_IN_ONE_ZONE, (1, 300, "spread over three zones", False, 0), set(), False, 30)
@example(THREE_IN_ONE_ZONE, (1, 300, "spread by zone", False, 0), {"few"}, False, 30)
@example(THREE_IN_ONE_ZONE, (1, 300, "spread, one per node", False, 0), set(), False, 30)
@example(THREE_IN_ONE_ZONE, (1, 300, "one per node", False, 0), set(), False, 30)
@example(THREE_IN_ONE_ZONE, (1, 300, "one per zone", False, 0), set(), False, 30)
@example(THREE_IN_ONE_ZONE, (1, 300, "none", False, 0), {"few"}, False, 30)  # a rule limits them to two
def test_a_total_is_that_of_pods_placed_one_by_one(found, shape, rules, nominated, limit):
    deployment, chain, state = workload("web", shape), chain_of(rules), state_of(found)
    pods = pods_of(state, deployment)
    own = state_of(found)
    if nominated:
        waiting = workload("waiting", (1, 400, "tolerant", False, 9))
        for each in (state, own):
            (pod,) = pods_of(each, waiting)
            each.nominate(pod, found[-1].metadata.name)
    with SupposedChanges(state) as supposed:
        total = Count(chain, supposed, limit).total(grouped(pods), 0)

    further = pods_of(own, with_replicas(deployment, len(pods) + limit))
    placed = dry_run(chain, own, further).placed
    assert total == (placed, placed == len(further))


@pytest.mark.parametrize(
    "constraint",
    [
        "none",
        "one per node",
        "spread by zone",
        "loosely spread",
        "spread over three zones",
        "spread on ssd",
        "spread without tainted",
        "spread by node",
        "spread beside agents",
        "spread, one per node",
    ],
)
def test_a_total_that_requests_and_domains_limit_is_read_from_the_state(constraint):
    """One decision says which nodes the pods can have; no pod is placed."""
    chain, state = chain_of(()), state_of(THREE_IN_ONE_ZONE)
    with SupposedChanges(state) as supposed:
        count = Count(chain, supposed, 30)
        count.total(grouped(pods_of(state, workload("web", (1, 300, constraint, False, 0)))), 0)
    assert count.decisions == 1


@settings(max_examples=20, deadline=None)
@given(nodes, workload_shapes, st.integers(1, 6))
def test_the_limit_ends_the_count(found, shape, limit):
    chain, state = chain_of(()), state_of(found)
    pods = pods_of(state, workload("web", shape))
    whole = capacity(chain, state, pods).rooms[0]
    room = capacity(chain, state, pods, limit=limit).rooms[0]

    if whole.more >= limit:
        assert (room.more, room.at_least, room.stop) == (limit, True, None)
    else:
        assert structs.replace(room, gains=()) == structs.replace(whole, gains=())
