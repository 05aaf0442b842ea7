"""Modules that a command does not import before they are needed."""

import subprocess
import sys

import pytest

SPARED = ("lark", "wharfinger.language.check", "wharfinger.policies", "wharfinger.groups.exact")
LOADED = "import importlib, sys; importlib.import_module(sys.argv[1]); print([name for name in sys.argv[2:] if name in sys.modules])"
RUN = """
import sys
from wharfinger import cli
code = cli.main(sys.argv[2:])
print([name for name in sys.argv[1].split(",") if name in sys.modules], code, file=sys.stderr)
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: c, resources: {requests: {cpu: 100m}}}]}
"""
COMMANDS = {
    "check": "check policies/spread.policy --format json",
    "capacity": "capacity -s example:small -f {pod} --most 5 --by topology.kubernetes.io/zone",
    "drain": "drain node-000 -s example:small",
    "dry-run": "dry-run -s example:small --policy policies/spread.policy",
}


@pytest.mark.parametrize("command", ["capacity", "dry_run", "drain"])
def test_a_question_without_policies_and_groups_loads_neither_checker_nor_search(command):
    module = f"wharfinger.cli.commands.what_if.{command}"
    done = subprocess.run([sys.executable, "-c", LOADED, module, *SPARED], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_a_command_loads_no_package_that_it_does_not_need(words, tmp_path):
    pod = tmp_path / "pod.yaml"
    pod.write_text(POD)
    unwanted = "pydantic,rich,asyncio,kubernetes,aiohttp,wharfinger.kube"
    done = subprocess.run([sys.executable, "-c", RUN, unwanted, *words.format(pod=pod).split()], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[] 0"
