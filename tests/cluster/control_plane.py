"""A real control plane for tests: etcd, the API server, the controllers that make pods, and kwok in the place of kubelets.

    with ControlPlane() as cluster:
        cluster.api.create(…); cluster.kubectl("get", "nodes"); cluster.api_server.kill(); cluster.start_api_server()

Everything listens on free ports of 127.0.0.1 and writes into one temporary folder, of which the logs are kept when something fails. The API
server can be killed and started again: it comes back at its port with its certificate and its etcd.
"""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Self

from tests.cluster.api import Api, Refused
from tests.cluster.programs import Program, free_ports
from tests.testbed import build
from tests.tools import needs
from tests.unit.web.certificates import Authority

TOKEN = "admintoken"
OTHER_TOKEN = "anothertoken"  # as good as the first
GUEST_TOKEN = "guesttoken"
"""Of user `guest`, who may do what a test grants."""
CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "disruption-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "resourceclaim-controller",  # makes claims of templates, and frees those of deleted pods
    "podgroup-protection-controller",  # takes its finalizer from PodGroups without pods
)
TOKENS = "".join(f'{token},admin,admin,"system:masters"\n' for token in (TOKEN, OTHER_TOKEN)) + f"{GUEST_TOKEN},guest,guest\n"
STAGES = ("node/fast/node-initialize", "node/heartbeat/node-heartbeat", "pod/fast/pod-ready")
ENDS_LATE = "tests.wharfinger.dev/ends-late"
"""The annotation of pods that need their whole grace period to end: one that is marked as deleted stays until a test deletes it at once."""
_DELETION = {
    "apiVersion": "kwok.x-k8s.io/v1alpha1",
    "kind": "Stage",
    "metadata": {"name": "pod-delete"},
    "spec": {
        "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
        "selector": {
            "matchExpressions": [
                {"key": ".metadata.deletionTimestamp", "operator": "Exists"},
                {"key": f'.metadata.annotations["{ENDS_LATE}"]', "operator": "DoesNotExist"},
            ]
        },
        "next": {"delete": True},
    },
}
"""kwok's stage `pod/fast/pod-delete`, for all other pods."""


GROUP_GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true"
"""What kube-apiserver and kube-scheduler 1.36 take to know PodGroups."""


