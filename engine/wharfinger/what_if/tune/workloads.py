"""The workloads of trials: pods on a cluster (a snapshot or a trace), or a decision log; and the part that is held out from a search.

A cluster is divided by nodes and pods: similar nodes are spread over both parts, and so are similar pods; placed pods stay with their
nodes. A log is divided by time: the later decisions are held out, on the cluster as it was recorded up to then.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Container, Iterable, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace
from msgspec.structs import replace as replace_struct

from wharfinger.compiler.program import CompiledPolicy
from wharfinger.errors import UsageError
from wharfinger.framework.chain import Chain, assemble, with_policies
from wharfinger.framework.chain_settings import ChainConfig
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.groups.turns import age_key, queue_key
from wharfinger.language.report.wording import count
from wharfinger.model import objects as kubernetes
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.copies import Checkpoint, checkpoint_of, restored
from wharfinger.scheduler.decision_log.lines import HEAD, Line
from wharfinger.scheduler.decision_log.reading import BrokenLog, LogReader, Playback
from wharfinger.simulate.dry_run import dry_run
from wharfinger.simulate.placing import place_pod
from wharfinger.what_if.leaving_pods import recreated, replaced_pods
from wharfinger.what_if.tune import objectives

Measures = dict[str, float]


class Waiting(Struct, frozen=True, kw_only=True):
    """A cluster at the time `now` and the pods to place on it; `former` are the nodes of pods that were placed before."""

    title: str
    cluster: Checkpoint
    now: float
    pods: tuple[PodView, ...]
    config: ChainConfig | None = None
    former: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.title}: {count(len(self.cluster.nodes), 'node')}, {count(len(self.pods), 'pod')} to place"

    def measured(self, policies: Sequence[CompiledPolicy], names: Sequence[str]) -> Measures:
        """The measures by name once the pods are placed by these policies."""
        state = restored(self.cluster, self.now)
        run = dry_run(assemble(policies, self.config), state, self.pods, order=age_key if self.former else queue_key)
        snapshot = state.snapshot()
        nodes = {pod.uid: None if (placed := snapshot.placed(pod.uid)) is None else snapshot.names[placed[0]] for pod in self.pods}
        counts = {
            objectives.UNPLACED: sum(node is None for node in nodes.values()),
            objectives.EVICTED: run.evicted,
            objectives.MOVES: sum(nodes[uid] != node for uid, node in self.former.items()),
        }
        return objectives.measured(names, snapshot, counts)

    def loaded(self, factor: float, seed: int) -> Waiting:
        """The workload with `factor` times as many pods: copies of pods that wait, drawn at random, each next to its original."""
        drawn = random.Random(seed).choices(self.pods, k=max(0, round(len(self.pods) * (factor - 1)))) if self.pods else []
        return replace(self, pods=(*self.pods, *(_copy(pod, number) for number, pod in enumerate(drawn))))

    def split(self, share: float, seed: int) -> tuple[Waiting, Waiting]:
        """(the part to search on, the part that is held out); the second has this share of the nodes and of the pods."""
        nodes = self.cluster.nodes
        kept = _held_out_names([(node.metadata.name, _size(node)) for node in nodes], share, seed)
        pods = _held_out_names([(pod.uid, sorted(pod.requests.items())) for pod in self.pods if pod.uid not in self.former], share, seed)
        pods |= {uid for uid, node in self.former.items() if node in kept}
        names = {node.metadata.name for node in nodes}
        return self._part(names - kept, {pod.uid for pod in self.pods} - pods), self._part(kept, pods)

    @property
    def is_empty(self) -> bool:
        """True if there is no pod to place, or no node."""
        return not (self.pods and self.cluster.nodes)

    def _part(self, nodes: AbstractSet[str], pods: AbstractSet[str]) -> Waiting:
        whole = self.cluster
        elsewhere = {pod.uid for pod, name in zip(whole.pods, whole.names, strict=True) if name not in nodes}
        cluster = replace(
            _without(whole, elsewhere),
            nodes=tuple(node for node in whole.nodes if node.metadata.name in nodes),
            nominations=tuple((pod, node) for pod, node in whole.nominations if node in nodes),
        )
        former = {uid: node for uid, node in self.former.items() if uid in pods}
        return replace(self, cluster=cluster, pods=tuple(pod for pod in self.pods if pod.uid in pods), former=former)


def waiting(title: str, state: ClusterState, pods: Sequence[PodView], config: ChainConfig | None) -> Waiting:
    """The pods that wait on a cluster."""
    return Waiting(title=title, cluster=checkpoint_of(state), now=state.snapshot().now, pods=tuple(pods), config=config)


def with_running_pods_pending(workload: Waiting, words: Sequence[str]) -> Waiting:
    """The workload with running pods to be placed again too, in order of age; `words` as of `replaced_pods`, which raises for some."""
    whole = workload.cluster
    replaced = {pod.uid: pod for pod in replaced_pods(restored(whole, workload.now), words)}
    former = {pod.uid: name for pod, name in zip(whole.pods, whole.names, strict=True) if pod.uid in replaced}
    pods = (*workload.pods, *map(recreated, replaced.values()))
    return replace(workload, pods=pods, former={**workload.former, **former}, cluster=_without(whole, replaced))


def _without(cluster: Checkpoint, pods: Container[str]) -> Checkpoint:
    """The cluster without the placed pods of these uids."""
    kept = [placed for placed in zip(cluster.pods, cluster.names, cluster.assumed, strict=True) if placed[0].uid not in pods]
    return replace(cluster, pods=[pod for pod, _, _ in kept], names=[name for _, name, _ in kept], assumed=[own for _, _, own in kept])


def _copy(pod: PodView, number: int) -> PodView:
    metadata = replace_struct(pod.object.metadata, name=f"{pod.name}-copy-{number}", uid=f"{pod.uid}-copy-{number}")
    return PodView(replace_struct(pod.object, metadata=metadata), pod.template)


def _size(node: kubernetes.Node) -> list[tuple[str, str]]:
    return sorted((resource, str(amount)) for resource, amount in node.status.allocatable.items())


def _held_out_names(members: Iterable[tuple[str, Sequence[object]]], share: float, seed: int) -> set[str]:
    """A share of the members (name, size), chosen so that both parts have similar sizes."""
    ordered = sorted(members, key=lambda member: (list(map(str, member[1])), hashlib.sha256(f"{seed} {member[0]}".encode()).digest()))
    return {name for place, (name, _) in enumerate(ordered) if int((place + 1) * share) > int(place * share)}


# ── decision logs ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Recorded(Struct, frozen=True, kw_only=True):
    """The decisions `first` to `last` (exclusive) of a log. Before them, everything is as it was recorded.

    From then on, other policies place the pods, and the pods stay until the log deletes them; nodes, objects and metrics change as they
    did.
    """

    title: str
    lines: tuple[Line, ...]
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.title}: {count(self.last - self.first, 'decision')}"

    def measured(self, policies: Sequence[CompiledPolicy], names: Sequence[str]) -> Measures:
        """The measures by name after the last decision."""
        replay = _Replay(policies)
        number = 0
        for line in self.lines:
            if line.t == "decision":
                if number >= self.last:
                    break
                if number >= self.first:
                    replay.decide(line)
                else:
                    replay.playback.pod(line)  # later lines may name it by its uid alone
                number += 1
            elif number >= self.first:
                replay.take(line)
            else:
                replay.playback.take(line)
        return replay.measured(names)

    def split(self, share: float, _seed: int) -> tuple[Recorded, Recorded]:
        """(the earlier decisions, the later ones, which are this share)."""
        middle = self.last - int((self.last - self.first) * share)
        return replace(self, last=middle), replace(self, first=middle)

    @property
    def is_empty(self) -> bool:
        """True if there is no decision."""
        return self.first == self.last


def recorded(path: str) -> tuple[Recorded, list[str]]:
    """(the decisions of a log, sentences about missing parts). Raises UsageError for a log that does not exist or is broken."""
    reader = LogReader(path=Path(path))
    lines = tuple(line for _, line in reader.lines())
    decisions = sum(line.t == "decision" for line in lines)
    if not decisions:
        raise BrokenLog(f"{path}: no decision has been written to this decision log yet")
    return Recorded(title=path, lines=lines, first=0, last=decisions), reader.notes


def is_log(path: str) -> bool:
    """True if a file begins as a decision log does."""
    try:
        with Path(path).open("rb") as stream:
            return stream.read(len(HEAD)) == HEAD
    except OSError:
        return False  # the reader of the log reports the reason


def prepared(workload: Waiting | Recorded, words: Sequence[str], load: float, seed: int) -> Waiting | Recorded:
    """The workload with running pods placed again that `words` name (as of `replaced_pods`), and `load` times as many pods.

    UsageError for one without pods to place, for a log, which has its own arrivals, and for a load below 1.
    """
    if load < 1:
        raise UsageError(f"a load of {100 * load:g}%: expected 100% or more, because copies of pods are added and no pod is left out")
    if isinstance(workload, Recorded):
        if words or load != 1:
            raise UsageError(f"{workload.title} is a decision log, which has its own arrivals; --replace and --load are for snapshots")
        return workload
    whole = with_running_pods_pending(workload, words) if words else workload
    if not whole.pods:
        hint = "there are no running pods to place again either" if words else "--replace all places its running pods again"
        raise UsageError(f"{whole.title}: there are no pods to place; {hint}")
    return whole.loaded(load, seed)


def split(workloads: Sequence[Waiting | Recorded], share: float, seed: int) -> tuple[list[Waiting | Recorded], list[Waiting | Recorded]]:
    """(the parts to search on, the parts that are held out); nothing is held out for a share of 0.

    UsageError for a workload that is too small: the policies would be compared on nothing.
    """
    if not share:
        return list(workloads), []
    parts = [workload.split(share, seed) for workload in workloads]
    for workload, both in zip(workloads, parts, strict=True):
        if any(part.is_empty for part in both):
            raise UsageError(
                f"{workload}: this is too little to hold out {100 * share:g}% of it; "
                "hold out other data (--held-out FILE), or nothing (--held-out 0%)"
            )
    return [part for part, _ in parts], [part for _, part in parts]


class _Replay:
    """The decisions of a log made by other policies, each on the cluster that the ones before have made."""

    def __init__(self, policies: Sequence[CompiledPolicy]) -> None:
        self.playback = Playback()
        self._policies = policies
        self._deciders: dict[str, tuple[Chain, Decider]] = {}
        self._placed: set[str] = set()
        self._waiting: dict[str, tuple[PodView, str]] = {}
        self._now = 0.0
        self._moves = self._evicted = 0
        self._room = False

    def take(self, line: Line) -> None:
        """Apply a line that is no decision, unless it is about where a pod went that is decided about here."""
        if bytes(line.object) and line.t in {"pod", "assume", "nominate"}:
            self.playback.pod(line)  # later lines may name it by its uid alone
        if line.t == "pod gone":
            self._placed.discard(line.uid)
            self._waiting.pop(line.uid, None)
        elif line.uid in self._placed or line.uid in self._waiting or line.t in {"assume", "nominate"}:
            return
        self._room = self._room or line.t in {"pod gone", "node"}
        self.playback.take(line)

    def decide(self, line: Line) -> None:
        """Place the pod of a decision, after those that waited for the room that there is now."""
        pod, question, answer = self.playback.pod(line), line.question, line.answer
        if question is None or answer is None or not self.playback.complete or question.profile not in self.playback.chains:
            raise BrokenLog("a decision of which something is missing")
        self._now = question.now
        if self._room:
            self._room = False
            self._try_waiting()
        if not self.playback.state.is_placed(pod.uid):
            node = self._place(pod, question.profile)
            self._moves += node != answer.node

    def measured(self, names: Sequence[str]) -> Measures:
        """The measures at the end."""
        self._try_waiting()
        counts = {objectives.UNPLACED: len(self._waiting), objectives.EVICTED: self._evicted, objectives.MOVES: self._moves}
        return objectives.measured(names, self.playback.state.snapshot(), counts)

    def _try_waiting(self) -> None:
        for pod, profile in list(self._waiting.values()):
            self._place(pod, profile)

    def _place(self, pod: PodView, profile: str) -> str | None:
        """The node of a pod, which is placed there; without one it waits."""
        outcome = place_pod(self._decider(profile), self.playback.state, pod, watch=lambda *_: None, now=self._now)
        self._evicted += len(outcome.evicted)
        if outcome.decision.node is None:
            self._waiting[pod.uid] = pod, profile
        else:
            self._waiting.pop(pod.uid, None)
            self._placed.add(pod.uid)
        return outcome.decision.node

    def _decider(self, profile: str) -> Decider:
        """A decider by the profile's plugins as they were recorded, and the policies that are tried."""
        recorded = self.playback.chains[profile]
        known = self._deciders.get(profile)
        if known is None or known[0] is not recorded:
            known = self._deciders[profile] = recorded, Decider(with_policies(recorded, self._policies))
        return known[1]
