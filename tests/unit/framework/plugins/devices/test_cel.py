"""Selectors of devices: their answers, and kube-scheduler's messages for errors."""

import gzip
import json
import re
from pathlib import Path

import pytest

from tests.work import calls
from wharfinger.framework.plugins.devices.cel import library, rewriting, selector
from wharfinger.framework.plugins.devices.cel.selector import DeviceTraits, Read, Selector, SelectorFailed, compiled, reads

DOMAIN = "gpu.example.com"
DEVICE = DeviceTraits(
    driver=DOMAIN,
    attributes={
        DOMAIN: {"index": 0, "model": "a100", "healthy": True, "version": library.semver_value("1.9.0")},
        "net": {"address": "10.1.2.3"},
    },
    capacity={DOMAIN: {"memory": library.quantity_value("40Gi")}},
    allow_multiple_allocations=False,
    key="a100",
)
GPU = f'device.attributes["{DOMAIN}"]'
MEMORY = f'device.capacity["{DOMAIN}"].memory'


def answer(expression, device=DEVICE):
    selector = compiled(expression)
    assert isinstance(selector, Selector), selector
    return selector.matches(device)


@pytest.mark.parametrize(
    "expression",
    [
        f'device.driver == "{DOMAIN}"',
        f'{GPU}.model in ["a100", "h100"] && {GPU}.index == 0',
        f'{GPU}["model"].matches("^[ah]100$")',
        f"has({GPU}.healthy) && !has({GPU}.numa)",
        f"{GPU}.?numa.orValue(3) == 3",
        f'cel.bind(gpu, {GPU}, gpu.model == "t4" || gpu.healthy)',
        f'{GPU}.exists(name, name == "index")',
        "!device.allowMultipleAllocations",
        f'{MEMORY}.compareTo(quantity("40960Mi")) == 0 && {MEMORY} == quantity("40Gi")',
        f'{MEMORY}.isGreaterThan(quantity("20Gi")) && {MEMORY}.isLessThan(quantity("1Ti"))',
        f"{MEMORY}.asInteger() == 42949672960 && {MEMORY}.sign() == 1",
        'quantity("50k").add(20).sub(quantity("100k")).sub(-50000) == quantity("20")',
        '!quantity("100m").isInteger() && quantity("100m").asApproximateFloat() < 0.2',
        'isQuantity("1.3Gi") && !isQuantity("200K")',
        f'{GPU}.version.compareTo(semver("1.10.0")) == -1 && {GPU}.version.minor() == 9',
        'semver("v01.1", true) == semver("1.1.0+build") && semver("1.0.0-rc.2").isLessThan(semver("1.0.0-rc.10"))',
        '!isSemver("v1.0") && isSemver("v1.0", true)',
        '"abc 123".find("[0-9]+") == "123" && "1 a 2".findAll("[0-9]", 1) == ["1"]',
        '[1, 3].sum() == 4 && [3, 1].min() == 1 && ["a", "b"].isSorted()',
        "sets.contains([1, 2], [2]) && sets.equivalent([1, 1], [1]) && !sets.intersects([1], [true])",
        "[1, [2]].flatten() == [1, 2] && [1, 1].distinct() == [1] && lists.range(3).slice(1, 2) == [1]",
        'cidr("10.0.0.0/8").containsIP(device.attributes["net"].address) && ip("::1").isLoopback()',
        '!("no-such-domain" in device.attributes)',
        '!has(device.attributes["no-such-domain"].x)',
        f'{GPU}.nothing == 1 || device.driver == "{DOMAIN}"',
        f'"1.9.0" != {GPU}.version && {GPU}.model != 1 && ({GPU}.index == 0)',
        f'{GPU}.version == semver("1.9.0") && {MEMORY} == {MEMORY} && {GPU}.index == {GPU}.index',
        f'{GPU}.model == "{GPU.replace(chr(34), chr(39))}.version == 1" ? false : true',
        f'{GPU}.model.includes("a100") && !{GPU}.model.includes(1) && ["a"].includes("a")',
        f'{GPU}.version != "1.9.0" && {MEMORY} != 1 && [1.5, 2.5].sum() == 4.0',
        'ip.isCanonical("::1") && !ip.isCanonical("0:0::1") && ip("8.8.8.8").isGlobalUnicast() && !ip("::1").isGlobalUnicast()',
        'ip("169.254.0.1").isLinkLocalUnicast() && ip("ff12::1").isLinkLocalMulticast() && !ip("10.0.0.1").isLinkLocalMulticast()',
        'cidr("10.1.2.3/8").masked() == cidr("10.0.0.0/8")',
        "[1, 2, 2].indexOf(2) == 1 && [1, 2, 2].lastIndexOf(2) == 2 && ['a'].indexOf('b') == -1",
        "[true].indexOf(true) == 0 && [1u].indexOf(1u) == 0 && [[1]].indexOf([1]) == 0 && [1].indexOf(true) == -1",
        '"abcabc".indexOf("b") == 1 && "abcabc".lastIndexOf("b") == 4 && "abcabc".indexOf("b", 2) == 4',
        '"abcabc".lastIndexOf("b", 3) == 1 && "abc".indexOf("a", 7) == -1 && "abc".lastIndexOf("a", 7) == -1',
        '"abc".indexOf("", 9) == 9 && "abc".lastIndexOf("") == 3 && "x.indexOf(y)".size() == 12',
        "[1, 2].all(i, v, v == i + 1) && ![1, 2].all(i, v, v > 1) && [1, 2].exists(i, v, i == 1 && v == 2)",
        '{"a": 1, "b": 2}.all(k, v, k in ["a", "b"] && v > 0) && {"a": 1, "b": 1}.exists(k, v, k == "b")',
        '{"a": 1, "b": 2}.existsOne(k, v, v == 1) && !{"a": 1, "b": 1}.exists_one(k, v, v == 1)',
        "[5, 6].transformList(i, v, i + v) == [5, 7] && [5, 6].transformList(i, v, i > 0, v) == [6]",
        '{"a": 1, "b": 2}.transformMap(k, v, k == "a", v + 1) == {"a": 2} && [7].transformMap(i, v, v) == {0: 7}',
        '["x", "y"].transformMapEntry(i, v, {v: i}) == {"x": 0, "y": 1} && ["x"].transformMapEntry(i, v, i > 0, {v: i}) == {}',
        '["bb", "a"].sortBy(s, s.size()) == ["a", "bb"] && [3, 1, 2].sortBy(v, -v) == [3, 2, 1] && [].sortBy(v, v) == []',
        "[[1, 2], [3]].all(i, l, l.all(j, v, v > i)) && [1, 2].all(i, v, [v].exists(j, w, w == v))",
        f'{GPU}.exists(name, value, name == "model" && value == "a100") && {GPU}.all(name, value, name != "nothing")',
        'device.capacity.exists(d, all, all.exists(n, q, q.isGreaterThan(quantity("1Gi"))))',
        f'device.attributes.transformMap(d, all, all.size())["{DOMAIN}"] == 4',
        "[optional.of(1), optional.none()].unwrapOpt() == [1]",
        f'{GPU}.version != "1.9.0" && {GPU}.version != 1 && !({GPU}.version == null) && !("1.9.0" == {GPU}.version)',
        'bool("T") && !bool("F") && bool("true") && bool(device.driver == "") == false && bool(string(true))',
        '!("none" in device.attributes) && device.attributes["none"].?x.orValue(1) == 1 && size(device.capacity["none"]) == 0',
        'cel.bind(d, device.driver, device.attributes[d].index == 0 && size(device.attributes[d + "."]) == 0)',
        f'{GPU}.version in [semver("1.9.0")] && cel.bind(v, {GPU}.version, v == semver("1.9.0") && v != "a")',
    ],
)
def test_an_expression_selects_a_device(expression):
    assert answer(expression) is True


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (f"{GPU}.numa == 0", "no such key: numa"),
        (f"{MEMORY[:-7]}.cores.isInteger()", "no such key: cores"),
        ('device.attributes["no-such-domain"].x.isGreaterThan(quantity("0"))', "no such key: x"),
        (f'{GPU}.index.startsWith("a")', "no such overload"),
        (f'{GPU}.version.compareTo(quantity("1")) == 0', "no such overload"),
        (f"{GPU}.index / {GPU}.index == 1", "division by zero"),
        (f"5 % {GPU}.index == 1", "modulus by zero"),
        (f"[1][{GPU}.index + 3] == 1", "index out of bounds: 3"),
        (f"{GPU}.index", "CEL result of type int could not be converted to bool: unsupported type conversion from 'int' to bool"),
        (f"{GPU}.model", "CEL result of type string could not be converted to bool: unsupported native conversion from string to 'bool'"),
        (MEMORY, "CEL result of type kubernetes.Quantity could not be converted to bool: type conversion error from 'Quantity' to 'bool'"),
        ('semver("1.0") == semver("1.0.0")', "No Major.Minor.Patch elements found"),
        ("[].min() == 1", "min called on empty list"),
        *(
            (f"{left} == {right}", "no such overload")
            for left in (f"{GPU}.version", MEMORY)
            for right in ('"1.9.0"', "1", "true", f"{GPU}.model")
        ),
        (f'{GPU}["version"] == {MEMORY}', "no such overload"),
        (f'has({GPU}.version) && ({GPU}.version == "1.9.0" ? true : false)', "no such overload"),
        ('["a"].sum() == "a"', "no such overload"),
        ("[true].sum() == 1", "no such overload"),
        (f'{GPU}.?version.orValue("") == "1.9.0"', "no such overload"),
        (f'cel.bind(v, {GPU}.version, v == "1.9.0")', "no such overload"),
        (f'(true ? {GPU}.version : {GPU}.version) == "1.9.0"', "no such overload"),
        ('dyn(ip("1.1.1.1")) == dyn(cidr("1.1.1.0/24"))', "no such overload"),
        ('"abc".indexOf("a", -1) == 0', "index out of range: -1"),
        ('["x", "x"].transformMapEntry(i, v, {v: i}) == {"x": 0}', "insert failed: key x already exists"),
        ("lists.range(1000000000) == []", "lists.range(1000000000) is longer than 10000"),
    ],
)
def test_a_failure_has_the_words_of_kube_scheduler(expression, text):
    with pytest.raises(SelectorFailed) as failed:
        answer(expression)
    assert str(failed.value) == text


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("?!", "Syntax error"),
        ("foo(1)", "undeclared reference to 'foo'"),
        ("1", "must evaluate to bool or the unknown type, not int"),
        ("math.greatest(1, 2) == 2", "undeclared reference"),  # Kubernetes does not have this extension
        ("[1].existsOne(v, v == 1)", "existsOne"),
        ("[1].all(i, v, w)", "undeclared reference to 'w'"),
    ],
)
def test_an_expression_that_cannot_be_compiled_has_a_reason(expression, text):
    failed = compiled(expression)
    assert isinstance(failed, SelectorFailed)
    assert text in str(failed)


