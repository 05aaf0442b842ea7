"""The values of flags, as words of the command line or as defaults.

typer checks all of them by Pydantic, whose import takes a fifth of the CPU time of a short command. Here a value that is plainly right is
taken as it is, and typer gets the others, because it has the messages for what is wrong with them.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import Any, Final

import typer

from wharfinger import user_input

_PARSERS: Final[Mapping[Any, Callable[[str], float | None]]] = {int: user_input.whole_number, float: user_input.decimal_number}
_NOT_PLAIN: Final = object()


def taken_if_plain(params: list[Any]) -> list[Any]:
    """The same parameters of a command, which convert their values by `FlagValues` from now on."""
    for param in params:
        if "get_runtime_param" not in vars(param):
            vars(param)["get_runtime_param"] = partial(FlagValues, param, param.get_runtime_param)
    return params


class FlagValues:
    """Converts the values of a flag, as typer's own `RuntimeParam` does; `typers` returns that one.

    Numbers are written as `user_input` has them, which is stricter than typer.
    """

    def __init__(self, param: Any, typers: Callable[[], Any]) -> None:
        self._annotation = param.type_descriptor.annotation
        self._limits = param.type_descriptor.parameter_info.min, param.type_descriptor.parameter_info.max
        self._typers = typers

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value for the command; typer.BadParameter for one that does not fit."""
        taken = self._plain(value, param, ctx)
        return self._typers().coerce(value, param=param, ctx=ctx) if taken is _NOT_PLAIN else taken

    def _plain(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value for the command, or `_NOT_PLAIN`."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if self._annotation == list[str] and isinstance(value, list | tuple) and all(type(each) is str for each in value):
            return list(value)
        if self._annotation in _PARSERS:
            return self._number(value, param, ctx)
        if isinstance(value, Enum) and type(value) is self._annotation:
            return value
        if type(value) is str and (self._annotation is str or value in _choices(self._annotation)):
            return value
        return _NOT_PLAIN

    def _number(self, value: Any, param: Any, ctx: Any) -> Any:
        parse = _PARSERS[self._annotation]
        number = parse(value) if isinstance(value, str) else value
        if number is None:
            wanted = "a whole number; write digits, such as 5" if self._annotation is int else "a number; write one such as 5 or 0.5"
            raise typer.BadParameter(f"{value!r} is not {wanted}.", ctx=ctx, param=param)
        low, high = self._limits
        fits = type(number) is self._annotation and (low is None or low <= number) and (high is None or number <= high)
        return number if fits else _NOT_PLAIN


def _choices(annotation: Any) -> tuple[Any, ...]:
    return typing.get_args(annotation) if typing.get_origin(annotation) is typing.Literal else ()
