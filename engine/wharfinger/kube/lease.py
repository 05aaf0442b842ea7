"""Leader election by a Lease: of several replicas one acts.

Only the own clock is trusted: another holder's lease has expired when it has not changed for its duration *as seen here*. The leader
gives up `renew_deadline` after the start of its last successful renewal, well before another process may take over; from that moment
`is_leader` is false, even if nothing has run since. Flags and defaults are kube-scheduler's (component-base/config, Kubernetes
1.36). Unlike there, a lease under our identity counts as ours only when this very process wrote it: two processes that were given one
identity do not lead together.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Struct

from wharfinger.emit import Emit, Failed
from wharfinger.errors import WharfingerError
from wharfinger.framework.ports import Clock
from wharfinger.kube import api_errors
from wharfinger.kube.connection import Connection
from wharfinger.model.objects.metadata import micro_time

Callback = Callable[[], Awaitable[None] | None]

MAX_CLOCK_JUMP = 1.0
"""Seconds by which the time of day may be set ahead between two renewals and still be trusted."""

_JITTER = 1.2  # client-go/tools/leaderelection: retries of candidates are stretched by up to this factor
_REQUEST_SHARE = 0.5  # of the deadline, for one request as in client-go: one dead connection must not lose the lease
_MAX_TRANSITIONS = 2**31 - 1  # the field's type in the API server
_CLAIMS = 4  # own writes of one attempt, at most


class LeaseLost(WharfingerError):
    """Another process may lead now; the text gives the reason."""


class LeaseSettings(Struct, frozen=True, kw_only=True):
    """`identity` names this process; the durations are in seconds and named as kube-scheduler's flags."""

    identity: str
    resource_namespace: str = "kube-system"
    resource_name: str = "wharfinger"
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if not self.lease_duration > self.renew_deadline > self.retry_period * _JITTER > 0:
            raise ValueError("a lease needs leaseDuration > renewDeadline > 1.2 × retryPeriod > 0")


class _Elector:
    """The lease as last seen and since when, the `renewTime`s of own writes, and what the last attempt met."""

    def __init__(self, settings: LeaseSettings) -> None:
        self.seen: dict[str, Any] | None = None
        self.seen_at = 0.0
        # Our writes are remembered: the last one that succeeded holds the lease until its deadline, however many were refused since.
        self.claims: deque[str] = deque(maxlen=_CLAIMS * (2 + math.ceil(settings.renew_deadline / settings.retry_period)))
        self.conflict = False
        self.failure = ""


