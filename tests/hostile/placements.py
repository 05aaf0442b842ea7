"""Texts whose tests place many pods, on many nodes or beside many others, or make them evict each other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.hostile.writing import POLICY, Q, each

GROUPS = 'group by pod.labels["job"] { min_count 2 }\n'


def placing(n: int, *steps: str, pod: str = "{}", before: str = "", place: str = "place p{0}") -> str:
    """A policy with a test that makes one node and the objects of `steps`, and then n pods that are placed."""
    pods = each(f"pod p{{0}} {pod} {place}", n)
    return f"{POLICY}{before}filter f {{ require node.pod_count < 3000 }}\n" + "\n".join(
        [f"test {Q}t{Q} {{", "node a {}", *steps, *pods, "place group g" if not place else "", "expect p0 on a", "}", ""]
    )


FAMILIES: dict[str, Callable[[int], str]] = {
    "pods that are placed in a test": placing,
    "pods that are placed among nodes": lambda n: placing(n, *each("node n{0}", 40)),
    "pods that are placed on one of very many nodes": lambda n: placing(n // 4, *each("node n{0}", 1200)),
    "pods that are placed beside others": lambda n: placing(n, *each("running r{0} on a", 1500)),
    "pods that evict others in a test": lambda n: placing(
        n,
        *each("node n{0} running r{0} on n{0} { requests: { cpu: 8cpu } }", 100),
        pod="{ priority: {0}, requests: { cpu: 8cpu } }",
    ),
    "members of a group that are placed in a test": lambda n: placing(n, pod="{ labels: { job: 'g' } }", before=GROUPS, place=""),
}

PRODUCTS: dict[str, Callable[[int], str]] = {name: lambda n, family=family: family(3 * n) for name, family in FAMILIES.items()}  # type: ignore[misc]

# As many pods as a test may have.
WITHIN: dict[str, Callable[[], str]] = {
    f"{name}, as many as may be": partial(family, most)
    for (name, family), most in zip(FAMILIES.items(), (380, 260, 70, 60, 52, 380), strict=True)
}
