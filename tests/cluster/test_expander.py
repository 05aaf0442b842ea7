"""`wharf expander` with a real API server, and objects as the API server writes them in protocol buffers."""

import os
import signal
import sys
import urllib.request
from pathlib import Path

import grpc

from tests.cluster import objects as made
from tests.cluster.programs import free_ports
from tests.cluster.waiting import eventually
from tests.unit.web.expander_requests import request
from wharfinger.model import objects
from wharfinger.model.reading import decode
from wharfinger.web.expander import SERVICE, manifest, message_class

POD = {
    "labels": {"app": "web"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "nodeSelector": {"zone": "z1"},
    "volumes": [{"name": "scratch", "emptyDir": {}}],
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}
    ],
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    },
}


def test_objects_in_protocol_buffers_are_read_as_those_in_json(control_plane, nodes, pods):
    (node,) = nodes(1, taints=[{"key": "dedicated", "value": "x", "effect": "NoSchedule"}])
    (pod,) = pods(1, scheduler="absent-scheduler", **POD)
    for kind, name, of in (("Node", node, objects.Node), ("Pod", pod, objects.Pod)):

        def same(kind=kind, name=name, of=of):
            before = control_plane.api.get(kind, name)
            read = message_class(kind).FromString(control_plane.api.protobuf(kind, name))
            assert control_plane.api.get(kind, name) == before  # else it has changed between the two
            return decode.convert(manifest(read), of) == decode.convert(before, of)

        assert eventually(same)


def test_the_expander_answers_about_the_present_cluster(control_plane, nodes, pods, tmp_path):
    nodes(1, cpu="1", labels={"zone": "z1"})
    names = pods(3, scheduler="absent-scheduler", **POD)
    (tmp_path / "big.policy").write_text('policy "big"\nscore size weight 20 = if (node.labels["size"] ?? "") == "big" then 100 else 0\n')
    address, observed = (f"127.0.0.1:{port}" for port in free_ports(2))
    wharf = Path(sys.executable).with_name("wharf")
    flags = [
        f"--kubeconfig={control_plane.kubeconfig}",
        f"--policy={tmp_path / 'big.policy'}",
        f"--listen={address}",
        f"--metrics={observed}",
    ]
    program = control_plane.run("expander", wharf, "expander", *flags)
    eventually(lambda: "answers cluster-autoscaler" in program.log.read_text())

    waiting = [control_plane.api.protobuf("Pod", name) for name in names]
    groups = [
        ("elsewhere", 3, made.node("a", labels={"zone": "z2"}), waiting),
        ("few", 1, made.node("b", labels={"zone": "z1"}), waiting),
        ("plain", 3, made.node("c", labels={"zone": "z1"}), waiting),
        ("big", 3, made.node("d", labels={"zone": "z1", "size": "big"}), waiting),
    ]
    with grpc.insecure_channel(address) as channel:
        answer = channel.unary_unary(f"/{SERVICE}/BestOptions")(request(groups, as_bytes=True), timeout=30)
    (best,) = message_class("BestOptionsResponse").FromString(answer).options
    log = program.log.read_text()
    assert best.nodeGroupId == "big", log
    assert "big: 3 of 3 pods on 3 new nodes" in log
    assert "few: 2 of 3 pods on 1 new node," in log
    reported = urllib.request.urlopen(f"http://{observed}/metrics", timeout=10).read().decode()
    assert 'wharfinger_expander_answer_seconds_count{result="answered"} 1.0' in reported
    assert urllib.request.urlopen(f"http://{observed}/readyz", timeout=10).status == 200
    os.kill(program.pid, signal.SIGTERM)
    assert program.wait(30) == 0
