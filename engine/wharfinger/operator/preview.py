"""The reconciler of PlacementPreviews: where the scheduler would place some pods now.

The decisions are those of a dry run, on a copy of the live cluster at one moment, computed in short slices between which the scheduler
runs. A preview is answered again when the cluster has changed, and deleted when it has expired.

The question of a preview is its pods and the policies that decide: those of the scheduler, or its own policy.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

import msgspec
from msgspec import Struct, structs
from pydantic import ValidationError

from wharfinger.builtins import CATALOGUE
from wharfinger.compiler import cost
from wharfinger.compiler.program import CompiledPolicy, compile_policy
from wharfinger.crd.models import MAX_LIFETIME, MAX_PODS, Condition, PlacementPreviewSpec, PolicyAppSpec, PreviewPolicy, WorkloadRef
from wharfinger.errors import InvalidObject, UnknownObject, UsageError, WharfingerError
from wharfinger.event_loop import BuildThread
from wharfinger.framework.chain import Chain, with_policies
from wharfinger.framework.ports import Clock, WriteFailed
from wharfinger.kube import api_errors
from wharfinger.kube.api_errors import ApiError
from wharfinger.kube.custom_resources import ObjectWriter, PlacementPreview, collection
from wharfinger.language.load import TextSet
from wharfinger.language.report.diagnostics import Diagnostics, PolicyError
from wharfinger.language.semantics.authority import Authority
from wharfinger.model import objects
from wharfinger.model.objects.metadata import ObjectMeta, time_text
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode, workloads
from wharfinger.model.reading.admission import Admission
from wharfinger.model.reading.files import Objects
from wharfinger.operator import app_objects
from wharfinger.operator.app_objects import remove
from wharfinger.operator.controller import ObjectCache, condition, invalid_field, ready, with_transition_times
from wharfinger.operator.policy_checks import PolicyChecks
from wharfinger.operator.preview_answer import Answer, WhatIf, answer_preview
from wharfinger.steps import TimedSteps, in_slices
from wharfinger.what_if.supposed_changes import NodesLike

P = ParamSpec("P")
T = TypeVar("T")

_KINDS: Mapping[str, tuple[str, type[objects.AnyObject]]] = {
    "Deployment": ("/apis/apps/v1/namespaces/{}/deployments/{}", objects.Deployment),
    "StatefulSet": ("/apis/apps/v1/namespaces/{}/statefulsets/{}", objects.StatefulSet),
    "ReplicaSet": ("/apis/apps/v1/namespaces/{}/replicasets/{}", objects.ReplicaSet),
    "Job": ("/apis/batch/v1/namespaces/{}/jobs/{}", objects.Job),
}
_MAX_COMPILED = 64
_DEFAULT_LIFETIME = float(PlacementPreviewSpec.model_fields["ttl_seconds"].default)
MAX_TEMPLATE_BYTES = 2**16
"""Bytes of JSON of the pods' template: what a decision about them costs grows with it, and the scheduler waits for each of up to 1,000."""

MAX_BYTES_OF_LABELS = 2**24
"""Bytes of labels, of all pods together, where each pod has labels of its own: decisions keep them several times."""
BYTES_OF_LABEL = 100
"""Bytes of memory of a label, in addition to its text."""

REFRESH = 3.0
"""Fewest seconds between two answers to the same question."""

PAUSE_RATIO = 4.0
"""After an answer follows a pause that is this many times as long as its work: answers take at most a fifth of the time."""

FIRST_ANSWER_CREDIT = 5.0
"""Seconds of the pause of its namespace that a new question need not wait for."""

FIRST_ANSWERS_CREDIT = 120.0
"""The same for the pause of all namespaces: three of the longest answers."""

NOTICE = 5.0
"""Seconds after which the status of a new question says that it waits."""

LOOKS_PER_SECOND = 100
"""Waiting questions that are looked at in a second while another is being answered, at most."""

_REASONS: Mapping[type[Exception], str] = {PolicyError: "InvalidPolicy", UnknownObject: "UnknownObject"}
"""Reasons for which there is no answer, by error; that of any other error is `InvalidQuestion`."""


