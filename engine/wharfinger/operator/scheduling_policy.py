"""SchedulingPolicies: a source of policies in every replica, and the reconciler that writes their status.

While the definition is missing, the scheduler runs with the policies of other sources, reports it, and reads SchedulingPolicies as soon as
they appear. `status.lastKnownGood` repeats the version that decides, so that a process that starts while the spec is broken can continue
with it. The status has what the policy store reports and how many pods the policy governs. Counts follow the cluster, every few seconds at
most. A status is written only if it has changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace
from pydantic import ValidationError

from wharfinger.compiler.program import CompiledPolicy
from wharfinger.crd import MANAGED_BY, MANAGER, NAMESPACE_LABEL
from wharfinger.crd.models import MAX_DIAGNOSTICS, MAX_REPEATED_LENGTH, Condition, LastKnownGood, PolicyDiagnostic, SchedulingPolicySpec
from wharfinger.event_loop import TimedSteps, in_slices, until
from wharfinger.framework.policy_status import Finding, FormerText, MetricStatus, Mode, PolicySink, PolicyStatus, PolicyText, Result
from wharfinger.framework.ports import Clock, Reference
from wharfinger.kube.custom_resources import ObjectWriter, SchedulingPolicy, reference_of
from wharfinger.language.semantics.authority import TenantRights
from wharfinger.model.objects.metadata import time_text
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.object_store import EvaluationContext
from wharfinger.operator.app_objects import app_key_of, policy_name
from wharfinger.operator.controller import ObjectCache, condition, cut, invalid_field, ready, with_transition_times
from wharfinger.operator.policy_checks import PolicyChecks, eligible
from wharfinger.policies.scans import scans_too_much

FIELD = "lastKnownGood"

KIND = "SchedulingPolicy"
SOURCE = "schedulingpolicies"
_POLL_SECONDS = 2.0  # seconds between two checks whether the kind can be read

NOT_INSTALLED = "the definition of SchedulingPolicies is not there any more; `wharf install --print | kubectl apply -f -` brings it back"

REFRESH = 3.0
"""Fewest seconds between two reconciles of a policy that was not edited."""

PAUSE_RATIO = 20.0
"""The pause after counting for all policies, as a multiple of the time that it took: counting takes at most a twentieth of the time."""

_BATCH = 200
_COUNTS = ("matched", "nodes", "eligible")
_NOT_OF_THE_TEXT = {"test", "params", "trial", "set"}


def last_known_good(found: PolicyStatus, before: Mapping[str, Any]) -> dict[str, Any] | None:
    """The value for the status: the version in effect, otherwise the value of the status `before`; None if it had none."""
    if not found.is_in_force:
        known: dict[str, Any] | None = before.get(FIELD)
        return known
    in_force = found.text_in_force
    if in_force is None:
        return None
    source = in_force.content.decode("utf-8", "replace")
    if len(source) > MAX_REPEATED_LENGTH:
        return None
    record = {"source": source, "generation": in_force.generation, "since": time_text(in_force.since)}
    return {**record, "params": dict(in_force.params)} if in_force.params else record


def remembered(status: Mapping[str, Any]) -> FormerText | None:
    """The last good version in a status; None if there is none that can be read."""
    if status.get(FIELD) is None:
        return None
    try:
        good = LastKnownGood.model_validate(status[FIELD])
    except ValidationError:
        return None
    return FormerText(content=good.source.encode(), params=dict(good.params), generation=good.generation, since=good.since.timestamp())


class SchedulingPolicySource:
    """The `PolicySource` of SchedulingPolicies, read from the informers.

    `refused` returns why the kind cannot be listed, None if it can. `rights` are those of policies that belong to a namespace. A kind that
    is `absent` from the start has no policies; if it vanishes later, its last policies stay.
    """

    name = SOURCE
    empty_is_lost = False
    imports = False

    def __init__(
        self,
        cache: ObjectCache,
        clock: Clock,
        refused: Callable[[], str | None],
        absent: Callable[[], bool] = lambda: False,
        rights: TenantRights | None = None,
    ) -> None:
        self._cache = cache
        self._clock = clock
        self._refused = refused
        self._absent = absent
        self._rights = rights or TenantRights()
        self._changed = asyncio.Event()
        self._texts: dict[str, PolicyText] = {}
        self._unread = {policy.metadata.name for policy in cache.all(KIND)}  # names whose objects have changed since they were read
        cache.watch(KIND, self._policy_changed)
        cache.watch("PolicyApp", lambda app: self._unread.add(policy_name(app.metadata)))
        cache.when_synced(KIND, self._changed.set)

    async def run(self, sink: PolicySink) -> None:
        """Give the sink all policies and then every change, until cancelled."""
        reported: str | None = ""
        is_offered = False
        while True:
            self._changed.clear()
            if KIND in self._cache.synced_kinds:
                why = self._refused()
                if why is None or (reported == "" and self._absent()):
                    if self._read_changes() or not is_offered:
                        is_offered = True
                        sink.offer(SOURCE, dict(sorted(self._texts.items())))
                elif why != reported:
                    is_offered = False
                    sink.mark_unreadable(SOURCE, NOT_INSTALLED if self._absent() else f"SchedulingPolicies cannot be read: {why}")
                reported = why
            await self._wait_for_change(reported)

    def _policy_changed(self, policy: SchedulingPolicy) -> None:
        self._unread.add(policy.metadata.name)
        self._changed.set()

    def _read_changes(self) -> bool:
        """True if the text of a resource is another, new or gone. Reads the resources that have changed: those of others may be thousands.

        A text is the same value as before if only the status has changed. The store reads `former` of a text that it does not know yet,
        and never again.
        """
        unread, self._unread = self._unread, set()
        return bool([name for name in unread if self._read(name)])

    def _read(self, name: str) -> bool:
        """True if the text of the resource of that name is another, new or gone."""
        policy: SchedulingPolicy | None = self._cache.get(KIND, name)
        known = self._texts.get(name)
        if policy is None:
            return self._texts.pop(name, None) is not None
        text = replace(text_of(policy, self._rights, Mode.ENFORCE if known is None else known.mode), about=self._about(policy))
        if known is not None and replace(text, former=known.former) == known:
            return False
        self._texts[name] = text
        return True

    def _about(self, policy: SchedulingPolicy) -> Reference | None:
        """The object of events about the policy: for the inline policy of an app the app, so that they are in its namespace."""
        key = app_key_of(policy)
        if key is None:
            return reference_of(policy)
        app = self._cache.get("PolicyApp", key)
        return None if app is None else reference_of(app)

    async def _wait_for_change(self, reported: str | None) -> None:
        """Wait until a policy changes, or until `refused` returns another reason than before."""
        while not await until(self._changed, self._clock, _POLL_SECONDS):
            if KIND in self._cache.synced_kinds and self._refused() != reported:
                return


def text_of(policy: SchedulingPolicy, rights: TenantRights, mode: Mode = Mode.ENFORCE) -> PolicyText:
    """The text of a resource. Every field of the spec that affects decisions is read here.

    If its spec cannot be read, the text has the reason, and the mode in the spec; `mode` if that cannot be read either. So a former version
    that stays does not decide where it did not decide before.
    """
    text = PolicyText(
        name=f"{SOURCE}/{policy.metadata.name}",
        content=b"",
        generation=policy.metadata.generation,
        about=reference_of(policy),
        former=remembered(policy.status),
        authority=rights.of(namespace_of(policy)),
    )
    try:
        spec = SchedulingPolicySpec.model_validate(policy.spec)
    except ValidationError as error:
        wanted = policy.spec.get("mode", Mode.ENFORCE.value)
        return replace(text, trouble=invalid_field(error), mode=next((each for each in Mode if each.value == wanted), mode))
    return replace(text, content=spec.source.encode(), mode=Mode(spec.mode.value), params=dict(spec.params))


def namespace_of(policy: SchedulingPolicy) -> str | None:
    """The namespace whose policy it is, None for the cluster's.

    A policy that is made for a PolicyApp has its namespace in `spec.namespace` and in a label, because an API server with an older
    definition of SchedulingPolicies drops the field in silence. Only users who may write policies of the cluster can write either.
    """
    namespace = policy.spec.get("namespace")
    if isinstance(namespace, str) and namespace:
        return namespace
    labels = policy.metadata.labels
    return labels.get(NAMESPACE_LABEL) if labels.get(MANAGED_BY) == MANAGER else None


class Policies(Protocol):
    """The state of policies that the controller reads."""

    def status(self, key: str) -> PolicyStatus | None:
        """The policy of the SchedulingPolicy of that name; None if it is not known."""

    def compiled(self, name: str) -> CompiledPolicy | None:
        """The policy of that name that holds, deciding or in the shadow."""

    def metrics(self, name: str) -> Sequence[MetricStatus]:
        """The present state of the metrics of the policy of that name."""


class KnownPods(Protocol):
    """The pods that policies are counted over."""

    @property
    def known_pods(self) -> Collection[PodView]:
        """All pods, waiting or placed."""

    @property
    def pods_revision(self) -> int:
        """A number that changes whenever a pod changes, comes or goes."""


PodsByTemplate: TypeAlias = Mapping[str, Mapping[bytes, list[PodView]]]
"""Pods by namespace and template."""


class PodCounts:
    """The pods of the cluster by namespace and template, counted once for all policies; again in steps, with pauses, if pods change."""

    def __init__(self, pods: KnownPods, clock: Clock) -> None:
        self._pods = pods
        self._clock = clock
        self._found: PodsByTemplate = {}
        self._paused_until = 0.0
        self.revision = -1
        """The revision of the pods that were counted."""

    def counts_in_steps(self) -> Generator[None, None, PodsByTemplate]:
        """A generator of steps that returns the pods, perhaps as they were before the last changes."""
        if self.revision != self._pods.pods_revision and self._clock.monotonic() >= self._paused_until:
            revision, counting = self._pods.pods_revision, TimedSteps(_by_template(list(self._pods.known_pods)), self._clock)
            self._found, self.revision = (yield from counting.run()), revision
            self._paused_until = self._clock.monotonic() + PAUSE_RATIO * counting.seconds
        return self._found


def _by_template(pods: Sequence[PodView]) -> Generator[None, None, PodsByTemplate]:
    found: dict[str, dict[bytes, list[PodView]]] = {}
    for number, pod in enumerate(pods):
        found.setdefault(pod.namespace, {}).setdefault(pod.template, []).append(pod)
        if number % _BATCH == 0:
            yield
    return found


class _Counted(Struct, frozen=True, kw_only=True):
    """The counts of a policy: the state in which they were made, the fields of the status, and the seconds that they took."""

    question: Any
    counts: dict[str, Any]
    took: float


class PolicyStatusReconciler:
    """Writes the status of SchedulingPolicies. It counts for one at a time; others are written meanwhile."""

    def __init__(  # noqa: PLR0913, PLR0917 — its collaborators and settings
        self,
        cache: ObjectCache,
        writer: ObjectWriter,
        checks: PolicyChecks,
        policies: Policies,
        pods: KnownPods,
        clock: Clock,
    ) -> None:
        self._cache = cache
        self._writer = writer
        self._checks = checks
        self._policies = policies
        self._pods = pods
        self._clock = clock
        self._counted: dict[str, _Counted] = {}
        self._seconds = 0.0  # that all of them took
        self._pod_counts = PodCounts(pods, clock)
        self._counting_turn = asyncio.Lock()

    async def reconcile(self, key: str) -> float | None:
        """Seconds until the next reconcile; None if the policy is deleted."""
        policy: SchedulingPolicy | None = self._cache.get(KIND, key)
        if policy is None or policy.metadata.deletion_timestamp is not None:
            self._seconds -= self._took(key)
            self._counted.pop(key, None)
            return None
        found = self._policies.status(key)
        if found is None or found.generation != policy.metadata.generation:
            return REFRESH  # the store builds this generation, and then the key is added
        status = await self._status(key, policy, found)
        if status != policy.status:
            await self._writer.apply_status(policy, status)
        return max(REFRESH, PAUSE_RATIO * self._seconds)

    def _took(self, key: str) -> float:
        known = self._counted.get(key)
        return 0.0 if known is None else known.took

    async def _status(self, key: str, policy: SchedulingPolicy, found: PolicyStatus) -> dict[str, Any]:
        in_force = None if found.name is None or not found.is_in_force else self._policies.compiled(found.name)
        generation = policy.metadata.generation
        status: dict[str, Any] = {"observedGeneration": generation, "authority": cut(str(found.authority), 253)}
        if found.name:
            status["policy"] = cut(found.name, 253)
        if found.revision is not None:
            status["revision"] = found.revision
        good = last_known_good(found, policy.status)
        if good is not None:
            status["lastKnownGood"] = good
        diagnostics = (*found.findings, *found.now)[:MAX_DIAGNOSTICS]
        if diagnostics:
            status["diagnostics"] = [_diagnostic(each).plain() for each in diagnostics]
        if in_force is not None:
            status |= await self._counts(key, None if found.suspended else in_force, policy.status)
        conditions = conditions_of(found, None if in_force is None else self._policies.metrics(in_force.name))
        if in_force is not None and status.get("eligible") == 0 and status.get("nodes") and status.get("matched"):
            conditions = [_warned(each) if each.type == "Active" else each for each in conditions]
        status["conditions"] = with_transition_times(
            [ready_of(found, conditions), *conditions], policy.status, generation, self._clock.now()
        )
        return status

    async def _counts(self, key: str, in_force: CompiledPolicy | None, before: Mapping[str, Any]) -> Mapping[str, Any]:
        """The counts of a policy for its status; those `before` for a policy that is suspended (None)."""
        known = self._counted.get(key)
        if in_force is None:
            return {name: before[name] for name in _COUNTS if name in before} if known is None else known.counts
        question = (in_force.revision, self._checks.revision, self._pods.pods_revision)
        if known is None or known.question != question:
            async with self._counting_turn:
                counting = TimedSteps(self._counting(in_force), self._clock)
                counts = await in_slices(counting.run(), self._clock)
            question = (*question[:-1], self._pod_counts.revision)  # which may be an earlier one
            self._seconds += counting.seconds - self._took(key)
            known = self._counted[key] = _Counted(question=question, counts=counts, took=counting.seconds)
        return known.counts

    def _counting(self, in_force: CompiledPolicy) -> Generator[None, None, dict[str, Any]]:
        pods_by_template = yield from self._pod_counts.counts_in_steps()
        matched, pod = yield from governed(in_force, pods_by_template, self._checks.evaluation_context)
        yield
        snapshot = self._checks.snapshot()
        counts: dict[str, Any] = {"matched": matched, "nodes": snapshot.n_nodes}
        if pod is not None and not scans_too_much(in_force, snapshot):  # else it is suspended before the first decision
            counts["eligible"] = eligible(in_force, pod, snapshot)
        return counts


def conditions_of(found: PolicyStatus, metrics: Sequence[MetricStatus] | None) -> list[Condition]:
    """The conditions of a policy; `metrics` are those of the version in effect, None if there is none."""
    errors = [each for each in found.findings if each.severity == "error"]
    of_text = [each for each in errors if each.code not in _NOT_OF_THE_TEXT]
    of_tests = [each for each in errors if each.code == "test"]
    conditions = [
        condition("Compiled", not of_text, "CompileErrors" if of_text else "Compiled", str(of_text[0]) if of_text else ""),
        _tested(of_text, of_tests),
        _active(found),
    ]
    if metrics is not None:
        conditions.append(_available(metrics))
    return conditions


def _available(metrics: Sequence[MetricStatus]) -> Condition:
    """The condition `MetricsAvailable`. It has no count of nodes, which would change with every sample."""
    lacking = [each for each in metrics if each.suspended_since is not None]
    if lacking:
        names = ", ".join(f"{each.name} (since {time_text(each.suspended_since or 0.0)})" for each in lacking)
        why = "".join(sorted({f"; {each.failure}" for each in lacking if each.failure}))
        return condition(
            "MetricsAvailable", False, "TooFewSamples", f"too few nodes have samples of {names}; rules that use them are suspended{why}"
        )
    waiting = [each.name for each in metrics if not each.asked]
    if waiting:
        return condition("MetricsAvailable", None, "NoAnswerYet", f"no answer has come yet for {', '.join(waiting)}")
    return condition("MetricsAvailable", True, "Available", "; ".join(f"{each.name}: {each.note}" for each in metrics if each.note))


def ready_of(found: PolicyStatus, conditions: Sequence[Condition]) -> Condition:
    """The condition `Ready` of a policy whose other conditions are these: whether its last text does what its mode says."""
    by_type = {each.type: each for each in conditions}
    active, metrics = by_type["Active"], by_type.get("MetricsAvailable")
    if found.result is Result.REFUSED and active.reason != "Suspended":
        return ready(False, "FormerVersion" if found.is_in_force else "Refused", _first_error(found))
    if active.reason in {"Pending", "Suspended"}:
        return ready(False, active.reason, active.message)
    if metrics is not None and metrics.status == "False":
        return ready(True, metrics.reason, metrics.message)
    return ready(True, active.reason, active.message)


def _tested(of_text: Sequence[Finding], of_tests: Sequence[Finding]) -> Condition:
    if of_text:
        return condition("Tested", None, "NotCompiled", "a text that does not compile cannot be tested")
    return condition("Tested", not of_tests, "TestsFailed" if of_tests else "TestsPassed", str(of_tests[0]) if of_tests else "")


def _active(found: PolicyStatus) -> Condition:
    why = _first_error(found)
    if found.mode is Mode.OFF:
        return condition("Active", False, "Off", "its mode is Off")
    if found.suspended:
        return condition("Active", False, "Suspended", found.suspended)
    if found.result is Result.REFUSED:
        if not found.is_in_force:
            return condition("Active", False, "Refused", why)
        reported = (
            f"the version of generation {found.generation_in_force} stays in force: {why}"
            if found.generation_in_force
            else f"a former version stays in force: {why}"
        )
        return condition("Active", True, "FormerVersion", reported)
    if found.mode is Mode.SHADOW:
        return condition("Active", False, "Shadow", "it is compared with what is decided, and decides nothing")
    return condition("Active", found.is_in_force, "Active" if found.is_in_force else "Pending", "")


def _warned(active: Condition) -> Condition:
    return condition(
        "Active", active.status == "True", "NoNodeEligible", f"{active.message} its rules let a typical pod go to no node".strip()
    )


def _first_error(found: PolicyStatus) -> str:
    return next((str(each) for each in found.findings if each.severity == "error"), "")


def _diagnostic(found: Finding) -> PolicyDiagnostic:
    return PolicyDiagnostic(
        line=found.line,
        column=found.column,
        code=cut(found.code, 253),
        severity=found.severity,
        message=cut(found.message, 1024),
        help=cut(found.help, 1024) or None,
    )


def governed(
    policy: CompiledPolicy, pods_by_template: PodsByTemplate, at: EvaluationContext
) -> Generator[None, None, tuple[int, PodView | None]]:
    """A generator of steps that returns the number of pods that a policy governs, and one of the template that most of them have.

    It is evaluated once per template where that is enough, for pods that its authority covers.
    """
    total, most, typical = 0, 0, None
    for namespace, templates in pods_by_template.items():
        for pods in templates.values() if policy.authority.covers(namespace) else ():
            yield
            if policy.scope_varies:
                found = yield from _governed_one_by_one(policy, pods, at)
            else:
                found = pods if policy.governs(pods[0], at) else []
            total += len(found)
            if len(found) > most:
                most, typical = len(found), found[0]
    return total, typical


def _governed_one_by_one(policy: CompiledPolicy, pods: Sequence[PodView], at: EvaluationContext) -> Generator[None, None, list[PodView]]:
    found = []
    for pod in pods:
        yield
        if policy.governs(pod, at):
            found.append(pod)
    return found
