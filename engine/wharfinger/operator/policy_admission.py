"""Checks whether a SchedulingPolicy, or a PolicyApp with its inline policy, should be stored.

The steps are those of the policy store, without the trial on the cluster. Problems that depend on other policies, such as a name that is
taken, are shown in the status: they may be solved later.

Run as a module, this is a separate process that checks objects in sequence: `{"seconds": 2.0, "object": {…}}` a line on standard input,
`{"refusal": "…", "warnings": […]}` a line on standard output. Its one argument are the rights of policies of namespaces, as JSON. A text
that takes longer, or more memory than `MAX_MEMORY_BYTES`, ends the process. That is why it is a process: a thread cannot be stopped, and
its memory cannot be taken back.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Mapping
from typing import Any

import msgspec
from pydantic import ValidationError

from wharfinger.crd.models import PolicyAppSpec
from wharfinger.errors import InvalidObject
from wharfinger.kube.custom_resources import PolicyApp, SchedulingPolicy
from wharfinger.language.load import TextSet
from wharfinger.language.report import render
from wharfinger.language.report.diagnostics import PolicyError
from wharfinger.language.semantics.authority import TenantRights
from wharfinger.model.reading import decode
from wharfinger.operator.app_objects import NoPolicy, inline_policy
from wharfinger.operator.scheduling_policy import text_of
from wharfinger.policies.candidate import Outcome, build

MAX_MEMORY_BYTES = 768 * 2**20
"""Bytes that a process may write to; a usual text takes a tenth of it, mostly for NumPy."""
READY = b"ready\n"
_MAX_REFUSAL_LENGTH = 8192  # characters of a refusal: enough for twenty findings
_NICENESS = 10  # decisions come first


class CheckResult(msgspec.Struct):
    """The verdict about an object: with a `refusal` it should not be stored. Without a verdict, `unreadable` says why."""

    refusal: str = ""
    warnings: tuple[str, ...] = ()
    unreadable: str = ""


class CheckRequest(msgspec.Struct):
    """An object as JSON, and the seconds that its check may take."""

    object: msgspec.Raw
    seconds: float


def trial_outcome(obj: Mapping[str, Any], rights: TenantRights) -> Outcome | None:
    """The outcome of building the policy in an object; None for one without a policy, or of another form, which its schema refuses.

    PolicyError or NoPolicy for an inline policy that cannot be read.
    """
    try:
        policy = decode.convert(dict(obj), SchedulingPolicy) if obj.get("kind") != "PolicyApp" else _inline(obj)
    except (InvalidObject, ValidationError):
        return None
    if policy is None:
        return None
    text = text_of(policy, rights)
    if not text.content:
        return None
    return build(text, TextSet(texts={text.name: text.content}, imports=False), {}, None)


def _inline(obj: Mapping[str, Any]) -> SchedulingPolicy | None:
    """The SchedulingPolicy that will be made of a PolicyApp; None if it has no inline policy."""
    app = decode.convert(dict(obj), PolicyApp)
    made = inline_policy(app.metadata, PolicyAppSpec.model_validate(app.spec))
    return None if made is None else decode.convert(made, SchedulingPolicy)


def checked(obj: Mapping[str, Any], rights: TenantRights) -> CheckResult:
    """The verdict about an object: a text that would not become active is refused with its errors."""
    try:
        outcome = trial_outcome(obj, rights)
    except PolicyError as error:
        return _refused(render.render(error.diagnostics))
    except NoPolicy as error:
        return _refused(str(error))
    if outcome is None:
        return CheckResult()
    if outcome.version is None:
        return _refused(outcome.report.strip() or "the text has no `policy` line")
    return CheckResult(warnings=tuple(f"{finding.line}:{finding.column}: {finding.message}" for finding in outcome.findings))


def _refused(report: str) -> CheckResult:
    return CheckResult(refusal=f"the policy would not become active\n{report}"[:_MAX_REFUSAL_LENGTH])


def _answer(written: msgspec.Raw, rights: TenantRights) -> CheckResult:
    try:
        return checked(msgspec.json.decode(written, type=dict[str, Any]), rights)
    except (msgspec.DecodeError, RecursionError) as error:
        return CheckResult(unreadable=str(error))


def main() -> None:
    """Answer the requests on standard input until it ends."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends the process at once, during any work
    os.nice(_NICENESS)
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    rights = msgspec.json.decode(sys.argv[1], type=TenantRights)
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    checked(
        {"metadata": {"name": "first"}, "spec": {"source": 'policy "first"\nscore s = 1\n'}}, rights
    )  # loads modules now that are imported late
    answers.write(READY)
    answers.flush()
    for line in requests:
        request = msgspec.json.decode(line, type=CheckRequest)
        signal.setitimer(signal.ITIMER_REAL, request.seconds)
        answer = msgspec.json.encode(_answer(request.object, rights))
        signal.setitimer(signal.ITIMER_REAL, 0)
        answers.write(answer + b"\n")
        answers.flush()


if __name__ == "__main__":
    main()
