"""The editor of the playground is what editors/playground builds, byte by byte, with the licences of everything in it."""

import json
import re
import shutil
import subprocess
from importlib import resources
from pathlib import Path

import pytest

from tests.tools import needs

SOURCE = Path(__file__).parents[4] / "editors" / "playground"
BUILT = resources.files("wharfinger.web.playground") / "static"
MADE = ("editor.js", "editor.licenses.txt")


@pytest.mark.slow
def test_a_build_gives_the_same_files(tmp_path):
    npm = needs("npm")
    folder = tmp_path / "playground"
    shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns("node_modules"))
    subprocess.run([npm, "ci", "--ignore-scripts", "--no-progress"], cwd=folder, check=True, capture_output=True)
    made = tmp_path / "made"
    made.mkdir()
    subprocess.run(["node", "build.mjs", str(made)], cwd=folder, check=True, capture_output=True)

    differing = [name for name in MADE if (made / name).read_bytes() != (BUILT / name).read_bytes()]
    assert differing == [], "run `npm ci && npm run build` in editors/playground and commit what it writes"


def test_every_package_of_the_lock_file_has_a_checksum_and_no_address():
    packages = json.loads((SOURCE / "package-lock.json").read_text("utf-8"))["packages"]

    assert [name for name, package in packages.items() if name and not package.get("integrity", "").startswith("sha512-")] == []
    assert [name for name, package in packages.items() if "resolved" in package] == []


def test_everything_that_is_bundled_has_its_licence():
    packages = json.loads((SOURCE / "package-lock.json").read_text("utf-8"))["packages"]
    needed = {
        f"{name.removeprefix('node_modules/')} {package['version']} ({package['license']})"
        for name, package in packages.items()
        if name and not package.get("dev") and not package.get("optional")
    }

    licences = (BUILT / "editor.licenses.txt").read_text("utf-8")
    reported = set(re.findall(r"^(\S+ [0-9.]+ \(.+\))$", licences, re.MULTILINE))

    assert reported <= needed
    assert {"@codemirror/view", "@codemirror/state", "style-mod", "crelt", "w3c-keyname"} <= {line.split(" ")[0] for line in reported}
    assert licences.count("Permission is hereby granted") == len(reported)
