"""`/evaluate` answers from a copy: the result of a dry run on the same cluster, without changes of the scheduler."""

import asyncio

import msgspec
import pytest
from msgspec.structs import replace

from tests.unit.scheduler.running import Running, node, pod
from wharfinger.errors import InvalidObject, UnknownObject, UsageError
from wharfinger.framework.chain import assemble
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.what_if import live_evaluation
from wharfinger.what_if.drain.plan import drain
from wharfinger.what_if.live_evaluation import EvaluationRequest, LiveEvaluations, NewNodes, read_request

HOST = "kubernetes.io/hostname"


def manifest(name, cpu="1", kind="Pod", replicas=1, **spec):
    spec = {"containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}], **spec}
    if kind == "Pod":
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    whole = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": whole}


def owned(found):
    """The pod with a controller that would create it again."""
    owner = objects.OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web", controller=True)
    return replace(found, metadata=replace(found.metadata, owner_references=(owner,)))


def running_on(*objects):
    running = Running()
    for obj in objects:
        running.cluster.put(obj)
    running.cluster.connect(running.scheduler.sink)
    return running


def answers(running, *requests, between=lambda: None):
    """The responses to a sequence of requests; `between` is called before each but the first."""

    async def ask():
        scheduling = asyncio.ensure_future(running.scheduler.run())
        await running.calm()
        evaluations, found = LiveEvaluations(running.clock), []
        try:
            for number, request in enumerate(requests):
                if number:
                    between()
                    await running.calm()
                found.append(await evaluations.of(running.scheduler, request))
            return found
        finally:
            running.scheduler.stop()
            await running.calm()
            scheduling.cancel()

    return asyncio.run(ask())


def answer(running, **request):
    return answers(running, EvaluationRequest(**request))[0]


def places(found):
    return {each.pod: each.node for each in found.pods}


def test_pods_and_workloads_get_their_nodes_or_the_reason_why_not():
    running = running_on(node("a", cpu="4"))
    found = answer(running, objects=[manifest("one", cpu="3"), manifest("web", kind="Deployment", replicas=3)])

    assert (found.placed, found.unschedulable) == (2, 2)
    assert places(found) == {"default/one": "a", "default/web-0": "a", "default/web-1": None, "default/web-2": None}
    last = found.pods[-1]
    assert last.reasons == {"Insufficient cpu": 1}
    assert last.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert found.scheduler_name == "wharfinger"


def test_more_nodes_are_supposed_for_the_answer_only():
    running = running_on(node("a", cpu="1"))
    before = running.scheduler.state.revision
    asked = EvaluationRequest(objects=[manifest("big", cpu="1"), manifest("other", cpu="1")], nodes=[NewNodes(like="a", count=1)])
    first, again = answers(running, asked, asked)

    assert set(places(first).values()) == {"a", "a-new-1"}
    assert [(new.name, new.like) for new in first.new_nodes] == [("a-new-1", "a")]
    assert places(again) == places(first)
    assert running.scheduler.state.snapshot().names == ["a"]
    assert before <= running.scheduler.state.revision
    assert not running.cluster.bindings


def test_drained_nodes_get_nothing_and_their_pods_are_placed_too():
    running = running_on(node("a", cpu="4"), node("b", cpu="4"))
    running.cluster.put(owned(pod("web", nodeName="a")))
    found = answer(running, objects=[manifest("one", cpu="3")], drain=["a"])

    assert places(found) == {"default/web": "b", "default/one": "b"}
    assert {each.pod: each.source for each in found.pods} == {"default/web": "a", "default/one": None}


def test_a_drain_is_that_of_the_verb_and_leaves_nothing_behind():
    """With two budgets, of which one allows nothing: answered once as the command prints it, and once more the same."""
    budgets = [
        objects.PodDisruptionBudget(
            metadata=objects.ObjectMeta(name=app, namespace="default"),
            spec=objects.PodDisruptionBudgetSpec(selector=objects.LabelSelector(match_labels={"app": app})),
            status=objects.PodDisruptionBudgetStatus(disruptions_allowed=allowed, current_healthy=2, desired_healthy=2 - allowed),
        )
        for app, allowed in (("web", 1), ("db", 0))
    ]
    pods = [owned(pod(f"{app}-{number}", nodeName="a", labels={"app": app})) for app in ("web", "db") for number in range(2)]
    everything = [node("a", cpu="9"), node("b", cpu="9"), pod("bare", nodeName="a"), *pods, *budgets]
    state = ClusterState()
    for obj in everything:
        state.put(obj)
    expected = drain(assemble(), state, ["a"], waiting=[PodView(pod("one", cpu="1"))])
    asked = EvaluationRequest(objects=[manifest("one", cpu="1")], drain=["a"])
    first, again, forced = answers(running_on(*everything), asked, asked, EvaluationRequest(drain=["a"], force=True))

    assert {(each.pod, each.node, each.step, each.outcome) for each in first.pods} == {
        (each.pod, each.node, each.step, each.outcome.value) for each in expected.pods
    }
    assert {each.pod: each.outcome for each in first.pods} == {
        "default/one": "placed",
        "default/web-0": "placed",
        "default/web-1": "placed",
        "default/db-0": "forbidden",
        "default/db-1": "forbidden",
        "default/bare": "refused",
    }
    assert (first.steps, [(use.budget, use.allowed_now, use.forbidden) for use in first.budgets]) == (
        2,
        [("default/db", 0, 2), ("default/web", 1, 0)],
    )
    assert again.pods == first.pods
    assert {each.pod: each.outcome for each in forced.pods}["default/bare"] == "gone"


def test_each_answer_is_for_the_cluster_as_it_is_then():
    running = running_on(node("a", cpu="1"))
    asked = EvaluationRequest(objects=[manifest("one", cpu="2")])
    found = answers(running, asked, asked, between=lambda: running.cluster.put(node("b", cpu="2")))
    assert [places(each)["default/one"] for each in found] == [None, "b"]
    assert found[0].state_revision < found[1].state_revision


def test_victims_of_preemption_are_named():
    running = running_on(node("a", cpu="1"), pod("low", nodeName="a", priority=0))
    found = answer(running, objects=[manifest("high", priority=10)])
    assert [(each.node, each.victims) for each in found.pods] == [("a", ["default/low"])]


def test_a_daemon_set_has_a_pod_for_each_node():
    found = answer(running_on(node("a"), node("b")), objects=[manifest("agent", kind="DaemonSet")])
    assert places(found) == {"default/agent-a": "a", "default/agent-b": "b"}


def test_what_was_understood_otherwise_is_remarked():
    own = {"schedulerName": "wharfinger"}
    asked = [
        manifest("one", schedulerName="other"),
        manifest("two", "1", **own),
        manifest("two", "2", **own),
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}},
    ]
    warnings = answer(running_on(node("a")), objects=asked).warnings
    assert "Pod default/two" in warnings[0]
    assert warnings[1:] == [
        "1 Node left out: no pods are created from this kind",
        "pod default/one: another scheduler's; the answer is for wharfinger",
    ]
    assert not answer(running_on(node("a")), objects=asked[:1], scheduler_name="wharfinger").warnings


