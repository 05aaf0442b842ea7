"""Policies of a running `wharf run`: their texts, the folder where they are mounted, and their status."""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict

BROKEN = 'policy "where"\nfilter pool { require node.lables == }\n'


def where(pool):
    """A policy for the nodes of one pool."""
    return f'policy "where"\nfilter pool {{ require node.labels["pool"] == "{pool}" else "not {pool}" on missing reject }}\n'


class Mounted:
    """A ConfigMap as the kubelet mounts it: each version in a new hidden folder, `..data` moved to it by a rename."""

    def __init__(self, root):
        self.root = root
        self._versions = 0
        root.mkdir()

    def write(self, **keys):
        """Replace all keys of the folder by these at once."""
        self._versions += 1
        fresh = self.root / f"..2026_01_01_{self._versions}"
        fresh.mkdir()
        for key, content in keys.items():
            (fresh / f"{key}.policy").write_text(content)
        (self.root / "..data_tmp").symlink_to(fresh.name)
        (self.root / "..data_tmp").rename(self.root / "..data")
        for key in keys:
            with contextlib.suppress(FileExistsError):
                (self.root / f"{key}.policy").symlink_to(f"..data/{key}.policy")


def policies(wharf):
    """The state of each policy by its key."""
    found = json.loads(wharf.get("/policies")[1])
    return {policy["key"]: policy["state"] for policy in found["policies"]}


def revision(wharf):
    """The revision of the first policy."""
    return json.loads(wharf.get("/policies")[1])["policies"][0]["revision"]


def scheduled(wharf):
    """The lines of the log about placed pods."""
    lines = [json.loads(line) for line in wharf.log.splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == "attempt" and line["result"] == "scheduled"]


def pools_by_revision(wharf, pools):
    """The pools of the nodes chosen, by the revision of the policies that chose them."""
    found = defaultdict(set)
    for line in scheduled(wharf):
        found[line["policy_revision"]].add(pools[line["node"]])
    return dict(found)


def bound(api):
    """The number of bound pods."""
    return sum("nodeName" in pod["spec"] for pod in api.list("Pod"))
