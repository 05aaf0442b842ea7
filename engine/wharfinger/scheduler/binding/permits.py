"""What a placed pod waits for before it is bound: the permits of plugins and policies, and the other members of its group.

Permits can take minutes, and so can PreBind, and both can fail. So the members of a group wait for each other between PreBind and Bind:
none is bound before as many as the group needs may be bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wharfinger.emit import Failed
from wharfinger.event_loop import Background, until
from wharfinger.framework.extension import Permission, PermitPlugin, Placement, Plugin
from wharfinger.framework.ports import Clock
from wharfinger.framework.prepared import Reason
from wharfinger.framework.rules.policy_rules import PolicyPermit
from wharfinger.scheduler.ports import LiveCluster

if TYPE_CHECKING:
    from wharfinger.framework.chain import Chain
    from wharfinger.model.state.snapshot import Snapshot
    from wharfinger.scheduler.profiles import Profile

ASK_AGAIN = 5.0
"""Seconds after which a permit that reads the time is evaluated again."""
ANSWERS_PER_STEP = 16
"""Answers of policies that are worked out in one step of the event loop, some milliseconds; those that pods share count once."""
STEP_PAUSE = 0.05
"""Seconds between two such steps: other pods are scheduled meanwhile."""
DELETED = "a member was deleted while the group was being bound"
STOPPED = "placing the group was stopped before the bindings of all its members had begun"


class Released(Exception):
    """The process stops, so a placement that a permit holds is given back: the next leader decides about its pod."""

    def __init__(self) -> None:
        super().__init__("this process stops, and a permit holds the pod")


class Permits:
    """The placements with Permit plugins, each until its binding cycle ends.

    When a placement is added or removed, the plugins of all waiting placements are called again at once, so placements of a group see each
    other: the one that completes the group is among them. Permits of policies are evaluated again then, and when the cluster changes, but
    only a few at a time: namespaces write policies, and can have thousands of held pods.

    After a change of the policies, a placement needs the permits of the new ones: changed permits are evaluated again, removed permits no
    longer hold the pod. Timeouts then count from the first evaluation, so no series of changes holds a pod for ever.

    A permit can hold a pod for longer than a stop may take, and no other process knows of the hold. So a stop releases the held placements
    at once; their pods stay pending.
    """

    def __init__(self, cluster: LiveCluster) -> None:
        self._cluster = cluster
        self._clock = cluster.ports.clock
        self._again = self._asking = self._released = False
        self._background = Background(lambda error: cluster.ports.emit(Failed("permits of policies", error)))
        self._waiting: dict[str, Placement] = {}
        self._questions: dict[str, _Question] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._waiting

    async def ask(self, placement: Placement, profile: Profile) -> tuple[Plugin, Reason] | None:
        """The plugin that refuses, and why; None once all plugins have approved, and all policies that decide then.

        Raises `Released` if the process stops before.
        """
        self._waiting[placement.pod.uid] = placement
        for plugin in profile.permits:
            refusal = await self._answer(_Question(placement, plugin, profile, self._clock.monotonic()))
            if refusal is not None:
                return plugin, refusal
        approved: set[Hashable] = set()
        started, changed = self._clock.monotonic(), False
        while (permit := self._next_of_policies(placement, profile, approved)) is not None:
            question = _Question(placement, permit, profile, started if changed else self._clock.monotonic())
            refusal = await self._answer(question)
            if refusal is not None:
                return permit, refusal
            if question.withdrawn:
                changed = True
            else:
                approved.add(permit.revision)
        return None

    def _next_of_policies(self, placement: Placement, profile: Profile, approved: Collection[Hashable]) -> PolicyPermit | None:
        """The first permit that has not approved, of the policies that decide now."""
        return next((permit for permit in profile.chain.permits(placement.pod, self._snapshot()) if permit.revision not in approved), None)

    def reject(self, uid: str, reason: Reason) -> bool:
        """True if a placement was waiting for an answer; it is refused now."""
        question = self._questions.get(uid)
        if question is None or question.answered.is_set():
            return False
        question.refusal = reason
        question.answered.set()
        return True

    def release(self) -> None:
        """Let nothing hold a placement any more, now or later: `ask` raises `Released` where it would wait."""
        self._released = True
        for question in self._questions.values():
            if not question.answered.is_set():
                question.error = Released()
                question.answered.set()

    def cluster_changed(self) -> None:
        """Ask the permits of policies again soon, if a placement waits for one."""
        self._again = self._of_policies()
        if self._again and not self._asking:
            self._asking = True
            self._background.start(self._ask_policies())

    def _of_policies(self) -> bool:
        return bool(self._questions) and any(isinstance(question.plugin, PolicyPermit) for question in self._questions.values())

    async def _ask_policies(self) -> None:
        """Evaluate all permits of policies, and repeat this if something has changed in the meantime."""
        try:
            while self._again:
                self._again = False
                await self._ask_each_policy()
        finally:
            self._asking = False

    async def _ask_each_policy(self) -> None:
        common: dict[Hashable, Permission] = {}
        left = ANSWERS_PER_STEP
        for question in list(self._questions.values()):
            if question.answered.is_set() or not isinstance(question.plugin, PolicyPermit):
                continue
            known = len(common)
            self._ask(question, common, again=True)
            left -= question.withdrawn or not question.plugin.common or len(common) > known
            if not left:
                await self._clock.sleep(STEP_PAUSE)
                common, left = {}, ANSWERS_PER_STEP  # the cluster may be another one by now

    def _is_needed(self, question: _Question) -> bool:
        """True if the permit of a policy is one of the policies that decide now."""
        chain = question.profile.chain
        if chain is not question.chain:
            needed = {permit.revision for permit in chain.permits(question.placement.pod, self._snapshot())}
            if not (isinstance(question.plugin, PolicyPermit) and question.plugin.revision in needed):
                return False
            question.chain = chain
        return True

    def end(self, uid: str) -> None:
        """Note that the binding cycle of a placement has ended."""
        if self._waiting.pop(uid, None) is not None:
            self._ask_all()
            self.cluster_changed()

    async def _answer(self, question: _Question) -> Reason | None:
        uid = question.placement.pod.uid
        self._questions[uid] = question
        try:
            if isinstance(question.plugin, PolicyPermit):
                self._ask(question, {})
            self._ask_all()
            if self._released and not question.answered.is_set():
                raise Released
            self.cluster_changed()
            if not await self._answered(question):
                name, plugin = question.placement.pod.name, question.plugin.name
                waited = f'pod "{name}" rejected due to timeout after waiting at plugin "{plugin}"'
                if isinstance(question.plugin, PolicyPermit) and (why := question.plugin.message(question.placement, self._snapshot())):
                    waited += f": {why}"
                return Reason(waited)
        finally:
            del self._questions[uid]
        if question.error is not None:
            raise question.error
        return question.refusal

    async def _answered(self, question: _Question) -> bool:
        """True once the plugin has answered, False when its time is over."""
        plugin, ends_at = question.plugin, question.since + question.wait_seconds
        if not (isinstance(plugin, PolicyPermit) and plugin.timed):
            return await until(question.answered, self._clock, ends_at - self._clock.monotonic())
        while (left := ends_at - self._clock.monotonic()) > 0:
            if await until(question.answered, self._clock, min(left, ASK_AGAIN)):
                return True
            self.cluster_changed()
        return question.answered.is_set()

    def _snapshot(self) -> Snapshot:
        return self._cluster.snapshot()

    def _ask_all(self) -> None:
        """Ask every plugin that is no policy."""
        for question in list(self._questions.values()):
            if not question.answered.is_set() and not isinstance(question.plugin, PolicyPermit):
                self._ask(question, {})

    def _permission(self, question: _Question, common: dict[Hashable, Permission]) -> Permission:
        """The plugin's answer; those that pods of one template share are kept in `common`."""
        plugin, placement = question.plugin, question.placement
        if not isinstance(plugin, PolicyPermit):
            return plugin.permit(placement, [other for other in self._waiting.values() if other is not placement])
        if not plugin.common:
            return plugin.permission(placement, self._snapshot())
        key = (plugin, placement.pod.template)
        if key not in common:
            common[key] = plugin.permission(placement, self._snapshot())
        return common[key]

    def _ask(self, question: _Question, common: dict[Hashable, Permission], *, again: bool = False) -> None:
        """Call a plugin; with `again`, a policy that no longer decides is not called, and no longer holds the pod."""
        try:
            if again and not self._is_needed(question):
                question.withdrawn = True
                question.answered.set()
                return
            permission = self._permission(question, common)
            question.wait_seconds = float(permission.wait_seconds)
        except Exception as error:  # noqa: BLE001 — raised again where the placement is being bound, not where another one is
            question.error = error
            question.answered.set()
            return
        if permission.approved or permission.reason is not None:
            question.refusal = permission.reason
            question.answered.set()


