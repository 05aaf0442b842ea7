"""Capacities that are predicted, and then tried on a cluster in memory; gains that are verified by the change itself."""

from __future__ import annotations

import random
from collections import Counter

import msgspec
from msgspec.structs import replace

import wharfinger
from tests.property.predictions.drawn_cluster import APPS, FEATURES, DrawnCluster, draw_template, drawn_pod
from tests.property.predictions.world import World, at_work
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.what_if.capacity import LessOf, Room
from wharfinger.what_if.further_pods import with_less
from wharfinger.what_if.supposed_changes import NodesLike, nodes_like


def asked_about(drawn: DrawnCluster) -> objects.Pod:
    """A pod of a random kind, without a controller."""
    template = {**draw_template(drawn, set(FEATURES) - {"extended", "devices"}, drawn.draw.choice(APPS)), "owner": ""}
    pod = drawn_pod(drawn, "asked", template)
    return msgspec.convert({**pod, "spec": {**pod["spec"], "preemptionPolicy": "Never"}}, objects.Pod)


async def placed(drawn: DrawnCluster, policies, pod: objects.Pod, count: int, extra=()) -> Counter[str | None]:
    """The number of pods on each node after so many pods of a kind are created; None: without a node."""
    world = World(drawn, policies, 0.0)
    async with at_work(world, waiting=False):
        for new in extra:
            for obj in (*new.slices, *((new.drivers,) if new.drivers else ()), new.node, *(each.object for each in new.pods)):
                world.cluster.put(obj)
        await world.calm()
        for number in range(count):
            metadata = replace(pod.metadata, name=f"more{number:03d}", uid=f"uid-more-{number}")
            world.create(replace(pod, metadata=metadata))
        await world.settle()
        return Counter(node for name, node in world.places().items() if name.startswith("more"))


async def capacity_problems(drawn: DrawnCluster, policies) -> tuple[Room, list[str]]:
    """The room for a random kind of pods, and what was not as predicted."""
    pod = asked_about(drawn)
    world = World(drawn, policies, 0.0)
    async with at_work(world, waiting=False):
        cluster = world.capture()
        models = {node.metadata.name: nodes_like(cluster.state.snapshot(), node.metadata.name) for node in drawn.nodes}
        [room] = wharfinger.capacity(policies, cluster, [PodView(pod)]).rooms
        like, count = random.Random(drawn.seed).choice(drawn.nodes).metadata.name, drawn.seed % 3 + 1
        extra = nodes_like(cluster.state.snapshot(), like, count)
        [larger] = wharfinger.capacity(policies, cluster, [PodView(pod)], nodes=count, like=like, changes=False).rooms
    problems = []
    found = await placed(drawn, policies, pod, larger.total + 1, extra)
    if found.total() - found[None] != larger.total or larger.added is None or larger.added.more != larger.total - room.total:
        problems.append(f"{count} more nodes like {like}: predicted {larger.total}, {larger.added}; found {dict(found)}")
    found = await placed(drawn, policies, pod, room.total + 1)
    waiting = found.pop(None, 0)
    predicted = Counter({share.place: share.placed + share.more for share in room.nodes})
    if found != predicted or waiting != 1:
        problems.append(f"predicted {dict(predicted)}, found {dict(found)} and {waiting} that wait; {room.stop}")
    for gain in room.gains:
        changed, extra = pod, ()
        if isinstance(gain.change, NodesLike):
            extra = models[gain.change.model]
        elif isinstance(gain.change, LessOf):
            smaller = with_less(PodView(pod), gain.change.resource, gain.change.amount)
            assert smaller is not None
            changed = smaller.object
        else:
            continue  # the chain without a rule is the same one that counts
        found = await placed(drawn, policies, changed, room.total + gain.more + 2, extra)
        found.pop(None, None)
        if found.total() - room.total != gain.more:
            problems.append(f"{gain.change}: predicted {gain.more} more, found {found.total() - room.total}: {dict(found)}")
    return room, problems
