"""Builds a text of a source into a policy: parses, checks, tests and compiles it, and tries it on a sample of the cluster.

The sample of the cluster is taken on the event loop by reference; the thread that compiles builds a cluster from it, so scheduling does
not wait. A policy that rejects every node may be intended: it is accepted with a warning. Nothing raises: every problem is a finding.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from msgspec import Struct, field

from wharfinger.builtins import CATALOGUE
from wharfinger.compiler import cost
from wharfinger.compiler.bound import BoundPolicy
from wharfinger.compiler.program import CompiledPolicy, compile_policy
from wharfinger.errors import UnknownObject, WharfingerError
from wharfinger.explain import policy_warnings
from wharfinger.framework.policy_status import Finding, PolicyText
from wharfinger.framework.registry import default_registry
from wharfinger.framework.rules import pod_rules
from wharfinger.language.load import TextSet
from wharfinger.language.report import render, wording
from wharfinger.language.report.codes import Severity
from wharfinger.language.report.diagnostics import Diagnostic, Diagnostics
from wharfinger.language.report.wording import count
from wharfinger.language.semantics import typed
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.snapshot import Snapshot
from wharfinger.policies import policy_tests
from wharfinger.policies.policy_tests import Failure

MAX_NODES = 300
MAX_PLACED = 2000
MAX_WAITING = 1000
MAX_PROBES = 50

MAX_GOVERNED = 5
ALL_NODES = slice(None)

MAX_FINDINGS = 20


def compile_all(policies: Sequence[typed.Policy], params: Mapping[str, Any]) -> tuple[CompiledPolicy, ...]:
    """The compiled policies. A value in `params` is set in every policy that declares it (`name`), or in one policy (`policy.name`).

    Raises UnknownObject for a param that no policy has, PolicyError for a policy that costs too much to decide.
    """
    known = {name for policy in policies for param in policy.params for name in (param.name, f"{policy.name}.{param.name}")}
    for name in params:
        if name not in known:
            nearest = wording.closest(name, known)
            raise UnknownObject(f"no policy has a param {name}" + (f"; did you mean {nearest}?" if nearest else ""))
    return tuple(cost.affordable(compile_policy(policy, own_params(policy, params))) for policy in policies)


def own_params(policy: typed.Policy, params: Mapping[str, Any]) -> dict[str, Any]:
    """The values among `params` that are for one policy; `policy.name` takes precedence over `name`."""
    declared = [param.name for param in policy.params]
    own = {name: params[name] for name in declared if name in params}
    return own | {name: params[f"{policy.name}.{name}"] for name in declared if f"{policy.name}.{name}" in params}


class Sample(Struct, frozen=True, kw_only=True, dict=True):
    """Some nodes with their pods, and pods that wait. `whole`: these are all nodes of the cluster."""

    nodes: tuple[objects.Node, ...]
    placed: tuple[PodView, ...]
    waiting: tuple[PodView, ...]
    namespaces: tuple[objects.Namespace, ...]
    now: float
    whole: bool

    @cached_property
    def snapshot(self) -> Snapshot:
        """The sample as a cluster."""
        state = ClusterState()
        for node in self.nodes:
            state.add_node(node)
        for pod in self.placed:
            state.add_pod(pod)
        for namespace in self.namespaces:
            state.put(namespace)
        return state.snapshot(self.now)

    def probes(self, namespace: str | None) -> Sequence[PodView]:
        """The pods to try a policy with, of one namespace (None: of all): waiting ones first, one of each template."""
        return self._probes.get(namespace, ())

    @cached_property
    def _probes(self) -> Mapping[str | None, Sequence[PodView]]:
        """The pods by namespace, and under None those of all: a namespace must not see how many templates others have."""
        found: dict[str | None, dict[bytes, PodView]] = {}
        for pod in (*self.waiting, *self.placed):
            for namespace in (None, pod.namespace):
                known = found.setdefault(namespace, {})
                if len(known) < MAX_PROBES:
                    known.setdefault(pod.template, pod)
        return {namespace: tuple(known.values()) for namespace, known in found.items()}


def sample_of(snapshot: Snapshot, waiting: Iterable[PodView]) -> Sample:
    """A sample of the cluster, evenly spread over its nodes."""
    rows = np.unique(np.linspace(0, max(0, snapshot.n_nodes - 1), min(MAX_NODES, snapshot.n_nodes)).astype(np.intp)).tolist()
    return Sample(
        nodes=tuple(snapshot.node(row).object for row in rows),
        placed=tuple(islice((pod for row in rows for pod in snapshot.pods_on(row)), MAX_PLACED)),
        waiting=tuple(islice(waiting, MAX_WAITING)),
        namespaces=tuple(snapshot.objects.all(objects.Namespace))[:MAX_PLACED],
        now=snapshot.now,
        whole=len(rows) == snapshot.n_nodes,
    )


def trial_findings(policy: CompiledPolicy, sample: Sample, file: str) -> list[Finding]:
    """The findings of trying a policy on a sample: an error if it cannot be evaluated, else warnings."""
    try:
        probes = sample.probes(policy.authority.confined_to)
        governed = [pod for pod in probes if policy.governs(pod, sample.snapshot)][:MAX_GOVERNED]
        passing = [_passing_nodes(policy, sample, pod) for pod in governed]
        warnings = policy_warnings.absent_labels(policy, sample.snapshot, probes) if sample.whole else []
    except Exception as error:  # noqa: BLE001 — what a policy raises here it would raise in every cycle
        details = "" if policy.authority.restricted else f": {error}"  # which may quote objects of the cluster
        sentence = f"it cannot be evaluated on this cluster: {type(error).__name__}{details}"
        return [Finding(severity="error", code="trial", message=sentence, file=file)]
    if governed and sample.nodes and not any(passing):
        warnings = [_rejects_all(policy, sample, governed[0]), *warnings]
    return [Finding(severity="warning", code="trial", message=warning, file=file) for warning in warnings]


def _passing_nodes(policy: CompiledPolicy, sample: Sample, pod: PodView) -> int:
    """The number of sample nodes that the policy allows for a pod, after all of its parts were evaluated."""
    snapshot = sample.snapshot
    bound = BoundPolicy(policy, pod, snapshot)
    left = np.ones(snapshot.n_nodes, np.bool_)
    for index in range(len(policy.filters)):
        left &= bound.filter_bits(index, snapshot, ALL_NODES) == 0
    for index in range(len(policy.scores)):
        bound.score(index, snapshot, ALL_NODES)
    for index in range(len(policy.tie_break)):
        bound.tie_key(index, snapshot, ALL_NODES)
    return int(left.sum())


def _rejects_all(policy: CompiledPolicy, sample: Sample, pod: PodView) -> str:
    several = f"all {len(sample.nodes):,} nodes" if len(sample.nodes) > 1 else "the only node"
    nodes = several if sample.whole else f"each of {count(len(sample.nodes), 'node')} looked at"
    return f"{policy.name} rejects {nodes} for every pod it was tried with, such as {pod.key}"


class Version(Struct, frozen=True, kw_only=True):
    """A policy that has passed every step, and the texts from which it can be built again (`needed`, by name)."""

    policy: CompiledPolicy
    text: PolicyText
    needed: Mapping[str, bytes]


class Outcome(Struct, frozen=True, kw_only=True):
    """The outcome of building a text.

    `title` is the policy's name if it could be read; `without_policy`: the text is no policy and need not be one.

    `needs` are digests of what the outcome depends on, by name; None for what was not there. `report` is the text of everything found;
    `now` are warnings about the cluster as it was then.
    """

    version: Version | None
    title: str | None = None
    without_policy: bool = False
    needs: Mapping[str, bytes | None] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    omitted: int = 0
    report: str = ""
    now: tuple[Finding, ...] = ()


def build(text: PolicyText, texts: TextSet, params: Mapping[str, Any], sample: Sample | None) -> Outcome:
    """The outcome of a text among the others of its source; `params` are values for policies that declare them."""
    if text.trouble:
        return _refused(
            [Finding(severity="error", code="read", message=text.trouble, file=text.name)], {text.name: digest(text.content)}, None
        )
    needs: dict[str, bytes | None] = {text.name: digest(text.content)}
    try:
        return _build(text, texts, params, sample, needs)
    except Exception as error:  # noqa: BLE001 — no text may stop the others from being built
        finding = Finding(severity="error", code="internal", message=f"{type(error).__name__}: {error}", file=text.name)
        return _refused([finding], needs, None)


def digest(content: bytes | None) -> bytes | None:
    """SHA-256 of a content; None for None."""
    return None if content is None else hashlib.sha256(content).digest()


def _build(text: PolicyText, texts: TextSet, params: Mapping[str, Any], sample: Sample | None, needs: dict[str, bytes | None]) -> Outcome:
    diagnostics = Diagnostics()
    checked = texts.check(text.name, CATALOGUE, diagnostics, text.authority)
    needs |= {name: digest(texts.texts.get(name)) for name in checked.needs}
    findings = [_of_diagnostic(diagnostic) for diagnostic in diagnostics]
    report = render.render(diagnostics)
    if checked.policy is None or diagnostics.has_errors:
        without_policy = checked.without_policy and not diagnostics.has_errors
        return _outcome(None, findings, report, title=checked.title, without_policy=without_policy, needs=needs)
    compiled, more = _compiled(checked.policy, text, params, sample)
    now = tuple(finding for finding in more if (finding.severity, finding.code) == ("warning", "trial"))
    more = [finding for finding in more if finding not in now]
    report += "".join(f"{finding.severity}: {finding}\n" for finding in more)
    whole = {name: texts.texts[name] for name in needs if name in texts.texts}
    version = None if compiled is None else Version(policy=compiled, text=text, needed=whole)
    return _outcome(version, [*findings, *more], report, title=checked.title, needs=needs, now=now)


def _compiled(
    policy: typed.Policy, text: PolicyText, params: Mapping[str, Any], sample: Sample | None
) -> tuple[CompiledPolicy | None, list[Finding]]:
    once = policy_tests.CompileCache()
    failed = [_of_failure(failure) for failure in _failures(policy, once)]
    if failed:
        return None, failed
    try:
        compiled = once(policy, own_params(policy, params) | dict(text.params))
        pod_rules.check([compiled], default_registry())
    except WharfingerError as error:
        return None, [Finding(severity="error", code="params", message=str(error), file=text.name)]
    diagnostics = Diagnostics()
    cost.report(policy, diagnostics, cost.of_compiled(compiled))
    found = [_of_diagnostic(diagnostic) for diagnostic in diagnostics]
    if sample is not None and not diagnostics.has_errors:
        found += trial_findings(compiled, sample, text.name)
    return (None if any(finding.severity == "error" for finding in found) else compiled), found


def _failures(policy: typed.Policy, once: policy_tests.CompileCache) -> Iterator[tuple[str, Failure]]:
    for result in policy_tests.run([policy], once).results:
        yield from ((result.title, failure) for failure in result.failures)


def _of_failure(failed: tuple[str, Failure]) -> Finding:
    title, failure = failed
    return Finding(
        severity="error",
        code="test",
        message=f'test "{title}" fails: {failure.sentence}',
        file=failure.at.source.name,
        line=failure.at.line,
        column=failure.at.column,
        help="\n".join(failure.details),
    )


def _of_diagnostic(diagnostic: Diagnostic) -> Finding:
    span = diagnostic.span
    return Finding(
        severity=diagnostic.severity.value,
        code=diagnostic.code.name,
        message=diagnostic.message,
        file=span.source.name,
        line=span.line if span.source.text else 0,
        column=span.column if span.source.text else 0,
        help=diagnostic.help or "",
    )


def _refused(findings: Sequence[Finding], needs: Mapping[str, bytes | None], title: str | None) -> Outcome:
    return _outcome(None, findings, "".join(f"{finding.severity}: {finding}\n" for finding in findings), title=title, needs=needs)


def _outcome(version: Version | None, findings: Sequence[Finding], report: str, **more: Any) -> Outcome:
    """An outcome with at most `MAX_FINDINGS` findings, errors first."""
    ordered = sorted(findings, key=lambda finding: finding.severity != Severity.ERROR.value)
    omitted = max(0, len(ordered) - MAX_FINDINGS)
    return Outcome(version=version, findings=tuple(ordered[:MAX_FINDINGS]), omitted=omitted, report=report, **more)