@dataclass(slots=True, eq=False)
class _Question:
    """A placement that waits for one plugin's answer, `since` a time (monotonic).

    `chain` is the chain of the profile that the plugin was last seen in; `withdrawn`: the policy does not decide any more.
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


class GivenBack(Exception):
    """A placement is given back, because its group cannot be bound with it."""


class BindTogether:
    """Members of one attempt, by uid: none is bound before `needed` of them may be, for which each waits `timeout` seconds at most.

    If a member falls out, deleted or refused, and the others are too few without it, all that are not bound are given back: `refuse` is
    called with the uid of each member that is not ready, and the reason. Members that are bound stay: they count as placed when the group
    is tried again.
    """

    def __init__(  # noqa: PLR0913, PLR0917 — what holds for the attempt
        self, key: str, uids: Iterable[str], needed: int, timeout: float, clock: Clock, refuse: Callable[[str, str], object]
    ) -> None:
        self._key = key
        self._there = set(uids)
        self._ready: set[str] = set()
        self._needed = needed
        self._clock = clock
        self._ends_at = clock.monotonic() + timeout
        self._refuse = refuse
        self._answered = asyncio.Event()
        self.failure = ""  # why too few members are left, once they are
        if needed <= 0:
            self._answered.set()

    def arrived(self, uid: str) -> bool:
        """True if enough members may be bound, with this one, or that cannot be any more."""
        self._ready.add(uid)
        if len(self._ready) >= self._needed:
            self._answered.set()
        return self._answered.is_set()

    async def ready(self, uid: str) -> None:
        """Return once enough members may be bound; `GivenBack` if that cannot be any more."""
        self.arrived(uid)
        if not await until(self._answered, self._clock, self._ends_at - self._clock.monotonic()):
            self._fail(f"only {len(self._ready)} of the {self._needed} members that are needed could be bound in time")
        self.check()

    def check(self) -> None:
        """Raise `GivenBack` if too few members are left."""
        if self.failure:
            raise GivenBack(self._message)

    def lost(self, uid: str, why: str) -> None:
        """Note that a member is not bound in this attempt."""
        self._there.discard(uid)
        self._ready.discard(uid)
        if len(self._there) < self._needed:
            self._fail(why)

    def _fail(self, why: str) -> None:
        if not self.failure:
            self.failure = why
            for uid in self._there - self._ready:
                self._refuse(uid, self._message)
        self._answered.set()

    @property
    def _message(self) -> str:
        return f"group {self._key}: {self.failure}"
