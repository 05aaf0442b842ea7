"""Backoffs grow up to a maximum."""

import pytest

from wharfinger.kube.api_errors import RequestBackoff, ServerError, TooManyRequests, Unreachable


@pytest.mark.parametrize(
    ("error", "waits"),
    [
        (None, [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]),
        (ServerError("broken", status=500), [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]),
        (Unreachable("nobody there"), [0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0, 2.0]),
        (TooManyRequests("busy", retry_after=1.0), [1.0, 1.0, 1.0, 1.6, 3.2, 6.4, 10.0, 10.0]),
    ],
)
def test_waits_double_up_to_a_limit_that_is_low_without_an_answer(error, waits):
    backoff = RequestBackoff(draw=lambda: 0.0)
    assert [backoff.after(error) for _ in waits] == waits


def test_waits_are_stretched_at_random_and_begin_again():
    backoff = RequestBackoff(draw=lambda: 1.0)
    assert [backoff.after(), backoff.after()] == [0.2 * 1.5, 0.4 * 1.5]
    backoff.reset()
    assert backoff.after() == 0.2 * 1.5
