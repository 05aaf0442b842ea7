"""The messages of cluster-autoscaler's expander, and Kubernetes objects inside them as manifests.

The classes are made from `expander.proto` when they are needed first: no generated code, and no compiler of protocol buffers. The file uses
a small part of the format: messages with optional, repeated and map fields of scalars and messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message

Field = descriptor_pb2.FieldDescriptorProto

SCALARS = {
    "string": Field.TYPE_STRING,
    "bytes": Field.TYPE_BYTES,
    "bool": Field.TYPE_BOOL,
    "int32": Field.TYPE_INT32,
    "int64": Field.TYPE_INT64,
}
_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^  (?:(optional|repeated) )?(?:map<(\w+), (\w+)>|(\w+)) (\w+) = (\d+);$", re.MULTILINE)
_INLINE = frozenset({"volumeSource"})  # messages whose fields stand directly in the JSON of the message that holds them


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A group of nodes that could grow: manifests of one of its nodes and of the pods that `count` of them would help."""

    name: str
    count: int
    node: Mapping[str, Any] | None
    pods: tuple[Mapping[str, Any], ...]


def options_of(request: bytes) -> tuple[Option, ...]:
    """The options of a BestOptionsRequest; `node` is None if the request has no node for the group. ValueError if it cannot be read."""
    read = _read("BestOptionsRequest", request)
    nodes = {name: manifest(node) for name, node in read.nodeMap.items()}
    nodes |= {name: manifest(_read("Node", content)) for name, content in read.nodeBytesMap.items()}
    return tuple(
        Option(
            name=option.nodeGroupId,
            count=option.nodeCount,
            node=nodes.get(option.nodeGroupId),
            pods=tuple(_pods(option)),
        )
        for option in read.options
    )


def _pods(option: Any) -> Iterator[Mapping[str, Any]]:
    """The pods of an option as manifests; a server of Kubernetes 1.35 or later sends them as bytes."""
    if option.podBytes:
        return (manifest(_read("Pod", content)) for content in option.podBytes)
    return map(manifest, option.pod)


def best_option(name: str, count: int, debug: str) -> bytes:
    """The BestOptionsResponse with one option."""
    response: Any = message_class("BestOptionsResponse")()
    response.options.add(nodeGroupId=name, nodeCount=count, debug=debug)
    content: bytes = response.SerializeToString()
    return content


def _read(kind: str, content: bytes) -> Any:
    try:
        return message_class(kind).FromString(content)
    except DecodeError as error:
        raise ValueError(f"{kind}: not a message of that kind") from error


def manifest(message: Message) -> dict[str, Any]:
    """A Kubernetes object as JSON has it: quantities and times as text, a number or a text for IntOrString."""
    found: dict[str, Any] = {}
    for field, value in message.ListFields():
        if field.name in _INLINE:
            found |= manifest(value)
        else:
            found[field.name] = _plain(field, value)
    return found


def _plain(field: Any, value: Any) -> Any:
    if field.message_type is None:
        return list(value) if field.is_repeated else value
    if field.message_type.GetOptions().map_entry:
        of_message = field.message_type.fields_by_name["value"].message_type is not None
        return {key: _object(each) if of_message else each for key, each in value.items()}
    return [_object(each) for each in value] if field.is_repeated else _object(value)


def _object(message: Any) -> Any:
    kind = message.DESCRIPTOR.name
    if kind == "Quantity":
        return message.string
    if kind in {"Time", "MicroTime"}:
        return datetime.fromtimestamp(message.seconds, UTC).isoformat()
    if kind == "IntOrString":
        return message.strVal if message.type else message.intVal
    return manifest(message)


@cache
def message_class(kind: str) -> type[Message]:
    """The class of a message."""
    found: type[Message] = message_factory.GetMessageClass(_pool().FindMessageTypeByName(kind))
    return found


@cache
def _pool() -> Any:
    """The descriptors of all messages of `expander.proto`."""
    text = Path(__file__).with_name("expander.proto").read_text("utf-8")
    file = descriptor_pb2.FileDescriptorProto(name="expander.proto", syntax="proto2")
    for kind, body in _MESSAGE.findall(text):
        described = file.message_type.add(name=kind)
        for label, key, value, single, name, number in _FIELD.findall(body):
            of = f"{kind}.{_entry(described, name, key, value)}" if key else single
            _field(described, name, int(number), of, repeated=bool(key) or label == "repeated")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def _entry(described: Any, name: str, key: str, value: str) -> str:
    """The name of the message of a map's entries, which is added to the message that has the map."""
    entry = described.nested_type.add(name=f"{name[0].upper()}{name[1:]}Entry")
    entry.options.map_entry = True
    _field(entry, "key", 1, key, repeated=False)
    _field(entry, "value", 2, value, repeated=False)
    return str(entry.name)


def _field(described: Any, name: str, number: int, of: str, *, repeated: bool) -> None:
    label = Field.LABEL_REPEATED if repeated else Field.LABEL_OPTIONAL
    field = described.field.add(name=name, number=number, label=label, json_name=name)
    if of in SCALARS:
        field.type = SCALARS[of]
    else:
        field.type, field.type_name = Field.TYPE_MESSAGE, f".{of}"
