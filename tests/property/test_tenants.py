"""A policy of a namespace shows its author nothing of pods of other namespaces: clusters that differ only in them look equal.

The two have the same nodes and the same pods, but those of other namespaces have other labels, annotations, images, names, owners and
much else that says nothing of the room they take. What is compared is everything that comes of the policy: what it does to every node, the
decision, its explanation, what the store finds when it tries the policy, and the status of a PlacementPreview, byte for byte.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import msgspec
from hypothesis import HealthCheck, Phase, assume, event, find, given, settings
from hypothesis import strategies as st

from tests.in_memory import ManualClock
from tests.property import clusters, policy_expressions
from wharfinger.builtins import CATALOGUE
from wharfinger.compiler.bound import BoundPolicy
from wharfinger.compiler.program import CompiledPolicy, compile_policy
from wharfinger.explain import explained_pod
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import decide
from wharfinger.framework.extension import Placement
from wharfinger.framework.rules.policy_rules import PolicyPermit
from wharfinger.groups.membership import group_index, rule_of_policies
from wharfinger.kube.custom_resources import PlacementPreview
from wharfinger.language.load import TextSet
from wharfinger.language.report.diagnostics import Diagnostics
from wharfinger.language.semantics.authority import CLUSTER, Authority, TenantPolicies, TenantRights
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.snapshot import Snapshot
from wharfinger.operator.controller import ObjectCache
from wharfinger.operator.policy_checks import PolicyChecks, eligible, violations
from wharfinger.operator.preview import PreviewReconciler
from wharfinger.operator.preview_question import Questions
from wharfinger.policies.budget import BudgetSettings, PolicyBudget
from wharfinger.policies.candidate import sample_of, trial_findings

NOW = 1_010.0
OWN = "web"
SERVERS = frozenset({"default"})
TENANT = Authority(OWN, servers=SERVERS)
RIGHTS = TenantRights(servers=SERVERS)
CLASSES = (objects.PriorityClass(metadata=objects.ObjectMeta(name="high"), value=5000),)
slow = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))

# ── two clusters ──


@st.composite
def facts(draw: st.DrawFn, name: str) -> dict[str, Any]:
    """The fields in which two pods may differ."""
    words = st.sampled_from(["a", "b", "secret"])
    return {
        "name": draw(st.sampled_from([name, f"other-{name}"])),
        "labels": draw(st.dictionaries(st.sampled_from(["app", "tier"]), words, max_size=2)),
        "annotations": draw(st.dictionaries(st.sampled_from(["owner", "token"]), words, max_size=2)),
        "image": draw(st.sampled_from(["nginx", "redis:7", "internal/secret:1"])),
        "owner": draw(st.sampled_from(["", "web", "bank"])),
        "account": draw(st.sampled_from(["default", "bank"])),
        "class": draw(st.sampled_from(["", "gold"])),
        "tolerations": draw(st.sampled_from([(), (objects.Toleration(operator="Exists"),)])),
        "created": draw(st.sampled_from([100, 900])),
    }


def with_facts(pod: objects.Pod, found: dict[str, Any]) -> objects.Pod:
    """The same pod with these."""
    owner = objects.OwnerReference(api_version="apps/v1", kind="ReplicaSet", name=found["owner"], uid=found["owner"], controller=True)
    metadata = msgspec.structs.replace(
        pod.metadata,
        name=found["name"],
        uid=f"uid-of-{found['name']}",
        labels=found["labels"],
        annotations=found["annotations"],
        owner_references=(owner,) if found["owner"] else (),
        creation_timestamp=clusters.at(found["created"]),
    )
    spec = msgspec.structs.replace(
        pod.spec,
        containers=tuple(msgspec.structs.replace(each, image=found["image"]) for each in pod.spec.containers),
        service_account_name=found["account"],
        priority_class_name=found["class"],
        tolerations=found["tolerations"],
    )
    return msgspec.structs.replace(pod, metadata=metadata, spec=spec)


@dataclass(frozen=True)
class Two:
    """The same nodes with the same pods, of which those of other namespaces differ; `budgets` are disruption budgets of both."""

    nodes: list[objects.Node]
    pods: tuple[list[objects.Pod], list[objects.Pod]]
    budgets: list[objects.PodDisruptionBudget]
    samples: dict[str, tuple[float, float]]

    def state(self, which: int, *, budgets: bool = False) -> ClusterState:
        """One of the two."""
        state = ClusterState(NOW)
        for obj in (*self.nodes, *CLASSES, *(self.budgets if budgets else ())):
            state.put(obj)
        for pod in self.pods[which]:
            state.add_pod(pod)
        state.set_metric("load", self.samples)
        return state


@st.composite
def twos(draw: st.DrawFn) -> Two:
    """Two clusters of up to four nodes with up to seven pods."""
    names = clusters.NODE_NAMES[: draw(st.integers(1, 4))]
    nodes = [draw(clusters.nodes(st.just(name))) for name in names]
    one: list[objects.Pod] = []
    other: list[objects.Pod] = []
    for name in clusters.POD_NAMES[: draw(st.integers(1, 7))]:
        pod = draw(clusters.pods(st.just(name), draw(st.sampled_from(names))))
        if pod.metadata.namespace == OWN:
            one.append(with_facts(pod, {**draw(facts(name)), "name": name}))
            other.append(one[-1])
        else:
            one.append(with_facts(pod, draw(facts(name))))
            other.append(with_facts(pod, draw(facts(name))))
    selector = objects.LabelSelector(match_labels={"app": "a"})
    budgets = [
        objects.PodDisruptionBudget(
            metadata=objects.ObjectMeta(name="budget", namespace=namespace),
            spec=objects.PodDisruptionBudgetSpec(selector=selector),
        )
        for namespace in draw(st.lists(st.sampled_from(["default", OWN]), unique=True))
    ]
    samples = draw(st.dictionaries(st.sampled_from(names), st.tuples(st.sampled_from([0.1, 0.7]), st.just(1_009.0))))
    return Two(nodes, (one, other), budgets, samples)


def with_room(node: objects.Node) -> objects.Node:
    """The same node with room for everything."""
    allocatable = {"cpu": "640", "memory": "999Gi", "pods": "99"}
    status = msgspec.structs.replace(node.status, allocatable=allocatable, capacity=allocatable)
    return msgspec.structs.replace(node, spec=objects.NodeSpec(), status=status)


@st.composite
def waiting_pods(draw: st.DrawFn) -> objects.Pod:
    """A pod of the namespace, often one that may evict others."""
    pod = draw(clusters.pods(st.just("incoming")))
    metadata = msgspec.structs.replace(pod.metadata, namespace=OWN, deletion_timestamp=None)
    priority, name = draw(st.sampled_from([(0, ""), (5000, "high")]))
    return msgspec.structs.replace(
        pod, metadata=metadata, spec=msgspec.structs.replace(pod.spec, priority=priority, priority_class_name=name)
    )


# ── policies that try to look ──

OF_PODS = (
    'it.labels["app"] == "a"',
    'it.labels["app"] == pod.labels["app"]',
    'it.labels matches "app in (a,secret),!tier"',
    'has(it.annotations["token"])',
    '(it.annotations["token"] ?? "") == "secret"',
    '"internal/secret:1" in it.images',
    'it.name == "pod-1"',
    'starts_with(it.name, "other")',
    'it.uid != "uid-of-pod-2"',
    'it.namespace == "default"',
    'it.namespace != pod.namespace and has(it.labels["tier"])',
    "it.priority > 0",
    "not it.terminating",
    "it.owner_name != it.name",
    'it.owner_kind == "ReplicaSet" and it.owner_name == "bank"',
    'it.service_account == "bank"',
    'it.priority_class == "gold"',
    'tolerates(it, "dedicated=gpu:NoSchedule")',
    "age(it.created) > 5min",
    'it.qos == "BestEffort"',
)
ZONE = clusters.ZONE
GROUPS = (
    'group by pod.labels["app"] { min_count 1 }\n',
    f'group by pod.labels["app"] {{ min_count 2 within preferred "{ZONE}" disruption group }}\n',
    f'group by pod.owner_name {{ min_count 1 spread_over "{ZONE}" }}\n',
)
OF_GROUPS = (
    f'score beside = count(group, within: "{ZONE}") normalize max on missing 0',
    'filter alone { require count(group) < 2 else "{count(group)} are here" }',
    "filter known { require (pod.group.placed ?? 0) < 2 and (pod.group.size ?? 1) < 3 and (pod.group.min ?? 1) < 3 }",
    'permit complete when has(pod.group.name) { require count(group) >= 2 else "{count(group)} of {pod.group.placed ?? 0}" }',
    "filter there { reject count(pods where it.group.name == pod.group.name, on: node) > 0 on missing pass }",
    'filter labelled { reject pod.namespace_labels["team"] == "bank" on missing pass }',
    "score gpus = count(devices where it.name != pod.name, on: node) normalize max on missing 0",
)


@st.composite
def counts(draw: st.DrawFn) -> str:
    """Numbers that pods give."""
    where = " or ".join(draw(st.lists(st.sampled_from(OF_PODS), min_size=1, max_size=2)))
    selection = draw(st.sampled_from([f"pods where {where}", "pods"]))
    reach = draw(st.sampled_from(["on: node", f'within: "{ZONE}"']))
    count = st.sampled_from([f"count({selection}, {reach})", f"count({selection})"])
    amount = st.sampled_from([f"(sum({selection}, it.requests.cpu, {reach}) / 1000m)", f"(max({selection}, it.priority, {reach}) ?? 0)"])
    points = st.just(f'(spread({selection}, by: "{ZONE}") ?? 0)')
    return f"({draw(st.one_of(count, count, amount, points))} ?? 0)"


@st.composite
def curious(draw: st.DrawFn) -> str:
    """Policies that read as much of other pods as they can."""
    scope = draw(st.sampled_from(["", " for pods where true", ' for pods where pod.namespace == "default" or has(pod.labels["app"])']))
    victims = draw(st.lists(st.sampled_from(OF_PODS), max_size=2))
    grouping = draw(st.sampled_from(["", *GROUPS]))
    of_group = "".join(f"{rule}\n" for rule in draw(st.lists(st.sampled_from(OF_GROUPS), unique=True, max_size=2))) if grouping else ""
    held = draw(st.sampled_from(["", f'permit held {{ require {draw(counts())} < 2 else "{{seen}} are here" }}\n']))
    keyword = draw(st.sampled_from(["never_evict", "only_evict"]))
    rules = "".join(f"  {keyword} when {rule} on missing {draw(st.sampled_from(['keep', 'evict']))}\n" for rule in victims)
    return (
        f'policy "curious"{scope}\n'
        f"let seen = {draw(counts())}\n"
        f'filter few {{ require seen < {draw(st.integers(0, 2))} else "{{seen}} here, {{pod.namespace}}" }}\n'
        f"filter more when {draw(counts())} > 0 {{ reject {draw(counts())} > {draw(st.integers(0, 3))} }}\n"
        f"score apart = -{draw(counts())} normalize minmax\n"
        f"{grouping}{of_group}{held}"
        f"tie_break {draw(counts())} desc\n" + (f"preemption {{\n{rules}}}\n" if rules else "")
    )


texts = st.one_of(curious(), curious(), policy_expressions.policies())


def compiled(text: str, authority: Authority) -> CompiledPolicy | None:
    """The policy of a text as that of an authority, None for one with errors."""
    diagnostics = Diagnostics()
    policy = TextSet(texts={"p": text.encode()}).check("p", CATALOGUE, diagnostics, authority).policy
    return None if policy is None or diagnostics.has_errors else compile_policy(policy)


# ── what is reported ──


def outcomes(policy: CompiledPolicy, two: Two, which: int, pod: objects.Pod) -> list[Any]:
    """Everything that comes of a policy on one of the two clusters, for a pod."""
    view = PodView(pod)
    chain = assemble([policy])
    snapshot = two.state(which).snapshot(NOW)
    decision = decide(chain, snapshot, view)
    bound = BoundPolicy(policy, view, snapshot)
    governed = [other for row in range(snapshot.n_nodes) for other in snapshot.pods_on(row) if policy.governs(other, snapshot)]
    return [
        (decision.node, decision.message, decision.nominated, decision.feasible, decision.ties, len(decision.victims), decision.notes),
        [bound.filter_bits(index, snapshot, slice(None)).tolist() for index in range(len(policy.filters))],
        [[str(each.tolist()) for each in bound.score(index, snapshot, slice(None))] for index in range(len(policy.scores))],
        [bound.reasons(index) for index in range(len(policy.filters))],
        [violations(policy, view, row, snapshot) for row in range(snapshot.n_nodes)],
        eligible(policy, view, snapshot),
        sorted(other.key for other in governed),
        [permitted(policy, index, view, snapshot) for index in range(len(policy.permits))],
        grouped(policy, view, two.state(which)),
        str(explained_pod.explained(chain, two.state(which), view, NOW)),
        [str(finding) for finding in trial_findings(policy, sample_of(two.state(which).snapshot(NOW), [view]), "p")],
    ]


def permitted(policy: CompiledPolicy, index: int, pod: PodView, snapshot: Snapshot) -> list[Any]:
    """The result of a permit for the pod on each node."""
    permit = PolicyPermit(policy, index)
    placements = [Placement(pod=pod, node=name) for name in snapshot.names]
    return [(permit.permission(each, snapshot).approved, permit.message(each, snapshot)) for each in placements]


def grouped(policy: CompiledPolicy, pod: PodView, state: ClusterState) -> Any:
    """The group of the pod, with its members and terms."""
    placed = [other for row in range(state.snapshot(NOW).n_nodes) for other in state.snapshot(NOW).pods_on(row)]
    index = group_index([*placed, pod], state.objects, rule_of_policies([policy], lambda: state.snapshot(NOW)))
    key = index.key_of(pod.uid)
    members = () if key is None else index.members(key)
    assert {member.namespace for member in members} <= {OWN}
    return key, key and index.terms(key), sorted(member.key for member in members)


class Api:
    """Takes the status of a preview."""

    status: dict[str, Any]

    async def apply_status(self, _obj: object, status: dict[str, Any]) -> None:
        """Keep the status."""
        self.status = status


def budget_of(state: ClusterState, clock: ManualClock) -> PolicyBudget:
    """The budget of policies of a scheduler on this state."""
    return PolicyBudget(
        BudgetSettings(), clock.now, clock.monotonic, lambda: (state.snapshot().n_nodes, int(state.snapshot().pod_count.sum()))
    )


def preview_status(
    state: ClusterState, spec: dict[str, Any], rights: TenantRights = RIGHTS, *, others: Sequence[CompiledPolicy] = ()
) -> str:
    """The status of a PlacementPreview of the namespace, as JSON; `others` are the policies in force."""
    clock = ManualClock(NOW)
    profile = SimpleNamespace(name="wharfinger", chain=assemble(others))
    budget = budget_of(state, clock)
    scheduler = SimpleNamespace(state=state, snapshot=lambda: state.snapshot(clock.now()), profiles=[profile], budget=budget)
    checks = PolicyChecks(scheduler, clock, rights)  # type: ignore[arg-type]  # as much of one as is asked
    cache, api = ObjectCache(["PlacementPreview"]), Api()
    metadata = objects.ObjectMeta(name="question", namespace=OWN, uid="1", creation_timestamp=clusters.at(1_000))
    cache.upsert("PlacementPreview", PlacementPreview(metadata=metadata, spec=spec))
    previews = PreviewReconciler(cache, api, checks, Questions(checks, api), clock)  # type: ignore[arg-type]  # likewise

    asyncio.run(previews.reconcile(f"{OWN}/question"))
    return json.dumps(api.status, sort_keys=True)


@st.composite
def supposed(draw: st.DrawFn) -> dict[str, Any]:
    """The changes that a preview may suppose, and its other questions."""
    nodes = [{"like": draw(st.sampled_from(clusters.NODE_NAMES[:2])), "count": draw(st.integers(1, 2))}]
    return {**({"nodes": nodes} if draw(st.booleans()) else {}), **({"capacity": True} if draw(st.booleans()) else {})}


def question(text: str | None, pod: objects.Pod, replicas: int = 2) -> dict[str, Any]:
    """A preview for pods like this, by a policy that it brings along."""
    spec = msgspec.to_builtins(pod.spec)
    template = {"metadata": {"labels": dict(pod.metadata.labels)}, "spec": {**spec, "schedulerName": "wharfinger"}}
    return {"template": template, "replicas": replicas, **({} if text is None else {"policies": [{"source": text}]})}


# ── the property ──


@slow
@given(texts, twos(), waiting_pods())
def test_outcomes_of_a_policy_do_not_depend_on_pods_of_other_namespaces(text: str, two: Two, pod: objects.Pod) -> None:
    policy = compiled(text, TENANT)
    assume(policy is not None)
    assert policy is not None
    event(f"{len(two.pods[0])} pods")
    one, other = (outcomes(policy, two, which, pod) for which in (0, 1))
    assert one == other


@slow
@given(texts, twos(), waiting_pods(), supposed())
def test_a_preview_does_not_depend_on_pods_of_other_namespaces(text: str, two: Two, pod: objects.Pod, more: dict[str, Any]) -> None:
    one, other = (preview_status(two.state(which, budgets=True), question(text, pod) | more) for which in (0, 1))
    event(json.loads(one)["conditions"][0]["reason"])
    assert one == other


@slow
@given(twos(), waiting_pods(), supposed())
def test_nor_does_one_without_any_policy(two: Two, pod: objects.Pod, more: dict[str, Any]) -> None:
    one, other = (preview_status(two.state(which, budgets=True), question(None, pod) | more) for which in (0, 1))
    assert one == other


# ── and what would happen otherwise ──


def test_a_policy_of_the_cluster_would_show_it() -> None:
    def reports(example: tuple[str, Two, objects.Pod]) -> bool:
        text, two, pod = example
        policy = compiled(text, CLUSTER)
        return policy is not None and outcomes(policy, two, 0, pod) != outcomes(policy, two, 1, pod)

    unhurried = settings(max_examples=500, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    assert find(st.tuples(curious(), twos(), waiting_pods()), reports, settings=unhurried)


SPY = (
    'policy "spy"\nlet n = count(pods where starts_with(it.annotations["token"] ?? "", "s") and it.namespace == "default")\n'
    'filter f { require n == 0 else "it begins with s" }\n'
)


def spied(rights: TenantRights) -> str:
    state = ClusterState(NOW)
    state.add_node(objects.Node(metadata=objects.ObjectMeta(name="n"), status=objects.NodeStatus(allocatable={"cpu": "4", "pods": "9"})))
    metadata = objects.ObjectMeta(name="bank", namespace="default", uid="u", annotations={"token": "secret"})
    state.add_pod(objects.Pod(metadata=metadata, spec=objects.PodSpec(node_name="n")))
    pod = objects.Pod(metadata=objects.ObjectMeta(name="p"), spec=objects.PodSpec())
    return preview_status(state, question(SPY, pod), rights)


def test_an_annotation_is_read_out_letter_by_letter_only_where_namespaces_are_trusted() -> None:
    assert "it begins with s" in spied(TenantRights(TenantPolicies.TRUSTED))
    assert "it begins with s" not in spied(TenantRights())
    assert json.loads(spied(TenantRights()))["placed"] == 2
    assert "P803" in spied(TenantRights(TenantPolicies.OFF))
