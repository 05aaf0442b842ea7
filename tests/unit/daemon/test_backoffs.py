"""The backoffs of the settings are those of the queue."""

import pytest

from wharfinger.daemon.compose import limits_of
from wharfinger.daemon.settings import validated

CASES = {
    "those of kube-scheduler by default": ({}, [1, 2, 4, 8, 10, 10]),
    "longer ones": ({"podInitialBackoffSeconds": 30, "podMaxBackoffSeconds": 90}, [30, 60, 90, 90]),
    "one that does not grow": ({"podInitialBackoffSeconds": 10}, [10, 10]),
    "the longest of Go": ({"podMaxBackoffSeconds": 9_223_372_036}, [1, 2, 4]),
}


@pytest.mark.parametrize(("fields", "seconds"), CASES.values(), ids=CASES)
def test_each_wait_is_twice_the_one_before_up_to_the_longest(fields, seconds):
    backoff = limits_of(validated(fields, "wharf.yaml")).queue.backoff
    assert [backoff.seconds(failures) for failures in range(1, len(seconds) + 1)] == seconds
