"""The policies that govern a pod, whether a running pod satisfies them, and the nodes that a policy allows.

Everything here reads the scheduler's own state between two of its cycles, so each call has to be short. Callers with many questions let the
event loop run between them.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
from msgspec import Struct, structs

from wharfinger.compiler.bound import BoundPolicy
from wharfinger.compiler.program import CompiledPolicy
from wharfinger.framework.chain import Chain
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.ports import Clock
from wharfinger.language.semantics.authority import TenantRights
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.object_store import EvaluationContext, TimeAndObjects
from wharfinger.model.state.snapshot import Snapshot
from wharfinger.scheduler.scheduler import Scheduler

OTHER_SCHEDULER = "NotOurScheduler"
GOVERNS = "PolicyGoverns"
UNKNOWN_POLICY = "UnknownPolicy"
GOVERNS_OTHERS = "PolicyGovernsOthers"


class PolicyViolation(Struct, frozen=True, kw_only=True):
    """The reasons against the node of a placed pod, by its policies, and a node that would take it, if any."""

    reasons: tuple[str, ...] = ()
    better: str | None = None


class PolicyChecks:
    """Answers for the chains of one scheduler; `rights` defines what may be shown to users of a namespace."""

    def __init__(self, scheduler: Scheduler, clock: Clock, rights: TenantRights) -> None:
        self.rights = rights
        self._scheduler = scheduler
        self.clock = clock
        self._deciders: dict[str, Decider] = {}

    @property
    def revision(self) -> tuple[int, tuple[str, ...]]:
        """A value that changes whenever an answer could change."""
        return self._scheduler.state.revision, tuple(profile.chain.revision for profile in self._scheduler.profiles)

    def held_back(self, chain: Chain) -> Chain:
        """The chain, whose gate also holds pods that would wait now for a suspended policy."""
        return self._scheduler.budget.held_back(chain, self.snapshot)

    def chain_of(self, scheduler_name: str) -> Chain | None:
        """The chain of a profile, None for other schedulers."""
        return next((profile.chain for profile in self._scheduler.profiles if profile.name == scheduler_name), None)

    def first(self) -> tuple[str, Chain]:
        """The name and the chain of the first profile."""
        profile = next(iter(self._scheduler.profiles))
        return profile.name, profile.chain

    def chains(self) -> list[Chain]:
        """The chains of all profiles."""
        return [profile.chain for profile in self._scheduler.profiles]

    def snapshot(self) -> Snapshot:
        """The cluster at the present second."""
        return self._scheduler.snapshot()

    @property
    def evaluation_context(self) -> EvaluationContext:
        """The present time, and the objects that are neither nodes nor pods, followed as they change."""
        return TimeAndObjects(self.clock.now(), self._scheduler.state.objects)

    def governs(self, policy: str, pod: objects.Pod) -> tuple[bool | None, str, str]:
        """(whether a policy governs the pod, reason, message), as in a condition."""
        name = pod.spec.scheduler_name
        chain = self.chain_of(name)
        if chain is None:
            return False, OTHER_SCHEDULER, f"pods of scheduler {name} are not placed by this one"
        view = PodView(pod)
        found = next((each for each in chain.policies if each.name == policy and each.authority.covers(view.namespace)), None)
        if found is None:
            return False, UNKNOWN_POLICY, f'there is no active policy "{policy}"'
        if not found.governs(view, self.evaluation_context):
            shown = found.policy.scope is not None and (self.rights.trusted or found.authority.namespace is not None)
            scope = f": it is for pods where {found.policy.scope.span.text}" if shown and found.policy.scope is not None else ""
            return False, GOVERNS_OTHERS, f'policy "{policy}" does not govern these pods{scope}'[:1000]
        return True, GOVERNS, f'policy "{policy}" decides where these pods go'

    def placed_pod_violation(self, pod: objects.Pod, policy: str | None = None) -> PolicyViolation | None:
        """The violation of a policy (None: of all policies) by a placed pod; None if the scheduler does not know the pod as placed.

        Policies that would look at too many placed pods are left out. While the pod would wait for a suspended policy, no node is better.
        """
        chain = self.chain_of(pod.spec.scheduler_name)
        snapshot = self.snapshot()
        placed = snapshot.placed(PodView(pod).uid)
        if chain is None or placed is None:
            return None
        row, view = placed
        held = self._scheduler.budget.would_hold(chain, view, snapshot)
        scanning = {suspension.key for suspension in held if suspension.scanned}
        governing = [
            each
            for each in chain.policies
            if policy in {None, each.name} and (each.name, each.revision) not in scanning and each.governs(view, snapshot)
        ]
        reasons = tuple(reason for each in governing for reason in violations(each, view, row, snapshot))
        better = self._decider(pod.spec.scheduler_name, chain).decide(snapshot, _unplaced(pod)).node if reasons and not held else None
        return PolicyViolation(reasons=reasons, better=better)

    def precompute(self, pod: objects.Pod) -> Generator[None]:
        """The work of `standing` in steps: reading the devices and volumes of all nodes."""
        chain = self.chain_of(pod.spec.scheduler_name)
        if chain is not None:
            for _ in self._decider(pod.spec.scheduler_name, chain).precompute(self.snapshot, _unplaced(pod)):
                yield

    def _decider(self, name: str, chain: Chain) -> Decider:
        """A decider with its own small cache. The cache of the scheduler's decider is for waiting pods; pods of apps have few templates."""
        found = self._deciders.get(name)
        if found is None or found.chain is not chain:
            found = self._deciders[name] = Decider(chain, max_cells=2_000_000)
        return found


def _unplaced(pod: objects.Pod) -> PodView:
    """The pod as if it were still to be placed; by its uid it is left out of what policies count."""
    return PodView(structs.replace(pod, spec=structs.replace(pod.spec, node_name="")))


def violations(policy: CompiledPolicy, pod: PodView, row: int, snapshot: Snapshot) -> list[str]:
    """The sentences of the filters of a policy that reject a pod on one node; the pod itself is not counted there."""
    bound = BoundPolicy(policy, pod, snapshot)
    rows = np.array([row], np.intp)
    found = []
    for index, rule in enumerate(policy.filters):
        bits = int(bound.filter_bits(index, snapshot, rows)[0])
        found += [f"{rule.name}: {text}" for k, text in enumerate(bound.reasons(index)) if bits >> k & 1]
    return found


def eligible(policy: CompiledPolicy, pod: PodView, snapshot: Snapshot) -> int:
    """The number of nodes that pass the filters of a policy for a pod."""
    bound = BoundPolicy(policy, pod, snapshot)
    passing = np.ones(snapshot.n_nodes, np.bool_)
    for index in range(len(policy.filters)):
        passing &= bound.filter_bits(index, snapshot, slice(None)) == 0
    return int(np.count_nonzero(passing))
