"""The operations of the intermediate representation that read nothing but their operands.

Each has a form for plain Python values and one for columns, as the same IEEE operations, so that a subexpression has the same value whether
or not it is computed once for all rows. The form for plain values is Python source where that can be written: it is compiled for single
values (`Op.scalar`) and pasted into the functions that are generated for one row and for one placed pod (`expression`). The operators of
the language are taken from their records (`language.semantics.operators`).

Operands that are not present hold arbitrary values, so no operation may fail on any operand (division by zero included).
"""

from __future__ import annotations

import math
import operator
from bisect import bisect_right
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from types import CodeType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.builtins import texts
from wharfinger.compiler.graph.ir import Op, Rep
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.operators import OPERATORS, Operator
from wharfinger.language.semantics.types import NUMERIC, Kind
from wharfinger.model.columns.domains import MAX_EXACT_SUM, magnitude, summed
from wharfinger.model.devices.device_table import DevicesOf
from wharfinger.model.objects import matching


def written(name: str, source: str, vector: Callable[..., Any] | None = None, **more: Any) -> Op:
    """The operation whose form for plain values is a Python expression on `{0}`, `{1}` and `{2}`."""
    text = f"lambda a, b=None, c=None: {source.format('a', 'b', 'c')}"
    scalar = eval(text, {"nan": math.nan})  # noqa: S307 — the text is from this module and the records of operators
    return Op(name=name, scalar=scalar, vector=vector, source=source, **more)


def _operation(op: typed.Op, rule: Operator) -> Op:
    vector = getattr(np, rule.vector or "")
    return written(op.name.lower(), rule.source or "", vector, may_warn=rule.may_warn)


OF_OPERATOR = {op: _operation(op, rule) for op, rule in OPERATORS.items() if rule.vector is not None}
"""The operations of those operators of the language that are one operation on present operands."""

AND, OR, NOT, EQ, GT, DIV = (OF_OPERATOR[op] for op in (typed.Op.AND, typed.Op.OR, typed.Op.NOT, typed.Op.EQ, typed.Op.GT, typed.Op.DIV))
NE = written("ne", "{0} != {1}", np.not_equal)
WHERE = written("where", "{1} if {0} else {2}", np.where)
MEMBER = written("member", OPERATORS[typed.Op.IN].source or "", lambda x, members: np.isin(x, sorted(members)))

SELECT = Op(name="select")  # operands: which placed pods are selected, and for sums also the value and where it is present

# ── something that may be absent: None from attributes and builtins, a pair of value and presence from columns ───────────────────────────

ARBITRARY = {Rep.FLOAT: "0.0", Rep.BOOL: "False", Rep.TEXT: "''", Rep.CODE: "-1", Rep.OBJECT: "frozenset()"}
_FIRST, _SECOND = operator.itemgetter(0), operator.itemgetter(1)

VALUE_OF = "value of"  # the name of the operations made by `value_of`
IS_PRESENT = written("is present", "{0} is not None", _SECOND, row=_SECOND, row_source="{0}[1]")


@lru_cache(maxsize=len(Rep))
def value_of(rep: Rep) -> Op:
    """The operation that takes the value out of something that may be absent."""
    return written(VALUE_OF, f"{ARBITRARY[rep]} if {{0}} is None else {{0}}", _FIRST, row=_FIRST, row_source="{0}[0]", key=rep)


# ── texts as codes ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

CODE = Op(name="code", scalar=lambda strings, text: strings.code(text))
TEXT = Op(name="text", vector=lambda strings, code: strings.text(int(code)) or "", row=lambda strings, code: strings.text(int(code)) or "")
"""The string of a code that is the same for all rows, as programs about one placed pod take it."""
LOOKUP = Op(name="lookup", vector=lambda table, codes: table.values(codes), row=lambda table, code: table.values(code).item())
LOOKUP_PRESENT = Op(
    name="lookup_present", vector=lambda table, codes: table.present(codes), row=lambda table, code: bool(table.present(code))
)