class ControlPlane:
    """The programs of a cluster without a scheduler, as a context manager; with `podgroups` it serves `scheduling.k8s.io/v1alpha2`."""

    def __init__(self, *, podgroups: bool = True) -> None:
        self.podgroups = podgroups
        self.folder = Path(tempfile.mkdtemp(prefix="wharfinger-cluster-"))
        self.keep = False  # set by who sees a failure: the folder with the logs stays
        self.etcd_port, peer, self.port = free_ports(3)
        self.webhook_clients = Authority(self.folder, "webhook-clients")
        self.api = Api(self.port, TOKEN, self.certificate)
        self.kubeconfig = self.write_kubeconfig("kubeconfig", self.port)
        self.etcd = Program("etcd", self._etcd(self.etcd_port, peer), self.folder, ready=lambda: _healthy(self.etcd_port))
        self.api_server = Program("kube-apiserver", self._api_server(self.etcd_port), self.folder, ready=self._serving)
        self.controllers = Program("kube-controller-manager", self._controllers(), self.folder)
        self.kwok = Program("kwok", self._kwok(), self.folder)
        self._others: list[Program] = []

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.keep = True
            self.stop()
            raise
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        self.keep = self.keep or kind is not None
        self.stop()

    @property
    def certificate(self) -> Path:
        """The API server's own certificate, which it makes at its first start; also what clients trust."""
        return self.folder / "certs" / "apiserver.crt"

    @property
    def key(self) -> Path:
        """The private key of `certificate`."""
        return self.folder / "certs" / "apiserver.key"

    def _start(self) -> None:
        (self.folder / "tokens.csv").write_text(TOKENS)
        subprocess.run([needs("openssl"), "genrsa", "-out", self.folder / "sa.key", "2048"], check=True, capture_output=True)
        self.etcd.start()
        self.etcd.wait_ready()
        self.start_api_server()
        self.controllers.start()
        self.kwok.start()

    def start_api_server(self, within: float = 60.0) -> None:
        """Starts the API server, also after it was killed; returns when it is ready."""
        self.api_server.start()
        self.api_server.wait_ready(within)

    def run(self, name: str, *command: object, ready: Any = None, env: dict[str, str] | None = None) -> Program:
        """One more program, started; it ends with the control plane if not before."""
        program = Program(name, command, self.folder, ready=ready, env=env)
        self._others.append(program)
        program.start()
        return program

    @property
    def programs(self) -> tuple[Program, ...]:
        """All programs, those others depend on last."""
        return (*reversed(self._others), self.kwok, self.controllers, self.api_server, self.etcd)

    def end_others(self) -> None:
        """Ends what `run` started."""
        while self._others:
            self._others.pop().kill()

    def stop(self) -> None:
        """Ends all programs, clients first, and removes the folder; when it is to be kept only etcd's part of it, hundreds of megabytes."""
        self.api.close()
        for program in self.programs:
            program.kill()  # nothing of theirs outlives them, so there is nothing to wait for
        shutil.rmtree(self.folder if not self.keep else self.folder / "etcd", ignore_errors=True)

    def compact(self) -> int:
        """The revision up to which etcd has forgotten its history now: the present one, so that no older version can be watched from."""
        revision = int(_ask_etcd(self.etcd_port, "/v3/kv/range", {"key": "AA=="})["header"]["revision"])
        _ask_etcd(self.etcd_port, "/v3/kv/compaction", {"revision": revision, "physical": True})
        return revision

    def kubectl(self, *arguments: object, content: str | None = None) -> str:
        """The output of the real kubectl; raises AssertionError with its message when it fails."""
        command = [str(build.program("kubectl")), f"--kubeconfig={self.kubeconfig}", *map(str, arguments)]
        done = subprocess.run(command, input=content, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"kubectl {' '.join(map(str, arguments))}: {done.stderr}"
        return done.stdout

    def write_kubeconfig(self, name: str, port: int, token: str = TOKEN) -> Path:
        """The path of a kubeconfig that leads to a port with the API server's certificate: its own, or a proxy's."""
        server = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(self.certificate)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "tests",
            "clusters": [{"name": "tests", "cluster": server}],
            "users": [{"name": "tests", "user": {"token": token}}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
        }
        path = self.folder / name
        path.write_text(json.dumps(config))
        return path

    def _serving(self) -> bool:
        try:
            return self.certificate.exists() and self.api.request("GET", "/readyz") == "ok"
        except (OSError, http.client.HTTPException, Refused):
            return False

    def _etcd(self, client: int, peer: int) -> list[object]:
        url = f"http://127.0.0.1:{client}"
        listen = [f"--listen-client-urls={url}", f"--advertise-client-urls={url}", f"--listen-peer-urls=http://127.0.0.1:{peer}"]
        return [build.program("etcd"), f"--data-dir={self.folder / 'etcd'}", *listen, "--unsafe-no-fsync"]

    def _api_server(self, etcd: int) -> list[object]:
        return [
            build.program("kube-apiserver"),
            f"--etcd-servers=http://127.0.0.1:{etcd}",
            f"--secure-port={self.port}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={self.certificate.parent}",
            f"--service-account-key-file={self.folder / 'sa.key'}",
            f"--service-account-signing-key-file={self.folder / 'sa.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--max-requests-inflight=3000",
            "--max-mutating-requests-inflight=2000",
            "--delete-collection-workers=8",  # what a test leaves is removed after it, thousands of pods after some
            "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",  # as OpenShift has it
            f"--admission-control-config-file={self._webhook_configuration()}",
            *((GROUP_GATES, "--runtime-config=scheduling.k8s.io/v1alpha2=true") if self.podgroups else ()),
            # Nothing here removes the not-ready taint, and pods of tests need no account.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
        ]

    def _webhook_configuration(self) -> Path:
        """The path of a configuration for calls of webhooks with a client certificate that `webhook_clients` has signed."""
        certificate, key = self.webhook_clients.client("kube-apiserver")
        user = {"client-certificate": str(certificate), "client-key": str(key)}
        kubeconfig = self.folder / "webhooks.kubeconfig"
        kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "users": [{"name": "*", "user": user}]}))
        version = "apiserver.config.k8s.io/v1"
        webhooks = {"apiVersion": version, "kind": "WebhookAdmissionConfiguration", "kubeConfigFile": str(kubeconfig)}
        plugins = [{"name": "ValidatingAdmissionWebhook", "configuration": webhooks}]
        path = self.folder / "admission.json"
        path.write_text(json.dumps({"apiVersion": version, "kind": "AdmissionConfiguration", "plugins": plugins}))
        return path

    def _controllers(self) -> list[object]:
        port = free_ports(1)[0]
        flags = [
            "--leader-elect=false",
            "--pvclaimbinder-sync-period=1s",
            "--concurrent-replicaset-syncs=1",  # pods are created again in the order in which others were evicted
            *("--kube-api-qps=1000", "--kube-api-burst=2000"),  # a claim for each of 1,000 pods takes minutes otherwise
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--controllers={','.join(CONTROLLERS)}",
            *((GROUP_GATES,) if self.podgroups else ()),
        ]
        return [build.program("kube-controller-manager"), f"--kubeconfig={self.kubeconfig}", *flags]

    def _kwok(self) -> list[object]:
        deletion = self.folder / "pod-delete.json"
        deletion.write_text(json.dumps(_DELETION))
        stages = [f"--config={path}" for path in (*(build.kwok_stages() / f"{stage}.yaml" for stage in STAGES), deletion)]
        return [build.program("kwok"), f"--kubeconfig={self.kubeconfig}", "--manage-all-nodes=true", *stages]


def _ask_etcd(port: int, path: str, body: object) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("POST", path, json.dumps(body))
        answer = connection.getresponse()
        reported = json.loads(answer.read())
        assert answer.status == http.client.OK, reported
        return reported
    finally:
        connection.close()


def _healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
