"""Label selectors as apimachinery reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.language.policies import policy
from tests.work import calls
from wharfinger.compiler.interpreter import holds
from wharfinger.compiler.program import compile_policy
from wharfinger.language.semantics.describe import selector_text
from wharfinger.language.semantics.selector import SelectorError, merged, parse_selector
from wharfinger.language.semantics.typed import Requirement, SelectorOp


@pytest.mark.parametrize(
    ("text", "requirements"),
    [
        ("", ()),
        ("a", (Requirement("a", SelectorOp.EXISTS),)),
        ("!a", (Requirement("a", SelectorOp.DOES_NOT_EXIST),)),
        ("a=b", (Requirement("a", SelectorOp.IN, ("b",)),)),
        ("a == b", (Requirement("a", SelectorOp.IN, ("b",)),)),
        ("a!=b", (Requirement("a", SelectorOp.NOT_IN, ("b",)),)),
        ("a=", (Requirement("a", SelectorOp.IN, ("",)),)),
        ("x.io/a in (b, c)", (Requirement("x.io/a", SelectorOp.IN, ("b", "c")),)),
        ("a notin (b)", (Requirement("a", SelectorOp.NOT_IN, ("b",)),)),
        ("a>1,b<2", (Requirement("a", SelectorOp.GT, ("1",)), Requirement("b", SelectorOp.LT, ("2",)))),
        ("in=notin", (Requirement("in", SelectorOp.IN, ("notin",)),)),
    ],
)
def test_a_label_selector_is_read_as_by_apimachinery(text, requirements):
    assert parse_selector(text) == requirements


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("a b", 2),
        ("a in b", 5),
        ("a in (b", 7),
        (",a", 0),
        ("a,", 2),
        ("-a", 0),
        ("a=-b", 2),
        ("a>b", 2),
        ("a/b/c", 0),
        ("a" * 64, 0),
        ("(", 0),
    ],
)
def test_selectors_that_kubernetes_refuses(text, offset):
    with pytest.raises(SelectorError) as fault:
        parse_selector(text)
    assert fault.value.offset == offset


KEYS = st.from_regex(r"[a-z]([a-z0-9]{0,5}[a-z0-9])?", fullmatch=True)
REQUIREMENTS = st.builds(
    Requirement, KEYS, st.sampled_from([SelectorOp.IN, SelectorOp.NOT_IN]), st.lists(KEYS, min_size=1, max_size=3, unique=True).map(tuple)
) | st.builds(Requirement, KEYS, st.sampled_from([SelectorOp.EXISTS, SelectorOp.DOES_NOT_EXIST]))


@given(st.lists(REQUIREMENTS, max_size=4).map(tuple))
def test_printing_and_reading_again_gives_the_same(requirements):
    assert parse_selector(selector_text(requirements)) == requirements


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text):
    try:
        found = parse_selector(text)
    except SelectorError as fault:
        where = fault.offset
    else:
        where = 0
        assert all(requirement.key for requirement in found)
    assert 0 <= where <= len(text)


WHOLE = st.sampled_from(["-9", "0", "3", "+4", "9223372036854775807", "9223372036854775808", "-9999999999999999999"])
FEW = st.sampled_from(["a", "b"])
OF_FEW_KEYS = (
    st.builds(
        Requirement,
        FEW,
        st.sampled_from([SelectorOp.IN, SelectorOp.NOT_IN]),
        st.lists(st.sampled_from("xyz0"), min_size=1, max_size=3).map(tuple),
    )
    | st.builds(Requirement, FEW, st.sampled_from([SelectorOp.EXISTS, SelectorOp.DOES_NOT_EXIST]))
    | st.builds(Requirement, FEW, st.sampled_from([SelectorOp.GT, SelectorOp.LT]), WHOLE.map(lambda number: (number,)))
)
LABEL = st.none() | st.sampled_from("xyzw") | WHOLE


@given(st.lists(OF_FEW_KEYS, max_size=12), LABEL, LABEL)
def test_merged_requirements_hold_where_all_do(requirements, a, b):
    def hold(requirements):
        return all(holds(requirement, {"a": a, "b": b}[requirement.key]) for requirement in requirements)

    together = merged(requirements)
    assert hold(together) is hold(requirements)
    assert len(together) <= 14
    assert merged(together) == together


def test_thousands_of_requirements_of_one_key_are_one_test():
    def work(number):
        text = ",".join(f"k notin (a,b{n}),k > {n}" for n in range(number))
        rule = f'policy "p"\nfilter f {{ require node.labels matches "{text}" }}\n'
        return calls(lambda: compile_policy(policy(rule)))

    work(2)
    reading = calls(lambda: parse_selector(",".join(f"k notin (a,b{n}),k > {n}" for n in range(1000))))
    assert work(1000) <= work(2) + 2 * reading
