"""Literals with units to base units, exactly, and back."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.work import calls
from wharfinger.language.semantics import types
from wharfinger.language.semantics.types import Kind

WRITTEN = [
    ("10", "%", 0.1),
    ("0.1", "%", 0.001),
    ("500", "m", 500.0),
    ("4", "cpu", 4000.0),
    ("0.5", "cpu", 500.0),
    ("2", "Gi", 2147483648.0),
    ("2", "G", 2000000000.0),
    ("1.5", "Ki", 1536.0),
    ("1", "k", 1000.0),
    ("100", "B", 100.0),
    ("5", "min", 300.0),
    ("100", "ms", 0.1),
    ("2", "d", 172800.0),
    ("3", "", 3.0),
]


@pytest.mark.parametrize(("digits", "unit", "value"), WRITTEN)
def test_a_literal_with_a_unit_has_its_value_in_base_units(digits, unit, value):
    assert types.base_value(digits, unit) == value


@pytest.mark.parametrize("digits", ["9" * 400, "1e40", "1e-40", "1e-400", "0." + "0" * 400 + "1", "1e999999999"])
def test_absurd_numbers_have_no_value(digits):
    assert types.base_value(digits, "Gi") is None


@pytest.mark.parametrize("digits", ["0.000000", "0e5", "0." + "0" * 400])
def test_zero_is_zero_however_long(digits):
    assert types.base_value(digits, "Gi") == 0.0


def test_m_is_milli_and_never_minutes():
    assert types.UNITS["m"].kind is Kind.CPU
    assert types.meant("mins") == ("min",)


@pytest.mark.parametrize(
    ("written", "meant"),
    [("Gb", ("Gi", "G")), ("GiB", ("Gi",)), ("gi", ("Gi",)), ("cores", ("cpu",)), ("sec", ("s",)), ("hours", ("h",)), ("xyz", ())],
)
def test_a_misspelled_unit_suggests_the_likeliest_units(written, meant):
    assert types.meant(written) == meant


def test_the_dimension_narrows_what_was_meant():
    assert types.meant("mi", Kind.MEMORY) == ("Mi",)


@given(value=st.integers(0, 2**53), kind=st.sampled_from([Kind.CPU, Kind.MEMORY, Kind.DURATION, Kind.COUNT]))
def test_a_printed_literal_means_the_same_value(value, kind):
    text = types.literal(float(value), kind)
    digits = text.rstrip("BkKMGTPEimcpusnhd")
    assert types.base_value(digits, text.removeprefix(digits)) == value


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (4000.0, Kind.CPU, "4cpu"),
        (1250.0, Kind.CPU, "1250m"),
        (2147483648.0, Kind.MEMORY, "2Gi"),
        (0.0, Kind.MEMORY, "0B"),
        (0.1, Kind.PERCENT, "10%"),
        (120.0, Kind.DURATION, "2min"),
        (7.0, Kind.COUNT, "7"),
        (0.25, Kind.NUMBER, "0.25"),
    ],
)
def test_a_literal_is_written_in_the_largest_exact_unit(value, kind, text):
    assert types.literal(value, kind) == text


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (3.7 * 2**30, Kind.MEMORY, "3.7Gi"),
        (1250.0, Kind.CPU, "1.25cpu"),
        (250.0, Kind.CPU, "250m"),
        (0.36125, Kind.PERCENT, "36.1%"),
        (90.0, Kind.DURATION, "90s"),
        (7200.0, Kind.DURATION, "2h"),
        (float("inf"), Kind.NUMBER, "∞"),
        (float("inf"), Kind.CPU, "∞"),
        (float("-inf"), Kind.MEMORY, "−∞"),
        (float("inf"), Kind.DURATION, "∞"),
        (1714564800.0, Kind.TIME, "2024-05-01T12:00:00Z"),
        (-62135596800.0, Kind.TIME, "0001-01-01T00:00:00Z"),
        (1e15, Kind.TIME, "1000000000000000s"),
    ],
)
def test_a_value_for_people_is_rounded(value, kind, text):
    assert types.readable(value, kind) == text


@pytest.mark.parametrize("digits", ["0.1", "9007199254740993", "123456789.123456789", "2.5e-7", "3"])
def test_a_number_without_a_unit_is_the_nearest_float_at_little_work(digits: str) -> None:
    """A text may hold ten thousand of them."""
    assert types.base_value(digits, "") == float(Fraction(digits))
    assert calls(lambda: types.base_value(digits, "")) < 10


@pytest.mark.parametrize("unit", ["Mi", "%", "ms", "cpu", "G"])
@pytest.mark.parametrize("digits", ["0.1", "9007199254740993", "123456789.123456789", "2.5e-7", "3"])
def test_a_quantity_is_the_nearest_float_at_little_work(digits: str, unit: str) -> None:
    assert types.base_value(digits, unit) == float(Fraction(digits) * types.UNITS[unit].factor)
    assert calls(lambda: types.base_value(digits, unit)) < 15


@pytest.mark.parametrize(("value", "kind"), [(3.0 * 2**20, Kind.MEMORY), (0.3, Kind.MEMORY), (1250.0, Kind.CPU), (0.0015, Kind.DURATION)])
def test_a_quantity_is_written_at_little_work(value: float, kind: Kind) -> None:
    types.literal(value, kind)
    assert calls(lambda: types.literal(value, kind)) < 30
