"""The reconciler of PlacementPreviews: where the scheduler would place some pods now.

The decisions are those of a dry run, on a copy of the live cluster at one moment, computed in short slices between which the scheduler
runs. A preview is answered again when the cluster has changed, and deleted when it has expired.

The question of a preview is its pods and the policies that decide: those of the scheduler, or one of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from msgspec import structs
from pydantic import ValidationError

from wharfinger.builtins import CATALOGUE
from wharfinger.compiler import cost
from wharfinger.compiler.program import CompiledPolicy, compile_policy
from wharfinger.crd.fields import Condition
from wharfinger.crd.models import (
    MOST_PLACEMENTS,
    MOST_PODS,
    MOST_RULES,
    NearestMiss,
    PlacementCount,
    PlacementPreviewSpec,
    PolicyAppSpec,
    PreviewPolicy,
    RuleCount,
    WorkloadRef,
)
from wharfinger.errors import InvalidObject, UnknownObject, UsageError, WharfingerError
from wharfinger.event_loop import in_slices
from wharfinger.framework.chain import Chain, with_policies
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.framework.ports import Clock, WriteFailed
from wharfinger.kube import refusals
from wharfinger.kube.custom_resources import ObjectWriter, PlacementPreview, collection
from wharfinger.kube.refusals import ApiError
from wharfinger.language.load import TextSet
from wharfinger.language.report.diagnostics import Diagnostics, PolicyError
from wharfinger.language.semantics.authority import Authority
from wharfinger.model import objects
from wharfinger.model.objects.metadata import ObjectMeta, time_text
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode, manifest_fields, workloads
from wharfinger.model.reading.files import Objects
from wharfinger.model.reading.workloads import Admission
from wharfinger.model.state.cluster_state import ClusterState, copied
from wharfinger.model.state.snapshot import Snapshot
from wharfinger.operator import app_objects
from wharfinger.operator.app_objects import remove
from wharfinger.operator.controller import condition, cut, dated, ready
from wharfinger.operator.judgement import Judge
from wharfinger.operator.object_cache import ObjectCache
from wharfinger.simulate import dry_run

_KINDS: Mapping[str, tuple[str, type[objects.AnyObject]]] = {
    "Deployment": ("/apis/apps/v1/namespaces/{}/deployments/{}", objects.Deployment),
    "StatefulSet": ("/apis/apps/v1/namespaces/{}/statefulsets/{}", objects.StatefulSet),
    "ReplicaSet": ("/apis/apps/v1/namespaces/{}/replicasets/{}", objects.ReplicaSet),
    "Job": ("/apis/batch/v1/namespaces/{}/jobs/{}", objects.Job),
}
_MOST_COMPILED = 64

_MOST_REASONS = 8

REFRESH = 3.0
"""Fewest seconds between two answers to the same question."""

REST = 4.0
"""Previews that have an answer wait this many times as long as the last answer took: renewing them takes at most a fifth of the time."""

_REASONS: Mapping[type[Exception], str] = {PolicyError: "InvalidPolicy", UnknownObject: "UnknownObject"}
"""Reasons for which there is no answer, by error; that of any other error is `InvalidQuestion`."""

_LATER = (refusals.TooManyRequests, refusals.ServerError, refusals.Unreachable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The pods to place, the objects made with them, and the chain that decides; `note` says how the question was understood."""

    pods: tuple[PodView, ...]
    made: tuple[objects.AnyObject, ...]
    chain: Chain
    note: str = ""


