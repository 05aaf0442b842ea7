"""What the scheduler says about pods, in kube-scheduler's words (pkg/scheduler/schedule_one.go and framework/preemption, 1.36)."""

from __future__ import annotations

from wharfinger.framework.ports import NORMAL, WARNING, Condition, Event, pod_reference
from wharfinger.model.pod import PodView

UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"
LONGEST = 32_768
"""Letters of a condition: what `metav1.Condition` allows. A pod with a longer one could not be stored, and each write of it would fail."""


def unscheduled(reason: str, message: str) -> Condition:
    """The condition of a pod that was not placed, with its message up to `LONGEST` letters: policies can have very many reasons."""
    whole = message if len(message) <= LONGEST else message[: LONGEST - 4] + " ..."
    return Condition(type="PodScheduled", status="False", reason=reason, message=whole)


def failed_scheduling(message: str) -> Event:
    """The event of a pod that was not placed."""
    return Event(type=WARNING, reason="FailedScheduling", action="Scheduling", note=message)


def assigned(pod: PodView, node: str) -> Event:
    """The event of a bound pod."""
    return Event(type=NORMAL, reason="Scheduled", action="Binding", note=f"Successfully assigned {pod.key} to {node}")


def disrupted(scheduler_name: str) -> Condition:
    """The condition of a pod that is evicted for another."""
    message = f"{scheduler_name}: preempting to accommodate a higher priority pod"
    return Condition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler", message=message)


def preempted(preemptor: PodView, node: str, scheduler_name: str) -> Event:
    """The event of a pod that is evicted for another."""
    return Event(
        type=NORMAL,
        reason="Preempted",
        action="Preempting",
        note=f"Preempted by pod {preemptor.uid} on node {node}",
        related=pod_reference(preemptor),
        reporter=scheduler_name,
    )
