"""Random typed policies: trees built by kind, with attributes, builtins, lets, params, a metric and selections of pods."""

from __future__ import annotations

from functools import cache, cached_property
from typing import Any

from hypothesis import strategies as st

from wharfinger.builtins import CATALOGUE
from wharfinger.language.ast import MissingAction, Normalize
from wharfinger.language.report.diagnostics import Source, Span
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.authority import CLUSTER, Authority, TenantPolicies
from wharfinger.language.semantics.catalogue import Subject
from wharfinger.language.semantics.types import Kind, Shape, Type

from .clusters import GPU, HOSTNAME, ZONE

SOURCE = Source(name="random.policy", text="")
SPAN = Span(SOURCE, 0, 0)
NUMBER, STRING, BOOL, VERSION = (Type(kind, Shape.NODE, optional=True) for kind in (Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.VERSION))
METRIC = typed.Metric(
    name="load",
    policy="generated",
    span=SPAN,
    type=NUMBER,
    source="prometheus",
    query="q",
    options={},
    refresh=15.0,
    max_age=5.0,
    min_coverage=0.5,
)
PARAMS = {"limit": 3.0, "names": frozenset({"a", "ssd"})}
TEXTS = (
    "a",
    "b",
    "ssd",
    "SSD",
    "",
    "host-node-1",
    "12",
    "1.5",
    "v1.28.3",
    "1.27",
    "node-2",
    "v1.28.3-rc.2",
    "1.28.3-rc.11+a",
    "2Gi",
    "1.5m",
    "-3",
)
REGEXES = ("^a", "o.*e", "[0-9]+$", "")


def const(value: Any, kind: Kind, element: Kind | None = None) -> typed.Const:
    return typed.Const(span=SPAN, type=Type(kind, element=element), value=value)


def text(value: str) -> typed.Const:
    return const(value, Kind.STRING)


def attribute(subject: Subject, path: str, key: typed.Expr | None = None) -> typed.AttributeRef:
    record = CATALOGUE.attribute(subject, path)
    assert record is not None, path
    kind = {Kind.LABELS: Kind.STRING, Kind.STRING: Kind.STRING, Kind.BOOL: Kind.BOOL}.get(record.type.kind, Kind.NUMBER)
    return typed.AttributeRef(span=SPAN, type=Type(kind, record.type.shape, optional=True), attribute=record, key=key)


def call(name: str, *arguments: typed.Expr, type_: Type = NUMBER, **named: typed.Expr) -> typed.Call:
    function = CATALOGUE.function(name)
    assert function is not None, name
    return typed.Call(span=SPAN, type=type_, function=function, arguments=arguments, named=named)


def operation(op: typed.Op, *operands: typed.Expr, type_: Type) -> typed.Operation:
    return typed.Operation(span=SPAN, type=type_, op=op, operands=operands)


def labels(subject: Subject, key: str) -> typed.AttributeRef:
    return attribute(subject, "labels", text(key))


numbers_written = st.sampled_from([0.0, 1.0, -1.0, 2.0, 0.5, 100.0, 1000.0, 2.0**30, 1e308, -1.7e308, 5e-324]).map(
    lambda value: const(value, Kind.NUMBER)
)
texts_written = st.sampled_from(TEXTS).map(text)


@cache
def attribute_numbers(subject: Subject) -> list[typed.AttributeRef]:
    """Every attribute of a subject that is a number."""
    found: list[typed.AttributeRef] = []
    for record in CATALOGUE.attributes(subject):
        if record.type.kind not in (Kind.STRING, Kind.LABELS, Kind.SET, Kind.BOOL):
            if record.path == "group.placed":  # the checker counts the members instead
                continue
            keys = [text("training")] if record.of_group else [text(GPU), text("example.com/fpga")] if record.keyed else [None]
            found += [attribute(subject, record.path, key) for key in keys]
    return found


KEYS_OF_POD = (("namespace_labels", "tier"), ("labels", "app"))  # values of the pod by which attributes are read


