"""The syntax tree: what the author wrote, with a span on every node and nothing decided yet.

At the end of the module: questions about trees that do not depend on what the nodes mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

import msgspec

from wharfinger.language.report.diagnostics import Span


class Node(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Anything with a place in the file."""

    span: Span


# ── expressions ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Expr(Node, frozen=True, kw_only=True):
    """An expression."""


class Number(Expr, frozen=True, kw_only=True):
    """A numeric literal: digits as written and the unit as written (`""` when bare): `2Gi`, `10%`, `500m`, `4cpu`, `30s`, `1.5`."""

    digits: str
    unit: str


class String(Expr, frozen=True, kw_only=True):
    """A string literal, escapes resolved."""

    value: str


class Boolean(Expr, frozen=True, kw_only=True):
    """`true` or `false`."""

    value: bool


class SetLiteral(Expr, frozen=True, kw_only=True):
    """`["a", "b"]`."""

    items: tuple[Expr, ...]


class TableEntry(Node, frozen=True, kw_only=True):
    """`"gold": 3`; the key is a String or a Number, or a Name by mistake."""

    key: Expr
    value: Expr


class Table(Expr, frozen=True, kw_only=True):
    """`{ "gold": 3, "silver": 2 }`."""

    entries: tuple[TableEntry, ...]


class Name(Expr, frozen=True, kw_only=True):
    """A bare name: `pod`, `node`, `it`, a param, let or metric."""

    name: str


class Member(Expr, frozen=True, kw_only=True):
    """`base.field`."""

    base: Expr
    field: str
    field_span: Span


class Index(Expr, frozen=True, kw_only=True):
    """`base["key"]`."""

    base: Expr
    key: Expr


class Argument(Node, frozen=True, kw_only=True):
    """One call argument: `x`, `name: x`, or `x -> y` (a curve point; `value` is x and `to` is y)."""

    name: str | None
    value: Expr
    to: Expr | None = None


class Call(Expr, frozen=True, kw_only=True):
    """`function(arguments)`, or `library.function(arguments)` for a function of an import."""

    function: str
    function_span: Span
    arguments: tuple[Argument, ...]
    library: str | None = None


class UnaryOp(Enum):
    """Prefix operators."""

    NOT = "not"
    MINUS = "-"


class BinaryOp(Enum):
    """Infix operators; `MATCHES` has a label selector in a string on its right."""

    OR = "or"
    AND = "and"
    EQ = "=="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    IN = "in"
    NOT_IN = "not in"
    MATCHES = "matches"
    COALESCE = "??"
    ADD = "+"
    SUB = "-"
    MUL = "*"
    DIV = "/"


class Unary(Expr, frozen=True, kw_only=True):
    """`not x` or `-x`."""

    op: UnaryOp
    operand: Expr


class Binary(Expr, frozen=True, kw_only=True):
    """`left op right`. Comparisons do not chain."""

    op: BinaryOp
    left: Expr
    right: Expr


class If(Expr, frozen=True, kw_only=True):
    """`if condition then a else b`."""

    condition: Expr
    then: Expr
    otherwise: Expr


class Selection(Expr, frozen=True, kw_only=True):
    """`pods`, or `pods where predicate` (the predicate reads `it`); `of` is what is selected, `pods` or `devices`."""

    where: Expr | None
    of: str = "pods"


# ── items of a policy ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Annotation(Node, frozen=True, kw_only=True):
    """`@owner("team-edge")`; no argument means true."""

    name: str
    value: Expr | None


class TypeName(Node, frozen=True, kw_only=True):
    """A type as written: `percent`, `set<string>`."""

    name: str
    element: str | None = None


class Item(Node, frozen=True, kw_only=True):
    """One declaration or rule inside a policy."""

    annotations: tuple[Annotation, ...] = ()


class Param(Item, frozen=True, kw_only=True):
    """`param name: type = default range low..high`."""

    name: str
    name_span: Span
    type: TypeName
    default: Expr | None
    low: Expr | None
    high: Expr | None


class Let(Item, frozen=True, kw_only=True):
    """`let name = expression`."""

    name: str
    name_span: Span
    value: Expr


class Parameter(Node, frozen=True, kw_only=True):
    """`x: memory`."""

    name: str
    name_span: Span
    type: TypeName


class Function(Item, frozen=True, kw_only=True):
    """`let name(x: memory) = expression`."""

    name: str
    name_span: Span
    parameters: tuple[Parameter, ...]
    value: Expr


class Metric(Item, frozen=True, kw_only=True):
    """`metric name: type = prometheus('query', node: "instance", refresh: 15s, max_age: 2min, min_coverage: 80%)`."""

    name: str
    name_span: Span
    type: TypeName
    source: Call


