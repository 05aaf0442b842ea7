"""Decoding of single Kubernetes objects, forgiving exactly where Kubernetes is.

The fast way is msgspec straight from JSON bytes into a struct. Kubernetes' JSON is looser than the structs in two points: null stands for
the zero value anywhere (`"creationTimestamp": null`, `"labels": null`), and a quantity may be a bare number. Objects that stumble over
these, and everything that comes from YAML, take the slow way: a walk along the struct's own type that mends these two points, then
msgspec again. The walk also finds better words for what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from wharfinger.errors import InvalidObject
from wharfinger.model import objects_meta, quantity

T = TypeVar("T", bound=objects_meta.KubeStruct)

_PLACE = re.compile(r"(?P<what>.*?)(?: - at `(?:key in )?\$\.?(?P<where>.*)`)?\Z", re.DOTALL)
_STEP = re.compile(r"\[\d+\]|[^.\[\]]+")
_NEUTRAL: Mapping[str, Any] = {"object": {}, "array": [], "str": "", "int": 0, "bool": False}
MOST_TOLD = 50
"""Fields of one object that are told as unreadable; whoever mends them sees the next ones."""

_WORDS = {
    "object": "an object",
    "array": "a list",
    "str": "text",
    "int": "a whole number",
    "bool": "true or false",
    "null": "null",
    "float": "a number",
    "datetime": "a time",
}


def decode_json(raw: bytes | msgspec.Raw, kind: type[T]) -> T:
    """One object of `kind` from its JSON; InvalidObject names the field that cannot be read."""
    try:
        decoded: T = _decoder(kind).decode(raw)
    except msgspec.ValidationError:
        return convert(parse_json(raw), kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise InvalidObject(not_json(error)) from None
    return decoded


def parse_json(raw: bytes | msgspec.Raw) -> Any:
    """JSON as plain Python values; InvalidObject when it is not JSON."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise InvalidObject(not_json(error)) from None


def convert(plain: Any, kind: type[T]) -> T:
    """One object of `kind` from plain Python values (parsed YAML or JSON).

    InvalidObject names every field that cannot be read, a line each, `MOST_TOLD` of them at most.
    """
    problems: list[str] = []
    mended = _mend(plain, _type_of(kind), "", problems)
    while len(problems) < MOST_TOLD:
        try:
            converted = msgspec.convert(mended, kind)
        except (msgspec.ValidationError, RecursionError, ValueError) as error:
            problems.append(explain(str(error)))
            if not _take_out(mended, str(error)):
                break
        else:
            if not problems:
                return converted
            break
    more = len(problems) - MOST_TOLD
    raise InvalidObject("\n".join([*problems[:MOST_TOLD], f"{more} more fields cannot be read"] if more > 0 else problems))


def not_json(error: Exception) -> str:
    """Why bytes are not JSON: `not JSON: …`."""
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8 text"
    reason = str(error).removeprefix("JSON is malformed: ").partition(" - at ")[0]
    return f"not JSON: {'it ends too early' if reason == 'Input data was truncated' else reason}"


def explain(message: str) -> str:
    """A validation message of msgspec with the field first: `spec.nodeName: expected text, got a whole number`."""
    found = _PLACE.match(message)
    what, where = (found["what"], found["where"]) if found else (message, None)
    what = re.sub(r"`([a-z]+)(?: \| null)?`", lambda name: _WORDS.get(name[1], name[0]), what)
    what = what[:1].lower() + what[1:]
    return f"{where}: {what}" if where else what


@cache
def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(kind)


@cache
def _type_of(kind: type[T]) -> inspect.Type:
    return inspect.type_info(kind)  # 2 ms: far more than decoding an object with it


def _take_out(plain: Any, message: str) -> bool:
    """Whether the value that a message of msgspec is about could be taken out of `plain`, so that what else is wrong can be found."""
    found = _PLACE.match(message)
    where = (found and found["where"]) or ""
    steps = [int(step[1:-1]) if step[0] == "[" else step for step in _STEP.findall(where)]
    if not steps or "[...]" in where:
        return False
    for step in steps[:-1]:
        plain = plain[step]
    # All fields may be absent. In a list a value of the right type takes the place, so that the ones after it keep theirs.
    if isinstance(plain, dict):
        return plain.pop(steps[-1], None) is not None
    wanted = next((word for word in _NEUTRAL if message.startswith(f"Expected `{word}")), None)
    if not isinstance(plain, list) or wanted is None:
        return False
    plain[steps[-1]] = _NEUTRAL[wanted]
    return True


def _mend(value: Any, wanted: inspect.Type, where: str, problems: list[str]) -> Any:
    if isinstance(wanted, inspect.UnionType):
        members = [member for member in wanted.types if not isinstance(member, inspect.NoneType)]
        return _mend(value, members[0], where, problems) if len(members) == 1 and value is not None else value
    if isinstance(wanted, inspect.Metadata) and wanted.extra is not None and objects_meta.QUANTITY in wanted.extra:
        return _mend_quantity(value, where, problems)
    if isinstance(wanted, inspect.StructType) and isinstance(value, dict):
        return {
            field.encode_name: _mend(value[field.encode_name], field.type, _join(where, field.encode_name), problems)
            for field in wanted.fields
            if value.get(field.encode_name) is not None
        }
    if isinstance(wanted, inspect.DictType) and isinstance(value, dict):
        return {_key(key): _mend_entry(entry, wanted.value_type, f"{where}[{_key(key)!r}]", problems) for key, entry in value.items()}
    if isinstance(wanted, inspect.VarTupleType) and isinstance(value, list):
        return [_mend(entry, wanted.item_type, f"{where}[{index}]", problems) for index, entry in enumerate(value)]
    return value


def _mend_entry(value: Any, wanted: inspect.Type, where: str, problems: list[str]) -> Any:
    """An entry of a map of text; msgspec's own message does not say which entry is wrong, so it is said here."""
    if isinstance(wanted, inspect.StrType):
        if value is None:
            return ""
        if not isinstance(value, str):
            hint = f" {value}; put it in quotes" if isinstance(value, bool | int | float) else ""
            problems.append(f"{where}: expected text, got {_word(value)}{hint:.64}")
            return ""
    return _mend(value, wanted, where, problems)


def _mend_quantity(value: Any, where: str, problems: list[str]) -> Any:
    if value is None:
        return "0"
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = format(value)
    if not isinstance(value, str):
        problems.append(f"{where}: expected a quantity, got {_word(value)}")
        return "0"
    try:
        negative = quantity.nano(value) < 0
    except InvalidObject as error:
        problems.append(f"{where}: {error}")
        return "0"
    if negative:
        problems.append(f"{where}: {value!r} is negative")
        return "0"
    return value


def _key(key: Any) -> str:
    """A key of a YAML map as the JSON it stands for would have it."""
    return str(key).lower() if isinstance(key, bool) else str(key)


def _word(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "a truth value", int: "a number", float: "a number"}
    return names.get(type(value), type(value).__name__)


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
