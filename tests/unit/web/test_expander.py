"""The gRPC expander: which group of nodes cluster-autoscaler is to grow."""

import asyncio
import contextlib
import subprocess

import grpc
import pytest
from prometheus_client import CollectorRegistry

from tests.cluster import objects as made
from tests.cluster.programs import free_ports
from tests.tools import needs
from tests.unit.compiler.texts import compiled
from tests.unit.web.expander_requests import request
from tests.work import calls
from wharfinger.errors import InvalidObject
from wharfinger.event_loop import SystemClock
from wharfinger.framework.chain import assemble
from wharfinger.model import objects
from wharfinger.model.reading import decode
from wharfinger.telemetry.metrics import ANSWERS, Metrics, answer_timer
from wharfinger.web import expander as served
from wharfinger.web.expander import SERVICE, Certificate, Expander, message_class
from wharfinger.what_if.rebalance.watched_cluster import WatchedCluster

SPOT = """
policy "spot"
score spot weight 20 = if (node.labels["pool"] ?? "") == "spot" then 100 else 0
"""
TAINT = [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]


def node(name="template", **fields):
    return made.node(name, **fields) | {
        "status": made.node(name, **fields)["status"] | {"conditions": [{"type": "Ready", "status": "True"}]}
    }


@pytest.fixture(params=[True, False], ids=["as bytes", "as messages"])
def as_bytes(request):  # pytest's own
    return request.param


@pytest.fixture
def ask(as_bytes):
    """Calls an expander: (the name of the group that it chose, the lines that it reported)."""

    def answer(groups, policies="", running=()):
        found = [compiled(policies)] if policies else []
        live = WatchedCluster()
        for each in running:
            live.upsert("Node", decode.convert(each, objects.Node))
        lines = []
        response = message_class("BestOptionsResponse").FromString(
            best(request(groups, as_bytes=as_bytes), live=live, chain=assemble(found), report=lines.append)
        )
        assert live.state.snapshot().n_nodes == len(running)
        return [option.nodeGroupId for option in response.options], lines

    return answer


def expander(live=None, chain=None, report=lambda _line: None, answered=lambda _result, _seconds: None):
    return Expander(chain or assemble(), live or WatchedCluster(), SystemClock(), report, answered)


def best(content, **how):
    return asyncio.run(expander(**how).best(content))


def pods(count, **fields):
    return [made.pod(f"p{number}", **fields) for number in range(count)]


def test_the_group_on_which_most_pods_fit_is_chosen(ask):
    waiting = pods(4, cpu="3")
    chosen, lines = ask([("small", 2, node(cpu="4"), waiting), ("large", 2, node(cpu="8"), waiting)])

    assert chosen == ["large"]
    assert lines[0].startswith("large: 4 of 4 pods on 2 new nodes")
    assert lines[0].endswith("chosen: more pods placed")
    assert lines[1].startswith("small: 2 of 4 pods on 2 new nodes")


def test_the_policies_choose_among_groups_that_place_all(ask):
    waiting = pods(2)
    groups = [("a", 1, node(), waiting), ("b", 1, node(labels={"pool": "spot"}), waiting)]

    chosen, lines = ask(groups, SPOT)
    assert chosen == ["b"]
    assert lines[0].endswith("chosen: the policies prefer its nodes")
    assert ask(groups)[0] == ["a"]


def test_hard_constraints_of_pods_hold(ask):
    waiting = pods(1, nodeSelector={"zone": "z1"}, tolerations=[{"key": "dedicated", "operator": "Exists"}])
    groups = [("plain", 1, node(), waiting), ("gpu", 1, node(labels={"zone": "z1"}, taints=TAINT), waiting)]
    assert ask(groups)[0] == ["gpu"]


def test_fewer_nodes_are_better(ask):
    waiting = pods(4, cpu="2")
    chosen, lines = ask([("four", 4, node(cpu="8"), waiting), ("one", 1, node(cpu="8"), waiting)])
    assert chosen == ["one"]
    assert lines[0].endswith("chosen: fewer nodes")


def test_a_group_grows_by_no_more_nodes_than_there_are_pods(ask):
    """Further nodes would be empty, and making two billion of them would never end."""
    waiting = pods(3, cpu="3")
    found = []
    assert calls(lambda: found.append(ask([("huge", 2**31 - 1, node(cpu="4"), waiting)])), limit=500_000)
    chosen, lines = found[0]
    assert chosen == ["huge"]
    assert lines[0].startswith("huge: 3 of 3 pods on 3 new nodes")