def test_compile_errors_are_one_line():
    failed = compiled("device.driver ==\n nothing(1) && nowhere(2)")
    assert isinstance(failed, SelectorFailed)
    assert len(str(failed).splitlines()) == 1
    assert "<input>:2:9: undeclared reference to 'nothing'" in str(failed)
    assert "'nowhere'" in str(failed)


def test_equal_devices_share_an_answer():
    asked = []

    class Program:
        def __init__(self, inner):
            self.inner = inner

        def eval(self, **given):
            asked.append(given)
            return self.inner.eval(**given)

    made = compiled(f'{GPU}.model == "a100"')
    selector = Selector(made.expression, made.cost, Program(made._program))
    assert all(selector.matches(DEVICE) for _ in range(100))
    assert len(asked) == 1


NESTED = f"[{', '.join(['1'] * 20)}]"
GROWING = "".join(f"cel.bind(a{n + 1}, a{n} + a{n}, " for n in range(25)), ")" * 25


@pytest.mark.parametrize(
    "expression",
    [
        f"{NESTED}.all(a, {NESTED}.all(b, {NESTED}.all(c, {NESTED}.all(d, true))))",
        "lists.range(9000).distinct().size() > 0",
        "sets.contains(lists.range(2000), lists.range(2000))",
        f"cel.bind(a0, device.driver, {GROWING[0]}a25.size() > 3){GROWING[1]}",
        f'"{"x" * 3000}".replace("x", "{"y" * 3000}").size() > 0',
        f'lists.range(5000).map(n, "{"y" * 3000}").join("{"z" * 3000}").size() > 0',
        'device.attributes.all(d, device.attributes.all(e, device.attributes[d].all(k, device.attributes[e].all(l, k + l != "x"))))',
    ],
)
def test_an_expression_that_may_cost_too_much_is_refused_before_it_is_evaluated(expression):
    refusal = compiled(expression)
    assert isinstance(refusal, SelectorFailed)
    assert str(refusal) == "too complex, exceeds cost limit"


