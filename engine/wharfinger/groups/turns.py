"""Turns: what the scheduling queue tries at one time, and their order.

A pod without a group is tried alone, the waiting members of a group together. The live queue and every question about the future (dry run,
capacity, a preview, …) order by these keys, so they agree with the scheduler.

The turn of a group is that of its first member, as in kube-scheduler 1.36, which takes the whole group when it takes a first pod of it
(`podGroupInfoForPod`, pkg/scheduler/schedule_one_podgroup.go). The priority of a PodGroup counts in place of its pods'.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from wharfinger.groups.membership import GroupIndex, group_index, rule_of_policies
from wharfinger.model.objects.pod_view import PodView
from wharfinger.steps import at_once

if TYPE_CHECKING:
    from wharfinger.framework.chain import Chain
    from wharfinger.model.state.cluster_state import ClusterState

Key: TypeAlias = Callable[["Chain", PodView], tuple[Any, ...]]
"""Returns the place of a pod in an order."""


class Turn(Struct, frozen=True, kw_only=True):
    """The unit that the queue tries at once: one pod, or the waiting members of a group, in the order in which they are tried.

    `group` is the key of the group, None for a pod without one.
    """

    pods: tuple[PodView, ...]
    group: str | None = None


def queue_key(chain: Chain, pod: PodView) -> tuple[Any, ...]:
    """The place of a pod in the scheduling queue: as the chain sorts it (priority), then creation time (unknown last), then key."""
    return chain.sort_key(pod), pod.created is None, pod.created or 0.0, pod.key


def age_key(_chain: Chain, pod: PodView) -> tuple[Any, ...]:
    """The place of a pod in the order in which a cluster is filled over time: by creation time (unknown last), then key."""
    return pod.created is None, pod.created or 0.0, pod.key


def with_priority(pod: PodView, priority: int | None) -> PodView:
    """The pod with the priority of its group, which replaces its own priority in the queue; the pod itself for None."""
    if priority is None or pod.priority == priority:
        return pod
    return PodView(replace(pod.object, spec=replace(pod.object.spec, priority=priority)))


def groups_among(chain: Chain, state: ClusterState, pods: Iterable[PodView]) -> GroupIndex:
    """The groups of pods that wait, with all of their members that are placed; empty if none of them belongs to a group."""
    index = _index(chain, state, pods)
    return _with_placed(index, state) if index else index


PODS_PER_STEP = 500
"""Pods that are looked at in one step."""


def groups_in_steps(chain: Chain, state: ClusterState, pods: Iterable[PodView]) -> Generator[None, None, GroupIndex]:
    """A generator of steps that returns the same as `groups_among`; the state must not change between two steps."""
    index = _index(chain, state, pods)
    if index:
        yield from _put_in_steps(index, state, _placed(state))
    return index


def groups_of_pods(chain: Chain, state: ClusterState, pods: Iterable[PodView]) -> Generator[None, None, GroupIndex]:
    """A generator of steps that returns the groups of all pods, `pods`; the state must not change between two steps."""
    index = GroupIndex(state.objects, rule_of_policies(chain.policies, state.snapshot))
    yield from _put_in_steps(index, state, pods)
    return index


def all_groups(chain: Chain, state: ClusterState, pods: Iterable[PodView]) -> GroupIndex:
    """The groups of pods that wait, and of all that are placed."""
    return _with_placed(_index(chain, state, pods), state)


def _index(chain: Chain, state: ClusterState, pods: Iterable[PodView]) -> GroupIndex:
    return group_index(pods, state.objects, rule_of_policies(chain.policies, state.snapshot))


def set_group_sizes(index: GroupIndex, state: ClusterState) -> None:
    """Store the number of members of each group in the state, for policies that read it."""
    for key in index:
        state.set_group_size(key, len(index.members(key)))


def _with_placed(index: GroupIndex, state: ClusterState) -> GroupIndex:
    at_once(_put_in_steps(index, state, _placed(state)))
    return index


def _placed(state: ClusterState) -> Iterator[PodView]:
    return (pod for pod, _ in state.placements())


def _put_in_steps(index: GroupIndex, state: ClusterState, pods: Iterable[PodView]) -> Generator[None]:
    """The steps of putting pods that have not ended into their groups, and of storing the sizes of these."""
    for number, pod in enumerate(pods):
        if not pod.finished:
            index.put(pod)
        if number % PODS_PER_STEP == PODS_PER_STEP - 1:
            yield
    set_group_sizes(index, state)


def turns(chain: Chain, index: GroupIndex, pods: Iterable[PodView], key: Key = queue_key) -> list[Turn]:
    """The turns of pods that wait, in order. Pods of a group have one turn together, also if others of the group do not wait."""
    if not index:
        return [Turn(pods=(pod,)) for pod in sorted(pods, key=lambda pod: key(chain, pod))]
    alone: list[PodView] = []
    grouped: dict[str, set[str]] = {}
    for pod in pods:
        own = index.key_of(pod.uid)
        if own is None:
            alone.append(pod)
        else:
            grouped.setdefault(own, set()).add(pod.uid)
    found = [(key(chain, pod), Turn(pods=(pod,))) for pod in alone]
    for own, uids in grouped.items():
        terms = index.terms(own)
        members = tuple(pod for pod in index.members(own) if pod.uid in uids)
        priority = None if terms is None else terms.priority
        found.append((min(key(chain, with_priority(pod, priority)) for pod in members), Turn(pods=members, group=own)))
    return [turn for _, turn in sorted(found, key=lambda item: item[0])]
