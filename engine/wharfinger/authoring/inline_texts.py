"""Texts that an editor adds to a policy: inferred types after names, and results above tests and filters.

Inlay hints are the types and ranges of lets, and the ranges of scores. Code lenses are whether a test passes, and how many nodes of a
cluster a filter lets through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from wharfinger.authoring.document import Document
from wharfinger.authoring.known_cluster import KnownCluster, reads_pod
from wharfinger.authoring.statements import Statement
from wharfinger.authoring.vocabulary import range_text, type_with_unit
from wharfinger.authoring.words import Role
from wharfinger.compiler.bound import BoundPolicy
from wharfinger.compiler.program import CompiledPolicy, compile_policy
from wharfinger.errors import WharfingerError
from wharfinger.language import ast
from wharfinger.language.parse.file_nodes import MAX_ITEMS
from wharfinger.language.report import wording
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.types import Kind
from wharfinger.model.objects.pod_view import PodView
from wharfinger.policies import policy_tests
from wharfinger.policies.policy_tests import Result

RUN = "run this test"


class InlayHint(msgspec.Struct, frozen=True):
    """A text that is shown after an offset; `doc` is its tooltip."""

    offset: int
    text: str
    doc: str


class InlayHints:
    """The inlay hints of one document, version after version.

    The hints in a statement are kept until it changes, or a declaration that it needs; then it is checked again with what it needs.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, ...] | None, list[InlayHint]] = {}  # by the text of the statement; offsets from its beginning

    def of(self, document: Document, start: int = 0, end: int | None = None) -> list[InlayHint]:
        """The hints between two offsets: the type and range after the name of a let, the range of the value after that of a score.

        No hints for a text of more of them than a policy may have, which has no types.
        """
        end = len(document.text) if end is None else end
        statements = [each for each in document.statements if each.kind in _WITH_HINTS]
        if len(statements) > MAX_ITEMS:
            return []
        near = [each for each in statements if each.start <= end and start <= each.end]
        shown = [(each, document.needed_texts(each)) for each in near]
        new = [each for each, said in shown if said not in self._kept]
        inferred = _inferred(document if document.is_checked else document.of(new), new) if new else {}
        found = [(each, said, inferred[each.start] if each.start in inferred else self._kept[said]) for each, said in shown]
        self._kept = {said: hints for _, said, hints in found if said is not None}
        hints = [replace(hint, offset=each.start + hint.offset) for each, _, of_statement in found for hint in of_statement]
        return [each for each in hints if start <= each.offset <= end]


_WITH_HINTS = frozenset({"LET", "SCORE", "PREFER", "AVOID"})


def _inferred(document: Document, statements: Sequence[Statement]) -> dict[int, list[InlayHint]]:
    """The hints in some statements by where the statements begin; their offsets are from there."""
    file = document.checked.file
    items = file.policy.items if file is not None and file.policy is not None else ()
    scores = {item.name_span.start: item for item in items if isinstance(item, ast.Score)}
    found: dict[int, list[InlayHint]] = {}
    for each in statements:
        hints = found[each.start] = []
        for word in each.words:
            if word.role is Role.LET:
                hints += _of_let(document, word.name, word.end)
            elif word.start in scores:
                hints += _of_score(document, scores[word.start])
        found[each.start] = [replace(hint, offset=hint.offset - each.start) for hint in hints]
    return found


def _of_let(document: Document, name: str, at: int) -> list[InlayHint]:
    binding = document.checked.notes.names.get(name)
    if binding is None or binding.reference is None or binding.span.source.name != document.name or binding.span.end != at:
        return []
    expr = binding.reference(binding.span)
    if expr.type.kind is Kind.UNKNOWN:
        return []
    limits = range_text(document, expr)
    return [InlayHint(at, f": {expr.type}" + (f", {limits}" if limits else ""), type_with_unit(expr.type))]


def _of_score(document: Document, item: ast.Score) -> list[InlayHint]:
    expr = document.expressions.get((item.value.span.start, item.value.span.end))
    limits = range_text(document, expr) if expr is not None else ""
    return [InlayHint(item.name_span.end, f": {limits}", "the values of this score before `normalize`")] if limits else []


class Lens(msgspec.Struct, frozen=True):
    """A code lens above the word at characters `start` to `end`; `test` is the title of the test to run, `rule` the filter to count for."""

    start: int
    end: int
    test: str | None = None
    rule: str | None = None


def lenses(document: Document, cluster: KnownCluster | None = None) -> list[Lens]:
    """The places of tests, and with a cluster of filters."""
    found = [Lens(word.start, word.end, test=word.name) for word in document.words if word.role is Role.TEST]
    if cluster is not None:
        found += [Lens(word.start, word.end, rule=word.name) for word in document.words if word.role is Role.FILTER]
    return sorted(found, key=lambda lens: lens.start)


def test_result(document: Document, start: int) -> Result | None:
    """The result of the test whose title begins at an offset; None if the policy has errors or there is no such test."""
    policy = document.checked.policy
    chosen = [test for test in policy.tests if test.title.span.start == start] if policy is not None else []
    if policy is None or not chosen:
        return None
    report = policy_tests.run([replace(policy, tests=tuple(chosen))])
    return report.results[0]


def result_text(result: Result) -> str:
    """The outcome of a test in one sentence or several lines."""
    if result.passed:
        return f"passed: {result.title}"
    lines = [line for failure in result.failures for line in (failure.sentence, *failure.details)]
    return "\n".join([f"failed: {result.title}: {lines[0]}", *lines[1:]])


class PassingNodeCounts:
    """The number of nodes of a cluster that pass each filter of a policy, for a pod that it governs."""

    def __init__(self, policy: typed.Policy, cluster: KnownCluster) -> None:
        self.policy = policy
        self.cluster = cluster
        self._counts: Mapping[str, int] | None = None
        self._pod: PodView | None = None

    def text(self, rule: str) -> str:
        """The number of nodes that pass a filter, or why it is not known, as text."""
        if self._counts is None:
            try:
                self._counts = self._counted(compile_policy(self.policy))
            except WharfingerError as error:
                return f"not counted: {error}"
        if self._pod is None or rule not in self._counts:
            return f"governs no pod of {self.cluster.name}"
        of = wording.count(self.cluster.snapshot.n_nodes, "node")
        whose = f" for {self._pod.key}" if self._reads_pod(rule) else ""
        return f"passes {self._counts[rule]:,} of {of} of {self.cluster.name}{whose}"

    def _counted(self, compiled: CompiledPolicy) -> Mapping[str, int]:
        snapshot = self.cluster.snapshot
        self._pod = next((pod for pod in self.cluster.pods if compiled.governs(pod, snapshot)), None)
        if self._pod is None:
            return {}
        bound = BoundPolicy(compiled, self._pod, snapshot)
        return {
            rule.name: int((bound.filter_bits(index, snapshot, slice(None)) == 0).sum()) for index, rule in enumerate(self.policy.filters)
        }

    def _reads_pod(self, name: str) -> bool:
        lets = {let.name: let.value for let in self.policy.lets}
        rules = [rule for rule in self.policy.filters if rule.name == name]
        exprs = [each for rule in rules for each in (rule.when, *(clause.condition for clause in rule.clauses)) if each is not None]
        return any(reads_pod(expr, lets) for expr in exprs)
