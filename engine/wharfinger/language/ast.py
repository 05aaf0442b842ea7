"""The syntax tree: what the author wrote, with a span on every node and nothing decided yet.

At the end of the module: questions about trees that do not depend on what the nodes mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

from wharfinger.language.report.diagnostics import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Anything with a place in the file."""

    span: Span


# ── expressions ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Expr(Node):
    """An expression."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Number(Expr):
    """A numeric literal: digits as written and the unit as written (`""` when bare): `2Gi`, `10%`, `500m`, `4cpu`, `30s`, `1.5`."""

    digits: str
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class String(Expr):
    """A string literal, escapes resolved."""

    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Boolean(Expr):
    """`true` or `false`."""

    value: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLiteral(Expr):
    """`["a", "b"]`."""

    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEntry(Node):
    """`"gold": 3`; the key is a String or a Number, or a Name by mistake."""

    key: Expr
    value: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Expr):
    """`{ "gold": 3, "silver": 2 }`."""

    entries: tuple[TableEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Name(Expr):
    """A bare name: `pod`, `node`, `it`, a param, let or metric."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Member(Expr):
    """`base.field`."""

    base: Expr
    field: str
    field_span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Index(Expr):
    """`base["key"]`."""

    base: Expr
    key: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument(Node):
    """One call argument: `x`, `name: x`, or `x -> y` (a curve point; `value` is x and `to` is y)."""

    name: str | None
    value: Expr
    to: Expr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Expr):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Unary(Expr):
    """`not x` or `-x`."""

    op: UnaryOp
    operand: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary(Expr):
    """`left op right`. Comparisons do not chain."""

    op: BinaryOp
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class If(Expr):
    """`if condition then a else b`."""

    condition: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection(Expr):
    """`pods`, or `pods where predicate` (the predicate reads `it`); `of` is what is selected, `pods` or `devices`."""

    where: Expr | None
    of: str = "pods"


# ── items of a policy ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation(Node):
    """`@owner("team-edge")`; no argument means true."""

    name: str
    value: Expr | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeName(Node):
    """A type as written: `percent`, `set<string>`."""

    name: str
    element: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Item(Node):
    """One declaration or rule inside a policy."""

    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Param(Item):
    """`param name: type = default range low..high`."""

    name: str
    name_span: Span
    type: TypeName
    default: Expr | None
    low: Expr | None
    high: Expr | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Let(Item):
    """`let name = expression`."""

    name: str
    name_span: Span
    value: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter(Node):
    """`x: memory`."""

    name: str
    name_span: Span
    type: TypeName