class Workload(Item, frozen=True, kw_only=True):
    """`workload name = [ { cpu: 4cpu, gpu: 1, weight: 12% }, … ]`.

    `value` is a `SetLiteral` of `ObjectLiteral`s, or an expression of another type by mistake.
    """

    name: str
    name_span: Span
    value: Expr


class MissingAction(Enum):
    """The action after `on missing`; the expression of POINTS is in `OnMissing.points`."""

    PASS = "pass"  # noqa: S105  # the word of the language, no password
    REJECT = "reject"
    NEUTRAL = "neutral"
    SKIP = "skip"
    POINTS = "points"
    EVICT = "evict"
    KEEP = "keep"


class OnMissing(Node, frozen=True, kw_only=True):
    """`on missing pass|reject|neutral|skip|evict|keep|<points>`."""

    action: MissingAction
    points: Expr | None = None


class Clause(Node, frozen=True, kw_only=True):
    """`require condition else "message" on missing …` or `reject …`; `is_require` distinguishes them."""

    is_require: bool
    condition: Expr
    message: String | None
    on_missing: OnMissing | None


class Filter(Item, frozen=True, kw_only=True):
    """`filter name when guard { clauses }`."""

    name: str
    name_span: Span
    when: Expr | None
    clauses: tuple[Clause, ...]


class Normalize(Enum):
    """The normalisation of raw points to 0..100."""

    NONE = "none"
    MAX = "max"
    MINMAX = "minmax"


class ScoreForm(Enum):
    """`score`, or its boolean sugar."""

    SCORE = "score"
    PREFER = "prefer"
    AVOID = "avoid"


class Score(Item, frozen=True, kw_only=True):
    """`score|prefer|avoid name tier T weight W when guard = value normalize … on missing …`.

    `spread` is the smallest difference that `normalize minmax(spread)` still stretches; None is the default of the language.
    """

    form: ScoreForm
    name: str
    name_span: Span
    tier: Expr | None
    weight: Expr | None
    when: Expr | None
    value: Expr
    normalize: Normalize | None
    spread: Expr | None
    on_missing: OnMissing | None


class DevicePreference(Item, frozen=True, kw_only=True):
    """`prefer device name when guard = value`: which devices of the node come first."""

    name: str
    name_span: Span
    when: Expr | None
    value: Expr


class PluginArgument(Node, frozen=True, kw_only=True):
    """`name: value` inside `with { … }`: an expression, nested arguments, or a `SetLiteral` of expressions or of `ObjectLiteral`s."""

    name: str
    value: Expr | tuple[PluginArgument, ...]


class BaseEntry(Node, frozen=True, kw_only=True):
    """`PLUGIN weight W with { … }`."""

    plugin: str
    plugin_span: Span
    weight: Expr | None
    arguments: tuple[PluginArgument, ...]


class Base(Item, frozen=True, kw_only=True):
    """`base kubernetes { entries }`."""

    entries: tuple[BaseEntry, ...]


class Quantum(Item, frozen=True, kw_only=True):
    """`quantum 1`, or `quantum 1 tier 2`."""

    value: Expr
    tier: Expr | None


class TieKey(Node, frozen=True, kw_only=True):
    """`expression asc|desc`."""

    value: Expr
    descending: bool


class TieBreak(Item, frozen=True, kw_only=True):
    """`tie_break key, key`."""

    keys: tuple[TieKey, ...]


class VictimRule(Node, frozen=True, kw_only=True):
    """`never_evict when condition on missing …` or `only_evict when …`; `is_only` distinguishes them."""

    is_only: bool
    condition: Expr
    on_missing: OnMissing | None


class Preemption(Item, frozen=True, kw_only=True):
    """`preemption { rules }`: which placed pods may have to leave for a governed pod."""

    rules: tuple[VictimRule, ...]


class Level(Node, frozen=True, kw_only=True):
    """`required "example.com/rack"`."""

    required: bool
    key: String


class GroupWord(Enum):
    """The words that begin the lines of a `group` block."""

    MIN_COUNT = "min_count"
    TIMEOUT = "timeout"
    WITHIN = "within"
    SPREAD_OVER = "spread_over"
    DISRUPTION = "disruption"
    RESERVE = "reserve"


class GroupLine(Node, frozen=True, kw_only=True):
    """A line of a `group` block: `min_count 4`, `within required "rack"`, ….

    `value` belongs to MIN_COUNT and TIMEOUT, `levels` to WITHIN, `keys` to SPREAD_OVER, and `whole` (`disruption group`) to DISRUPTION.
    """

    word: GroupWord
    value: Expr | None = None
    levels: tuple[Level, ...] = ()
    keys: tuple[String, ...] = ()
    whole: bool = False


