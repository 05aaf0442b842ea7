"""Selectors and tolerations select as those of Kubernetes do, and are read as kubectl writes them."""

import json
import random

import pytest

from tests.unit.model import cases
from tests.work import calls
from wharfinger.errors import InvalidObject
from wharfinger.model import objects
from wharfinger.model.objects import matching
from wharfinger.model.reading import decode


@pytest.mark.parametrize("case", cases.lines("selectors.jsonl"), ids=lambda case: json.dumps(case)[:40])
def test_selects_as_kubernetes_selects(case):
    labels, name = case["labels"], case["name"]
    if "node" in case:
        selector = matching.node_selector(decode.convert(case["node"], objects.NodeSelector))
        assert str(selector.matches(labels, name)).lower() == case["answer"]
        return
    given = decode.convert(case["selector"], objects.LabelSelector) if "selector" in case else None
    if case["answer"] == "err":
        with pytest.raises(InvalidObject, match="selector"):
            matching.label_selector(given)
        return
    assert str(matching.label_selector(given).matches(labels)).lower() == case["answer"]


@pytest.mark.parametrize("seed", range(20))
def test_many_tolerations_tolerate_what_each_of_them_tolerates(seed):
    chance = random.Random(seed)
    keys, values, effects = ("", "a", "b", "c"), ("", "1", "2"), ("", *sorted(matching.KEEPING_AWAY), matching.PREFER_NO_SCHEDULE)

    def toleration():
        operator, effect = chance.choice(("", "Equal", "Exists", "Gt")), chance.choice(effects[1:])
        return objects.Toleration(key=chance.choice(keys), operator=operator, value=chance.choice(values), effect=effect)

    there = [toleration() for _ in range(matching.COMPARED_TOLERATIONS + 1 + seed)]
    many = matching.Tolerations(there)
    for key in keys:
        for value in values:
            for effect in effects:
                taint = objects.Taint(key=key, value=value, effect=effect)
                assert many.tolerate(taint) is any(matching.tolerates(each, taint) for each in there)


def test_a_thousand_tolerations_are_not_compared_with_each_taint():
    there = matching.Tolerations([objects.Toleration(key=f"k{number}", operator="Exists") for number in range(1000)])
    taints = [objects.Taint(key=f"k{number}", effect="NoSchedule") for number in range(900, 1100)]
    assert calls(lambda: there.untolerated(taints)) < 20 * len(taints)
    assert there.untolerated(taints) == taints[100:]


def test_absent_selects_nothing_and_empty_everything():
    assert matching.label_selector(None) == matching.NOTHING
    assert not matching.NOTHING.matches({})
    assert matching.label_selector(objects.LabelSelector()) == matching.EVERYTHING
    assert matching.of_labels({}) == matching.EVERYTHING


def test_selectors_that_are_equal_are_equal_and_share_a_hash():
    one = objects.LabelSelector(match_labels={"a": "1", "b": "2"})
    other = objects.LabelSelector(
        match_labels={"b": "2"},
        match_expressions=(objects.LabelSelectorRequirement(key="a", operator="In", values=("1", "1")),),
    )
    assert matching.label_selector(one) == matching.label_selector(other)
    assert hash(matching.label_selector(one)) == hash(matching.label_selector(other))
    assert matching.label_selector(one) != matching.NOTHING


def test_and_labels_requires_the_added_labels_too():
    selector = matching.of_labels({"app": "web"}).and_labels({"version": "v1"})
    assert selector.matches({"app": "web", "version": "v1"})
    assert not selector.matches({"app": "web"})
    assert not matching.NOTHING.and_labels({"version": "v1"}).matches({"version": "v1"})


def test_prints_as_kubectl_would_take_it():
    expressions = (
        objects.LabelSelectorRequirement(key="b", operator="NotIn", values=("y", "x")),
        objects.LabelSelectorRequirement(key="c", operator="Exists"),
        objects.LabelSelectorRequirement(key="d", operator="DoesNotExist"),
    )
    selector = matching.label_selector(objects.LabelSelector(match_labels={"a": "1"}, match_expressions=expressions))
    assert str(selector) == "a in (1),b notin (x,y),c,!d"
    assert (str(matching.NOTHING), str(matching.EVERYTHING)) == ("nothing", "everything")


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
def test_a_label_key_is_a_name_with_or_without_a_dns_prefix(key, valid):
    assert matching.valid_key(key) is valid


@pytest.mark.parametrize(("value", "valid"), [("", True), ("a", True), ("a.b_c-d", True), ("a ", False), ("x" * 64, False), ("é", False)])
def test_a_label_value_is_empty_or_a_name_of_63_characters_at_most(value, valid):
    assert matching.valid_value(value) is valid


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
    assert matching.parse_int64(text) == number


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("app=web", "app in (web)"),
        ("app == web", "app in (web)"),
        ("app=", "app in ()"),
        ("app!=web", "app notin (web)"),
        ("zone in (b, a),gpu", "gpu,zone in (a,b)"),
        ("zone notin (a)", "zone notin (a)"),
        ("!example.com/spot", "!example.com/spot"),
        ("! spot", "!spot"),
        ("cores<9,cores>4", "cores>4,cores<9"),
    ],
)
def test_a_selector_is_read_as_kubectl_writes_it(text, same):
    selector = matching.parse_selector(text)
    assert str(selector) == same
    assert matching.parse_selector(str(selector)) == selector


@pytest.mark.parametrize("text", ["", "a,", ",a", "a b", "a=b=c", "a in b", "a in (b", "a in ()x", "=b", "a=!b", "a>b", "-a", "a=b c"])
def test_a_wrong_selector_is_refused(text):
    with pytest.raises(InvalidObject, match="selector"):
        matching.parse_selector(text)
