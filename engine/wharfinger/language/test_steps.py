"""The lines of an embedded test, as nodes of the syntax tree."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from wharfinger.language import ast
from wharfinger.language.source import Span


class ObjectKind(Enum):
    """What a test block may declare."""

    NODE = "node"
    POD = "pod"


@dataclass(frozen=True, slots=True, kw_only=True)
class Object(ast.TestStep):
    """`node a like b { fields }` / `pod web { fields }`."""

    kind: ObjectKind
    name: str
    name_span: Span
    like: str | None
    like_span: Span | None
    fields: tuple[ast.ObjectField, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Running(ast.TestStep):
    """`running web_1 like web on a { fields }`."""

    name: str
    name_span: Span
    like: str | None
    like_span: Span | None
    node: str
    node_span: Span
    fields: tuple[ast.ObjectField, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric(ast.TestStep):
    """`metric cpu5m { a: 40%, b: 90% age 3min }`: sample values by node; `ages` runs parallel (None: fresh)."""

    name: str
    name_span: Span
    nodes: tuple[tuple[str, Span], ...]
    values: tuple[ast.Expr, ...]
    ages: tuple[ast.Expr | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Param(ast.TestStep):
    """`param name = value`: sets a param for this test."""

    name: str
    name_span: Span
    value: ast.Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Place(ast.TestStep):
    """`place web`."""

    pod: str
    pod_span: Span


class Expectation(Enum):
    """What an `expect` line asserts."""

    ON = "on"  # pod on node (several nodes: one of them)
    NOT_ON = "not on"
    PENDING = "pending"  # pod is not placed
    REJECTED = "rejected"  # node rejected by rule
    ACCEPTED = "accepted"  # node passes every filter
    SCORE = "score"  # node's points of a score
    EVICTED = "evicted"  # running pod has to leave
    NOT_EVICTED = "not evicted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expect(ast.TestStep):
    """`expect web on b`, or another of the sentences below.

    `expect web not on a` · `expect web pending message "…"` · `expect a rejected by rule message "…"` · `expect a accepted` ·
    `expect a scores rule == 50` (comparison operators as in expressions) · `expect low evicted` · `expect low not evicted`.

    `pod` is set by `expect web: a rejected …`; without it, what is said of a node or a victim is about the pod placed last.
    """

    expectation: Expectation
    subject: str
    subject_span: Span
    nodes: tuple[tuple[str, Span], ...] = ()
    pod: str | None = None
    pod_span: Span | None = None
    rule: str | None = None
    rule_span: Span | None = None
    message: ast.String | None = None
    op: ast.BinaryOp | None = None
    points: ast.Expr | None = None
