"""Field types of the settings: the base class, flags, file paths, durations such as `15s`, and URLs of servers."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationInfo, field_validator
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from wharfinger.framework import chain_settings


class Part(BaseModel):
    """A part of the settings: names in camelCase, nothing unknown.

    A setting is one field definition: its type and limits, its description (a row of docs/operating/running.md), and its `Flag`, if it has
    one, with the description as help.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, defer_build=True, allow_inf_nan=False
    )

    @field_validator("*", mode="before")
    @classmethod
    def _numbers_are_numbers(cls, value: Any, field: ValidationInfo) -> Any:
        return chain_settings.number(value) if cls.model_fields[field.field_name or ""].annotation is int else value


class Flag(Struct, frozen=True):
    """The flag of `wharf run` that sets a field, such as `--port` or `--leader-elect/--no-leader-elect`."""

    name: str
    metavar: str | None = None


class Setting(Struct, frozen=True):
    """A field of the settings: its path, with `[]` after a list and `<name>` for a key of a mapping, and the type of its values."""

    path: tuple[str, ...]
    field: FieldInfo
    type: Any

    @property
    def flag(self) -> Flag | None:
        """The flag that sets it."""
        return next((each for each in self.field.metadata if isinstance(each, Flag)), None)

    @property
    def help(self) -> str:
        """The description of the setting, and its default."""
        default = self.field.default
        if isinstance(default, bool):
            default = "true" if default else "false"
        elif isinstance(default, float) and any(isinstance(each, PlainSerializer) for each in self.field.metadata):
            default = text(default)
        shown = isinstance(default, str | int | float) and default != ""
        return f"{self.field.description or ''}; default: {default}." if shown else f"{self.field.description or ''}."


def settings_of(model: type[Part], path: tuple[str, ...] = ()) -> Iterator[Setting]:
    """All fields below a model that are not models themselves."""
    for name, field in model.model_fields.items():
        alias = field.alias or name
        inner, below = _part_of(field.annotation)
        if inner is None:
            yield Setting((*path, alias), field, field.annotation)
        else:
            yield from settings_of(inner, (*path, alias + below))


def _part_of(annotation: Any) -> tuple[type[Part] | None, str]:
    """The model in an annotation, if there is one, and what its place adds to the path."""
    if isinstance(annotation, type) and issubclass(annotation, Part):
        return annotation, ""
    origin, found = typing.get_origin(annotation), [_part_of(each)[0] for each in typing.get_args(annotation)]
    inner = next((each for each in found if each is not None), None)
    return inner, "[]" if origin is tuple else ".<name>" if origin is not None and issubclass(_class(origin), typing.Mapping) else ""


def _class(origin: Any) -> type:
    return origin if isinstance(origin, type) else object


def _from_folder(path: str, info: ValidationInfo) -> str:
    """The path, taken from the folder of the file that it was read from."""
    folder: Path | None = (info.context or {}).get("folder")
    return path if folder is None or not path else str(folder / Path(path).expanduser())


AnyPath = Annotated[str, AfterValidator(_from_folder), PlainSerializer(lambda path: str(Path(path).absolute()), when_used="json")]
"""A path that is taken from the folder of its file, and written as one from the root."""

FilePath = Annotated[AnyPath, Field(min_length=1)]


_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_DURATION = Annotated[str, Field(pattern=f"^({_PART.pattern})+$")]
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(value: Any) -> Any:
    """The seconds of a duration's text; other values unchanged. ValueError for a text that is not a duration, and for `true`."""
    if isinstance(value, bool):  # a number to Python
        value = str(value).lower()
    if not isinstance(value, str):
        return value
    parts = _PART.findall(value)
    if not parts or "".join(number + unit for number, unit in parts) != value:
        raise ValueError(f"expected a duration such as 15s or 1m30s, not {value!r}")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def text(value: float) -> str:
    """A duration in seconds, in the form of a configuration file."""
    return f"{f'{value:.9f}'.rstrip('0').rstrip('.')}s"  # never as 1e-05s


Duration = Annotated[float, BeforeValidator(seconds, json_schema_input_type=float | _DURATION), PlainSerializer(text)]
"""Seconds in the program, `15s` in the file."""


def split(url: str) -> SplitResult | None:
    """The parts of a URL; None if it has none, or characters that no URL has."""
    if not url.isprintable() or " " in url:
        return None
    try:
        return urlsplit(url)
    except ValueError:  # brackets that are not around an IPv6 address
        return None


def is_http(parts: SplitResult) -> bool:
    """True if a host is contacted over HTTP."""
    return parts.scheme in {"http", "https"} and bool(parts.hostname)


def has_port(parts: SplitResult) -> bool:
    """True if the port can be one, if there is one."""
    try:
        return parts.port != 0
    except ValueError:
        return False