def table(name: str, test: Callable[[str], bool], key: Hashable) -> Op:
    """The operation that makes a lookup table of a test of strings, from the string table."""
    return Op(name=f"table {name}", scalar=lambda strings: texts.CodeTable(strings, test, bool), key=key)


MEMBERSHIP = Op(name="table member", scalar=lambda strings, members: texts.CodeTable(strings, members.__contains__, bool))


def requirement_test(requirement: typed.Requirement) -> Callable[[str], bool]:
    """The test of a present label's value: true if it satisfies the requirement; for NotIn, if it is among the values."""
    if requirement.op in (typed.SelectorOp.IN, typed.SelectorOp.NOT_IN):
        return frozenset(requirement.values).__contains__
    return matching.Requirement(requirement.key, requirement.op.value, requirement.values).matches_value


# ── tables ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

TABLE = "table entries"
SEARCH = "search"


def _identity(entries: typed.Entries) -> Hashable:
    """The identity of a table, independent of its name: a digest, because each look into the table needs its hash."""
    return entries.once("identity", lambda each: sha256(repr((each.kind, each.keys, each.values)).encode()).digest())


def _plain(entries: typed.Entries) -> Mapping[str | float, Any]:
    """The values of a table by their keys."""
    return entries.once("plain", _read)


def _read(entries: typed.Entries) -> Mapping[str | float, Any]:
    numbers = entries.kind in NUMERIC
    pairs = zip(entries.keys, entries.values, strict=True)
    return {key: float(value) if numbers else value for key, value in pairs}


def under_key(entries: typed.Entries) -> Op:
    """The operation that finds the value of a table under a plain key; None if there is none."""
    return Op(name="under key", scalar=_plain(entries).get, key=_identity(entries))


def table_of_texts(entries: typed.Entries) -> Op:
    """The operation that makes a lookup table of a table with texts as keys, from the string table."""
    dtype = float if entries.kind in NUMERIC else bool if entries.kind is Kind.BOOL else str
    known = _plain(entries)
    return Op(name=TABLE, scalar=lambda strings: texts.CodeTable(strings, known.get, dtype), key=_identity(entries))


def search(entries: typed.Entries) -> Op:
    """The operation that finds the value of a table under each number of a column; texts are found as codes, of the strings given first."""
    return entries.once("search", _search)


def _search(entries: typed.Entries) -> Op:
    order = sorted(_plain(entries).items())
    keys = np.array([key for key, _ in order], dtype=np.float64)
    of_texts = entries.kind in {Kind.STRING, Kind.VERSION}

    def values(strings: Sequence[Any]) -> Any:
        found = [strings[0].code(value) for _, value in order] if of_texts else [value for _, value in order]
        return np.array(found, dtype=np.int32) if of_texts else np.array(found)

    def column(*operands: Any) -> tuple[Any, Any]:
        place = np.minimum(np.searchsorted(keys, operands[-1]), len(keys) - 1)
        return values(operands[:-1])[place], keys[place] == operands[-1]

    def row(*operands: Any) -> tuple[Any, bool]:
        found, present = column(*operands)
        return found.item(), bool(present)

    return Op(name=SEARCH, vector=column, row=row, key=_identity(entries))


# ── curves: piecewise linear, flat outside of their points ───────────────────────────────────────────────────────────────────────────────


class Curve:
    """The curve through known points `(x0, y0, x1, y1, …)`; the xs increase.

    `np.interp` is not used: a compiler may fuse its product and its sum into one rounding, and the last bit would depend on the machine.
    """

    def __init__(self, points: Sequence[float]) -> None:
        self._xs, self._ys = np.array(points[::2], dtype=np.float64), np.array(points[1::2], dtype=np.float64)
        with np.errstate(all="ignore"):
            self._slopes = np.diff(self._ys) / np.diff(self._xs)
        self._plain: tuple[list[float], list[float], list[float]] = self._xs.tolist(), self._ys.tolist(), self._slopes.tolist()

    def one(self, x: float) -> float:
        """The value at a number."""
        xs, ys, slopes = self._plain
        if x <= xs[0]:
            return ys[0]
        if not x < xs[-1]:
            return ys[-1]
        left = bisect_right(xs, x) - 1
        return slopes[left] * (x - xs[left]) + ys[left]

    def column(self, x: Any) -> Any:
        """The value at each number."""
        xs, ys = self._xs, self._ys
        left = np.searchsorted(xs[1:-1], x, side="right")
        inside = self._slopes[left] * (x - xs[left]) + ys[left]
        return np.where(np.less_equal(x, xs[0]), ys[0], np.where(np.less(x, xs[-1]), inside, ys[-1]))


