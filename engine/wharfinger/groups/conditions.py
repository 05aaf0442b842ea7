"""What the status of a PodGroup says, in kube-scheduler's words.

kube-scheduler 1.36 names neither the domain nor the reason. Here its sentence comes first, so that tools that know it go on working, and
then what stops the group.

Source: submitPodGroupAlgorithmResult and updatePodGroupCondition, pkg/scheduler/schedule_one_podgroup.go; plugins/topologyaware; Kubernetes
1.36.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wharfinger.framework.ports import Condition, condition_message
from wharfinger.groups.terms import Group
from wharfinger.model import objects

if TYPE_CHECKING:
    from wharfinger.model.state.snapshot import Snapshot

SCHEDULED = "PodGroupScheduled"
DISRUPTED = "DisruptionTarget"
UNSCHEDULABLE = "pod group is unschedulable"
WAITS_FOR_PREEMPTION = "pod group is waiting for preemption to complete"


def scheduled() -> Condition:
    """The condition of a group of which as many members are placed as must be."""
    return Condition(type=SCHEDULED, status="True", reason="Scheduled", message="")


def unschedulable(message: str) -> Condition:
    """The condition of a group that is not placed now."""
    return Condition(type=SCHEDULED, status="False", reason="Unschedulable", message=condition_message(message))


def scheduler_error(message: str) -> Condition:
    """The condition of a group for which deciding failed."""
    return Condition(type=SCHEDULED, status="False", reason="SchedulerError", message=condition_message(message))


def disrupted(scheduler_name: str, preemptor: str = "pod") -> Condition:
    """The condition of a group that is evicted as a whole for a `pod` or `podgroup`."""
    message = f"{scheduler_name}: preempting to accommodate a higher priority {preemptor}"
    return Condition(type=DISRUPTED, status="True", reason="PreemptionByScheduler", message=message)


def rejection(group: Group, snapshot: Snapshot, why: str = "") -> str:
    """The message about a group that is not placed: kube-scheduler's sentence, then `why`."""
    said = _rejection(placements(group, snapshot))
    return f"{said}; {why}" if why else said


def _rejection(count: int) -> str:
    if not count:
        return "no feasible placements found"
    return f"0/{count} placements are available, first placement status: {UNSCHEDULABLE}"


def placements(group: Group, snapshot: Snapshot) -> int:
    """The number of domains that the group can choose from: of its last required level, only that of placed members if there are any.

    1 without a required level: the whole cluster.
    """
    keys = [level.key for level in group.terms.levels if level.required]
    if not keys:
        return 1
    domains, _ = snapshot.domain(keys[-1])
    placed = [row for pod in group.placed if (row := snapshot.row(pod.node_name)) is not None]
    found = domains[placed] if placed else domains
    return len(np.unique(found[found >= 0]))


def keeps(group: objects.PodGroup, condition: Condition) -> bool:
    """True if a condition must not replace that of the group, or would not change it: a group once scheduled stays so."""
    for known in group.status.conditions:
        if known.type == condition.type:
            same = (known.status, known.reason, known.message) == (condition.status, condition.reason, condition.message)
            return same or (known.status == "True" and condition.status != "True")
    return False
