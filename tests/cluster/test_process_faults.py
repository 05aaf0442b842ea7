"""`wharf run` when the API server is absent, stops, sends nothing, or rejects the credentials."""

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from http.client import UNAUTHORIZED
from pathlib import Path

import pytest

from tests.cluster import objects
from tests.cluster.control_plane import OTHER_TOKEN, TOKEN, ControlPlane
from tests.cluster.live import LiveScheduler
from tests.cluster.process import WharfProcess, run_to_end
from tests.cluster.replicas import BINDING, CREATED, DEADLINE, NAME, configuration
from tests.cluster.soundness import assert_sound
from tests.cluster.waiting import eventually, wait_bound
from tests.tools import needs

N_NODES = 20
N_PODS = 1000
SILENCE = 2.0
WHARF = Path(sys.executable).with_name("wharf")


def test_the_api_server_dies_in_the_middle_and_comes_back(control_plane, proxy, nodes, pods):
    nodes(N_NODES)
    pods(N_PODS, scheduler=NAME, cpu="10m", memory="16Mi")
    with WharfProcess(control_plane, kubeconfig=proxy.kubeconfig) as wharf:
        eventually(lambda: _n_bindings(proxy) > N_PODS / 10, every=0.005)
        control_plane.api_server.kill()
        assert _n_bindings(proxy) < N_PODS, "it came too late"
        control_plane.start_api_server()
        wait_bound(control_plane, N_PODS)

        assert_sound(control_plane)
        assert wharf.terminate() == 0


def test_an_api_server_that_comes_later_is_waited_for(control_plane, nodes, pods):
    nodes(1)
    pods(1, scheduler=NAME)
    control_plane.api_server.kill()
    wharf = WharfProcess(control_plane, elect=True)
    try:
        wharf.start()
        eventually(lambda: "does not answer yet" in wharf.log)
        assert wharf.get("/readyz")[0] != 200
        assert wharf.get("/livez")[0] == 200
        control_plane.start_api_server()

        wait_bound(control_plane, 1)
        assert_sound(control_plane)
        assert wharf.terminate() == 0
    finally:
        wharf.kill()


def test_the_process_stops_while_it_waits_for_the_api_server(control_plane):
    control_plane.api_server.kill()
    wharf = WharfProcess(control_plane)
    try:
        wharf.start()
        eventually(lambda: "does not answer yet" in wharf.log)
        assert wharf.terminate() == 0
    finally:
        wharf.kill()


@pytest.mark.parametrize("grace", [0.5, DEADLINE + 2], ids=["it waits no longer than its grace", "the lease runs out meanwhile"])
def test_the_process_stops_after_the_api_server_has_gone(control_plane, nodes, pods, grace):
    nodes(2)
    settings = configuration(control_plane, limits={"gracePeriod": f"{grace}s"})
    with WharfProcess(control_plane, f"--config={settings}", elect=True) as wharf:
        wharf.wait_scheduling()
        pods(100, scheduler=NAME, cpu="10m", memory="16Mi")
        control_plane.api_server.kill()

        assert wharf.terminate() == 0
        assert "Traceback" not in wharf.log


def output_of(wharf, command, *flags):
    """(exit code, stdout) of a `wharf` that looks at the process."""
    ran = subprocess.run([WHARF, command, "--url", wharf.url, *flags], capture_output=True, text=True, timeout=120, check=False)
    return ran.returncode, ran.stdout


@pytest.mark.parametrize("away", ["killed", "frozen"])
def test_while_the_api_server_is_away_no_state_is_reported_as_good(control_plane, proxy, nodes, away):
    nodes(2)
    with WharfProcess(control_plane, kubeconfig=proxy.kubeconfig) as wharf:
        wharf.wait_scheduling()
        assert output_of(wharf, "status")[0] == 0
        assert ", leader;" in output_of(wharf, "top", "--once")[1]
        if away == "killed":
            control_plane.api_server.kill()
        else:
            proxy.freeze()  # without an error, and no request is sent

        eventually(lambda: wharf.get("/readyz")[0] == 500)
        assert "[-]api-server failed: no answer for" in wharf.get("/readyz")[1]
        assert wharf.get("/livez")[0] == 200, "starting it again would not help"
        code, out = output_of(wharf, "status")
        assert code == 1
        assert out.startswith("not ready: api-server: no answer for")
        first, second, *_ = output_of(wharf, "top", "--once")[1].splitlines()
        assert ", not ready;" in first
        assert second.startswith("not ready: api-server: no answer for")

        if away == "killed":
            control_plane.start_api_server()
        else:
            proxy.thaw()
        eventually(lambda: wharf.get("/readyz")[0] == 200)
        assert output_of(wharf, "status")[0] == 0