def test_misspelt_fields_are_remarked():
    found = answer(running_on(node("a")), objects=[manifest("one", nodeSelectr={})])
    assert any("nodeSelectr" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ("request_", "error", "sentence"),
    [
        ({"drain": ["nodea"]}, UnknownObject, "there is no node nodea; did you mean node-a?"),
        ({"nodes": [NewNodes(like="nodea")]}, UnknownObject, "there is no node nodea"),
        ({"nodes": [NewNodes(like="node-a", count=400)] * 2}, UsageError, "at most 500 nodes"),
        ({}, UsageError, "the request asks about no pods: give pods or workloads in `objects`"),
        ({"nodes": [NewNodes(like="node-a", count=2)]}, UsageError, "the request asks about no pods: give pods or workloads in `objects`"),
        ({"force": True}, UsageError, "`force` is about the pods of drained nodes, and `drain` names none"),
        ({"objects": [manifest("one")], "delete_empty_dir_data": True}, UsageError, "`deleteEmptyDirData` is about the pods of drained"),
        ({"scheduler_name": "other"}, UnknownObject, "there is no profile other; there are wharfinger"),
        ({"objects": [manifest("web", kind="Deployment", replicas=1001)]}, InvalidObject, "more than 1,000 pods"),
        ({"objects": [manifest("one", cpu="much")]}, InvalidObject, "much"),
        ({"objects": [{**manifest("there"), "metadata": {"name": "there", "uid": "uid-there"}}]}, UsageError, "there already, on a node"),
    ],
)
def test_requests_that_cannot_be_answered_are_refused(request_, error, sentence):
    with pytest.raises(error, match=sentence):
        answer(running_on(node("node-a"), pod("there", nodeName="node-a")), **request_)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"{", "the body is not JSON: it ends too early"),
        (b'{"pods": []}', "the body is not a request: object contains unknown field `pods`"),
        (b'{"nodes": [{"like": "a", "count": 0}]}', r"the body is not a request: nodes\[0\].count: expected a whole number >= 1"),
        (b'{"objects": [' + b"{}," * 1000 + b"{}]}", "objects: expected a list of length <= 1000"),
        (b'{"schedulerName": "' + b"x" * 254 + b'"}', "schedulerName: expected text of length <= 253"),
        (b'{"drain": ["' + b"x" * 254 + b'"]}', r"drain\[0\]: expected text of length <= 253"),
        (b'{"nodes": [{"like": "' + b"x" * 254 + b'"}]}', r"nodes\[0\].like: expected text of length <= 253"),
    ],
)
def test_a_body_that_is_no_request_is_refused(body, sentence):
    with pytest.raises(UsageError, match=sentence):
        read_request(body)


