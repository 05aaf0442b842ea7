"""Values of flags: those that are taken as they are are what typer makes of them."""

from enum import Enum
from typing import Annotated, Literal

import pytest
import typer
from typer.core import TyperCommand

from wharfinger.cli import flag_values


class Colour(Enum):
    RED = "red"


KINDS: dict[str, tuple[object, dict[str, float], list[object]]] = {
    "text": (str, {}, ["web", "", "ä", "10", b"a\xff".decode(errors="surrogateescape"), None]),
    "texts": (list[str], {}, [["a", "b"], ("a",), ["ö"], [], None]),
    "whole numbers": (int, {"min": 1, "max": 10}, ["1", "10", "0", "11", 5, 11, None]),
    "numbers": (float, {"min": 0.5}, ["0.5", "1e1", "0.4", 2.5, 1, None]),
    "choices": (Literal["text", "json"], {}, ["text", "json", "jsn", None]),
    "members": (Colour, {}, [Colour.RED, "red", "blue", None]),
    "truth values": (bool, {}, ["true", None]),
}
CASES = {f"{kind} {value!a}": (annotation, limits, value) for kind, (annotation, limits, values) in KINDS.items() for value in values}


def option(annotation, limits):
    app = typer.Typer(add_completion=False, rich_markup_mode=None)

    def command(flag: Annotated[annotation | None, typer.Option("--flag", **limits)] = None) -> None: ...

    app.command(cls=TyperCommand)(command)
    return typer.main.get_command(app).params[0]


def outcome(param, value):
    try:
        return param.get_runtime_param().coerce(value, param=param, ctx=None)
    except typer.BadParameter as error:
        return error.format_message()


@pytest.mark.parametrize(("annotation", "limits", "value"), CASES.values(), ids=CASES)
def test_the_value_is_that_of_typer(annotation, limits, value):
    expected = outcome(option(annotation, limits), value)
    (param,) = flag_values.taken_if_plain([option(annotation, limits)])
    assert outcome(param, value) == expected
