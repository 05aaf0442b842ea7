"""JSON, and the values of YAML, decoded into structs, as tolerant as Kubernetes; the fields of manifests that Kubernetes does not know.

The fast path is msgspec, from JSON bytes to a struct. Kubernetes' JSON is less strict than the structs in two points: null is the zero
value anywhere (`"creationTimestamp": null`, `"labels": null`), and a quantity may be a bare number. Objects that use either, and everything
from YAML, take the slow path: a pass along the struct's type repairs these two points, then msgspec converts the result. That pass also
gives better error messages.

Structs have the fields that decisions read; all others are skipped, because an API server may be newer. In a manifest written by hand, an
unknown field is most likely a spelling error, and the pod would be placed as if the field were absent: `unknown_fields` finds those that
Kubernetes does not know. The names come from the models of Kubernetes' official client; `make docs` writes them to `manifest_fields.json`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from wharfinger.errors import InvalidObject
from wharfinger.language.report import wording
from wharfinger.model.objects import metadata, quantity

MAX_DEPTH = 200  # Kubernetes objects are some fifteen levels deep
MAX_NAMED = 50
"""The most fields of one object that an error lists."""

_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
_OPEN, _CLOSED = (b"[", b"{"), (b"]", b"}")


class NotReadable(Exception):
    """The content of a file does not have the required format."""


# ── structs ──


T = TypeVar("T", bound=metadata.KubeStruct)
Decoded = TypeVar("Decoded")

_PLACE = re.compile(r"(?P<what>.*?)(?: - at `(?:key in )?\$\.?(?P<where>.*)`)?\Z", re.DOTALL)
_STEP = re.compile(r"\[\d+\]|[^.\[\]]+")
_NEUTRAL: Mapping[str, Any] = {"object": {}, "array": [], "str": "", "int": 0, "bool": False}
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


_ANYTHING = msgspec.json.Decoder()
NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError)
"""The exceptions for content that is not JSON."""


def decoded(decoder: msgspec.json.Decoder[Decoded], content: bytes | msgspec.Raw) -> Decoded:
    """The value that a decoder reads from an answer of the API server; raises what the decoder raises for content that is not JSON.

    Users may write 10,000 levels of lists into fields that Kubernetes does not read, such as the parameters of a ResourceClaim for its
    driver. Where that is too deep, values below `MAX_DEPTH` levels are read as null.
    """
    try:
        return decoder.decode(content)
    except RecursionError:
        return decoder.decode(_shallow(bytes(content)))


def _shallow(content: bytes) -> bytes:
    """JSON with null in place of values that are nested more than `MAX_DEPTH` levels deep."""
    kept, depth, at = [], 0, 0
    for found in _BRACKETS.finditer(content):
        bracket = found[0]
        if bracket in _OPEN:
            if depth == MAX_DEPTH:
                kept += [content[at : found.start()], b"null"]
            depth += 1
        elif bracket in _CLOSED:
            depth -= 1
            if depth == MAX_DEPTH:
                at = found.end()
    return b"".join(kept) + (content[at:] if depth <= MAX_DEPTH else b"")


def decode_json(raw: bytes | msgspec.Raw, kind: type[T]) -> T:
    """One object of `kind` from its JSON, read as by `decoded`; InvalidObject with the fields that cannot be read."""
    try:
        found: T = decoded(_decoder(kind), raw)
    except msgspec.ValidationError:
        return convert(parse_json(raw), kind)
    except NOT_JSON as error:
        raise InvalidObject(not_json(error)) from None
    return found


def parse_json(raw: bytes | msgspec.Raw) -> Any:
    """JSON as plain Python values; InvalidObject if it is not JSON."""
    try:
        return decoded(_ANYTHING, raw)
    except NOT_JSON as error:
        raise InvalidObject(not_json(error)) from None


def convert(plain: Any, kind: type[T]) -> T:
    """One object of `kind` from plain Python values (parsed YAML or JSON).

    InvalidObject lists the fields that cannot be read, one per line, at most `MAX_NAMED`.
    """
    problems: list[str] = []
    mended = _repair(plain, _type_of(kind), "", problems)
    while len(problems) < MAX_NAMED:
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
    more = len(problems) - MAX_NAMED
    raise InvalidObject("\n".join([*problems[:MAX_NAMED], f"{more} more fields cannot be read"] if more > 0 else problems))


def not_json(error: Exception) -> str:
    """The reason why bytes are not JSON: `not JSON: …`."""
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8 text"
    if isinstance(error, RecursionError):
        return "not JSON that can be read: its values are nested too deeply"
    reason = str(error).removeprefix("JSON is malformed: ").partition(" - at ")[0]
    return f"not JSON: {'it ends too early' if reason == 'Input data was truncated' else reason}"


def explain(message: str) -> str:
    """A validation message of msgspec with the field first: `spec.nodeName: expected text, got a whole number`."""
    found = _PLACE.match(message)
    what, where = (found["what"], found["where"]) if found else (message, None)
    what = re.sub(r"`([a-z]+(?: \| [a-z]+)*)`", _in_words, what)
    what = what[:1].lower() + what[1:]
    return f"{where}: {what}" if where else what


def _in_words(types: re.Match[str]) -> str:
    """The types of a message as plain text: `str | object | null` is text or an object."""
    names = [name for name in types[1].split(" | ") if name != "null"] or ["null"]
    return " or ".join(_WORDS[name] for name in names) if all(name in _WORDS for name in names) else types[0]


@cache
def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(kind)


@cache
def _type_of(kind: type[T]) -> inspect.Type:
    return inspect.type_info(kind)  # takes 2 ms, far longer than decoding an object


def _take_out(plain: Any, message: str) -> bool:
    """Remove the value that a message of msgspec refers to from `plain`, so that further errors can be found; True if that was possible."""
    found = _PLACE.match(message)
    where = (found and found["where"]) or ""
    steps = [int(step[1:-1]) if step[0] == "[" else step for step in _STEP.findall(where)]
    if not steps or "[...]" in where:
        return False
    for step in steps[:-1]:
        plain = plain[step]
    # All fields may be absent. In a list a value of the right type replaces it, so that the later ones keep their index.
    if isinstance(plain, dict):
        return plain.pop(steps[-1], None) is not None
    wanted = next((word for word in _NEUTRAL if message.startswith(f"Expected `{word}")), None)
    if not isinstance(plain, list) or wanted is None:
        return False
    plain[steps[-1]] = _NEUTRAL[wanted]
    return True


def _repair(value: Any, wanted: inspect.Type, where: str, problems: list[str]) -> Any:
    if isinstance(wanted, inspect.UnionType):
        members = [member for member in wanted.types if not isinstance(member, inspect.NoneType)]
        return _repair(value, members[0], where, problems) if len(members) == 1 and value is not None else value
    if isinstance(wanted, inspect.Metadata) and wanted.extra is not None and metadata.QUANTITY in wanted.extra:
        return _repair_quantity(value, where, problems)
    if isinstance(wanted, inspect.StructType) and isinstance(value, dict):
        return {
            field.encode_name: _repair(value[field.encode_name], field.type, _join(where, field.encode_name), problems)
            for field in wanted.fields
            if value.get(field.encode_name) is not None
        }
    if isinstance(wanted, inspect.DictType) and isinstance(value, dict):
        return {_key(key): _repair_entry(entry, wanted.value_type, f"{where}[{_key(key)!r}]", problems) for key, entry in value.items()}
    if isinstance(wanted, inspect.VarTupleType) and isinstance(value, list):
        return [_repair(entry, wanted.item_type, f"{where}[{index}]", problems) for index, entry in enumerate(value)]
    return value


def _repair_entry(value: Any, wanted: inspect.Type, where: str, problems: list[str]) -> Any:
    """An entry of a map, repaired; records wrong entries of a map of text here, because msgspec's message does not name the entry."""
    if isinstance(wanted, inspect.StrType):
        if value is None:
            return ""
        if not isinstance(value, str):
            hint = f" {value}; put it in quotes" if isinstance(value, bool | int | float) else ""
            problems.append(f"{where}: expected text, got {_word(value)}{hint:.64}")
            return ""
    return _repair(value, wanted, where, problems)


