"""A plugin that violates its contract is reported by name, and its answer is not used."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.framework import fleet
from wharfinger.errors import PluginContractError, PluginFault
from wharfinger.framework.evaluation import cycle
from wharfinger.framework.prepared import DefaultNormalize, Reason, Rejected, Skip
from wharfinger.language.semantics.catalogue import Volatility

REASON = Reason("no")


def bits(*values, dtype=np.uint8):
    return np.array(values, dtype)


FILTERS = {
    r"\.bits returned list, not an array": ((REASON,), [0, 0]),
    r"\.bits returned an array of shape \(3,\) for 2 node\(s\)": ((REASON,), bits(0, 0, 0)),
    r"\.bits returned an array of float64, not of unsigned integers": ((REASON,), bits(0, 0, dtype=float)),
    r"\.bits returned an array of int64, not of unsigned integers": ((REASON,), bits(0, -1, dtype=np.int64)),
    r"\.bits set bit 1, but gave 1 reason\(s\)": ((REASON,), bits(0, 2)),
    r"\.reasons is not a tuple of Reason values": (("no",), bits(0, 1)),
    " has 65 reasons; at most 64 have a bit": ((REASON,) * 65, bits(0, 1)),
}
SCORES = {
    "raw returned list, not an array": [1, 2],
    r"raw returned an array of shape \(1, 2\) for 2 node\(s\)": np.zeros((1, 2), np.int64),
    "raw returned a score that is not finite: nan": np.array([1.0, np.nan]),
    "raw returned a score that is not finite: inf": np.array([np.inf, 1.0]),
    "raw returned an array of bool, not of int64 or float64": np.array([True, False]),
    "raw returned an array of float64, not of int64, and has no normalization": np.array([1.0, 2.0]),
    r"gave a node 101 points; points are in 0\.\.100": np.array([5, 101]),
    r"gave a node -1 points; points are in 0\.\.100": np.array([-1, 5]),
}


def scoring(raw):
    """A `prepare_score` whose score is what `raw(snapshot, rows)` returns."""
    return lambda *_: fleet.Points(raw)


@pytest.mark.parametrize(("message", "answer"), FILTERS.items(), ids=FILTERS)
def test_a_wrong_answer_of_a_filter_names_the_plugin(message, answer):
    reasons, found = answer
    plugin = fleet.stub("Broken", prepare_filter=lambda *_: fleet.Told(lambda *_: found, reasons))
    with pytest.raises(PluginContractError, match=rf"^Broken{message}"):
        cycle.decide(fleet.chain_of(plugin), fleet.state("a", "b").snapshot(), fleet.pod())


@pytest.mark.parametrize(("message", "answer"), SCORES.items(), ids=SCORES)
def test_a_wrong_answer_of_a_score_names_the_plugin(message, answer):
    plugin = fleet.stub("Broken", prepare_score=scoring(lambda *_: answer))
    with pytest.raises(PluginContractError, match=rf"^Broken(\.| ){message}"):
        cycle.decide(fleet.chain_of(plugin), fleet.state("a", "b").snapshot(), fleet.pod())


@pytest.mark.parametrize("answer", [np.array([np.nan]), np.array([101]), np.array([-1]), np.array([1, 2]), np.array([1.5])], ids=str)
def test_a_score_is_checked_also_when_one_row_is_asked_again(answer):
    def raw(snapshot, rows):
        return np.zeros(snapshot.n_nodes, np.int64) if isinstance(rows, slice) else answer

    decider = cycle.Decider(fleet.chain_of(fleet.stub("Broken", prepare_score=scoring(raw), score_volatility=Volatility.ROW)))
    state = fleet.state("a", "b")
    state.assume(fleet.pod("one"), decider.decide(state.snapshot(), fleet.pod("one")).node)
    with pytest.raises((PluginContractError, PluginFault), match=r"Broken( gave|\.raw returned| failed in raw_at)"):
        decider.decide(state.snapshot(), fleet.pod("two"))


class Wild(DefaultNormalize):
    def points(self, scores, low, high):
        return {1: scores + 100, 2: scores * 1.0, 3: [1, 2], 4: scores[:1]}[int(high)]


@pytest.mark.parametrize(
    ("high", "message"),
    [
        (1, "gave a node 101 points"),
        (2, r"\.normalization returned an array of float64"),
        (3, r"\.normalization returned list"),
        (4, r"\.normalization returned an array of shape \(1,\) for 2"),
    ],
)
def test_a_normalization_that_returns_no_points_names_its_plugin(high, message):
    plugin = fleet.stub("Broken", prepare_score=scoring(lambda *_: np.array([0, high])), normalization=Wild())
    with pytest.raises(PluginContractError, match=f"^Broken ?{message}"):
        cycle.decide(fleet.chain_of(plugin), fleet.state("a", "b").snapshot(), fleet.pod())


def test_normalized_points_are_checked_where_feasible_only():
    class Offset(DefaultNormalize):
        def points(self, scores, low, high):
            return scores + 99

    plugin = fleet.stub("Offset", normalization=Offset())
    only_a = {"scores": {"a": 1, "b": 2}, "reject": {"b": ("full",)}}
    assert cycle.decide(fleet.chain_of(plugin, Offset=only_a), fleet.state("a", "b").snapshot(), fleet.pod()).node == "a"
    with pytest.raises(PluginContractError, match="Offset gave a node 101 points"):
        cycle.decide(fleet.chain_of(plugin, Offset={"scores": {"a": 1, "b": 2}}), fleet.state("a", "b").snapshot(), fleet.pod())


@pytest.mark.parametrize(
    ("point", "answer", "message"),
    [
        (
            "prepare_filter",
            None,
            "Broken failed in prepare_filter: PluginContractError: it returned NoneType, not PreparedFilter or Skip or Rejected",
        ),
        ("prepare_filter", Rejected(()), "Broken failed in prepare_filter: PluginContractError: it returned Rejected without a reason"),
        ("prepare_score", "skip", "Broken failed in prepare_score: PluginContractError: it returned str, not PreparedScore or Skip"),
    ],
)
def test_a_wrong_answer_of_a_preparing_method_names_the_plugin(point, answer, message):
    plugin = fleet.stub("Broken", **{point: lambda *_: answer})
    with pytest.raises(PluginFault, match=message):
        cycle.decide(fleet.chain_of(plugin), fleet.state("a").snapshot(), fleet.pod())


def test_an_error_in_is_valid_of_a_skip_names_the_plugin():
    plugin = fleet.stub("Broken", filter_volatility=Volatility.GLOBAL, prepare_filter=lambda *_: Skip(lambda snapshot: 1 / 0))
    decider, state = cycle.Decider(fleet.chain_of(plugin)), fleet.state("a")
    state.assume(fleet.pod("one"), decider.decide(state.snapshot(), fleet.pod("one")).node)
    with pytest.raises(PluginFault, match="plugin Broken failed in is_valid: ZeroDivisionError"):
        decider.decide(state.snapshot(), fleet.pod("two"))
