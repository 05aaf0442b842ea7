"""`dist.py FOLDER` writes the files of a release there: the wheel, the chart, and the krew plugin with its manifest.

The same sources give the same bytes: files are in the order of their names, without owners, and as old as SOURCE_DATE_EPOCH says
(default: 1980).
"""  # noqa: INP001 — a script that is run by its path

from __future__ import annotations

import gzip
import hashlib
import os
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
OLDEST = 315532800
"""1980-01-01, the first day that a wheel can name; seconds."""


def wheel(folder: Path, moment: int) -> Path:
    """The wheel, built there."""
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(  # noqa: S603 — the Python of this process, with fixed arguments
        command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "SOURCE_DATE_EPOCH": str(moment)}
    )
    return folder / f"wharfinger-{version()}-py3-none-any.whl"


def chart(folder: Path, moment: int) -> Path:
    """The archive of the chart, with the manifests and policies that it links to."""
    source = ROOT / "deploy" / "chart"
    files = {path: f"wharfinger/{path.relative_to(source)}" for path in sorted(_followed(source))}
    return _archive(folder / f"wharfinger-{version()}.tgz", files, moment)


def plugin(folder: Path, made: Path, moment: int) -> Path:
    """The archive of the krew plugin, and beside it the manifest with its checksum."""
    source = ROOT / "deploy" / "krew"
    files = {source / "kubectl-wharf": "kubectl-wharf", ROOT / "LICENSE": "LICENSE", made: made.name}
    archive = _archive(folder / f"kubectl-wharf-{version()}.tar.gz", files, moment)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    manifest = (source / "wharf.yaml").read_text("utf-8").replace('sha256: "" # written by `make dist`', f"sha256: {digest}")
    (folder / "wharf.yaml").write_text(manifest, "utf-8")
    return archive


def version() -> str:
    """The version of the project."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return str(project["version"])


def _followed(folder: Path) -> list[Path]:
    """The files of a folder and of the folders that it links to."""
    return [Path(place, name) for place, _, names in os.walk(folder, followlinks=True) for name in names]


def _archive(place: Path, files: Mapping[Path, str], moment: int) -> Path:
    with (
        place.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=moment) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as tar,
    ):
        for path, name in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = path.stat().st_size, moment
            entry.mode = 0o755 if os.access(path, os.X_OK) else 0o644
            with path.open("rb") as content:
                tar.addfile(entry, content)
    return place


def main(folder: Path) -> None:
    """Writes everything, and says what."""
    folder.mkdir(parents=True, exist_ok=True)
    moment = int(os.environ.get("SOURCE_DATE_EPOCH", OLDEST))
    made = wheel(folder, moment)
    for path in (made, chart(folder, moment), plugin(folder, made, moment), folder / "wharf.yaml"):
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
