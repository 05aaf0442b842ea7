"""Productions for `test` blocks."""

from __future__ import annotations

from dataclasses import dataclass

from wharfinger.language import ast, test_steps
from wharfinger.language.lexer import Token
from wharfinger.language.source import Span
from wharfinger.language.syntax_expressions import OPERATORS, Object, production
from wharfinger.language.syntax_rules import Rules
from wharfinger.language.test_steps import Expectation

Named = tuple[str, Span]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an `expect` says of its subject."""

    span: Span
    expectation: Expectation
    nodes: tuple[Named, ...] = ()
    rule: Token | None = None
    message: ast.String | None = None
    op: ast.BinaryOp | None = None
    points: ast.Expr | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """`node: value age 3min`."""

    span: Span
    node: Token
    value: ast.Expr
    age: ast.Expr | None


class SyntaxTree(Rules):
    """Builds tests, and with what it inherits, a whole file."""

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
        """A name that may stand in quotes, and its span."""
        return self.word(token), self.at(token, token)

    @production
    def keys(self, names: list[Token]) -> tuple[Named, ...]:
        """`a, b`."""
        return tuple(self.named(name) for name in names)

    @production
    def object_step(self, keyword: Token, name: Token, _like: Token | None, like: Token | None, fields: Object | None) -> test_steps.Object:
        """`node a like b { fields }`."""
        text, span = self.named(name)
        return test_steps.Object(
            span=self.at(keyword, fields.close if fields else like or name),
            kind=test_steps.ObjectKind(keyword.text),
            name=text,
            name_span=span,
            like=self.word(like) if like else None,
            like_span=self.at(like, like) if like else None,
            fields=fields.fields if fields else (),
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
        fields: Object | None,
    ) -> test_steps.Running:
        """`running web_1 like web on a { fields }`."""
        text, span = self.named(name)
        return test_steps.Running(
            span=self.at(keyword, fields.close if fields else node),
            name=text,
            name_span=span,
            like=self.word(like) if like else None,
            like_span=self.at(like, like) if like else None,
            node=self.word(node),
            node_span=self.at(node, node),
            fields=fields.fields if fields else (),
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
    def place_step(self, keyword: Token, pod: Token) -> test_steps.Place:
        """`place web`."""
        return test_steps.Place(span=self.at(keyword, pod), pod=self.word(pod), pod_span=self.at(pod, pod))

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
    def scores(self, word: Token, rule: Token, operator: Token, points: ast.Expr) -> Outcome:
        """`scores rule == 50`."""
        op = OPERATORS[operator.text]
        return Outcome(span=self.at(word, points), expectation=Expectation.SCORE, rule=rule, op=op, points=points)