@pytest.mark.parametrize(
    "expression",
    [
        "lists.range(10000).sum() > 0",
        "lists.range(1000).map(i, i * i).filter(i, i % 2 == 0).size() == 500",
        'device.attributes.exists(d, device.attributes[d].exists(n, n.contains("ode")))',
        'device.attributes.exists(d, d.matches("^.*com$") && device.attributes[d].exists(n, n.matches("^mod.l$")))',
        'device.attributes.exists(d, device.attributes[d].exists(n, string(device.attributes[d][n]).contains("a1")))',
        "device.attributes.map(d, device.attributes[d].map(n, n)).flatten().size() > 3",
        'device.attributes.map(d, d).sort()[0] != ""',
    ],
)
def test_an_expression_that_kubernetes_takes_is_not_refused(expression):
    assert answer(expression) is True


@pytest.mark.parametrize(
    ("cheap", "dear"),
    [
        ('device.driver == "x"', f'device.driver + "{"y" * 500}" == "x" + device.driver + "{"y" * 500}"'),
        ("[1, 2].all(x, x > 0)", "[1, 2].all(x, [1, 2].all(y, x > y))"),
        ("lists.range(10).size() > 0", "lists.range(100).map(x, x).size() > 0"),
        ("[1].distinct() == [1]", "lists.range(30).distinct() == [1]"),
        ("cel.bind(a, device.driver, a.size() > 0)", "cel.bind(a, device.driver + device.driver, (a + a).size() > 0)"),
        (" && ".join(["1 + 1 > 1"] * 9), 'semver("1.2.3").isGreaterThan(semver("1.2.4"))'),
    ],
)
def test_more_work_is_estimated_as_more(cheap, dear):
    costs = [each.cost for each in map(compiled, (cheap, dear)) if isinstance(each, Selector)]
    assert costs[0] < costs[1]