class Group(Item, frozen=True, kw_only=True):
    """`group by key { lines }`: the terms of groups of governed pods; each line occurs at most once."""

    by: Expr | None
    lines: tuple[GroupLine, ...]

    def line(self, word: GroupWord) -> GroupLine | None:
        """The line that begins with a word, or None."""
        return next((line for line in self.lines if line.word is word), None)


class Permit(Item, frozen=True, kw_only=True):
    """`permit name timeout 5min when guard { clauses }`: what must hold before a placed pod is bound."""

    name: str
    name_span: Span
    timeout: Expr | None
    when: Expr | None
    clauses: tuple[Clause, ...]


# ── tests ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


class ObjectField(Node, frozen=True, kw_only=True):
    """`name: value` of a test object; a nested object is a tuple of fields, a list of objects a `SetLiteral` of `ObjectLiteral`s."""

    name: str
    value: Expr | tuple[ObjectField, ...]


class ObjectLiteral(Expr, frozen=True, kw_only=True):
    """`{ key: "dedicated", effect: "NoSchedule" }` in a list inside a test object or `with { … }`; only there."""

    fields: tuple[ObjectField, ...]


class TestStep(Node, frozen=True, kw_only=True):
    """One line of a test; `test_steps` has what a line can be."""


class Test(Item, frozen=True, kw_only=True):
    """`test "title" { steps }`."""

    __test__ = False

    title: String
    steps: tuple[TestStep, ...]


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Import(Node, frozen=True, kw_only=True):
    """`import "shared.policy" as shared`."""

    path: String
    name: str
    name_span: Span


class Policy(Node, frozen=True, kw_only=True):
    """One policy: header, scope and items in file order. `scope_span` is all of `for pods where …`, None where that is left out."""

    name: String
    version: String | None
    annotations: tuple[Annotation, ...]
    scope: Expr | None  # `for pods where …`, reads `pod`
    scope_span: Span | None = None
    items: tuple[Item, ...]


class File(Node, frozen=True, kw_only=True):
    """One file: a policy with its tests; or a library (`policy` is None, `items` are lets, params); or tests only (`*_test.policy`).

    `lost` are the names that declarations with a syntax error would have declared. They count as declared, so there is no finding that they
    are unknown or unused. `words` is the number of words and symbols of the text.
    """

    imports: tuple[Import, ...]
    policy: Policy | None
    items: tuple[Item, ...]
    tests: tuple[Test, ...]
    lost: frozenset[str] = frozenset()
    words: int = 0


_FIELDS: dict[type[Node], tuple[str, ...]] = {}  # of each kind of node, after its first use


def children(node: Node) -> Iterator[Node]:
    """The nodes directly below a node, in the order of its fields."""
    for name in _fields(node.__class__):
        value = getattr(node, name)
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            yield from (member for member in value if isinstance(member, Node))


def deepest(node: Node, limit: int) -> Expr | None:
    """An expression that is nested more than `limit` deep in others, or None; works without recursion, so on trees of any depth."""
    waiting: list[tuple[Node, int]] = [(node, 0)]
    while waiting:
        current, depth = waiting.pop()
        if isinstance(current, Expr):
            depth += 1
            if depth > limit:
                return current
            if depth + current.span.end - current.span.start <= limit:
                continue  # n characters cannot hold more than n levels
        waiting.extend((child, depth) for child in children(current))
    return None


def is_same_tree(one: Node, other: Node) -> bool:
    """True if two trees differ in their spans only; works without recursion and stops at the first difference."""
    waiting: list[tuple[Any, Any]] = [(one, other)]
    while waiting:
        left, right = waiting.pop()
        if isinstance(left, Node):
            if left.__class__ is not right.__class__:
                return False
            waiting.extend([(getattr(left, name), getattr(right, name)) for name in _fields(left.__class__)])
        elif isinstance(left, tuple):
            if not isinstance(right, tuple) or len(left) != len(right):
                return False
            waiting.extend(zip(left, right, strict=True))
        elif left != right and not (isinstance(left, Span) and isinstance(right, Span)):  # the place of a name is beside it
            return False
    return True


def _fields(kind: type[Node]) -> tuple[str, ...]:
    if kind not in _FIELDS:
        no_meaning = {"span", "words"}
        _FIELDS[kind] = tuple(name for name in kind.__struct_fields__ if name not in no_meaning and not name.endswith("_span"))
    return _FIELDS[kind]