class PreviewQuestion(Struct, frozen=True, kw_only=True):
    """The pods to place, the objects made with them, and the chain that decides; `note` describes how the question was understood."""

    pods: tuple[PodView, ...]
    made: tuple[objects.AnyObject, ...]
    chain: Chain
    what_if: WhatIf
    note: str = ""


class Questions:
    """Turns specs into questions."""

    def __init__(self, checks: PolicyChecks, writer: ObjectWriter) -> None:
        self._checks = checks
        self._writer = writer
        self._compiled: dict[str, CompiledPolicy] = {}
        self._thread = BuildThread(checks.clock)
        self.seconds = 0.0
        """Seconds that the work on all questions has taken so far, in a thread."""

    async def of(self, meta: ObjectMeta, spec: PlacementPreviewSpec) -> PreviewQuestion:
        """The question of a preview.

        UnknownObject, UsageError, PolicyError or InvalidObject if it cannot be evaluated, ApiError of the writer.
        """
        cluster = self._cluster()
        expansion = await self._timed(_expanded, *await self._workload(meta, spec), cluster)
        _of_class(expansion.pods, cluster)
        if not self._checks.rights.trusted:
            _refuse_affinity_to_others(expansion.pods[:1])  # all are of one template
            _refuse_drain(spec)
        chain, note = self._chain(expansion.pods)
        if spec.policies is None:  # policies of other namespaces do not count, and the revision of all policies is not shown
            policies = [policy for policy in chain.policies if policy.authority.covers(meta.namespace)]
        else:
            policies = [await self._policy(each, meta.namespace) for each in spec.policies]
            _refuse_duplicate_names(policies)
        chain = with_policies(chain, policies)
        unknown = decode.unknown_template_fields(spec.template, "spec.template") if spec.template else ()
        return PreviewQuestion(
            pods=tuple(map(PodView, expansion.pods)),
            made=expansion.made,
            chain=chain,
            note="\n".join(filter(None, [*unknown, note])),
            what_if=_what_if(spec),
        )

    # ── the pods ──

    async def _workload(self, meta: ObjectMeta, spec: PlacementPreviewSpec) -> tuple[dict[str, Any], type[objects.AnyObject]]:
        """The workload as the API server has it, and its kind."""
        if spec.workload_ref is not None:
            found, kind = await self._referred(meta.namespace, spec.workload_ref)
        else:
            found = {"metadata": {"name": meta.name, "namespace": meta.namespace}, "spec": {"template": spec.template or {}}}
            kind = objects.Deployment  # whose ReplicaSet has its pods spread, as the API server will have it
        if spec.replicas is not None:
            counts = ("parallelism", "completions") if kind is objects.Job else ("replicas",)
            found = {**found, "spec": {**(found.get("spec") or {}), **dict.fromkeys(counts, spec.replicas)}}
        try:
            size = len(msgspec.json.encode((found.get("spec") or {}).get("template")))
        except RecursionError:
            raise UsageError("the template of the pods is nested too deeply to be read") from None
        if size > MAX_TEMPLATE_BYTES:
            raise UsageError(f"the template of the pods has {size:,} bytes; at most {MAX_TEMPLATE_BYTES:,} are previewed")
        return found, kind

    async def _referred(self, namespace: str, ref: WorkloadRef) -> tuple[dict[str, Any], type[objects.AnyObject]]:
        try:
            if ref.kind == "PolicyApp":
                app = await self._writer.get(f"{collection('PolicyApp', namespace)}/{ref.name}")
                meta = msgspec.convert(app["metadata"], ObjectMeta)
                return app_objects.deployment(meta, PolicyAppSpec.model_validate(app["spec"])), objects.Deployment
            path, kind = _KINDS[ref.kind]
            return await self._writer.get(path.format(namespace, ref.name)), kind
        except api_errors.NotFound:
            raise UnknownObject(f"there is no {ref.kind} {ref.name} in namespace {namespace}") from None

    def _cluster(self) -> Objects:
        """The classes and claims that the pods are looked up in."""
        store = self._checks.snapshot().objects
        return Objects(by_kind={kind: store.all(kind) for kind in workloads.LOOKED_UP})

    # ── who decides ──

    def _chain(self, pods: Sequence[objects.Pod]) -> tuple[Chain, str]:
        name_of_scheduler = pods[0].spec.scheduler_name if pods else ""
        chain = self._checks.chain_of(name_of_scheduler)
        if chain is not None:
            return chain, ""
        name, chain = self._checks.first()
        return chain, f"the pods are another scheduler's ({name_of_scheduler}); the answer is for {name}" if name_of_scheduler else ""

    async def _policy(self, wanted: PreviewPolicy, namespace: str) -> CompiledPolicy:
        if wanted.source is None:
            if wanted.params:
                raise UsageError("`params` are for the policy of `source`; a policy that is named has its own")
            policies = (policy for chain in self._checks.chains() for policy in chain.policies)
            known = {policy.name: policy for policy in policies if policy.authority.covers(namespace)}
            if wanted.name not in known:
                raise UnknownObject(f'there is no active policy "{wanted.name}"')
            return known[wanted.name]
        authority = self._checks.rights.of(namespace)
        key = hashlib.sha256(repr((authority, wanted.source, sorted(wanted.params.items()))).encode()).hexdigest()
        if key not in self._compiled:
            if len(self._compiled) >= _MAX_COMPILED:
                self._compiled.pop(next(iter(self._compiled)))
            self._compiled[key] = await self._timed(compiled, wanted.source, dict(wanted.params), authority)
        return self._compiled[key]

    async def _timed(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of a function that a thread calls; its time is counted."""
        began = self._checks.clock.monotonic()
        try:
            return await self._thread.run_without_rest(function, *args, **kwargs)
        finally:
            self.seconds += self._checks.clock.monotonic() - began


def _expanded(plain: dict[str, Any], kind: type[objects.AnyObject], cluster: Objects) -> workloads.Expansion:
    """The pods of a workload, at most `MAX_PODS`; InvalidObject if it cannot be read, UsageError if there are more pods or claims."""
    workload = decode.convert(plain, kind)
    _limit_own_labels(workload)
    try:
        return workloads.expand(Objects(by_kind={kind: (workload,)}), cluster, limit=MAX_PODS)
    except InvalidObject as error:
        raise UsageError(f"{error}; set spec.replicas to the number to place") from error


def _limit_own_labels(workload: objects.AnyObject) -> None:
    """Raise UsageError if each pod has labels of its own, with its name or number, and these are too large together."""
    if isinstance(workload, objects.StatefulSet):
        count, metadata = workload.spec.replicas, workload.spec.template.metadata
        own = [metadata.labels]
    elif isinstance(workload, objects.Job) and workload.spec.completion_mode == "Indexed":
        count, metadata = workload.spec.parallelism, workload.spec.template.metadata
        own = [metadata.labels, metadata.annotations]
    else:
        return
    size = sum(BYTES_OF_LABEL + len(key) + len(value) for texts in own for key, value in texts.items())
    limit = MAX_BYTES_OF_LABELS // max(1, size)
    if min(1 if count is None else count, MAX_PODS) > limit:
        raise UsageError(
            f"each pod of a {objects.kind_of(workload)} has labels of its own, and those of the template are large: at most {limit:,} such "
            "pods are previewed; set spec.replicas to that number"
        )


def _of_class(pods: Sequence[objects.Pod], cluster: Objects) -> None:
    """Raise UsageError for pods with another priority than that of their class, which no API server would accept.

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


def _what_if(spec: PlacementPreviewSpec) -> WhatIf:
    nodes = tuple(NodesLike(model=wanted.like, count=wanted.count) for wanted in spec.nodes)
    return WhatIf(nodes=nodes, drain=spec.drain, capacity=bool(spec.capacity))


def _refuse_drain(spec: PlacementPreviewSpec) -> None:
    """Raise UsageError for a drain: it would show the pods of other namespaces on the node, and of their priorities."""
    if spec.drain:
        raise UsageError(
            "a drain moves pods of other namespaces, which a preview does not show; leave out `drain`, or set `tenantPolicies: Trusted`"
        )


def _refuse_duplicate_names(policies: Sequence[CompiledPolicy]) -> None:
    """Raise UsageError if two policies have the same name."""
    names = Counter(policy.name for policy in policies)
    twice = next((name for name, times in names.items() if times > 1), None)
    if twice is not None:
        raise UsageError(f'two of the policies to try are called "{twice}"; rename one of them')


def _refuse_affinity_to_others(pods: Sequence[objects.Pod]) -> None:
    """Raise UsageError for pods whose affinity looks at pods of other namespaces.

    The answer would show whether a pod there has a label, to users who may not create such pods: Kubernetes has a
    quota for that (the scope CrossNamespacePodAffinity), which holds when pods are made, and a preview makes none.
    """
    for pod in pods:
        if any(term.namespace_selector is not None or set(term.namespaces) - {pod.metadata.namespace} for term in _terms(pod)):
            raise UsageError(
                "the pods' affinity reaches other namespaces, which a preview does not show; leave out `namespaces` and "
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
        raise UsageError("the text has no `policy` line")
    return cost.affordable(compile_policy(policy, params))


class Pauses:
    """The pauses after answers, for all namespaces and for each: many questions of one namespace do not delay those of others."""

    def __init__(self) -> None:
        self._until = 0.0
        self._until_of: dict[str, float] = {}

    def left(self, namespace: str, now: float, *, is_new: bool) -> float:
        """Seconds to wait before a question of a namespace is answered; a new one waits less."""
        if not is_new:
            return self._until - now
        own = self._until_of.get(namespace, 0.0) - FIRST_ANSWER_CREDIT
        return max(own, self._until - FIRST_ANSWERS_CREDIT) - now

    def add(self, namespace: str, seconds: float, ended: float) -> None:
        """Count the work of an answer, in seconds, that ended at this time."""
        pause = PAUSE_RATIO * seconds
        self._until = max(self._until, ended) + pause
        self._until_of = {known: until for known, until in self._until_of.items() if until > ended}
        self._until_of[namespace] = max(self._until_of.get(namespace, 0.0), ended) + pause


class PreviewReconciler:
    """Answers PlacementPreviews, one at a time. It may be called for others meanwhile."""

    def __init__(self, cache: ObjectCache, writer: ObjectWriter, checks: PolicyChecks, questions: Questions, clock: Clock) -> None:
        self._cache = cache
        self._writer = writer
        self._checks = checks
        self._questions = questions
        self._clock = clock
        self._answered: dict[str, tuple[Any, Any]] = {}
        self._first_seen: dict[str, tuple[str, float]] = {}  # by key: the uid, and a moment of the clock that is never put back
        self._waiting: dict[str, tuple[Any, float]] = {}  # by key: the new question, and the monotonic time since when it waits
        self._answering = False
        self._pauses = Pauses()

    async def reconcile(self, key: str) -> float | None:
        """Seconds until the next reconcile; None if the preview is deleted."""
        preview: PlacementPreview | None = self._cache.get("PlacementPreview", key)
        if preview is None or preview.metadata.deletion_timestamp is not None:
            for known in (self._answered, self._first_seen, self._waiting):
                known.pop(key, None)
            return None
        left = self._seconds_left(key, preview)
        if left <= 0:
            await remove(self._writer, preview)
            return None
        question = (preview.metadata.uid, preview.metadata.generation)
        revision = self._checks.revision
        if self._answered.get(key) != (question, revision):
            is_new = self._answered.get(key, (None,))[0] != question
            rest = self._rest(preview.metadata.namespace, is_new=is_new)
            if rest > 0:
                return min(left, await self._wait(key, preview, rest) if is_new else rest)
            self._waiting.pop(key, None)
            self._answering = True
            try:
                await self._answer(preview)
            finally:
                self._answering = False
            self._answered[key] = (question, revision)
        return min(REFRESH, max(self._seconds_left(key, preview), 0.0))

    def _rest(self, namespace: str, *, is_new: bool) -> float:
        """Seconds until a question of a namespace may be answered, or is looked at again; 0 or less for now."""
        if self._answering:
            return max(1.0, len(self._waiting) / LOOKS_PER_SECOND)
        return self._pauses.left(namespace, self._clock.monotonic(), is_new=is_new)

    async def _wait(self, key: str, preview: PlacementPreview, rest: float) -> float:
        """Seconds until the next look at a new question, which rests for `rest` seconds. If it waits long, its status says so, once."""
        meta, now = preview.metadata, self._clock.monotonic()
        question = (meta.uid, meta.generation)
        known, since = self._waiting.get(key, (None, now))
        if known != question:
            since = now
            self._waiting[key] = question, since
        notice = since + NOTICE - now
        if preview.status.get("observedGeneration") == meta.generation:  # it says so already, or a former leader has answered
            return rest
        if notice > 0:
            return min(rest, notice)
        await self._write(preview, {}, waiting(meta.namespace))
        return rest

    def _seconds_left(self, key: str, preview: PlacementPreview) -> float:
        """Seconds until a preview expires: at its time, and no later than its `ttlSeconds` after this process has seen it.

        So a preview expires too if the time of day is put back, or if its creation is in the future by the time of day here.
        """
        uid, now = preview.metadata.uid, self._clock.monotonic()
        known, since = self._first_seen.get(key, ("", 0.0))
        if known != uid:
            since = now
            self._first_seen[key] = uid, since
        return min(_expires(preview) - self._clock.now(), since + _ttl(preview) - now)

    async def _answer(self, preview: PlacementPreview) -> None:
        """Write the answer. What counts as its work is what the scheduler has less time for, and not how long it waits between steps."""
        meta, of_questions = preview.metadata, self._questions.seconds
        steps: TimedSteps[Answer] | None = None
        found: dict[str, Any] = {}
        try:
            spec = PlacementPreviewSpec.model_validate(preview.spec)
            asked = await self._questions.of(meta, spec)
            sees = None if self._checks.rights.trusted else meta.namespace
            steps = TimedSteps(
                answer_preview(asked.chain, self._checks.snapshot(), asked.pods, asked.made, sees, asked.what_if), self._clock
            )
            answer = await in_slices(steps.run(), self._clock)
        except (*api_errors.TRANSIENT, WriteFailed):
            raise
        except (WharfingerError, ValidationError) as error:
            conditions = unanswered(error)
        else:
            found = answer.status()
            conditions = conditions_of(answer, asked.note)
        finally:
            seconds = self._questions.seconds - of_questions + (0.0 if steps is None else steps.seconds)
            self._pauses.add(meta.namespace, seconds, self._clock.monotonic())
        await self._write(preview, found, conditions)

    async def _write(self, preview: PlacementPreview, found: Mapping[str, Any], conditions: Sequence[Condition]) -> None:
        """Write the status, with what was `found`, if it has changed."""
        generation = preview.metadata.generation
        status: dict[str, Any] = {"observedGeneration": generation, "expiresAt": time_text(_expires(preview)), **found}
        status["conditions"] = with_transition_times(conditions, preview.status, generation, self._clock.now())
        if status != preview.status:
            await self._writer.apply_status(preview, status)


def conditions_of(answer: Answer, note: str) -> list[Condition]:
    """The conditions of a preview with an answer; `note` has sentences about how the question was understood, a line each."""
    main = ready(True, "Answered", note) if answer.miss is None else ready(True, "Unschedulable", answer.miss.message)
    return [main, condition("Answered", True, "Answered", note)]


def waiting(namespace: str) -> list[Condition]:
    """The conditions of a preview of a namespace that waits for its answer."""
    message = (
        "previews take at most a fifth of the scheduler's time, and others are answered before this one; for an answer sooner, delete "
        f"other previews of namespace {namespace}, or ask about fewer pods"
    )
    return [ready(None, "Waiting", message), condition("Answered", None, "Waiting", message)]


def unanswered(error: WharfingerError | ValidationError) -> list[Condition]:
    """The conditions of a preview without an answer."""
    reason, message = _REASONS.get(type(error), "InvalidQuestion"), str(error)
    if isinstance(error, ApiError):
        reason = error.reason or reason
    if isinstance(error, ValidationError):
        message = invalid_field(error)
    return [ready(False, reason, message), condition("Answered", False, reason, message)]


def _expires(preview: PlacementPreview) -> float:
    created = preview.metadata.creation_timestamp
    return (created.timestamp() if created is not None else 0.0) + _ttl(preview)


def _ttl(preview: PlacementPreview) -> float:
    """The lifetime in seconds, the default for one that cannot be read."""
    found = preview.spec.get("ttlSeconds")
    return float(found) if isinstance(found, int) and 0 < found <= MAX_LIFETIME else _DEFAULT_LIFETIME
