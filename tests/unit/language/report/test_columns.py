"""Tables in text: widths of columns, numbers, amounts and percentages."""

import pytest

from wharfinger.language.report import wording


def test_columns_are_as_wide_as_their_widest_cell_and_end_without_spaces():
    text = wording.columns([("a", "n", "note"), ("longer", "12", ""), ("b", "7", "x")], right=frozenset({1}))
    assert text == "a        n  note\nlonger  12\nb        7  x\n"


def test_a_cell_has_no_ends_of_lines_and_no_control_characters():
    assert wording.columns([("team/a\nb", "x"), ("\x1b[2J", "y")]) == "team/a b  x\n\N{REPLACEMENT CHARACTER}[2J      y\n"


@pytest.mark.parametrize(
    "ordered",
    [
        ["9 nodes", "10 nodes"],
        ["a", "a1", "a1b", "a2", "a10", "b"],
        ["1.9", "1.10"],
        ["01", "1", "02"],
        ["", "1", "x"],
        [f"n{'9' * 5000}", f"n1{'0' * 5000}"],
    ],
)
def test_numbers_in_texts_are_ordered_by_their_values(ordered):
    given = list(reversed(ordered))
    assert sorted(given, key=wording.natural) == ordered


def test_counts_are_listed_most_first_and_equal_ones_by_the_numbers_in_their_texts():
    counts = {"fewer than 10 GPUs": 2, "Insufficient cpu": 5, "fewer than 9 GPUs": 2}
    assert wording.counted(counts) == "5 Insufficient cpu, 2 fewer than 9 GPUs, 2 fewer than 10 GPUs"
    assert wording.counted({}) == ""


@pytest.mark.parametrize(
    ("value", "text"), [(412.0, "412"), (97.5, "97.5"), (100 / 3, "33.33"), (-0.0, "0"), (-0.001, "0"), (1234567.0, "1234567")]
)
def test_numbers_have_at_most_two_decimals(value, text):
    assert wording.number(value) == text


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [("cpu", 125_514_000, "125,514.00"), ("memory", 3 * 2**29, "1.5Gi"), ("nvidia.com/gpu", 6212, "6,212")],
)
def test_amounts_are_in_the_unit_people_use(resource, value, text):
    assert wording.amount(resource, value) == text


@pytest.mark.parametrize(("n", "noun", "text"), [(1, "pod", "1 pod"), (0, "pod", "0 pods"), (1523, "node", "1,523 nodes")])
def test_counts_carry_their_noun(n, noun, text):
    assert wording.count(n, noun) == text


def test_fractions_become_percentages():
    assert wording.percent(0.60714) == "60.7 %"
