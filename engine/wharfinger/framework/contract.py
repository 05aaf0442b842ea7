"""Checks of what plugins return.

A plugin is somebody else's code. An array of the wrong length, a NaN or a score of 101 would not fail here: it would quietly place pods on
the wrong nodes. So everything that comes back is checked, cheaply, and the offender is named.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.errors import PluginContractError
from wharfinger.framework.normalization import MAX_NODE_SCORE
from wharfinger.framework.verdict import MOST_REASONS, NodeSet, Reason, Rejected, Skip, Verdicts


def verdicts(plugin: str, answer: object, n_rows: int) -> Verdicts:
    """`answer`, if it is the verdicts of a filter for `n_rows` nodes."""
    if not isinstance(answer, Verdicts):
        raise PluginContractError(f"{plugin}.filter returned {type(answer).__name__}, not Verdicts")
    _array(plugin, "filter", answer.bits, n_rows, kinds="ub")
    return answer


def reasons(plugin: str, found: Sequence[object], highest: int) -> None:
    """None; `highest` is the largest bit set that the plugin returned with these reasons."""
    if not all(isinstance(reason, Reason) for reason in found):
        raise PluginContractError(f"{plugin}.filter returned reasons that are not Reason values: {found!r}")
    if len(found) > MOST_REASONS:
        raise PluginContractError(f"{plugin}.filter returned {len(found)} reasons; at most {MOST_REASONS} have a bit")
    if highest >> len(found):
        raise PluginContractError(f"{plugin}.filter set bit {highest.bit_length() - 1}, but gave {len(found)} reason(s)")


def pre_filter(plugin: str, answer: object) -> None:
    """None; `answer` must be one that PreFilter may give."""
    if answer is not None and not isinstance(answer, (Skip, Rejected, NodeSet)):
        raise PluginContractError(f"{plugin}.pre_filter returned {type(answer).__name__}, not None, Skip, Rejected or NodeSet")
    if isinstance(answer, Rejected) and not answer.reasons:
        raise PluginContractError(f"{plugin}.pre_filter returned Rejected without a reason")


def pre_score(plugin: str, answer: object) -> None:
    """None; `answer` must be one that PreScore may give."""
    if answer is not None and not isinstance(answer, Skip):
        raise PluginContractError(f"{plugin}.pre_score returned {type(answer).__name__}, not None or Skip")


def raw_scores(plugin: str, answer: Any, n_rows: int) -> NDArray[Any]:
    """`answer`, if it is an int64 or float64 array of `n_rows` finite raw scores."""
    _array(plugin, "score", answer, n_rows, kinds="if")
    if answer.dtype.kind == "f" and not (math.isfinite(answer.item()) if n_rows == 1 else np.isfinite(answer).all()):
        raise PluginContractError(f"{plugin}.score returned a score that is not finite: {_first(~np.isfinite(answer), answer)}")
    scores: NDArray[Any] = answer
    return scores


def points(plugin: str, answer: NDArray[Any], n_rows: int) -> NDArray[Any]:
    """`answer`, an array of `n_rows`, if it holds integer points in 0..100."""
    if answer.dtype.kind != "i":
        raise PluginContractError(f"{plugin}.score returned an array of {answer.dtype}, not of int64, and has no normalization")
    low, high = (answer.item(),) * 2 if n_rows == 1 else (answer.min(initial=0), answer.max(initial=0))
    if low < 0 or high > MAX_NODE_SCORE:
        culprit = _first((answer < 0) | (answer > MAX_NODE_SCORE), answer)
        raise PluginContractError(f"{plugin} gave a node {culprit} points; points are in 0..{MAX_NODE_SCORE}")
    return answer


def whole_numbers(plugin: str, answer: Any, n_rows: int) -> NDArray[Any]:
    """`answer`, if it is an integer array of `n_rows` normalised scores."""
    _array(plugin, "normalization", answer, n_rows, kinds="i")
    scores: NDArray[Any] = answer
    return scores


def _array(plugin: str, point: str, answer: Any, n_rows: int, kinds: str) -> None:
    if not isinstance(answer, np.ndarray):
        raise PluginContractError(f"{plugin}.{point} returned {type(answer).__name__}, not an array")
    if answer.shape != (n_rows,):
        raise PluginContractError(f"{plugin}.{point} returned an array of shape {answer.shape} for {n_rows} node(s)")
    if answer.dtype.kind not in kinds:
        expected = {"ub": "unsigned integers", "if": "int64 or float64", "i": "int64"}[kinds]
        raise PluginContractError(f"{plugin}.{point} returned an array of {answer.dtype}, not of {expected}")


def _first(culprits: NDArray[np.bool_], values: NDArray[Any]) -> Any:
    return values[culprits.argmax()].item()
