"""Lark's trees of tests to nodes of the syntax tree, and the elements of a file to one file.

The grammar takes the elements in any order. `Assembly` puts the parts of a file together: a policy with its tests, a library of lets,
params, metrics and workloads, or tests only.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from wharfinger.language import ast, test_steps
from wharfinger.language.parse.expression_nodes import OPERATORS, production
from wharfinger.language.parse.rule_nodes import Element, PolicyHeader, Rules, Scope
from wharfinger.language.parse.tokens import Token
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Diagnostics, Label, Source, Span
from wharfinger.language.test_steps import Expectation

Named = tuple[str, Span]

MAX_ITEMS = 500
MAX_TESTS = 500
RULES = (ast.Filter, ast.Score, ast.DevicePreference, ast.Base, ast.Quantum, ast.TieBreak, ast.Preemption, ast.Group, ast.Permit)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The expectation of an `expect` about its subject."""

    span: Span
    expectation: Expectation
    nodes: tuple[Named, ...] = ()
    devices: tuple[str, ...] = ()
    rule: Token | None = None
    message: ast.String | None = None
    op: ast.BinaryOp | None = None
    points: ast.Expr | None = None


class GroupOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The expectation of an `expect group` about its group."""

    span: Span
    outcome: test_steps.GroupState
    key: ast.String | None = None
    message: ast.String | None = None


class Sample(msgspec.Struct, frozen=True):
    """`node: value age 3min`."""

    span: Span
    node: Token
    value: ast.Expr
    age: ast.Expr | None


class SyntaxTree(Rules):
    """Builds the syntax tree of a file; this class adds the tests."""

    @production
    def test(self, keyword: Token, title: Token, left: Token, steps: tuple[ast.TestStep, ...], right: Token) -> ast.Test:
        """`test "title" { steps }`."""
        if not steps:
            self.empty(left, right, "this test does nothing", "declare nodes and pods, `place` a pod and `expect` something")
        return ast.Test(span=self.at(keyword, right), title=self.string_at(title), steps=steps)

    @production
    def steps(self, steps: list[ast.TestStep]) -> tuple[ast.TestStep, ...]:
        """The lines of a test."""
        return tuple(steps)

    def named(self, token: Token) -> Named:
        """A name that may be in quotes, and its span."""
        return self.word(token), self.at(token, token)

    @production
    def keys(self, names: list[Token]) -> tuple[Named, ...]:
        """`a, b`."""
        return tuple(self.named(name) for name in names)

    @production
    def object_step(
        self, keyword: Token, name: Token, _like: Token | None, like: Token | None, fields: ast.Table | None
    ) -> test_steps.Object:
        """`node a like b { fields }`."""
        text, span = self.named(name)
        return test_steps.Object(
            span=self.at(keyword, fields or like or name),
            kind=test_steps.ObjectKind(keyword.text),
            name=text,
            name_span=span,
            like=self.word(like) if like else None,
            like_span=self.at(like, like) if like else None,
            fields=self.object_fields(fields),
        )

    @production
    def running_step(  # one argument per part of the production
        self,
        keyword: Token,
        name: Token,
        _like: Token | None,
        like: Token | None,
        _on: Token,
        node: Token,
        fields: ast.Table | None,
    ) -> test_steps.Running:
        """`running web_1 like web on a { fields }`."""
        text, span = self.named(name)
        return test_steps.Running(
            span=self.at(keyword, fields or node),
            name=text,
            name_span=span,
            like=self.word(like) if like else None,
            like_span=self.at(like, like) if like else None,
            node=self.word(node),
            node_span=self.at(node, node),
            fields=self.object_fields(fields),
        )

    @production
    def metric_step(self, keyword: Token, name: Token, _left: Token, samples: list[Sample] | None, right: Token) -> test_steps.Metric:
        """`metric cpu5m { a: 40%, b: 90% age 3min }`."""
        return test_steps.Metric(
            span=self.at(keyword, right),
            name=name.text,
            name_span=self.at(name, name),
            nodes=tuple(self.named(sample.node) for sample in samples or ()),
            values=tuple(sample.value for sample in samples or ()),
            ages=tuple(sample.age for sample in samples or ()),
        )

    @production
    def samples(self, members: list[Sample], _comma: Token | None) -> list[Sample]:
        """`a: 40%, b: 90%`."""
        return members

    @production
    def sample(self, node: Token, _colon: Token, value: ast.Expr, _age: Token | None, age: ast.Expr | None) -> Sample:
        """`b: 90% age 3min`."""
        return Sample(self.at(node, age or value), node, value, age)

    @production
    def param_step(self, keyword: Token, name: Token, _assign: Token, value: ast.Expr) -> test_steps.Param:
        """`param limit = 3`."""
        return test_steps.Param(span=self.at(keyword, value), name=name.text, name_span=self.at(name, name), value=value)

    @production
    def at_step(self, keyword: Token, text: Token) -> test_steps.At:
        """`at "2026-03-29T01:30:00Z"`."""
        return test_steps.At(span=self.at(keyword, text), text=self.string_at(text))

    @production
    def place_step(self, keyword: Token, pod: Token) -> test_steps.Place:
        """`place web`."""
        return test_steps.Place(span=self.at(keyword, pod), pod=self.word(pod), pod_span=self.at(pod, pod))

    @production
    def place_group_step(self, keyword: Token, _group: Token, group: Token) -> test_steps.PlaceGroup:
        """`place group training`."""
        return test_steps.PlaceGroup(span=self.at(keyword, group), group=self.word(group), group_span=self.at(group, group))

    @production
    def expect_group_step(self, keyword: Token, _group: Token, group: Token, outcome: GroupOutcome) -> test_steps.ExpectGroup:
        """`expect group training placed`."""
        return test_steps.ExpectGroup(
            span=Span(self.source, keyword.start, outcome.span.end),
            outcome=outcome.outcome,
            group=self.word(group),
            group_span=self.at(group, group),
            key=outcome.key,
            message=outcome.message,
        )

    @production
    def group_placed(self, word: Token) -> GroupOutcome:
        """`placed`."""
        return GroupOutcome(span=self.at(word, word), outcome=test_steps.GroupState.PLACED)

    @production
    def group_pending(self, word: Token, _message: Token | None, message: Token | None) -> GroupOutcome:
        """`pending message "…"`."""
        text = self.string_at(message) if message else None
        return GroupOutcome(span=self.at(word, message or word), outcome=test_steps.GroupState.PENDING, message=text)

    @production
    def group_together(self, word: Token, _in: Token, key: Token) -> GroupOutcome:
        """`together in "example.com/rack"`."""
        return GroupOutcome(span=self.at(word, key), outcome=test_steps.GroupState.TOGETHER, key=self.string_at(key))

    @production
    def expect_step(self, keyword: Token, subject: Token, outcome: Outcome) -> test_steps.Expect:
        """`expect web on b`."""
        return self._expect(keyword, None, subject, outcome)

    @production
    def expect_for_step(self, keyword: Token, pod: Token, _colon: Token, subject: Token, outcome: Outcome) -> test_steps.Expect:
        """`expect web: a rejected by not_crowded`."""
        return self._expect(keyword, pod, subject, outcome)

    def _expect(self, keyword: Token, pod: Token | None, subject: Token, outcome: Outcome) -> test_steps.Expect:
        text, span = self.named(subject)
        return test_steps.Expect(
            span=Span(self.source, keyword.start, outcome.span.end),
            expectation=outcome.expectation,
            subject=text,
            subject_span=span,
            nodes=outcome.nodes,
            devices=outcome.devices,
            pod=self.word(pod) if pod else None,
            pod_span=self.at(pod, pod) if pod else None,
            rule=self.word(outcome.rule) if outcome.rule else None,
            rule_span=self.at(outcome.rule, outcome.rule) if outcome.rule else None,
            message=outcome.message,
            op=outcome.op,
            points=outcome.points,
        )

    @production
    def on_nodes(self, on: Token, nodes: tuple[Named, ...]) -> Outcome:
        """`on a, b`."""
        return Outcome(span=Span(self.source, on.start, nodes[-1][1].end), expectation=Expectation.ON, nodes=nodes)

    @production
    def device_name(self, text: Token) -> Token:
        """`"gpu-0"`."""
        return text

    @production
    def on_devices(self, on: Token, _device: Token, names: list[Token]) -> Outcome:
        """`on device "gpu-0", "gpu-1"`."""
        devices = tuple(self.string_at(name).value for name in names)
        return Outcome(span=self.at(on, names[-1]), expectation=Expectation.ON_DEVICE, devices=devices)

    @production
    def not_on_nodes(self, not_: Token, _on: Token, nodes: tuple[Named, ...]) -> Outcome:
        """`not on a, b`."""
        return Outcome(span=Span(self.source, not_.start, nodes[-1][1].end), expectation=Expectation.NOT_ON, nodes=nodes)

    @production
    def pending(self, word: Token, _message: Token | None, message: Token | None) -> Outcome:
        """`pending message "…"`."""
        text = self.string_at(message) if message else None
        return Outcome(span=self.at(word, message or word), expectation=Expectation.PENDING, message=text)

    @production
    def rejected(self, word: Token, _by: Token | None, rule: Token | None, _message: Token | None, message: Token | None) -> Outcome:
        """`rejected by rule message "…"`."""
        text = self.string_at(message) if message else None
        return Outcome(span=self.at(word, message or rule or word), expectation=Expectation.REJECTED, rule=rule, message=text)

    @production
    def accepted(self, word: Token) -> Outcome:
        """`accepted`."""
        return Outcome(span=self.at(word, word), expectation=Expectation.ACCEPTED)

    @production
    def evicted(self, word: Token) -> Outcome:
        """`evicted`."""
        return Outcome(span=self.at(word, word), expectation=Expectation.EVICTED)

    @production
    def not_evicted(self, not_: Token, word: Token) -> Outcome:
        """`not evicted`."""
        return Outcome(span=self.at(not_, word), expectation=Expectation.NOT_EVICTED)

    @production
    def held(self, word: Token, _message: Token | None, message: Token | None) -> Outcome:
        """`held message "…"`."""
        text = self.string_at(message) if message else None
        return Outcome(span=self.at(word, message or word), expectation=Expectation.HELD, message=text)

    @production
    def not_held(self, not_: Token, word: Token) -> Outcome:
        """`not held`."""
        return Outcome(span=self.at(not_, word), expectation=Expectation.NOT_HELD)

    @production
    def scores(self, word: Token, rule: Token, operator: Token, points: ast.Expr) -> Outcome:
        """`scores rule == 50`."""
        op = OPERATORS[operator.text]
        return Outcome(span=self.at(word, points), expectation=Expectation.SCORE, rule=rule, op=op, points=points)


class Assembly(msgspec.Struct):
    """A file while its elements are sorted into it."""

    source: Source
    diagnostics: Diagnostics
    header: PolicyHeader | None = None
    scope: Scope | None = None
    imports: list[ast.Import] = msgspec.field(default_factory=list)
    items: list[ast.Item] = msgspec.field(default_factory=list)
    tests: list[ast.Test] = msgspec.field(default_factory=list)
    policy_annotations: list[ast.Annotation] = msgspec.field(default_factory=list)
    waiting: list[ast.Annotation] = msgspec.field(default_factory=list)

    def file(self, elements: Sequence[Element]) -> ast.File:
        """The file that the elements make up."""
        for element in elements:
            self._place(element)
        if self.waiting:
            self._misplaced(self.waiting[-1].span, "this annotation belongs to nothing", "write an annotation before its item")
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
        assert self.header  # noqa: S101 # checked by the caller
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
        """Add an annotation: to the policy if it is between the header and `for` or the first item, otherwise to the next item."""
        if self.header and not self.scope and not self.items and not self.tests:
            self.policy_annotations.append(annotation)
        else:
            self.waiting.append(annotation)

    def _import(self, element: ast.Import) -> None:
        if self.items or self.tests or self.scope:
            self._misplaced(element.span, "write imports at the top of a file", "move it before the first declaration")
        self.imports.append(element)

    def _header(self, element: PolicyHeader) -> None:
        if self.header:
            others = (Label(self.header.span, "the policy of this file"),)
            self.diagnostics.error(
                Code.P120, "a file contains one policy", element.span, others=others, help="move the second one to another file"
            )
            return
        if self.items or self.tests:
            self._misplaced(element.span, "write `policy` before everything that belongs to it", "move it to the top of the file")
        self.header = element
        self.policy_annotations, self.waiting = self.waiting + self.policy_annotations, []

    def _scope(self, element: Scope) -> None:
        if self.scope:
            others = (Label(self.scope.span, "already said here"),)
            help_ = "join the two conditions with `and`"
            self.diagnostics.error(Code.P112, "a policy has one `for pods`", element.span, others=others, help=help_)
            return
        if self.items or self.tests:
            self._misplaced(element.span, "write `for pods` before the rules", "move it directly behind `policy`")
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
        """Report rules in a file without a policy, which holds lets, params and metrics for others to import, or tests."""
        stranger = next((item for item in self.items if isinstance(item, RULES)), None)
        if stranger or self.scope:
            span = stranger.span if stranger else self.scope.span if self.scope else Span(self.source, 0, 0)
            word = span.text.split(maxsplit=1)[0]
            start = Span(self.source, span.start, span.start + len(word))
            help_ = (
                'begin the file with `policy "name"`; one without it is a library of `let`, `param`, `metric` and `workload` for others '
                "to import"
            )
            self.diagnostics.error(Code.P121, f"`{word}` belongs to a policy, and this file has none", start, help=help_)

    def _misplaced(self, span: Span, message: str, help: str) -> None:  # noqa: A002  # the field of a diagnostic is called help
        self.diagnostics.error(Code.P122, message, span, help=help)

    def _limits(self) -> None:
        for found, limit, code, what in (
            (self.items, MAX_ITEMS, Code.P006, "declarations and rules"),
            (self.tests, MAX_TESTS, Code.P008, "tests"),
        ):
            if len(found) > limit:
                self.diagnostics.error(code, f"more than {limit} {what} in one file", found[limit].span, help="split it into several files")