@cache
def attribute_texts(subject: Subject) -> list[typed.Expr]:
    """Every attribute of a subject that is a string, with keys that clusters have."""
    keys = {
        "labels": (ZONE, HOSTNAME, "disk", "app"),
        "annotations": ("team", "none"),
        "conditions": ("Ready", "Other"),
        "node_selector": ("disk",),
        "namespace_labels": ("tier", "none"),
    }
    found: list[typed.Expr] = []
    for record in CATALOGUE.attributes(subject):
        if record.keyed and record.path in keys:
            found += [attribute(subject, record.path, text(key)) for key in keys[record.path]]
            found += [attribute(subject, record.path, attribute(Subject.POD, path, text(key))) for path, key in KEYS_OF_POD]
        elif record.type.kind is Kind.STRING:
            found.append(attribute(subject, record.path))
    return found


def selectors() -> st.SearchStrategy[typed.Requirement]:
    keys, values = st.sampled_from([ZONE, "disk", "app"]), st.sampled_from([("a",), ("a", "ssd"), ("",), ("b", "c")])
    several = st.sampled_from([typed.SelectorOp.IN, typed.SelectorOp.NOT_IN])
    one = st.sampled_from([typed.SelectorOp.GT, typed.SelectorOp.LT])
    none = st.sampled_from([typed.SelectorOp.EXISTS, typed.SelectorOp.DOES_NOT_EXIST])
    return st.one_of(
        st.builds(typed.Requirement, keys, several, values),
        st.builds(typed.Requirement, keys, one, st.sampled_from([("3",), ("-1",), ("x",)])),
        st.builds(typed.Requirement, keys, none),
    )


def matches(subject: Subject) -> st.SearchStrategy[typed.Expr]:
    whole = attribute(subject, "labels")
    requirements = st.lists(selectors(), max_size=3).map(tuple)
    return requirements.map(lambda found: typed.Matches(span=SPAN, type=BOOL.present(), labels=whole, requirements=found))


