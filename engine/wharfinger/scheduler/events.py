"""The events of the scheduler: decisions, attempts, queued pods, preemptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from wharfinger.groups.terms import Group, GroupAnswer, GroupTerms, Preemption
from wharfinger.model.objects.pod_view import PodView

if TYPE_CHECKING:
    from wharfinger.framework.chain import Chain
    from wharfinger.framework.evaluation.decision import Decision
    from wharfinger.scheduler.queued_pods import QueuedPod


class Decided(Struct, frozen=True):
    """A decision of a profile was made. The state is still that of the decision: nothing has been assumed or written yet."""

    profile: str
    decision: Decision


class AttemptEnded(Struct, frozen=True, kw_only=True):
    """One attempt to schedule a pod has ended: its outcome, and its duration in seconds.

    `result` is `scheduled`, `unschedulable` or `error`, as in `scheduler_schedule_attempts_total`. `stages` has the seconds of the stages
    that ran: `queue` (waiting, since the pod became ready), `decide`, `reserve`, `permit`, `pre_bind`, `bind`. Monotonic times:
    `first_seen` when the pod first entered the queue (a gated one when its gates were removed), `started` when it left it for this attempt,
    `ended` at the end. `flushed`: the pod was tried without a helpful event, only because it had waited for the longest allowed time.
    `group` is the key of the pod's group, "" for none.
    """

    pod: PodView
    profile: str
    result: str
    attempts: int
    first_seen: float
    started: float
    ended: float
    flushed: bool = False
    node: str | None = None
    message: str = ""
    snapshot_revision: int = 0
    policy_revision: str = ""
    feasible: int = 0
    n_nodes: int = 0
    plugins: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    stages: Mapping[str, float] = {}
    group: str = ""


class GroupAttemptEnded(Struct, frozen=True, kw_only=True):
    """One attempt to place a group has ended: its outcome, and monotonic times.

    `result` is `scheduled`, `unschedulable`, `waiting_on_preemption` or `error`, as in `scheduler_podgroup_schedule_attempts_total`.
    `nodes`: node by uid of the members that were placed, `left`: the members that were tried and have no place, `was_placed`: how many had
    one before. `searched`: seconds of the search alone.
    """

    key: str
    profile: str
    terms: GroupTerms
    result: str
    message: str
    started: float
    ended: float
    searched: float
    nodes: Mapping[str, str] = {}
    domains: Mapping[str, str] = {}
    left: tuple[PodView, ...] = ()
    was_placed: int = 0


class GroupSearchBegun(Struct, frozen=True):
    """A search for a group begins on the present state: for a place, or with `others` for the pods that must leave.

    `others` are the groups of which preemption takes all pods at once.
    """

    profile: str
    chain: Chain
    group: Group
    now: float
    others: tuple[Group, ...] | None = None


class GroupSearched(Struct, frozen=True):
    """The search for a group that began last has ended with an answer."""

    group: Group
    answer: GroupAnswer | Preemption


class PodQueued(Struct, frozen=True):
    """A pod entered `active`, `backoff` or `unschedulable` because of something (`PodAdd`, `NodeUpdate`, …)."""

    queue: str
    cause: str


class Preempted(Struct, frozen=True):
    """A node was nominated for a pod, and pods are evicted from it."""

    preemptor: PodView
    node: str
    victims: int


class PodsFlushed(Struct, frozen=True):
    """Pods are tried again after the longest wait, without a change of the cluster that could help them."""

    pods: int


class DecisionSummary(Struct, frozen=True, kw_only=True):
    """A decision without its details, which the next decision overwrites."""

    node: str | None
    message: str
    feasible: int
    n_nodes: int
    snapshot_revision: int
    policy_revision: str
    plugins: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()

    @classmethod
    def of(cls, decision: Decision, plugins: tuple[str, ...] = ()) -> DecisionSummary:
        """The summary of a decision; `plugins` are those that rejected nodes."""
        return cls(
            node=decision.node,
            message=decision.message,
            feasible=decision.feasible,
            n_nodes=decision.n_nodes,
            snapshot_revision=decision.snapshot_revision,
            policy_revision=decision.policy_revision,
            plugins=plugins,
            policies=decision.policies,
        )


NOT_DECIDED = DecisionSummary(node=None, message="", feasible=0, n_nodes=0, snapshot_revision=0, policy_revision="")


def attempt_ended(queued: QueuedPod, result: str, ended: float, decided: DecisionSummary = NOT_DECIDED, message: str = "") -> AttemptEnded:
    """The event of an attempt that has just ended."""
    return AttemptEnded(
        pod=queued.pod,
        profile=queued.profile.name,
        result=result,
        attempts=queued.attempts,
        first_seen=queued.first_seen,
        started=queued.started,
        ended=ended,
        flushed=queued.flushed,
        node=decided.node,
        message=message or decided.message,
        snapshot_revision=decided.snapshot_revision,
        policy_revision=decided.policy_revision,
        feasible=decided.feasible,
        n_nodes=decided.n_nodes,
        plugins=decided.plugins,
        policies=decided.policies,
        stages=dict(queued.stages),
        group=queued.group or "",
    )