def _repair_quantity(value: Any, where: str, problems: list[str]) -> Any:
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
    """A key of a YAML map as it would be in JSON."""
    return str(key).lower() if isinstance(key, bool) else str(key)


def _word(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "a truth value", int: "a number", float: "a number"}
    return names.get(type(value), type(value).__name__)


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


# ── unknown fields ──


CHECKED_KINDS = frozenset(
    {
        ("", "Pod"),
        ("", "PodTemplate"),
        ("", "ReplicationController"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("apps", "Deployment"),
        ("apps", "DaemonSet"),
        ("batch", "Job"),
        ("batch", "CronJob"),
    }
)
"""(group, kind) of pods and of the objects with pod templates; only these are checked for unknown fields."""


def unknown_fields(manifest: Any, group: str, kind: str) -> tuple[str, ...]:
    """A sentence for each field of a manifest that Kubernetes does not know: `spec.nodeSelectr: unknown field; did you mean nodeSelector?`.

    `manifest` is plain Python values. Empty for a kind that is not in `CHECKED_KINDS`.
    """
    if (group, kind) not in CHECKED_KINDS:
        return ()
    return _sentences(_unknown(manifest, _known_fields().kinds[f"{group}/{kind}" if group else kind], ""))


def unknown_template_fields(template: Any, where: str) -> tuple[str, ...]:
    """A sentence for each field of a pod template that Kubernetes does not know; `where` is the path of the template."""
    return _sentences(_unknown(template, "PodTemplateSpec", where))


class _KnownFields(msgspec.Struct, frozen=True):
    """`kinds` is group/kind → type; `types` is type → field → type of the field or of its list's entries, "" if anything is allowed."""

    kinds: dict[str, str]
    types: dict[str, dict[str, str]]


@cache
def _known_fields() -> _KnownFields:
    return msgspec.json.decode(resources.files(__package__).joinpath("manifest_fields.json").read_bytes(), type=_KnownFields)


def _sentences(found: Iterator[tuple[str, str, Mapping[str, str]]]) -> tuple[str, ...]:
    sentences: list[str] = []
    more = 0
    budget = wording.LetterBudget()
    for where, name, known in found:
        if len(sentences) == MAX_NAMED:
            more += 1
            continue
        near = wording.closest(name, known, budget)
        sentences.append(f"{_join(where, name):.200}: unknown field" + (f"; did you mean {near}?" if near else ""))
    return (*sentences, f"{more} more unknown fields") if more else tuple(sentences)


def _unknown(value: Any, of: str, where: str) -> Iterator[tuple[str, str, Mapping[str, str]]]:
    """(path, name, known names at that path) of each unknown field; values of the wrong shape are left to decoding."""
    if isinstance(value, list):
        for index, entry in enumerate(value):
            if isinstance(entry, dict):
                yield from _unknown(entry, of, f"{where}[{index}]")
        return
    if not isinstance(value, dict):
        return
    known = _known_fields().types[of]
    for key, entry in value.items():
        nested = known.get(key)
        if nested is None:
            yield where, str(key), known
        elif nested:
            yield from _unknown(entry, nested, _join(where, key))