def test_a_name_of_a_group_stays_on_its_line(ask):
    _, [line] = ask([("a\n\x1b[2Jb: chosen", 1, node(), pods(1))])
    assert line.startswith("a \N{REPLACEMENT CHARACTER}[2Jb: chosen: 1 of 1 pod")


def test_a_group_without_a_node_is_left_out(ask):
    chosen, lines = ask([("unknown", 1, None, pods(1)), ("known", 1, node(), pods(1))])
    assert chosen == ["known"]
    assert lines[0] == "unknown: left out, as the request has no node of it"


@pytest.mark.parametrize("content", [b"\xff\xff\xff", b""])
def test_a_request_that_cannot_be_read_is_refused(content):
    with pytest.raises(InvalidObject, match="request"):
        best(content)


def test_an_object_that_cannot_be_read_is_named_with_its_group(as_bytes):
    pod = made.pod("train", cpu="much")
    with pytest.raises(InvalidObject, match=r"^group small, Pod train: spec\.containers\[0\]\.resources\.requests\['cpu'\]: 'much' is not"):
        best(request([("small", 1, node(), [pod])], as_bytes=as_bytes))


@pytest.mark.parametrize("seconds", [2**50, 2**62, -(2**63)])
def test_a_time_that_no_machine_knows_is_refused(seconds):
    asked = message_class("BestOptionsRequest")()
    asked.nodeMap["a"].metadata.creationTimestamp.seconds = seconds
    asked.options.add(nodeGroupId="a", nodeCount=1)
    with pytest.raises(InvalidObject, match="cannot be read"):
        best(asked.SerializeToString())


