"""exp, log and sigmoid: near the true value, and the same to the last bit for one number and for a column."""

from __future__ import annotations

import decimal
import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wharfinger.builtins import numbers

PRECISE = decimal.Context(prec=60, Emin=-9999, Emax=9999)
any_float = st.floats(allow_nan=False)
exponents = st.one_of(st.floats(-740, 700), st.floats(-1, 1), st.floats(-1e-9, 1e-9))
positive = st.one_of(st.floats(0, exclude_min=True, allow_infinity=False), st.floats(0.4, 3), st.floats(1 - 1e-9, 1 + 1e-9))
many = settings(max_examples=400, deadline=None)


def ulps(found: float, true: Decimal) -> float:
    """The distance of a number from the true one, in units of the last place."""
    return float(abs(PRECISE.subtract(Decimal(found), true)) / Decimal(math.ulp(float(true))))


@many
@given(exponents)
def test_exp_is_less_than_one_unit_off(x: float):
    assert ulps(numbers.exp(x), PRECISE.exp(Decimal(x))) < 1


@many
@given(positive)
@example(5e-324)
@example(math.sqrt(0.5))
def test_log_is_less_than_one_unit_off(x: float):
    assert x == 1 or ulps(numbers.log(x), PRECISE.ln(Decimal(x))) < 1


@many
@given(exponents)
def test_sigmoid_is_less_than_two_units_off(x: float):
    true = PRECISE.divide(Decimal(1), PRECISE.add(Decimal(1), PRECISE.exp(-Decimal(x))))
    assert ulps(numbers.sigmoid(x), true) < 2


@pytest.mark.parametrize(
    ("one", "all_", "values"),
    [
        (numbers.exp, numbers.exp_column, any_float),
        (numbers.sigmoid, numbers.sigmoid_column, any_float),
        (numbers.log, numbers.log_column, st.floats(0, exclude_min=True)),
        (numbers.exp, numbers.exp_column, exponents),
        (numbers.log, numbers.log_column, positive),
    ],
)
def test_a_number_alone_gives_the_same_result_as_in_a_column(one, all_, values):
    @many
    @given(st.lists(values, min_size=1, max_size=40))
    def agree(numbers: list[float]) -> None:
        with np.errstate(all="ignore"):
            assert all_(np.array(numbers)).tolist() == [one(number) for number in numbers]

    agree()


def test_exact_results():
    assert [numbers.exp(x) for x in (0.0, -0.0, -math.inf, math.nan)] == [1.0, 1.0, 0.0, 0.0]
    assert numbers.exp(math.inf) == numbers.exp(701.0) == numbers.exp(700.0) < math.inf
    assert [numbers.log(x) for x in (1.0, math.inf)] == [0.0, math.inf]
    assert [numbers.sigmoid(x) for x in (0.0, -math.inf, math.inf)] == [0.5, 0.0, 1.0]
