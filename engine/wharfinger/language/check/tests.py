"""Checks `test` blocks: all names of nodes, pods, rules, params and metrics exist, and each test has an expectation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from wharfinger.language import ast, test_steps
from wharfinger.language.check.context import Context, constant, infer, is_unknown, type_text
from wharfinger.language.check.expressions.values import assignable, unit_help
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Label, Span
from wharfinger.language.report.wording import closest, listed
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.selector import key_fault
from wharfinger.language.semantics.types import PLAIN, Kind, Type
from wharfinger.language.test_steps import ABOUT_PODS, DEVICE_FIELDS, FIELDS, Expectation, Field, Form, Many, ObjectKind

_TAINT = re.compile(r"[^=:\s]+(=[^:\s]*)?:(NoSchedule|PreferNoSchedule|NoExecute)")
_KINDS = {Form.TEXT: Kind.STRING, Form.TAINT: Kind.STRING, Form.TRUTH: Kind.BOOL, Form.WHOLE: Kind.COUNT, Form.DURATION: Kind.DURATION}
_RESOURCE_KINDS = {"cpu": Kind.CPU, "memory": Kind.MEMORY, "ephemeral_storage": Kind.MEMORY, "ephemeral-storage": Kind.MEMORY}


def check_fields(context: Context, kind: ObjectKind, fields: tuple[ast.ObjectField, ...]) -> None:
    """Report the fields of a test object that do not exist and the values that do not fit."""
    known = FIELDS[kind]
    for given in fields:
        field = known.get(given.name)
        if field is None:
            _unknown_field(context, kind, given)
        else:
            _check_value(context, given, field)


def _unknown_field(context: Context, kind: ObjectKind, given: ast.ObjectField) -> None:
    known = FIELDS[kind]
    near = context.closest(given.name, known)
    help_ = f"did you mean `{near}`?" if near else f"its fields are {listed(known, limit=20)}"
    if "/" in given.name or given.name in _RESOURCE_KINDS:
        inside = "resources" if kind is ObjectKind.NODE else "requests"
        key = given.name if given.name.isidentifier() else f'"{given.name}"'
        help_ = f"resources are written in `{inside}: {{ {key}: … }}`"
    whole, _, part = given.name.partition("_")
    if part and whole in known and known[whole].many is Many.BY_KEY and part in (known[whole].keys or {part}):
        near, help_ = None, f"did you mean `{whole}: {{ {part}: … }}`?"
    message = f"a {kind.value} of a test has no field `{given.name}`"
    context.error(Code.P703, message, name_span(given), label="unknown field", help=help_, suggestion=near)


def name_span(given: ast.ObjectField) -> Span:
    """The position of the name of a field."""
    start = given.span.start
    quotes = 2 if given.span.text[:1] in ('"', "'") else 0
    return Span(given.span.source, start, start + len(given.name) + quotes)


def _check_value(context: Context, given: ast.ObjectField, field: Field) -> None:
    if field.many is Many.BY_KEY:
        _check_keys(context, given, field)
    elif field.many is Many.DEVICES:
        _check_devices(context, given)
    elif isinstance(given.value, tuple):
        _misfit(context, given, f"`{given.name}` is {_expected_form(field)}")
    elif field.many is Many.ONE:
        _check_one(context, given.name, given.value, field)
    elif isinstance(given.value, ast.SetLiteral):
        for item in given.value.items:
            _check_one(context, given.name, item, field)
    else:
        _misfit(context, given, f"`{given.name}` is a list", f"write `{given.name}: [{given.value.span.text}]`")


def _check_devices(context: Context, given: ast.ObjectField) -> None:
    items = given.value.items if isinstance(given.value, ast.SetLiteral) else None
    if items is None or not all(isinstance(item, ast.ObjectLiteral) for item in items):
        example = '`devices: [{ count: 8, attributes: { model: "A100" } }]`'
        _misfit(context, given, f"`{given.name}` is a list of devices in braces", f"for example {example}")
        return
    for item in items:
        for inner in item.fields if isinstance(item, ast.ObjectLiteral) else ():
            known = DEVICE_FIELDS.get(inner.name)
            if known is None:
                near = context.closest(inner.name, DEVICE_FIELDS)
                help_ = f"did you mean `{near}`?" if near else f"its fields are {listed(DEVICE_FIELDS, limit=20)}"
                message = f"a device of a test has no field `{inner.name}`"
                context.error(Code.P703, message, name_span(inner), label="unknown field", help=help_, suggestion=near)
            else:
                _check_value(context, inner, known)


def _check_keys(context: Context, given: ast.ObjectField, field: Field) -> None:
    if not isinstance(given.value, tuple):
        pairs = ", ".join(f"{key}: …" for key in sorted(field.keys)) or f"key: {given.value.span.text}"
        _misfit(context, given, f"`{given.name}` has keys", f"write `{given.name}: {{ {pairs} }}`")
        return
    for inner in given.value:
        if field.keys and inner.name not in field.keys:
            near = context.closest(inner.name, field.keys)
            help_ = f"did you mean `{near}`?" if near else f"its keys are {listed(field.keys)}"
            context.error(Code.P703, f"`{given.name}` has no `{inner.name}`", name_span(inner), label="unknown field", help=help_)
        elif isinstance(inner.value, tuple):
            _misfit(context, inner, f"`{inner.name}` is {_expected_form(field)}")
        else:
            _check_one(context, inner.name, inner.value, field)


def _misfit(context: Context, given: ast.ObjectField, message: str, help_: str | None = None) -> None:
    value = given.value
    span = value.span if isinstance(value, ast.Expr) else given.span
    context.error(Code.P706, message, span, label="does not fit", help=help_)


def _expected_form(field: Field) -> str:
    return f"a list; each is {field.form.value}" if field.many is Many.LIST else field.form.value


def _check_one(context: Context, name: str, value: ast.Expr, field: Field) -> None:
    if not is_literal(value):
        infer(context.at(constant("a test object")), value)
        context.error(Code.P706, f"`{name}` is written out", value.span, label="not a literal")
        return
    found = infer(context.at(constant("a test object")), value)
    if not isinstance(found, typed.Const) or is_unknown(found):
        return
    if fault := _fault(name, found, field):
        message, help_ = fault
        context.error(Code.P706, message, value.span, label=type_text(found.type), help=help_)


def is_literal(value: ast.Expr) -> bool:
    """True for a number (perhaps negative), a text, a bool, or a list of them."""
    if isinstance(value, ast.SetLiteral):
        return all(is_literal(item) and not isinstance(item, ast.SetLiteral) for item in value.items)
    inner = value.operand if isinstance(value, ast.Unary) and value.op is ast.UnaryOp.MINUS else value
    return isinstance(inner, ast.Number) or (inner is value and isinstance(inner, (ast.String, ast.Boolean)))


def _fault(name: str, found: typed.Const, field: Field) -> tuple[str, str | None] | None:
    """The error in a value, with a help to fix it; None if it fits."""
    kind, text = found.type.kind, found.span.text
    if field.form is Form.AMOUNT:
        return _amount_fault(name, found)
    if field.form is Form.ATTRIBUTE:
        fits = kind in {Kind.STRING, Kind.BOOL, Kind.COUNT}
        return None if fits else (f"`{name}` is {field.form.value}, not {type_text(found.type)}", None)
    wanted = _KINDS[field.form]
    if kind is not wanted:
        help_ = f'write it in quotes: `"{text}"`' if wanted is Kind.STRING else None
        return f"`{name}` is {field.form.value}, not {type_text(found.type)}", help_
    return _value_fault(name, found, field)


def _value_fault(name: str, found: typed.Const, field: Field) -> tuple[str, str | None] | None:
    """The error in a value of the right type."""
    if field.form is Form.DURATION and not 0 <= found.value <= MAX_AGE:
        return f"`{name}` is 0s or more, and {MAX_AGE // SECONDS_PER_DAY:,} days at most", "for example `1h`"
    if field.form is Form.TAINT and not _TAINT.fullmatch(found.value):
        return f"`{name}`: {field.form.value}", 'for example `"dedicated=gpu:NoSchedule"`'
    if field.choices and found.value not in field.choices:
        near = closest(found.value, field.choices)
        return f"`{name}` is one of {listed(field.choices)}", f"did you mean `{near}`?" if near else None
    return None


def _amount_fault(name: str, found: typed.Const) -> tuple[str, str | None] | None:
    kind = found.type.kind
    wanted = _RESOURCE_KINDS.get(name)
    plain = kind in (Kind.COUNT, Kind.NUMBER)
    fits = plain or kind is wanted or (wanted is None and kind is Kind.MEMORY)
    if fits and found.value >= 0:
        return None
    if fits:
        return f"`{name}` is 0 or more", None
    example = {Kind.CPU: "for example `4cpu` or `500m`", Kind.MEMORY: "for example `16Gi`"}.get(wanted or Kind.COUNT)
    return f"`{name}` is {wanted.value if wanted else 'a number'}, not {type_text(found.type)}", example


SECONDS_PER_DAY = 86_400
MAX_AGE = 36_500 * SECONDS_PER_DAY  # seconds; the time of a test is 1970 or later, and dates begin with the year 1
MAX_QUESTIONS = 120_000  # of all tests together; a question takes about 8 µs. As many tests as a file may have (P008) can be small ones
TEST = 20  # questions that take as long as a test without steps
OBJECT = 10  # questions that take as long as to make a node or pod
DECISION = 100  # questions that take as long as a decision
NODE = 4  # questions that take as long as to keep a node as it was at a decision, for the expectations about it
PLACED = 1  # the same for a placed pod
EVICTING = 3  # decisions that take as long as one about a pod that evicts others
COMPILED = 100  # questions that take as long as to compile the policy with other params, and each of its operations
COMPILED_OPERATION = 9
PRIORITIES = frozenset({"priority", "priority_class"})
OPERATIONS = 16  # of rules that are evaluated in the time of one question
DEVICE = 5  # questions that take as long as to publish a device
PLACED_AMONG = 2  # questions that take as long as what a placed pod costs for each device of the nodes
MAX_BUILT_LENGTH = 2_000_000  # letters of the fields of all objects, as if nothing had been left to `like`


class Testable(msgspec.Struct, frozen=True, kw_only=True):
    """The names that tests can use: rules, params and metrics of the policy. `lost` names could not be read and are accepted.

    `operations` are those of all rules about one node, `of_pods` those about one placed pod.
    """

    __test__ = False

    filters: frozenset[str]
    scores: frozenset[str]
    operations: int
    of_pods: int
    params: Mapping[str, typed.Param]
    metrics: Mapping[str, typed.Metric]
    lost: frozenset[str]


def check_tests(context: Context, policy: Testable, tests: Sequence[ast.Test]) -> None:
    """Report everything that is wrong with some tests."""
    titles: dict[str, Span] = {}
    questions = built = 0.0
    params: set[frozenset[tuple[str, str]]] = {frozenset()}  # with which the policy is compiled
    for test in tests:
        built += _built(test)
        if built > MAX_BUILT_LENGTH:
            message = f"the objects of the tests up to this one have fields of more than {MAX_BUILT_LENGTH:,} letters together"
            help_ = "each object that is `like` another one has all of its fields; make fewer of them, or smaller ones"
            context.error(Code.P008, message, test.title.span, label="with this one it is too much", help=help_)
            return
        questions += _questions(policy, test)
        given = frozenset((step.name, step.value.span.text) for step in test.steps if isinstance(step, test_steps.Param))
        if given not in params:
            params.add(given)
            questions += COMPILED + COMPILED_OPERATION * policy.operations
        if questions > MAX_QUESTIONS:
            message = f"the tests up to this one ask the rules more than {MAX_QUESTIONS:,} questions"
            help_ = (
                "each `place` asks every rule about every node, and looks at every placed pod and device; place fewer pods, on fewer nodes "
                "or devices"
            )
            context.error(Code.P008, message, test.title.span, label="with this one it is too much", help=help_)
            return
        title = test.title.value
        if title in titles:
            others = (Label(titles[title], "first used here"),) if titles[title].source is test.title.span.source else ()
            context.error(Code.P705, f"there is already a test `{title}`", test.title.span, label="used again", others=others)
        titles.setdefault(title, test.title.span)
        _Script(context=context, policy=policy).check(test)


def _questions(policy: Testable, test: ast.Test) -> float:
    """The number of evaluations that a test needs.

    For each pod that it places (any may be of a group): a decision, a copy of the nodes and placed pods for the expectations about it,
    every rule asked about every node, and every selection about every pod. For each expectation, every rule asked about a node; about all
    nodes where a message of any of them is looked for. Each device is published, and looked at for each pod that is placed or runs.
    """
    places = sum(isinstance(step, test_steps.Place) for step in test.steps)
    pods = sum(isinstance(step, test_steps.Object) and step.kind is test_steps.ObjectKind.POD for step in test.steps)
    running = sum(isinstance(step, test_steps.Running) for step in test.steps)
    groups = sum(isinstance(step, test_steps.PlaceGroup) for step in test.steps)
    places += pods * groups
    nodes = sum(isinstance(step, test_steps.Object) and step.kind is test_steps.ObjectKind.NODE for step in test.steps)
    about_node = max(len(policy.filters) + len(policy.scores), policy.operations // OPERATIONS)
    about_pods = (pods + running) * policy.of_pods // OPERATIONS
    expected = sum(nodes if step.message is not None else 1 for step in test.steps if isinstance(step, test_steps.Expect))
    devices = _devices(test)
    of_devices = devices * (DEVICE + PLACED_AMONG * places + running)
    copied = nodes * NODE + (running + places / 2) * PLACED
    made = TEST + (nodes + pods + running) * OBJECT
    decisions = EVICTING * places if _has_priorities(test) else places
    return made + decisions * (DECISION + copied + nodes * about_node + about_pods) + expected * about_node + of_devices


def _has_priorities(test: ast.Test) -> bool:
    """True if pods have priorities: then one may evict others."""
    objects = (step for step in test.steps if isinstance(step, test_steps.Object | test_steps.Running))
    return any(field.name in PRIORITIES for step in objects for field in step.fields)


def _devices(test: ast.Test) -> float:
    """The number of devices of all nodes of a test, including those taken over by `like`."""
    of_node: dict[str, float] = {}
    for step in test.steps:
        if isinstance(step, test_steps.Object) and step.kind is test_steps.ObjectKind.NODE:
            own = [sum(map(_how_many, items)) for field in step.fields if (items := _device_items(field))]
            of_node[step.name] = own[-1] if own else of_node.get(step.like or "", 0)
    return sum(of_node.values())


def _device_items(field: ast.ObjectField) -> tuple[ast.Expr, ...]:
    """The descriptions in the field `devices` of a node; none for another field."""
    return field.value.items if field.name == "devices" and isinstance(field.value, ast.SetLiteral) else ()


def _how_many(item: ast.Expr) -> float:
    """The number of devices that a description makes: its `count`, or 1."""
    fields = item.fields if isinstance(item, ast.ObjectLiteral) else ()
    counts = [float(f.value.digits) for f in fields if f.name == "count" and isinstance(f.value, ast.Number)]
    return max(counts, default=1.0)


def _built(test: ast.Test) -> float:
    """The number of characters in the fields of a test's objects, including the fields taken over by `like`, and of each device."""
    letters: dict[str, float] = {}
    total = 0.0
    for step in test.steps:
        if isinstance(step, test_steps.Object | test_steps.Running):
            own = sum(map(_letters, step.fields))
            letters[step.name] = own + (letters.get(step.like, 0) if step.like is not None else 0)
            total += letters[step.name]
    return total


