"""The gRPC service for cluster-autoscaler (`--expander=grpc`): selects the node group to grow.

cluster-autoscaler waits for five seconds and then continues without a response, so a fast response is better than a perfect one. A request
that cannot be read is refused; its group of nodes is then chosen by the other expanders.

Messages are those of `expander.proto`; Kubernetes objects in them become manifests. The classes are made from that file when they are
needed first: no generated code, and no compiler of protocol buffers. It uses a small part of the format: messages with optional, repeated
and map fields of scalars and messages.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message
from msgspec import Struct

from wharfinger.errors import InvalidObject, UsageError
from wharfinger.framework.chain import Chain
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.what_if.node_groups import NodeGroup, RankedGroup, ranked_groups

SERVICE = "grpcplugin.Expander"
MAX_BYTES = 64 << 20  # of a request: thousands of pods for each of a dozen groups


T = TypeVar("T", bound=objects.KubeStruct)
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
_INLINE = frozenset({"volumeSource"})  # messages whose fields are directly in the JSON of the enclosing message


class Option(Struct, frozen=True, kw_only=True):
    """A group of nodes that could grow: manifests of one of its nodes and of the pods that `count` of them would help."""

    name: str
    count: int
    node: Mapping[str, Any] | None
    pods: tuple[Mapping[str, Any], ...]


class Certificate(Struct, frozen=True, kw_only=True):
    """The certificate of the server and its private key, PEM."""

    chain: bytes
    key: bytes


class Expander:
    """Answers for one chain on a state that others keep up to date; `report` gets a line for every group of every answer.

    `answered` is called for each request with its result (of `telemetry.metrics.ANSWERS`) and the seconds that it took.
    """

    def __init__(
        self,
        chain: Chain,
        state: ClusterState,
        report: Callable[[str], None],
        answered: Callable[[str, float], None] = lambda _result, _seconds: None,
    ) -> None:
        self._chain = chain
        self._state = state
        self._report = report
        self._answered = answered

    def best(self, request: bytes) -> bytes:
        """The answer to a BestOptionsRequest: the best group, and why. InvalidObject for a request that cannot be read."""
        options = _options(request)
        ranked = ranked_groups(self._chain, self._state, [_group(option) for option in options if option.node is not None])
        for option in options:
            if option.node is None:
                self._report(f"{option.name}: left out, as the request has no node of it")
        if not ranked:
            raise InvalidObject("no option of the request has a node")
        for place, found in enumerate(ranked):
            self._report(f"{found.name}: {found}{_chosen(ranked) if not place else ''}")
        counts = {option.name: option.count for option in options}
        return _best_option(ranked[0].name, counts[ranked[0].name], f"wharfinger: {ranked[0]}")

    async def serve(self, address: str, certificate: Certificate | None) -> Any:
        """The running server. UsageError if it cannot listen there."""
        server = grpc.aio.server(options=[("grpc.max_receive_message_length", MAX_BYTES)])
        handler = grpc.unary_unary_rpc_method_handler(self._answer)
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {"BestOptions": handler})])
        try:
            if certificate is None:
                server.add_insecure_port(address)
            else:
                server.add_secure_port(address, grpc.ssl_server_credentials([(certificate.key, certificate.chain)]))
        except (RuntimeError, ValueError) as error:
            raise UsageError(f"--listen {address}: {error}") from error
        await server.start()
        return server

    async def _answer(self, request: bytes, context: Any) -> bytes:
        began, result, refusal = time.monotonic(), "failed", ""
        try:
            answer = self.best(request)
            result = "answered"
        except InvalidObject as error:
            result, refusal = "refused", str(error)
        finally:
            self._answered(result, time.monotonic() - began)  # before the answer is sent: whoever has it finds it counted
        if refusal:
            self._report(f"a request was refused: {refusal}")
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, refusal)
        return answer


def _options(request: bytes) -> Sequence[Option]:
    """The options of a request; InvalidObject if it cannot be read."""
    try:
        return _decoded(request)
    except (ValueError, OverflowError, OSError) as error:  # OSError for a time beyond what the machine knows
        raise InvalidObject(f"the request cannot be read: {error}") from error


def _group(option: Option) -> NodeGroup:
    node = _converted(option, dict(option.node or {}), objects.Node)
    pods = [_converted(option, _pending(pod), objects.Pod) for pod in option.pods]
    limit = max(1, len(pods))  # further nodes would be empty
    return NodeGroup(name=option.name, node=node, count=min(max(1, option.count), limit), pods=tuple(map(PodView, pods)))


def _converted(option: Option, found: Mapping[str, Any], kind: type[T]) -> T:
    """An object of an option. InvalidObject with the names of both if it cannot be read."""
    try:
        return decode.convert(found, kind)
    except InvalidObject as error:
        name = found.get("metadata", {}).get("name", "")
        raise InvalidObject(f"group {option.name}, {kind.__name__} {name}: {error}") from None


def _pending(pod: Any) -> dict[str, Any]:
    """The pod without a node: cluster-autoscaler may have put one there while it simulated."""
    return {**pod, "spec": {**pod.get("spec", {}), "nodeName": ""}}


def _chosen(ranked: Sequence[RankedGroup]) -> str:
    """The reason why the first group was chosen."""
    first, others = ranked[0], ranked[1:]
    if not others:
        return "; chosen: the only one"
    second = others[0]
    for what, better in (
        ("more pods placed", first.placed > second.placed),
        ("the policies prefer its nodes", first.points > second.points),
        ("fewer nodes", first.nodes < second.nodes),
        ("less left free", first.free < second.free),
    ):
        if better:
            return f"; chosen: {what}"
    return "; chosen: first by name of equal ones"


def _decoded(request: bytes) -> tuple[Option, ...]:
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


def _best_option(name: str, count: int, debug: str) -> bytes:
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
