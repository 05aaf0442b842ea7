"""Kernels of string functions: evaluated once per distinct string, then looked up.

Strings are interned: a column of labels is an array of small codes, and 5,000 nodes usually share a handful of values. A function of one
string column is therefore a table lookup, whatever the function costs. A function of several string columns is evaluated once per distinct
combination.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.model.columns.strings import StringTable

DTYPES: dict[type, type[np.generic]] = {bool: np.bool_, float: np.float64, str: np.int32}
UNKNOWN, MISSING, PRESENT = -1, 0, 1
SPARE = 64  # room for strings that are interned later; the last entry stands for code -1, absent


class CodeTable:
    """Results of a function of one string, by the code of the string; each is computed when first needed.

    `dtype` is what the function returns: `bool`, `float`, or `str` for strings (kept as codes). It may return None: missing.
    """

    __slots__ = ("_answers", "_dtype", "_evaluate", "_states", "_strings")

    def __init__(self, strings: StringTable, evaluate: Callable[[str], Any], dtype: type) -> None:
        self._strings = strings
        self._evaluate = evaluate
        self._dtype = dtype
        self._answers: NDArray[Any] = np.zeros(0, dtype=DTYPES[dtype])
        self._states: NDArray[np.int8] = np.zeros(0, dtype=np.int8)

    def values(self, codes: NDArray[np.int32]) -> NDArray[Any]:
        """The result for each code (or for a single code); False, 0 or code -1 where it is missing or the string is absent."""
        self._learn(np.asarray(codes))
        return self._answers[codes]

    def present(self, codes: NDArray[np.int32]) -> NDArray[np.bool_]:
        """True where there is a result, for each code."""
        present: NDArray[np.bool_] = self._learn(np.asarray(codes)) == PRESENT
        return present

    def _learn(self, codes: NDArray[np.int32]) -> NDArray[np.int8]:
        """The state of each code; results that are not known yet are computed."""
        if len(self._strings) >= len(self._states):
            self._grow()
        states = self._states[codes]
        if states.size and states.min() == UNKNOWN:
            for code in np.unique(codes[states == UNKNOWN]).tolist():
                self._ask(code)
            states = self._states[codes]
        return states

    def _grow(self) -> None:
        size = len(self._strings) + SPARE
        old, old_states = self._answers[:-1], self._states[:-1]
        self._answers = np.full(size, -1 if self._dtype is str else 0, dtype=DTYPES[self._dtype])
        self._states = np.full(size, UNKNOWN, dtype=np.int8)
        self._answers[: len(old)], self._states[: len(old_states)] = old, old_states
        self._states[-1] = MISSING

    def _ask(self, code: int) -> None:
        text = self._strings.text(code)
        answer = None if text is None else self._evaluate(text)
        self._states[code] = MISSING if answer is None else PRESENT
        if answer is not None:
            self._answers[code] = self._strings.code(answer) if self._dtype is str else answer


class Kernel:
    """The kernel of a string function: `(strings, *arguments) -> (values, present)`.

    String columns among the arguments are int32 arrays of codes; arguments that are the same for all nodes are plain Python values.
    """

    __slots__ = ("dtype", "scalar")

    def __init__(self, scalar: Callable[..., Any], dtype: type) -> None:
        self.scalar = scalar
        self.dtype = dtype

    def table(self, strings: StringTable, column: int, *rest: Any) -> CodeTable:
        """The lookup table for argument number `column`, with `rest` as the other arguments."""
        before, after = rest[:column], rest[column:]
        return CodeTable(strings, lambda text: self.scalar(*before, text, *after), self.dtype)

    def __call__(self, strings: StringTable, *arguments: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The values, and where they are present, for each row."""
        columns = [index for index, argument in enumerate(arguments) if isinstance(argument, np.ndarray)]
        if len(columns) == 1:
            rest = [argument for index, argument in enumerate(arguments) if index != columns[0]]
            table = self.table(strings, columns[0], *rest)
            return table.values(arguments[columns[0]]), table.present(arguments[columns[0]])
        together = np.broadcast_arrays(*(arguments[c] for c in columns))
        distinct, inverse = np.unique(np.stack([codes.reshape(-1) for codes in together]), axis=1, return_inverse=True)
        inverse = inverse.reshape(together[0].shape)
        answers = [self._answer(strings, arguments, columns, combination) for combination in distinct.T.tolist()]
        present = np.array([a is not None for a in answers], dtype=np.bool_)
        return self._packed(answers, strings)[inverse], present[inverse]

    def _answer(self, strings: StringTable, arguments: tuple[Any, ...], columns: list[int], codes: list[int]) -> Any:
        """The result for one combination of codes; None if a string is absent."""
        if min(codes) < 0:
            return None
        texts = dict(zip(columns, map(strings.text, codes), strict=True))
        return self.scalar(*(texts.get(index, argument) for index, argument in enumerate(arguments)))

    def _packed(self, answers: list[Any], strings: StringTable) -> NDArray[Any]:
        if self.dtype is str:
            return np.array([strings.code(answer) for answer in answers], dtype=np.int32)
        return np.array([self.dtype() if answer is None else answer for answer in answers], dtype=DTYPES[self.dtype])
