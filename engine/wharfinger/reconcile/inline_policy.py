"""The policy that a PolicyApp brings along, held to the app's own pods.

Whoever may create a PolicyApp in a namespace must not thereby decide about the pods of others. So the text gets a name of its own and its
scope is narrowed, both in the text itself: what comes out is a policy that anybody can read, and lines keep their numbers. Its tests speak
of pods that the narrower scope does not govern; they are taken out.
"""

from __future__ import annotations

from wharfinger.crd.names import APP_LABEL
from wharfinger.errors import WharfingerError
from wharfinger.language import ast
from wharfinger.language.diagnostics import Diagnostics, PolicyError
from wharfinger.language.parser import parse
from wharfinger.language.source import Source


class NoPolicy(WharfingerError):
    """The text holds no policy."""


def held_to(text: str, *, name: str, namespace: str, app: str) -> str:
    """The policy text under this name, for pods of the app alone. PolicyError where it cannot be read, NoPolicy where it is none."""
    diagnostics = Diagnostics()
    file = parse(Source(name=name, text=text), diagnostics)
    if diagnostics.has_errors:
        raise PolicyError(diagnostics)
    if file is None or file.policy is None:
        raise NoPolicy("the text holds no `policy` line")
    edits = [_name(file.policy, name), _scope(file.policy, text, namespace, app), *(_without(test, text) for test in file.tests)]
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text.rstrip() + "\n"


Edit = tuple[int, int, str]


def _name(policy: ast.Policy, name: str) -> Edit:
    return policy.name.span.start, policy.name.span.end, f'"{name}"'


def _scope(policy: ast.Policy, text: str, namespace: str, app: str) -> Edit:
    own = f'pod.namespace == "{namespace}" and (pod.labels["{APP_LABEL}"] ?? "") == "{app}"'
    if policy.scope is not None:
        span = policy.scope.span
        return span.start, span.end, f"({text[span.start : span.end]}) and {own}"
    if policy.scope_span is not None:  # `for pods` alone: all of them
        return policy.scope_span.start, policy.scope_span.end, f"for pods where {own}"
    header = policy.version or policy.name
    end = max([header.span.end, *(annotation.span.end for annotation in policy.annotations)])
    return end, end, f" for pods where {own}"


def _without(test: ast.Test, text: str) -> Edit:
    """Nothing but the ends of its lines, so that what follows stays where it was."""
    return test.span.start, test.span.end, "\n" * text.count("\n", test.span.start, test.span.end)