class Expressions:
    """Strategies of expressions by kind, to some depth; `subjects` are those that may be named, `extra` further leaves."""

    def __init__(
        self, subjects: tuple[Subject, ...], depth: int, extra: dict[Kind, list[typed.Expr]] | None = None, *, cluster: bool = True
    ) -> None:
        self.cluster = cluster  # its nodes and pods can be read
        self.subjects = subjects
        self.depth = depth
        self.extra = extra or {}

    @cached_property
    def deeper(self) -> Expressions:
        return Expressions(self.subjects, self.depth - 1, self.extra, cluster=self.cluster)

    @cached_property
    def numbers(self) -> st.SearchStrategy[typed.Expr]:
        known = [leaf for subject in self.subjects for leaf in attribute_numbers(subject)]
        leaves = [leaf for leaf in known if self.cluster or not leaf.attribute.of_group] + self.extra.get(Kind.NUMBER, [])
        simple = st.one_of(numbers_written, st.sampled_from(leaves))
        if self.depth <= 0:
            return simple
        n, b, t = self.deeper.numbers, self.deeper.bools, self.deeper.texts
        arithmetic = st.sampled_from([typed.Op.ADD, typed.Op.SUB, typed.Op.MUL, typed.Op.DIV, typed.Op.COALESCE])
        return st.one_of(
            simple,
            st.builds(lambda op, x, y: operation(op, x, y, type_=NUMBER), arithmetic, n, n),
            n.map(lambda x: operation(typed.Op.NEG, x, type_=NUMBER)),
            st.builds(lambda c, x, y: typed.If(span=SPAN, type=NUMBER, condition=c, then=x, otherwise=y), b, n, n),
            st.builds(call, st.sampled_from(["min", "max", "ratio"]), n, n),
            st.builds(call, st.sampled_from(["abs", "floor", "ceil", "sqrt", "log", "exp", "sigmoid"]), n),
            st.builds(lambda x: call("round", x, const(5.0, Kind.NUMBER)), n),
            st.builds(lambda x, y, z: call("clamp", x, y, z), n, n, n),
            st.builds(call, st.sampled_from(["number", "hash"]), t),
            st.builds(lambda x, y: call("version_compare", x, y), t, t),
            st.builds(call, st.sampled_from(["quantity", "quantity.cpu", "quantity.number"]), t),
            st.builds(_lookup, st.sampled_from([BY_TEXT, BY_NUMBER]), n, t, st.just(NUMBER)),
            st.builds(_curve, n, st.lists(st.integers(-5, 100), min_size=2, max_size=4, unique=True)),
        )

    @cached_property
    def texts(self) -> st.SearchStrategy[typed.Expr]:
        texts_ = [leaf for subject in self.subjects for leaf in attribute_texts(subject)]
        simple = st.one_of(texts_written, st.sampled_from(texts_ + self.extra.get(Kind.STRING, [])))
        if self.depth <= 0:
            return simple
        b, t = self.deeper.bools, self.deeper.texts
        return st.one_of(
            simple,
            st.builds(lambda x, y: operation(typed.Op.COALESCE, x, y, type_=STRING), t, t),
            st.builds(lambda c, x, y: typed.If(span=SPAN, type=STRING, condition=c, then=x, otherwise=y), b, t, t),
            st.builds(_lookup, st.sampled_from([TEXT_BY_TEXT, TEXT_BY_NUMBER]), self.deeper.numbers, t, st.just(STRING)),
            st.builds(lambda name, x: call(name, x, type_=STRING), st.sampled_from(["lower", "upper"]), t),
        )

    @cached_property
    def versions(self) -> st.SearchStrategy[typed.Expr]:
        written = st.sampled_from(["1.27.0", "1.28.3-rc.2", "12.0.0"]).map(lambda value: const(value, Kind.VERSION))
        if self.depth <= 0:
            return written
        b, v = self.deeper.bools, self.deeper.versions
        return st.one_of(
            written,
            self.deeper.texts.map(lambda x: call("semver", x, type_=VERSION)),
            st.builds(lambda x, y: operation(typed.Op.COALESCE, x, y, type_=VERSION), v, v),
            st.builds(lambda c, x, y: typed.If(span=SPAN, type=VERSION, condition=c, then=x, otherwise=y), b, v, v),
        )

    @cached_property
    def bools(self) -> st.SearchStrategy[typed.Expr]:
        flags: list[typed.Expr] = [
            attribute(subject, record.path)
            for subject in self.subjects
            for record in CATALOGUE.attributes(subject)
            if record.type.kind is Kind.BOOL
        ] + self.extra.get(Kind.BOOL, [])
        written = st.booleans().map(lambda value: const(value, Kind.BOOL))
        simple = st.one_of(written, st.sampled_from(flags), *(matches(subject) for subject in self.subjects))
        if self.depth <= 0:
            return simple
        n, b, t = self.deeper.numbers, self.deeper.bools, self.deeper.texts
        order = st.sampled_from([typed.Op.EQ, typed.Op.LT, typed.Op.LE, typed.Op.GT, typed.Op.GE])
        logic = st.sampled_from([typed.Op.AND, typed.Op.OR, typed.Op.COALESCE])
        names = st.sampled_from([const(frozenset({"a", "b"}), Kind.SET, Kind.STRING), param("names")])
        amounts = const(frozenset({0.0, 1.0, 4000.0}), Kind.SET, Kind.NUMBER)
        return st.one_of(
            simple,
            st.builds(lambda op, x, y: operation(op, x, y, type_=BOOL), order, n, n),
            st.builds(lambda x, y: operation(typed.Op.EQ, x, y, type_=BOOL), t, t),
            st.builds(lambda op, x, y: operation(op, x, y, type_=BOOL), order, self.deeper.versions, self.deeper.versions),
            st.builds(lambda op, x, y: operation(op, x, y, type_=BOOL), logic, b, b),
            b.map(lambda x: operation(typed.Op.NOT, x, type_=BOOL)),
            st.builds(lambda c, x, y: typed.If(span=SPAN, type=BOOL, condition=c, then=x, otherwise=y), b, b, b),
            st.one_of(n, b, t).map(lambda x: typed.Has(span=SPAN, type=BOOL.present(), operand=x)),
            st.builds(_lookup, st.sampled_from([FLAG_BY_TEXT, FLAG_BY_NUMBER]), n, t, st.just(BOOL)),
            st.builds(lambda x, s: operation(typed.Op.IN, x, s, type_=BOOL), t, names),
            n.map(lambda x: operation(typed.Op.IN, x, amounts, type_=BOOL)),
            st.builds(lambda name, x, y: call(name, x, y, type_=BOOL), st.sampled_from(["starts_with", "ends_with", "contains"]), t, t),
            st.builds(lambda x, y: call("matches_regex", x, text(y), type_=BOOL), t, st.sampled_from(REGEXES)),
            t.map(lambda x: call("version_at_least", x, text("1.28"), type_=BOOL)),
        )


