"""The question of a PlacementPreview: its pods, what is made with them, and the chain that decides.

The pods are those of a template or of a workload. The policies are those of the scheduler, or the preview's own policy.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

import msgspec
from msgspec import Struct, structs

from wharfinger.builtins import CATALOGUE
from wharfinger.compiler import cost
from wharfinger.compiler.program import CompiledPolicy, compile_policy
from wharfinger.crd.models import MAX_PODS, PlacementPreviewSpec, PolicyAppSpec, PreviewPolicy, WorkloadRef
from wharfinger.errors import InvalidObject, UnknownObject, UsageError
from wharfinger.event_loop import BuildThread
from wharfinger.framework.chain import Chain, with_policies
from wharfinger.kube import api_errors
from wharfinger.kube.custom_resources import ObjectWriter, collection
from wharfinger.language.load import TextSet
from wharfinger.language.report.diagnostics import Diagnostics, PolicyError
from wharfinger.language.semantics.authority import Authority
from wharfinger.model import objects
from wharfinger.model.objects.metadata import ObjectMeta
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode, workloads
from wharfinger.model.reading.admission import Admission
from wharfinger.model.reading.files import Objects
from wharfinger.operator import app_objects
from wharfinger.operator.policy_checks import PolicyChecks
from wharfinger.operator.preview_answer import WhatIf
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
MAX_TEMPLATE_BYTES = 2**16
"""Bytes of JSON of the pods' template: what a decision about them costs grows with it, and the scheduler waits for each of up to 1,000."""

MAX_BYTES_OF_LABELS = 2**24
"""Bytes of labels, of all pods together, where each pod has labels of its own: decisions keep them several times."""
BYTES_OF_LABEL = 100
"""Bytes of memory of a label, in addition to its text."""


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
            chain=self._checks.held_back(chain),
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