CURVE = Op(name="curve", scalar=lambda x, *points: Curve(points).one(x), may_warn=True)
"""A curve some of whose points are params. `passes.fix_curves` replaces it when the values of the params are known."""


def curve(points: Sequence[float]) -> Op:
    """The operation of a curve through known points."""
    name = "curve " + ", ".join(f"{x:g} -> {y:g}" for x, y in zip(points[::2], points[1::2], strict=True))
    known = Curve(points)
    return Op(name=name, scalar=known.one, vector=known.column, may_warn=True, key=tuple(points))


# ── generated Python code ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def expression(op: Op, operands: Sequence[str], *, at_row: bool) -> str | None:
    """The Python expression of an operation on names; None where the operation has to be called.

    `at_row`: for values of one row, where something that may be absent is a pair of value and presence, and not None.
    """
    source = op.source if not at_row else op.row_source if op.row is not None else op.source
    return None if source is None else source.format(*operands)


@lru_cache(maxsize=1000)
def byte_code(source: str) -> CodeType:
    """The byte code of generated source; policies of one shape, and versions of one policy that differ in numbers, share it."""
    return compile(source, "<policy>", "exec")


# ── aggregates over the devices of each row: from one entry per device to one per row ─────────────────────────────────────────────────────
#
# Each takes the devices of the rows, which of them are selected, and a value for each; it returns the result for each row and where there
# is one. Numbers and conditions that are the same for all devices come without an axis.

Answer = tuple[NDArray[np.float64], NDArray[np.bool_]]


def _chosen(of: DevicesOf, selected: Any, value: Any) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The row and the value of each selected device."""
    chosen = np.broadcast_to(selected, of.owners.shape)
    return of.owners[chosen], np.broadcast_to(value, of.owners.shape)[chosen]


def _counts(of: DevicesOf, owners: NDArray[np.intp]) -> NDArray[np.float64]:
    return np.bincount(owners, minlength=of.n_rows).astype(np.float64)


def _count(of: DevicesOf, selected: Any, value: Any) -> Answer:
    found = _counts(of, _chosen(of, selected, value)[0])
    return found, np.ones(of.n_rows, dtype=np.bool_)


def _sum(of: DevicesOf, selected: Any, value: Any) -> Answer:
    owners, values = _chosen(of, selected, value)
    exact = magnitude(values) <= MAX_EXACT_SUM
    return summed(owners.astype(np.int32), values, of.n_rows, integral=exact), np.ones(of.n_rows, dtype=np.bool_)


def _avg(of: DevicesOf, selected: Any, value: Any) -> Answer:
    counts = _counts(of, _chosen(of, selected, value)[0])
    found = _sum(of, selected, value)[0] / counts
    return found, (counts > 0) & ~np.isnan(found)


def _extreme(ufunc: np.ufunc) -> Callable[[DevicesOf, Any, Any], Answer]:
    def extreme(of: DevicesOf, selected: Any, value: Any) -> Answer:
        owners, values = _chosen(of, selected, value)
        found = np.full(of.n_rows, np.nan)
        ufunc.at(found, owners, values)
        return found, ~np.isnan(found)

    return extreme


DEVICE_REDUCTIONS: Mapping[typed.Reduction, Callable[[DevicesOf, Any, Any], Answer]] = {
    typed.Reduction.COUNT: _count,
    typed.Reduction.SUM: _sum,
    typed.Reduction.AVG: _avg,
    typed.Reduction.MIN: _extreme(np.fmin),
    typed.Reduction.MAX: _extreme(np.fmax),
}
