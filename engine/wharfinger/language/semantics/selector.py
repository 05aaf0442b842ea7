"""Label selectors in Kubernetes' own text form: `app=web,tier in (a, b),!canary,generation > 3`.

Read as apimachinery reads them (pkg/labels/selector.go, Kubernetes 1.36): requirements separated by commas, all of which must hold; `==`
is `=`; `!=` and `notin` also hold where the label is absent. Keys and values are validated, because a key that cannot exist matches
nothing, silently.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import partial

from wharfinger.language.semantics.typed import Requirement, SelectorOp

_TOKEN = re.compile(r"\s*(?:(?P<symbol>==|!=|[=!<>(),])|(?P<word>[^\s=!<>(),]+))")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_DNS = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")


class SelectorError(ValueError):
    """A selector that Kubernetes would refuse; `str()` is the reason, `offset` the position in the text."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


def parse_selector(text: str) -> tuple[Requirement, ...]:
    """The requirements of a selector, in the order written; raises `SelectorError`."""
    return _Reader(text).requirements()


def merged(requirements: Sequence[Requirement]) -> tuple[Requirement, ...]:
    """The same condition with at most seven requirements for each key, however many are given.

    Each keeps the position of the first one that it replaces. Takes time in proportion to keys and values.
    """
    found: dict[tuple[str, SelectorOp], dict[str, None]] = {}
    impossible: dict[tuple[str, SelectorOp], Requirement] = {}  # excludes all that `found` has left for the key
    for requirement in requirements:
        place = requirement.key, requirement.op
        values = dict.fromkeys(requirement.values)
        before = found.setdefault(place, values)
        if requirement.op is SelectorOp.NOT_IN:
            before.update(values)
        elif requirement.op is SelectorOp.IN and place not in impossible:
            both = {value: None for value in values if value in before}
            if both:
                found[place] = both
            else:
                impossible[place] = requirement
        elif requirement.op in (SelectorOp.GT, SelectorOp.LT):
            found[place] = dict.fromkeys([max((*before, *values), key=partial(_tightness, requirement.op))])
    return tuple(
        each for place, values in found.items() for each in (Requirement(*place, tuple(values)), impossible.get(place)) if each is not None
    )


def _tightness(op: SelectorOp, bound: str) -> float:
    """The larger, the fewer numbers are beyond a bound; nothing is beyond one that is no int64."""
    number = int(bound)
    if not -(2**63) <= number < 2**63:
        return math.inf
    return number if op is SelectorOp.GT else -number


def key_fault(key: str) -> str | None:
    """The reason why a label key can never exist, or None: `prefix/name` with a DNS prefix and a name of at most 63 characters."""
    prefix, slash, name = key.rpartition("/")
    if slash and (not prefix or len(prefix) > 253 or not _DNS.fullmatch(prefix)):
        return f"`{prefix}` is not a DNS name"
    if not name or len(name) > 63 or not _NAME.fullmatch(name):
        return f"`{name}` is not a name of 1 to 63 letters, digits, `-`, `_` and `.` that begins and ends with a letter or digit"
    return None


def value_fault(value: str) -> str | None:
    """The reason why a label value can never exist, or None."""
    if value and (len(value) > 63 or not _NAME.fullmatch(value)):
        return f"`{value}` is not a label value: at most 63 letters, digits, `-`, `_` and `.` that begin and end with a letter or digit"
    return None


class _Reader:
    """One pass over the tokens of a selector."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, int]] = []
        end = 0
        while match := _TOKEN.match(text, end):
            self.tokens.append(
                (match.group("symbol") or match.group("word"), match.start("symbol") if match["symbol"] else match.start("word"))
            )
            end = match.end()
        self.length = len(text)
        self.at = 0

    def requirements(self) -> tuple[Requirement, ...]:
        found: list[Requirement] = []
        while self.at < len(self.tokens):
            found.append(self.requirement())
            if self.peek() is not None:
                self.expect(",")
                if self.peek() is None:
                    raise self.fault("a requirement is missing after `,`")
        return tuple(found)

    def requirement(self) -> Requirement:
        if self.peek() == "!":
            self.take()
            return Requirement(self.key(), SelectorOp.DOES_NOT_EXIST)
        key = self.key()
        sign = self.peek()
        if sign in (None, ","):
            return Requirement(key, SelectorOp.EXISTS)
        self.take()
        if sign in ("in", "notin"):
            return Requirement(key, SelectorOp.IN if sign == "in" else SelectorOp.NOT_IN, self.values())
        if sign in ("=", "==", "!="):
            return Requirement(key, SelectorOp.NOT_IN if sign == "!=" else SelectorOp.IN, (self.value(),))
        if sign in ("<", ">"):
            return Requirement(key, SelectorOp.GT if sign == ">" else SelectorOp.LT, (self.whole(),))
        self.at -= 1
        raise self.fault(f"`{sign}` is not an operator of selectors; they are `=`, `!=`, `in (…)`, `notin (…)`, `>` and `<`")

    def values(self) -> tuple[str, ...]:
        self.expect("(")
        found = [self.value()]
        while self.peek() == ",":
            self.take()
            found.append(self.value())
        self.expect(")")
        return tuple(dict.fromkeys(found))

    def key(self) -> str:
        word = self.word("a label key")
        if problem := key_fault(word):
            self.at -= 1
            raise self.fault(problem)
        return word

    def value(self) -> str:
        if self.peek() in (None, ",", ")"):
            return ""
        word = self.word("a value")
        if problem := value_fault(word):
            self.at -= 1
            raise self.fault(problem)
        return word

    def whole(self) -> str:
        word = self.word("a whole number")
        if not _WHOLE.fullmatch(word):
            self.at -= 1
            raise self.fault(f"`>` and `<` compare with a whole number, not with `{word}`")
        return word

    def word(self, wanted: str) -> str:
        token = self.peek()
        if token is None or (len(token) <= 2 and token in {"==", "!=", "=", "!", "<", ">", "(", ")", ","}):
            raise self.fault(f"expected {wanted}" + (f" before `{token}`" if token else " at the end"))
        return self.take()

    def expect(self, symbol: str) -> None:
        if self.peek() != symbol:
            token = self.peek()
            raise self.fault(f"expected `{symbol}`" + (f" before `{token}`" if token else " at the end"))
        self.take()

    def peek(self) -> str | None:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else None

    def take(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1][0]

    def fault(self, message: str) -> SelectorError:
        return SelectorError(message, self.tokens[self.at][1] if self.at < len(self.tokens) else self.length)
