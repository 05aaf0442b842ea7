import json

import pytest

from tests.unit.model import cases
from wharfinger.errors import InvalidObject
from wharfinger.model import objects
from wharfinger.model.objects import selectors
from wharfinger.model.reading import decode


@pytest.mark.parametrize("case", cases.lines("selectors.jsonl"), ids=lambda case: json.dumps(case)[:40])
def test_selects_as_kubernetes_selects(case):
    labels, name = case["labels"], case["name"]
    if "node" in case:
        selector = selectors.node_selector(decode.convert(case["node"], objects.NodeSelector))
        assert str(selector.matches(labels, name)).lower() == case["answer"]
        return
    given = decode.convert(case["selector"], objects.LabelSelector) if "selector" in case else None
    if case["answer"] == "err":
        with pytest.raises(InvalidObject, match="selector"):
            selectors.label_selector(given)
        return
    assert str(selectors.label_selector(given).matches(labels)).lower() == case["answer"]


def test_absent_selects_nothing_and_empty_everything():
    assert selectors.label_selector(None) == selectors.NOTHING
    assert not selectors.NOTHING.matches({})
    assert selectors.label_selector(objects.LabelSelector()) == selectors.EVERYTHING
    assert selectors.of_labels({}) == selectors.EVERYTHING


def test_selectors_that_say_the_same_are_equal_and_share_a_hash():
    one = objects.LabelSelector(match_labels={"a": "1", "b": "2"})
    other = objects.LabelSelector(
        match_labels={"b": "2"},
        match_expressions=(objects.LabelSelectorRequirement(key="a", operator="In", values=("1", "1")),),
    )
    assert selectors.label_selector(one) == selectors.label_selector(other)
    assert hash(selectors.label_selector(one)) == hash(selectors.label_selector(other))
    assert selectors.label_selector(one) != selectors.NOTHING


def test_added_labels_narrow():
    selector = selectors.of_labels({"app": "web"}).and_labels({"version": "v1"})
    assert selector.matches({"app": "web", "version": "v1"})
    assert not selector.matches({"app": "web"})
    assert not selectors.NOTHING.and_labels({"version": "v1"}).matches({"version": "v1"})


def test_prints_as_kubectl_would_take_it():
    expressions = (
        objects.LabelSelectorRequirement(key="b", operator="NotIn", values=("y", "x")),
        objects.LabelSelectorRequirement(key="c", operator="Exists"),
        objects.LabelSelectorRequirement(key="d", operator="DoesNotExist"),
    )
    selector = selectors.label_selector(objects.LabelSelector(match_labels={"a": "1"}, match_expressions=expressions))
    assert str(selector) == "a in (1),b notin (x,y),c,!d"
    assert (str(selectors.NOTHING), str(selectors.EVERYTHING)) == ("nothing", "everything")


@pytest.mark.parametrize(
    ("key", "valid"),
    [
        ("a", True),
        ("a/b", True),
        ("x" * 63, True),
        ("x" * 64, False),
        (f"{'d' * 253}/x", True),
        (f"{'d' * 254}/x", False),
        ("A.b/c", False),
        ("a.b/C_d", True),
        ("a/b/c", False),
        ("/a", False),
        ("a/", False),
        ("", False),
        ("a\n", False),
        ("-a", False),
    ],
)
def test_label_keys(key, valid):
    assert selectors.valid_key(key) is valid


@pytest.mark.parametrize(("value", "valid"), [("", True), ("a", True), ("a.b_c-d", True), ("a ", False), ("x" * 64, False), ("é", False)])
def test_label_values(value, valid):
    assert selectors.valid_value(value) is valid


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1),
        ("-5", -5),
        ("+7", 7),
        ("007", 7),
        (str(2**63 - 1), 2**63 - 1),
        (str(2**63), None),
        ("1.0", None),
        ("", None),
        (" 1", None),
        ("1_0", None),
    ],
)
def test_whole_numbers_as_go_parses_them(text, number):
    assert selectors.parse_int64(text) == number
