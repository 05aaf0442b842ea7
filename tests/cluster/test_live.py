"""The scheduler on a real API server, side by side with kube-scheduler."""

from tests.cluster import objects
from tests.cluster.kube_scheduler import start_kube_scheduler
from tests.cluster.live import NAME, LiveScheduler
from tests.cluster.soundness import assert_sound
from tests.cluster.waiting import eventually


def test_a_deployment_that_names_it_runs(control_plane, nodes):
    nodes(10)

    with LiveScheduler(control_plane.kubeconfig) as scheduler:
        control_plane.api.create(objects.deployment("web", 100, scheduler=NAME))
        eventually(lambda: sum(pod["status"]["phase"] == "Running" for pod in control_plane.api.list("Pod")) == 100)
        assert_sound(control_plane, assumed=scheduler.assumed)


def test_two_schedulers_fill_one_cluster_that_has_room(control_plane, nodes, pods):
    nodes(20, cpu="16")
    start_kube_scheduler(control_plane)

    with LiveScheduler(control_plane.kubeconfig) as scheduler:
        pods(200, prefix="theirs", cpu="500m")
        pods(200, prefix="ours", scheduler=NAME, cpu="500m")
        eventually(lambda: all("nodeName" in pod["spec"] for pod in control_plane.api.list("Pod")))
        assert_sound(control_plane, assumed=scheduler.assumed)
