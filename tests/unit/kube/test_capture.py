"""A capture has the objects of the server at one moment, without secrets."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.unit.kube.conftest import RealClock, connected
from tests.unit.kube.scripted_server import Answer, ScriptedServer, refused
from wharfinger.errors import UsageError
from wharfinger.kube.api_errors import ApiError
from wharfinger.kube.read_client import ReadClient
from wharfinger.kube.wire import COSCHEDULING_PODGROUPS, PODGROUPS, SCHEDULING, captured
from wharfinger.model import objects
from wharfinger.model.reading import files

PODS, NODES, CLASSES = "/api/v1/pods", "/api/v1/nodes", "/apis/storage.k8s.io/v1/storageclasses"
EXACT = {"resourceVersion": "7", "resourceVersionMatch": "Exact"}


@pytest.fixture(params=["connection", "reads"])
def run(request, tmp_path):
    """Runs a scenario against a scripted server, through either client."""

    def start(scenario, **limits):
        async def main():
            async with asyncio.timeout(15), ScriptedServer().serving() as server, connected(tmp_path, server, **limits) as connection:
                if request.param == "connection":
                    await scenario(server, connection)
                    return
                async with ReadClient(connection.credentials, connection.limits.request_timeout, user_agent="test") as reads:
                    await scenario(server, reads)

        asyncio.run(main())

    return start


def listed(*items, version="7", token=None):
    metadata = {"resourceVersion": version} | ({"continue": token} if token else {})
    return Answer(body={"metadata": metadata, "items": list(items)})


def named(name, **more):
    return {"metadata": {"name": name, "namespace": "shop", "managedFields": [{"manager": "kubectl"}]}, **more}


def serve(server, **by_path):
    """Empty lists of everything that is not given."""
    for resource in SCHEDULING:
        steps = by_path.get(resource.plural, [listed()])
        server.on("GET", resource.path, *steps)


async def content(connection):
    found = await captured(connection, RealClock())
    return found, files.of_capture((obj for obj, _ in found.objects), found.word, "the cluster")


def test_everything_is_asked_for_as_it_was_when_the_first_was(run):
    async def scenario(server, connection):
        serve(server, nodes=[listed(named("a"))], pods=[listed(named("web"), version="9")], storageclasses=[listed(named("fast"))])
        found, read = await content(connection)
        assert dict(found.counts) == {resource.name: int(resource.name in {"Node", "Pod", "StorageClass"}) for resource in SCHEDULING}
        assert [len(read.nodes), len(read.pods), len(read)] == [1, 1, 3]
        assert server.requests("GET", NODES)[0].query == {"limit": "500"}
        assert server.requests("GET", CLASSES)[0].query == {"limit": "500", **EXACT}
        selection = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
        assert server.requests("GET", PODS)[0].query == {"limit": "500", **EXACT, **selection}
        assert len(server.seen) == len(SCHEDULING)

    run(scenario)


def test_pages_after_the_first_name_no_version(run):
    async def scenario(server, connection):
        serve(server, pods=[listed(named("one"), token="more"), listed(named("two"))])
        _, read = await content(connection)
        assert [pod.metadata.name for pod in read.pods] == ["one", "two"]
        more = server.requests("GET", PODS)[1].query
        assert more["continue"] == "more"
        assert not EXACT.keys() & more.keys()

    run(scenario)


@pytest.mark.parametrize("refusal", [refused(410, "Expired"), refused(400, "BadRequest"), refused(504, "Timeout")])
def test_a_server_that_does_not_have_that_version_is_asked_for_what_is_there(run, refusal):
    async def scenario(server, connection):
        serve(server, pods=[refusal, listed(named("web"))])
        _, read = await content(connection)
        assert len(read.pods) == 1
        assert not EXACT.keys() & server.requests("GET", PODS)[1].query.keys()

    run(scenario)


def test_a_list_that_expires_between_pages_is_read_anew_and_whole(run):
    async def scenario(server, connection):
        page = listed(named("old"), token="more")
        serve(server, pods=[page, refused(410, "Expired"), page, refused(410, "Expired"), listed(named("new"))])
        _, read = await content(connection)
        assert [pod.metadata.name for pod in read.pods] == ["new"]
        assert "limit" not in server.requests("GET", PODS)[-1].query

    run(scenario)


def test_a_busy_server_is_asked_again(run):
    async def scenario(server, connection):
        serve(server, nodes=[refused(429, "TooManyRequests", Retry_After="1"), refused(500), listed(named("a"))])
        _, read = await content(connection)
        assert len(read.nodes) == 1

    run(scenario)


@pytest.mark.parametrize(
    ("refusal", "sentence"),
    [
        (
            refused(403, "Forbidden", 'pods is forbidden: User "eve" cannot list resource "pods"'),
            '"eve" cannot list resource "pods"; grant a ClusterRole with the rule {apiGroups: [""], resources: [pods], verbs: [list]}',
        ),
        (refused(401, "Unauthorized"), "refuses the credentials: Unauthorized"),
        (refused(500, "InternalError", "etcd is tired"), "cannot read pods from http://127.0.0.1"),
        (Answer(raw=b"<html>"), "an answer that is no list"),
        (Answer(dropped=True), "GET /api/v1/pods"),
    ],
)
def test_without_pods_there_is_no_capture(run, refusal, sentence):
    async def scenario(server, connection):
        serve(server, pods=[refusal])
        with pytest.raises(UsageError) as reported:
            await content(connection)
        assert sentence in str(reported.value)
        assert reported.value.exit_code == 2

    run(scenario)


def test_another_kind_that_may_not_be_read_is_named_in_the_file(run):
    async def scenario(server, connection):
        serve(server, storageclasses=[refused(403, "Forbidden", "no")], csinodes=[refused(404, "NotFound")])
        found, read = await content(connection)
        rule = 'grant a ClusterRole with the rule {apiGroups: ["storage.k8s.io"], resources: [storageclasses], verbs: [list]}'
        assert found.word.not_read == (
            f"storageclasses are missing: no; {rule}",
            "csinodes are missing: the API server has no csinodes of storage.k8s.io/v1",
        )
        assert read.skipped == tuple(f"the cluster: {sentence}" for sentence in found.word.not_read)

    run(scenario)


def test_an_object_that_cannot_be_read_is_named_and_left_out(run):
    async def scenario(server, connection):
        serve(server, pods=[listed(named("good"), named("bad", spec={"nodeName": 7}))])
        found, read = await content(connection)
        assert [pod.metadata.name for pod in read.pods] == ["good"]
        assert found.word.not_read == ("left out: Pod shop/bad: spec.nodeName: expected text, got a whole number",)

    run(scenario)


def test_secrets_of_a_pod_stay_out_of_the_file(run):
    async def scenario(server, connection):
        container = {
            "name": "main",
            "image": "shop:1",
            "command": ["run", "--password=hush-1"],
            "env": [{"name": "TOKEN", "value": "hush-2"}],
            "resources": {"requests": {"cpu": "1"}},
            "livenessProbe": {"httpGet": {"httpHeaders": [{"name": "Authorization", "value": "hush-3"}]}},
        }
        pod = named("web", spec={"containers": [container], "initContainers": [container]})
        pod["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(pod), "team": "shop"}
        serve(server, pods=[listed(pod)])
        found, read = await content(connection)
        assert b"hush" not in b"".join(found.items)
        assert b"managedFields" not in b"".join(found.items)
        assert read.pods[0].metadata.annotations == {"team": "shop"}
        assert read.pods[0].spec.containers[0].resources.requests == {"cpu": "1"}

    run(scenario)


def test_no_kind_is_asked_for_that_holds_secrets():
    assert not {resource.plural for resource in SCHEDULING} & {"secrets", "configmaps", "serviceaccounts"}


def test_podgroups_are_read_at_the_version_that_the_server_has(run):
    group = {"metadata": {"name": "train", "namespace": "shop"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 4}}}}

    async def scenario(server, connection):
        serve(server)
        for path in (PODGROUPS.path, PODGROUPS.older[0], COSCHEDULING_PODGROUPS.path):
            server.on("GET", path, refused(404, "NotFound"))
        server.on("GET", PODGROUPS.older[1], listed(group))
        found, read = await content(connection)
        assert found.word.not_read == ()
        assert b'"apiVersion":"scheduling.k8s.io/v1alpha2","kind":"PodGroup"' in b"".join(found.items)
        (podgroup,) = read.by_kind[objects.PodGroup]
        assert podgroup.spec.scheduling_policy.gang.min_count == 4

    run(scenario)


def test_a_redirect_is_named(tmp_path):
    async def main():
        async with ScriptedServer().serving() as server, connected(tmp_path, server) as connection:
            server.on("GET", NODES, Answer(status=302))
            async with ReadClient(connection.credentials, 5.0, user_agent="test") as reads:
                with pytest.raises(ApiError, match=r"/api/v1/nodes: a redirect .HTTP status 302.; the kubeconfig"):
                    await reads.request("GET", NODES)

    asyncio.run(main())
