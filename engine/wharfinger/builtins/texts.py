"""Functions of strings: texts, versions as Semantic Versioning 2.0.0 (semver.org, section 11) orders them, quantities, and hashes.

Each is one plain Python function. Strings are interned: a column of labels is an array of small codes, and 5,000 nodes usually share a few
values. So a kernel evaluates the function once per distinct string, or distinct combination of strings, and looks the rest up. Regular
expressions run on RE2, whose matching time is linear in the length of the text, so no policy can block the scheduler with one.

Kubernetes and its nodes write versions loosely (`v1.28`, `5.15.0-105-generic`): a leading `v` and missing minor or patch numbers are
accepted, and build metadata (`+…`) is ignored.

A quantity in a label or an annotation (`40Gi`, `500m`) has no dimension: `2` may be bytes, cores or devices. So there is a function for
each dimension. Amounts are kept within int64, as Kubernetes keeps them.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import re2
from numpy.typing import NDArray

from wharfinger.builtins.signature import always, text
from wharfinger.errors import InvalidObject
from wharfinger.language.semantics.bounds import Magnitude
from wharfinger.language.semantics.catalogue import Function
from wharfinger.language.semantics.types import Kind
from wharfinger.model.columns.arrays import StringTable
from wharfinger.model.objects import quantity

DTYPES: dict[type, type[np.generic]] = {bool: np.bool_, float: np.float64, str: np.int32}
UNKNOWN, MISSING, PRESENT = -1, 0, 1
SPARE_CODES = 64  # room for strings that are interned later; the last entry is for code -1, absent

REGEX_MEMORY = 256 * 1024  # bytes RE2 may spend on one expression: thousands of states, microseconds to match a label value
MAX_REGEX_WORK = 1_000_000
"""Characters of a text times instructions of an expression: about 12 ms of RE2 at worst."""
MAX_INSTRUCTIONS = MAX_REGEX_WORK // 253  # of an expression, so that the longest name of Kubernetes is never too long for it
REGEX_STEPS, REGEX_LETTER_STEPS = 800, 6  # of a check, for one expression and each of its characters: four milliseconds of RE2, and 0.03
INT64 = Magnitude(-64.0, 64.0)  # of the amounts of quantities
DECIMAL = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,2})?", re.ASCII)

VERSION = re.compile(r"v?([0-9]{1,9})(?:\.([0-9]{1,9}))?(?:\.([0-9]{1,9}))?(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII)

MAX_VERSION_LENGTH = 255  # as semver.org suggests; no number in it is then too long to be read

Identifier = tuple[int, int, str]
Ordered = tuple[int, int, int, bool, tuple[Identifier, ...]]


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
        self._compute_missing(np.asarray(codes))
        return self._answers[codes]

    def present(self, codes: NDArray[np.int32]) -> NDArray[np.bool_]:
        """True where there is a result, for each code."""
        present: NDArray[np.bool_] = self._compute_missing(np.asarray(codes)) == PRESENT
        return present

    def _compute_missing(self, codes: NDArray[np.int32]) -> NDArray[np.int8]:
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
        size = len(self._strings) + SPARE_CODES
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


class TextOrder:
    """The order of strings, by their codes: the rank of each string that was compared so far.

    Codes are not ordered as their strings are. Strings that are new are put in order with those that are known, so that an order is made
    again only when nodes bring new strings.
    """

    __slots__ = ("_codes", "_key", "_ranks", "_strings")

    def __init__(self, key: Callable[[str], Any] | None) -> None:
        self._key = key
        self._strings: StringTable | None = None
        self._codes: list[int] = []  # in order
        self._ranks: NDArray[np.float64] = np.zeros(0)

    def ranks(self, strings: StringTable, codes: NDArray[np.int32]) -> NDArray[np.float64]:
        """A number for each code that orders as the strings do; comparable within one answer. NaN where the string is absent."""
        if strings is not self._strings:
            self._strings, self._codes, self._ranks = strings, [], np.full(1, np.nan)
        if len(strings) >= len(self._ranks):
            grown = np.full(len(strings) + SPARE_CODES, np.nan)
            grown[: len(self._ranks) - 1] = self._ranks[:-1]
            self._ranks = grown
        found = self._ranks[codes]
        unknown = np.isnan(found) & (codes >= 0)
        if unknown.any():
            self._insert(strings, np.unique(codes[unknown]).tolist())
            found = self._ranks[codes]
        return found

    def _insert(self, strings: StringTable, codes: list[int]) -> None:
        key = self._key

        def place(code: int) -> Any:
            text = strings.text(code) or ""
            found = text if key is None else key(text)
            return () if found is None else (found,)  # a value that is not present may be any text

        self._codes.extend(codes)
        self._codes.sort(key=place)
        self._ranks[self._codes] = np.arange(len(self._codes), dtype=np.float64)


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


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Any:
    """The compiled expression; raises re2.error if it is invalid or too costly."""
    options = re2.Options()
    options.max_mem = REGEX_MEMORY
    options.log_errors = False
    return re2.compile(pattern, options)


def instructions(pattern: str) -> int:
    """The instructions that RE2 makes of a regular expression; raises re2.error if it is invalid or too costly."""
    size: int = compiled(pattern).programsize
    return size


def regex_steps(pattern: str) -> int:
    """The steps of a check that it takes to compile a regular expression, or to find that it is too costly."""
    return REGEX_STEPS + REGEX_LETTER_STEPS * len(pattern)


def regex_fault(pattern: object) -> str | None:
    """The error in a regular expression (not in the syntax of RE2, or too costly), or None."""
    try:
        size = instructions(str(pattern))
    except re2.error as error:
        reason = error.args[0] if error.args else "not understood"
        message = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        return f"too costly: {message}" if "too large" in message or "repetition" in message else f"not a regular expression: {message}"
    return None if size <= MAX_INSTRUCTIONS else f"too costly: {size:,} instructions of RE2, at most {MAX_INSTRUCTIONS:,} are allowed"


def _matches_regex(value: str, pattern: str) -> bool:
    expression = compiled(pattern)
    return len(value) * expression.programsize <= MAX_REGEX_WORK and expression.search(value) is not None


def _number(value: str) -> float | None:
    if DECIMAL.fullmatch(value) is None:
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def _contains(value: str, part: str) -> bool:
    return part in value


STRINGS = (
    Function(
        name="starts_with",
        parameters=(text("text"), text("prefix")),
        result=always(Kind.BOOL),
        doc="True if `text` begins with `prefix`.",
        example='starts_with(node.name, "gpu-")',
        scalar=str.startswith,
        vector=Kernel(str.startswith, bool),
    ),
    Function(
        name="ends_with",
        parameters=(text("text"), text("suffix")),
        result=always(Kind.BOOL),
        doc="True if `text` ends with `suffix`.",
        example='ends_with(pod.namespace, "-prod")',
        scalar=str.endswith,
        vector=Kernel(str.endswith, bool),
    ),
    Function(
        name="contains",
        parameters=(text("text"), text("part")),
        result=always(Kind.BOOL),
        doc="True if `part` occurs in `text`.",
        example='contains(node.name, "spot")',
        scalar=_contains,
        vector=Kernel(_contains, bool),
    ),
    Function(
        name="lower",
        parameters=(text("text"),),
        result=always(Kind.STRING),
        doc="`text` in lower case.",
        example='lower(node.name) == "a100"',
        scalar=str.lower,
        vector=Kernel(str.lower, str),
    ),
    Function(
        name="upper",
        parameters=(text("text"),),
        result=always(Kind.STRING),
        doc="`text` in upper case.",
        example='upper(pod.namespace) == "TEAM-A"',
        scalar=str.upper,
        vector=Kernel(str.upper, str),
    ),
    Function(
        name="matches_regex",
        parameters=(text("text"), text("pattern", literal=True, validate=regex_fault, steps=regex_steps)),
        result=always(Kind.BOOL),
        doc="True if the RE2 regular expression `pattern` matches somewhere in `text`; write `^…$` to match all of it. No pattern matches "
        f"a text with more than {MAX_REGEX_WORK:,} characters times instructions of RE2 (about the characters of the expression, with "
        "repetitions written out). Names and labels are never that long, annotations may be.",
        example='matches_regex(node.name, "^rack-[0-9]+-")',
        scalar=_matches_regex,
        vector=Kernel(_matches_regex, bool),
    ),
    Function(
        name="number",
        parameters=(text("text"),),
        result=always(Kind.NUMBER, optional=True),
        doc="The decimal number that `text` spells; missing where it does not spell one.",
        example='(number(node.labels["gpu-generation"]) ?? 0) >= 8',
        scalar=_number,
        vector=Kernel(_number, float),
        never_nan=True,
    ),
)


@lru_cache(maxsize=1024)
def ordered(version: str) -> Ordered | None:
    """A tuple that orders as the version does; None if the text is not a version."""
    found = VERSION.fullmatch(version) if len(version) <= MAX_VERSION_LENGTH else None
    if found is None:
        return None
    major, minor, patch, pre = found.groups()
    identifiers = tuple(_identifier(part) for part in pre.split(".")) if pre else ()
    return (int(major), int(minor or 0), int(patch or 0), pre is None, identifiers)


def _identifier(part: str) -> Identifier:
    """Numeric identifiers order by value and before the others, which order by their characters."""
    return (0, int(part), "") if part.isdigit() else (1, 0, part)


def version_fault(version: object) -> str | None:
    """The error in a version written in a policy, or None."""
    return None if ordered(str(version)) else 'not a version; write it as "1.28" or "1.28.3-rc.1"'


def _semver(version: str) -> str | None:
    """The version in one spelling: `v1.30` is `1.30.0`, build metadata is left out; None if the text is not a version."""
    found = ordered(version)
    if found is None:
        return None
    *numbers, _, pre = found
    identifiers = ".".join(name or str(number) for _, number, name in pre)
    return ".".join(map(str, numbers)) + (f"-{identifiers}" if identifiers else "")


def _compare(a: str, b: str) -> float | None:
    left, right = ordered(a), ordered(b)
    if left is None or right is None:
        return None
    return float((left > right) - (left < right))


def _at_least(version: str, minimum: str) -> bool | None:
    order = _compare(version, minimum)
    return None if order is None else order >= 0


COMPARED = Function(
    name="version_compare",
    parameters=(text("a"), text("b")),
    result=always(Kind.NUMBER),
    doc="The order of two values of kind version, which are versions for certain: -1, 0 or 1.",
    example="",
    scalar=_compare,
    vector=Kernel(_compare, float),
    interval=lambda *_: (-1.0, 1.0),
)
"""The function that comparisons of versions (`<` and others) are compiled to."""

VERSIONS = (
    Function(
        name="semver",
        parameters=(text("text", validate=version_fault),),
        result=always(Kind.VERSION, optional=True),
        doc="The version that `text` spells, to be compared with others; missing where it is not a version (Semantic Versioning; a leading "
        "`v` and missing minor or patch numbers are accepted).",
        example='semver(node.labels["driver"]) >= semver("535.104")',
        scalar=_semver,
        vector=Kernel(_semver, str),
        folded=True,
    ),
    Function(
        name="version_compare",
        parameters=(text("a"), text("b")),
        result=always(Kind.NUMBER, optional=True),
        doc="-1, 0 or 1 as version `a` is older than, equal to or newer than `b` (Semantic Versioning); missing where one is no version.",
        example='(version_compare(node.labels["driver"], "535.104") ?? -1) >= 0',
        scalar=_compare,
        vector=Kernel(_compare, float),
        interval=lambda *_: (-1.0, 1.0),
    ),
    Function(
        name="version_at_least",
        parameters=(text("version"), text("minimum", literal=True, validate=version_fault)),
        result=always(Kind.BOOL, optional=True),
        doc="True if `version` is `minimum` or newer (Semantic Versioning); missing if it is not a version.",
        example='version_at_least(node.labels["driver"], "535.104") ?? false',
        scalar=_at_least,
        vector=Kernel(_at_least, bool),
    ),
)


def _bytes(value: str) -> float | None:
    """Whole bytes, rounded up, as Kubernetes counts memory."""
    return _parsed(quantity.value, value)


def _millicores(value: str) -> float | None:
    return _parsed(quantity.milli, value)


def _plain(value: str) -> float | None:
    return _parsed(_units, value)


def _units(value: str) -> float:
    limit = quantity.INT64_MAX * quantity.NANO
    return min(max(quantity.nano(value), -limit), limit) / quantity.NANO


def _parsed(parse: Callable[[str], float], value: str) -> float | None:
    try:
        return float(parse(value))
    except InvalidObject:
        return None


def quantity_fault(value: object) -> str | None:
    """The error in a quantity written in a policy, or None."""
    return None if _bytes(str(value)) is not None else 'not a quantity; write it as Kubernetes does: "40Gi", "500m" or "1e3"'


def _quantity(name: str, kind: Kind, parse: Callable[[str], float | None], doc: str, example: str) -> Function:
    return Function(
        name=name,
        parameters=(text("text", validate=quantity_fault),),
        result=always(kind, optional=True),
        doc=doc,
        example=example,
        scalar=parse,
        vector=Kernel(parse, float),
        magnitude=lambda *_: INT64,
        never_nan=True,
        folded=True,
    )


QUANTITIES = (
    _quantity(
        "quantity",
        Kind.MEMORY,
        _bytes,
        "The amount of memory that `text` spells as Kubernetes does (`40Gi`, `500M`, `1e9`), in bytes; missing if it is no such quantity.",
        'quantity(node.labels["gpu-memory"]) >= 40Gi',
    ),
    _quantity(
        "quantity.cpu",
        Kind.CPU,
        _millicores,
        "The amount of cpu that `text` spells (`2`, `500m`); missing if it is no such quantity.",
        '(quantity(node.annotations["burst"]).cpu ?? 0cpu) >= 2cpu',
    ),
    _quantity(
        "quantity.number",
        Kind.NUMBER,
        _plain,
        "The number that `text` spells as a quantity (`1500m` is 1.5, `2k` is 2000); missing if it is no such quantity.",
        '(quantity(node.labels["slots"]).number ?? 0) >= 4',
    ),
)


HASH_DIGITS = 13  # hexadecimal digits of a float64's 52 bits: the quotient is exact


def hash_of(value: str) -> float:
    """The first 13 hexadecimal digits of the SHA-256 of the UTF-8 text, divided by 16^13: at least 0 and below 1."""
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
    fraction: float = int(digest[:HASH_DIGITS], 16) / 16**HASH_DIGITS
    return fraction


HASHES = (
    Function(
        name="hash",
        parameters=(text("text"),),
        result=always(Kind.PERCENT),
        doc="A percentage from 0% to just below 100%, the same for `text` on every machine. Different texts are spread evenly. It is the "
        "first 13 hexadecimal digits of the SHA-256 of `text`, divided by 16^13.",
        example="hash(pod.owner_name ?? pod.name) < 10%",
        scalar=hash_of,
        vector=Kernel(hash_of, float),
        interval=lambda *_: (0.0, 1.0),
        never_nan=True,
    ),
)
