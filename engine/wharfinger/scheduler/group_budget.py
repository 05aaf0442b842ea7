"""The budget of policies while a group is tried: the attempt stops once a policy that governs one of its members is suspended."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from wharfinger.compiler.program import CompiledPolicy
    from wharfinger.groups.terms import Group
    from wharfinger.policies.budget import Key, PolicyBudget
    from wharfinger.scheduler.ports import LiveCluster
    from wharfinger.scheduler.profiles import Profile

Found = TypeVar("Found")


class GroupSuspended(Exception):
    """The group waits, because policies that govern a member are suspended; the text names them."""


class GroupBudget:
    """Compares the steps of an attempt with the budget of policies, and raises `GroupSuspended` to end the attempt."""

    def __init__(self, cluster: LiveCluster, budget: PolicyBudget) -> None:
        self._cluster = cluster
        self._budget = budget
        self._tried: tuple[Profile, Group] | None = None
        self._governing: Sequence[CompiledPolicy] | None = None
        self._passed: frozenset[Key] | None = None  # suspended policies that are known to govern no member; None before the first look

    def begin(self, profile: Profile, group: Group) -> None:
        """Watch the policies of a profile that govern a member of a group."""
        self._tried, self._governing, self._passed = (profile, group), None, None

    def end(self) -> None:
        """End the attempt: a policy that exceeded its budget in none of its decisions has kept to it."""
        self._budget.group_ended()
        self._tried = None

    def step(self) -> AbstractContextManager[None]:
        """A context for one step of the attempt."""
        return self._budget.group_step(self._policies)

    def check(self) -> None:
        """Raise `GroupSuspended` if a policy that governs a member is suspended."""
        suspended = frozenset(self._budget.suspended)
        if self._tried is None or suspended == self._passed:
            return
        (profile, group), snapshot = self._tried, self._cluster.snapshot()
        found: dict[str, None] = {}
        for pod in group.kinds:
            found.update(dict.fromkeys(map(str, self._budget.holding(profile.chain, pod, snapshot))))
        if found:
            raise GroupSuspended("; ".join(found))
        self._passed = suspended

    def check_result(self) -> None:
        """Raise `GroupSuspended` if the search for a result has suspended a policy: nothing may be done with that result."""
        self._budget.check_step(self._policies)
        self.check()

    def checking(self, steps: Generator[None, None, Found]) -> Generator[None, None, Found]:
        """The same steps and result; raises `GroupSuspended` once a policy that governs a member is suspended."""
        try:
            while True:
                self.check()
                try:
                    next(steps)
                except StopIteration as finished:
                    found: Found = finished.value
                    self.check_result()
                    return found
                yield
        finally:
            steps.close()

    def _policies(self) -> Sequence[CompiledPolicy]:
        """The policies that govern a member, computed on first use."""
        if self._tried is None:
            return ()
        if self._governing is None:
            (profile, group), snapshot = self._tried, self._cluster.snapshot()
            found: dict[Key, CompiledPolicy] = {}
            for pod in group.kinds:
                found.update(((policy.name, policy.revision), policy) for policy in profile.chain.pod_rules(pod, snapshot).governing)
            self._governing = tuple(found.values())
        return self._governing
