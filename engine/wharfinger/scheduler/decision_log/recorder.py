"""Records one scheduler: every change of its state and every decision become entries of the decision log, by reference."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from wharfinger.emit import Handlers
from wharfinger.groups.terms import Impossible, Placed, Preemption
from wharfinger.model import objects
from wharfinger.model.columns.metric_table import MetricColumn, Samples
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.copies import checkpoint_of
from wharfinger.scheduler.decision_log.lines import LoggedAnswer, LoggedAttempt, LoggedFound, LoggedQuestion
from wharfinger.scheduler.events import Decided, GroupAttemptEnded, GroupSearchBegun, GroupSearched

if TYPE_CHECKING:
    from wharfinger.framework.chain import Chain
    from wharfinger.framework.evaluation.decision import Decision
    from wharfinger.groups.terms import GroupAnswer
    from wharfinger.scheduler.decision_log.files import Entry, LogWriter

OnChange = Callable[[tuple[Any, ...]], None]
"""Called with an entry: the name of the change, and what is needed to make it again."""


class RecordedState(ClusterState):
    """A state that calls `on_change` after each change; changes caused inside another one, and those that fail, are not reported."""

    def __init__(self, on_change: OnChange) -> None:
        super().__init__()
        self._on_change = on_change
        self._inside = False

    @contextmanager
    def _one(self, *entry: Any) -> Iterator[None]:
        """A context for a change that may cause others."""
        if self._inside:
            yield
            return
        self._inside = True
        try:
            yield
        finally:
            self._inside = False
        self._on_change(entry)

    def _note(self, *entry: Any) -> None:
        if not self._inside:
            self._on_change(entry)

    def add_node(self, node: objects.Node) -> None:
        """Add a node, or update it."""
        super().add_node(node)
        self._note("node", node)

    def remove_node(self, name: str) -> bool:
        """True if there was such a node; it is removed."""
        found = super().remove_node(name)
        if found:
            self._note("node gone", name)
        return found

    def add_pod(self, pod: objects.Pod | PodView) -> None:
        """Apply the pod as the API server has it."""
        view = pod if isinstance(pod, PodView) else PodView(pod)
        with self._one("pod", view):
            super().add_pod(view)

    def remove_pod(self, pod: objects.Pod | PodView) -> bool:
        """True if there was such a pod; it is removed."""
        uid = pod.uid if isinstance(pod, PodView) else PodView(pod).uid
        found = super().remove_pod(pod)
        if found:
            self._note("pod gone", uid)
        return found

    def assume(self, pod: PodView, node_name: str) -> None:
        """Count a pod on the node that was chosen for it."""
        super().assume(pod, node_name)
        self._note("assume", pod, node_name)

    def forget(self, pod: PodView) -> bool:
        """True if the pod was assumed; it is removed."""
        found = super().forget(pod)
        if found:
            self._note("forget", pod.uid)
        return found

    def nominate(self, pod: PodView, node_name: str) -> None:
        """Reserve a node for a pending pod."""
        super().nominate(pod, node_name)
        self._note("nominate", pod, node_name)

    def remove_nomination(self, pod: PodView) -> bool:
        """True if the pod was nominated; it is not any more."""
        found = super().remove_nomination(pod)
        if found:
            self._note("denominate", pod.uid)
        return found

    def expect_leaving(self, uid: str) -> None:
        """Mark a pod as being evicted."""
        super().expect_leaving(uid)
        self._note("leaves", uid)

    def expect_staying(self, uid: str) -> bool:
        """True if the pod was being evicted; it is not any more."""
        found = super().expect_staying(uid)
        if found:
            self._note("stays", uid)
        return found

    def put(self, obj: objects.AnyObject) -> None:
        """Keep any object."""
        if isinstance(obj, objects.Node | objects.Pod):
            super().put(obj)  # which records it as a node or pod
        else:
            super().put(obj)
            self._note("put", obj)

    def drop(self, kind: str, key: str) -> bool:
        """True if there was an object of that kind and key; it is removed."""
        found = super().drop(kind, key)
        self._note("drop", kind, key)
        return found

    def reserve_devices(self, claim: objects.ResourceClaim, allocation: objects.Allocation) -> None:
        """Count the devices of an allocation before it is written."""
        super().reserve_devices(claim, allocation)
        self._note("take devices", claim, allocation)

    def release_devices(self, claim: objects.ResourceClaim, *, written: bool = False) -> bool:
        """True if no pod needs the allocation in flight any more."""
        freed = super().release_devices(claim, written=written)
        self._note("give back devices", claim, written)
        return freed

    def set_metric(self, name: str, samples: Samples) -> None:
        """Replace the samples of a metric."""
        super().set_metric(name, samples)
        self._note("metric", name, samples)

    def put_metric(self, name: str, column: MetricColumn, samples: Samples, layout: int) -> None:
        """Replace the samples of a metric by a finished column."""
        super().put_metric(name, column, samples, layout)
        self._note("metric", name, samples)

    def drop_metric(self, name: str) -> None:
        """Forget a metric."""
        super().drop_metric(name)
        self._note("metric gone", name)

    def set_group_size(self, key: str, size: int) -> None:
        """Set how many members of a group are known."""
        super().set_group_size(key, size)
        self._note("group size", key, size)


class DecisionRecorder:
    """Records one scheduler, whose state has to be `state` and whose decisions go to `handlers`.

    Changes before the first decision are not recorded one by one: the checkpoint that is written then has them all.
    """

    def __init__(self, writer: LogWriter) -> None:
        self._writer = writer
        self._chains: dict[str, Chain] = {}
        self._begun = False
        self.state = RecordedState(self._changed)
        self.handlers: Handlers = {
            Decided: self._decided,
            GroupSearchBegun: self._group_search_begun,
            GroupSearched: self._group_searched,
            GroupAttemptEnded: self._group_tried,
        }

    def _decided(self, event: Decided) -> None:
        """Record a decision that was just made on the present state."""
        profile, decision = event.profile, event.decision
        if self._writer.wants_checkpoint and not self.begin():
            return
        self._decided_by(profile, decision.chain)
        self._writer.put(("decision", decision.pod, logged_question(profile, decision), logged_answer(decision)))

    def _decided_by(self, profile: str, chain: Chain) -> None:
        """Record the chain of a profile unless it was recorded last."""
        if self._chains.get(profile) is not chain:
            self._chains[profile] = chain
            self._writer.put(("chain", profile, chain))

    def _group_search_begun(self, event: GroupSearchBegun) -> None:
        """Record what a search for a group is about, on the present state."""
        if self._writer.wants_checkpoint and not self.begin():
            return
        self._decided_by(event.profile, event.chain)
        self._writer.put(("search", event.group, event.profile, event.now, self.state.revision, event.others))

    def _group_searched(self, event: GroupSearched) -> None:
        """Record what the search for a group has found."""
        if self._begun:
            self._writer.put(("found", event.group.key, logged_found(event.answer)))

    def _group_tried(self, event: GroupAttemptEnded) -> None:
        """Record what came of an attempt to place a group."""
        if self._writer.wants_checkpoint and not self.begin():
            return
        attempt = LoggedAttempt(
            source=event.terms.source,
            min_count=event.terms.min_count,
            result=event.result,
            message=event.message,
            nodes=dict(event.nodes),
            domains=dict(event.domains),
            left=tuple(pod.uid for pod in event.left),
        )
        self._writer.put(("group", event.profile, event.key, attempt))

    def _changed(self, entry: Entry) -> None:
        if not self._begun:
            return
        if not self._writer.wants_checkpoint:
            self._writer.put(entry)
        else:
            self.begin()  # the checkpoint has the change

    def begin(self) -> bool:
        """True if a new file could be started with the present state."""
        self._begun = True
        if not self._writer.has_room:
            return False
        self._chains.clear()
        self._writer.put(("checkpoint", checkpoint_of(self.state)))
        return True


def logged_question(profile: str, decision: Decision) -> LoggedQuestion:
    """The question of a decision."""
    return LoggedQuestion(profile=profile, now=decision.snapshot.now, revision=decision.snapshot_revision)


def logged_found(answer: GroupAnswer | Preemption) -> LoggedFound:
    """The answer of a search for a group, as far as a replay compares it."""
    if isinstance(answer, Placed):
        left = tuple(pod.uid for pod in answer.left)
        return LoggedFound(result="placed", nodes=dict(answer.nodes), domains=dict(answer.domains), left=left)
    if isinstance(answer, Preemption):
        victims = tuple(pod.uid for pod in answer.victims)
        return replace(logged_found(answer.placement), result="freed", victims=victims, violations=answer.violations)
    return LoggedFound(result="impossible" if isinstance(answer, Impossible) else "not found", message=answer.message)


def logged_answer(decision: Decision) -> LoggedAnswer:
    """The result of a decision, as far as a replay compares it."""
    return LoggedAnswer(
        node=decision.node,
        feasible=decision.feasible,
        n_nodes=decision.n_nodes,
        ties=decision.ties,
        message=decision.message,
        nominated=decision.nominated,
        victims=tuple(victim.uid for victim in decision.victims),
        totals=decision.totals,
        devices=tuple(each.uid for each in decision.devices),
        while_changing=decision.while_changing,
    )
