"""`wharf snapshot` and `--live` without a cluster: errors are reported, and no partial file is left."""

import contextlib
import gzip
import json
import signal
import socketserver
import stat
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.unit.signals.scripted import scripted, vector
from wharfinger.kube.wire import SCHEDULING

WHARF = Path(sys.executable).with_name("wharf")
NODE = {"metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}}
POD = {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"schedulerName": "wharfinger", "containers": [{"name": "c"}]}}
OTHER = {"metadata": {"name": "api", "namespace": "shop"}, "spec": {"containers": [{"name": "c"}]}}


class FakeServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Lists: a status and items by path; a path may hang."""

    daemon_threads = allow_reuse_address = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answering)
        self.answers = {resource.path: (200, []) for resource in SCHEDULING}
        self.answers |= {"/api/v1/nodes": (200, [NODE]), "/api/v1/pods": (200, [POD, OTHER])}
        self.hangs_at = None
        self.hanging = threading.Event()


class Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = self.path.partition("?")[0]
        if path == self.server.hangs_at:
            self.server.hanging.set()
            time.sleep(20)
        status, items = self.server.answers[path]
        reason = {403: "Forbidden", 401: "Unauthorized"}.get(status, "")
        body = json.dumps({"metadata": {"resourceVersion": "7"}, "items": items, "reason": reason, "message": "you may not"}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with FakeServer() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.02,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def kubeconfig(server, tmp_path):
    folder = tmp_path / "config"
    folder.mkdir()
    return write_kubeconfig(folder / "kubeconfig", f"http://127.0.0.1:{server.server_address[1]}")


@pytest.fixture
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_kubeconfig(path, server):
    entry = {"clusters": [{"name": "c", "cluster": {"server": server}}], "users": [{"name": "u", "user": {"token": "t"}}]}
    contexts = [{"name": "here", "context": {"cluster": "c", "user": "u"}}]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "here", "contexts": contexts, **entry}))
    return path


def names_in(folder):
    return {path.name for path in folder.iterdir()}


def test_the_file_is_read_by_dry_runs_alone(wharf, kubeconfig, tmp_path):
    out = tmp_path / "now.json"
    code, _, err = wharf("snapshot", "-o", out, "--kubeconfig", kubeconfig)
    assert code == 0
    assert err.startswith("wharf: 1 node, 2 pods and 0 other objects as of 20")
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert names_in(tmp_path) == {"config", "now.json"}
    code, placed, err = wharf("dry-run", "-s", out)
    assert (code, err) == (0, "")
    assert "2 of 2 pods placed" in placed
    assert wharf("dry-run", "--live", "--kubeconfig", kubeconfig) == (0, placed, "")


def test_the_pods_of_one_of_several_schedulers_can_be_chosen(wharf, kubeconfig):
    for name, pod in (("wharfinger", "shop/web"), ("default-scheduler", "shop/api")):
        code, placed, _ = wharf("dry-run", "--live", "--kubeconfig", kubeconfig, "--pods-of", name)
        assert code == 0
        assert "1 of 1 pod placed" in placed
        assert pod in placed


def test_names_that_end_in_gz_are_compressed(wharf, kubeconfig, tmp_path):
    out = tmp_path / "now.json.gz"
    assert wharf("snapshot", "-o", out, "--kubeconfig", kubeconfig)[0] == 0
    assert [item["kind"] for item in json.loads(gzip.decompress(out.read_bytes()))["items"]] == ["Node", "Pod", "Pod"]
    assert "2 of 2 pods placed" in wharf("dry-run", "-s", out)[1]


def test_a_hyphen_is_standard_output(kubeconfig):
    done = subprocess.run([WHARF, "snapshot", "-o-", f"--kubeconfig={kubeconfig}"], capture_output=True, check=True)
    found = json.loads(done.stdout)
    assert (found["kind"], len(found["items"])) == ("List", 3)
    assert found["capture"]["takenAt"].endswith("Z")


def test_a_file_behind_a_link_is_replaced_and_the_link_stays(wharf, kubeconfig, tmp_path):
    target, link = tmp_path / "old.json", tmp_path / "link.json"
    target.write_text("old")
    link.symlink_to(target)
    assert wharf("snapshot", "-o", link, "--kubeconfig", kubeconfig)[0] == 0
    assert link.is_symlink()
    assert json.loads(target.read_text())["kind"] == "List"


def test_a_device_is_written_to(wharf, kubeconfig):
    assert wharf("snapshot", "-o", "/dev/null", "--kubeconfig", kubeconfig)[0] == 0
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize(
    ("out", "sentence"),
    [
        ("no/such/folder/now.json", "No such file or directory"),
        (".", "this is a folder; give the name of a file"),
        ("/dev/full", "No space left on device"),
        ("/proc/now.json", "No such file or directory"),
    ],
)
def test_places_that_cannot_be_written(wharf, kubeconfig, in_folder, out, sentence):
    assert wharf("snapshot", "-o", out, "--kubeconfig", kubeconfig) == (2, "", f"wharf: {out}: {sentence}\n")


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (403, 'cannot read pods: you may not; grant a ClusterRole with the rule {apiGroups: [""], resources: [pods], verbs: [list]}'),
        (401, "refuses the credentials: you may not"),
    ],
)
def test_a_refusal_leaves_what_was_there(wharf, server, kubeconfig, status, sentence):
    tmp_path = kubeconfig.parents[1]
    out = tmp_path / "now.json"
    out.write_text("from yesterday")
    server.answers["/api/v1/pods"] = (status, [])
    code, _, err = wharf("snapshot", "-o", out, "--kubeconfig", kubeconfig)
    assert code == 2
    assert sentence in err
    assert out.read_text() == "from yesterday"
    assert names_in(tmp_path) == {"config", "now.json"}


def test_a_kind_that_may_not_be_read_is_warned_about_then_and_later(wharf, server, kubeconfig, tmp_path):
    out = tmp_path / "now.json"
    server.answers["/api/v1/services"] = (403, [])
    rule = 'services are missing: you may not; grant a ClusterRole with the rule {apiGroups: [""], resources: [services], verbs: [list]}'
    code, _, err = wharf("snapshot", "-o", out, "--kubeconfig", kubeconfig)
    assert (code, err.splitlines()[0]) == (0, f"wharf: warning: {rule}")
    assert wharf("dry-run", "-s", out)[2] == f"wharf: warning: {out}: {rule}\n"
    assert wharf("dry-run", "--live", "--kubeconfig", kubeconfig)[2] == f"wharf: warning: the cluster: {rule}\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_nothing(server, kubeconfig, tmp_path, number):
    server.hangs_at = "/api/v1/pods"
    out = tmp_path / "now.json"
    with subprocess.Popen([WHARF, "snapshot", "-o", out, f"--kubeconfig={kubeconfig}"], stderr=subprocess.PIPE, text=True) as process:
        assert server.hanging.wait(60)
        process.send_signal(number)
        assert process.wait(60) == 130
        assert process.stderr.read() == "wharf: interrupted\n"
    assert names_in(tmp_path) == {"config"}


def test_a_server_that_is_not_there(wharf, tmp_path):
    config = write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:9")
    code, _, err = wharf("snapshot", "-o", tmp_path / "now.json", "--kubeconfig", config)
    assert code == 2
    assert err.startswith("wharf: cannot read nodes from http://127.0.0.1:9: GET /api/v1/nodes: ")
    assert not (tmp_path / "now.json").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["snapshot"], "Missing option '--output' / '-o'"),
        (["snapshot", "-o", "x", "--kubeconfig", "none"], "none"),
        (["dry-run"], "no cluster: give a file with --snapshot, or --live for the one that the kubeconfig names"),
        (["dry-run", "--live", "-s", "x"], "--snapshot and --live exclude each other: a file, or the cluster as it is now"),
        (["dry-run", "-s", "x", "--kubeconfig", "y"], "--kubeconfig and --context select the cluster of --live; give --live too"),
        (["dry-run", "-s", "x", "--context", "y"], "--kubeconfig and --context select the cluster of --live; give --live too"),
        (["dry-run", "--context", "y"], "--kubeconfig and --context select the cluster of --live; give --live too"),
        (["dry-run", "-s", "x", "-f", "y", "--pods-of", "z"], "--pods-of chooses among pending pods; --pods names the pods itself"),
    ],
)
def test_words_that_do_not_go_together(wharf, in_folder, words, sentence):
    code, out, err = wharf(*words)
    assert (code, out) == (2, "")
    assert sentence in err
    assert names_in(in_folder) == set()


def test_an_unknown_context_is_named(wharf, kubeconfig, tmp_path):
    code, _, err = wharf("snapshot", "-o", tmp_path / "x", "--kubeconfig", kubeconfig, "--context", "elsewhere")
    assert code == 2
    assert "elsewhere" in err


POLICY = """
policy "calm"
metric load: percent = prometheus("load", node: "node", max_age: 60s)
filter cool { require load < 50% else "{load} is hot" on missing pass }
"""


@pytest.fixture
def measured(in_folder):
    (in_folder / "calm.policy").write_text(POLICY)
    with scripted() as reported:
        reported.answer = lambda _query: (200, vector({"a": "0.7", "b": "0.1"}, label="node", at=time.time()))
        yield reported


def test_samples_are_captured_with_their_times_and_decide_later(wharf, kubeconfig, measured, in_folder):
    began = time.time()
    run = ("snapshot", "-o", "now.json", "--kubeconfig", kubeconfig, "-p", "calm.policy", "--prometheus", measured.url)
    assert wharf(*run)[0] == 0
    (by_node,) = json.loads((in_folder / "now.json").read_text())["metrics"].values()
    assert list(by_node) == ["a"]  # b is no node of the cluster
    assert by_node["a"]["value"] == 0.7
    assert began <= by_node["a"]["time"] <= time.time()
    _, placed, err = wharf("dry-run", "-s", "now.json", "-p", "calm.policy", "--explain")
    assert "0 of 2 pods placed" in placed
    assert "70% is hot" in placed
    assert err == ""


def test_samples_of_another_query_are_not_taken_for_it(wharf, kubeconfig, measured, in_folder):
    wharf("snapshot", "-o", "now.json", "--kubeconfig", kubeconfig, "-p", "calm.policy", "--prometheus", measured.url)
    (in_folder / "calm.policy").write_text(POLICY.replace('"load"', '"other"'))
    _, placed, err = wharf("dry-run", "-s", "now.json", "-p", "calm.policy")
    assert "2 of 2 pods placed" in placed
    assert "calm: metric `load` is fresh on 0 of 1 node, fewer than 80 %: the rules that use it are suspended" in err


def test_samples_that_cannot_be_read_are_reported(wharf, kubeconfig, measured, in_folder):
    measured.answer = lambda _query: (503, "")
    code, _, err = wharf("snapshot", "-o", "now.json", "--kubeconfig", kubeconfig, "-p", "calm.policy", "--prometheus", measured.url)
    assert code == 0
    assert f"warning: no samples of calm.load: {measured.url} answers 503" in err
    assert "metrics" not in json.loads((in_folder / "now.json").read_text())


def test_a_server_without_a_policy_is_a_mistake(wharf, kubeconfig, measured):
    code, _, err = wharf("snapshot", "-o", "now.json", "--kubeconfig", kubeconfig, "--prometheus", measured.url)
    assert (code, "name the metrics with --policy or --config" in err) == (2, True)
