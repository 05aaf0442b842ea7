"""deploy/chart, by the real Helm."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.cluster import deployment
from tests.cluster.programs import built

FOLDER = deployment.FOLDER / "chart"
IMAGE = "image.repository=registry.example/wharfinger"
KUBERNETES = "1.36.0"
"""The version that `helm template` renders for; `helm install` reads from the API server."""


class HelmFailed(Exception):
    """Helm ended with an error; the text is what it wrote about it."""


def helm(*arguments: object, folder: Path, kubeconfig: Path | None = None) -> str:
    """The output of Helm. It keeps its files in `folder`. Raises HelmFailed."""
    homes = {f"HELM_{name}_HOME": str(folder / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
    access = {} if kubeconfig is None else {"KUBECONFIG": str(kubeconfig)}
    command = [str(built("helm")), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False, env={**os.environ, **homes, **access})
    if done.returncode:
        raise HelmFailed("\n".join(line for line in done.stderr.splitlines() if "found symbolic link" not in line))
    return done.stdout


def values(*settings: str) -> list[str]:
    """The flags that set values, the image among them."""
    return [word for setting in (IMAGE, *settings) for word in ("--set", setting)]