def test_answers_are_as_the_schema_says():
    found = answer(running_on(node("a", cpu="1")), objects=[manifest("one"), manifest("two")], nodes=[NewNodes(like="a")])
    schema = live_evaluation.schema()
    definitions = schema["$defs"]

    def checked(value, wanted):
        """Every field is described, and those that are required are there."""
        while "$ref" in wanted:
            wanted = definitions[wanted["$ref"].removeprefix("#/$defs/")]
        if isinstance(value, dict) and "properties" in wanted:
            assert set(wanted["required"]) <= value.keys() <= wanted["properties"].keys()
            for name, member in value.items():
                checked(member, wanted["properties"][name])
        elif isinstance(value, list):
            for member in value:
                checked(member, wanted["items"])

    checked(msgspec.to_builtins(found), schema["answer"])
    assert definitions["EvaluationRequest"]["additionalProperties"] is False
    described = [field for each in definitions.values() if each["title"] != "NewNode" for field in each["properties"].values()]
    assert all(field.get("description") for field in described)


def gang_manifests(name, replicas, cpu="1"):
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": replicas}},
            "schedulingConstraints": {"topology": [{"key": "kubernetes.io/hostname"}]},
        },
    }
    return [group, manifest(name, cpu, "Deployment", replicas, schedulingGroup={"podGroupName": name})]


def test_groups_are_placed_whole():
    running = running_on(node("a", "4", labels={HOST: "a"}.items()), node("b", "6", labels={HOST: "b"}.items()))
    fits, large = answers(
        running, EvaluationRequest(objects=gang_manifests("gang", 5)), EvaluationRequest(objects=gang_manifests("big", 7))
    )
    assert ([pod.node for pod in fits.pods], fits.placed) == (["b"] * 5, 5)
    assert [(group.group, group.state, group.domains) for group in fits.groups] == [("default/gang", "placed", {HOST: "b"})]
    assert (large.placed, large.unschedulable) == (0, 7)
    [group] = large.groups
    assert (group.state, [(fit.value, fit.fits, fit.wanted) for fit in group.nearest]) == ("waits for room", [("b", 6, 7), ("a", 4, 7)])
    assert {pod.message for pod in large.pods} == {f"group default/big: {group.message}"}