def _letters(field: ast.ObjectField) -> float:
    """The number of characters in a field; each description of devices counts once for each device that it makes."""
    more = sum((_how_many(item) - 1) * (item.span.end - item.span.start) for item in _device_items(field))
    return field.span.end - field.span.start + max(more, 0)


class _Script(msgspec.Struct, kw_only=True):
    """A test while its steps are read in order."""

    context: Context
    policy: Testable
    nodes: dict[str, Span] = msgspec.field(default_factory=dict)
    pods: dict[str, Span] = msgspec.field(default_factory=dict)
    running: set[str] = msgspec.field(default_factory=set)
    placed: set[str] = msgspec.field(default_factory=set)
    groups: set[str] = msgspec.field(default_factory=set)
    now: datetime = datetime(1, 1, 2, tzinfo=UTC)
    unsure: bool = False  # a `place` before names an unknown pod, or a group: it is not known which pods are placed

    def check(self, test: ast.Test) -> None:
        for step in test.steps:
            _STEPS[type(step)](self, step)
        what = "places no pod" if not any(isinstance(s, test_steps.Place | test_steps.PlaceGroup) for s in test.steps) else None
        if what is None and not any(isinstance(s, test_steps.Expect | test_steps.ExpectGroup) for s in test.steps):
            what = "expects nothing"
        if what is not None:
            help_ = "add `place POD` and a line such as `expect POD on NODE`"
            self.context.error(Code.P704, f"this test {what}", test.title.span, label="would always pass", help=help_)

    # ── objects ──

    def _object(self, step: test_steps.Object) -> None:
        names = self.nodes if step.kind is test_steps.ObjectKind.NODE else self.pods
        self._declare(names, step.kind.value, step.name, step.name_span, step.like, step.like_span)
        check_fields(self.context, step.kind, step.fields)

    def _running(self, step: test_steps.Running) -> None:
        self._declare(self.pods, "pod", step.name, step.name_span, step.like, step.like_span)
        self.running.add(step.name)
        self._node(step.node, step.node_span)
        check_fields(self.context, test_steps.ObjectKind.POD, step.fields)

    def _declare(  # noqa: PLR0913, PLR0917  # the parts of one line of a test
        self, names: dict[str, Span], what: str, name: str, span: Span, like: str | None, like_span: Span | None
    ) -> None:
        if like is not None and like_span is not None:
            self._known(names, what, like, like_span)
        if name in names:
            others = (Label(names[name], "first declared here"),)
            self.context.error(Code.P705, f"there is already a {what} `{name}` in this test", span, label="declared again", others=others)
        names.setdefault(name, span)

    def _known(self, names: Iterable[str], what: str, name: str, span: Span) -> bool:
        if name in names:
            return True
        near = self.context.closest(name, names)
        help_ = f"did you mean `{near}`?" if near else f"declare it above: `{what} {name} {{ … }}`"
        other = self.nodes if what == "pod" else self.pods
        if name in other:
            help_ = f"`{name}` is a {'node' if what == 'pod' else 'pod'}"
        self.context.error(Code.P701, f"this test has no {what} `{name}`", span, label=f"unknown {what}", help=help_, suggestion=near)
        return False

    def _node(self, name: str, span: Span) -> None:
        self._known(self.nodes, "node", name, span)

    # ── params and metrics ──

    def _param(self, step: test_steps.Param) -> None:
        param = self.policy.params.get(step.name)
        if param is None:
            self._undeclared("param", step.name, step.name_span, self.policy.params)
            self._value(step.value, None, step.name)
            return
        value = self._value(step.value, param.type, step.name)
        if value is None or not isinstance(value, (int, float)):
            return
        if (param.low is not None and value < param.low) or (param.high is not None and value > param.high):
            others = (Label(param.span, "its range is declared here"),) if param.span.source is step.span.source else ()
            self.context.error(
                Code.P706, f"this is outside the range of `{step.name}`", step.value.span, label="not in the range", others=others
            )

    def _metric(self, step: test_steps.Metric) -> None:
        metric = self.policy.metrics.get(step.name)
        if metric is None:
            self._undeclared("metric", step.name, step.name_span, self.policy.metrics)
        for node, span in step.nodes:
            self._node(node, span)
        for value in step.values:
            self._value(value, metric.type if metric else None, step.name)
        for age in step.ages:
            if age is not None:
                self._value(age, Type(Kind.DURATION), "age")

    def _undeclared(self, what: str, name: str, span: Span, known: Iterable[str]) -> None:
        if name in self.policy.lost:
            return
        near = self.context.closest(name, known)
        help_ = f"did you mean `{near}`?" if near else f"it has {listed(known)}" if list(known) else f"it has no {what}s"
        self.context.error(Code.P707, f"the policy has no {what} `{name}`", span, label=f"unknown {what}", help=help_, suggestion=near)

    def _value(self, expr: ast.Expr, wanted: Type | None, name: str) -> Any:
        """The value of a literal of the wanted type, or None after reporting an error."""
        found = infer(self.context.at(constant("a value in a test")), expr)
        if is_unknown(found):
            return None
        if not is_literal(expr) or not isinstance(found, typed.Const):
            self.context.error(Code.P706, f"`{name}` is written out", expr.span, label="not a literal")
            return None
        if wanted is not None and not assignable(found.type, wanted):
            message = f"`{name}` is {wanted.present()}, not {type_text(found.type)}"
            help_ = unit_help(wanted.kind, found)
            self.context.error(Code.P706, message, expr.span, label=type_text(found.type), help=help_)
            return None
        return found.value

    # ── what happens ──

    def _at(self, step: test_steps.At) -> None:
        time = step.time
        if time is None:
            years = f" and a year of {test_steps.YEARS.start} to {test_steps.YEARS.stop - 1}"
            message, help_ = f"{step.text.value!r} is no time with a time zone{years}", 'for example `at "2026-03-29T01:30:00Z"`'
            self.context.error(Code.P706, message, step.text.span, label="not a time", help=help_)
        elif time < self.now:
            message = f"time does not go back: it is {self.now.isoformat()} already"
            self.context.error(Code.P706, message, step.text.span, label="earlier")
        else:
            self.now = time

    def _place(self, step: test_steps.Place) -> None:
        known = self._known(self.pods, "pod", step.pod, step.pod_span)
        if known and step.pod in self.running | self.placed:
            why = "is already running" if step.pod in self.running else "is already placed"
            help_ = f"declare another one: `pod other like {step.pod}`"
            self.context.error(Code.P705, f"`{step.pod}` {why}", step.pod_span, label="cannot be placed again", help=help_)
        self.unsure = self.unsure or not known
        self.placed.add(step.pod)

    def _place_group(self, step: test_steps.PlaceGroup) -> None:
        self.unsure = True  # which pods are in the group is known once the test runs
        self.groups.add(step.group)

    def _expect_group(self, step: test_steps.ExpectGroup) -> None:
        if step.group not in self.groups:
            near = self.context.closest(step.group, self.groups)
            help_ = f"did you mean `{near}`?" if near else f"add `place group {step.group}` above"
            message = f"the group `{step.group}` has not been placed yet"
            self.context.error(Code.P708, message, step.group_span, label="not placed", help=help_, suggestion=near)
        if step.key is not None and (fault := key_fault(step.key.value)):
            self.context.error(Code.P310, f"no node can have this label key: {fault}", step.key.span, label="not a key")

    def _expect(self, step: test_steps.Expect) -> None:
        about_pod = step.expectation in ABOUT_PODS
        pod, span = (step.subject, step.subject_span) if about_pod else (step.pod, step.pod_span)
        if step.expectation in _ABOUT_VICTIMS:
            self._on_a_node(step.subject, step.subject_span)
        elif not about_pod:
            self._node(step.subject, step.subject_span)
        if pod is not None and span is not None:
            self._placed(pod, span)
        elif not self.placed and not self.groups:
            message = "nothing has been placed yet"
            self.context.error(Code.P708, message, step.subject_span, label="before any `place`", help="move it behind the `place`")
        for node, at in step.nodes:
            self._node(node, at)
        self._rule(step)
        if step.points is not None:
            self._points(step.points)

    def _on_a_node(self, pod: str, span: Span) -> None:
        """Report a pod that is on no node: it is never evicted, and a test that expects it to stay would always pass."""
        if self._known(self.pods, "pod", pod, span) and pod not in self.running | self.placed and not self.unsure:
            help_ = f"`running {pod} on NODE` puts it on a node"
            self.context.error(Code.P708, f"`{pod}` is on no node", span, label="not running", help=help_)

    def _placed(self, pod: str, span: Span) -> None:
        if self._known(self.pods, "pod", pod, span) and pod not in self.placed and not self.unsure:
            help_ = (
                f"add `place {pod}` above" if pod not in self.running else "it is running from the start; expect something of a placed pod"
            )
            self.context.error(Code.P708, f"`{pod}` has not been placed yet", span, label="not placed", help=help_)

    def _rule(self, step: test_steps.Expect) -> None:
        if step.rule is None or step.rule_span is None or step.rule in self.policy.lost:
            return
        scores = step.expectation is Expectation.SCORE
        known, others = (self.policy.scores, self.policy.filters) if scores else (self.policy.filters, self.policy.scores)
        plugin = self.context.catalogue.plugins().get(step.rule)
        if step.rule in known or (not scores and plugin is not None and plugin.is_filter):
            return
        what = "score" if scores else "filter"
        near = self.context.closest(step.rule, known)
        help_ = f"did you mean `{near}`?" if near else f"its {what}s are {listed(known)}" if known else f"it has no {what}s"
        if step.rule in others:
            help_ = f"`{step.rule}` is a {'filter' if scores else 'score'}"
        self.context.error(
            Code.P702, f"the policy has no {what} `{step.rule}`", step.rule_span, label=f"unknown {what}", help=help_, suggestion=near
        )

    def _points(self, expr: ast.Expr) -> None:
        found = infer(self.context.at(constant("points in a test")), expr)
        if is_unknown(found):
            return
        if found.type.kind not in PLAIN or not is_literal(expr):
            text = type_text(found.type) if found.type.kind not in PLAIN else "a calculation"
            self.context.error(Code.P706, f"points are a plain number, not {text}", expr.span, label=text)


_ABOUT_VICTIMS = frozenset({Expectation.EVICTED, Expectation.NOT_EVICTED})
_STEPS: Mapping[type[ast.TestStep], Callable[[_Script, Any], None]] = {
    test_steps.Object: _Script._object,  # noqa: SLF001  # the table is part of the class
    test_steps.Running: _Script._running,  # noqa: SLF001  # as above
    test_steps.Metric: _Script._metric,  # noqa: SLF001  # as above
    test_steps.Param: _Script._param,  # noqa: SLF001  # as above
    test_steps.At: _Script._at,  # noqa: SLF001  # as above
    test_steps.Place: _Script._place,  # noqa: SLF001  # as above
    test_steps.PlaceGroup: _Script._place_group,  # noqa: SLF001  # as above
    test_steps.Expect: _Script._expect,  # noqa: SLF001  # as above
    test_steps.ExpectGroup: _Script._expect_group,  # noqa: SLF001  # as above
}