BY_TEXT, BY_NUMBER = (("a", "ssd", ""), (3.0, -1e30, 1e300)), ((0.0, 2.0, 1000.0), (0.0, 7.0, -2.0))
TEXT_BY_TEXT, TEXT_BY_NUMBER = (("b", "host-node-1"), ("a", "new")), ((1.0, 4.0, 3.0), ("ssd", "a", "other"))
FLAG_BY_TEXT, FLAG_BY_NUMBER = (("a", "b"), (True, False)), ((1.0, 0.0), (True, False))


def _lookup(table: tuple[tuple[Any, ...], tuple[Any, ...]], number: typed.Expr, word: typed.Expr, type_: Type) -> typed.Lookup:
    """A look into a table, by a text or a number as its keys are."""
    entries = typed.Entries(keys=table[0], values=table[1], kind=type_.kind)
    return typed.Lookup(span=SPAN, type=type_, entries=entries, key=word if isinstance(table[0][0], str) else number)


def _curve(x: typed.Expr, xs: list[int]) -> typed.Curve:
    points = tuple((const(float(at), Kind.NUMBER), const(float(at % 7) * 10, Kind.NUMBER)) for at in sorted(xs))
    return typed.Curve(span=SPAN, type=NUMBER, x=x, points=points)


def param(name: str) -> typed.ParamRef:
    kind = Type(Kind.NUMBER) if name == "limit" else Type(Kind.SET, element=Kind.STRING)
    return typed.ParamRef(span=SPAN, type=kind, name=name)


SIBLINGS = typed.LetRef(span=SPAN, type=Type(Kind.PODS, Shape.POD), name="siblings")
OVER_PODS = ("first", "second")
SHARED = typed.LetRef(span=SPAN, type=NUMBER, name="shared")


@st.composite
def aggregates(draw: st.DrawFn, of_pods: Expressions) -> typed.Expr:
    """A count, sum, average or extreme over the selection of the policy."""
    reduction = draw(st.sampled_from(list(typed.Reduction)))
    per, key = draw(st.sampled_from(EXTENTS))
    value = None if reduction is typed.Reduction.COUNT else draw(of_pods.numbers)
    return typed.Aggregate(span=SPAN, type=NUMBER, reduction=reduction, selection=SIBLINGS, value=value, per=per, topology_key=key)


EXTENTS = [(typed.Per.NODE, None), (typed.Per.DOMAIN, ZONE), (typed.Per.DOMAIN, HOSTNAME), (typed.Per.CLUSTER, None)]


CLOCK = {
    Kind.NUMBER: [call("time_of_day", text(zone)) for zone in ("UTC", "Asia/Kathmandu")],
    Kind.STRING: [call("weekday", text("America/New_York"), type_=STRING), text("wed")],
}
THE_NODE = typed.SubjectRef(span=SPAN, type=Type(Kind.NODE, Shape.NODE), subject=Subject.NODE)
THE_POD = typed.SubjectRef(span=SPAN, type=Type(Kind.POD, Shape.POD), subject=Subject.POD)


def reading_the_cluster() -> dict[Kind, list[typed.Expr]]:
    """Values that read more of the cluster than one attribute."""
    return {
        Kind.NUMBER: numbers_of_the_cluster(),
        Kind.STRING: [*(call("taint_value", THE_NODE, text(key), type_=STRING) for key in ("spot", "old")), *CLOCK[Kind.STRING]],
        Kind.BOOL: [
            call("has_taint", THE_NODE, text("old"), type_=BOOL),
            call("has_taint", THE_NODE, text("spot:NoSchedule"), type_=BOOL),
            call("node_affinity_matches", THE_POD, type_=BOOL),
        ],
    }