class Questions:
    """Turns specs into questions."""

    def __init__(self, judge: Judge, writer: ObjectWriter) -> None:
        self._judge = judge
        self._writer = writer
        self._compiled: dict[str, CompiledPolicy] = {}

    async def of(self, meta: ObjectMeta, spec: PlacementPreviewSpec) -> Asked:
        """The question of a preview.

        UnknownObject, UsageError, PolicyError or InvalidObject where it cannot be asked, ApiError as the writer.
        """
        expansion = self._expanded(await self._workload(meta, spec))
        _of_class(expansion.pods, self._cluster())
        if not self._judge.rights.trusted:
            _reach_no_others(expansion.pods)
        chain, note = self._chain(expansion.pods)
        if spec.policies is None:  # policies of other namespaces do not count, and the revision of all policies is not shown
            policies = [policy for policy in chain.policies if policy.authority.covers(meta.namespace)]
        else:
            policies = [await self._policy(each, meta.namespace) for each in spec.policies]
            _one_of_each_name(policies)
        chain = with_policies(chain, policies)
        unknown = manifest_fields.unknown_template_fields(spec.template, "spec.template") if spec.template else ()
        return Asked(
            pods=tuple(map(PodView, expansion.pods)), made=expansion.made, chain=chain, note="\n".join(filter(None, [*unknown, note]))
        )

    # ── the pods ──

    async def _workload(self, meta: ObjectMeta, spec: PlacementPreviewSpec) -> objects.AnyObject:
        if spec.workload_ref is not None:
            found, kind = await self._referred(meta.namespace, spec.workload_ref)
        else:
            found = {"metadata": {"name": meta.name, "namespace": meta.namespace}, "spec": {"template": spec.template or {}}}
            kind = objects.ReplicaSet
        if spec.replicas is not None:
            counts = ("parallelism", "completions") if kind is objects.Job else ("replicas",)
            found = {**found, "spec": {**(found.get("spec") or {}), **dict.fromkeys(counts, spec.replicas)}}
        return decode.convert(found, kind)

    async def _referred(self, namespace: str, ref: WorkloadRef) -> tuple[dict[str, Any], type[objects.AnyObject]]:
        try:
            if ref.kind == "PolicyApp":
                app = await self._writer.get(f"{collection('PolicyApp', namespace)}/{ref.name}")
                meta = msgspec.convert(app["metadata"], ObjectMeta)
                return app_objects.deployment(meta, PolicyAppSpec.model_validate(app["spec"])), objects.Deployment
            path, kind = _KINDS[ref.kind]
            return await self._writer.get(path.format(namespace, ref.name)), kind
        except refusals.NotFound:
            raise UnknownObject(f"there is no {ref.kind} {ref.name} in namespace {namespace}") from None

    def _expanded(self, workload: objects.AnyObject) -> workloads.Expansion:
        """The pods of a workload, at most `MOST_PODS`: they are made on the event loop, and a user must not block the scheduler."""
        try:
            return workloads.expand(Objects(by_kind={type(workload): (workload,)}), self._cluster(), most=MOST_PODS)
        except InvalidObject as error:
            raise UsageError(f"{error}; say in spec.replicas how many to place") from error

    def _cluster(self) -> Objects:
        """The priority classes that the pods are looked up in."""
        store = self._judge.snapshot().objects
        return Objects(by_kind={objects.PriorityClass: store.all(objects.PriorityClass)})

    # ── who decides ──

    def _chain(self, pods: Sequence[objects.Pod]) -> tuple[Chain, str]:
        asked = pods[0].spec.scheduler_name if pods else ""
        chain = self._judge.chain_of(asked)
        if chain is not None:
            return chain, ""
        name, chain = self._judge.first()
        return chain, f"the pods are another scheduler's ({asked}); the answer is for {name}" if asked else ""

    async def _policy(self, wanted: PreviewPolicy, namespace: str) -> CompiledPolicy:
        if wanted.source is None:
            policies = (policy for chain in self._judge.chains() for policy in chain.policies)
            known = {policy.name: policy for policy in policies if policy.authority.covers(namespace)}
            if wanted.name not in known:
                raise UnknownObject(f'there is no active policy "{wanted.name}"')
            return known[wanted.name]
        authority = self._judge.rights.of(namespace)
        key = hashlib.sha256(repr((authority, wanted.source, sorted(wanted.params.items()))).encode()).hexdigest()
        if key not in self._compiled:
            if len(self._compiled) >= _MOST_COMPILED:
                self._compiled.pop(next(iter(self._compiled)))
            self._compiled[key] = await asyncio.to_thread(compiled, wanted.source, dict(wanted.params), authority)
        return self._compiled[key]


def _of_class(pods: Sequence[objects.Pod], cluster: Objects) -> None:
    """Raises UsageError for pods with another priority than that of their class, which no API server would accept.

    With a free choice of numbers one could find out the priorities of the pods that would be evicted, one comparison at a time.
    """
    if not pods:
        return
    pod = pods[0]  # all are of one template
    found = Admission(cluster.of(objects.PriorityClass)).admit(structs.replace(pod, spec=structs.replace(pod.spec, priority=None)))
    if found.spec.priority != pod.spec.priority:
        raise UsageError(
            f"the pods' priority is {pod.spec.priority}, where their class gives {found.spec.priority}; leave out `priority`, and name a "
            "class in `priorityClassName`"
        )


def _one_of_each_name(policies: Sequence[CompiledPolicy]) -> None:
    """Raises UsageError for two policies of one name."""
    names = Counter(policy.name for policy in policies)
    twice = next((name for name, times in names.items() if times > 1), None)
    if twice is not None:
        raise UsageError(f'two of the policies to try are called "{twice}"; rename one of them')


