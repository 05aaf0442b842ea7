"""Faults of plugins: checks of their answers, and a wrapper around the methods of third-party plugins.

An exception in a third-party plugin, or an answer of the wrong shape, becomes an error that names the plugin.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from wharfinger.errors import PluginContractError, PluginFault
from wharfinger.framework import extension, plugins
from wharfinger.framework.ports import BindFailed
from wharfinger.framework.verdict import MAX_NODE_SCORE, MOST_REASONS, NodeSet, Reason, Rejected, Skip, Verdicts

P = TypeVar("P", bound=extension.Plugin)

FENCED = "_fenced"

ANSWERS: Mapping[str, tuple[type, ...]] = {
    "may_help": (bool, np.bool_),
    "pre_enqueue": (Reason, type(None)),
    "post_filter": (extension.PostFilterOutcome,),
    "reserve": (Reason, type(None)),
    "permit": (extension.Permission,),
    "pre_bind": (Reason, type(None)),
    "bind": (Reason, bool),
}
"""Types that a method may return; for methods whose answer is not checked elsewhere (verdicts and scores are)."""


def verdicts(plugin: str, answer: object, n_rows: int) -> Verdicts:
    """`answer`, if it is the verdicts of a filter for `n_rows` nodes."""
    if not isinstance(answer, Verdicts):
        raise PluginContractError(f"{plugin}.filter returned {type(answer).__name__}, not Verdicts")
    _array(plugin, "filter", answer.bits, n_rows, kinds="ub")
    return answer


def reasons(plugin: str, found: Sequence[object], highest: int) -> None:
    """Checks the reasons of a verdict; `highest` is the largest bit set that the plugin returned with them."""
    if not all(isinstance(reason, Reason) for reason in found):
        raise PluginContractError(f"{plugin}.filter returned reasons that are not Reason values: {found!r}")
    if len(found) > MOST_REASONS:
        raise PluginContractError(f"{plugin}.filter returned {len(found)} reasons; at most {MOST_REASONS} have a bit")
    if highest >> len(found):
        raise PluginContractError(f"{plugin}.filter set bit {highest.bit_length() - 1}, but gave {len(found)} reason(s)")


def pre_filter(plugin: str, answer: object) -> None:
    """Checks that PreFilter may give this answer."""
    if answer is not None and not isinstance(answer, (Skip, Rejected, NodeSet)):
        raise PluginContractError(f"{plugin}.pre_filter returned {type(answer).__name__}, not None, Skip, Rejected or NodeSet")
    if isinstance(answer, Rejected) and not answer.reasons:
        raise PluginContractError(f"{plugin}.pre_filter returned Rejected without a reason")


def pre_score(plugin: str, answer: object) -> None:
    """Checks that PreScore may give this answer."""
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


def calls() -> Mapping[str, tuple[type[extension.Plugin], Callable[..., Any]]]:
    """Every method that the framework calls of a plugin, by name: the extension point's class and the method it has there."""
    bases: tuple[type[extension.Plugin], ...] = (extension.Plugin, *extension.POINTS.values())
    return {
        name: (base, method)
        for base in bases
        for name, method in inspect.getmembers(base, inspect.isfunction)
        if name in vars(base) and not name.startswith("_")
    }


def is_foreign(plugin: extension.Plugin) -> bool:
    """True if a plugin is not one of the built-in ones."""
    return not type(plugin).__module__.startswith(f"{plugins.__name__}.")


def fenced(plugin: P) -> P:
    """The same plugin, with its methods wrapped: an exception or an answer of the wrong type becomes a `PluginFault`.

    Built-in plugins are not wrapped. Neither are methods that a plugin does not override, because callers test for these.
    """
    if is_foreign(plugin) and FENCED not in vars(plugin):
        object.__setattr__(plugin, FENCED, True)
        for name, (base, method) in calls().items():
            if isinstance(plugin, base) and getattr(type(plugin), name) is not method:
                wrap = _awaited if inspect.iscoroutinefunction(method) else _called
                object.__setattr__(plugin, name, wrap(plugin.name, name, getattr(plugin, name)))
    return plugin


def _called(plugin: str, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*arguments: Any) -> Any:
        try:
            answer = method(*arguments)
        except Exception as error:
            raise _fault(plugin, name, error) from error
        return _checked(plugin, name, answer)

    return call


def _awaited(plugin: str, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    async def call(*arguments: Any) -> Any:
        try:
            answer = await method(*arguments)
        except BindFailed:  # an expected outcome of binding, not a fault
            raise
        except Exception as error:
            raise _fault(plugin, name, error) from error
        return _checked(plugin, name, answer)

    return call


def _fault(plugin: str, name: str, error: Exception) -> PluginFault:
    """The `PluginFault` for an error; an error that is a `PluginFault` already stays the same."""
    return error if isinstance(error, PluginFault) else PluginFault(plugin, name, error)


def _checked(plugin: str, name: str, answer: Any) -> Any:
    """`answer`, if the method may return it (see `ANSWERS`)."""
    kinds = ANSWERS.get(name)
    if kinds is None or isinstance(answer, kinds):
        return answer
    expected = " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
    raise PluginFault(plugin, name, PluginContractError(f"it returned {type(answer).__name__}, not {expected}"))
