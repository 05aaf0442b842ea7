"""Quantities against a model of their documentation: exact fractions, no shared code."""

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from wharfinger.errors import InvalidObject
from wharfinger.model.objects import quantity

SUFFIXES = {
    **{suffix: Fraction(1024) ** power for power, suffix in enumerate(["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])},
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(["n", "u", "m", "", "k", "M", "G", "T", "P", "E"], start=-3)},
    **{f"{letter}{power}": Fraction(10) ** power for letter in "eE" for power in range(-12, 22)},
    **{f"e+{power}": Fraction(10) ** power for power in range(22)},
}
LARGEST = 2**63 - 1

numbers = st.builds(
    lambda whole, fraction: f"{whole}.{fraction}" if fraction is not None else whole,
    st.from_regex(r"[0-9]{1,25}", fullmatch=True),
    st.none() | st.from_regex(r"[0-9]{0,22}", fullmatch=True),
)


def model(number, suffix):
    """The documented value: exact, but rounded up to whole nanos, and binary ones no larger than an int64."""
    exact = Fraction(number.rstrip(".")) * SUFFIXES[suffix]
    rounded = Fraction(math.ceil(exact * 10**9), 10**9)
    return min(rounded, Fraction(LARGEST)) if suffix.endswith("i") else rounded


@given(number=numbers, suffix=st.sampled_from(sorted(SUFFIXES)), sign=st.sampled_from(["", "+", "-"]))
def test_value_milli_and_exact_value_agree_with_the_model(number, suffix, sign):
    text = f"{sign}{number}{suffix}"
    exact = model(number, suffix)
    direction = -1 if sign == "-" else 1
    assert quantity.parse_quantity(text) == direction * exact
    assert quantity.value(text) == direction * min(math.ceil(exact), LARGEST)
    assert quantity.milli(text) == direction * min(math.ceil(exact * 1000), LARGEST)


@given(st.text(alphabet="0123456789.+-eEinumkKMGTPx ", max_size=12))
def test_any_text_is_a_quantity_or_a_clear_error(text):
    refusal = None
    try:
        quantity.nano(text)
    except InvalidObject as error:
        refusal = str(error)
    assert refusal is None or "is not a quantity" in refusal


@given(st.integers(0, LARGEST), st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]))
def test_written_quantities_are_read_back(amount, resource):
    text = quantity.format_amount(resource, amount)
    assert quantity.amount(resource, text) == amount
    assert len(text) <= len(str(amount)) + 1


@given(st.lists(st.integers(0, 10**12), max_size=8))
def test_sums_round_once(parts):
    exact = sum(Fraction(part, 10**9) for part in parts)
    assert quantity.nanos_to_milli(sum(quantity.nano(f"{part}n") for part in parts)) == math.ceil(exact * 1000)
