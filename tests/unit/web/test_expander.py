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
from wharfinger.framework.chain import assemble
from wharfinger.model import objects
from wharfinger.model.reading import decode
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.telemetry.metrics import ANSWERS, Metrics, answer_timer
from wharfinger.web.expander import SERVICE, Certificate, Expander, message_class

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
        state = ClusterState(0.0)
        for each in running:
            state.add_node(decode.convert(each, objects.Node))
        lines = []
        response = message_class("BestOptionsResponse").FromString(
            Expander(assemble(found), state, lines.append).best(request(groups, as_bytes=as_bytes))
        )
        assert state.snapshot().n_nodes == len(running)
        return [option.nodeGroupId for option in response.options], lines

    return answer


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


def test_a_group_without_a_node_is_left_out(ask):
    chosen, lines = ask([("unknown", 1, None, pods(1)), ("known", 1, node(), pods(1))])
    assert chosen == ["known"]
    assert lines[0] == "unknown: left out, as the request has no node of it"


@pytest.mark.parametrize("content", [b"\xff\xff\xff", b""])
def test_a_request_that_cannot_be_read_is_refused(content):
    with pytest.raises(InvalidObject, match="request"):
        Expander(assemble(), ClusterState(0.0), lambda _line: None).best(content)


def test_an_object_that_cannot_be_read_is_named_with_its_group(as_bytes):
    pod = made.pod("train", cpu="much")
    with pytest.raises(InvalidObject, match=r"^group small, Pod train: spec\.containers\[0\]\.resources\.requests\['cpu'\]: 'much' is not"):
        Expander(assemble(), ClusterState(0.0), [].append).best(request([("small", 1, node(), [pod])], as_bytes=as_bytes))


@pytest.mark.parametrize("seconds", [2**50, 2**62, -(2**63)])
def test_a_time_that_no_machine_knows_is_refused(seconds):
    asked = message_class("BestOptionsRequest")()
    asked.nodeMap["a"].metadata.creationTimestamp.seconds = seconds
    asked.options.add(nodeGroupId="a", nodeCount=1)
    with pytest.raises(InvalidObject, match="cannot be read"):
        Expander(assemble(), ClusterState(0.0), [].append).best(asked.SerializeToString())


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
        server = await Expander(assemble(), ClusterState(0.0), lambda _line: None, answer_timer(metrics)).serve(address, certificate)
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
    assert counts == {"answered": 1, "refused": 1, "failed": 0}
    option = message_class("BestOptionsResponse").FromString(answer).options[0]
    assert (option.nodeGroupId, option.nodeCount, code) == ("only", 3, grpc.StatusCode.INVALID_ARGUMENT)