class LeaseElection:
    """A Leadership that is held while the Lease is renewed in time."""

    def __init__(self, connection: Connection, settings: LeaseSettings, clock: Clock, emit: Emit) -> None:
        self._connection = connection
        self._settings = settings
        self._clock = clock
        self._emit = emit
        self._known = _Elector(settings)
        self._leading_until: float | None = None
        self._ahead = 0.0  # time of day minus monotonic clock at the last renewal
        self._timeout = settings.renew_deadline * _REQUEST_SHARE
        self._name = f"{settings.resource_namespace}/{settings.resource_name}"
        base = f"/apis/coordination.k8s.io/v1/namespaces/{settings.resource_namespace}/leases"
        self._collection, self._path = base, f"{base}/{settings.resource_name}"

    @property
    def is_leader(self) -> bool:
        """True if the lease is held and was renewed in time; safe after any pause of the process.

        A virtual machine that was suspended only notices that the time of day has jumped ahead: then it is false until the lease is
        renewed.
        """
        if self._leading_until is None or self._clock.monotonic() >= self._leading_until:
            return False
        return self._clock.now() - self._clock.monotonic() < self._ahead + MAX_CLOCK_JUMP

    @property
    def holder(self) -> str:
        """The identity that holds the lease as last seen, or ""."""
        return "" if self._known.seen is None else self._known.seen["spec"].get("holderIdentity") or ""

    async def run(self, on_started: Callback, on_stopped: Callback) -> None:
        """Hold the lease and return when it is lost; if cancelled, release it so that another replica need not wait."""
        try:
            while not await self._try():
                await self._clock.sleep(self._settings.retry_period * random.uniform(1.0, _JITTER))
            await _call(on_started)
            why = await self._keep()
            self._emit(Failed("lease", LeaseLost(f"the lease {self._name} is lost: {why}")))
        finally:
            was_leader, self._leading_until = self._leading_until is not None, None
            if was_leader:
                await _call(on_stopped)
                await self._release()

    async def _keep(self) -> str:
        """Renew the lease; return the reason of its loss: not renewed before the deadline, or taken by another process."""
        while (left := self._seconds_left()) > 0:
            await self._clock.sleep(min(self._settings.retry_period, left))
            if (left := self._seconds_left()) <= 0:
                break
            try:
                async with asyncio.timeout(left):
                    if not await self._try() and self.holder and not self._is_own:
                        return (
                            f"{self.holder} has taken it"
                            if self.holder != self._settings.identity
                            else "another process has the same identity"
                        )
            except TimeoutError:
                self._known.failure = "no answer in time"
        return f"not renewed for {self._settings.renew_deadline:g} s: {self._known.failure or 'this process was paused'}"

    def _seconds_left(self) -> float:
        return (self._leading_until or 0.0) - self._clock.monotonic()

    async def _try(self) -> bool:
        """True if the lease is ours after one attempt, or after a second one if the first met a conflict."""
        began, ahead = self._clock.monotonic(), self._clock.now() - self._clock.monotonic()
        try:
            held = await self._acquire_or_renew()
            if not held and self._known.conflict:
                held = await self._acquire_or_renew()
        except (api_errors.ApiError, msgspec.DecodeError) as error:
            self._known.failure = str(error)
            self._emit(Failed("lease", error))
            return False
        if held:
            self._known.failure = ""
            self._leading_until, self._ahead = began + self._settings.renew_deadline, ahead
        return held

    async def _acquire_or_renew(self) -> bool:
        """True if the lease was written. The leader writes without reading first, as client-go does, and reads after a conflict."""
        seen, self._known.conflict = self._known.seen, False
        if seen is not None and self.is_leader and self._is_own and await self._write("PUT", self._path, self._renewed(seen)):
            return True
        self._known.conflict = False
        try:
            lease = _decoded(await self._connection.request("GET", self._path, timeout=self._timeout, urgent=True))
        except api_errors.NotFound:
            return await self._write("POST", self._collection, self._new())
        self._observe(lease)
        spec = lease["spec"]
        if not self._is_own and self.holder and self._clock.monotonic() < self._known.seen_at + self._duration_of(spec):
            return False
        return await self._write("PUT", self._path, self._renewed(lease))

    def _renewed(self, lease: dict[str, Any]) -> dict[str, Any]:
        return {**lease, "spec": self._claim(lease["spec"], taken_over=not self._is_own)}

    async def _write(self, method: str, path: str, lease: dict[str, Any]) -> bool:
        """True if it was written; False if another process has written meanwhile."""
        self._known.claims.append(lease["spec"]["renewTime"])
        body = msgspec.json.encode(lease)
        try:
            answer = await self._connection.request(method, path, body=body, timeout=self._timeout, urgent=True)
        except (api_errors.Conflict, api_errors.NotFound) as error:
            self._known.conflict, self._known.failure = True, str(error)
            return False
        self._observe(_decoded(answer))
        return True

    @property
    def _is_own(self) -> bool:
        """True if the lease as last seen was written by this process."""
        if self._known.seen is None or self.holder != self._settings.identity:
            return False
        return self._known.seen["spec"].get("renewTime") in self._known.claims

    def _new(self) -> dict[str, Any]:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._settings.resource_name, "namespace": self._settings.resource_namespace},
            "spec": self._claim({"leaseTransitions": -1}, taken_over=True),
        }

    def _claim(self, spec: dict[str, Any], *, taken_over: bool) -> dict[str, Any]:
        now = micro_time(self._clock.now())
        claimed = {**spec, "holderIdentity": self._settings.identity, "renewTime": now}
        claimed["leaseDurationSeconds"] = math.ceil(self._settings.lease_duration)  # rounding down would let others take over too soon
        if taken_over:
            claimed |= {"acquireTime": now, "leaseTransitions": min((spec.get("leaseTransitions") or 0) + 1, _MAX_TRANSITIONS)}
        return claimed

    def _observe(self, lease: dict[str, Any]) -> None:
        if self._known.seen is None or self._known.seen["spec"] != lease["spec"]:
            self._known.seen_at = self._clock.monotonic()
        self._known.seen = lease

    def _duration_of(self, spec: dict[str, Any]) -> float:
        return float(spec.get("leaseDurationSeconds") or self._settings.lease_duration)

    async def _release(self) -> None:
        """Release the lease if it is still ours and the server answers."""
        try:
            if not await self._freed():
                # a renewal that was cancelled on its way may have been written all the same
                self._observe(_decoded(await self._connection.request("GET", self._path, timeout=self._settings.retry_period, urgent=True)))
                await self._freed()
        except (api_errors.ApiError, msgspec.DecodeError) as error:
            self._emit(Failed("lease", error))

    async def _freed(self) -> bool:
        """True if nothing is left to release; False if the lease has been written since it was seen."""
        seen = self._known.seen
        if seen is None or not self._is_own:
            return True
        spec = {**seen["spec"], "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": micro_time(self._clock.now())}
        body = msgspec.json.encode({**seen, "spec": spec})
        try:
            await self._connection.request("PUT", self._path, body=body, timeout=self._settings.retry_period, urgent=True)
        except api_errors.Conflict:
            return False
        return True


def _decoded(answer: bytes) -> dict[str, Any]:
    """The lease of an answer; DecodeError if it is another document, as from a login portal."""
    lease = msgspec.json.decode(answer, type=dict[str, Any])
    lease["spec"] = lease.get("spec") or {}
    return lease


async def _call(callback: Callback) -> None:
    answer = callback()
    if answer is not None:
        await answer
