"""Times as text, to the second and to the microsecond."""

import pytest

from wharfinger.model.objects.metadata import micro_time, time_text


def test_times_have_microseconds():
    assert micro_time(1.5) == "1970-01-01T00:00:01.500000Z"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "1970-01-01T00:00:00Z"), (1.9, "1970-01-01T00:00:01Z"), (1_767_323_045.0, "2026-01-02T03:04:05Z")]
)
def test_times_are_cut_to_the_second(seconds, text):
    assert time_text(seconds) == text