def test_connections_that_fall_silent_without_an_end_are_noticed(control_plane, proxy, nodes, pods):
    nodes(2)
    with LiveScheduler(proxy.kubeconfig, silence=SILENCE) as scheduler:
        pods(1, scheduler=NAME)
        eventually(lambda: scheduler.placed() == 1)
        proxy.strand()
        stranded_at = time.monotonic()
        pods(5, prefix="unheard", scheduler=NAME)

        wait_bound(control_plane, 6)
        assert time.monotonic() - stranded_at > SILENCE / 2, "the connections were not silent"
        assert_sound(control_plane, assumed=scheduler.assumed)


# ── who we are ──


@dataclass(slots=True)
class Load:
    """Pods that come, a few at a time."""

    cluster: ControlPlane
    n: int = 0

    def bound(self, more):
        """Returns when that many more pods were created and are bound."""
        self.cluster.api.create_many(objects.pod(f"pod-{self.n + i:04d}", scheduler=NAME) for i in range(more))
        self.n += more
        wait_bound(self.cluster, self.n)


@pytest.fixture
def load(control_plane, nodes):
    """Pods for two nodes."""
    nodes(2)
    return Load(control_plane)


def _by_file(folder):
    """A user whose token is read from a file."""
    return {"tokenFile": str(folder / "token")}


def _by_plugin(folder):
    """A user whose token a program gives, which reads it from that file and writes down that it was asked."""
    program = folder / "plugin.py"
    program.write_text(PLUGIN.format(python=sys.executable, folder=folder))
    program.chmod(0o755)
    wanted = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program), "interactiveMode": "Never"}
    return {"exec": wanted}


PLUGIN = """#!{python}
import json, pathlib
folder = pathlib.Path("{folder}")
with (folder / "asked").open("a") as asked:
    print("once", file=asked)
status = {{"token": (folder / "token").read_text()}}
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}}))
"""


@pytest.mark.parametrize("way", [_by_file, _by_plugin], ids=["file", "plugin"])
def test_a_token_that_is_refused_by_now_is_read_again(proxy, load, tmp_path, way):
    _replace(tmp_path / "token", TOKEN)
    with WharfProcess(load.cluster, kubeconfig=_kubeconfig(tmp_path, proxy.kubeconfig, way(tmp_path))) as wharf:
        load.bound(2)
        _replace(tmp_path / "token", OTHER_TOKEN)
        proxy.revoke(TOKEN)
        proxy.cut()

        load.bound(20)
        assert_sound(load.cluster)
        assert 0 < proxy.count(lambda seen: seen.status == UNAUTHORIZED) < 50
        assert wharf.terminate() == 0


def test_a_token_that_is_replaced_only_after_it_was_refused_is_taken_up(proxy, load, tmp_path):
    _replace(tmp_path / "token", TOKEN)
    with WharfProcess(load.cluster, kubeconfig=_kubeconfig(tmp_path, proxy.kubeconfig, _by_file(tmp_path))):
        load.bound(1)
        proxy.revoke(TOKEN)
        proxy.cut()
        eventually(lambda: proxy.count(lambda seen: seen.status == UNAUTHORIZED) > 20)
        _replace(tmp_path / "token", OTHER_TOKEN)

        load.bound(3)
        assert_sound(load.cluster)


def test_an_authority_that_did_not_sign_the_certificate_is_named_as_the_trouble(control_plane, tmp_path):
    made = (needs("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=other")
    subprocess.run([*made, "-keyout", tmp_path / "key", "-out", tmp_path / "ca.crt"], check=True, capture_output=True)
    code, said = run_to_end(control_plane, kubeconfig=_kubeconfig(tmp_path, control_plane.kubeconfig, None, authority=tmp_path / "ca.crt"))

    assert code == 2
    assert "cannot trust the API server https://127.0.0.1" in said
    assert "certificate verify failed" in said
    assert "Traceback" not in said


def test_credentials_that_are_refused_from_the_start_end_it_with_a_sentence(control_plane, tmp_path):
    code, said = run_to_end(control_plane, kubeconfig=_kubeconfig(tmp_path, control_plane.kubeconfig, {"token": "nonsense"}))

    assert code == 2
    assert "refuses the credentials" in said
    assert "Traceback" not in said


def test_a_plugin_that_fails_ends_it_with_a_sentence(control_plane, tmp_path):
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/false", "interactiveMode": "Never"}}
    code, said = run_to_end(control_plane, kubeconfig=_kubeconfig(tmp_path, control_plane.kubeconfig, user))

    assert code == 2
    assert "the exec plugin of the kubeconfig gave no credentials" in said
    assert "Traceback" not in said


def _kubeconfig(folder, like, user, authority=None):
    config = json.loads(like.read_text())
    if user is not None:
        config["users"][0]["user"] = user
    if authority is not None:
        config["clusters"][0]["cluster"]["certificate-authority"] = str(authority)
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    return path


def _replace(path, text):
    """Writes a file as those do that rotate tokens: at once."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(path)


def _n_bindings(proxy):
    return proxy.count(lambda seen: seen.status == CREATED and BINDING.search(seen.path) is not None)