def _reach_no_others(pods: Sequence[objects.Pod]) -> None:
    """Raises UsageError for pods whose affinity looks at pods of other namespaces.

    The answer would show whether a pod there has a label, to users who may not create such pods: Kubernetes has a
    quota for that (the scope CrossNamespacePodAffinity), which holds when pods are made, and a preview makes none.
    """
    for pod in pods:
        if any(term.namespace_selector is not None or set(term.namespaces) - {pod.metadata.namespace} for term in _terms(pod)):
            raise UsageError(
                "the pods' affinity reaches other namespaces, which a preview tells nothing about; leave out `namespaces` and "
                "`namespaceSelector`, or set `tenantPolicies: Trusted`"
            )


def _terms(pod: objects.Pod) -> Iterator[objects.PodAffinityTerm]:
    affinity = pod.spec.affinity
    for found in () if affinity is None else (affinity.pod_affinity, affinity.pod_anti_affinity):
        if found is not None:
            yield from found.required_during_scheduling_ignored_during_execution
            yield from (weighted.pod_affinity_term for weighted in found.preferred_during_scheduling_ignored_during_execution)


def compiled(text: str, params: Mapping[str, str], authority: Authority) -> CompiledPolicy:
    """The policy of a text that imports libraries at most, as that of `authority`.

    PolicyError or UsageError where there is none, or it costs too much.
    """
    diagnostics = Diagnostics()
    policy = TextSet(texts={"policy": text.encode()}, imports=False).check("policy", CATALOGUE, diagnostics, authority).policy
    if diagnostics.has_errors:
        raise PolicyError(diagnostics)
    if policy is None:
        raise UsageError("the text holds no `policy` line")
    return cost.affordable(compile_policy(policy, params))


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """Why a pod finds no node, for the first such pod."""

    message: str
    rules: tuple[RuleCount, ...]
    nearest: NearestMiss | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The node of each pod (None where no node fits), in the order of the decisions."""

    nodes: tuple[tuple[str, str | None], ...]
    miss: Miss | None
    policy_revision: str

    def status(self) -> dict[str, Any]:
        """The part of the status with the answer."""
        counts = Counter(node for _, node in self.nodes if node is not None)
        ordered = sorted(counts, key=lambda node: (-counts[node], node))
        status: dict[str, Any] = {
            "pods": len(self.nodes),
            "placed": sum(counts.values()),
            "placements": [PlacementCount(node=node, count=counts[node]).plain() for node in ordered[:MOST_PLACEMENTS]],
            "policyRevision": self.policy_revision,
        }
        if len(ordered) > MOST_PLACEMENTS:
            status["moreNodes"] = len(ordered) - MOST_PLACEMENTS
        if self.miss is not None:
            status |= {"message": self.miss.message, "rules": [each.plain() for each in self.miss.rules]}
            if self.miss.nearest is not None:
                status["nearestMiss"] = self.miss.nearest.plain()
        return status


def answered(
    chain: Chain, snapshot: Snapshot, pods: Sequence[PodView], made: Sequence[objects.AnyObject] = (), namespace: str | None = None
) -> Generator[None, None, Answer]:
    """A generator of steps that returns the answer. `made` are objects that belong to the pods: their ReplicaSet, their claims.

    For users of one `namespace` (None: for anyone) disruption budgets of other namespaces do not count: which pods a budget
    covers depends on labels that these users may not see.
    """
    state = yield from copied(snapshot)
    if namespace is not None:
        _forget_budgets_of_others(state, namespace)
    for obj in made:
        state.put(obj)
    nodes: list[tuple[str, str | None]] = []
    miss: Miss | None = None

    def watch(decision: Decision, seen: Snapshot, _evicted: tuple[PodView, ...]) -> Miss | None:
        return _miss(decision, seen) if decision.node is None and miss is None else None

    for outcome in dry_run.place_pods(chain, state, pods, watch=watch):
        nodes.append((outcome.decision.pod.key, outcome.decision.node))
        miss = miss or outcome.seen
        yield
    return Answer(nodes=tuple(nodes), miss=miss, policy_revision=chain.policy_revision)


def _forget_budgets_of_others(state: ClusterState, namespace: str) -> None:
    budgets = [budget for budget in state.objects.all(objects.PodDisruptionBudget) if budget.metadata.namespace != namespace]
    for budget in budgets:
        state.drop("PodDisruptionBudget", objects.key_of(budget))


def _miss(decision: Decision, snapshot: Snapshot) -> Miss:
    told = [each for each in decision.diagnosis.filters if each.alone]
    rules = tuple(
        RuleCount(rule=each.plugin[:253], rejected=each.alone, reasons=_counted(each.reasons))
        for each in sorted(told, key=lambda each: (-each.alone, each.plugin))[:MOST_RULES]
    )
    return Miss(message=cut(decision.message, 4000), rules=rules, nearest=_nearest(decision, snapshot, [each.plugin for each in told]))


def _counted(reasons: Any) -> tuple[str, ...]:
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return tuple(cut(f"{count} {text}", 1024) for text, count in ordered[:_MOST_REASONS])


def _nearest(decision: Decision, snapshot: Snapshot, plugins: Sequence[str]) -> NearestMiss | None:
    """The node that fewest filters reject; of equals the first by name."""
    if not snapshot.n_nodes or not plugins:
        return None
    against = np.zeros(snapshot.n_nodes, np.int64)
    for plugin in plugins:
        against += decision.diagnosis.rejected_by(plugin)
    rows = np.flatnonzero(against == against.min()).tolist()
    row = min(rows, key=lambda row: snapshot.names[row])
    reasons = [f"{found.plugin}: {reason}" for found in decision.diagnosis.at(row) for reason in found.reasons]
    return NearestMiss(node=snapshot.names[row], reasons=tuple(cut(reason, 1024) for reason in reasons[:16]))


class PreviewReconciler:
    """Answers PlacementPreviews."""

    def __init__(self, cache: ObjectCache, writer: ObjectWriter, judge: Judge, questions: Questions, clock: Clock) -> None:
        self._cache = cache
        self._writer = writer
        self._judge = judge
        self._questions = questions
        self._clock = clock
        self._answered: dict[str, tuple[Any, Any]] = {}
        self._rests_until = 0.0

    async def reconcile(self, key: str) -> float | None:
        """Seconds until the next reconcile; None when the preview is gone."""
        preview: PlacementPreview | None = self._cache.get("PlacementPreview", key)
        if preview is None or preview.metadata.deletion_timestamp is not None:
            self._answered.pop(key, None)
            return None
        expires = _expires(preview)
        if self._clock.now() >= expires:
            await remove(self._writer, preview)
            return None
        question = (preview.metadata.uid, preview.metadata.generation)
        revision = self._judge.revision
        began = self._clock.monotonic()
        if self._answered.get(key) != (question, revision):
            is_new = self._answered.get(key, (None,))[0] != question
            if not is_new and began < self._rests_until:
                return self._rests_until - began
            await self._answer(preview, expires)
            self._answered[key] = (question, revision)
            ended = self._clock.monotonic()
            self._rests_until = ended + REST * (ended - began)
        return min(REFRESH, max(expires - self._clock.now(), 0.0))

    async def _answer(self, preview: PlacementPreview, expires: float) -> None:
        meta = preview.metadata
        status: dict[str, Any] = {"observedGeneration": meta.generation, "expiresAt": time_text(expires)}
        try:
            spec = PlacementPreviewSpec.model_validate(preview.spec)
            asked = await self._questions.of(meta, spec)
            sees = None if self._judge.rights.trusted else meta.namespace
            answer = await in_slices(answered(asked.chain, self._judge.snapshot(), asked.pods, asked.made, sees), self._clock)
        except (*_LATER, WriteFailed):
            raise
        except (WharfingerError, ValidationError) as error:
            conditions = unanswered(error)
        else:
            status |= answer.status()
            conditions = conditions_of(answer, asked.note)
        status["conditions"] = dated(conditions, preview.status, meta.generation, self._clock.now())
        if status != preview.status:
            await self._writer.apply_status(preview, status)


def conditions_of(answer: Answer, note: str) -> list[Condition]:
    """The conditions of a preview with an answer; `note` has sentences about how the question was understood, a line each."""
    told = ready(True, "Answered", note) if answer.miss is None else ready(True, "Unschedulable", answer.miss.message)
    return [told, condition("Answered", True, "Answered", note)]


def unanswered(error: WharfingerError | ValidationError) -> list[Condition]:
    """The conditions of a preview without an answer."""
    reason, message = _REASONS.get(type(error), "InvalidQuestion"), str(error)
    if isinstance(error, ApiError):
        reason = error.reason or reason
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        message = f"spec.{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return [ready(False, reason, message), condition("Answered", False, reason, message)]


def _expires(preview: PlacementPreview) -> float:
    created = preview.metadata.creation_timestamp
    return (created.timestamp() if created is not None else 0.0) + float(preview.spec.get("ttlSeconds") or 3600)