@pytest.mark.parametrize(("entries", "letters", "factor"), [(4, 8, 0), (32, 8, 4), (4, 4000, 10)])
def test_an_expression_costs_more_for_a_larger_device(entries, letters, factor):
    selector = compiled(f"device.attributes['{DOMAIN}'].all(k, k.matches('(a|b)*c') == false)")
    attributes = {DOMAIN: {f"key-{number}": "x" * letters for number in range(entries)}}
    device = DeviceTraits(driver=DOMAIN, attributes=attributes, capacity={}, allow_multiple_allocations=False, key=entries)
    assert selector.cost_of(device) > factor * selector.cost_of(DEVICE)


def nested(depth, around, innermost):
    """An expression with another one in it, that many times."""
    for number in range(depth):
        innermost = around.replace("N", str(number)).replace("…", innermost)
    return innermost


@pytest.mark.parametrize(
    ("around", "innermost", "last"),
    [
        ("dyn(1) == (…)", "dyn(true)", ""),
        ("[1].map(aN, …)", "optional.of(1)", ".size() == 1"),
        ("[1].transformList(aN, bN, …)", "optional.of(1)", ".size() == 1"),
        ("[[1].sum()].map(aN, …)", "1", ".size() == 1"),
        ("cel.bind(aN, device.driver, bool(…))", "true", " == true"),
    ],
)
def test_twice_as_many_levels_are_hardly_more_than_twice_as_much_to_compile(around, innermost, last):
    """Each level is read once for each one around it, as messages are within messages: the square of a small number of levels at most."""
    few, many = (
        calls(lambda depth=depth: list(selector._compiling(nested(depth, around, innermost) + last, selector._Kept()))) for depth in (6, 12)
    )
    assert isinstance(compiled(nested(12, around, innermost) + last), Selector)
    assert many < 3 * few


