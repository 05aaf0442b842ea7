"""The elements of a file, in any order, to one file: a policy with its tests, a library of lets, params and metrics, or tests only.

The grammar takes elements in any order; what belongs where is said here, with the place it should be in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from wharfinger.language import ast
from wharfinger.language.codes import Code
from wharfinger.language.diagnostics import Diagnostics, Label
from wharfinger.language.source import Source, Span
from wharfinger.language.syntax_declarations import Element, PolicyHeader, Scope

MOST_ITEMS = 500
MOST_TESTS = 500
RULES = (ast.Filter, ast.Score, ast.Base, ast.Quantum, ast.TieBreak, ast.Preemption)


@dataclass(slots=True)
class Assembly:
    """A file while its elements are sorted into it."""

    source: Source
    diagnostics: Diagnostics
    header: PolicyHeader | None = None
    scope: Scope | None = None
    imports: list[ast.Import] = field(default_factory=list)
    items: list[ast.Item] = field(default_factory=list)
    tests: list[ast.Test] = field(default_factory=list)
    policy_annotations: list[ast.Annotation] = field(default_factory=list)
    waiting: list[ast.Annotation] = field(default_factory=list)

    def file(self, elements: Sequence[Element]) -> ast.File:
        """The file that the elements make up."""
        for element in elements:
            self._place(element)
        if self.waiting:
            self._misplaced(self.waiting[-1].span, "this annotation belongs to nothing", "an annotation stands before the item it is about")
        self._limits()
        policy = self._policy() if self.header else None
        if not policy:
            self._library()
        return ast.File(
            span=Span(self.source, 0, len(self.source.text)),
            imports=tuple(self.imports),
            policy=policy,
            items=() if policy else tuple(self.items),
            tests=tuple(self.tests),
        )

    def _policy(self) -> ast.Policy:
        assert self.header  # noqa: S101  # asked by the caller
        return ast.Policy(
            span=self.header.span,
            name=self.header.name,
            version=self.header.version,
            annotations=tuple(self.policy_annotations),
            scope=self.scope.where if self.scope else None,
            scope_span=self.scope.span if self.scope else None,
            items=tuple(self.items),
        )

    def _place(self, element: Element) -> None:
        if isinstance(element, ast.Annotation):
            self._annotation(element)
        elif isinstance(element, ast.Import):
            self._import(element)
        elif isinstance(element, PolicyHeader):
            self._header(element)
        elif isinstance(element, Scope):
            self._scope(element)
        else:
            self._item(element)

    def _annotation(self, annotation: ast.Annotation) -> None:
        """An annotation behind the header is the policy's until `for` or the first item has passed; then it waits for its item."""
        if self.header and not self.scope and not self.items and not self.tests:
            self.policy_annotations.append(annotation)
        else:
            self.waiting.append(annotation)

    def _import(self, element: ast.Import) -> None:
        if self.items or self.tests or self.scope:
            self._misplaced(element.span, "an import stands at the top of a file", "move it before the first declaration")
        self.imports.append(element)

    def _header(self, element: PolicyHeader) -> None:
        if self.header:
            others = (Label(self.header.span, "the policy of this file"),)
            self.diagnostics.error(
                Code.P120, "a file holds one policy", element.span, others=others, help="give the second one a file of its own"
            )
            return
        if self.items or self.tests:
            self._misplaced(element.span, "`policy` stands before everything that belongs to it", "move it to the top of the file")
        self.header = element
        self.policy_annotations, self.waiting = self.waiting + self.policy_annotations, []

    def _scope(self, element: Scope) -> None:
        if self.scope:
            others = (Label(self.scope.span, "already said here"),)
            help_ = "join the two conditions with `and`"
            self.diagnostics.error(Code.P112, "a policy says once which pods it governs", element.span, others=others, help=help_)
            return
        if self.items or self.tests:
            self._misplaced(element.span, "`for pods` stands before the rules", "move it directly behind `policy`")
        self.scope = element

    def _item(self, item: ast.Item) -> None:
        if self.waiting:
            item = replace(item, annotations=tuple(self.waiting))
            self.waiting = []
        if isinstance(item, ast.Test):
            self.tests.append(item)
        else:
            self.items.append(item)

    def _library(self) -> None:
        """Without a policy there are only lets, params and metrics, for others to import, or tests."""
        stranger = next((item for item in self.items if isinstance(item, RULES)), None)
        if stranger or self.scope:
            span = stranger.span if stranger else self.scope.span if self.scope else Span(self.source, 0, 0)
            word = span.text.split(maxsplit=1)[0]
            start = Span(self.source, span.start, span.start + len(word))
            help_ = 'begin the file with `policy "name"`; one without it is a library of `let`, `param` and `metric` for others to import'
            self.diagnostics.error(Code.P121, f"`{word}` belongs to a policy, and this file has none", start, help=help_)

    def _misplaced(self, span: Span, message: str, help: str) -> None:  # noqa: A002  # the field of a diagnostic is called help
        self.diagnostics.error(Code.P122, message, span, help=help)

    def _limits(self) -> None:
        for found, most, code, what in (
            (self.items, MOST_ITEMS, Code.P006, "declarations and rules"),
            (self.tests, MOST_TESTS, Code.P008, "tests"),
        ):
            if len(found) > most:
                self.diagnostics.error(code, f"more than {most} {what} in one file", found[most].span, help="split it into several files")
