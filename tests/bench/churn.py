"""Measures memory while everything changes: `python -m tests.bench.churn [MINUTES [NODES]]`.

A scheduler on a cluster in memory, with a clock that is moved by hand: policies are replaced, annotations, taints and labels of nodes
change, nodes and pods come and go, pods wait and are looked into as a preview would. Every simulated minute what is kept is counted;
after the first tenth none of it may grow.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import tracemalloc
from collections.abc import AsyncIterator

import msgspec

from tests.unit.compiler.texts import compiled
from tests.unit.scheduler.running import Running, node, pod
from wharfinger.compiler.program import CompiledPolicy
from wharfinger.emit import Subscribers
from wharfinger.framework.chain import Chain, assemble, with_policies
from wharfinger.framework.evaluation.cycle import decide
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView

NAME = "wharfinger"
STEP = 5.0  # simulated seconds between two rounds of changes
STEPS_A_MINUTE = int(60 / STEP)
STAY = 40  # pods that are there at a time, in rounds of four


def policy(edition: int) -> CompiledPolicy:
    """A policy that reads what changes; each edition is another text."""
    return compiled(
        f"""policy "until" version "{edition}.0.0"
        param most: count = {5 + edition % 3} range 1..50
        let here = count(pods where it.labels["app"] == pod.labels["app"] and it.name != pod.name, on: node)
        filter free {{ require (node.annotations["until"] ?? "") != "edition {edition}" else "reserved" }}
        filter room {{ require here < most else "{{here}} here" }}
        score late weight 1 = if ends_with(node.annotations["until"] ?? "", "7") then 100 else 0
        score mine weight 1 = if node.annotations["until"] == pod.labels["run"] then 100 else 0 on missing 0
        """
    )


def changed(name: str, moment: int) -> objects.Node:
    """A node as it is at a moment: another annotation, taint and device each time, now and then another zone."""
    plain = node(name, cpu="64", labels={"zone": f"z{moment // 50 % 3}", f"seen-{moment % 7}": "x"})
    metadata = msgspec.structs.replace(plain.metadata, annotations={"until": f"{name} {moment}"})
    taints = (objects.Taint(key="soft", value=str(moment), effect="PreferNoSchedule"),)
    offer = {**plain.status.allocatable, f"example.com/slice-{moment}": "1"}
    status = msgspec.structs.replace(plain.status, allocatable=offer)
    return msgspec.structs.replace(plain, metadata=metadata, spec=msgspec.structs.replace(plain.spec, taints=taints), status=status)


def arrival(number: int, moment: int) -> objects.Pod:
    """A pod of its own template; every fifth fits on no node."""
    spread = [{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": "a"}}}]
    more = {"nodeSelector": {f"own-{number}": "none"}} if number % 5 == 0 else {"topologySpreadConstraints": spread}
    return pod(f"p{number}", cpu="100m", labels={"app": "ab"[number % 2], "run": str(moment)}, **more)


def counts(world: Running) -> dict[str, int]:
    """The size of what is kept, by name."""
    tables = world.scheduler.state._tables
    gc.collect()
    return {
        "objects": len(gc.get_objects()),
        "bytes": tracemalloc.get_traced_memory()[0],
        "strings": len(tables.nodes.strings),
        "taint sets": len(tables.nodes.taints),
        "resources": len(tables.nodes.resources.index),
        "columns": len(tables.nodes.rows.columns),
        "selections": len(tables.selections),
        "classes": len(tables.pods.classes),
    }


async def churn(minutes: int, n_nodes: int) -> AsyncIterator[dict[str, int]]:
    """The counts after each simulated minute."""
    base = assemble()
    world = Running({NAME: base}, subscribers=Subscribers())
    names = [f"n{number}" for number in range(n_nodes)]
    for name in names:
        world.cluster.put(changed(name, 0))
    world.cluster.connect(world.scheduler.sink)
    task = asyncio.create_task(world.scheduler.run())
    number = 0
    try:
        for moment in range(1, minutes * STEPS_A_MINUTE + 1):
            for name in names:
                world.cluster.put(changed(name, moment))
            gone = names[moment % n_nodes]
            world.cluster.remove("Node", gone)
            world.cluster.put(changed(gone, moment))
            for _ in range(4):
                world.cluster.put(arrival(number, moment))
                if number >= STAY:
                    world.cluster.remove("Pod", f"default/p{number - STAY}")
                number += 1
            if moment % 6 == 0:
                world.scheduler.adopt({NAME: with_policies(base, [policy(moment)])})
            look_into(world, base, number, moment)
            await world.pass_time(STEP, step=STEP)
            world.cluster.events.clear()
            world.cluster.bindings.clear()
            if moment % STEPS_A_MINUTE == 0:
                yield counts(world)
    finally:
        world.scheduler.stop()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def look_into(world: Running, base: Chain, number: int, moment: int) -> None:
    """Decide about a pod under a policy that is not in force, as a preview does."""
    asked = PodView(arrival(number + 1_000_000, moment))
    decide(with_policies(base, [policy(-moment)]), world.scheduler.state.snapshot(), asked)


async def measured(minutes: int, n_nodes: int) -> list[dict[str, int]]:
    """The counts of all minutes."""
    return [count async for count in churn(minutes, n_nodes)]


def growth(found: list[dict[str, int]]) -> dict[str, float]:
    """By how much the most that was kept in the last half is more than the most in the first tenth to half, by what."""
    begun, half = max(1, len(found) // 10), len(found) // 2
    early, late = found[begun : max(half, begun + 1)], found[half:]
    return {name: max(each[name] for each in late) / max([1, *(each[name] for each in early)]) for name in found[0]}


def main(arguments: list[str]) -> None:
    """Print the counts of some minutes and the growth."""
    minutes, n_nodes = (*map(int, arguments), 60, 100)[:2] if len(arguments) < 2 else map(int, arguments[:2])
    tracemalloc.start()
    found = asyncio.run(measured(minutes, n_nodes))
    for minute in range(0, minutes, max(1, minutes // 10)):
        print(minute + 1, json.dumps(found[minute]))  # noqa: T201 - what the program is for
    print("growth", json.dumps(growth(found)))  # noqa: T201 - as above


if __name__ == "__main__":
    main(sys.argv[1:])
