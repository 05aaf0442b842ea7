"""`wharf run` as a process, on a real API server."""

from tests.cluster import objects
from tests.cluster.process import WharfProcess
from tests.cluster.soundness import assert_sound
from tests.cluster.waiting import eventually

NAME = "wharfinger"


def test_a_deployment_that_names_it_runs(control_plane, nodes):
    nodes(10)

    with WharfProcess(control_plane) as wharf:
        control_plane.api.create(objects.deployment("web", 100, scheduler=NAME))
        eventually(lambda: sum(pod["status"]["phase"] == "Running" for pod in control_plane.api.list("Pod")) == 100)
        assert_sound(control_plane)

        assert wharf.terminate() == 0