@dataclass(frozen=True, slots=True, kw_only=True)
class Function(Item):
    """`let name(x: memory) = expression`."""

    name: str
    name_span: Span
    parameters: tuple[Parameter, ...]
    value: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric(Item):
    """`metric name: type = prometheus('query', node: "instance", refresh: 15s, max_age: 2min, min_coverage: 80%)`."""

    name: str
    name_span: Span
    type: TypeName
    source: Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload(Item):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class OnMissing(Node):
    """`on missing pass|reject|neutral|skip|evict|keep|<points>`."""

    action: MissingAction
    points: Expr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause(Node):
    """`require condition else "message" on missing …` or `reject …`; `is_require` distinguishes them."""

    is_require: bool
    condition: Expr
    message: String | None
    on_missing: OnMissing | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter(Item):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Score(Item):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePreference(Item):
    """`prefer device name when guard = value`: which devices of the node come first."""

    name: str
    name_span: Span
    when: Expr | None
    value: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginArgument(Node):
    """`name: value` inside `with { … }`: an expression, nested arguments, or a `SetLiteral` of expressions or of `ObjectLiteral`s."""

    name: str
    value: Expr | tuple[PluginArgument, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseEntry(Node):
    """`PLUGIN weight W with { … }`."""

    plugin: str
    plugin_span: Span
    weight: Expr | None
    arguments: tuple[PluginArgument, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Base(Item):
    """`base kubernetes { entries }`."""

    entries: tuple[BaseEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantum(Item):
    """`quantum 1`, or `quantum 1 tier 2`."""

    value: Expr
    tier: Expr | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TieKey(Node):
    """`expression asc|desc`."""

    value: Expr
    descending: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TieBreak(Item):
    """`tie_break key, key`."""

    keys: tuple[TieKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VictimRule(Node):
    """`never_evict when condition on missing …` or `only_evict when …`; `is_only` distinguishes them."""

    is_only: bool
    condition: Expr
    on_missing: OnMissing | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption(Item):
    """`preemption { rules }`: which placed pods may have to leave for a governed pod."""

    rules: tuple[VictimRule, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Level(Node):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLine(Node):
    """A line of a `group` block: `min_count 4`, `within required "rack"`, ….

    `value` belongs to MIN_COUNT and TIMEOUT, `levels` to WITHIN, `keys` to SPREAD_OVER, and `whole` (`disruption group`) to DISRUPTION.
    """

    word: GroupWord
    value: Expr | None = None
    levels: tuple[Level, ...] = ()
    keys: tuple[String, ...] = ()
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Group(Item):
    """`group by key { lines }`: what holds for groups of governed pods; each line is there at most once."""

    by: Expr | None
    lines: tuple[GroupLine, ...]

    def line(self, word: GroupWord) -> GroupLine | None:
        """The line that begins with a word, or None."""
        return next((line for line in self.lines if line.word is word), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Permit(Item):
    """`permit name timeout 5min when guard { clauses }`: what must hold before a placed pod is bound."""

    name: str
    name_span: Span
    timeout: Expr | None
    when: Expr | None
    clauses: tuple[Clause, ...]


# ── tests ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectField(Node):
    """`name: value` of a test object; a nested object is a tuple of fields, a list of objects a `SetLiteral` of `ObjectLiteral`s."""

    name: str
    value: Expr | tuple[ObjectField, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectLiteral(Expr):
    """`{ key: "dedicated", effect: "NoSchedule" }` in a list inside a test object or `with { … }`; only there."""

    fields: tuple[ObjectField, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TestStep(Node):
    """One line of a test; `test_steps` has what a line can be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Test(Item):
    """`test "title" { steps }`."""

    __test__ = False

    title: String
    steps: tuple[TestStep, ...]


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Import(Node):
    """`import "shared.policy" as shared`."""

    path: String
    name: str
    name_span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy(Node):
    """One policy: header, scope and items in file order. `scope_span` is all of `for pods where …`, None where that is left out."""

    name: String
    version: String | None
    annotations: tuple[Annotation, ...]
    scope: Expr | None  # `for pods where …`, reads `pod`
    scope_span: Span | None = None
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class File(Node):
    """One file: a policy with its tests; or a library (`policy` is None, `items` are lets, params); or tests only (`*_test.policy`).

    `lost` are the names that declarations with a syntax error would have declared. They count as declared, so there is no finding that they
    are unknown or unused. `words` is the number of words and symbols of the text.
    """

    imports: tuple[Import, ...]
    policy: Policy | None
    items: tuple[Item, ...]
    tests: tuple[Test, ...]
    lost: frozenset[str] = frozenset()
    words: int = field(default=0, compare=False)  # of its syntax, not of its meaning


_FIELDS: dict[type[Node], tuple[str, ...]] = {}  # of each kind of node, after its first use


def children(node: Node) -> Iterator[Node]:
    """The nodes directly below a node, in the order of its fields."""
    for name in _fields(node.__class__):
        value = getattr(node, name)
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            yield from (member for member in value if isinstance(member, Node))


def deepest(node: Node, most: int) -> Expr | None:
    """An expression that is nested more than `most` deep in others, or None; works without recursion, so on trees of any depth."""
    waiting: list[tuple[Node, int]] = [(node, 0)]
    while waiting:
        current, depth = waiting.pop()
        if isinstance(current, Expr):
            depth += 1
            if depth > most:
                return current
            if depth + current.span.end - current.span.start <= most:
                continue  # n characters cannot hold more than n levels
        waiting.extend((child, depth) for child in children(current))
    return None


def without_places(value: Any) -> Any:
    """The tree as nested tuples without its spans: equal for two texts exactly if they say the same."""
    if isinstance(value, Node):
        kept = (without_places(getattr(value, name)) for name in _fields(value.__class__))
        return (type(value).__name__, *kept)
    if isinstance(value, tuple):
        return tuple(without_places(member) for member in value if not isinstance(member, Span))
    return value


def _fields(kind: type[Node]) -> tuple[str, ...]:
    if kind not in _FIELDS:
        said = (field.name for field in fields(kind) if field.compare)
        _FIELDS[kind] = tuple(name for name in said if name != "span" and not name.endswith("_span"))
    return _FIELDS[kind]
