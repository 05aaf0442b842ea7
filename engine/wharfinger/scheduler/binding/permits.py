"""Waiting for the permits of plugins and policies between placement and binding, which can take minutes."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wharfinger.emit import Failed
from wharfinger.event_loop import Background, until
from wharfinger.framework.extension import Permission, PermitPlugin, Placement, Plugin
from wharfinger.framework.prepared import Reason
from wharfinger.framework.rules.policy_rules import PolicyPermit
from wharfinger.policies import scans
from wharfinger.scheduler.ports import LiveCluster

if TYPE_CHECKING:
    from wharfinger.framework.chain import Chain
    from wharfinger.model.state.snapshot import Snapshot
    from wharfinger.policies.budget import PolicyBudget
    from wharfinger.scheduler.profiles import Profile

TIMED_INTERVAL = 5.0
"""Seconds between two evaluations of a permit that reads the time."""
ANSWERS_PER_STEP = 16
"""Answers of policies that are worked out in one step of the event loop, some milliseconds; those that pods share count once."""
STEP_PAUSE = 0.05
"""Seconds between two such steps, in which other pods are scheduled."""
PAUSES_OF_SCANS = 10
"""Such pauses after a step with as many operations on placed pods as one may take, which is about as many times as long."""


class Released(Exception):
    """Raised for a placement that a permit holds when the process stops; the next leader decides about its pod."""

    def __init__(self) -> None:
        super().__init__("this process stops, and a permit holds the pod")


class Permits:
    """The placements with Permit plugins, each until its binding cycle ends.

    When a placement is added or removed, the plugins of all waiting placements are called again at once, so placements of a group see each
    other: the one that completes the group is among them. Permits of policies are evaluated again then, and when the cluster changes, but
    only a few at a time: namespaces write policies, and can have thousands of held pods.

    After a change of the policies, a placement needs the permits of the new ones: changed permits are evaluated again, removed permits no
    longer hold the pod. Timeouts then count from the first evaluation, so no series of changes holds a pod forever.

    A permit that looks at every placed pod for each answer is evaluated in these steps only, with `scans.MAX_SCANNED` operations in one of
    them at most. One that takes more by itself is not evaluated: its policy is suspended, and the pod is held until the timeout.

    A permit can hold a pod for longer than a stop may take, and no other process knows of the hold. So a stop releases the held placements
    at once; their pods stay pending.
    """

    def __init__(self, cluster: LiveCluster, budget: PolicyBudget) -> None:
        self._cluster = cluster
        self._budget = budget
        self._clock = cluster.ports.clock
        self._policies_outdated = self._evaluating = self._released = False
        self._background = Background(lambda error: cluster.ports.emit(Failed("permits of policies", error)))
        self._waiting: dict[str, Placement] = {}
        self._waits: dict[str, _Wait] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._waiting

    async def wait(self, placement: Placement, profile: Profile) -> tuple[Plugin, Reason] | None:
        """Wait for all permits of a placement: those of plugins, then those of the policies in force.

        Returns None once all have approved, or the plugin that refuses and its reason. Raises `Released` if the process stops before.
        """
        self._waiting[placement.pod.uid] = placement
        for plugin in profile.permits:
            refusal = await self._outcome(_Wait(placement, plugin, profile, self._clock.monotonic()))
            if refusal is not None:
                return plugin, refusal
        approved: set[Hashable] = set()
        started, changed = self._clock.monotonic(), False
        while (permit := self._next_policy_permit(placement, profile, approved)) is not None:
            wait = _Wait(placement, permit, profile, started if changed else self._clock.monotonic())
            refusal = await self._outcome(wait)
            if refusal is not None:
                return permit, refusal
            if wait.withdrawn:
                changed = True
            else:
                approved.add(permit.revision)
        return None

    def _next_policy_permit(self, placement: Placement, profile: Profile, approved: Collection[Hashable]) -> PolicyPermit | None:
        """The first permit of the policies in force that has not approved."""
        return next((permit for permit in profile.chain.permits(placement.pod, self._snapshot()) if permit.revision not in approved), None)

    def reject(self, uid: str, reason: Reason) -> bool:
        """Refuse a placement that waits for a permit; False if it does not wait."""
        wait = self._waits.get(uid)
        if wait is None or wait.answered.is_set():
            return False
        wait.refusal = reason
        wait.answered.set()
        return True

    def fail(self, uid: str, error: Exception) -> bool:
        """Raise an error where a placement waits for a permit, for an error elsewhere; False if it does not wait."""
        wait = self._waits.get(uid)
        if wait is None or wait.answered.is_set():
            return False
        wait.error = error
        wait.answered.set()
        return True

    def release(self) -> None:
        """End all waiting, now and later: `wait` raises `Released` instead of waiting."""
        self._released = True
        for wait in self._waits.values():
            if not wait.answered.is_set():
                wait.error = Released()
                wait.answered.set()

    def cluster_changed(self) -> None:
        """Evaluate the permits of policies again soon, if a placement waits for one."""
        self._policies_outdated = self._waits_for_policy()
        if self._policies_outdated and not self._evaluating:
            self._evaluating = True
            self._background.start(self._evaluate_policies())

    def _waits_for_policy(self) -> bool:
        return bool(self._waits) and any(isinstance(wait.plugin, PolicyPermit) for wait in self._waits.values())

    async def _evaluate_policies(self) -> None:
        """Evaluate all permits of policies, and repeat this if something has changed in the meantime."""
        try:
            while self._policies_outdated:
                self._policies_outdated = False
                await self._evaluate_each_policy()
        finally:
            self._evaluating = False

    async def _evaluate_each_policy(self) -> None:
        common: dict[Hashable, Permission] = {}
        left, scanned = ANSWERS_PER_STEP, 0
        for wait in list(self._waits.values()):
            if wait.answered.is_set() or not isinstance(wait.plugin, PolicyPermit):
                continue
            known = len(common)
            self._evaluate(wait, common, again=True)
            is_new = not wait.plugin.common or len(common) > known
            left -= wait.withdrawn or is_new
            if is_new and not wait.withdrawn and not self._scans_too_much(wait.plugin):
                scanned += PAUSES_OF_SCANS * self._scanned(wait.plugin)
            if not left or scans.too_many(scanned):
                await self._clock.sleep(STEP_PAUSE * max(1.0, scanned / scans.MAX_SCANNED))
                common, left, scanned = {}, ANSWERS_PER_STEP, 0  # the cluster may be another one by now

    def _scanned(self, plugin: PermitPlugin | PolicyPermit) -> int:
        """The operations on placed pods that an answer takes in one step."""
        return self._budget.scanned(plugin.scanned) if isinstance(plugin, PolicyPermit) else 0

    def _scans_too_much(self, plugin: PermitPlugin | PolicyPermit) -> bool:
        """True if an answer would take more than may be taken in one step: the policy is suspended before its next decision."""
        return scans.too_many(self._scanned(plugin))

    def _is_needed(self, wait: _Wait) -> bool:
        """True if the policy of this permit is still in force."""
        chain = wait.profile.chain
        if chain is not wait.chain:
            needed = {permit.revision for permit in chain.permits(wait.placement.pod, self._snapshot())}
            if not (isinstance(wait.plugin, PolicyPermit) and wait.plugin.revision in needed):
                return False
            wait.chain = chain
        return True

    def end(self, uid: str) -> None:
        """Remove a placement whose binding cycle has ended."""
        if self._waiting.pop(uid, None) is not None:
            self._call_plugins()
            self.cluster_changed()

    async def _outcome(self, wait: _Wait) -> Reason | None:
        """Wait for one permit: None if it approved or is not needed any more, otherwise the reason of its refusal."""
        uid = wait.placement.pod.uid
        self._waits[uid] = wait
        try:
            if isinstance(wait.plugin, PolicyPermit):
                if self._scanned(wait.plugin):
                    wait.wait_seconds = wait.plugin.timeout  # evaluated in steps
                else:
                    self._evaluate(wait, {})
            self._call_plugins()
            if self._released and not wait.answered.is_set():
                raise Released
            self.cluster_changed()
            if not await self._answered(wait):
                name, plugin = wait.placement.pod.name, wait.plugin.name
                waited = f'pod "{name}" rejected due to timeout after waiting at plugin "{plugin}"'
                if isinstance(wait.plugin, PolicyPermit) and (why := self._why(wait.plugin, wait.placement)):
                    waited += f": {why}"
                return Reason(waited)
        finally:
            del self._waits[uid]
        if wait.error is not None:
            raise wait.error
        return wait.refusal

    def _why(self, permit: PolicyPermit, placement: Placement) -> str:
        """The reason why the permit of a policy holds a placement."""
        if self._scans_too_much(permit):
            return (
                f"each answer would look at every placed pod, with {self._scanned(permit):,} operations; {scans.MAX_SCANNED:,} are allowed "
                f"{scans.NO_INDEX}"
            )
        return permit.message(placement, self._snapshot())

    async def _answered(self, wait: _Wait) -> bool:
        """True once the plugin has answered, False when its time is over."""
        plugin, ends_at = wait.plugin, wait.since + wait.wait_seconds
        if not (isinstance(plugin, PolicyPermit) and plugin.timed):
            return await until(wait.answered, self._clock, ends_at - self._clock.monotonic())
        while (left := ends_at - self._clock.monotonic()) > 0:
            if await until(wait.answered, self._clock, min(left, TIMED_INTERVAL)):
                return True
            self.cluster_changed()
        return wait.answered.is_set()

    def _snapshot(self) -> Snapshot:
        return self._cluster.snapshot()

    def _call_plugins(self) -> None:
        """Call the plugins of all waiting placements; permits of policies are evaluated in steps instead."""
        for wait in list(self._waits.values()):
            if not wait.answered.is_set() and not isinstance(wait.plugin, PolicyPermit):
                self._evaluate(wait, {})

    def _permission(self, wait: _Wait, common: dict[Hashable, Permission]) -> Permission:
        """The plugin's answer; `common` keeps answers that all pods of a template share."""
        plugin, placement = wait.plugin, wait.placement
        if not isinstance(plugin, PolicyPermit):
            return plugin.permit(placement, [other for other in self._waiting.values() if other is not placement])
        if not plugin.common:
            return plugin.permission(placement, self._snapshot())
        key = (plugin, placement.pod.template)
        if key not in common:
            common[key] = plugin.permission(placement, self._snapshot())
        return common[key]

    def _evaluate(self, wait: _Wait, common: dict[Hashable, Permission], *, again: bool = False) -> None:
        """Call a plugin; with `again`, the permit of a policy that is not in force any more is withdrawn instead."""
        try:
            if again and not self._is_needed(wait):
                wait.withdrawn = True
                wait.answered.set()
                return
            if self._scans_too_much(wait.plugin):  # its policy is suspended before the next decision
                return
            permission = self._permission(wait, common)
            wait.wait_seconds = float(permission.wait_seconds)
        except Exception as error:  # noqa: BLE001 — raised again where the placement is being bound, not where another one is
            wait.error = error
            wait.answered.set()
            return
        if permission.approved or permission.reason is not None:
            wait.refusal = permission.reason
            wait.answered.set()


@dataclass(slots=True, eq=False)
class _Wait:
    """A placement that waits for one plugin's answer, `since` a monotonic time.

    `chain` is the latest chain of the profile that had the plugin. `withdrawn` is true if the policy is not in force any more.
    """

    placement: Placement
    plugin: PermitPlugin | PolicyPermit
    profile: Profile
    since: float
    chain: Chain = field(init=False)
    withdrawn: bool = False
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    refusal: Reason | None = None
    error: Exception | None = None
    wait_seconds: float = 0.0

    def __post_init__(self) -> None:
        self.chain = self.profile.chain
