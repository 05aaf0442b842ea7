"""Bindings: the one write that must not go wrong.

`POST …/pods/NAME/binding` with the pod's uid is atomic, but its outcome can be unknown. After an answer that leaves it open (none, or a
5xx) and after a conflict, the pod itself is read: if it is bound to that node, the binding has succeeded, no matter who wrote it.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from wharfinger.errors import InvalidObject
from wharfinger.framework.ports import BindFailed, Clock
from wharfinger.kube import refusals
from wharfinger.kube.connection import Connection
from wharfinger.kube.refusals import Backoff
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode

_ATTEMPTS = 5  # while the server is too busy; then the pod queues again


class ApiBinder:
    """A Binder that writes to an API server. `may_write` is called right before sending: without the lease nothing is bound."""

    def __init__(self, connection: Connection, clock: Clock, may_write: Callable[[], bool] = lambda: True) -> None:
        self._connection = connection
        self._clock = clock
        self._may_write = may_write
        self.in_flight = 0

    async def bind(self, pod: PodView, node: str) -> None:
        """Returns once the pod with exactly this uid is bound to the node; BindFailed says what is known otherwise."""
        self.in_flight += 1
        try:
            await self._bind(pod, node)
        finally:
            self.in_flight -= 1

    async def _bind(self, pod: PodView, node: str) -> None:
        waits = Backoff()
        for left in reversed(range(_ATTEMPTS)):
            try:
                await self._connection.request("POST", f"{path_of(pod)}/binding", body=binding(pod, node), before=self._still_leading)
            except refusals.TooManyRequests as error:
                if not left:
                    raise BindFailed(f"the API server is too busy: {error}") from error
                await self._clock.sleep(waits.after(error))
            except refusals.ApiError as error:
                await self._classify(pod, node, error)
                return
            else:
                return

    def _still_leading(self) -> None:
        if not self._may_write():
            raise BindFailed("this process is not the leader any more")

    async def _classify(self, pod: PodView, node: str, error: refusals.ApiError) -> None:
        """Returns if the binding was written after all; raises BindFailed otherwise."""
        if isinstance(error, refusals.NotFound):
            raise BindFailed(str(error), retriable=False, gone=True) from error
        if not isinstance(error, refusals.Conflict | refusals.ServerError | refusals.Unreachable):
            raise BindFailed(str(error)) from error
        found = await self._look(pod, error)
        if found is None or (pod.object.metadata.uid and found.metadata.uid != pod.object.metadata.uid):
            raise BindFailed(f"the pod is gone: {error}", retriable=False, gone=True) from error
        if found.spec.node_name == node:
            return
        if found.spec.node_name:
            raise BindFailed(f"the pod is bound to {found.spec.node_name}", retriable=False, bound=True) from error
        if found.metadata.deletion_timestamp is not None:
            raise BindFailed("the pod is being deleted", retriable=False, gone=True) from error
        raise BindFailed(str(error), unknown=isinstance(error, refusals.Unreachable)) from error

    async def _look(self, pod: PodView, error: refusals.ApiError) -> objects.Pod | None:
        """The pod as it is now; None if it does not exist."""
        try:
            return decode.decode_json(await self._connection.request("GET", path_of(pod)), objects.Pod)
        except refusals.NotFound:
            return None
        except (refusals.ApiError, InvalidObject) as unread:
            unknown = not isinstance(error, refusals.Conflict)
            raise BindFailed(f"{error}; then {unread}", unknown=unknown) from unread


def path_of(pod: PodView) -> str:
    """The path of a pod."""
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def binding(pod: PodView, node: str) -> bytes:
    """The Binding of a pod to a node, which the API server refuses for a pod of another uid."""
    metadata = {"name": pod.name, "namespace": pod.namespace}
    if pod.object.metadata.uid:
        metadata["uid"] = pod.object.metadata.uid
    return msgspec.json.encode(
        {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"apiVersion": "v1", "kind": "Node", "name": node}}
    )
