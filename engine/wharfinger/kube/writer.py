"""What the scheduler writes about pods besides bindings.

Every write names the uid of the object it means, so that a pod of the same name that came later is left alone: a patch with another uid is
refused because a uid never changes, a deletion has it as its precondition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from wharfinger.framework.ports import Clock, Condition, WriteFailed
from wharfinger.kube.binder import path_of
from wharfinger.kube.connection import STRATEGIC_PATCH, Connection
from wharfinger.kube.patient_writes import PatientWrites
from wharfinger.model.pod import PodView
from wharfinger.model.timestamps import time_text


class ApiWriter:
    """A PodWriter that writes to an API server while `may_write` says so."""

    def __init__(self, connection: Connection, clock: Clock, may_write: Callable[[], bool] = lambda: True) -> None:
        self._clock = clock
        self._write = PatientWrites(connection, clock, may_write).write

    async def patch_status(self, pod: PodView, *, condition: Condition | None = None, nominated_node: str | None = None) -> None:
        """None, once the condition and the nominated node are written; nothing is sent when the pod has both already."""
        status: dict[str, Any] = {}
        if condition is not None and not _has(pod, condition):
            status["conditions"] = [self._condition(pod, condition)]
        if nominated_node is not None and nominated_node != pod.nominated_node:
            status["nominatedNodeName"] = nominated_node or None
        if status:
            body = msgspec.json.encode({"metadata": _identity(pod), "status": status})
            await self._write("PATCH", f"{path_of(pod)}/status", body, STRATEGIC_PATCH)

    async def delete(self, pod: PodView) -> None:
        """None, once the pod of this uid is being deleted or is gone."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if pod.object.metadata.uid:
            options["preconditions"] = {"uid": pod.object.metadata.uid}
        try:
            await self._write("DELETE", path_of(pod), msgspec.json.encode(options))
        except WriteFailed as failed:
            if not failed.gone:
                raise

    async def disrupt(self, victim: PodView, condition: Condition) -> None:
        """None, once the victim has the condition and is deleted; one that is gone already is fine."""
        try:
            await self.patch_status(victim, condition=condition)
        except WriteFailed as failed:
            if failed.gone:
                return
            raise
        await self.delete(victim)

    def _condition(self, pod: PodView, condition: Condition) -> dict[str, Any]:
        """The condition with its times: that of transition only changes with the status (UpdatePodCondition, pkg/api/v1/pod/util.go)."""
        written: dict[str, Any] = {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
            "lastProbeTime": None,
        }
        if pod.object.metadata.generation:
            written["observedGeneration"] = pod.object.metadata.generation
        if all((own.type, own.status) != (condition.type, condition.status) for own in pod.object.status.conditions):
            written["lastTransitionTime"] = time_text(self._clock.now())
        return written


def _has(pod: PodView, condition: Condition) -> bool:
    wanted = (condition.type, condition.status, condition.reason, condition.message)
    return any((own.type, own.status, own.reason, own.message) == wanted for own in pod.object.status.conditions)


def _identity(pod: PodView) -> dict[str, str]:
    return {"uid": pod.object.metadata.uid} if pod.object.metadata.uid else {}
