"""The live page of `wharf run`."""

import http.client

from tests.cluster.process import WharfProcess
from tests.cluster.waiting import PATIENCE, eventually


def watched(wharf, until):
    """The messages to a watching client, until one contains a text."""
    connection = http.client.HTTPConnection("127.0.0.1", wharf.port, timeout=PATIENCE)
    connection.request("GET", "/ui/events")
    answer = connection.getresponse()
    assert answer.headers["content-type"].startswith("text/event-stream")
    sent = b""
    while until not in sent:
        more = answer.read1(1 << 16)
        assert more, sent
        sent += more
    return connection, sent.decode()


def test_the_page_shows_the_cluster_and_does_not_delay_the_end(control_plane, nodes, pods):
    nodes(5)
    with WharfProcess(control_plane) as wharf:
        pods(3, scheduler="wharfinger")
        pods(1, prefix="huge", cpu="900", scheduler="wharfinger")
        eventually(
            lambda: all(pod["spec"].get("nodeName") for pod in control_plane.api.list("Pod") if "huge" not in pod["metadata"]["name"])
        )

        status, page = wharf.get("/ui")
        connection, sent = watched(wharf, b"Insufficient cpu")

        assert status == 200
        assert '<script type="module" src="ui/static/app.js"></script>' in page
        assert '"node-0004"' in sent
        assert "default/huge-0000" in sent
        assert wharf.terminate() == 0  # of ten seconds of grace
        connection.close()
