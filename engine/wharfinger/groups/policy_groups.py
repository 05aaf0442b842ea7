"""The groups of policies: which group the policies that govern a pod put it into, and what they say of it.

Several policies may govern a pod. The group has the name that the pod itself gives, or the first policy by name that has one for it; of the
others, those count that put the pod into the same group. What they say is added up as filters are: every level and topology key holds, the
largest minimum, and the shortest timeout. With `spread_over`, different groups go to different domains, where possible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from wharfinger.groups.membership import GroupRule, no_rule
from wharfinger.groups.terms import Disruption, GroupTerms, Level
from wharfinger.model.state.object_store import TimeAndObjects

if TYPE_CHECKING:
    from wharfinger.compiler.groups import CompiledGroup, Membership
    from wharfinger.compiler.program import CompiledPolicy
    from wharfinger.framework.chain import Chain
    from wharfinger.groups.domains import Domain
    from wharfinger.groups.terms import Group
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.object_store import Circumstances
    from wharfinger.model.state.snapshot import Snapshot


def group_of_policy(policy: CompiledPolicy, pod: PodView, at: Circumstances) -> tuple[str, GroupTerms] | None:
    """The name of the pod's group within its namespace and what one policy says of it; None where the policy puts the pod into no group."""
    membership = None if policy.group is None else policy.group.of(pod, at)
    return None if policy.group is None or membership is None else (membership.name, _terms(policy.name, policy.group, membership))


def _terms(policy: str, group: CompiledGroup, membership: Membership) -> GroupTerms:
    said = group.terms
    return GroupTerms(
        min_count=membership.min_count,
        source=f"policy {policy}",
        levels=tuple(Level(level.key, required=level.required) for level in said.levels),
        spread=said.spread_over,
        timeout=membership.timeout,
        disruption=Disruption.GROUP if said.whole else Disruption.POD,
        reserve=said.reserve,
    )


def group_of_policies(policies: Sequence[CompiledPolicy], pod: PodView, at: Circumstances) -> tuple[str, GroupTerms] | None:
    """The name of the pod's group and what all policies together say of it; None for a pod that no policy puts into a group."""
    found = [group for policy in policies if policy.group is not None and (group := group_of_policy(policy, pod, at)) is not None]
    if not found:
        return None
    name = found[0][0]
    return name, joined([terms for other, terms in found if other == name])


def joined(said: Sequence[GroupTerms]) -> GroupTerms:
    """What several policies say of one group, as one; a level that one of them requires is required."""
    if len(said) == 1:
        return said[0]
    required: dict[str, bool] = {}
    for level in (level for terms in said for level in terms.levels):
        required[level.key] = required.get(level.key, False) or level.required
    return GroupTerms(
        min_count=max(terms.min_count for terms in said),
        source=", ".join(terms.source for terms in said),
        levels=tuple(Level(key, required=hard) for key, hard in required.items()),
        spread=tuple(dict.fromkeys(key for terms in said for key in terms.spread)),
        timeout=min(terms.timeout for terms in said),
        disruption=Disruption.GROUP if any(terms.disruption is Disruption.GROUP for terms in said) else Disruption.POD,
        reserve=any(terms.reserve for terms in said),
    )


def rule_of_policies(policies: Sequence[CompiledPolicy], at: Callable[[], Circumstances]) -> GroupRule:
    """The rule that puts pods into groups (for `GroupIndex`); `no_rule` if no policy has groups, so that nothing is asked of pods then."""
    having = tuple(sorted((policy for policy in policies if policy.group is not None), key=lambda policy: policy.name))
    return (lambda pod: group_of_policies(having, pod, at())) if having else no_rule


def crowding(chain: Chain, snapshot: Snapshot, group: Group) -> Callable[[Domain], float]:
    """A function of domains: how many placed pods of other groups are there, of the policies that spread this group.

    For each topology key of `spread_over`, the pods count that share a value of the key with a node of the domain.
    """
    keys = group.terms.spread
    if not keys or not group.waiting:
        return lambda _: 0.0
    pod, at = group.waiting[0], TimeAndObjects(snapshot.now, snapshot.objects)
    speaking = [
        policy for policy in chain.policies if policy.group is not None and policy.group.terms.spread_over and policy.governs(pod, snapshot)
    ]

    def is_other(placed: PodView) -> bool:
        found = (group_of_policy(policy, placed, at) for policy in speaking)
        return any(each is not None and f"{placed.namespace}/{each[0]}" != group.key for each in found)

    identity = ("groups", "spread over", tuple(policy.revision for policy in speaking), at.objects.namespace_labels, group.key)
    selection = snapshot.selection(identity, is_other, passing=True)
    selection.follow()
    counts = []
    for key in keys:
        ids, _ = snapshot.domain(key)
        by_domain = np.append(selection.by_domain(key), 0.0)
        counts.append((ids.copy(), by_domain.copy()))

    def crowd(domain: Domain) -> float:
        return float(sum(by_domain[np.unique(ids[domain.rows])].sum() for ids, by_domain in counts))

    return crowd
