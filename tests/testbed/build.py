"""The programs that tests run against: a real API server and its companions, built from pinned sources.

Each folder beside this file is a Go module without Go code: `go.mod` names programs as tools, `go.sum` pins every source they are made of.
A module is built once for a machine, into a cache outside the checkout whose name carries the hash of its `go.sum`; a new version is thus a
new folder, and checkouts share equal versions. A build happens in a temporary folder that is renamed when everything is there, under a
lock, so that two test runs neither build twice nor see half a build.

`python -m tests.testbed.build [MODULE…]` builds; `program(name)` is what tests call.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

SOURCES = Path(__file__).parent
DEFAULT = ("kubernetes", "kwok", "prometheus", "helm", "krew")  # the others are for comparisons in tests/bench_cluster
PROGRAMS = {
    "etcd": ("kubernetes", "server"),  # Go names a program after its package's folder
    "kube-apiserver": ("kubernetes", "kube-apiserver"),
    "kube-controller-manager": ("kubernetes", "kube-controller-manager"),
    "kube-scheduler": ("kubernetes", "kube-scheduler"),
    "kubectl": ("kubernetes", "kubectl"),
    "kwok": ("kwok", "kwok"),
    "prometheus": ("prometheus", "prometheus"),
    "promtool": ("prometheus", "promtool"),
    "helm": ("helm", "helm"),
    "krew": ("krew", "krew"),
    "cluster-capacity": ("cluster-capacity", "cluster-capacity"),
    "descheduler": ("descheduler", "descheduler"),
}
KWOK_STAGES = Path("kustomize", "stage")


class Unavailable(Exception):
    """A program is neither built nor can it be built here; the text says what is missing."""


def cache() -> Path:
    """The folder that all checkouts of this user share."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wharfinger" / "testbed"


def folder(module: str) -> Path:
    """The folder of the programs of a module."""
    digest = hashlib.sha256((SOURCES / module / "go.sum").read_bytes()).hexdigest()
    return cache() / f"{module}-{digest[:16]}"


def program(name: str) -> Path:
    """The path of a program that is ready to run: of KUBEBUILDER_ASSETS when that has it, else of the testbed, built now if it was not.

    Raises `Unavailable` where it is not built and cannot be.
    """
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and (given := Path(assets) / name).is_file():
        return given
    module, binary = PROGRAMS[name]
    return build(module, [binary]) / "bin" / binary


def kwok_stages() -> Path:
    """The folder of kwok's own stages, which say how nodes become ready and pods run."""
    return build("kwok") / "stage"


def build(module: str, programs: Sequence[str] = ()) -> Path:
    """The folder of a module's programs (`bin`), built unless these of them are there, by default all. Raises `Unavailable`."""
    place = folder(module)
    if _complete(module, place, programs):
        return place
    if shutil.which("go") is None:
        raise Unavailable(
            f"{place} is not built and there is no Go to build it with: install Go (see {module}/go.mod), or set KUBEBUILDER_ASSETS"
        )
    place.parent.mkdir(parents=True, exist_ok=True)
    with _lock(place.with_suffix(".lock")):
        if not _complete(module, place, programs):
            _build_into(module, place)
    return place


def _complete(module: str, place: Path, programs: Sequence[str]) -> bool:
    return _has(place, programs or _programs(module)) and (module != "kwok" or (place / "stage").is_dir())


def _has(place: Path, programs: Sequence[str]) -> bool:
    return all((place / "bin" / name).is_file() for name in programs)


def _programs(module: str) -> list[str]:
    return [binary for owner, binary in PROGRAMS.values() if owner == module]


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build_into(module: str, place: Path) -> None:
    sys.stderr.write(f"building {module} into {place} (minutes, once)\n")
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{module}-") as scratch:
        made = Path(scratch) / "made"
        if _has(place, _programs(module)):  # complete except for what is copied below
            shutil.copytree(place / "bin", made / "bin")
        else:
            _go(module, "install", f"-ldflags={linker_flags(module)}", "tool", GOBIN=str(made / "bin"))
        if module == "kwok":
            source = _go(module, "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok").strip()
            shutil.copytree(Path(source) / KWOK_STAGES, made / "stage", copy_function=shutil.copyfile)
        if place.exists():
            place.rename(Path(scratch) / "replaced")
        made.rename(place)


def _go(module: str, *arguments: str, **environment: str) -> str:
    command = ["go", *arguments]
    settings = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false -mod=readonly", **environment}
    done = subprocess.run(command, cwd=SOURCES / module, env=settings, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"{' '.join(command)} failed in {SOURCES / module}; its messages are above")
    return done.stdout


def linker_flags(module: str) -> str:
    """The flags of the linker: no debug symbols, and for Kubernetes its version, which its own build would have filled in."""
    version = re.search(r"k8s\.io/kubernetes v(\d+)\.(\d+)\.(\d+)", (SOURCES / module / "go.mod").read_text("utf-8"))
    if module != "kubernetes" or version is None:
        return "-s -w"
    major, minor, _ = version.groups()
    values = {"gitVersion": version[0].split()[1], "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s -w", *(f"-X k8s.io/component-base/version.{name}={value}" for name, value in values.items())])


def main(modules: Sequence[str]) -> int:
    """0 when the modules are built, 1 when one cannot be, 2 for an unknown one."""
    if unknown := [module for module in modules if not (SOURCES / module / "go.mod").is_file()]:
        sys.stderr.write(f"no module {', '.join(unknown)} in {SOURCES}\n")
        return 2
    try:
        for module in modules or DEFAULT:
            sys.stdout.write(f"{build(module) / 'bin'}\n")
    except Unavailable as missing:
        sys.stderr.write(f"{missing}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
