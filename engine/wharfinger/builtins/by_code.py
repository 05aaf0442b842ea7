"""Kernels of string functions: evaluated once per distinct text, then gathered.

Strings are interned: a column of labels is an array of small codes, and 5,000 nodes usually share a handful of texts. A
function of one string column is therefore a table lookup, whatever the function costs. Functions of several string columns are
evaluated once per distinct combination.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from wharfinger.model.strings import StringTable

Kernel = Callable[..., tuple[NDArray[Any], NDArray[np.bool_]]]


def kernel(scalar: Callable[..., Any], dtype: type) -> Kernel:
    """A kernel for `scalar`: `(strings, *arguments) -> (values, present)`, where string columns are int32 arrays of codes.

    Arguments that are one for all nodes are plain Python values. `dtype` is `bool`, `float`, or `str` for functions that give
    texts (interned codes). Codes below 0 stand for absent texts; what is returned for them is marked not present.
    """

    def evaluate(strings: StringTable, *arguments: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        columns = [a for a in arguments if isinstance(a, np.ndarray)]
        distinct, inverse = np.unique(np.stack(np.broadcast_arrays(*columns)), axis=1, return_inverse=True)
        answers = [_answer(scalar, strings, arguments, combination) for combination in distinct.T.tolist()]
        present = np.array([a is not None for a in answers], dtype=np.bool_)
        return _packed(answers, strings, dtype)[inverse], present[inverse]

    return evaluate


def _answer(scalar: Callable[..., Any], strings: StringTable, arguments: tuple[Any, ...], codes: list[int]) -> Any:
    """The answer for one combination of codes; None where one of them is absent."""
    if min(codes) < 0:
        return None
    texts = iter([strings.text(code) for code in codes])
    return scalar(*(next(texts) if isinstance(a, np.ndarray) else a for a in arguments))


def _packed(answers: list[Any], strings: StringTable, dtype: type) -> NDArray[Any]:
    """Answers as an array; absent ones become False, 0 or code -1."""
    if dtype is str:
        return np.array([-1 if a is None else strings.code(a) for a in answers], dtype=np.int32)
    if dtype is bool:
        return np.array([bool(a) for a in answers], dtype=np.bool_)
    return np.array([0.0 if a is None else a for a in answers], dtype=np.float64)
