"""A new user: write a policy in an editor, test it, see what it would change, install the chart with it, and see pods placed."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

from tests.cluster import chart, custom, objects
from tests.cluster.permissions import NAMESPACE
from tests.cluster.process import WharfProcess
from tests.cluster.waiting import eventually

TYPED = """policy "fast-disks"
for pods where (pod.labels["tier"] ?? "") == "db"
filter fast { require (node.lables["disk"] ?? "") == "ssd" else "no fast disk" }
test "a database goes to a fast disk" {
  node slow { labels: { disk: "hdd" } }
  node fast { labels: { disk: "ssd" } }
  pod db { labels: { tier: "db" } }
  place db
  expect db on fast
}
"""


async def written(folder, text):
    """The text of a policy after the server has mended and formatted it, as an editor asks for it over the protocol."""
    client, found = LanguageClient("editor", "1"), asyncio.Queue()

    @client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def published(params):
        found.put_nowait(params)

    await client.start_io(sys.executable, "-m", "wharfinger", "lsp")
    await client.initialize_async(lsp.InitializeParams(capabilities=lsp.ClientCapabilities(), root_uri=folder.as_uri()))
    client.initialized(lsp.InitializedParams())
    uri = (folder / "fast-disks.policy").as_uri()
    document = lsp.TextDocumentIdentifier(uri)
    client.text_document_did_open(lsp.DidOpenTextDocumentParams(lsp.TextDocumentItem(uri, "policy", 1, text)))
    (wrong,) = (await found.get()).diagnostics
    assert "lables" in wrong.message
    context = lsp.CodeActionContext(diagnostics=[wrong])
    actions = await client.text_document_code_action_async(lsp.CodeActionParams(document, wrong.range, context))
    (edit,) = next(action for action in actions if action.kind == lsp.CodeActionKind.QuickFix).edit.changes[uri]
    text = edited(text, edit)
    change = lsp.TextDocumentContentChangeWholeDocument(text)
    client.text_document_did_change(lsp.DidChangeTextDocumentParams(lsp.VersionedTextDocumentIdentifier(2, uri), [change]))
    while (said := await found.get()).version != 2:
        pass
    assert not said.diagnostics
    options = lsp.FormattingOptions(tab_size=2, insert_spaces=True)
    for edit in await client.text_document_formatting_async(lsp.DocumentFormattingParams(document, options)) or []:
        text = edited(text, edit)
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()
    return text


def edited(text, edit):
    """The text, which is ASCII, after one edit."""
    lines = text.splitlines(keepends=True)
    start, end = (sum(map(len, lines[: place.line])) + place.character for place in (edit.range.start, edit.range.end))
    return text[:start] + edit.new_text + text[end:]


@pytest.fixture
def wharf(tmp_path, control_plane):
    """Runs `wharf` in the folder of the user, with the kubeconfig of the cluster: what it prints."""

    def run(*arguments):
        environment = {**os.environ, "KUBECONFIG": str(control_plane.kubeconfig), "NO_COLOR": "1"}
        program = Path(sys.executable).with_name("wharf")
        ran = subprocess.run([program, *map(str, arguments)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    return run


def test_from_an_editor_to_a_placed_pod(control_plane, nodes, tmp_path, wharf):
    nodes(2, prefix="slow", labels={"disk": "hdd"})
    nodes(1, prefix="fast", labels={"disk": "ssd"})
    (tmp_path / "fast-disks.policy").write_text(asyncio.run(written(tmp_path, TYPED)))
    wharf("fmt", "--check", "fast-disks.policy")
    assert "1 passed, 0 failed" in wharf("test", "fast-disks.policy")

    pods = [objects.pod(f"db-{i}", labels={"tier": "db"}, scheduler="wharfinger") for i in range(2)]
    (tmp_path / "db.yaml").write_text(yaml.safe_dump_all(pods))
    changes = wharf("diff", "--live", "-f", "db.yaml", "--policy", "fast-disks.policy")
    assert re.search(r"^default/db-\d +slow-000\d +fast-0000$", changes, re.MULTILINE), changes  # without a policy, no node gets both

    setting = "policies.fast-disks\\.policy=" + str(tmp_path / "fast-disks.policy")
    flags = ("--namespace", NAMESPACE, "--create-namespace", "--set-file", setting, *chart.values())
    try:
        said = chart.helm("install", "wharfinger", chart.FOLDER, *flags, folder=tmp_path, kubeconfig=control_plane.kubeconfig)
        assert "by these policies: fast-disks.policy" in said
        custom.wait_served(control_plane)
        settings = control_plane.api.get("ConfigMap", "wharfinger-settings", NAMESPACE)["data"]["wharf.yaml"]
        (tmp_path / "wharf.yaml").write_text(settings)
        installed = (f"--config={tmp_path / 'wharf.yaml'}", "--bind-address=127.0.0.1", f"--state-dir={tmp_path / 'state'}")
        with WharfProcess(control_plane, *installed, name="wharf-of-the-chart"):
            for pod in pods:
                control_plane.api.create(pod)
            placed = [eventually(lambda name=pod["metadata"]["name"]: node_of(control_plane, name)) for pod in pods]
        assert placed == ["fast-0000", "fast-0000"]
    finally:
        custom.uninstall(control_plane)
        control_plane.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=60s")
        control_plane.kubectl("delete", "clusterrole,clusterrolebinding", "-l", "app.kubernetes.io/name=wharfinger")


def node_of(control_plane, name):
    """The node of a pod; None until it has one."""
    return control_plane.api.get("Pod", name)["spec"].get("nodeName")
