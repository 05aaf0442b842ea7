"""The webhook, called by a real API server."""

import base64
import http.client
import re
import shutil
import ssl

import pytest
import yaml

from tests.cluster import custom, deployment, objects
from tests.cluster.api import Refused
from tests.cluster.process import WharfProcess
from tests.cluster.programs import free_ports
from tests.cluster.waiting import eventually
from tests.unit.web.certificates import Authority, signed_by_itself

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
GOOD = 'policy "gold"\nscore s = 1\n'
BAD = 'policy "gold"\nfilter zone { require node.lables["zone"] == "east" else "no" }\n'


def policy(source, name="gold"):
    body = {"apiVersion": f"{custom.GROUP}/v1alpha1", "kind": "SchedulingPolicy", "metadata": {"name": name}, "spec": {"source": source}}
    return yaml.safe_dump(body)


@pytest.fixture
def certificate(tmp_path):
    return signed_by_itself(tmp_path)


@pytest.fixture
def webhook(defined, certificate):
    """Makes the process with the webhook, and registers it as deploy/ does, except for where it is."""
    port = free_ports(1)[0]
    flags = (
        f"--admission-certificate={certificate[0]}",
        f"--admission-key={certificate[1]}",
        f"--admission-port={port}",
        f"--admission-client-ca={defined.webhook_clients.certificate}",
        "--admission-client-name=kube-apiserver",
    )
    body = yaml.safe_load((deployment.FOLDER / "components" / "admission" / "webhook.yaml").read_text())
    body["webhooks"][0]["clientConfig"] = {"url": f"https://127.0.0.1:{port}/validate", "caBundle": bundle(certificate[0])}
    defined.api.request("POST", WEBHOOKS, body)
    yield lambda *more: WharfProcess(defined, *flags, *more)
    defined.api.request("DELETE", f"{WEBHOOKS}/wharfinger")


def bundle(certificate):
    return base64.b64encode(certificate.read_bytes()).decode()


def refusal(cluster, source=BAD, name="trial"):
    """The error of kubectl for a policy; empty if it would be stored."""
    try:
        cluster.kubectl("create", "--dry-run=server", "-f", "-", content=policy(source, name))
    except AssertionError as error:
        return str(error)
    return ""


def test_kubectl_shows_at_once_what_is_wrong(defined, webhook):
    with webhook() as wharf:
        said = eventually(lambda: refusal(defined))
        assert 'admission webhook "policies.scheduling.wharfinger.dev" denied the request' in said
        assert "error[P302]: `node` has no field `lables`" in said
        assert "--> schedulingpolicies/trial:2:" in said
        assert "filter zone { require node.lables" in said, "the line itself"
        assert "node.labels" in said, "what was meant"

        defined.kubectl("apply", "-f", "-", content=policy(GOOD))
        eventually(lambda: custom.condition(custom.status(defined, "SchedulingPolicy", "gold"), "Active") == "True")
        with pytest.raises(AssertionError, match="denied the request"):
            defined.kubectl("apply", "-f", "-", content=policy(BAD))
        assert custom.get(defined, "SchedulingPolicy", "gold")["spec"]["source"] == GOOD
        custom.create(defined, "PolicyApp", "web", {"image": "web:1", "policy": {"inline": custom.EAST}})
        eventually(lambda: custom.get(defined, "SchedulingPolicy", "default.web"))
        with pytest.raises(Refused, match="would not become active"):
            custom.create(defined, "PolicyApp", "shop", {"image": "shop:1", "policy": {"inline": BAD}})
        assert 'wharfinger_policy_admission_total{result="refused"}' in wharf.get("/metrics")[1]
        assert wharf.terminate() == 0, "although the API server keeps its connections"


def test_objects_stored_before_the_webhook_can_be_labelled_and_deleted(defined, webhook):
    custom.create(defined, "SchedulingPolicy", "old", {"source": BAD})
    with webhook():
        eventually(lambda: refusal(defined))
        defined.kubectl("label", "spol/old", "seen=yes")
        eventually(lambda: custom.condition(custom.status(defined, "SchedulingPolicy", "old"), "Compiled") == "False")
        with pytest.raises(AssertionError, match="denied the request"):
            defined.kubectl("patch", "spol/old", "--type=merge", "-p", '{"spec": {"mode": "Shadow"}}')
        defined.kubectl("delete", "spol/old", "--timeout=20s")


def test_a_webhook_that_does_not_answer_blocks_nothing(defined, webhook, nodes):
    nodes(1)
    with webhook() as wharf:
        eventually(lambda: refusal(defined))
        wharf.kill()
        defined.kubectl(
            "apply",
            "-f",
            "-",
            content=policy(BAD),
        )
        defined.api.create(objects.pod("web", scheduler="wharfinger"))
    with webhook():
        eventually(lambda: custom.condition(custom.status(defined, "SchedulingPolicy", "gold"), "Compiled") == "False")
        eventually(lambda: defined.api.get("Pod", "web")["spec"].get("nodeName"))


def test_a_renewed_certificate_is_taken_up(defined, webhook, certificate, tmp_path):
    with webhook() as wharf:
        eventually(lambda: refusal(defined))
        (tmp_path / "new").mkdir()
        for new, old in zip(signed_by_itself(tmp_path / "new"), certificate, strict=True):
            shutil.copy(new, old)
        eventually(lambda: wharf.log.count("admission has a certificate") == 2)
        change = [{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle(certificate[0])}]
        defined.api.request("PATCH", f"{WEBHOOKS}/wharfinger", change, content_type="application/json-patch+json")
        eventually(lambda: refusal(defined))


def test_without_a_certificate_it_schedules_all_the_same(defined, webhook, certificate, nodes):
    nodes(1)
    certificate[0].unlink()
    with webhook() as wharf:
        defined.api.create(objects.pod("web", scheduler="wharfinger"))
        eventually(lambda: defined.api.get("Pod", "web")["spec"].get("nodeName"))
        assert not refusal(defined)
        eventually(lambda: wharf.log.count("admission has no new certificate") == 1)


def asked_by(port, client=None):
    """The status of the webhook for a request with a client's certificate; None where no connection comes about."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if client is not None:
        context.load_cert_chain(*client)
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=context)
    try:
        connection.request("POST", "/validate", "{}")
        return connection.getresponse().status
    except (ssl.SSLError, ConnectionError):
        return None
    finally:
        connection.close()


def test_the_api_server_alone_may_ask(defined, webhook, tmp_path):
    stranger = Authority(tmp_path, "stranger")
    with webhook() as wharf:
        assert "denied the request" in eventually(lambda: refusal(defined))
        port = int(re.search(r"serving admission.*?:(\d+)", wharf.log).group(1))
        clients = (None, stranger.client("kube-apiserver"), defined.webhook_clients.client("somebody"))
        assert [asked_by(port, client) for client in clients] == [None, None, 403]
        assert asked_by(port, defined.webhook_clients.client("kube-apiserver")) == 400, "a review was expected"
