"""Arguments of built-in plugins: structs, whose fields say which values may be written for them.

Written values are checked by Pydantic, which gives a sentence for each fault (`written_arguments`). Most chains have none, and a command
that does not import Pydantic needs a fifth less CPU time. Plugins of other packages declare Pydantic models (`extension.Arguments`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Meta, Struct, structs

CHECK = "check"
"""The key in the metadata of a field under which `checked` has its function."""


class BuiltInArguments(Struct, frozen=True, kw_only=True, rename="camel"):
    """Arguments of a built-in plugin that takes none; a plugin with arguments declares a subclass. `__post_init__` may raise ValueError."""

    @classmethod
    def written_out(cls, values: Any) -> Any:
        """Written values with abbreviations written out."""
        return values


def checked(check: Callable[[Any], None]) -> Meta:
    """The metadata of a field with a check of its value, which raises ValueError."""
    return Meta(extra={CHECK: check})


def shown(arguments: Any) -> dict[str, Any]:
    """All arguments of a plugin as plain values of JSON, by the names in a file; without those that are None."""
    built_in = isinstance(arguments, BuiltInArguments)
    found: dict[str, Any] = _plain(arguments) if built_in else arguments.model_dump(mode="json", by_alias=True, exclude_none=True)
    return found


def differing(arguments: Any) -> dict[str, Any]:
    """The arguments of a plugin that differ from the defaults, as `shown`; of a plugin of another package all that were written."""
    if isinstance(arguments, BuiltInArguments):
        changed = {field.encode_name for field in structs.fields(arguments) if getattr(arguments, field.name) != field.default}
        return {name: value for name, value in _plain(arguments).items() if name in changed}
    found: dict[str, Any] = arguments.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        fields = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        return {name: _plain(inner) for name, field in fields if (inner := getattr(value, field)) is not None}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value
