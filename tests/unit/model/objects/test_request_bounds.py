import msgspec

from wharfinger.model import objects
from wharfinger.model.objects import requests
from wharfinger.model.state.cluster_state import ClusterState


def test_sums_of_absurd_requests_do_not_overflow():
    state = ClusterState()
    state.add_node(msgspec.convert({"metadata": {"name": "a"}, "status": {"allocatable": {"memory": "1Gi"}}}, objects.Node))
    container = {"name": "main", "resources": {"requests": {"memory": "9223372036854775807"}}}
    for index in range(200):
        manifest = {"metadata": {"name": f"p{index}", "uid": f"{index}"}, "spec": {"nodeName": "a", "containers": [container]}}
        state.add_pod(msgspec.convert(manifest, objects.Pod))
    assert state.snapshot().requested[1, 0] == requests.MAX_AMOUNT
    assert state.snapshot().nonzero[1, 0] == requests.MAX_AMOUNT
