"""Leader election by a Lease: of several replicas one acts.

Nobody's clock is trusted but one's own: a rival's lease has run out when it has not changed for its duration *as seen here*. The leader
in turn gives up `renew_deadline` after the start of its last successful renewal, well before any rival may take over, and from that very
moment `is_leader` is false, even if nothing has run since. Flags and defaults are kube-scheduler's (component-base/config, Kubernetes
1.36).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from wharfinger.framework.ports import Clock
from wharfinger.kube import refusals
from wharfinger.kube.connection import Connection

Report = Callable[[str, BaseException], None]
Callback = Callable[[], Awaitable[None] | None]

_JITTER = 1.2  # client-go/tools/leaderelection: retries of candidates are stretched by up to this factor


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseSettings:
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
    """What is known of the lease."""

    def __init__(self) -> None:
        self.seen: dict[str, Any] | None = None
        self.seen_at = 0.0


class LeaseElection:
    """A Leadership that is held while the Lease is renewed in time."""

    def __init__(self, connection: Connection, settings: LeaseSettings, clock: Clock, report: Report) -> None:
        self._connection = connection
        self._settings = settings
        self._clock = clock
        self._report = report
        self._known = _Elector()
        self._leading_until: float | None = None
        base = f"/apis/coordination.k8s.io/v1/namespaces/{settings.resource_namespace}/leases"
        self._collection, self._path = base, f"{base}/{settings.resource_name}"

    @property
    def is_leader(self) -> bool:
        """Whether the lease is held and was renewed in time; safe to ask after any pause."""
        return self._leading_until is not None and self._clock.monotonic() < self._leading_until

    @property
    def holder(self) -> str:
        """The identity that holds the lease as last seen, or ""."""
        return "" if self._known.seen is None else self._known.seen["spec"].get("holderIdentity") or ""

    async def run(self, on_started: Callback, on_stopped: Callback) -> None:
        """None, when leadership was lost; when cancelled, the lease is given back so that another replica need not wait."""
        try:
            while not await self._try():
                await self._clock.sleep(self._settings.retry_period * random.uniform(1.0, _JITTER))
            await _call(on_started)
            await self._keep()
        finally:
            was_leader, self._leading_until = self._leading_until is not None, None
            if was_leader:
                await _call(on_stopped)
                await self._release()

    async def _keep(self) -> None:
        """None, once the lease could not be renewed until its deadline or somebody else has it."""
        while self.is_leader:
            deadline = self._leading_until or 0.0
            await self._clock.sleep(min(self._settings.retry_period, max(deadline - self._clock.monotonic(), 0.0)))
            left = deadline - self._clock.monotonic()
            if left <= 0:
                return
            try:
                async with asyncio.timeout(left):
                    if not await self._try() and self.holder not in {"", self._settings.identity}:
                        return
            except TimeoutError as error:
                self._report("lease", error)

    async def _try(self) -> bool:
        """Whether the lease is ours after one attempt."""
        began = self._clock.monotonic()
        try:
            held = await self._acquire_or_renew()
        except refusals.ApiError as error:
            self._report("lease", error)
            return False
        if held:
            self._leading_until = began + self._settings.renew_deadline
        return held

    async def _acquire_or_renew(self) -> bool:
        try:
            lease = msgspec.json.decode(await self._connection.request("GET", self._path, timeout=self._settings.renew_deadline))
        except refusals.NotFound:
            return await self._create()
        self._observe(lease)
        spec = lease.setdefault("spec", {})
        ours = self.holder == self._settings.identity
        if not ours and self.holder and self._clock.monotonic() < self._known.seen_at + self._duration_of(spec):
            return False
        lease["spec"] = self._claim(spec, taken_over=not ours)
        try:
            answer = await self._connection.request(
                "PUT", self._path, body=msgspec.json.encode(lease), timeout=self._settings.renew_deadline
            )
        except refusals.Conflict:
            return False  # somebody was faster; the next look tells who
        self._observe(msgspec.json.decode(answer))
        return True

    async def _create(self) -> bool:
        settings = self._settings
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": settings.resource_name, "namespace": settings.resource_namespace},
            "spec": self._claim({"leaseTransitions": -1}, taken_over=True),
        }
        try:
            answer = await self._connection.request(
                "POST", self._collection, body=msgspec.json.encode(lease), timeout=settings.renew_deadline
            )
        except refusals.Conflict:
            return False
        self._observe(msgspec.json.decode(answer))
        return True

    def _claim(self, spec: dict[str, Any], *, taken_over: bool) -> dict[str, Any]:
        now = micro_time(self._clock.now())
        claimed = {**spec, "holderIdentity": self._settings.identity, "renewTime": now}
        claimed["leaseDurationSeconds"] = max(round(self._settings.lease_duration), 1)
        if taken_over:
            claimed |= {"acquireTime": now, "leaseTransitions": (spec.get("leaseTransitions") or 0) + 1}
        return claimed

    def _observe(self, lease: dict[str, Any]) -> None:
        lease.setdefault("spec", {})
        if self._known.seen is None or self._known.seen["spec"] != lease["spec"]:
            self._known.seen, self._known.seen_at = lease, self._clock.monotonic()

    def _duration_of(self, spec: dict[str, Any]) -> float:
        return float(spec.get("leaseDurationSeconds") or self._settings.lease_duration)

    async def _release(self) -> None:
        """None; the lease is free at once if it is still ours and the server answers."""
        seen = self._known.seen
        if seen is None or self.holder != self._settings.identity:
            return
        spec = {**seen["spec"], "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": micro_time(self._clock.now())}
        try:
            body = msgspec.json.encode({**seen, "spec": spec})
            await self._connection.request("PUT", self._path, body=body, timeout=self._settings.retry_period)
        except refusals.ApiError as error:
            self._report("lease", error)


def micro_time(seconds: float) -> str:
    """A time as Kubernetes' MicroTime: `2026-01-02T03:04:05.000006Z`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


async def _call(callback: Callback) -> None:
    answer = callback()
    if answer is not None:
        await answer
