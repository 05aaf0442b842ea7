"""A placed pod as it is created again."""

from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.what_if.leaving_pods import recreated


def test_a_recreated_pod_is_pending_and_otherwise_the_same():
    pod = PodView(
        decode.convert(
            {
                "metadata": {
                    "name": "p",
                    "namespace": "shop",
                    "uid": "u",
                    "labels": {"app": "p"},
                    "deletionTimestamp": "2026-01-01T00:00:00Z",
                },
                "spec": {"nodeName": "n", "priority": 7, "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
                "status": {"phase": "Running", "nominatedNodeName": "m"},
            },
            objects.Pod,
        )
    )

    again = recreated(pod)

    assert again.node_name == ""
    assert not again.terminating
    assert again.object.status == objects.PodStatus()
    assert (again.key, again.uid, again.priority, again.labels, again.requests) == (pod.key, "u", 7, {"app": "p"}, pod.requests)
