"""Label selectors as apimachinery reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.language.describe import selector_text
from wharfinger.language.selector import SelectorError, parse_selector
from wharfinger.language.typed import Requirement, SelectorOp


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
def test_requirements(text, requirements):
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
def test_what_kubernetes_refuses(text, offset):
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
