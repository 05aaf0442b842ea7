"""A policy of a namespace shows its author nothing of objects of any kind of other namespaces.

The two clusters have the same nodes, and the same objects of the namespace itself. Those of other namespaces differ: labels of namespaces,
services and controllers, PodGroups, claims for volumes and who has a volume, disruption budgets, pods that wait with a nomination, and
policies. What is compared is what people of the namespace read: the decision about their pod and its message, the explanation, the status
of a PlacementPreview and of a PolicyApp with its events, and what the policy store finds.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import msgspec
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from tests.in_memory import ManualClock
from tests.property import clusters
from tests.property.test_tenants import (
    NOW,
    OWN,
    RIGHTS,
    TENANT,
    Two,
    budget_of,
    compiled,
    curious,
    facts,
    preview_status,
    question,
    slow,
    supposed,
    twos,
    waiting_pods,
    with_facts,
    with_room,
)
from wharfinger.compiler.program import CompiledPolicy
from wharfinger.crd import FINALIZER
from wharfinger.crd.models import PolicyAppSpec
from wharfinger.explain import explained_pod
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import decide
from wharfinger.framework.policy_status import Mode, PolicyText
from wharfinger.kube.api_errors import NotFound
from wharfinger.kube.custom_resources import Deployment, PolicyApp
from wharfinger.language.load import TextSet
from wharfinger.language.semantics.authority import Authority
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.operator import app_objects
from wharfinger.operator.app_status import AppDrift
from wharfinger.operator.controller import AppPods, ObjectCache
from wharfinger.operator.policy_app import AdmittedApps, PolicyAppReconciler
from wharfinger.operator.policy_checks import PolicyChecks
from wharfinger.policies.active import ActivationRequest, choose
from wharfinger.policies.candidate import build, sample_of

OTHERS = ("default", "bank")
some = settings(slow, max_examples=12)
WORDS = st.sampled_from(["a", "b", "secret"])
APP = "app"  # the PolicyApp, whose pods have the label
HANDLED = "pv.kubernetes.io/bind-completed"


def made(kind: type[Any], name: str, namespace: str = "", **fields: Any) -> Any:
    """An object as the API server would send it."""
    metadata = {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}", **fields.pop("metadata", {})}
    return decode.convert({"metadata": metadata, **fields}, kind)


def claim(name: str, namespace: str, volume: str = "") -> objects.PersistentVolumeClaim:
    """A claim for a volume; bound if a volume is given."""
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "local",
        "volumeName": volume,
    }
    found: objects.PersistentVolumeClaim = made(
        objects.PersistentVolumeClaim, name, namespace, spec=spec, metadata={"annotations": {HANDLED: "yes"} if volume else {}}
    )
    return found


def volume(name: str, node: str, owner: tuple[str, str] | None) -> objects.PersistentVolume:
    """A volume on a node, which a claim may have."""
    terms = [{"matchExpressions": [{"key": clusters.HOSTNAME, "operator": "In", "values": [f"host-{node}"]}]}]
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
    }
    if owner is not None:
        spec["claimRef"] = {"kind": "PersistentVolumeClaim", "namespace": owner[0], "name": owner[1], "uid": "/".join(owner)}
    found: objects.PersistentVolume = made(objects.PersistentVolume, name, spec=spec, status={"phase": "Bound" if owner else "Available"})
    return found


@st.composite
def of_others(draw: st.DrawFn, volumes: Sequence[tuple[str, str]]) -> list[Any]:
    """Objects of other namespaces; `volumes` (names, nodes) belong to any of them."""
    found: list[Any] = [
        made(objects.Namespace, each, metadata={"labels": draw(st.dictionaries(WORDS, WORDS, max_size=2))}) for each in OTHERS
    ]
    for number in range(draw(st.integers(0, 4))):
        namespace, labels = draw(st.sampled_from(OTHERS)), {"app": draw(WORDS)}
        kind = draw(st.sampled_from(["service", "replicas", "budget", "group", "claim"]))
        if kind == "service":
            found.append(made(objects.Service, f"s{number}", namespace, spec={"selector": labels}))
        elif kind == "replicas":
            found.append(made(objects.ReplicaSet, draw(WORDS), namespace, spec={"selector": {"matchLabels": labels}, "template": {}}))
        elif kind == "budget":
            spec = {"selector": {"matchLabels": labels}}
            found.append(made(objects.PodDisruptionBudget, f"b{number}", namespace, spec=spec))
        elif kind == "group":
            found.append(made(objects.CoschedulingPodGroup, draw(WORDS), namespace, spec={"minMember": draw(st.integers(1, 5))}))
        else:
            found.append(claim(draw(st.sampled_from(["data", "more"])), namespace))
    for name, node in volumes:
        owner = draw(st.sampled_from(OTHERS)), draw(WORDS)
        found += [claim(owner[1], owner[0], name), volume(name, node, owner)]
    return found


@dataclass(frozen=True)
class WithObjects(Two):
    """Two clusters; `others` are the objects of other namespaces in each, `own` those of the namespace, and `nominated` pods of others."""

    others: tuple[list[Any], list[Any]] = ([], [])
    own: list[Any] = field(default_factory=list)
    nominated: tuple[list[tuple[objects.Pod, str]], list[tuple[objects.Pod, str]]] = ([], [])

    def state(self, which: int, *, budgets: bool = False) -> ClusterState:
        """One of the two; disruption budgets of others only where `budgets` says that nobody may notice them."""
        state = super().state(which, budgets=budgets)
        for each in (*self.own, *self.others[which]):
            if budgets or not isinstance(each, objects.PodDisruptionBudget):
                state.put(each)
        for pod, node in self.nominated[which]:
            state.nominate(PodView(pod), node)
        return state


@st.composite
def with_objects(draw: st.DrawFn) -> WithObjects:
    """Two clusters."""
    two = draw(twos())
    names = [node.metadata.name for node in two.nodes]
    taken = [(f"taken-{node}", node) for node in names if draw(st.booleans())]
    own: list[Any] = [
        made(objects.Namespace, OWN, metadata={"labels": {"team": OWN}}),
        made(objects.StorageClass, "local", provisioner="kubernetes.io/no-provisioner", volumeBindingMode="WaitForFirstConsumer"),
        claim("data", OWN),
        *(volume(f"free-{node}", node, None) for node in names if draw(st.booleans())),
        *(made(objects.CoschedulingPodGroup, name, OWN, spec={"minMember": 1}) for name in draw(st.lists(st.just("a"), max_size=1))),
    ]
    nominated: tuple[list[tuple[objects.Pod, str]], list[tuple[objects.Pod, str]]] = ([], [])
    for number in range(draw(st.integers(0, 2))):
        pod, node = draw(clusters.pods(st.just(f"nominated-{number}"))), draw(st.sampled_from(names))
        for side in nominated:
            waits = with_facts(pod, draw(facts(f"nominated-{number}")))
            side.append((msgspec.structs.replace(waits, metadata=msgspec.structs.replace(waits.metadata, namespace="bank")), node))
    others = draw(of_others(taken)), draw(of_others(taken))
    nodes = [with_room(node) for node in two.nodes] if draw(st.integers(0, 3)) else two.nodes
    return WithObjects(nodes, two.pods, two.budgets, two.samples, others, own, nominated)


@st.composite
def asking(draw: st.DrawFn) -> objects.Pod:
    """A pod of the namespace, which may use a volume and belong to a group."""
    pod = draw(waiting_pods())
    if draw(st.booleans()):
        plain = objects.PodSpec(containers=(objects.Container(name="c"),))
        spec = msgspec.structs.replace(plain, priority=pod.spec.priority, priority_class_name=pod.spec.priority_class_name)
        pod = msgspec.structs.replace(pod, spec=spec)
    if draw(st.booleans()):
        uses = objects.Volume(name="v", persistent_volume_claim=objects.PersistentVolumeClaimVolume(claim_name="data"))
        pod = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, volumes=(uses,)))
    label = draw(st.sampled_from([{}, {}, {"scheduling.x-k8s.io/pod-group": "a"}, {"scheduling.x-k8s.io/pod-group": "b"}]))
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, labels={**pod.metadata.labels, **label}))


OVERRIDES = st.sampled_from(["", "base kubernetes { NodeResourcesFit weight 0 }\n", "base kubernetes { NodeResourcesFit weight 3 }\n"])


OF_BANK = (
    'policy "bank.one"\nfilter none { reject true else "bank.one holds {pod.name}" }\n',
    'policy "bank.one"\nscore s = node.free.cpu / 1cpu normalize minmax on missing 0\nbase kubernetes { NodeResourcesFit weight 3 }\n',
    'policy "bank.two" for pods where has(pod.labels["app"])\ngroup by pod.labels["app"] { min_count 3 }\n',
    'policy "bank.two"\nbase kubernetes { NodeResourcesFit weight 0 }\npreemption {\n  never_evict when true\n}\n',
)
COMPILED = [[policy] for text in OF_BANK if (policy := compiled(text, Authority("bank"))) is not None]
assert len(COMPILED) == len(OF_BANK)
of_bank = st.sampled_from([[], *COMPILED])
"""Policies of another namespace."""


@some
@given(curious(), with_objects(), asking(), st.tuples(of_bank, of_bank))
def test_decisions_do_not_depend_on_objects_of_other_namespaces(
    text: str, two: WithObjects, pod: objects.Pod, theirs: tuple[list[CompiledPolicy], list[CompiledPolicy]]
) -> None:
    policy = compiled(text, TENANT)
    assume(policy is not None)
    assert policy is not None
    one, other = (decided(policy, two.state(which), PodView(pod), theirs[which]) for which in (0, 1))
    event("placed" if one[0][0] else "not placed")
    assert one == other


def decided(policy: CompiledPolicy, state: ClusterState, pod: PodView, theirs: Sequence[CompiledPolicy]) -> list[Any]:
    """The decision about a pod and its explanation."""
    chain = assemble([policy, *theirs])
    decision = decide(chain, state.snapshot(NOW), pod)
    told = (decision.node, decision.message, decision.nominated, decision.feasible, decision.ties, len(decision.victims), decision.notes)
    return [told, str(explained_pod.explained(chain, state, pod, NOW))]


@some
@given(st.one_of(st.none(), curious()), with_objects(), asking(), supposed(), st.tuples(of_bank, of_bank))
def test_nor_does_a_preview(
    text: str | None, two: WithObjects, pod: objects.Pod, more: dict[str, Any], theirs: tuple[list[CompiledPolicy], list[CompiledPolicy]]
) -> None:
    asked = question(text, pod) | more
    one, other = (preview_status(two.state(which, budgets=True), asked, others=theirs[which]) for which in (0, 1))
    event(json.loads(one)["conditions"][0]["reason"])
    assert one == other


@some
@given(with_objects(), asking(), st.sampled_from(["bank.one", "bank.two", "none"]), st.tuples(of_bank, of_bank))
def test_nor_does_a_preview_that_names_a_policy(
    two: WithObjects, pod: objects.Pod, name: str, theirs: tuple[list[CompiledPolicy], list[CompiledPolicy]]
) -> None:
    asked = question(None, pod) | {"policies": [{"name": name}]}
    one, other = (preview_status(two.state(which, budgets=True), asked, others=theirs[which]) for which in (0, 1))
    assert one == other


# ── a PolicyApp ──


class Written:
    """Takes what is written for an app: the objects, its statuses, and events about it."""

    def __init__(self) -> None:
        self.found: list[Any] = []

    async def get(self, path: str) -> dict[str, Any]:
        """None: no object exists."""
        raise NotFound(path)

    async def apply(self, body: dict[str, Any]) -> None:
        """Keep an object."""
        self.found.append(body)

    async def apply_status(self, _obj: object, status: dict[str, Any]) -> None:
        """Keep a status."""
        self.found.append(status)

    def record_about(self, about: object, note: object) -> None:
        """Keep an event."""
        self.found.append((about, note))


def app_status(text: str, two: WithObjects, which: int, theirs: Sequence[CompiledPolicy]) -> list[Any]:
    """The status of a PolicyApp with this policy and running pods, as users of the namespace see it."""
    labels = {"scheduling.wharfinger.dev/app": APP}
    app = made(
        PolicyApp,
        APP,
        OWN,
        spec={"image": "x", "policy": {"inline": text}},
        metadata={"finalizers": [FINALIZER]},
    )
    spec = PolicyAppSpec.model_validate(app.spec)
    held = app_objects.restricted_to_app(text, name=f"{OWN}.{APP}", namespace=OWN, app=APP)
    own = compiled(held, TENANT)
    assert own is not None
    state, clock = two.state(which), ManualClock(NOW)
    profile = SimpleNamespace(name="wharfinger", chain=assemble([own, *theirs]))
    scheduler = SimpleNamespace(state=state, snapshot=lambda: state.snapshot(NOW), profiles=[profile], budget=budget_of(state, clock))
    checks = PolicyChecks(scheduler, clock, RIGHTS)  # type: ignore[arg-type]  # as much of one as is asked
    cache, pods, written = ObjectCache(["PolicyApp", "Deployment", "Service", "SchedulingPolicy"]), AppPods(lambda _key: None), Written()
    made_before = app_objects.deployment(app.metadata, spec)
    cache.upsert(
        "Deployment", decode.convert({**made_before, "status": {"replicas": 1, "readyReplicas": 1, "updatedReplicas": 1}}, Deployment)
    )
    cache.upsert("PolicyApp", app)
    for pod in two.pods[which]:
        if pod.metadata.namespace == OWN:
            metadata = msgspec.structs.replace(pod.metadata, labels={**pod.metadata.labels, **labels}, deletion_timestamp=None)
            spec_of_pod = msgspec.structs.replace(pod.spec, scheduler_name="wharfinger")
            running = msgspec.structs.replace(pod, metadata=metadata, spec=spec_of_pod)
            state.add_pod(PodView(running))
            pods.upsert("Pod", running)
    writer: Any = written
    drift = AppDrift(checks, pods, writer, writer, clock)
    apps = PolicyAppReconciler(cache, pods, writer, drift, writer, clock, AdmittedApps(9, lambda _key: None))
    asyncio.run(apps.reconcile(f"{OWN}/{APP}"))
    return written.found


@some
@given(curious(), with_objects(), st.tuples(of_bank, of_bank))
def test_nor_does_the_status_of_an_app(text: str, two: WithObjects, theirs: tuple[list[CompiledPolicy], list[CompiledPolicy]]) -> None:
    assume(compiled(text, TENANT) is not None)
    one, other = (app_status(text, two, which, theirs[which]) for which in (0, 1))
    (status,) = (each for each in one if "phase" in each)
    event(f"{status.get('drifted')} drifted")
    assert one == other


@some
@given(curious(), OVERRIDES, with_objects(), asking(), st.tuples(of_bank, of_bank))
def test_nor_does_what_the_policy_store_finds(
    text: str, more: str, two: WithObjects, pod: objects.Pod, theirs: tuple[list[CompiledPolicy], list[CompiledPolicy]]
) -> None:
    one, other = (stored(text + more, two, which, pod, theirs[which]) for which in (0, 1))
    assert one == other


def stored(text: str, two: WithObjects, which: int, pod: objects.Pod, theirs: Sequence[CompiledPolicy]) -> list[Any]:
    """The findings about a text on a cluster where others wait too, and whether it decides with the policies of others."""
    waiting = [PodView(each) for each, _ in two.nominated[which]]
    offered = PolicyText(name="p", content=text.encode(), authority=TENANT)
    outcome = build(offered, TextSet(texts={"p": offered.content}), {}, sample_of(two.state(which).snapshot(NOW), [*waiting, PodView(pod)]))
    candidates = [*theirs, *([] if outcome.version is None else [outcome.version.policy])]
    claims = [
        ActivationRequest(place=(0, policy.name), mode=Mode.ENFORCE, profiles=frozenset({"wharfinger"}), candidate=policy)
        for policy in candidates
    ]
    conflicts = [] if outcome.version is None else [choose(claims)[-1].conflict]
    return [outcome.report, [str(finding) for finding in (*outcome.findings, *outcome.now)], conflicts]


def test_a_preview_does_not_show_whether_others_have_podgroups_of_the_coscheduling_plugin() -> None:
    node = with_room(objects.Node(metadata=objects.ObjectMeta(name="n")))
    pod = objects.Pod(
        metadata=objects.ObjectMeta(name="p", namespace=OWN, labels={"scheduling.x-k8s.io/pod-group": "a"}),
        spec=objects.PodSpec(containers=(objects.Container(name="c"),), priority=0),
    )
    theirs = made(objects.CoschedulingPodGroup, "a", "bank", spec={"minMember": 2})
    own = made(objects.CoschedulingPodGroup, "b", OWN, spec={"minMember": 2})

    def answered(*groups: Any) -> str:
        two = WithObjects([node], ([], []), [], {}, (list(groups), []))
        return preview_status(two.state(0), question(None, pod))

    assert answered(theirs) == answered()
    assert json.loads(answered())["placed"] == 2
    assert "there is no PodGroup of that name" in answered(own)