def numbers_of_the_cluster() -> list[typed.Expr]:
    """Numbers that read more of the cluster than one attribute."""
    load = typed.MetricRef(span=SPAN, type=NUMBER, name="load")
    return [
        param("limit"),
        load,
        *(typed.LetRef(span=SPAN, type=NUMBER, name=name) for name in OVER_PODS),
        call("spread", SIBLINGS, text(ZONE)),
        call("least_allocated"),
        call("most_allocated", text(GPU), cpu=const(1.0, Kind.NUMBER)),
        call("balanced_allocation", text("cpu"), text("memory"), text(GPU)),
        call("share_after", text("memory")),
        call("share_after", text(GPU)),
        call("taints", THE_NODE, text("PreferNoSchedule")),
        call("untolerated_taints", THE_POD, THE_NODE, text("")),
        call("untolerated_taints", THE_POD, THE_NODE, text("NoSchedule")),
        call("image_bytes_present"),
        call("unseen_requests.cpu", load),
        call("age", attribute(Subject.NODE, "created")),
        call("age", attribute(Subject.POD, "created")),
        *CLOCK[Kind.NUMBER],
    ]


OF_PODS = [Expressions((Subject.POD, Subject.ITEM), depth, CLOCK) for depth in range(3)]
OF_THE_POD = Expressions((Subject.POD,), 2, CLOCK, cluster=False)
FOR_LETS = Expressions((Subject.POD, Subject.NODE), 1, reading_the_cluster())
OF_RULES = {**reading_the_cluster(), Kind.NUMBER: [*numbers_of_the_cluster(), SHARED]}
OF_NODES = [Expressions((Subject.POD, Subject.NODE), depth, OF_RULES) for depth in range(1, 4)]


AUTHORITIES = (CLUSTER, CLUSTER, Authority("web"), Authority("default"), Authority("web", TenantPolicies.TRUSTED))


@st.composite
def policies(draw: st.DrawFn) -> typed.Policy:
    """A policy with a selection, a metric, two params, lets, filters, scores and a tie break."""
    of_pods, of_nodes = draw(st.sampled_from(OF_PODS)), draw(st.sampled_from(OF_NODES))
    where = draw(st.one_of(st.none(), of_pods.bools))
    lets = {
        "siblings": typed.Select(span=SPAN, type=SIBLINGS.type, where=where),
        **{name: draw(aggregates(of_pods)) for name in OVER_PODS},
        "shared": draw(FOR_LETS.numbers),
    }
    return typed.Policy(
        name="random",
        version=None,
        source=SOURCE,
        imports=(),
        annotations={},
        scope=draw(st.one_of(st.none(), OF_THE_POD.bools)),
        params=(
            typed.Param(name="limit", span=SPAN, type=Type(Kind.NUMBER), default=1.0, low=0.0, high=10.0),
            typed.Param(name="names", span=SPAN, type=Type(Kind.SET, element=Kind.STRING), default=frozenset(), low=None, high=None),
        ),
        lets=tuple(typed.Let(name=name, span=SPAN, value=value) for name, value in lets.items()),
        metrics=(METRIC,),
        filters=tuple(draw(st.lists(filters(of_nodes), min_size=1, max_size=2))),
        scores=tuple(draw(st.lists(scores(of_nodes), min_size=1, max_size=2))),
        base=(),
        quantum={},
        tie_break=(
            typed.TieKey(value=draw(of_nodes.numbers), descending=draw(st.booleans())),
            typed.TieKey(value=draw(st.one_of(of_nodes.texts, of_nodes.versions)), descending=draw(st.booleans())),
        ),
        tests=(),
        authority=draw(st.sampled_from(AUTHORITIES)),
    )


@st.composite
def clauses(draw: st.DrawFn, of: Expressions) -> typed.Clause:
    """One requirement."""
    message = typed.Message(parts=("no: ", draw(of.numbers)))
    return typed.Clause(span=SPAN, condition=draw(of.bools), message=message, missing_passes=draw(st.booleans()))


@st.composite
def filters(draw: st.DrawFn, of: Expressions) -> typed.Filter:
    """A filter of one or two clauses."""
    found = tuple(draw(st.lists(clauses(of), min_size=1, max_size=2)))
    return typed.Filter(name="filter", span=SPAN, when=draw(st.one_of(st.none(), of.bools)), clauses=found)


@st.composite
def scores(draw: st.DrawFn, of: Expressions) -> typed.Score:
    """A score."""
    return typed.Score(
        name="score",
        span=SPAN,
        tier=1,
        weight=const(1.0, Kind.NUMBER),
        when=draw(st.one_of(st.none(), of.bools)),
        value=draw(of.numbers),
        normalize=draw(st.sampled_from(list(Normalize))),
        min_spread=None,
        on_missing=MissingAction.NEUTRAL,
        missing_points=None,
    )
