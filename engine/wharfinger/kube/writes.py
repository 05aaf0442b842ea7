"""Writes to the API server: bindings, status and deletion of pods, status of PodGroups, volumes and their claims, evictions, cordons.

`POST …/pods/NAME/binding` with the pod's uid either happens or does not. If the answer leaves that open (none at all, a 5xx) and after a
conflict, the pod is read: bound to that node is success, no matter which process did it.

Every other write names the uid of its object, so a later pod of the same name is left alone: a patch with another uid is refused because
a uid never changes, a deletion has it as its precondition. Writes are repeated until they are carried out or refused.

Moves of pods are written too: `POST …/pods/NAME/eviction` with the pod's uid is accepted if the PodDisruptionBudgets allow it, and answered
with 429 while they do not (pkg/registry/core/pod/storage/eviction.go, Kubernetes 1.36). A cordon is `spec.unschedulable`, as
`kubectl cordon` sets it. Neither is repeated here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from wharfinger.errors import InvalidObject
from wharfinger.framework.ports import BindFailed, Clock, Condition, WriteFailed
from wharfinger.kube import api_errors
from wharfinger.kube.api_errors import RequestBackoff
from wharfinger.kube.connection import JSON, MERGE_PATCH, STRATEGIC_PATCH, Connection
from wharfinger.model import objects
from wharfinger.model.objects import ObjectMeta, PersistentVolume, PersistentVolumeClaim, PodGroup
from wharfinger.model.objects.metadata import time_text
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode

_BIND_ATTEMPTS = 5  # while the server is too busy; then the pod queues again

_ATTEMPTS = 5

_OTHER_UID = re.compile(r"UID in (?:the )?precondition|uid mismatch")
"""The API server's message about another object of that name (rest.BeforeDelete, storage.Preconditions.Check, the patch handler, 1.36)."""

_BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"


class ApiBinder:
    """A Binder that writes to an API server. `may_write` is called right before sending: without the lease nothing is bound."""

    def __init__(self, connection: Connection, clock: Clock, may_write: Callable[[], bool] = lambda: True) -> None:
        self._connection = connection
        self._clock = clock
        self._may_write = may_write
        self.in_flight = 0

    async def bind(self, pod: PodView, node: str) -> None:
        """Return once the pod with exactly this uid is bound to the node; otherwise raises BindFailed."""
        self.in_flight += 1
        try:
            await self._bind(pod, node)
        finally:
            self.in_flight -= 1

    async def _bind(self, pod: PodView, node: str) -> None:
        waits = RequestBackoff()
        for left in reversed(range(_BIND_ATTEMPTS)):
            try:
                await self._connection.request("POST", f"{path_of(pod)}/binding", body=binding(pod, node), before=self._still_leading)
            except api_errors.TooManyRequests as error:
                if not left:
                    raise BindFailed(f"the API server is too busy: {error}") from error
                await self._clock.sleep(waits.after(error))
            except api_errors.ApiError as error:
                await self._classify(pod, node, error)
                return
            else:
                return

    def _still_leading(self) -> None:
        if not self._may_write():
            raise BindFailed("this process is not the leader any more")

    async def _classify(self, pod: PodView, node: str, error: api_errors.ApiError) -> None:
        """Return if the binding was written after all; raise BindFailed otherwise."""
        if isinstance(error, api_errors.NotFound):
            raise BindFailed(str(error), retriable=False, gone=True) from error
        if not isinstance(error, api_errors.Conflict | api_errors.ServerError | api_errors.Unreachable):
            raise BindFailed(str(error)) from error
        found = await self._current_pod(pod, error)
        if found is None or (pod.object.metadata.uid and found.metadata.uid != pod.object.metadata.uid):
            raise BindFailed(f"the pod is gone: {error}", retriable=False, gone=True) from error
        if found.spec.node_name == node:
            return
        if found.spec.node_name:
            raise BindFailed(f"the pod is bound to {found.spec.node_name}", retriable=False, bound=True) from error
        if found.metadata.deletion_timestamp is not None:
            raise BindFailed("the pod is being deleted", retriable=False, gone=True) from error
        raise BindFailed(str(error), unknown=isinstance(error, api_errors.Unreachable)) from error

    async def _current_pod(self, pod: PodView, error: api_errors.ApiError) -> objects.Pod | None:
        """The pod as it is now; None if it does not exist."""
        try:
            return decode.decode_json(await self._connection.request("GET", path_of(pod)), objects.Pod)
        except api_errors.NotFound:
            return None
        except (api_errors.ApiError, InvalidObject) as unread:
            unknown = not isinstance(error, api_errors.Conflict)
            raise BindFailed(f"{error}; then {unread}", unknown=unknown) from unread