@pytest.mark.parametrize(
    ("part", "most"),
    [
        ("true && ", 60),
        (f'{GPU}.model == "x" || ', 100),
        ("(dyn(1) == dyn(2)) || ", 120),
        ('bool("T") && ', 300),
        ("[1].all(x, true) && ", 120),
        ("[1].all(x, y, true) && ", 120),
        ("[1].sum() == 1 && ", 600),
    ],
)
def test_compiling_reads_a_limited_amount_for_each_character(part, most):
    expression = part * (2000 // len(part)) + "true"
    assert calls(lambda: list(selector._compiling(expression, selector._Kept()))) < most * len(expression)


LONG = [
    "true && ",
    f'{GPU}.model == "x" || ',
    'bool("T") && ',
    "[1].all(x, y, true) && ",
    'device.attributes[?"a"].?b.orValue(1) == 1 && ',
    "1+1+1 > 0 && ",
]


@pytest.mark.parametrize("part", LONG)
def test_a_step_of_compiling_is_short(part):
    expression = part * (10_000 // len(part)) + f"true // {part}"
    steps = selector.compiling(expression)
    most = 0
    while selector._kept(expression).found is None:
        most = max(most, calls(lambda: next(steps, None)))
    assert isinstance(compiled(expression), Selector)
    assert most < 50_000


@pytest.mark.parametrize("part", LONG)
def test_the_cost_of_a_long_expression_is_estimated_once(part):
    selector = compiled(part * (10_000 // len(part)) + "true")
    assert calls(lambda: selector.cost_of(DEVICE)) < 200
    assert selector.cost_of(DEVICE) == selector.cost


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ("-1, ", "more than 400 minus signs, which take long to compile here"),
        ('- // "\n 1, ', "more than 400 minus signs, which take long to compile here"),
        ("{}, ", "more than 400 empty lists and maps, which take long to compile here"),
        ("[ // '\n], ", "more than 400 empty lists and maps, which take long to compile here"),
        ("'-1', ", None),
        ('"-1", ', None),
        ("{1: 1}, ", None),
    ],
)
def test_expressions_that_the_runtime_compiles_slowly_are_refused_before_that(part, reason):
    many, few = (compiled(f"[{part * number}1].size() > 0") for number in (500, 400))
    assert str(many) == reason if reason else isinstance(many, Selector)
    assert isinstance(few, Selector)


@pytest.mark.parametrize(("part", "compiles"), [("[1].sum() == 1 && ", False), ("[1].all(x, true) && ", True)])
def test_an_expression_that_grows_too_much_when_its_macros_are_expanded_is_refused(part, compiles):
    assert isinstance(compiled(part * (10_000 // len(part)) + "true"), Selector if compiles else SelectorFailed)


def test_a_limit_of_the_runtime_is_an_error_of_the_expression():
    many = f"{NESTED}.all(a, {NESTED}.all(b, [{', '.join(['1'] * 25)}].all(c, true)))"
    with pytest.raises(SelectorFailed) as failed:
        answer(many)
    assert str(failed.value) == "operation cancelled: actual cost limit exceeded"


OF_KUBERNETES = DeviceTraits(
    driver=DOMAIN,
    attributes={
        DOMAIN: {"index": 0, "model": "a100", "ok": True, "ver": library.semver_value("1.9.0")},
        "net": {"address": "10.1.2.3"},
    },
    capacity={DOMAIN: {"memory": library.quantity_value("40Gi"), "cores": library.quantity_value("8")}},
    allow_multiple_allocations=False,
    key="as Kubernetes was asked",
)


def test_answers_are_those_of_kubernetes():
    differing = []
    with gzip.open(Path(__file__).parents[4] / "cases/selectors/cases.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            case = json.loads(line)
            try:
                found = answer(case["expression"], OF_KUBERNETES)
            except SelectorFailed as error:
                found = str(error)
            if found != case["answer"]:
                differing.append((case, found))
    assert not differing


@pytest.mark.parametrize(
    "expression",
    [
        "[optional.of(1)].distinct().size() == 1",
        "[[[1].first()]].flatten().size() == 1",
        "sets.contains([optional.none()], [])",
        "[1].map(x, optional.of(x)).reverse().size() == 1",
        "cel.bind(a, device.?attributes, [a].slice(0, 0).size() == 0)",
        '[1, 2].transformMap(i, v, optional.of(v)).size() == 2 && [1].transformMapEntry(i, v, {"a": optional.of(v)}).size() == 1',
        'dyn({"quantity": optional.of("1")}).sign() == 1',
        "[1].map(x, [x]).map(x, {x[0]: optional.of(x)}).sort().size() == 1",
        "[optional.of(optional.of(1))].unwrapOpt().distinct().size() == 1",
        'optional.of([device.?driver]).orValue([]).indexOf("a") == 0',
        "[1].all(x, dyn(true) ? [optional.of(x)].isSorted() : true)",
        'cel.bind(a, {"a": optional.of(1)}, a == a)',
        'cel.bind(a, {"a": optional.of(1)}, quantity("1") == a)',
        'dyn({"a": optional.of(1)})',
        "dyn(optional.of(true))",
    ],
)
def test_optional_values_that_would_end_the_process_are_refused(expression):
    assert isinstance(compiled(expression), SelectorFailed)


@pytest.mark.parametrize(
    "expression",
    [
        'device.attributes[?"none"].?a.?b.orValue("c") == "c" && ["a"].reverse() == ["a"]',
        "[?device.attributes[?'none'].?a].distinct().size() == 0",
        "[optional.of(2), optional.none()].unwrapOpt().sum() == 2",
        "[[1].first().value()].distinct() == [1]",
        "optional.of([1, 1]).optMap(x, x.distinct().size()).orValue(0) == 1",
        "[optional.of(1)].size() == 1 && [2, 1].sort() == [1, 2]",
    ],
)
def test_optional_values_that_are_taken_out_reach_functions(expression):
    assert answer(expression)


@pytest.mark.parametrize(
    ("expression", "read"),
    [
        (f"{GPU}.model == 'a'", "model"),
        (f"{GPU} . ? model.orValue('a') == 'a'", "model"),
        (f'{GPU} [ ? "model" ].orValue("a") == "a"', "model"),
        (f"{GPU}.{' ' * 10_000}model == 'a'", "model"),
        (f"{GPU}.{' ' * 10_000}all(x, true)", None),
        (f"device{' ' * 10_000}.attributes", None),
    ],
)
def test_spaces_do_not_change_what_an_expression_reads(expression, read):
    assert reads(expression) == (None if read is None else (Read("attributes", DOMAIN, read),))


@pytest.mark.parametrize(
    "pattern", [selector._READ, selector._PLAIN, selector._RENAMED, selector._SLOW, rewriting._USES], ids=lambda found: found.pattern[:12]
)
def test_regular_expressions_over_selectors_do_not_backtrack(pattern):
    """Two parts that may match the same characters, and can give them back, try all ways to divide them: seconds for 10,000 spaces."""
    assert re.findall(r"\*(?![+?])", pattern.pattern) == []


@pytest.mark.parametrize(
    ("value", "kind"),
    [('timestamp("2020-01-01T00:00:00Z")', "timestamp"), ('duration("1s")', "duration"), ("type(1)", "type")],
)
@pytest.mark.parametrize("call", ["sort()", "reverse()", "distinct()", "slice(0, 1)", "sortBy(x, x)", "transformMap(i, v, v)"])
def test_a_value_that_functions_cannot_give_back_is_named(value, kind, call):
    with pytest.raises(SelectorFailed) as failed:
        answer(f"[{value}].{call}.size() == 1")
    assert str(failed.value) == f"a function of lists or maps gives back no {kind} here"


def test_a_quote_in_a_comment_begins_no_string():
    assert answer("// it's an index\n[1].indexOf(1) == 0")


def test_a_string_without_an_end_is_refused_as_such():
    found = compiled('device.driver == "' + '\\"' * 100 + ".indexOf(")
    assert isinstance(found, SelectorFailed)
    assert "compilation failed" in str(found)
    assert "kubernetes_" not in str(found)
