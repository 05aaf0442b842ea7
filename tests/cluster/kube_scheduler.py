"""The real kube-scheduler, as the reference for correct results."""

from __future__ import annotations

import json

from tests.cluster.control_plane import GROUP_GATES, ControlPlane
from tests.cluster.programs import Program, free_ports
from tests.testbed import build


def start_kube_scheduler(cluster: ControlPlane, *, groups: bool = False) -> Program:
    """kube-scheduler with its default profile and no limit on requests that would be felt; ends with the test.

    With `groups` it places PodGroups as a whole, otherwise it does not know them.
    """
    config = cluster.folder / "kube-scheduler.json"
    settings = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(cluster.kubeconfig), "qps": 5000, "burst": 5000},
    }
    config.write_text(json.dumps(settings))
    flags: tuple[str, ...] = (f"--config={config}", "--bind-address=127.0.0.1", f"--secure-port={free_ports(1)[0]}")
    flags += (GROUP_GATES,) if groups else ()
    return cluster.run("kube-scheduler", build.program("kube-scheduler"), *flags)
