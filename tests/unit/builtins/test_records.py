"""The records of builtins have what the reference page and the checker need, and it is correct."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.load_source import load_source
from wharfinger.builtins import CATALOGUE
from wharfinger.builtins.catalogue import PLUGINS
from wharfinger.builtins.nodes import pattern_fault, pattern_of, tolerates
from wharfinger.builtins.texts import hash_of, regex_fault
from wharfinger.framework import extension, registry
from wharfinger.language.report.diagnostics import Diagnostics, Source
from wharfinger.language.semantics import bounds
from wharfinger.language.semantics.bounds import Interval
from wharfinger.language.semantics.catalogue import Function, PluginRecord, Subject
from wharfinger.language.semantics.types import NUMERIC, Kind, Shape
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView

FUNCTIONS = CATALOGUE.functions()
EXAMPLE = """
policy "example"
metric load: percent = prometheus('q', node: "instance", refresh: 15s, max_age: 2min, min_coverage: 0%)
workload typical = [{{ cpu: 4cpu, gpu: 1 }}]
let example = {example}
prefer uses = has(example)
"""
OF_DEVICES = EXAMPLE.partition("let example")[0] + "prefer device uses = {example}\n"


def name_of(function: Function) -> str:
    return function.name


@pytest.mark.parametrize("function", FUNCTIONS, ids=name_of)
def test_example_compiles(function: Function) -> None:
    found = Diagnostics()
    written = OF_DEVICES if function.result(()).shape is Shape.DEVICE else EXAMPLE
    load_source(Source(name=f"{function.name}.policy", text=written.format(example=function.example)), CATALOGUE, found)
    assert not found.has_errors, [d.message for d in found]
    assert function.name.split(".")[0] in function.example


@pytest.mark.parametrize("function", FUNCTIONS, ids=name_of)
def test_every_function_has_a_sentence_about_its_result(function: Function) -> None:
    assert function.doc.endswith(".")
    assert not function.doc.startswith(("This", "Returns"))


INTERVALS = [f for f in FUNCTIONS if f.interval and not f.context and all(p.kinds & NUMERIC and not p.literal for p in f.parameters)]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ((1.0, 4.0), (2.0, 4.0), (0.25, 2.0)),
        ((-1.0, 4.0), (-4.0, -2.0), (-2.0, 0.5)),
        ((0.0, 4.0), (0.0, 2.0), (0.0, math.inf)),
        ((1.0, 4.0), (-2.0, 0.0), (-math.inf, -0.5)),
        ((1.0, math.inf), (2.0, math.inf), (0.0, math.inf)),
        ((-1.0, 1.0), (-1.0, 1.0), (-math.inf, math.inf)),
        ((-1.0, -1e-205), (-5e-324, 0.0), (1e-205 / 5e-324, math.inf)),  # the inverse of the smallest number is beyond float64
        ((1e-205, 1.0), (5e-324, 5e-324), (1e-205 / 5e-324, math.inf)),
    ],
)
def test_interval_of_a_quotient(a: Interval, b: Interval, expected: Interval) -> None:
    assert bounds.quotient(a, b) == expected


@pytest.mark.parametrize("function", INTERVALS, ids=name_of)
def test_interval_holds_every_value(function: Function) -> None:
    bound = st.one_of(st.integers(-3, 3).map(float), st.floats(-1e6, 1e6).map(lambda x: x + 0.0))  # 0.0 and -0.0 are no interval

    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        intervals = [tuple(sorted(data.draw(st.tuples(bound, bound)))) for _ in function.parameters]
        low, high = function.interval(*intervals)  # type: ignore[misc]  # INTERVALS have one
        arguments = [data.draw(st.floats(*interval)) for interval in intervals]
        value = function.scalar(*arguments)
        assert value is None or low <= value <= high or math.isclose(value, low) or math.isclose(value, high), (intervals, arguments)

    holds()


@pytest.mark.parametrize("function", INTERVALS, ids=name_of)
def test_interval_of_unbounded_arguments(function: Function) -> None:
    low, high = function.interval(*[(-math.inf, math.inf)] * len(function.parameters))  # type: ignore[misc]  # INTERVALS have one
    assert not math.isnan(low)
    assert not math.isnan(high)
    assert low <= high


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        ("^a+$", None),
        ("(", "not a regular expression"),
        (r"\1", "not a regular expression"),
        ("((a{100}){100}){100}", "too costly"),
        ("a{500}b{500}" * 5, "too costly"),
    ],
)
def test_a_pattern_that_re2_refuses_or_that_costs_too_much_is_refused(pattern: str, fault: str | None) -> None:
    found = regex_fault(pattern)
    assert (found is None) if fault is None else (found or "").startswith(fault)


TOLERATIONS = [
    ({"key": "gpu", "operator": "Exists"}, "gpu=yes:NoSchedule", True),
    ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, "gpu:NoSchedule", False),
    ({"key": "gpu", "value": "yes"}, "gpu=yes:NoSchedule", True),
    ({"key": "gpu", "value": "no"}, "gpu=yes:NoSchedule", False),
    ({"operator": "Exists"}, "anything=x:NoExecute", True),
    ({"key": "gpu"}, "gpu:NoSchedule", True),
]


@pytest.mark.parametrize(("toleration", "taint", "wanted"), TOLERATIONS)
def test_tolerates_follows_the_rules_of_kubernetes(toleration: dict[str, str], taint: str, wanted: bool) -> None:
    spec = objects.PodSpec(tolerations=(objects.Toleration(**toleration),))
    assert tolerates(PodView(objects.Pod(metadata=objects.ObjectMeta(name="p"), spec=spec)), taint) is wanted


HASHES = [
    ("", 0xE3B0C44298FC1 / 16**13),  # the digits are those of `printf … | sha256sum`
    ("web", 0x4B5E57F6EB2F4 / 16**13),
    ("é漢", 0x3BA0CFB6375EC / 16**13),
]


@pytest.mark.parametrize(("text", "wanted"), HASHES)
def test_hash_is_the_same_everywhere(text: str, wanted: float) -> None:
    assert hash_of(text) == wanted


def test_hash_is_spread_evenly() -> None:
    """Chi-squared over 100 buckets of names as ReplicaSets have them: below the 99.9 % quantile of 99 degrees of freedom."""
    n, buckets = 20_000, [0] * 100
    for number in range(n):
        buckets[int(hash_of(f"web-{number}") * 100)] += 1
    assert sum((found - n / 100) ** 2 / (n / 100) for found in buckets) < 148.2


PATTERNS = [
    ("dedicated", None),
    ("dedicated:NoSchedule", None),
    ("dedicated=gpu", None),
    ("example.com/dedicated=gpu:NoExecute", None),
    ("dedicated=:NoExecute", None),
    ("", "not a taint"),
    (":NoSchedule", "not a taint"),
    ("=gpu", "not a taint"),
    ("a b", "not a taint"),
    ("dedicated=gpu=x", "not a taint"),
    ("dedicated=g p", "no taint can have the value"),
    ("dedicated:", "not a taint effect"),
    ("dedicated:NoShedule", "Did you mean NoSchedule?"),
]


@pytest.mark.parametrize(("pattern", "fault"), PATTERNS)
def test_a_text_that_can_match_no_taint_is_refused(pattern: str, fault: str | None) -> None:
    found = pattern_fault(pattern)
    assert found is None if fault is None else fault in (found or "")


MEANT = [
    ("dedicated", True),
    ("dedicated:NoSchedule", True),
    ("dedicated=gpu:NoSchedule", True),
    ("dedicated=gpu", True),
    ("dedicated=", False),
    ("dedicated=cpu", False),
    ("dedicated:NoExecute", False),
    ("dedicate", False),
]


@pytest.mark.parametrize(("pattern", "wanted"), MEANT)
def test_what_a_taint_pattern_leaves_out_may_be_anything(pattern: str, wanted: bool) -> None:
    assert pattern_of(pattern).matches(objects.Taint(key="dedicated", value="gpu", effect="NoSchedule")) is wanted


def test_plugins_are_those_of_the_framework() -> None:
    """The names, which of them filter, and of scores the default weight and the arguments that a policy may give."""
    short = {"NodeResourcesFit": {"strategy", "resources", "shape"}}  # a policy writes the inside of scoringStrategy
    found = {}
    for _, plugin in registry.built_in():
        filters, scores = issubclass(plugin, extension.FilterPlugin), issubclass(plugin, extension.ScorePlugin)
        arguments = short.get(plugin.name, set(plugin.arguments_model.__struct_encode_fields__))
        found[plugin.name] = PluginRecord(
            is_filter=filters,
            weight=plugin.default_weight if issubclass(plugin, extension.ScorePlugin) else None,
            arguments=frozenset(name for name in arguments if scores and name is not None),
        )
    assert found == {name: record for name, record in PLUGINS.items() if name != "DefaultBinder"}  # the scheduler binds without a plugin


def test_the_catalogue_finds_functions_and_attributes_by_name() -> None:
    assert CATALOGUE.function("ratio") is not None
    assert CATALOGUE.function("rotio") is None
    assert CATALOGUE.attribute(Subject.NODE, "free.cpu") is not None
    assert {a.subject for a in CATALOGUE.attributes(Subject.ITEM)} == {Subject.ITEM}
    assert Kind.CPU in {a.type.kind for a in CATALOGUE.attributes(Subject.NODE)}


def test_an_expression_is_matched_with_no_text_that_takes_long() -> None:
    function = CATALOGUE.function("matches_regex")
    assert function is not None
    costly = "((a{1,30}){1,30})"
    assert function.scalar("a" * 253, costly)  # the longest name
    assert not function.scalar("a" * 250_000, costly)
    assert function.scalar("a" * 250_000, "^a+$")
