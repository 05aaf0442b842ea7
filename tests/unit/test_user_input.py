"""Numbers are written as in JSON, wherever people and programs write them."""

import pytest

from wharfinger import user_input

BY_PYTHON_ALONE = ["1_0", " 5", "5 ", "+5", "inf", "-inf", "nan", "Infinity", "١", "５", "0x5", "", "five", "5\n", ".5", "5."]


@pytest.mark.parametrize(("text", "value"), [("0", 0), ("5", 5), ("-5", -5), ("007", 7), ("9" * 18, 10**18 - 1)])
def test_a_whole_number_is_also_a_decimal_number(text, value):
    assert user_input.whole_number(text) == value
    assert user_input.decimal_number(text) == float(value)


@pytest.mark.parametrize(
    ("text", "value"), [("0.5", 0.5), ("-0.5", -0.5), ("1e-3", 0.001), ("2.5E+2", 250.0), ("9" * 300, float("9" * 300))]
)
def test_a_number_with_a_fraction_or_an_exponent_is_no_whole_number(text, value):
    assert user_input.decimal_number(text) == value
    assert user_input.whole_number(text) is None


@pytest.mark.parametrize("text", BY_PYTHON_ALONE)
def test_other_texts_are_no_numbers(text):
    assert user_input.whole_number(text) is None
    assert user_input.decimal_number(text) is None


@pytest.mark.parametrize("text", ["1e309", "9" * 310])
def test_numbers_that_float64_does_not_have(text):
    assert user_input.decimal_number(text) is None
