"""Reads written arguments of plugins: Pydantic checks them against the struct, or the Pydantic model, that the plugin declares."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Annotated, Any

from msgspec import inspect
from pydantic import GetPydanticSchema, TypeAdapter

from wharfinger.framework.arguments import CHECK, BuiltInArguments


def read(model: Any, values: Any) -> Any:
    """The arguments of a plugin that declares this struct or Pydantic model; pydantic.ValidationError for values that do not fit."""
    if issubclass(model, BuiltInArguments):
        return _validator(model).validate_python(values)
    return model.model_validate(values)


def names_at(model: type[BuiltInArguments], path: Sequence[str | int]) -> list[str]:
    """The fields of a struct at a path, as they are written in a file; empty where there are none."""
    found = _struct_in(inspect.type_info(model))
    for step in path:
        if isinstance(step, str) and found is not None:
            field = next((field for field in found.fields if step in (field.encode_name, field.name)), None)
            found = None if field is None else _struct_in(field.type)
    return [] if found is None else [field.encode_name for field in found.fields]


def _struct_in(kind: inspect.Type) -> inspect.StructType | None:
    """The struct inside a type such as `tuple[Struct, ...]` or `Struct | None`."""
    match kind:
        case inspect.StructType():
            return kind
        case inspect.VarTupleType():
            return _struct_in(kind.item_type)
        case inspect.Metadata():
            return _struct_in(kind.type)
        case inspect.UnionType():
            return next((found for inner in kind.types if (found := _struct_in(inner)) is not None), None)
    return None


@cache
def _validator(model: type[BuiltInArguments]) -> TypeAdapter[Any]:
    schema = _schema(inspect.type_info(model))
    return TypeAdapter(Annotated[Any, GetPydanticSchema(lambda _source, _handler: schema)])


def _schema(kind: inspect.Type) -> Any:
    """The schema of Pydantic for a type of fields that arguments have."""
    match kind:
        case inspect.Metadata():
            inner = _schema(kind.type)
            check = (kind.extra or {}).get(CHECK)
            return inner if check is None else _after(inner, partial(_checked, check))
        case inspect.StructType():
            return _of_struct(kind)
        case inspect.VarTupleType():
            items = {"items_schema": [_schema(kind.item_type)], "variadic_item_index": 0}
            return {**_limited("tuple", min_length=kind.min_length), **items}
        case inspect.DictType():
            return {"type": "dict", "keys_schema": _schema(kind.key_type), "values_schema": _schema(kind.value_type)}
        case inspect.UnionType():
            (inner,) = (_schema(each) for each in kind.types if not isinstance(each, inspect.NoneType))
            return {"type": "nullable", "schema": inner}
    return _of_scalar(kind)


def _of_scalar(kind: inspect.Type) -> Any:
    match kind:
        case inspect.IntType():
            return _limited("int", ge=kind.ge, le=kind.le)
        case inspect.StrType():
            return _limited("str", min_length=kind.min_length, pattern=kind.pattern)
        case inspect.BoolType():
            return {"type": "bool"}
        case inspect.AnyType():
            return {"type": "any"}
    raise TypeError(f"arguments of plugins have no fields of the type {kind}")


def _checked(check: Any, value: Any) -> Any:
    check(value)
    return value


def _of_struct(kind: inspect.StructType) -> Any:
    fields = {
        field.name: {
            "type": "typed-dict-field",
            "schema": _of_field(field),
            "required": field.required,
            "validation_alias": [[field.encode_name], [field.name]],
        }
        for field in kind.fields
    }
    made: Any = kind.cls
    read = _after({"type": "typed-dict", "fields": fields, "extra_behavior": "forbid"}, lambda values: made(**values))
    return {"type": "function-before", "function": {"type": "no-info", "function": made.written_out}, "schema": read}


def _of_field(field: inspect.Field) -> Any:
    if isinstance(field.type, inspect.LiteralType):  # messages name the default first
        return {"type": "literal", "expected": sorted(field.type.values, key=lambda value: value != field.default)}
    return _schema(field.type)


def _after(schema: Any, function: Any) -> Any:
    return {"type": "function-after", "function": {"type": "no-info", "function": function}, "schema": schema}


def _limited(name: str, **limits: Any) -> dict[str, Any]:
    return {"type": name, **{limit: value for limit, value in limits.items() if value is not None}}
