"""One text of a source to a policy that may decide: parsed, checked, its tests run, compiled, tried on a part of the live cluster.

Nothing raises: whatever is wrong with a text, or goes wrong with it, becomes a finding.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wharfinger.builtins import CATALOGUE
from wharfinger.compiler import cost
from wharfinger.compiler.program import CompiledPolicy
from wharfinger.errors import WharfingerError
from wharfinger.framework import lineup
from wharfinger.framework.policy_status import Finding, PolicyText
from wharfinger.framework.registry import default_registry
from wharfinger.language import render, typed
from wharfinger.language.codes import Severity
from wharfinger.language.diagnostics import Diagnostic, Diagnostics
from wharfinger.language.text_set import TextSet
from wharfinger.runtime import policy_tests
from wharfinger.runtime.policies import own_params
from wharfinger.runtime.policy_store.sample import Sample
from wharfinger.runtime.policy_store.trial import tried
from wharfinger.runtime.test_report import Failure

MOST_FINDINGS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A policy that has passed everything, and what it was made of: enough to make it again. `needed` are the texts by name."""

    policy: CompiledPolicy
    text: PolicyText
    needed: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a text. `title` is the policy's name as far as it can be told; `silent`: it is no policy and need not be one.

    `needs` are digests of what the outcome depends on, by name; None for what was not there. `report` is everything found, for people;
    `now` is what was found on the cluster as it was then, which may be otherwise soon.
    """

    version: Version | None
    title: str | None = None
    silent: bool = False
    needs: Mapping[str, bytes | None] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    omitted: int = 0
    report: str = ""
    now: tuple[Finding, ...] = ()


def build(text: PolicyText, texts: TextSet, params: Mapping[str, Any], sample: Sample | None) -> Outcome:
    """What comes of a text among the others of its source; `params` are values for whatever policy declares them."""
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
    """What tells contents apart; None for nothing."""
    return None if content is None else hashlib.sha256(content).digest()


def _build(text: PolicyText, texts: TextSet, params: Mapping[str, Any], sample: Sample | None, needs: dict[str, bytes | None]) -> Outcome:
    diagnostics = Diagnostics()
    checked = texts.check(text.name, CATALOGUE, diagnostics, text.authority)
    needs |= {name: digest(texts.texts.get(name)) for name in checked.needs}
    findings = [_of_diagnostic(diagnostic) for diagnostic in diagnostics]
    report = render.render(diagnostics, "human")
    if checked.policy is None or diagnostics.has_errors:
        silent = checked.silent and not diagnostics.has_errors
        return _outcome(None, findings, report, title=checked.title, silent=silent, needs=needs)
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
    once = policy_tests.Once()
    failed = [_of_failure(failure) for failure in _failures(policy, once)]
    if failed:
        return None, failed
    try:
        compiled = once(policy, own_params(policy, params) | dict(text.params))
        lineup.check([compiled], default_registry())
    except WharfingerError as error:
        return None, [Finding(severity="error", code="params", message=str(error), file=text.name)]
    diagnostics = Diagnostics()
    cost.report(policy, diagnostics, cost.of_compiled(compiled))
    found = [_of_diagnostic(diagnostic) for diagnostic in diagnostics]
    if sample is not None and not diagnostics.has_errors:
        found += tried(compiled, sample, text.name)
    return (None if any(finding.severity == "error" for finding in found) else compiled), found


def _failures(policy: typed.Policy, once: policy_tests.Once) -> Iterator[tuple[str, Failure]]:
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
    """An outcome with as many findings as anybody reads, errors first."""
    ordered = sorted(findings, key=lambda finding: finding.severity != Severity.ERROR.value)
    omitted = max(0, len(ordered) - MOST_FINDINGS)
    return Outcome(version=version, findings=tuple(ordered[:MOST_FINDINGS]), omitted=omitted, report=report, **more)
