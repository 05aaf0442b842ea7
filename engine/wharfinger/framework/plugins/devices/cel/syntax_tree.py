"""Compiled expressions as the runtime serializes them: messages in the wire format of protocol buffers, read, made and changed.

The messages are those of https://github.com/google/cel-spec/tree/master/proto/cel/expr: an `Expr` has one field for its form.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Final

Message = Mapping[int, Sequence[bytes | int]]

CONSTANT: Final = 3
IDENTIFIER: Final = 4
SELECT: Final = 5
CALL: Final = 6
LIST: Final = 7
STRUCT: Final = 8
COMPREHENSION: Final = 9
ID: Final = 2

_CHECKED: Final = 2  # of the `Any`: the `CheckedExpr`
_EXPRESSION: Final = 4  # of that: its `Expr`
_NESTED: Final = {SELECT: {1}, CALL: {1, 3}, LIST: {1}, COMPREHENSION: {2, 4, 5, 6, 7}}
"""The fields of each form that are expressions; a struct has entries with fields 3 and 4."""
_BYTES: Final = 2  # the wire type of texts, bytes and messages
_SIZES: Final = {1: 8, 5: 4}  # of the wire types of fixed length


def fields(message: bytes) -> Message:
    """The fields of a message, by number."""
    found: dict[int, list[bytes | int]] = {}
    for number, value, _, _ in _entries(message):
        if number in found:
            found[number].append(value)
        else:
            found[number] = [value]
    return found


def _entries(message: bytes) -> list[tuple[int, bytes | int, int, int]]:
    """The fields of a message in order: the number and value of each, and where it begins and ends.

    Most numbers have one byte. They are read here: a call for each would take most of the time.
    """
    found = []
    at, end = 0, len(message)
    while at < end:
        begin = at
        tag, at = message[at], at + 1
        if tag > 127:
            tag, at = _number(message, begin)
        wire_type = tag & 7
        value: bytes | int
        if wire_type in _SIZES:
            size = _SIZES[wire_type]
        else:
            size, at = message[at], at + 1
            if size > 127:
                size, at = _number(message, at - 1)
        if wire_type:
            value, at = message[at : at + size], at + size
        else:
            value = size
        found.append((tag >> 3, value, begin, at))
    return found


def _number(message: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    while True:
        byte = message[at]
        found |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return found, at


def every(message: Message, number: int) -> Iterator[bytes]:
    """The texts, bytes or messages of a field."""
    return (value for value in message.get(number, ()) if isinstance(value, bytes))


def first(message: Message, number: int) -> bytes:
    """The first of them; empty if there is none."""
    return next(every(message, number), b"")


def text(message: Message, number: int) -> str:
    """The first of them as a text."""
    return first(message, number).decode()


def written(number: int, value: bytes | int) -> bytes:
    """A field of a message: a number, or a text, bytes or a message."""
    if isinstance(value, int):
        return _written_number(number << 3) + _written_number(value)
    return _written_number(number << 3 | _BYTES) + _written_number(len(value)) + value


def _written_number(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


Change = Callable[[bytes], Generator[None, None, bytes]]
"""The steps of changing a message."""


def changing(changes: Mapping[int, Change]) -> Change:
    """The change of a message that changes each of its fields with these numbers, and keeps all others."""

    def change(message: bytes) -> Generator[None, None, bytes]:
        parts, kept = [], 0
        for number, value, begin, end in _entries(message):
            if number in changes and isinstance(value, bytes):
                new = yield from changes[number](value)
                if new is not value:
                    parts += [message[kept:begin], written(number, new)]
                    kept = end
        return b"".join([*parts, message[kept:]]) if parts else message

    return change


# ── expressions ──


def expression(serialized: bytes) -> bytes:
    """The expression of a compiled one, serialized: a `cel.expr.CheckedExpr` in an `Any`."""
    return first(fields(first(fields(serialized), _CHECKED)), _EXPRESSION)


def is_empty_list(message: bytes) -> bool:
    """True for the expression `[]`, over which `cel.bind` loops."""
    return any(not first(fields(items), 1) for items in every(fields(message), LIST))


class Maker:
    """Creates expressions with new ids."""

    def __init__(self) -> None:
        self._ids = itertools.count(1 << 20)  # the parser counts from 1

    def call(self, function: str, *arguments: bytes, of: bytes | None = None) -> bytes:
        """A call; `of` is the target of a member function."""
        target = b"" if of is None else written(1, of)
        return self._form(CALL, target + written(2, function.encode()) + b"".join(written(3, each) for each in arguments))

    def name(self, name: str) -> bytes:
        """An identifier."""
        return self._form(IDENTIFIER, written(1, name.encode()))

    def items(self, *items: bytes) -> bytes:
        """A list."""
        return self._form(LIST, b"".join(written(1, each) for each in items))

    def no_entries(self) -> bytes:
        """An empty map."""
        return self._form(STRUCT, b"")

    def truth(self, value: bool) -> bytes:
        """A constant: true or false."""
        return self._form(CONSTANT, written(2, int(value)))

    def integer(self, value: int) -> bytes:
        """A constant number that is not negative."""
        return self._form(CONSTANT, written(3, value))

    def text(self, value: str) -> bytes:
        """A constant text."""
        return self._form(CONSTANT, written(6, value.encode()))

    def loop(self, over: bytes, names: Sequence[str], collected: str, parts: Sequence[bytes]) -> bytes:
        """A loop with one or two variables; `parts` are the beginning of `collected`, the condition of a step, the step, the result."""
        variables = [written(number, name.encode()) for number, name in zip((1, 8), names, strict=False)]
        body = [written(number, part) for number, part in zip((4, 5, 6, 7), parts, strict=True)]
        return self._form(COMPREHENSION, b"".join([variables[0], written(2, over), written(3, collected.encode()), *body, *variables[1:]]))

    def bound(self, name: str, value: bytes, result: bytes) -> bytes:
        """An expression with a name bound to a value: `cel.bind`, a loop over nothing."""
        return self.loop(self.items(), ["#unused"], name, [value, self.truth(False), self.name(name), result])

    def _form(self, form: int, message: bytes) -> bytes:
        return written(ID, next(self._ids)) + written(form, message)


def calling(functions: Iterable[str]) -> Callable[[bytes], object]:
    """The check if an expression may contain a call of one of these functions: false if it does not."""
    return re.compile(b"|".join(re.escape(function.encode()) for function in functions)).search


def rewritten(
    serialized: bytes, functions: Iterable[str], replace: Callable[[Message, Maker], bytes | None]
) -> Generator[None, None, bytes]:
    """The steps of applying `replace` to each call of these functions in a serialized compiled expression, inner ones first.

    `replace` returns None for a call that does not change. There is one step for each expression within.
    """
    maker = Maker()
    has_call = calling(functions)

    def of(expression: bytes) -> Generator[None, None, bytes]:
        yield
        if not has_call(expression):
            return expression
        found = yield from changing(inside)(expression)
        call = first(fields(found), CALL)
        instead = replace(fields(call), maker) if call else None
        return found if instead is None else instead

    inside = {form: changing(dict.fromkeys(numbers, of)) for form, numbers in _NESTED.items()}
    inside[STRUCT] = changing({2: changing({3: of, 4: of})})
    return changing({_CHECKED: changing({_EXPRESSION: of})})(serialized)