def self_signed(folder):
    """A certificate for 127.0.0.1."""
    chain, key = folder / "tls.crt", folder / "tls.key"
    subject = ["-subj", "/CN=expander", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(
        [needs("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", chain, "-days", "1", *subject],
        check=True,
        capture_output=True,
    )
    return Certificate(chain=chain.read_bytes(), key=key.read_bytes())


@pytest.mark.parametrize("encrypted", [True, False])
def test_a_client_of_grpc_is_answered(tmp_path, encrypted):
    certificate = self_signed(tmp_path) if encrypted else None
    address = f"127.0.0.1:{free_ports(1)[0]}"

    def channel():
        if certificate is None:
            return grpc.aio.insecure_channel(address)
        return grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(certificate.chain))

    async def asked():
        metrics = Metrics(CollectorRegistry(), of_process=False)
        server = await expander(answered=answer_timer(metrics)).serve(address, certificate)
        async with contextlib.AsyncExitStack() as opened:
            opened.push_async_callback(server.stop, None)
            call = (await opened.enter_async_context(channel())).unary_unary(f"/{SERVICE}/BestOptions")
            answer = await call(request([("only", 3, node(), pods(1))], as_bytes=True))
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call(b"\xff")
            counts = [
                metrics.registry.get_sample_value("wharfinger_expander_answer_seconds_count", {"result": result}) for result in ANSWERS
            ]
            return answer, refused.value.code(), dict(zip(ANSWERS, counts, strict=True))

    answer, code, counts = asyncio.run(asked())
    assert counts == {"answered": 1, "refused": 1, "cancelled": 0, "failed": 0}
    option = message_class("BestOptionsResponse").FromString(answer).options[0]
    assert (option.nodeGroupId, option.nodeCount, code) == ("only", 3, grpc.StatusCode.INVALID_ARGUMENT)


@contextlib.asynccontextmanager
async def serving(certificate=None, **how):
    """The address of a running server."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    server = await expander(**how).serve(address, certificate)
    try:
        yield address
    finally:
        await server.stop(None)


async def asked_over(channel, content, seconds=20.0):
    """The code of the answer, None for OK."""
    async with channel:
        try:
            await channel.unary_unary(f"/{SERVICE}/BestOptions")(content, timeout=seconds)
        except grpc.aio.AioRpcError as error:
            return error.code()
    return None


@pytest.mark.parametrize("ended_by", ["deadline", "cancellation", "connection"])
def test_an_answer_for_which_nobody_waits_is_not_computed_on(monkeypatch, ended_by):
    """A client that has gone, or whose deadline has passed, ends the work within a step, and the next client is answered."""
    steps, began, ended, results = [], asyncio.Event(), asyncio.Event(), []
    ranked = served.ranked_groups

    def endless(_chain, _state, _groups):
        monkeypatch.setattr(served, "ranked_groups", ranked)
        began.set()
        while True:
            steps.append(None)
            yield

    async def run():
        monkeypatch.setattr(served, "ranked_groups", endless)
        content = request([("only", 1, node(), pods(1))], as_bytes=True)
        live = WatchedCluster()
        async with serving(live=live, answered=lambda result, _seconds: (results.append(result), ended.set())) as address:
            channel = grpc.aio.insecure_channel(address)
            call = channel.unary_unary(f"/{SERVICE}/BestOptions")(content, timeout=0.5 if ended_by == "deadline" else None)
            waiting = asyncio.ensure_future(call.code())
            await began.wait()
            live.upsert("Node", decode.convert(node("late"), objects.Node))
            assert not live.state.snapshot().n_nodes  # it waits for the end of the answer
            if ended_by == "cancellation":
                call.cancel()
            elif ended_by == "connection":
                await channel.close()
            await waiting
            await channel.close()
            await ended.wait()
            done = len(steps)
            assert await asked_over(grpc.aio.insecure_channel(address), content) is None
            assert live.state.snapshot().n_nodes == 1
            assert len(steps) == done

    asyncio.run(run())
    assert results == ["cancelled", "answered"]


def test_a_client_that_cannot_be_sure_of_the_server_is_not_answered_and_the_server_goes_on(tmp_path):
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    certificate, strange = self_signed(own), self_signed(other)
    content = request([("only", 1, node(), pods(1))], as_bytes=True)

    async def run():
        async with serving(certificate) as address, serving() as plain:
            trusting = grpc.ssl_channel_credentials(certificate.chain)
            named = grpc.ssl_channel_credentials(certificate.chain), [("grpc.ssl_target_name_override", "elsewhere")]
            return [
                await asked_over(grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(strange.chain)), content, 3.0),
                await asked_over(grpc.aio.secure_channel(address, *named), content, 3.0),
                await asked_over(grpc.aio.insecure_channel(address), content, 3.0),
                await asked_over(grpc.aio.secure_channel(plain, trusting), content, 3.0),
                await asked_over(grpc.aio.secure_channel(address, trusting), content),
                await asked_over(grpc.aio.insecure_channel(plain), content),
            ]

    *refused, encrypted, plain = asyncio.run(run())
    assert refused == [grpc.StatusCode.UNAVAILABLE] * 4
    assert encrypted is plain is None


def test_more_calls_than_are_kept_at_a_time_are_refused_at_once(monkeypatch):
    monkeypatch.setattr(served, "MAX_CALLS", 1)
    began = asyncio.Event()

    def endless(_chain, _state, _groups):
        began.set()
        while True:
            yield

    async def run():
        monkeypatch.setattr(served, "ranked_groups", endless)
        content = request([("only", 1, node(), pods(1))], as_bytes=True)
        async with serving() as address, grpc.aio.insecure_channel(address) as channel:
            first = channel.unary_unary(f"/{SERVICE}/BestOptions")(content)
            waiting = asyncio.ensure_future(first.code())
            await began.wait()
            code = await asked_over(grpc.aio.insecure_channel(address), content)
            first.cancel()
            await waiting
            return code

    assert asyncio.run(run()) is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_pod_that_is_there_twice_is_refused(ask):
    with pytest.raises(InvalidObject, match=r"^group a, Pod default/p0: it is there twice$"):
        ask([("a", 1, node(), pods(1) + pods(1))])


def test_a_pod_that_has_got_a_node_since_the_request_was_made_counts_no_more():
    live, lines = WatchedCluster(), []
    waiting = pods(2)
    live.upsert("Node", decode.convert(node("there"), objects.Node))
    live.upsert("Pod", decode.convert({**waiting[0], "spec": {**waiting[0]["spec"], "nodeName": "there"}}, objects.Pod))
    best(request([("a", 2, node(), waiting)], as_bytes=True), live=live, report=lines.append)
    assert lines[0].startswith("a: 1 of 1 pod on 0 new nodes")


def test_many_groups_and_one_group_twice_are_refused(ask):
    with pytest.raises(InvalidObject, match=r"the request cannot be read: it has 1,001 groups; at most 1,000 are compared"):
        ask([(f"g{number}", 1, node(), []) for number in range(1_001)])
    with pytest.raises(InvalidObject, match=r"it has group a 2 times"):
        ask([("a", 1, node(), pods(1)), ("a", 2, node(), pods(1)), ("b", 1, node(), pods(1))])
