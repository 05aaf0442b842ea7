"""`wharf run` does not import modules that it does not need, and imports none in a step of its event loop."""

import subprocess
import sys

UNLOADED = ("kubernetes", "requests", "rich", "prometheus_api_client")
LOADED = (
    f"import sys, wharfinger.cli.commands.run.run, wharfinger.daemon.serve; print([name for name in {UNLOADED} if name in sys.modules])"
)
LATE = """
import sys
import wharfinger.cli.commands.run.run, wharfinger.daemon.serve
import numpy as np
before = set(sys.modules)
np.unique(np.arange(3)), np.isin(np.arange(3), [1]), np.union1d([1], [2])
print(sorted(set(sys.modules) - before))
"""

RUN = """
import asyncio, sys

class Imports:
    def find_spec(self, name, path=None, target=None):
        try:
            asyncio.get_running_loop()
        except RuntimeError:  # of a thread, or before the loop runs
            return None
        found.append(name)

found = []
sys.meta_path.insert(0, Imports())
from wharfinger.cli import main
code = main(["run", "--kubeconfig", "config.yaml", "--port", "0"])
print(code, [name for name in found if name.partition(".")[0] in {"wharfinger", "kubernetes"}])
"""
KUBECONFIG = """
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
users: [{name: a, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: "false", interactiveMode: Never}}}]
current-context: a
"""


def printed_by(program, folder=None):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=folder).stdout.strip()


def test_optional_packages_are_not_imported_at_the_start():
    assert printed_by(LOADED) == "[]"


def test_functions_of_numpy_import_nothing_later():
    assert printed_by(LATE) == "[]"


def test_plugins_and_the_official_client_are_imported_in_no_step_of_the_event_loop(tmp_path):
    (tmp_path / "config.yaml").write_text(KUBECONFIG)  # not a plain one: the official client reads it
    assert printed_by(RUN, tmp_path) == "2 []"
