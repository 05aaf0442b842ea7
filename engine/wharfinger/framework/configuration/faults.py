"""Faults of settings, as sentences that name the place and the fix.

Pydantic knows where a value does not fit; people also want to know what they may have meant.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import AfterValidator, BaseModel, ValidationError

from wharfinger.language.report import wording

Path = tuple[str | int, ...]

_AS_IN_PYTHON = re.compile(r"a valid (tuple|dictionary)(?: or instance of \w+)?")
_AS_IN_A_FILE = {"tuple": "a list", "dictionary": "a mapping"}


@dataclass(slots=True)
class Findings:
    """What is found while a document is read: faults stop it, notes do not. Each is `path: sentence`."""

    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def fault(self, path: Path, sentence: str) -> None:
        """Records a setting that cannot be followed."""
        self.faults.append(f"{shown(path)}: {sentence}")

    def note(self, path: Path, sentence: str) -> None:
        """Records a setting that has no effect."""
        self.notes.append(f"{shown(path)}: {sentence}")


def exactly(expected: str) -> AfterValidator:
    """What lets a field have no other value."""

    def check(value: str) -> str:
        if value != expected:
            raise ValueError(f"expected {expected}, not {value!r}")
        return value

    return AfterValidator(check)


def sentences(error: ValidationError, model: type[BaseModel], at: Path = ()) -> list[str]:
    """One sentence per fault, `path: what is wrong`; `at` is the path of the validated value."""
    return [_sentence(fault, model, at) for fault in error.errors(include_url=False)]


def shown(path: Sequence[str | int]) -> str:
    """A path as people write it: `profiles[0].plugins.score`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".") or "the document"


def _sentence(fault: Any, model: type[BaseModel], at: Path) -> str:
    path: Path = fault["loc"]
    where = shown((*at, *path))
    if fault["type"] == "extra_forbidden":
        fields = _fields_at(model, path[:-1])
        near = wording.closest(str(path[-1]), fields)
        there = f"there {'is' if len(fields) == 1 else 'are'} {', '.join(fields)}" if fields else "nothing can be set here"
        return f"{where}: there is no such field; {f'did you mean {near}?' if near else there}"
    if fault["type"] == "missing":
        return f"{where}: this field is needed"
    said = _AS_IN_PYTHON.sub(lambda found: _AS_IN_A_FILE[found[1]], fault["msg"].removeprefix("Value error, "))
    plain = isinstance(fault["input"], str | int | float) and fault["type"] != "value_error"
    return f"{where}: {said}" + (f", not {fault['input']!r}" if plain else "")


def _fields_at(model: type[BaseModel] | None, path: Path) -> list[str]:
    """The fields that a model takes at a path, as they are written in a file."""
    for step in path:
        if isinstance(step, int) or model is None:
            continue
        field = next((field for name, field in model.model_fields.items() if step in (field.alias, name)), None)
        model = None if field is None else _model_in(field.annotation)
    return [] if model is None else [field.alias or name for name, field in model.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model inside a type such as `tuple[Model, ...]` or `Model | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for inner in typing.get_args(annotation) if (found := _model_in(inner)) is not None), None)
