"""Suggestions: at most one name, and only a similar one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.language.report.wording import closest, distance


@pytest.mark.parametrize(
    ("word", "candidates", "meant"),
    [
        ("memroy", ["cpu", "memory"], "memory"),
        ("podCount", ["pods", "pod_count"], "pod_count"),
        ("NodeResourceFit", ["NodeResourcesFit", "NodeAffinity"], "NodeResourcesFit"),
        ("cnt", ["cpu", "count", "cut"], "count"),
        ("mem", ["cpu", "memory", "men"], "memory"),
        ("prio", ["ratio", "priority"], "priority"),
        ("lbls", ["annotations", "labels"], "labels"),
        ("req", ["requests", "requested"], None),
        ("cap", ["c", "capacity", "cap_"], "cap_"),
        ("net", ["neutral", "nodes"], None),
        ("me", ["memory"], None),
        ("mory", ["memory"], "memory"),
        ("ory", ["memory"], None),
        ("mem", ["free.memory"], None),
        ("banana", ["cpu", "memory"], None),
        ("b", ["a"], None),
        ("free", ["free"], None),
        ("x" * 200, ["x" * 199], None),
    ],
)
def test_only_a_similar_name_or_one_that_the_word_abbreviates_is_suggested(word, candidates, meant):
    assert closest(word, candidates) == meant


WORDS = st.text("abcd", max_size=8)


@given(WORDS, WORDS)
def test_distance_is_symmetric_and_zero_only_for_equals(a, b):
    assert distance(a, b, 8) == distance(b, a, 8)
    assert (distance(a, b, 8) == 0) == (a == b)


@given(WORDS, WORDS, st.integers(0, 8))
def test_a_bound_does_not_change_small_distances(a, b, limit):
    assert distance(a, b, limit) == min(distance(a, b, 8), limit + 1)
