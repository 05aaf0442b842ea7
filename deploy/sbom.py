"""`sbom.py FOLDER` writes the SBOM of the wheel and the image (wharfinger.cdx.json), and their licences (LICENCES.md), there.

cyclonedx-py describes the packages of this environment. Those that only tests or builds use are left out, and the contents of the wheel
are added: JavaScript in the page of the playground, and a trace. The base image is not in the list; the builder of the image chooses it.
"""  # noqa: INP001 — a script that is run by its path

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import requirements_of

ROOT = Path(__file__).parent.parent
BUNDLED = ROOT / "editors" / "playground" / "package-lock.json"
TRACE = {
    "type": "data",
    "bom-ref": "openb",
    "name": "OpenB",
    "version": "cluster-trace-gpu-v2023",
    "supplier": {"name": "Alibaba"},
    "description": "Nodes and pods of a GPU cluster; origin and terms are in engine/wharfinger/simulate/openb/ORIGIN.md",
    "licenses": [{"license": {"name": "for study and research"}}],
}


def parts_list() -> dict[str, Any]:
    """The parts list as CycloneDX's JSON."""
    document = described()
    wanted = requirements_of.blocks(runtime()).keys()
    kept = [part for part in document["components"] if normal(part["name"]) in wanted]
    own = document["metadata"]["component"]
    added = [*npm_packages(json.loads(BUNDLED.read_text("utf-8"))), TRACE]
    known, named = {part["bom-ref"] for part in kept}, direct()
    edges = {edge["ref"]: [ref for ref in edge.get("dependsOn", []) if ref in known] for edge in document["dependencies"]}
    edges[own["bom-ref"]] = [part["bom-ref"] for part in kept if normal(part["name"]) in named] + [part["bom-ref"] for part in added]
    document["components"] = sorted([*kept, *added], key=lambda part: str(part["bom-ref"]))
    document["dependencies"] = [
        {"ref": ref, **({"dependsOn": sorted(refs)} if refs else {})}
        for ref, refs in sorted(edges.items())
        if ref in known or ref == own["bom-ref"]
    ]
    return document


def described() -> dict[str, Any]:
    """What cyclonedx-py says about this environment."""
    command = [
        sys.executable,
        "-m",
        "cyclonedx_py",
        "environment",
        "--pyproject",
        str(ROOT / "pyproject.toml"),
        "--output-reproducible",
        sys.executable,
    ]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603 — fixed arguments
    made: dict[str, Any] = json.loads(printed)
    return made


def runtime() -> str:
    """The part of requirements.txt that a running Wharfinger needs."""
    return requirements_of.closure((ROOT / "requirements.txt").read_text("utf-8"), direct())


def direct() -> set[str]:
    """The packages that the project itself asks for."""
    return requirements_of.dependencies((ROOT / "pyproject.toml").read_text("utf-8"))


def normal(name: str) -> str:
    """The name of a package as requirements.txt has it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def npm_packages(lock: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The packages of a package-lock.json that end up in the bundle: all that are not for development."""
    for place, package in lock["packages"].items():
        if not place or package.get("dev"):
            continue
        name = place.removeprefix("node_modules/")
        group, _, last = name.rpartition("/")
        purl = f"pkg:npm/{name.replace('@', '%40')}@{package['version']}"
        licences = [{"license": {"id": package["license"]}}]
        grouped = {"group": group} if group else {}
        yield {
            "type": "library",
            "bom-ref": purl,
            **grouped,
            "name": last,
            "version": package["version"],
            "licenses": licences,
            "purl": purl,
        }


def licences(document: Mapping[str, Any]) -> str:
    """A table of the parts with their licences."""
    head = ["# Licences of what the wheel and the image hold", "", "| part | version | licence |", "|---|---|---|"]
    rows = [f"| {full_name(part)} | {part['version']} | {', '.join(licences_of(part))} |" for part in document["components"]]
    return "\n".join([*head, *rows, ""])


def full_name(part: Mapping[str, Any]) -> str:
    """The name of a part, with its group if there is one."""
    return "/".join(filter(None, (part.get("group"), part["name"])))


def licences_of(part: Mapping[str, Any]) -> list[str]:
    """The licences that a part names itself: identifiers of SPDX where it has some, else names."""
    choices = part.get("licenses", [])
    identifiers = {choice.get("expression") or choice["license"].get("id") for choice in choices} - {None}
    return sorted(identifiers or {choice["license"]["name"].removeprefix("License :: OSI Approved :: ") for choice in choices})


def main(folder: Path) -> None:
    """Writes both files."""
    document = parts_list()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "wharfinger.cdx.json").write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", "utf-8")
    (folder / "LICENCES.md").write_text(licences(document), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
