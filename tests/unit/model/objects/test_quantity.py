"""Quantities are read, summed and written as by Kubernetes."""

import pytest

from tests.unit.model import cases
from wharfinger.errors import InvalidObject
from wharfinger.model.objects import quantity


@pytest.mark.parametrize(("text", "milli", "value"), cases.lines("quantities.jsonl"))
def test_reads_as_kubernetes_reads(text, milli, value):
    if milli is None:
        with pytest.raises(InvalidObject, match="is not a quantity"):
            quantity.nano(text)
        return
    assert quantity.milli(text) == (quantity.INT64_MAX if milli == "over" else milli)
    assert quantity.value(text) == (quantity.INT64_MAX if value == "over" else value)


def test_sums_are_exact_where_rounding_first_would_not_be():
    assert quantity.nanos_to_milli(quantity.nano("400u") * 5) == 2
    assert sum(quantity.milli("400u") for _ in range(5)) == 5


def test_huge_exponents_cost_nothing_and_saturate():
    assert quantity.value("1e2147483647") == quantity.INT64_MAX
    assert quantity.value("1e-2147483647") == 1
    assert quantity.value("0e2147483647") == 0


def test_text_too_long_to_be_meant_is_refused_shortened():
    with pytest.raises(InvalidObject, match="…"):
        quantity.nano("9" * 5000)


@pytest.mark.parametrize(
    ("resource", "count", "text"),
    [
        ("cpu", 0, "0"),
        ("cpu", 500, "500m"),
        ("cpu", 4000, "4"),
        ("cpu", 15890, "15890m"),
        ("memory", 0, "0"),
        ("memory", 2 * 1024**3, "2Gi"),
        ("memory", 1536 * 1024**2, "1536Mi"),
        ("memory", 1000, "1000"),
        ("memory", 1025, "1025"),
        ("memory", 2**60, "1Ei"),
        ("hugepages-2Mi", 4 * 1024**2, "4Mi"),
        ("nvidia.com/gpu", 1024, "1024"),
    ],
)
def test_amounts_are_written_as_kubernetes_writes_them(resource, count, text):
    assert quantity.format_amount(resource, count) == text
    assert quantity.amount(resource, text) == count


def test_bad_quantity_says_what_is_wrong():
    with pytest.raises(InvalidObject, match=r"'2GB' is not a quantity: 'GB' is neither one of n u m|'2GB' is not a quantity: a number"):
        quantity.nano("2GB")
    with pytest.raises(InvalidObject, match=r"'1KM' is not a quantity: 'KM' is neither one of .* nor an exponent such as e3"):
        quantity.nano("1KM")
