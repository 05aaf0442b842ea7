"""Which waiting pods a change of policies concerns: those that a policy governs which has come, gone or changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from wharfinger.compiler.program import CompiledPolicy
from wharfinger.framework.chain import Chain

if TYPE_CHECKING:
    from wharfinger.runtime.profiles import Profile
    from wharfinger.runtime.queued_pod import QueuedPod


def policies_between(old: Chain, new: Chain) -> tuple[CompiledPolicy, ...]:
    """The policies of either chain that the other does not have in that revision."""
    before = {(policy.name, policy.revision): policy for policy in old.policies}
    after = {(policy.name, policy.revision): policy for policy in new.policies}
    return tuple((before | after)[key] for key in sorted(before.keys() ^ after.keys()))


class Concerned:
    """Whether a queued pod is concerned; `changed` are the policies that changed by profile, `now` the time of day."""

    def __init__(self, changed: Mapping[Profile, Sequence[CompiledPolicy]], now: float) -> None:
        self._changed = changed
        self._now = now
        self._answers: dict[tuple[bytes, Profile], bool] = {}

    def __call__(self, queued: QueuedPod) -> bool:
        """Whether another policy decides about the pod now; pods of one template get one answer, unless a scope tells them apart."""
        policies = self._changed.get(queued.profile, ())
        if any(policy.scope_varies for policy in policies):
            return self._governed(queued, policies)
        key = (queued.pod.template, queued.profile)
        if key not in self._answers:
            self._answers[key] = self._governed(queued, policies)
        return self._answers[key]

    def _governed(self, queued: QueuedPod, policies: Sequence[CompiledPolicy]) -> bool:
        try:
            return any(policy.governs(queued.pod, self._now) for policy in policies)
        except Exception:  # noqa: BLE001 — a policy that fails on this pod says so when the pod is tried
            return True
