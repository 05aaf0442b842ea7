"""Where the other groups of a policy are, for `spread_over`: different groups go to different domains, where possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from wharfinger.groups.policy_groups import group_of_policy
from wharfinger.model.state.tables import TimeAndObjects

if TYPE_CHECKING:
    from wharfinger.framework.chain import Chain
    from wharfinger.groups.domains import Domain
    from wharfinger.groups.terms import Group
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot


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