def path_of(pod: PodView) -> str:
    """The path of a pod."""
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def binding(pod: PodView, node: str) -> bytes:
    """The Binding of a pod to a node, which the API server refuses for a pod of another uid.

    The API server copies the annotations of a Binding to the pod in the same write.
    """
    metadata: dict[str, Any] = {"name": pod.name, "namespace": pod.namespace}
    if pod.object.metadata.uid:
        metadata["uid"] = pod.object.metadata.uid
    if pod.assigned:
        metadata["annotations"] = dict(pod.assigned)
    return msgspec.json.encode(
        {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"apiVersion": "v1", "kind": "Node", "name": node}}
    )


class GuardedWrites:
    """Writes to an API server while `may_write` is true, which is checked right before sending."""

    def __init__(self, connection: Connection, clock: Clock, may_write: Callable[[], bool]) -> None:
        self._connection = connection
        self._clock = clock
        self._may_write = may_write
        self.in_flight = 0

    async def write(self, method: str, path: str, body: bytes, content_type: str = JSON) -> bytes:
        """The answer, once it is written; raises WriteFailed from the ApiError with the reason otherwise."""
        self.in_flight += 1
        try:
            return await self._until_written(method, path, body, content_type)
        finally:
            self.in_flight -= 1

    async def _until_written(self, method: str, path: str, body: bytes, content_type: str) -> bytes:
        waits = RequestBackoff()
        for left in reversed(range(_ATTEMPTS)):
            try:
                return await self._connection.request(method, path, body=body, content_type=content_type, before=self._still_leading)
            except api_errors.TRANSIENT as error:
                if not left:
                    raise WriteFailed(str(error)) from error
                await self._clock.sleep(waits.after(error))
            except api_errors.ApiError as error:
                raise failure(error) from error
        raise AssertionError("the last attempt has returned or raised")

    def _still_leading(self) -> None:
        if not self._may_write():
            raise WriteFailed("this process is not the leader any more")


def failure(error: api_errors.ApiError) -> WriteFailed:
    """The failure for a refusal. An object that was replaced shows as a conflict of uids, or as an invalid uid of a patch.

    Any other conflict says that the object has changed: it is still there. kube-scheduler takes such a victim for one that stays, too
    (pkg/scheduler/framework/preemption/executor.go, 1.36).
    """
    invalid = isinstance(error, api_errors.Invalid)
    replaced = (isinstance(error, api_errors.Conflict) and _OTHER_UID.search(str(error))) or (invalid and "metadata.uid" in str(error))
    is_gone = isinstance(error, api_errors.NotFound) or bool(replaced)
    retriable = not (is_gone or invalid or isinstance(error, api_errors.BadRequest))
    declined = not isinstance(error, api_errors.ServerError | api_errors.Unreachable)
    return WriteFailed(str(error), retriable=retriable, gone=is_gone, declined=declined)


class ApiWriter:
    """A PodWriter that writes to an API server while `may_write` is true."""

    def __init__(self, connection: Connection, clock: Clock, may_write: Callable[[], bool] = lambda: True) -> None:
        self._clock = clock
        self._write = GuardedWrites(connection, clock, may_write).write

    async def patch_status(self, pod: PodView, *, condition: Condition | None = None, nominated_node: str | None = None) -> None:
        """Write the condition and the nominated node; send nothing if the pod has both already."""
        await self._patch_status(pod, condition, nominated_node)

    async def _patch_status(
        self, pod: PodView, condition: Condition | None, nominated_node: str | None = None, *, dry_run: bool = False
    ) -> None:
        status: dict[str, Any] = {}
        if condition is not None and not _has(pod, condition):
            status["conditions"] = [self._condition(pod, condition)]
        if nominated_node is not None and nominated_node != pod.nominated_node:
            status["nominatedNodeName"] = nominated_node or None
        if status:
            body = msgspec.json.encode({"metadata": _identity(pod), "status": status})
            await self._write("PATCH", f"{path_of(pod)}/status{'?dryRun=All' if dry_run else ''}", body, STRATEGIC_PATCH)

    async def delete(self, pod: PodView) -> None:
        """Delete the pod of this uid; a pod that is already deleted is no error."""
        await self._delete(pod)

    async def _delete(self, pod: PodView, *, dry_run: bool = False) -> None:
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if pod.object.metadata.uid:
            options["preconditions"] = {"uid": pod.object.metadata.uid}
        if dry_run:  # with options in the body, the API server does not read those of the query (DeleteResource, handlers/delete.go, 1.36)
            options["dryRun"] = ["All"]
        try:
            await self._write("DELETE", path_of(pod), msgspec.json.encode(options))
        except WriteFailed as failed:
            if not failed.gone:
                raise

    async def disrupt(self, victim: PodView, condition: Condition) -> None:
        """Write the condition on the victim and delete it; a victim that is already deleted is no error."""
        await self._disrupt(victim, condition)

    async def try_disrupt(self, victim: PodView, condition: Condition) -> None:
        """Send the same requests with `dryRun`: the API server checks them, admission included, and changes nothing."""
        await self._disrupt(victim, condition, dry_run=True)

    async def _disrupt(self, victim: PodView, condition: Condition, *, dry_run: bool = False) -> None:
        try:
            await self._patch_status(victim, condition, dry_run=dry_run)
        except WriteFailed as failed:
            if failed.gone:
                return
            raise
        await self._delete(victim, dry_run=dry_run)

    def _condition(self, pod: PodView, condition: Condition) -> dict[str, Any]:
        """The condition with its times; the transition time changes only with the status (UpdatePodCondition, pkg/api/v1/pod/util.go)."""
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


