"""Two replicas of `wharf run`, each behind its own proxy, so that the requests of each are known."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.cluster import objects
from tests.cluster.control_plane import ControlPlane
from tests.cluster.process import WharfProcess
from tests.cluster.proxy import Exchange, Proxy
from tests.cluster.waiting import PATIENCE, eventually

NAME = "wharfinger"
DURATION, DEADLINE, RETRY = 20.0, 15.0, 0.5  # short enough to wait for, long enough for a busy API server
BINDING = re.compile(r"/namespaces/([^/]+)/pods/([^/]+)/binding$")
OK, CREATED = 200, 201


def configuration(cluster: ControlPlane, **more: Any) -> Path:
    """The path of a configuration with a lease that is short enough to wait for."""
    election = {"leaseDuration": f"{DURATION}s", "renewDeadline": f"{DEADLINE}s", "retryPeriod": f"{RETRY}s"}
    document = {"apiVersion": "config.wharfinger.dev/v1alpha1", "kind": "WharfingerConfiguration", "leaderElection": election, **more}
    path = cluster.folder / "wharfinger.json"
    path.write_text(json.dumps(document))
    return path


class Replica(WharfProcess):
    """One of several; `proxy` is its way to the API server."""

    def __init__(self, cluster: ControlPlane, proxy: Proxy, name: str) -> None:
        super().__init__(cluster, f"--config={configuration(cluster)}", name=name, kubeconfig=proxy.kubeconfig, elect=True)
        self.proxy = proxy

    def bindings(self) -> list[Exchange]:
        """The bindings that it has requested."""
        return [exchange for exchange in tuple(self.proxy.seen) if BINDING.search(exchange.path)]

    def gave_back(self) -> bool:
        """True if its last write to the lease removed the holder."""
        written = [seen for seen in tuple(self.proxy.seen) if seen.method == "PUT" and "/leases/" in seen.path and seen.status == OK]
        return json.loads(written[-1].body)["spec"]["holderIdentity"] == ""

    def bound(self) -> Counter[str]:
        """The number of events that a pod is bound, by the pod's name."""
        return Counter(exchange.path.split("/")[-2] for exchange in self.bindings() if exchange.status == CREATED)


@contextlib.contextmanager
def two_replicas(cluster: ControlPlane) -> Iterator[tuple[Replica, Replica]]:
    """(the leader, the other one), both ready."""
    cluster.api.delete("Lease", NAME, "kube-system")
    with Proxy(cluster) as one, Proxy(cluster) as two, Replica(cluster, one, "leader") as leader:
        leader.wait_scheduling()
        with Replica(cluster, two, "standby") as standby:
            yield leader, standby


@contextlib.contextmanager
def arriving(cluster: ControlPlane, n: int, seconds: float = 0.0) -> Iterator[None]:
    """While the context lasts n small pods are created, spread over that many seconds; all of them are there when it is left."""

    def made() -> Iterator[dict[str, Any]]:
        for i in range(n):
            yield objects.pod(f"pod-{i:04d}", scheduler=NAME, cpu="10m", memory="16Mi")
            time.sleep(seconds / n)

    thread = threading.Thread(target=cluster.api.create_many, args=(made(),), daemon=True)
    thread.start()
    yield
    thread.join(PATIENCE)
    assert not thread.is_alive(), "creating pods takes too long"


def wait_for_bindings(replica: Replica, n: int) -> None:
    """Returns when the replica has bound n pods or more."""
    eventually(lambda: len(replica.bindings()) >= n, every=0.005)