class ApiPodGroupWriter:
    """A PodGroupWriter that writes to an API server while `may_write` is true; `served` is the path of PodGroups in the served version."""

    def __init__(
        self, connection: Connection, clock: Clock, served: Callable[[], str], may_write: Callable[[], bool] = lambda: True
    ) -> None:
        self._clock = clock
        self._served = served
        self._write = GuardedWrites(connection, clock, may_write).write

    @property
    def api_version(self) -> str:
        """`scheduling.k8s.io/v1alpha2`, or a later version."""
        return self._served().removeprefix("/apis/").rpartition("/")[0]

    async def patch_condition(self, group: PodGroup, condition: Condition) -> None:
        """Write the condition; the time of transition changes only with the status (SetStatusCondition, apimachinery/pkg/api/meta)."""
        written: dict[str, Any] = {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
        }
        if group.metadata.generation:
            written["observedGeneration"] = group.metadata.generation
        if all((own.type, own.status) != (condition.type, condition.status) for own in group.status.conditions):
            written["lastTransitionTime"] = time_text(self._clock.now())
        base, _, plural = self._served().rpartition("/")
        path = f"{base}/namespaces/{group.metadata.namespace or 'default'}/{plural}/{group.metadata.name}/status"
        body = {"metadata": _uid(group.metadata), "status": {"conditions": [written]}}
        await self._write("PATCH", path, msgspec.json.encode(body), STRATEGIC_PATCH)


class ApiVolumeWriter:
    """A VolumeWriter that writes to an API server while `may_write` is true."""

    def __init__(self, connection: Connection, clock: Clock, may_write: Callable[[], bool] = lambda: True) -> None:
        self._write = GuardedWrites(connection, clock, may_write).write

    async def annotate_claim(self, claim: PersistentVolumeClaim, annotations: Mapping[str, str]) -> None:
        """Write annotations on the claim; WriteFailed if it has been replaced by another one."""
        path = f"/api/v1/namespaces/{claim.metadata.namespace or 'default'}/persistentvolumeclaims/{claim.metadata.name}"
        body = {"metadata": {**_uid(claim.metadata), "annotations": dict(annotations)}}
        await self._write("PATCH", path, msgspec.json.encode(body), MERGE_PATCH)

    async def reserve_volume(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        """Reserve the volume for the claim; WriteFailed if it has changed since it was chosen.

        Source: GetBindVolumeToClaim, component-helpers/storage/volume/helpers.go, Kubernetes 1.36.
        """
        version = {"resourceVersion": volume.metadata.resource_version} if volume.metadata.resource_version else {}
        body = {
            "metadata": {**_uid(volume.metadata), **version, "annotations": {_BOUND_BY_CONTROLLER: "yes"}},
            "spec": {"claimRef": _claim_reference(claim)},
        }
        await self._write("PATCH", f"/api/v1/persistentvolumes/{volume.metadata.name}", msgspec.json.encode(body), MERGE_PATCH)


class ApiEvictions:
    """Evictions and cordons. Each call is one request; the caller repeats it as long as that is worth it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def evict(self, pod: PodView) -> None:
        """Evict the pod of this uid; Raises WriteFailed, which has the information whether a retry may succeed or the pod is deleted."""
        uid = pod.object.metadata.uid
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": uid}} if uid else {},
        }
        await self._send("POST", f"{path_of(pod)}/eviction", msgspec.json.encode(body))

    async def set_cordon(self, node: str, annotations: Mapping[str, str | None], *, cordoned: bool) -> None:
        """Cordon the node, or uncordon it; in the same write, set these annotations of the node, and remove those that are None."""
        body = {"metadata": {"annotations": annotations}, "spec": {"unschedulable": True if cordoned else None}}
        await self._send("PATCH", f"/api/v1/nodes/{node}", msgspec.json.encode(body), MERGE_PATCH)

    async def _send(self, method: str, path: str, body: bytes, content_type: str = JSON) -> None:
        try:
            await self._connection.request(method, path, body=body, content_type=content_type)
        except (api_errors.Forbidden, api_errors.Unauthorized) as error:
            raise WriteFailed(str(error), retriable=False, declined=True) from error
        except api_errors.ApiError as error:
            raise failure(error) from error


def _claim_reference(claim: PersistentVolumeClaim) -> dict[str, str]:
    fields = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.metadata.namespace or "default",
        "name": claim.metadata.name,
        "uid": claim.metadata.uid,
        "resourceVersion": claim.metadata.resource_version,
    }
    return {name: value for name, value in fields.items() if value}


def _uid(metadata: ObjectMeta) -> dict[str, str]:
    return {"uid": metadata.uid} if metadata.uid else {}
